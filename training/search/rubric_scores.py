"""Scores of rubrics on the candidates of one base log. The candidates are never generated again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import Model, ModelOutput
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import collect

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question, Split
from truthgym.scorers.graders.grader import GraderInput, grade
from truthgym.scorers.rubrics.grading import by_criteria
from truthgym.scorers.rubrics.reward import Protocol, RubricReward
from truthgym.scorers.rubrics.rubric import Rubric, digest
from truthgym.solvers.prepare import prepare
from truthgym.solvers.roles import model_fingerprint
from truthgym.training.search.candidates import Prompt
from truthgym.training.search.objective import Array, PromptScores, rounded

DOMAIN = "rubric_search"
Graded = list[tuple[float | None, list[float | None]]]
"""Of each candidate of a prompt, its score, None if it has none, and the score of each vote."""


@solver
def replay() -> Solver:
    """Solver of the base log: the candidate's text is the model's output. Makes no model call."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.output = ModelOutput.from_content("replay", state.metadata["candidate"])
        state.messages.append(state.output.message)
        return state

    return solve


def write_base_log(prompts: Sequence[Prompt], held_out: set[str], folder: Path) -> EvalLog:
    """Write the candidates to an Inspect log, a sample each, on which any rubric can be scored with `inspect score`."""
    samples = [
        Sample(
            id=f"{prompt.prompt_id}/{candidate.candidate_id}",
            input=prompt.prompt,
            metadata=_question(prompt, held_out).model_dump(mode="json")
            | {"candidate": candidate.text, "source": candidate.source, **candidate.metadata},
        )
        for prompt in prompts
        for candidate in prompt.candidates
    ]
    task = Task(name="rubric_candidates", dataset=samples, setup=prepare(), solver=replay())
    log = eval(task, model=None, display="none", log_dir=str(folder), log_realtime=False, epochs=1)[0]
    if log.status != "success":
        raise BadInput(f"The base log could not be written: {log.error.message if log.error else log.status}")
    return log


def _question(prompt: Prompt, held_out: set[str]) -> Question:
    split: Split = "test" if prompt.prompt_id in held_out else "train"
    return Question(domain=DOMAIN, form="free", event=prompt.prompt_id, split=split)


class Scores:
    """Scores rubrics, each once on each prompt, and keeps the scores in a .jsonl file, by all that they depend on."""

    def __init__(
        self, protocol: Protocol, judges: Sequence[Model], labels: dict[str, Array], file: Path | None = None
    ) -> None:
        self.protocol, self.judges, self.labels, self.file = protocol, judges, labels, file
        self.calls = 0
        """Judge calls of this run: candidates x votes x judges."""
        self._cache = not all(getattr(judge.api, "simulated", False) for judge in judges)
        self._setting = digest([protocol.digest, [model_fingerprint(judge) for judge in judges]])
        self._graded: dict[str, Graded] = {}
        self._digests: dict[str, str] = {}
        self._lost = ""
        """Why a verifier could not be reached; such a prompt is not kept."""
        if file and file.is_file():
            for line in file.read_text(encoding="utf-8").splitlines():
                try:
                    row = json.loads(line)
                except ValueError:  # the last line of a run that was killed
                    continue
                if self._whole(row["scores"]):  # earlier versions wrote failures, too
                    self._graded[row["key"]] = [(score, votes) for score, votes in row["scores"]]

    async def score(self, rubric: Rubric, prompts: Sequence[Prompt]) -> list[PromptScores]:
        """A rubric's scores of all candidates of some prompts."""
        graded = await self._all(rubric, prompts)
        if graded and all(score is None for prompt in graded for score, _ in prompt):
            raise BadInput(
                f"No candidate could be scored by the rubric {rubric.name!r}; check that the verifier answers"
            )
        return [self._scores(prompt, grades) for prompt, grades in zip(prompts, graded, strict=True)]

    async def votes(self, rubric: Rubric, prompts: Sequence[Prompt]) -> list[list[float | None]]:
        """Every vote for every candidate of some prompts."""
        return [votes for prompt in await self._all(rubric, prompts) for _, votes in prompt]

    async def _all(self, rubric: Rubric, prompts: Sequence[Prompt]) -> list[Graded]:
        graded = await collect(*(self._prompt(rubric, prompt) for prompt in prompts))
        if self._lost:
            lost, self._lost = self._lost, ""
            raise BadInput(f"{lost}; see that the verifier answers, and repeat the command: what was scored is kept")
        return graded

    async def _prompt(self, rubric: Rubric, prompt: Prompt) -> Graded:
        if prompt.prompt_id not in self._digests:
            self._digests[prompt.prompt_id] = digest(prompt.model_dump(mode="json", include={"prompt", "candidates"}))
        key = digest([rubric.digest, self._setting, self._digests[prompt.prompt_id]])
        if key not in self._graded:
            reward = RubricReward(rubrics=(rubric.model_copy(update={"scope": "global", "applies_to": ""}),))
            grader = by_criteria(
                reward.model_copy(update={"protocol": self.protocol}), cache=self._cache, judges=self.judges
            )
            question = _question(prompt, set())
            grades = await collect(
                *(
                    grade(
                        grader,
                        GraderInput(
                            question, prompt.prompt, "", candidate.text, candidate.text, candidate.candidate_id, 1, {}
                        ),
                    )
                    for candidate in prompt.candidates
                )
            )
            lost = next(
                (answer.reason for answer in grades if answer.value is None and answer.fault == "unreachable"), None
            )
            if lost:
                self._lost = f"A candidate of the prompt {prompt.prompt_id!r} could not be scored. {lost}"
                return [(None, []) for _ in grades]
            self.calls += len(prompt.candidates) * self.protocol.votes * len(self.judges)
            scores: Graded = [(answer.value, list((answer.details or {}).get("votes", []))) for answer in grades]
            self._graded[key] = scores
            if self.file and self._whole(scores):
                with self.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "rubric": rubric.digest, "scores": scores}) + "\n")
        return self._graded[key]

    def _whole(self, scores: Graded) -> bool:
        """Whether every vote was read: what is missing is asked for again by the next run."""
        return all(len(votes) == self.protocol.votes * len(self.judges) for _, votes in scores)

    def _scores(self, prompt: Prompt, graded: Graded) -> PromptScores:
        valid = [np.array([vote for vote in votes if vote is not None]) for _, votes in graded]
        return PromptScores(
            np.array([np.nan if score is None else score for score, _ in graded]),
            np.array([votes.var(ddof=1) if votes.size > 1 else np.nan for votes in valid]),
            self.labels[prompt.prompt_id],
            tuple(candidate.source for candidate in prompt.candidates),
        )


def candidate_scores(prompt: Prompt, scores: PromptScores) -> dict[str, Any]:
    """The best candidate by a rubric, and the score of each; None where it has none."""
    by_id = {
        candidate.candidate_id: rounded(float(score))
        for candidate, score in zip(prompt.candidates, scores.scores, strict=True)
    }
    scored = {name: score for name, score in by_id.items() if score is not None}
    best = max(scored, key=lambda name: scored[name]) if scored else None
    return {"best_candidate_id": best, "candidate_scores": by_id}

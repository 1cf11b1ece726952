"""World in the loop: does what a model wrote help to predict what is then observed in the world?

    inspect eval truthgym/world_in_the_loop --model openai/gpt-5.4-mini --model-role forecaster=hf/...
    inspect eval truthgym/world_in_the_loop -T answers=logs/ --model hf/...
    inspect eval truthgym/world_in_the_loop -T domain=urns --model reference/bayesian \
      --model-role forecaster=reference/forecaster

The first scores answers of the run itself; the second those in finished logs, where the evaluated model is the
forecaster; the third knows how much each answer can be worth.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSample, read_eval_log_samples
from inspect_ai.model import ChatMessageAssistant
from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets.domains import DOMAINS, GENERATED, Domain, domain_questions
from truthgym.datasets.errors import BadInput, names_in
from truthgym.datasets.inspect_private import in_eval
from truthgym.datasets.loading.selection import Questions, exclusion_summary, select
from truthgym.evallog.discovery import LogFile, find_logs
from truthgym.scorers.beliefs.transcript import turns_of
from truthgym.scorers.declaration import Figures
from truthgym.scorers.forecasts.forecasting import Per, Template
from truthgym.scorers.world_uplift import FROM_LOG, forecasting_model, has_observation, world_uplift
from truthgym.solvers.prepare import prepare
from truthgym.tasks.domain_task import DomainTask, domain_task, notice, task, viewer

NO_OBSERVATION = "without an observation in the evidence"
VERSION = "2-A"


@task
def world_in_the_loop(
    answers: str | Sequence[str] | None = None,
    domain: Domain = "forecasting",
    evidence: str | None = None,
    template: Template = "vanilla",
    per: Per = "token",
    budgets: int | str | Sequence[int] = (),
    tasks: int = 5,
    agent: str = "react",
    arguments: Mapping[str, Any] | None = None,
    n: int | None = None,
    seed: int = 0,
    split: str = "all",
    system_prompt: str | Sequence[str] | None = None,
    figures: Figures = "headline",
) -> Task:
    """Score answers by what they add to a forecast of observations (`world_uplift`).

    Args:
        answers: Logs (.eval, .json) or folders of them whose answers are scored; several with commas. The evaluated
            model is then the forecaster, and no answer is generated. None: the evaluated model answers questions of
            `domain`, and the role `forecaster` forecasts.
        domain: Name of a domain, a file of your own questions, FILE.py@TASK, or {any of them: {argument: value}}. Not
            used with `answers`.
        evidence: As in `world_uplift`. Questions about which the evidence holds nothing are left out.
        template: "vanilla", "rephrase" or "toolcall": what the forecaster reads.
        per: Unit of the estimate: "token" of the observation, "observation", or "1000_tokens" of the answer.
        budgets: Numbers of tokens. The answer's beginning of each length is scored as well.
        tasks: Tasks that an investigator proposes for each question.
        agent: The investigator's agent.
        arguments: The agent's arguments, if it is not "react".
        n: Number of questions, or of answers.
        seed: Seed of the draws.
        split: "train", "validation", "test" or "all". Not used with `answers`.
        system_prompt: As in the domains' tasks. Not used with `answers`.
        figures: "headline" writes at most ten metrics to the log, "all" every one.
    """
    options: dict[str, Any] = {"evidence": evidence, "template": template, "per": per, "budgets": budgets}
    options |= {"tasks": tasks, "agent": agent, "arguments": arguments, "seed": seed, "figures": figures}
    if answers is None:
        questions = _questions(domain, evidence, n, seed, split)
        return domain_task(questions, {"world_uplift": options}, [], system_prompt, version=VERSION)
    if in_eval():  # what cannot forecast is one clear error, before any sample
        forecasting_model(only_model=True)
    recorded = recorded_answers(names_in(answers), evidence, n, seed)
    summary = exclusion_summary(recorded)
    if summary:
        notice(summary)
    return DomainTask(
        dataset=recorded,
        setup=prepare(None, ["investigator"] if evidence == "investigator" else []),
        solver=repeat_answer(),
        scorer=world_uplift(**options),
        version=VERSION,
        metadata={"left_out": dict(recorded.dropped)} if recorded.dropped else None,
        viewer=viewer(["world_uplift"]),
    )


def _questions(domain: Domain, evidence: str | None, n: int | None, seed: int, split: str) -> Questions:
    name = domain if isinstance(domain, str) else next(iter(domain), "")
    in_file = evidence not in ("outcome", "investigator") and not (evidence is None and name in GENERATED)
    part = {"part": "all"} if in_file and getattr(DOMAINS.get(name), "parts", None) else {}
    _, questions = domain_questions(domain, {"n": None if in_file else n, "seed": seed, "split": split, **part})
    if not in_file:
        return questions
    dropped = questions.dropped
    observable = [item for item in questions if has_observation(evidence, str(item.id), generated=False)]
    dropped[NO_OBSERVATION] += len(questions) - len(observable)
    if not observable:
        raise BadInput(
            f"world_in_the_loop: evidence={evidence or 'bundled'} has no observation about the {len(questions)} "
            f"questions of {name}; write -T evidence=outcome, or evidence=FILE with observations about them"
        )
    selected = select("world_in_the_loop", observable, n=n, seed=seed, dropped=dropped)
    selected.notice, selected.digest = questions.notice, questions.digest
    return selected


def recorded_answers(places: Sequence[str], evidence: str | None, n: int | None, seed: int) -> Questions:
    """The answers in finished logs, as questions."""
    logs, dropped = find_logs(places)
    identities: set[tuple[object, ...]] = set()

    def samples() -> Iterator[Sample]:
        for log in logs:
            for sample in read_eval_log_samples(log.path, all_samples_required=False, resolve_attachments=True):
                identity = (log.header.eval.model, log.header.eval.task, log.solver, sample.id, sample.epoch)
                answer = "\n\n".join(turn.text.strip() for turn in turns_of(sample))
                reason = _problem(sample, answer, evidence)
                if identity in identities or reason:
                    dropped["that another log here repeats" if identity in identities else str(reason)] += 1
                    continue
                identities.add(identity)
                yield _sample(sample, answer, log)

    return select("world_in_the_loop", samples(), n=n, seed=seed, dropped=dropped)


def _sample(sample: EvalSample, answer: str, log: LogFile) -> Sample:
    model = log.header.eval.model
    setup = sha256(repr((log.header.eval.task, log.solver)).encode()).hexdigest()[:6]
    about = {"question": str(sample.id), "model": model, "setup": setup, "epoch": sample.epoch, "answer": answer}
    about[FROM_LOG] = log.path
    return Sample(
        id=f"{sample.id}/{model}/{setup}/{sample.epoch}",
        input=sample.input,
        target=sample.target,
        metadata=sample.metadata | about,
    )


def _problem(sample: EvalSample, answer: str, evidence: str | None) -> str | None:
    if sample.error:
        return "that failed"
    if sample.invalidation:
        return "that were invalidated"
    if not answer:
        return "without an answer"
    observable = has_observation(evidence, str(sample.id), isinstance(sample.metadata.get("posterior"), list))
    return None if observable else NO_OBSERVATION


@solver
def repeat_answer() -> Solver:
    """Repeat the answer that a finished log holds. Makes no model call."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.messages.append(ChatMessageAssistant(content=state.metadata["answer"]))
        return state

    return solve

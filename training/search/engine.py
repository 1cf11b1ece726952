"""The search: a population of rubrics, changed by a proposer, scored on the base log, and selected.

All of its state is plain data, written after each generation. A run that was killed goes on from there and ends with
the same result: random numbers come from the saved generator, and models are asked with numbered draws.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from inspect_ai.model import Model

from truthgym.datasets.errors import BadInput
from truthgym.scorers.rubrics.rubric import Criterion, Rubric, digest, prompt_digest
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.training.files import write_atomically
from truthgym.training.search.config import SearchConfig
from truthgym.training.search.data import Prompt
from truthgym.training.search.mutation import (
    Credit,
    Mode,
    changed,
    choose_mode,
    mode_weights,
    perturb_weights,
    select,
)
from truthgym.training.search.objective import (
    Array,
    Objective,
    behavioural_distance,
    distinguished,
    objective,
    rounded,
    win_shares,
)
from truthgym.training.search.proposer import initial_rubric, revised_rubric
from truthgym.training.search.scoring import Scores

TRIES = 2
"""Times that offspring are asked for, for each place of the first population."""
GENERIC = Rubric(name="search", criteria=(Criterion(id="good", text="Is a good answer to the question."),))


def generic_rubric(config: SearchConfig) -> Rubric:
    """One criterion that names nothing, on the scale of new rubrics."""
    return changed(GENERIC, scale=config.scale, levels=("no", "in part", "yes") if config.scale == "ordinal" else ())


@dataclass(frozen=True)
class Writers:
    """The models that write rubrics."""

    initializer: Model
    proposer: Model


class Search:
    """One search over some prompts, for a global rubric or for one prompt's.

    Args:
        config: The options.
        prompts: The prompts to search with.
        scores: Scores of rubrics.
        writers: The models that write.
        file: The checkpoint; None keeps none.
        key: Digest of what must not change between a run and its continuation.
    """

    def __init__(
        self,
        config: SearchConfig,
        prompts: Sequence[Prompt],
        scores: Scores,
        writers: Writers,
        file: Path | None = None,
        key: str = "",
    ) -> None:
        self.config, self.prompts, self.scores, self.writers, self.file = config, prompts, scores, writers, file
        self.rng = np.random.default_rng([config.seed, int(prompt_digest(prompts[0].prompt)[:8], 16)])
        self.local = config.scope == "prompt_local"
        iterative = config.mode == "iterative"
        self.population_size = 1 if iterative else config.population
        self.offspring = 1 if iterative else config.mutations
        self.key = digest([config.digest, [prompt.prompt_id for prompt in prompts], key])
        self.state: dict[str, Any] = {
            "key": self.key, "generation": 0, "population": [], "seen": [], "credits": [], "history": [],
            "stagnation": 0, "draws": 0, "stopped": "", "unusable": 0,
        }  # fmt: skip

    async def run(self) -> Rubric:
        """Search, from the checkpoint if there is one, and return the best rubric."""
        if self.file and self.file.is_file():
            self._resume(self.file)
        if not self.state["population"]:
            await self.initialise()
        while self.state["generation"] < self.config.generations and not self.state["stopped"]:
            await self._generation()
            self._save()
        return self.best

    @property
    def population(self) -> list[Rubric]:
        """The rubrics, the best first."""
        return [Rubric.model_validate_json(json.dumps(one)) for one in self.state["population"]]

    @property
    def best(self) -> Rubric:
        """The best rubric."""
        return self.population[0]

    async def measure(self, rubric: Rubric, prompts: Sequence[Prompt] | None = None) -> Objective:
        """The objective of a rubric."""
        scored = await self.scores.score(rubric, self.prompts if prompts is None else prompts)
        return objective(scored, self.config.weights)

    async def initialise(self) -> None:
        """Make and score the first population."""
        first = await self.first()
        population, seen = [first], {first.digest}
        for attempt in range(TRIES * self.population_size):
            if len(population) >= self.population_size:
                break
            mode = choose_mode("fixed", {}, attempt, self.rng)
            child = await self.child(first, mode, self.prompts[attempt % len(self.prompts)])
            if isinstance(child, Rubric) and child.digest not in seen:
                population.append(child)
                seen.add(child.digest)
        self.state["seen"] = sorted(seen)
        await self._rank(population)
        self._save()

    async def first(self) -> Rubric:
        """The first rubric, by the option `initial`."""
        config = self.config
        scope = {"scope": "prompt", "applies_to": prompt_digest(self.prompts[0].prompt)} if self.local else {}
        base = changed(generic_rubric(config), **scope)
        if config.initial == "rubric":
            from truthgym.scorers.rubrics.reward import read_reward

            return changed(read_reward(config.initial_rubric)[0].rubrics[0], **scope)
        if config.initial == "generic":
            return base
        written = await initial_rubric(
            self.writers.initializer, [prompt.prompt for prompt in self.prompts], base, config.protocol.language
        )
        if isinstance(written, str):
            raise BadInput(f"The initializer wrote no rubric: {written}; name another, or give initial=generic")
        return written

    async def _generation(self) -> None:
        config, state = self.config, self.state
        population = self.population
        totals = [await self.measure(rubric) for rubric in population]
        best = totals[0]
        if self.local and config.stop_when_distinguished:
            [scored] = await self.scores.score(population[0], self.prompts)
            if distinguished(scored, config.protocol.votes * len(config.verifiers), config.distinguish_margin):
                state["stopped"] = "the best two answers are told apart"
                return
        hard = [self.prompts[i] for i in np.argsort(best.by_prompt, kind="stable")[: config.batch_size]]
        distances = await self._distances(population)
        chosen = select(
            [total.total.estimate for total in totals],
            1 if config.mode == "iterative" else config.parents,
            config.selection,
            lambda i, j: float(distances[i, j]),
            self.rng,
        )
        above = np.triu_indices(len(population), 1)
        diversity = float(distances[above].mean()) if len(population) > 1 else 0.0
        credits = [Credit(credit["mode"], credit["gain"]) for credit in state["credits"]]
        weights = mode_weights(config.schedule, credits, state["generation"] / config.generations, diversity)
        plans: list[tuple[Rubric, Mode, Prompt]] = []
        for i in range(self.offspring):
            mode = choose_mode(config.schedule, weights, len(credits) + i, self.rng)
            plans.append((population[chosen[i % len(chosen)]], mode, hard[i % len(hard)]))
        made = [await self.child(*plan) for plan in plans]
        state["unusable"] += sum(isinstance(one, str) for one in made)
        children: dict[str, tuple[Rubric, Rubric, Mode]] = {}
        for child, (parent, mode, _) in zip(made, plans, strict=True):
            if isinstance(child, Rubric) and child.digest not in state["seen"]:
                children.setdefault(child.digest, (child, parent, mode))
            else:
                state["credits"].append({"mode": mode, "gain": 0.0})
        survivors = await self._race(list(children.values()), hard)
        state["seen"] = sorted({*state["seen"], *children})
        await self._rank(population + survivors, elite=population[: config.elitism])
        after = await self.measure(self.best)
        self._record(best, after, diversity, len(children))

    async def _race(self, children: list[tuple[Rubric, Rubric, Mode]], hard: Sequence[Prompt]) -> list[Rubric]:
        """Score offspring on the hard prompts, and the better share of them on all. Each gets credit by itself."""
        stages = [hard, self.prompts] if len(hard) < len(self.prompts) and len(children) > 1 else [self.prompts]
        left = children
        for stage in stages:
            gains = []
            for child, parent, _ in left:
                after, before = await self.measure(child, stage), await self.measure(parent, stage)
                gains.append(after.total.estimate - before.total.estimate)
            order = sorted(range(len(left)), key=lambda i: (-gains[i], i))
            keep = len(left) if stage is self.prompts else max(1, round(self.config.survival * len(left)))
            for place, i in enumerate(order):
                if stage is self.prompts or place >= keep:
                    self.state["credits"].append({"mode": left[i][2], "gain": round(gains[i], 9)})
            left = [left[i] for i in order[:keep]]
        return [child for child, _, _ in left]

    async def child(self, parent: Rubric, mode: Mode, prompt: Prompt) -> Rubric | str:
        """A changed rubric, or why there is none."""
        if mode == "weight_perturb":
            return perturb_weights(parent, self.rng)
        self.state["draws"] += 1
        [scored] = await self.scores.score(parent, [prompt])
        pair = hard_pair(scored.scores, scored.preferred)
        if pair is None:
            return "The labels order no pair of this prompt."
        better, worse = (prompt.candidates[i].text for i in pair)
        return await revised_rubric(
            self.writers.proposer,
            mode,
            parent,
            prompt.prompt,
            better,
            worse,
            self.config.protocol.language,
            self.state["draws"],
        )

    async def _rank(self, rubrics: Sequence[Rubric], elite: Sequence[Rubric] = ()) -> None:
        """Make the population of the best rubrics; of equal ones the later stands first. The elite stays."""
        unique = {rubric.digest: rubric for rubric in rubrics}
        totals = {name: (await self.measure(rubric)).total.estimate for name, rubric in unique.items()}
        places = {name: i for i, name in enumerate(unique)}
        order = sorted(unique, key=lambda name: (-totals[name], -places[name]))
        kept = {rubric.digest for rubric in elite}
        room = max(self.population_size - len(kept), 0) if self.population_size > 1 else 0
        others = [name for name in order if name not in kept][:room]
        names = [name for name in order if name in kept or name in others] if self.population_size > 1 else order[:1]
        self.state["population"] = [unique[name].model_dump(mode="json") for name in names]

    async def _distances(self, population: Sequence[Rubric]) -> Array:
        orders = [[one.scores for one in await self.scores.score(rubric, self.prompts)] for rubric in population]
        return np.array([[behavioural_distance(order, other) for other in orders] for order in orders])

    def _record(self, before: Objective, after: Objective, diversity: float, offspring: int) -> None:
        state = self.state
        gain = mean_estimate(after.by_prompt - before.by_prompt)
        error = gain.stderr if np.isfinite(gain.stderr) else after.worth_of_a_pair
        improved = gain.estimate > max(error, 1e-9)
        state["generation"] += 1
        state["stagnation"] = 0 if improved else state["stagnation"] + 1
        if state["stagnation"] >= self.config.patience:
            margin = "its standard error" if np.isfinite(gain.stderr) else "one pair"
            state["stopped"] = f"no improvement larger than {margin} in {self.config.patience} generations"
        state["history"].append(
            {
                "generation": state["generation"],
                "best": rounded(after.total.estimate),
                "tail_acc": rounded(after.tail_acc),
                "diversity": round(diversity, 6),
                "offspring": offspring,
            }
        )

    def _save(self) -> None:
        if self.file:
            self.state["rng"] = self.rng.bit_generator.state
            write_atomically(self.file, json.dumps(self.state))

    def _resume(self, file: Path) -> None:
        state = json.loads(file.read_text(encoding="utf-8"))
        if state["key"] != self.key:
            raise BadInput(
                f"{file} is of a search with other prompts or options ({state['key'][:12]}, not {self.key[:12]}); give "
                "another folder with --out, or repeat the command that began it"
            )
        self.rng.bit_generator.state = state.pop("rng")
        self.state = state


def hard_pair(scores: Array, preferred: Array) -> tuple[int, int] | None:
    """The pair of good answers that a rubric should tell apart: the better and the worse; None if there is none.

    Among the pairs of the better half that the labels order, the one whose scores are furthest in the wrong order.
    """
    wins = win_shares(preferred)
    good = wins >= np.median(wins) - 1e-9
    pairs = [
        (float(np.nan_to_num(scores[i]) - np.nan_to_num(scores[j])), i, j)
        for i in range(len(scores))
        for j in range(len(scores))
        if good[i] and good[j] and preferred[i, j] == 1
    ]
    if not pairs:
        return None
    _, i, j = min(pairs)
    return i, j

"""The search: a population of rubrics, changed by a proposer, scored on the base log, and selected.

All of its state is plain data, written after each generation. A run that was killed goes on from there and ends with
the same result: random numbers come from the saved generator, and models are asked with numbered draws.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from inspect_ai.model import Model
from pydantic import Field, ValidationError

from truthgym.datasets.errors import BadInput
from truthgym.scorers.beliefs.escaping import material
from truthgym.scorers.judges.asking import Form, ask, form_instruction, judge_failure
from truthgym.scorers.rubrics.reward import PROMPTS, Language, fill, read_reward
from truthgym.scorers.rubrics.rubric import Criterion, Rubric, digest, prompt_digest
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.training.files import write_atomically
from truthgym.training.search.candidates import Prompt
from truthgym.training.search.config import Schedule, SearchConfig, Selection
from truthgym.training.search.objective import (
    Array,
    Objective,
    behavioural_distance,
    distinguished,
    objective,
    rounded,
    win_shares,
)
from truthgym.training.search.rubric_scores import Scores

Mode = Literal[
    "raise_bar", "decompose", "factual_focus", "anti_fluff", "counterexample_trigger", "weight_perturb"
]  # fmt: skip
MODES: tuple[Mode, ...] = get_args(Mode)
"""The ways of changing a rubric. The last needs no model."""
MOST_CRITERIA = 12
SHOWN_PROMPTS = 4


class Draft(Form):
    """One criterion as a model writes it."""

    text: str
    weight: float = Field(ge=0, le=1000)


class Drafts(Form):
    """A rubric as a model writes it."""

    reasons: str = Field(description="two or three sentences")
    criteria: list[Draft] = Field(
        min_length=1,
        max_length=MOST_CRITERIA,
        description='JSON list of objects {"text": what to look for, "weight": number from 1 to 3}',
    )


WORDINGS: dict[Language, dict[str, Any]] = json.loads(
    Path(__file__).with_name("wordings.json").read_text(encoding="utf-8")
)
"""What the writing models are asked: `rules`, `initial`, `revise`, and `modes` by name."""


async def initial_rubric(model: Model, prompts: Sequence[str], base: Rubric, language: Language) -> Rubric | str:
    """A rubric that the initialiser writes from some prompts, without seeing an answer; or why there is none."""
    texts = "\n\n".join(material("question", prompt) for prompt in prompts[:SHOWN_PROMPTS])
    return await _write(model, WORDINGS[language]["initial"], {"prompts": texts}, base, language, draw=0)


async def revised_rubric(
    model: Model, mode: Mode, rubric: Rubric, prompt: str, better: str, worse: str, language: Language, draw: int
) -> Rubric | str:
    """A rubric that the proposer writes from another one and two answers; or why there is none."""
    lines = "\n".join(f"- {criterion.text} ({criterion.weight:g})" for criterion in rubric.criteria)
    wording = WORDINGS[language]
    parts = {
        "mode": wording["modes"][mode],
        "rubric": material("rubric", lines),
        "question": material("question", prompt),
        "better": material("better", better),
        "worse": material("worse", worse),
    }
    return await _write(model, wording["revise"], parts, rubric, language, draw)


async def _write(
    model: Model, template: str, parts: dict[str, str], base: Rubric, language: Language, draw: int
) -> Rubric | str:
    form = PROMPTS[language].form
    request = fill(template, parts | {"rules": WORDINGS[language]["rules"], "form": form_instruction(Drafts, form)})
    try:
        answer = await ask(model, request, Drafts, epoch=1, name="rubric", draw=draw, instruction=form)
    except Exception as error:
        return judge_failure(model, error)
    if answer.form is None:
        return str(answer.reason)
    names: dict[str, int] = {}
    try:
        criteria = tuple(
            Criterion(id=_name(draft.text, names), text=draft.text, weight=draft.weight)
            for draft in answer.form.criteria
        )
        return changed(base, criteria=criteria)
    except ValidationError as error:
        return f"The rubric cannot be used ({error.errors()[0]['msg']})."


def _name(text: str, names: dict[str, int]) -> str:
    """An id for a criterion: its first words, with a number if another has them."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    name = "_".join(["c", *words])[:34].rstrip("_")
    names[name] = names.get(name, 0) + 1
    return name if names[name] == 1 else f"{name}_{names[name]}"


def perturb_weights(rubric: Rubric, rng: np.random.Generator) -> Rubric:
    """The rubric with one weight halved or doubled, within 0.25 and 8. Needs no model."""
    place = int(rng.integers(len(rubric.criteria)))
    factor = float(rng.choice([0.5, 2.0]))
    criteria = list(rubric.criteria)
    weight = float(np.clip(max(criteria[place].weight, 0.25) * factor, 0.25, 8))
    criteria[place] = criteria[place].model_copy(update={"weight": weight})
    return changed(rubric, criteria=tuple(criteria))


def changed(rubric: Rubric, **fields: Any) -> Rubric:
    """A validated copy of a rubric with other fields."""
    return Rubric.model_validate({name: getattr(rubric, name) for name in Rubric.model_fields} | fields)


TRIES = 2
"""Times that offspring are asked for, for each place of the first population."""
GENERIC = Rubric(name="search", criteria=(Criterion(id="good", text="Is a good answer to the question."),))
EXPLORING = ("decompose", "counterexample_trigger", "weight_perturb")
"""The modes that lead further away; the others refine."""
LEAST = 0.1
"""The least weight of a mode, so that each is tried again."""
WINDOW = 10
"""The last offspring of a mode from which `success_feedback` weighs it."""
EARLY = 0.3
"""Share of the generations in which `exploration_decay` explores."""
ENOUGH_DIVERSITY = 0.1
"""Mean behavioural distance in a population at which `diversity_driven` stops exploring more than it refines."""
TOURNAMENT = 3
TOURNAMENT_BEST = 0.8
"""Probability that a tournament's best entrant wins; else another does at random."""
TOP_SHARE = 0.3
TOP_DIVERSITY = 0.3
"""Weight of the distance to those already selected, in `top_k`."""


def generic_rubric(config: SearchConfig) -> Rubric:
    """One criterion that names nothing, on the scale of new rubrics."""
    return changed(GENERIC, scale=config.scale, levels=("no", "in part", "yes") if config.scale == "ordinal" else ())


class Search:
    """One search, for a global rubric or one prompt's; `key` is the digest of what a continuation must not change."""

    def __init__(
        self, config: SearchConfig, prompts: Sequence[Prompt], scores: Scores, file: Path | None = None, key: str = ""
    ) -> None:
        self.config, self.prompts, self.scores, self.file = config, prompts, scores, file
        self.rng = np.random.default_rng([config.seed, int(prompt_digest(prompts[0].prompt)[:8], 16)])
        self.local = config.scope == "prompt_local"
        self.iterative = config.mode == "iterative"
        self.population_size = 1 if self.iterative else config.population
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
            await self._initialise()
        while self.state["generation"] < self.config.generations and not self.state["stopped"]:
            await self._generation()
            self._save()
        return self.population[0]

    @property
    def population(self) -> list[Rubric]:
        """The rubrics, the best first."""
        return [Rubric.model_validate_json(json.dumps(rubric)) for rubric in self.state["population"]]

    async def measure(self, rubric: Rubric, prompts: Sequence[Prompt] | None = None) -> Objective:
        """The objective of a rubric, on the prompts of the search unless others are given."""
        scored = await self.scores.score(rubric, self.prompts if prompts is None else prompts)
        return objective(scored, self.config.weights)

    async def first(self) -> Rubric:
        """The first rubric, by the option `initial`."""
        config = self.config
        scope = {"scope": "prompt", "applies_to": prompt_digest(self.prompts[0].prompt)} if self.local else {}
        base = changed(generic_rubric(config), **scope)
        if config.initial == "rubric":
            return changed(read_reward(config.initial_rubric)[0].rubrics[0], **scope)
        if config.initial == "generic":
            return base
        texts = [prompt.prompt for prompt in self.prompts]
        written = await initial_rubric(config.initializer.load(), texts, base, config.protocol.language)
        if isinstance(written, str):
            raise BadInput(f"The initializer wrote no rubric: {written}; name another, or give initial=generic")
        return written

    async def _initialise(self) -> None:
        """Make and score the first population."""
        first = await self.first()
        population = {first.digest: first}
        for attempt in range(TRIES * self.population_size):
            if len(population) >= self.population_size:
                break
            child = await self._child(first, MODES[attempt % len(MODES)], self.prompts[attempt % len(self.prompts)])
            if isinstance(child, Rubric):
                population.setdefault(child.digest, child)
        self.state["seen"] = sorted(population)
        await self._rank(list(population.values()))
        self._save()

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
        parents = select(
            [total.total.estimate for total in totals],
            1 if self.iterative else config.parents,
            config.selection,
            lambda i, j: float(distances[i, j]),
            self.rng,
        )
        above = np.triu_indices(len(population), 1)
        diversity = float(distances[above].mean()) if len(population) > 1 else 0.0
        credits = [(credit["mode"], credit["gain"]) for credit in state["credits"]]
        weights = mode_weights(config.schedule, credits, state["generation"] / config.generations, diversity)
        plans: list[tuple[Rubric, Mode, Prompt]] = []
        for i in range(1 if self.iterative else config.mutations):
            mode = choose_mode(config.schedule, weights, len(credits) + i, self.rng)
            plans.append((population[parents[i % len(parents)]], mode, hard[i % len(hard)]))
        offspring = [await self._child(*plan) for plan in plans]
        state["unusable"] += sum(isinstance(child, str) for child in offspring)
        children: dict[str, tuple[Rubric, Rubric, Mode]] = {}
        for child, (parent, mode, _) in zip(offspring, plans, strict=True):
            if isinstance(child, Rubric) and child.digest not in state["seen"]:
                children.setdefault(child.digest, (child, parent, mode))
            else:
                state["credits"].append({"mode": mode, "gain": 0.0})
        survivors = await self._race(list(children.values()), hard)
        state["seen"] = sorted({*state["seen"], *children})
        await self._rank(population + survivors, elite=population[: config.elitism])
        self._record(best, await self.measure(self.population[0]), diversity, len(children))

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

    async def _child(self, parent: Rubric, mode: Mode, prompt: Prompt) -> Rubric | str:
        """A changed rubric, or why there is none."""
        if mode == "weight_perturb":
            return perturb_weights(parent, self.rng)
        self.state["draws"] += 1
        [scored] = await self.scores.score(parent, [prompt])
        pair = hard_pair(scored.scores, scored.preferred)
        if pair is None:
            return "The labels order no pair of this prompt."
        better, worse = (prompt.candidates[i].text for i in pair)
        model, language = self.config.proposer.load(), self.config.protocol.language
        return await revised_rubric(model, mode, parent, prompt.prompt, better, worse, language, self.state["draws"])

    async def _rank(self, rubrics: Sequence[Rubric], elite: Sequence[Rubric] = ()) -> None:
        """Make the population of the best rubrics; of equal ones the later stands first. The elite stays."""
        unique = {rubric.digest: rubric for rubric in rubrics}
        totals = {name: (await self.measure(rubric)).total.estimate for name, rubric in unique.items()}
        places = {name: i for i, name in enumerate(unique)}
        order = sorted(unique, key=lambda name: (-totals[name], -places[name]))
        if self.population_size > 1:
            staying = {rubric.digest for rubric in elite}
            others = [name for name in order if name not in staying][: max(self.population_size - len(staying), 0)]
            names = [name for name in order if name in staying or name in others]
        else:
            names = order[:1]
        self.state["population"] = [unique[name].model_dump(mode="json") for name in names]

    async def _distances(self, population: Sequence[Rubric]) -> Array:
        orders = [[prompt.scores for prompt in await self.scores.score(rubric, self.prompts)] for rubric in population]
        return np.array([[behavioural_distance(order, other) for other in orders] for order in orders])

    def _record(self, before: Objective, after: Objective, diversity: float, offspring: int) -> None:
        state = self.state
        gain = mean_estimate(after.by_prompt - before.by_prompt)
        error = gain.stderr if np.isfinite(gain.stderr) else after.worth_of_a_pair
        state["generation"] += 1
        state["stagnation"] = 0 if gain.estimate > max(error, 1e-9) else state["stagnation"] + 1
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


def mode_weights(
    schedule: Schedule, history: Sequence[tuple[Mode, float]], progress: float, diversity: float
) -> dict[Mode, float]:
    """Probabilities of the modes for the next offspring; they sum to 1.

    `history` has of each offspring its mode, and its objective minus its parent's. `progress` is the share of
    generations done.
    """
    weights = dict.fromkeys(MODES, 1.0)
    if schedule == "success_feedback":
        for mode in MODES:
            gains = [max(gain, 0.0) for own, gain in history if own == mode][-WINDOW:]
            rate = (sum(gain > 0 for gain in gains) + 0.5) / (len(gains) + 1)
            weights[mode] = max(rate * (1 + (float(np.mean(gains)) if gains else 0.0)), LEAST)
    elif schedule == "exploration_decay":
        exploring = progress < EARLY
        weights = {mode: 2.0 if (mode in EXPLORING) == exploring else 0.5 for mode in MODES}
    elif schedule == "diversity_driven":
        need = max(0.0, 1 - diversity / ENOUGH_DIVERSITY)
        weights = {mode: 1 + need if mode in EXPLORING else 2 - need for mode in MODES}
    total = sum(weights.values())
    return {mode: weight / total for mode, weight in weights.items()}


def choose_mode(schedule: Schedule, weights: dict[Mode, float], number: int, rng: np.random.Generator) -> Mode:
    """The mode of an offspring: the next one in turn if fixed, else drawn by the weights."""
    if schedule == "fixed":
        return MODES[number % len(MODES)]
    return MODES[int(rng.choice(len(MODES), p=list(weights.values())))]


def select(
    totals: Sequence[float],
    count: int,
    policy: Selection,
    distance: Callable[[int, int], float],
    rng: np.random.Generator,
) -> list[int]:
    """The places of the parents."""
    order = sorted(range(len(totals)), key=lambda i: (-totals[i], i))
    count = min(count, len(order))
    if policy == "rank":
        return order[:count]
    selected: list[int] = []
    if policy == "tournament":
        left = list(order)
        while len(selected) < count:
            places = sorted(rng.choice(len(left), size=min(TOURNAMENT, len(left)), replace=False))
            wins = rng.random() < TOURNAMENT_BEST or len(places) == 1
            place = places[0] if wins else places[int(rng.integers(1, len(places)))]
            selected.append(left.pop(int(place)))
        return selected
    pool = order[: max(count, round(TOP_SHARE * len(order)), 1)]
    worst, best = min(totals[i] for i in pool), max(totals[i] for i in pool)
    merit = {i: (totals[i] - worst) / (best - worst) if best > worst else 1.0 for i in pool}
    while len(selected) < count:
        far = {
            i: float(np.mean([distance(i, j) for j in selected])) if selected else 0.0
            for i in pool
            if i not in selected
        }
        value = {i: (1 - TOP_DIVERSITY) * merit[i] + TOP_DIVERSITY * far[i] for i in far}
        selected.append(max(far, key=lambda i: (value[i], -pool.index(i))))
    return selected


def hard_pair(scores: Array, preferred: Array) -> tuple[int, int] | None:
    """Of the better half's ordered pairs, the one (better, worse) whose scores are furthest in the wrong order."""
    wins, values = win_shares(preferred), np.nan_to_num(scores)
    good = wins >= np.median(wins) - 1e-9
    ordered = (preferred == 1) & good & good[:, None]
    gaps = np.where(ordered, values[:, None] - values, np.inf)
    better, worse = np.unravel_index(gaps.argmin(), gaps.shape)
    return (int(better), int(worse)) if ordered.any() else None

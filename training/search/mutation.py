"""Which parents are changed, and in which of six ways."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from truthgym.scorers.rubrics.rubric import Rubric

Mode = Literal[
    "raise_bar", "decompose", "factual_focus", "anti_fluff", "counterexample_trigger", "weight_perturb"
]  # fmt: skip
MODES: tuple[Mode, ...] = get_args(Mode)
EXPLORING = ("decompose", "counterexample_trigger", "weight_perturb")
"""The modes that lead further away; the others refine."""
Selection = Literal["rank", "tournament", "top_k"]
Schedule = Literal["fixed", "success_feedback", "exploration_decay", "diversity_driven"]
LEAST = 0.1
"""The least weight of a mode, so that each is tried again."""
EARLY = 0.3
"""Share of the generations in which `exploration_decay` explores."""
ENOUGH_DIVERSITY = 0.1
"""Mean behavioural distance in a population at which `diversity_driven` stops exploring more than it refines."""
TOURNAMENT = 3
TOURNAMENT_BEST = 0.8
"""Probability that a tournament's best entrant wins; else another does at random."""
TOP_SHARE = 0.3
TOP_DIVERSITY = 0.3
"""Weight of the distance to those already chosen, in `top_k`."""


@dataclass(frozen=True)
class Credit:
    """What became of one offspring."""

    mode: Mode
    gain: float
    """Its objective minus its own parent's, on the same prompts."""


def mode_weights(
    schedule: Schedule, history: Sequence[Credit], progress: float, diversity: float, window: int = 10
) -> dict[Mode, float]:
    """Probabilities of the modes for the next offspring; they sum to 1."""
    weights = dict.fromkeys(MODES, 1.0)
    if schedule == "success_feedback":
        for mode in MODES:
            gains = [max(one.gain, 0.0) for one in history if one.mode == mode][-window:]
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
    """Choose parents."""
    order = sorted(range(len(totals)), key=lambda i: (-totals[i], i))
    count = min(count, len(order))
    if policy == "rank":
        return order[:count]
    chosen: list[int] = []
    if policy == "tournament":
        left = list(order)
        while len(chosen) < count:
            places = sorted(rng.choice(len(left), size=min(TOURNAMENT, len(left)), replace=False))
            wins = rng.random() < TOURNAMENT_BEST or len(places) == 1
            place = places[0] if wins else places[int(rng.integers(1, len(places)))]
            chosen.append(left.pop(int(place)))
        return chosen
    pool = order[: max(count, round(TOP_SHARE * len(order)), 1)]
    worst, best = min(totals[i] for i in pool), max(totals[i] for i in pool)
    merit = {i: (totals[i] - worst) / (best - worst) if best > worst else 1.0 for i in pool}
    while len(chosen) < count:
        far = {i: float(np.mean([distance(i, j) for j in chosen])) if chosen else 0.0 for i in pool if i not in chosen}
        chosen.append(max(far, key=lambda i: ((1 - TOP_DIVERSITY) * merit[i] + TOP_DIVERSITY * far[i], -pool.index(i))))
    return chosen


def perturb_weights(rubric: Rubric, rng: np.random.Generator) -> Rubric:
    """The rubric with one weight halved or doubled, within 0.25 and 8. Needs no model."""
    place = int(rng.integers(len(rubric.criteria)))
    factor = float(rng.choice([0.5, 2.0]))
    one = rubric.criteria[place]
    weight = float(np.clip(max(one.weight, 0.25) * factor, 0.25, 8))
    criteria = list(rubric.criteria)
    criteria[place] = one.model_copy(update={"weight": weight})
    return changed(rubric, criteria=tuple(criteria))


def changed(rubric: Rubric, **fields: Any) -> Rubric:  # noqa: ANN401
    """A validated copy of a rubric with other fields."""
    return Rubric.model_validate({name: getattr(rubric, name) for name in Rubric.model_fields} | fields)

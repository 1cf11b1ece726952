"""What a judge is shown: the rated examples, and with bootstrapping its own ratings of others, and how that drifts."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from inspect_ai.model import Model
from inspect_ai.util import collect

from truthgym.datasets.rated_trajectories import RatedTrajectory
from truthgym.scorers.judges.context import Case
from truthgym.scorers.judges.examples import mean_rating, same_question
from truthgym.scorers.judges.rating import SHARED, Jury, Rating


@dataclass(frozen=True)
class HeldOut:
    """How a judge rates trajectories that it is never shown, whose ratings are known."""

    given: list[float]
    """Their known mean ratings, 0 to 1."""
    rated: list[list[float | None]] = field(default_factory=list)
    """The judge's mean ratings, one list with the first examples and one after each round of bootstrapping."""
    shown: list[int] = field(default_factory=list)
    """Number of examples shown at each."""


@dataclass(frozen=True)
class Prepared:
    """What one judge is shown in a run."""

    examples: list[RatedTrajectory]
    held_out: HeldOut


async def prepared(jury: Jury, judge: Model) -> Prepared:
    """Grow the examples, and rate what is held out.

    Each round draws as many candidates as there are examples, rates them with these (in one order, or in all), and adds
    them: the number doubles. A candidate whose rating cannot be read is left out. One about a question that is among
    the examples already is not drawn.
    """
    s = jury.settings
    examples, held_out = list(s.shown), HeldOut([mean_rating(item) for item in s.held_out])
    await _look(jury, judge, examples, held_out)
    for round in range(s.bootstrap_rounds):
        drawn = _drawn(s.candidates, examples, f"{s.seed} {round}")
        made = await collect(*(_rated(jury, judge, examples, item) for item in drawn))
        examples = examples + [item for item in made if item]
        await _look(jury, judge, examples, held_out)
    return Prepared(examples, held_out)


def _drawn(
    candidates: Sequence[RatedTrajectory], examples: Sequence[RatedTrajectory], seed: str
) -> list[RatedTrajectory]:
    """As many candidates as there are examples, or as there are, each about a question of its own."""
    known = {_plain(item.question) for item in examples}
    order = sorted(candidates, key=lambda item: (item.id, item.trajectory))
    random.Random(seed).shuffle(order)
    found: list[RatedTrajectory] = []
    for item in order:
        if _plain(item.question) not in known and len(found) < len(examples):
            known.add(_plain(item.question))
            found.append(item)
    return found


def _plain(question: str) -> str:
    return " ".join(question.lower().split())


async def _rated(
    jury: Jury, judge: Model, examples: Sequence[RatedTrajectory], item: RatedTrajectory
) -> RatedTrajectory | None:
    s = jury.settings
    case = Case(item.question, item.trajectory)
    orders = s.order_list(len(examples)) if s.bootstrap_permuted else [tuple(range(len(examples)))]
    beside = await jury.beside(judge, item, 0)
    made: list[Rating] = await collect(
        *(
            jury.rate(judge, [examples[i] for i in order], case, beside, SHARED, f"candidate {item.id}")
            for order in orders
        )
    )
    numbers = [rating.numbers for rating in made if rating.numbers]
    if not numbers:
        return None
    means = {name: round(sum(held[name] for held in numbers) / len(numbers)) for name in s.rubric.qualities}
    reasons = next(rating.reasons for rating in made if rating.reasons is not None)
    return item.model_copy(update={"ratings": means, "reasons": reasons.strip() or "No reasons were given."})


async def _look(jury: Jury, judge: Model, examples: Sequence[RatedTrajectory], held_out: HeldOut) -> None:
    s = jury.settings
    if "anchors" not in s.probes and not s.bootstrap_rounds:
        return
    held_out.shown.append(len(examples))
    held_out.rated.append(await collect(*(_anchor(jury, judge, examples, item) for item in s.held_out)))


async def _anchor(jury: Jury, judge: Model, examples: Sequence[RatedTrajectory], item: RatedTrajectory) -> float | None:
    case = Case(item.question, item.trajectory)
    others = [example for example in examples if not same_question(example, case)]
    beside = await jury.beside(judge, item, 0)
    rating = await jury.rate(judge, others, case, beside, SHARED, f"held out {item.id}")
    return None if rating.mean is None else round(rating.mean, 4)

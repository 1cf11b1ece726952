"""Builds a judge's few-shot examples, with bootstrapping from its own ratings, and measures how its ratings drift."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from inspect_ai.model import Model
from inspect_ai.util import collect

from truthgym.datasets.rated_trajectories import RatedTrajectory
from truthgym.scorers.judges.context import JudgedItem
from truthgym.scorers.judges.examples import mean_rating, same_question
from truthgym.scorers.judges.rating import SHARED, Rating, RatingProtocol


@dataclass(frozen=True)
class HeldOut:
    """A judge's ratings of trajectories with known ratings, which it is never shown as examples."""

    given: list[float]
    """Known mean ratings, 0 to 1."""
    rated: list[list[float | None]] = field(default_factory=list)
    """The judge's mean ratings: one list with the first examples, and one after each bootstrapping round."""
    shown: list[int] = field(default_factory=list)
    """Number of examples shown for each list."""


@dataclass(frozen=True)
class JudgeExamples:
    """The examples that one judge is shown throughout a run, and its ratings of the held-out ones."""

    examples: list[RatedTrajectory]
    held_out: HeldOut


async def build_examples(protocol: RatingProtocol, judge: Model) -> JudgeExamples:
    """Build the examples of a judge, rating the held-out trajectories before the first round and after each.

    Each bootstrapping round draws as many candidates as there are examples, rates them with these examples (in one
    order, or in all if `bootstrap_permuted`), and adds them: the number doubles. A candidate about a question that
    already has an example is not drawn; one whose rating cannot be parsed is left out.
    """
    examples = list(protocol.examples)
    held_out = HeldOut([mean_rating(example) for example in protocol.held_out])
    await _rate_held_out(protocol, judge, examples, held_out)
    for round in range(protocol.bootstrap_rounds):
        drawn = _draw_candidates(protocol.candidates, examples, f"{protocol.seed} {round}")
        rated = await collect(*(_rate_candidate(protocol, judge, examples, candidate) for candidate in drawn))
        examples = examples + [candidate for candidate in rated if candidate]
        await _rate_held_out(protocol, judge, examples, held_out)
    return JudgeExamples(examples, held_out)


async def rate_anchors(
    protocol: RatingProtocol, judge: Model, examples: Sequence[RatedTrajectory]
) -> list[float | None]:
    """A judge's mean rating of each held-out trajectory, 0 to 1; None if its reply cannot be parsed."""

    async def rate(anchor: RatedTrajectory) -> float | None:
        item = JudgedItem(anchor.question, anchor.trajectory)
        others = [example for example in examples if not same_question(example, item)]
        notes = await protocol.notes_on_example(judge, anchor, 0)
        rating = await protocol.rate(judge, others, item, notes, SHARED, f"held out {anchor.id}")
        return None if rating.mean is None else round(rating.mean, 4)

    return await collect(*(rate(anchor) for anchor in protocol.held_out))


def _draw_candidates(
    candidates: Sequence[RatedTrajectory], examples: Sequence[RatedTrajectory], seed: str
) -> list[RatedTrajectory]:
    """Draw at most as many candidates as there are examples, each about a question that has no example yet."""
    questions = {_normalised(example.question) for example in examples}
    order = sorted(candidates, key=lambda candidate: (candidate.id, candidate.trajectory))
    random.Random(seed).shuffle(order)
    drawn: list[RatedTrajectory] = []
    for candidate in order:
        if _normalised(candidate.question) not in questions and len(drawn) < len(examples):
            questions.add(_normalised(candidate.question))
            drawn.append(candidate)
    return drawn


def _normalised(question: str) -> str:
    return " ".join(question.lower().split())


async def _rate_candidate(
    protocol: RatingProtocol, judge: Model, examples: Sequence[RatedTrajectory], candidate: RatedTrajectory
) -> RatedTrajectory | None:
    """The candidate with the judge's ratings, averaged over orders; None if no reply can be parsed."""
    item = JudgedItem(candidate.question, candidate.trajectory)
    count = len(examples)
    orders = protocol.order_list(count) if protocol.bootstrap_permuted else [tuple(range(count))]
    notes = await protocol.notes_on_example(judge, candidate, 0)
    ratings: list[Rating] = await collect(
        *(
            protocol.rate(judge, [examples[i] for i in order], item, notes, SHARED, f"candidate {candidate.id}")
            for order in orders
        )
    )
    numbers = [rating.numbers for rating in ratings if rating.numbers]
    if not numbers:
        return None
    means = {name: round(sum(each[name] for each in numbers) / len(numbers)) for name in protocol.rubric.qualities}
    reasons = next(rating.reasons for rating in ratings if rating.reasons is not None)
    return candidate.model_copy(update={"ratings": means, "reasons": reasons.strip() or "No reasons were given."})


async def _rate_held_out(
    protocol: RatingProtocol, judge: Model, examples: Sequence[RatedTrajectory], held_out: HeldOut
) -> None:
    """Append the judge's ratings with these examples, if they are asked for."""
    if "anchors" in protocol.probes or protocol.bootstrap_rounds:
        held_out.shown.append(len(examples))
        held_out.rated.append(await rate_anchors(protocol, judge, examples))

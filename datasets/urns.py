"""Urns: which of two causes produced the observations? Any number of questions, each with a known exact answer."""

import math
from collections.abc import Sequence
from typing import Annotated

from inspect_ai.dataset import Sample
from pydantic import Field, SkipValidation

from truthgym.datasets.errors import validate_call
from truthgym.datasets.loading import generated
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.question import Question

LEAST_MARKS = 5
SURFACES = generated.wordings("urns", generated.Wording)


class UrnQuestion(Question, frozen=True):
    """A question with the numbers that it was generated from."""

    surface: str
    first: int
    """Marks in 100 under the proposition."""
    second: int
    """Marks in 100 under its negation."""


@validate_call
def urns(
    n: Annotated[int, Field(ge=1)] = 300,
    seed: int = 0,
    split: str = "all",
    draws: Annotated[int, Field(ge=1)] = 4,
    likelihood_ratio: Annotated[float, Field(gt=1, le=15)] = 2.0,
    base_rate: Annotated[float | Sequence[float], SkipValidation] = (0.15, 0.85),
) -> Questions:
    """Generate questions whose exact posterior is known after every piece of evidence.

    Args:
        draws: Pieces of evidence in each question, 1 or more. More evidence makes the answer more certain.
        likelihood_ratio: How many times likelier a mark is under one cause than under the other, above 1 and at most 15
            (rounded to whole marks in 100). A larger ratio makes each mark more informative.
        base_rate: Probability that the proposition is true before any evidence: one number, or the two ends of a range
            from which each question draws. Between 0.01 and 0.99, rounded to a whole percent.
    """
    low, high = generated.percent_range("urns", base_rate)
    difficulty = f"draws{draws}-ratio{likelihood_ratio:g}-base{low}-{high}"
    ratio = float(likelihood_ratio)

    def make(i: int) -> Sample:
        rng, identity = generated.seeded("urns", seed, i, difficulty)
        surface = rng.choice(SURFACES)
        rarer = rng.randint(LEAST_MARKS, most_marks(ratio))
        oftener = oftener_marks(rarer, ratio)
        first, second = (oftener, rarer) if rng.random() < 0.5 else (rarer, oftener)
        base = rng.randint(low, high)
        case = 1000 + i
        truth = rng.random() < base / 100
        marks = [rng.random() < (first if truth else second) / 100 for _ in range(draws)]
        ratios = [log_likelihood_ratio(first, second, marked) for marked in marks]
        # Bayes' rule on log-odds: the prior's, plus the evidence so far.
        posterior = [
            generated.probability(generated.logit(base / 100) + math.fsum(ratios[:k])) for k in range(draws + 1)
        ]
        evidence = generated.numbered((surface.marked if marked else surface.unmarked for marked in marks), case=case)
        return generated.world_sample(
            UrnQuestion, identity, surface.asked.format(case=case, first=first, second=second, base=base), truth,
            proposition=surface.proposition.format(case=case), evidence=evidence, base_rate=base / 100,
            surface=surface.name, first=first, second=second, posterior=posterior,
        )  # fmt: skip

    return generated.generate("urns", make, n, split)


def log_likelihood_ratio(first: int, second: int, marked: bool) -> float:
    """Evidence of one piece for the proposition, in nats: log P(piece | true) / P(piece | false), from marks in 100."""
    return math.log(first / second) if marked else math.log((100 - first) / (100 - second))


def most_marks(ratio: float) -> int:
    """Largest number of marks in 100 that a question draws for the rarer cause; `LEAST_MARKS` is the smallest."""
    return int(95 / ratio)


def oftener_marks(rarer: int, ratio: float) -> int:
    """Marks in 100 under the cause that shows them more often."""
    return max(rarer + 1, round(rarer * ratio))

"""What generated worlds share: the draw of questions, log-odds, and ranges of arguments."""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from itertools import count, islice, permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from inspect_ai.dataset import Sample

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import read_rows
from truthgym.datasets.loading.selection import Questions, check_selection, select
from truthgym.datasets.question import Question, question, sample

SYLLABLES = ("ba", "dor", "el", "fi", "gan", "hu", "jo", "ket", "lim", "mar", "no", "pel", "quo", "ris", "tav", "ul")


class Wording(SimpleNamespace):
    """One wording of a world: its `name` and its templates, by their names in a line of `worlds/WORLD.jsonl`.

    In all of them `{case}` numbers the question and `{k}` the piece of evidence.
    """


W = TypeVar("W")


def wordings(world: str, kind: Callable[..., W]) -> tuple[W, ...]:
    """The wordings of a world, or of what `sycophancy` says, a line each of `worlds/WORLD.jsonl`."""
    file = Path(__file__).parent.with_name("worlds") / f"{world}.jsonl"
    return tuple(kind(**fields) for _, fields in read_rows(file))


class GeneratedQuestion(Question, frozen=True):
    """A question of a generated world whose naive reader differs from the exact one. Worlds add their numbers."""

    surface: str
    naive: list[float]
    """Probability before any evidence and after each piece of a reader who makes the error that the world is about."""


def generate(world: str, make: Callable[[int], Sample], n: int, split: str) -> Questions:
    """The first n questions of a split.

    `make` makes question i from the seed, i and the world's arguments alone: a longer set begins with the shorter one.
    """
    check_selection(world, split, None, n)
    items = (item for item in map(make, count()) if split in ("all", (item.metadata or {})["split"]))
    return select(world, islice(items, n), split=split)


def seeded(world: str, seed: int, number: int, difficulty: str) -> tuple[random.Random, str]:
    """The random numbers of a question, and its id."""
    return random.Random(f"{world}/{seed}/{number}/{difficulty}"), f"{world}-{number:05d}-seed{seed}-{difficulty}"


def numbered(templates: Iterable[str], **fields: object) -> list[str]:
    """Pieces of evidence from their templates, with the number of each."""
    return [template.format(k=k, **fields) for k, template in enumerate(templates, start=1)]


def world_sample(cls: type[Question], identity: str, asked: str, truth: bool, **fields: Any) -> Sample:
    """The sample of a generated question: its id begins with its domain, and is its event if `fields` name no other."""
    metadata = question(cls, identity, **{"domain": identity.partition("-")[0], "event": identity} | fields)
    return sample(identity, asked, "yes" if truth else "no", metadata, identity)


def names(rng: random.Random, n: int) -> list[str]:
    """Different names of two syllables each, which no language model can know anything about. At most 240."""
    return [f"{first}{second}".capitalize() for first, second in rng.sample([*permutations(SYLLABLES, 2)], n)]


def listed(words: Sequence[str]) -> str:
    """Two or more words as a list: "a, b and c"."""
    return f"{', '.join(words[:-1])} and {words[-1]}"


def logit(probability: float) -> float:
    """Log-odds, in nats, of a probability in (0, 1)."""
    return math.log(probability / (1 - probability))


def probability(log_odds: float) -> float:
    """The probability with these log-odds, 0 or 1 where a float cannot tell it from them."""
    if log_odds < 0:
        return math.exp(log_odds) / (1 + math.exp(log_odds))
    return 1 / (1 + math.exp(-log_odds))


def whole_range(world: str, name: str, value: int | Sequence[int], least: int, most: int) -> tuple[int, int]:
    """The two whole numbers between which questions draw an argument."""
    ends = [value] if isinstance(value, int) else list(value) if isinstance(value, Sequence) else []
    whole = all(isinstance(end, int) and least <= end <= most for end in ends)
    if len(ends) not in (1, 2) or not whole or ends[0] > ends[-1]:
        raise BadInput(
            f"{world}: {name}={value!r} cannot be used; give one whole number between {least} and {most}, or two that "
            f"rise, such as {least},{most}"
        )
    return ends[0], ends[-1]


def percent_range(world: str, base_rate: float | Sequence[float]) -> tuple[int, int]:
    """The whole percents between which questions draw their base rate."""
    ends: Sequence[float] = [base_rate] if isinstance(base_rate, int | float) else base_rate
    try:
        percents = [round(float(end) * 100) for end in ends]
    except (TypeError, ValueError, OverflowError):
        percents = []
    if len(percents) not in (1, 2) or not all(1 <= p <= 99 for p in percents) or percents != sorted(percents):
        raise BadInput(
            f"{world}: base_rate={base_rate!r} cannot be used; give one number between 0.01 and 0.99, or two that "
            "rise, such as 0.15,0.85"
        )
    return percents[0], percents[-1]

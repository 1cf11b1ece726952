"""Selection: which of a domain's questions are asked, and how many are excluded for what reason."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from hashlib import sha256
from typing import TypeVar, get_args

from inspect_ai.dataset import MemoryDataset, Sample

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.question import Question, Split

NOT_DRAWN = "not drawn"

T = TypeVar("T")


class Questions(MemoryDataset):
    """A domain's selected questions, with how they were selected."""

    dropped: Counter[str]
    """Number of excluded rows, by reason."""
    digest: str | None = None
    """SHA-256 of the file that they were read from, or None where they are bundled or generated."""
    known_after: date | None = None
    """The day after which their truth became public, if one was requested."""
    requested: int | None = None
    """The number of questions that was requested, if any."""
    notice: str | None = None
    """A caution for readers of their scores, in one line."""


def exclusion_summary(questions: Questions) -> str | None:
    """One line on excluded rows, and on fewer questions than requested."""
    reasons = {
        reason: number
        for reason, number in questions.dropped.items()
        if reason != NOT_DRAWN and not reason.startswith("in other splits")
    }
    fewer = f" of n={questions.requested}" if questions.requested and len(questions) < questions.requested else ""
    if not reasons and not fewer:
        return None
    counts = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items(), key=lambda r: -r[1]))
    return f"{questions.name}: {len(questions)} samples{fewer}; left out: {counts or 'none'}."


def select(
    name: str,
    samples: Iterable[Sample],
    *,
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    dropped: Counter[str] | None = None,
    skip_duplicates: bool = False,
    place: Callable[[], str] = str,
) -> Questions:
    """Select from a domain's samples by split, by the day the truth became public, and at random."""
    if not isinstance(seed, int):
        raise BadInput(f"{name}: seed must be an integer, got {seed!r}")
    after = check_selection(name, split, known_after, n)
    excluded = Counter() if dropped is None else dropped
    kept = filter_samples(name, samples, split, after, excluded, skip_duplicates, place)
    selected = list(kept) if n is None else draw(kept, n, seed, lambda item: str(item.id), excluded)
    if not selected:
        reasons = ", ".join(f"{number} {reason}" for reason, number in excluded.most_common())
        raise BadInput(
            f"{name}: no question is left with split={split} and known_after={after} "
            f"({reasons or 'the source has no questions'}); choose another split, an earlier day, or another source"
        )
    questions = Questions(selected, name=name)
    questions.dropped, questions.known_after, questions.requested = +excluded, after, n
    return questions


def draw(items: Iterable[T], n: int, seed: int, identity: Callable[[T], str], dropped: Counter[str]) -> list[T]:
    """Draw at most n items at random: those with the smallest hash of seed and id. Their order is kept."""

    def counted() -> Iterator[tuple[int, T]]:
        for placed in enumerate(items):
            dropped[NOT_DRAWN] += 1
            yield placed

    def order(placed: tuple[int, T]) -> bytes:
        return sha256(f"{seed}/{identity(placed[1])}".encode()).digest()

    drawn = heapq.nsmallest(n, counted(), key=order)
    dropped[NOT_DRAWN] -= len(drawn)
    return [item for _, item in sorted(drawn, key=lambda placed: placed[0])]


def check_selection(name: str, split: str, known_after: date | str | None, n: int | None) -> date | None:
    """Check the arguments of `select` before anything is read or downloaded."""
    one_of("split", split, [*get_args(Split), "all"])
    if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
        raise BadInput(f"{name}: n must be at least 1, got {n!r} (omit it for all questions)")
    return None if known_after is None else parse_day("known_after", known_after)


def parse_day(name: str, value: object) -> date:
    """Parse a day that is given as an argument or option."""
    try:
        # YAML reads 2025-06-01 as a date, with hours as a datetime, and 20250601 as an int.
        return datetime.fromisoformat(str(value)).date()
    except ValueError:
        raise BadInput(f"{name}={value!r} is not a day; write it as 2025-06-01") from None


def duplicate_id(place: str, id: object, first: int, number: int) -> BadInput:
    """The error that two questions, by their numbers, have one id."""
    return BadInput(f"{place}: duplicate id {id!r}, at questions {first} and {number}; rename one of them")


def filter_samples(
    name: str,
    samples: Iterable[Sample],
    split: str,
    after: date | None,
    dropped: Counter[str],
    skip_duplicates: bool,
    place: Callable[[], str] = str,
) -> Iterator[Sample]:
    """Yield the samples of a split whose truth became known after a day, and count the others by reason."""
    seen: dict[int, int] = {}  # by hash: a million ids as text would fill the memory
    for number, item in enumerate(samples, start=1):
        first = seen.setdefault(hash(item.id), number)
        if first != number and skip_duplicates:
            dropped["with a duplicate id"] += 1
            continue
        if first != number:
            raise duplicate_id(place() or name, item.id, first, number)
        facts = item.metadata_as(Question)
        if split not in ("all", facts.split):
            dropped[f"in other splits than {split}"] += 1
        elif after is not None and facts.known_on is None:
            dropped["with no day on which the truth became known"] += 1
        elif after is not None and facts.known_on is not None and facts.known_on <= after:
            dropped[f"known by {after}"] += 1
        else:
            yield item

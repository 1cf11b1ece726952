"""Selection: which of a domain's questions are asked, and how many were left out, for what reason."""

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
    """A domain's questions as they are asked, with what is known of how they were chosen."""

    dropped: Counter[str]
    """Rows that were left out, by reason."""
    digest: str | None = None
    """SHA-256 of the file that they were read from, or None where they come with the project or are generated."""
    known_after: date | None = None
    """The day after which their truth became public, where one was asked for."""
    notice: str | None = None
    """What a reader of their scores should be told, in one line."""


def select(
    name: str,
    samples: Iterable[Sample],
    *,
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    dropped: Counter[str] | None = None,
    once: bool = False,
    place: Callable[[], str] = str,
) -> Questions:
    """Choose from a domain's samples: by split, by the day the truth became public, and at random.

    Samples are taken one by one, and no more than n are held, so that a stream of a million can be chosen from.

    Args:
        name: Name of the dataset.
        samples: All the domain's samples.
        split: "train", "validation", "test" or "all".
        known_after: Keep questions whose truth became public after this day (ISO date). Questions with no known
            day are left out.
        n: At most so many, drawn at random without replacement. The draw depends on their ids alone, and changes little
            as the set grows. Their order stays as it was.
        seed: Seed of that draw.
        dropped: Counts by reason what is left out, here and by those who give the samples.
        once: Whether an id that stands twice is read once, and counted: for sources that their reader cannot correct.
        place: Says where the sample that came last stands, such as "mine.jsonl line 12", for an error.

    Raises:
        BadInput: An unknown split, a malformed date, n < 1, a seed that is no whole number, an id that stands twice, or
            nothing left.
    """
    if not isinstance(seed, int):
        raise BadInput(f"{name}: seed={seed!r} cannot be used; give a whole number")
    after = check_selection(name, split, known_after, n)
    left_out = Counter() if dropped is None else dropped
    kept = kept_samples(name, samples, split, after, left_out, once, place)
    chosen = list(kept) if n is None else draw(kept, n, seed, lambda item: str(item.id), left_out)
    if not chosen:
        reasons = ", ".join(f"{number} {reason}" for reason, number in left_out.most_common())
        raise BadInput(
            f"{name}: no question is left with split={split} and known_after={after} "
            f"({reasons or 'the source holds none'}); ask for another split, an earlier day, or more questions"
        )
    made = Questions(chosen, name=name)
    made.dropped, made.known_after = +left_out, after
    return made


def draw(items: Iterable[T], n: int, seed: int, identity: Callable[[T], str], dropped: Counter[str]) -> list[T]:
    """Draw at most n at random: those whose id, hashed with the seed, comes first. They stay in their order.

    Args:
        items: Taken one by one; n are held.
        n: How many.
        seed: Seed of the draw.
        identity: The id of an item.
        dropped: Counts those that are not drawn.
    """

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
    """Check the arguments of `select` before anything is read or downloaded.

    Returns:
        `known_after` as a day.

    Raises:
        BadInput: An unknown split, a malformed date, or n < 1.
    """
    one_of("split", split, [*get_args(Split), "all"])
    if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
        raise BadInput(f"{name}: n={n!r} is no number of questions; give 1 or more, or leave it out for all")
    if known_after is None:
        return None
    try:
        # The command line makes a date of 2025-06-01, a datetime where hours follow, and a number of 20250601.
        return datetime.fromisoformat(str(known_after)).date()
    except ValueError:
        raise BadInput(f"known_after={known_after!r} is not a day; write it as 2025-06-01") from None


def kept_samples(
    name: str,
    samples: Iterable[Sample],
    split: str,
    after: date | None,
    dropped: Counter[str],
    once: bool,
    place: Callable[[], str] = str,
) -> Iterator[Sample]:
    """Pass on samples of a split that became known after a day, and count the others by reason.

    Raises:
        BadInput: An id that stands twice, unless each is to be read `once`.
    """
    seen: dict[int, int] = {}  # by hash: of a million ids the texts would fill the memory
    for number, item in enumerate(samples, start=1):
        first = seen.setdefault(hash(item.id), number)
        if first != number and once:
            dropped["standing there twice"] += 1
            continue
        if first != number:
            raise BadInput(
                f"{place() or name}: the id {item.id!r} stands twice, at questions {first} and {number}; rename one of "
                "them"
            )
        known = item.metadata_as(Question)
        if split not in ("all", known.split):
            dropped[f"in other splits than {split}"] += 1
        elif after is not None and known.known_on is None:
            dropped["with no day on which the truth became known"] += 1
        elif after is not None and known.known_on is not None and known.known_on <= after:
            dropped[f"known by {after}"] += 1
        else:
            yield item

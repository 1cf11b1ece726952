"""Source: where a domain's rows come from, and the way from them to the questions that are asked.

Every source gives rows in the one shape that the domain's bundled file has, so that each domain reads rows in one
place, and a snapshot that `truthgym fetch` makes of any source is a file of the same shape.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from inspect import Parameter, signature
from logging import getLogger
from pathlib import Path
from typing import Any

from inspect_ai.dataset import Sample
from inspect_ai.util import warn_once

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.loading.row_files import FILES, Row, check_file, read_rows
from truthgym.datasets.loading.selection import NOT_DRAWN, Questions, check_selection, select

logger = getLogger(__name__)

SampleOf = Callable[[str, dict[str, Any]], Sample]
"""From a place and a row to the sample. Raises BadInput, naming the place, for a row that cannot be used."""


@dataclass(frozen=True)
class Source:
    """A real source of a domain's rows."""

    rows: Callable[..., Iterator[Row]]
    """`rows(skipped, known_after, **options)` reads it row by row. It adds to the counter `skipped` what it leaves
    out, by reason; `known_after` may save it reading; what else it takes are options by name."""
    licence: str
    """What it is, whose, under which licence, at which revision: one line, said once when it is used."""
    changes: bool = False
    """Whether it may be another tomorrow: then an eval reads a snapshot of it alone, so that it can be repeated."""

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The options that it takes, by name."""
        return dict(list(signature(self.rows).parameters.items())[2:])

    @property
    def options(self) -> list[str]:
        """Their names."""
        return list(self.parameters)


def load(
    domain: str,
    source: str,
    sample_of: SampleOf,
    sources: Mapping[str, Source],
    *,
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    notice: str | None = None,
    keep: Callable[[dict[str, Any]], str | None] | None = None,
    **options: Any,  # noqa: ANN401 (each source has its own)
) -> Questions:
    """Load a domain's questions from its bundled file, a real source, or a file of the same shape.

    Args:
        domain: Its name.
        source: "bundled", a key of `sources`, or the path of a .jsonl or .parquet file.
        sample_of: The domain's reading of a row.
        sources: Its real sources.
        split: "train", "validation", "test" or "all".
        known_after: Keep questions whose truth became public after this day.
        n: At most so many, drawn with `seed`. See `select`.
        seed: Seed of that draw.
        sha256: What the file must have as its SHA-256. The log of a task holds it whether it was given or not, so that
            a retry with another file is refused.
        notice: What a reader of scores on the bundled questions should be told, in one line.
        keep: Why a row is left out, or None for one that stays.
        **options: For the real source.

    Raises:
        BadInput: An unknown source or split; options where no real source is read; one that must be fetched first;
            another file than `sha256` says; a row that cannot be used; nothing left.
    """
    source, after = str(source), check_selection(domain, split, known_after, n)
    if options and (source == "bundled" or source.endswith(FILES)):
        raise BadInput(f"{domain}: source={source} takes no {', '.join(options)}: options are those of a real source")
    dropped: Counter[str] = Counter()
    digest = None
    if source == "bundled":
        rows = read_rows(bundled_file(domain))
    elif source.endswith(FILES):
        rows, digest = read_rows(Path(source)), file_sha256(Path(source))
    else:
        one_of("source", source, ["bundled", *sources, *(f"PATH{ending}" for ending in FILES)])
        rows = real_rows(domain, source, sources, dropped, after, **options)
    if sha256 is not None and str(sha256).lower() != digest:
        held = f"its SHA-256 is {digest}" if digest else "it is no file"
        raise BadInput(f"{domain}: source={source} is not what was asked for with sha256={sha256}: {held}")
    place = ""

    def samples() -> Iterator[Sample]:
        nonlocal place
        for where, row in rows:
            place = where
            why = keep(row) if keep else None
            if why:
                dropped[why] += 1
            else:
                yield sample_of(where, row)
        if digest and not place:
            raise BadInput(f"{domain}: {source} holds no question; write one a row")

    chosen = select(
        domain, samples(), split=split, known_after=after, n=n, seed=seed, dropped=dropped, once=source in sources,
        place=lambda: place,
    )  # fmt: skip
    chosen.digest = digest
    chosen.notice = notice if source == "bundled" else None
    return chosen


def real_rows(
    domain: str,
    source: str,
    sources: Mapping[str, Source],
    skipped: Counter[str],
    known_after: date | None,
    fetching: bool = False,
    **options: Any,  # noqa: ANN401
) -> Iterator[Row]:
    """Read a real source, having said once whose it is.

    Raises:
        BadInput: An option that it does not take, one that it needs and has not, or no text where it takes text; or a
            source that changes from day to day and is not being fetched.
    """
    chosen = sources[source]
    for name in options:
        one_of(f"option of {source}", name, chosen.options)
    if chosen.changes and not fetching:
        raise BadInput(
            f"{domain}: {source} may be another tomorrow, and an eval could not be repeated; make a snapshot with "
            f"`truthgym fetch {domain} --source {source} --out {domain}.jsonl`, and give source={domain}.jsonl"
        )
    for name, option in chosen.parameters.items():
        given = options.get(name)
        if given is None and option.default is Parameter.empty:
            raise BadInput(f"{domain}: {source} needs the option {name}; give it with -T {name}=")
        if given is not None and option.annotation in (str, str | None) and not isinstance(given, str):
            raise BadInput(
                f"{domain}: {source}: {name}={given!r} is no text: the command line reads YAML, so put it in quotes "
                f"twice, as in -T '{name}=\"{given}\"'"
            )
    rows = chosen.rows(skipped, known_after, **options)  # refuses what it cannot do before anything is said
    warn_once(logger, f"{domain}: {chosen.licence}")
    return rows


def exclusion_summary(questions: Questions) -> str | None:
    """What to say of rows that were left out for another reason than that a part was asked for, or None."""
    reasons = {
        reason: number
        for reason, number in questions.dropped.items()
        if reason != NOT_DRAWN and not reason.startswith("in other splits")
    }
    if not reasons:
        return None
    told = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items(), key=lambda r: -r[1]))
    return f"{questions.name}: {len(questions)} samples; left out: {told}."


def bundled_file(domain: str) -> Path:
    """The file of a domain's bundled rows."""
    return Path(__file__).parent.parent / f"{domain}.jsonl"


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, as 64 hexadecimal digits.

    Raises:
        BadInput: There is no such file, or it may not be read.
    """
    check_file(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

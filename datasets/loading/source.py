"""Source: a real source of a domain's rows, and the domain's bundled file.

Every source yields rows in the shape of the domain's bundled file. So each domain parses rows in one function, and a
snapshot that `truthgym fetch` makes of any source is a file of the same shape.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from inspect import Parameter, signature
from logging import getLogger
from pathlib import Path
from typing import Annotated, Any

from inspect_ai.util import warn_once
from pydantic import SkipValidation

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.loading.row_files import Row

logger = getLogger(__name__)

Skipped = Annotated[Counter[str], SkipValidation]
"""Counter of rows that a source leaves out, by reason. `validate_call` must pass it on, not copy it."""


Parsed = dict[str, Any] | str
"""A row, or the reason why it is left out."""
Record = tuple[str, Parsed | Callable[[], Parsed]]
"""The place of a row, and the row, now or when it is called."""


@dataclass(frozen=True)
class Source:
    """A real source of a domain's rows."""

    rows: Callable[..., Iterator[Row]]
    """`rows(skipped, known_after, **options)` yields the rows. It adds the rows that it leaves out to the counter
    `skipped`, by reason; `known_after` may save it downloads; all other parameters are options, passed by name."""
    licence: str
    """What it is, whose, under which licence, at which revision: one line, logged once when the source is used."""
    live: bool = False
    """Whether its content changes over time. An eval then reads only a snapshot of it, so that it can be repeated."""

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Its options, by name."""
        return dict(list(signature(self.rows).parameters.items())[2:])


def keep_rows(records: Iterable[Record], skipped: Counter[str], asked_from: date | None = None) -> Iterator[Row]:
    """Yield rows without their empty fields, and count those that are left out."""
    for where, record in records:
        try:
            row = record() if callable(record) else record
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, OSError) as error:
            raise BadInput(
                f"{where}: not in the published shape ({type(error).__name__}: {error}); try again later, or use "
                "another source"
            ) from None
        if isinstance(row, dict) and asked_from and row["opened_on"] < asked_from.isoformat():
            row = f"asked before {asked_from}"
        if isinstance(row, str):
            skipped[row] += 1
        else:
            yield where, {name: value for name, value in row.items() if value is not None}


def source_rows(
    domain: str,
    source: str,
    sources: Mapping[str, Source],
    skipped: Counter[str],
    known_after: date | None,
    fetching: bool = False,
    **options: Any,  # noqa: ANN401 (each source has its own)
) -> Iterator[Row]:
    """Read a real source, and log its licence with the first row, once in a process."""
    chosen = sources[source]
    for name in options:
        one_of(f"option of {source}", name, list(chosen.parameters))
    if chosen.live and not fetching:
        raise BadInput(
            f"{domain}: {source} changes over time, so an eval of it could not be repeated; make a snapshot with "
            f"`truthgym fetch {domain} --source {source} --out {domain}.jsonl`, and give source={domain}.jsonl"
        )
    for name, option in chosen.parameters.items():
        if options.get(name) is None and option.default is Parameter.empty:
            raise BadInput(f"{domain}: {source} needs the option {name}; give it with -T {name}=")
    for row in chosen.rows(skipped, known_after, **options):
        warn_once(logger, f"{domain}: {chosen.licence}")
        yield row


def bundled_file(domain: str) -> Path:
    """The file of a domain's bundled rows."""
    return Path(__file__).parent.parent / f"{domain}.jsonl"

"""Domain: loads questions from a domain's bundled file, a real source, or a file of the same shape."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from functools import lru_cache, partial
from inspect import Parameter, signature
from itertools import chain
from logging import getLogger
from pathlib import Path
from typing import Annotated, Any, Literal

from inspect_ai.dataset import Sample
from inspect_ai.util import warn_once
from pydantic import AliasChoices, BaseModel, Field, SkipValidation, ValidationError

from truthgym.datasets.digests import file_digest
from truthgym.datasets.errors import BadInput, bad_fields, one_of
from truthgym.datasets.loading.row_files import (
    FILE_SUFFIXES,
    MAX_COLUMNS,
    Row,
    RowFilter,
    check_columns,
    read_rows,
    readable,
)
from truthgym.datasets.loading.selection import Questions, check_selection, duplicate_id, select
from truthgym.datasets.question import CSV, Day, Question, Text, sample, split_of

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
    **options: Any,
) -> Iterator[Row]:
    """Read a real source, and log its licence with the first row, once in a process."""
    origin = sources[source]
    for name in options:
        one_of(f"option of {source}", name, list(origin.parameters))
    if origin.live and not fetching:
        raise BadInput(
            f"{domain}: {source} changes over time, so an eval of it could not be repeated; make a snapshot with "
            f"`truthgym fetch {domain} --source {source} --out {domain}.jsonl`, and give source={domain}.jsonl"
        )
    for name, option in origin.parameters.items():
        if options.get(name) is None and option.default is Parameter.empty:
            raise BadInput(f"{domain}: {source} needs the option {name}; give it with -T {name}=")
    for row in origin.rows(skipped, known_after, **options):
        warn_once(logger, f"{domain}: {origin.licence}")
        yield row


def bundled_file(domain: str) -> Path:
    """The file of a domain's bundled rows."""
    return Path(__file__).parent.parent / f"{domain}.jsonl"


MAX_PROBLEMS = 10
"""Most rows that one error lists."""
NEAR = 0.85
"""How alike the names of a column and of a field are, from 0 to 1, if one is a misspelling of the other."""
OTHER_COLUMNS = "{source} has columns that {name} does not read; they are kept as metadata of the samples: {columns}."


class DomainRow(BaseModel, extra="forbid"):
    """A row of a domain: a line of a file, or what a real source yields."""

    id: Text
    event: Text | None = None
    """Questions that resolve together share it. By default each question is an event of its own."""
    known_on: Day | None = None
    """The day on which the truth became public."""

    def to_sample(self) -> Sample:
        """The sample of the row."""
        raise NotImplementedError

    def build(self, kind: type[Question], input: str, target: str | None = None, **fields: Any) -> Sample:
        """Build a sample whose metadata have the row's fields that the kind of question has, too."""
        shared = {name: value for name, value in self if name in kind.model_fields and value is not None}
        metadata = {"event": self.id, **shared, **fields}
        return sample(self.id, input, target, kind(split=split_of(metadata["event"]), **metadata), self.id)


def names_of_fields(row: type[DomainRow]) -> dict[str, str]:
    """From each name that a field may have in a row to the field's own name."""
    names: dict[str, str] = {}
    for own, info in row.model_fields.items():
        alias = info.validation_alias
        names |= dict.fromkeys(map(str, alias.choices) if isinstance(alias, AliasChoices) else [own], own)
    return names


def other_columns(row: Mapping[str, Any], kind: type[DomainRow]) -> list[str]:
    """The columns of a user's row that its domain does not read. A misspelled field is not among them."""
    names = names_of_fields(kind)
    has = {names[name] for name in row if name in names}
    fields = {"".join(filter(str.isalnum, name)): own for name, own in names.items() if own not in has}
    lacking, known = tuple(fields), tuple(names)
    required = tuple(name for name, own in fields.items() if kind.model_fields[own].is_required())
    return [name for name in row if name not in names and not _is_misspelled(name, known, lacking, required)]


@lru_cache(maxsize=2 * MAX_COLUMNS)
def _is_misspelled(name: str, known: tuple[str, ...], lacking: tuple[str, ...], required: tuple[str, ...]) -> bool:
    """Whether a column is probably a field that the row lacks."""
    if any(name.lower().startswith(f"{other}_") for other in known):  # such as event_type
        return False
    plain = "".join(filter(str.isalnum, name.lower()))
    return bool(get_close_matches(plain, lacking, 1, NEAR) or get_close_matches(plain, required, 1))


def either(*names: str) -> Any:  # noqa: ANN401 (as pydantic's Field)
    """A required field that may have one of several names in a row."""
    return Field(validation_alias=AliasChoices(*names))


FILES: dict[tuple[str, str], set[str]] = {}
"""The user's files that this process has read, by domain and path: the events of the questions that were selected."""


def file_of(domain: str, event: str) -> str | None:
    """The file of a domain's rows, of those read last, that has this event."""
    return next((file for (name, file), events in reversed(FILES.items()) if name == domain and event in events), None)


@dataclass(frozen=True)
class Part:
    """Bundled questions in a file of their own."""

    file: str
    """Name of the file in `datasets/`, without its suffix."""
    notice: str | None = None
    """A caution for readers of scores on these questions, in one line."""
    selected_by_outcome: bool = False
    """Whether outcomes influenced which of these questions were asked. See `Question`."""


@dataclass(frozen=True, eq=False)
class Domain:
    """A domain whose questions are rows of a file or of a real source. Call it to load them."""

    name: str
    row: type[DomainRow]
    """The fields of a row, and the sample that it becomes."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    notice: str | None = None
    """A caution for readers of scores on the bundled questions, in one line."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """The bundled questions by name, the default first, where they are in several files, each with its own notice."""
    row_filter: Callable[..., RowFilter] | None = None
    """Builds a filter of rows from options, for bundled rows and the user's files. Real sources filter themselves."""

    @property
    def parameters(self) -> dict[str, Parameter]:
        """What it takes: the arguments of a call, with its parts and the options of its filter by name."""
        named = dict(list(signature(self.__call__).parameters.items())[:-1])
        part = Literal[(*self.parts, "all")] | None  # type: ignore[valid-type]
        named["part"] = named["part"].replace(annotation=part)
        if not self.parts:
            del named["part"]
        return named | dict(signature(self.row_filter).parameters if self.row_filter else {})

    def __call__(
        self,
        source: str = "bundled",
        split: str = "all",
        known_after: date | str | None = None,
        n: int | None = None,
        seed: int = 0,
        sha256: str | None = None,
        part: str | None = None,
        **options: Any,
    ) -> Questions:
        """Load questions: read rows, make a sample of each, and select by split, day and number."""
        source, after = str(source), check_selection(self.name, split, known_after, n)
        is_file = source.endswith(FILE_SUFFIXES)
        if not is_file:
            one_of("source", source, ["bundled", *self.sources, *(f"PATH{suffix}" for suffix in FILE_SUFFIXES)])
        parts = self._parts(source, part)
        dropped: Counter[str] = Counter()
        if source in self.sources:
            rows = source_rows(self.name, source, self.sources, dropped, after, **options)
        else:
            files = [Path(source)] if is_file else [bundled_file(bundled.file) for bundled in parts]
            rows = chain.from_iterable(map(read_rows, files))
            rows = self._filtered(rows, source, options, dropped) if options else rows
        digest = file_digest(readable(Path(source))) if is_file else None
        self._check_digest(source, sha256, digest)
        samples = _Samples(self, rows, source, parts)
        questions = select(
            self.name, samples, split=split, known_after=after, n=n, seed=seed, dropped=dropped,
            skip_duplicates=source in self.sources, place=lambda: samples.place,
        )  # fmt: skip
        questions.digest = digest
        if is_file:
            events = {item.metadata_as(Question).event for item in questions}
            FILES[self.name, source] = FILES.pop((self.name, source), set()) | events
        questions.notice = " ".join(bundled.notice for bundled in parts if bundled.notice) or None
        if samples.others:
            columns = ", ".join(name if name == key else f"{name} (as {key})" for name, key in samples.others.items())
            questions.notice = OTHER_COLUMNS.format(source=source, name=self.name, columns=columns)
        return questions

    def parse(self, where: str, row: dict[str, Any], csv: bool = False) -> Sample:
        """The sample of a row. In a row of a csv file numbers are text."""
        try:
            return self.row.model_validate(row, context=CSV if csv else None).to_sample()
        except ValidationError as error:
            raise bad_fields(where, error, list(self.row.model_fields)) from None
        except ValueError as error:  # raised by `to_sample`
            raise BadInput(f"{where}: {error}") from None

    def parse_users(self, where: str, row: dict[str, Any], csv: bool, others: dict[str, str]) -> Sample:
        """The sample of a row of the user's own file, with the columns that the domain does not read as metadata."""
        if "split" in row:
            raise BadInput(
                f"{where}: a hash of `event` decides the split, and not a column `split`; rename it, such as to "
                "`my_split`, and give the questions that you hold out in a file of their own"
            )
        columns = dict.fromkeys(other_columns(row, self.row))
        item = self.parse(where, {name: value for name, value in row.items() if name not in columns}, csv)
        metadata = dict(item.metadata or {})
        for name in (column for column in columns if row[column] is not None):
            key = f"file_{name}" if name in (item.metadata or {}) else name
            others[name], metadata[key] = key, row[name]
        check_columns(where, len(others))  # of all rows so far
        item.metadata = metadata
        return item

    def _parts(self, source: str, part: str | None) -> list[Part]:
        """The bundled questions that are asked for; none for a real source or a file."""
        if part is not None and (source != "bundled" or not self.parts):
            raise BadInput(f"{self.name}: part={part} is for bundled questions in parts, got source={source}; omit it")
        if source != "bundled":
            return []
        if not self.parts:
            return [Part(self.name, self.notice)]
        if part is not None:
            one_of("part", part, [*self.parts, "all"])
        return list(self.parts.values()) if part == "all" else [self.parts[part or next(iter(self.parts))]]

    def _check_digest(self, source: str, expected: str | None, digest: str | None) -> None:
        if expected is not None and str(expected).lower() != digest:
            actual = f"{source} has {digest}" if digest else f"source={source} is not a file"
            raise BadInput(
                f"{self.name}: sha256={expected} does not match: {actual}; give the original file, or start a new eval "
                "without sha256"
            )

    def _filtered(
        self, rows: Iterable[Row], source: str, options: Mapping[str, Any], dropped: Counter[str]
    ) -> Iterator[Row]:
        """The rows that a filter made from the options keeps; the others are counted by reason."""
        if self.row_filter is None:
            raise BadInput(
                f"{self.name}: source={source} takes no options, got {', '.join(options)}; only real sources have them"
            )
        for name in options:
            one_of(f"option of source={source}", name, list(signature(self.row_filter).parameters))
        reason_to_drop = self.row_filter(**options)

        def kept() -> Iterator[Row]:
            for place, row in rows:
                if reason := reason_to_drop(row):
                    dropped[reason] += 1
                else:
                    yield place, row

        return kept()


class _Samples:
    """The samples of rows, one by one. Of wrong rows, the first `MAX_PROBLEMS` are one error."""

    def __init__(self, domain: Domain, rows: Iterable[Row], source: str, parts: Sequence[Part]) -> None:
        self.domain, self.rows, self.source = domain, rows, source
        self.selected = tuple(f"{part.file}.jsonl " for part in parts if part.selected_by_outcome)
        """How the places begin of rows that were selected by outcome."""
        self.place = ""
        """Of the row that was read last."""
        self.others: dict[str, str] = {}
        """The columns that the domain does not read, each with its name in the metadata."""

    def __iter__(self) -> Iterator[Sample]:
        problems: dict[str, list[str]] = {}
        numbers: dict[int, int] = {}  # by hash of the id: a million ids as text would fill the memory
        is_csv, is_file = self.source.endswith(".csv"), self.source.endswith(FILE_SUFFIXES)
        for number, (place, row) in enumerate(self.rows, start=1):
            self.place = place
            try:
                if self.source not in self.domain.sources and "id" in row:
                    first = numbers.setdefault(hash(str(row["id"])), number)
                    if first != number:
                        raise duplicate_id(place, row["id"], first, number)
                parse = partial(self.domain.parse_users, others=self.others) if is_file else self.domain.parse
                item = parse(place, row, is_csv)
            except BadInput as error:
                problems.setdefault(str(error).removeprefix(f"{place}: "), []).append(place)
                if sum(map(len, problems.values())) == MAX_PROBLEMS:
                    break
                continue
            if self.selected and place.startswith(self.selected):
                item.metadata = (item.metadata or {}) | {"selected_by_outcome": True}
            yield item
        if problems:
            raise BadInput("\n".join(f"{', '.join(places)}: {text}" for text, places in problems.items()))
        if is_file and not self.place:
            raise BadInput(f"{self.domain.name}: {self.source} is empty; write one question a row")

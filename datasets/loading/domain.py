"""Domain: loads a domain's questions from its bundled file, a real source, or a file of the same shape."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any

from inspect_ai.dataset import Sample
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from truthgym.datasets.digests import file_digest
from truthgym.datasets.errors import BadInput, bad_fields, one_of
from truthgym.datasets.loading.row_files import FILE_SUFFIXES, RowFilter, read_rows, readable
from truthgym.datasets.loading.selection import Questions, check_selection, duplicate_id, select
from truthgym.datasets.loading.source import Source, bundled_file, source_rows
from truthgym.datasets.question import CSV, Day, Question, Text, sample, split_of

MAX_PROBLEMS = 10
"""Most rows that one error lists."""


class DomainRow(BaseModel, extra="forbid"):
    """A row of a domain: a line of a file, or what a real source yields.

    Each domain adds its own fields, and `to_sample`.
    """

    id: Text
    event: Text | None = None
    """Questions that resolve together share it. By default each question is an event of its own."""
    known_on: Day | None = None
    """The day on which the truth became public."""

    def to_sample(self) -> Sample:
        """The sample of the row."""
        raise NotImplementedError

    def build(self, kind: type[Question], input: str, target: str | None = None, **fields: Any) -> Sample:  # noqa: ANN401
        """Build a sample whose metadata have the row's fields that the kind of question has, too."""
        shared = {name: value for name, value in self if name in kind.model_fields and value is not None}
        known = {"event": self.id, **shared, **fields}
        return sample(self.id, input, target, kind(split=split_of(known["event"]), **known), self.id)


def either(*names: str) -> Any:  # noqa: ANN401 (as pydantic's Field)
    """A required field that may have one of several names in a row."""
    return Field(validation_alias=AliasChoices(*names))


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
    """Its real sources, by name."""
    notice: str | None = None
    """A caution for readers of scores on the bundled questions, in one line."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """The bundled questions by name, the default first, where they are in several files, each with its own notice."""
    row_filter: Callable[..., RowFilter] | None = None
    """Builds a filter of rows from options, for bundled rows and the user's files. Real sources filter themselves."""

    def __call__(
        self,
        source: str = "bundled",
        split: str = "all",
        known_after: date | str | None = None,
        n: int | None = None,
        seed: int = 0,
        sha256: str | None = None,
        part: str | None = None,
        **options: Any,  # noqa: ANN401 (each source has its own)
    ) -> Questions:
        """Load questions."""
        source, after = str(source), check_selection(self.name, split, known_after, n)
        is_file = source.endswith(FILE_SUFFIXES)
        if not is_file:
            one_of("source", source, ["bundled", *self.sources, *(f"PATH{suffix}" for suffix in FILE_SUFFIXES)])
        parts = self._parts(source, part)
        dropped: Counter[str] = Counter()
        reason_to_drop: RowFilter | None = None
        if source in self.sources:
            rows = source_rows(self.name, source, self.sources, dropped, after, **options)
        else:
            reason_to_drop = self._filter(source, options) if options else None
            files = [Path(source)] if is_file else [bundled_file(one.file) for one in parts]
            rows = chain.from_iterable(map(read_rows, files))
        digest = file_digest(readable(Path(source))) if is_file else None
        if sha256 is not None and str(sha256).lower() != digest:
            actual = f"{source} has {digest}" if is_file else f"source={source} is not a file"
            raise BadInput(
                f"{self.name}: sha256={sha256} does not match: {actual}; give the original file, or start a new eval "
                "without sha256"
            )
        selected = tuple(f"{one.file}.jsonl " for one in parts if one.selected_by_outcome)
        place = ""

        def samples() -> Iterator[Sample]:
            nonlocal place
            problems: dict[str, list[str]] = {}
            seen: dict[int, int] = {}  # by hash: a million ids as text would fill the memory
            for number, (place, row) in enumerate(rows, start=1):
                reason = reason_to_drop(row) if reason_to_drop else None
                if reason:
                    dropped[reason] += 1
                    continue
                try:
                    if source not in self.sources and "id" in row:
                        first = seen.setdefault(hash(str(row["id"])), number)
                        if first != number:
                            raise duplicate_id(place, row["id"], first, number)
                    item = self.parse(place, row, source.endswith(".csv"))
                except BadInput as error:
                    problems.setdefault(str(error).removeprefix(f"{place}: "), []).append(place)
                    if sum(map(len, problems.values())) == MAX_PROBLEMS:
                        break
                else:
                    if selected and place.startswith(selected):
                        item.metadata = (item.metadata or {}) | {"selected_by_outcome": True}
                    yield item
            if problems:
                raise BadInput("\n".join(f"{', '.join(places)}: {text}" for text, places in problems.items()))
            if is_file and not place:
                raise BadInput(f"{self.name}: {source} is empty; write one question a row")

        questions = select(
            self.name, samples(), split=split, known_after=after, n=n, seed=seed, dropped=dropped,
            skip_duplicates=source in self.sources, place=lambda: place,
        )  # fmt: skip
        questions.digest = digest
        questions.notice = " ".join(one.notice for one in parts if one.notice) or None
        return questions

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

    def _filter(self, source: str, options: Mapping[str, Any]) -> RowFilter:
        if self.row_filter is None:
            raise BadInput(
                f"{self.name}: source={source} takes no options, got {', '.join(options)}; only real sources have them"
            )
        for name in options:
            one_of(f"option of source={source}", name, list(signature(self.row_filter).parameters))
        return self.row_filter(**options)

    def parse(self, where: str, row: dict[str, Any], csv: bool = False) -> Sample:
        """The sample of a row. In a row of a csv file numbers are text."""
        try:
            return self.row.model_validate(row, context=CSV if csv else None).to_sample()
        except ValidationError as error:
            raise bad_fields(where, error, list(self.row.model_fields)) from None
        except ValueError as error:  # raised by `to_sample`
            raise BadInput(f"{where}: {error}") from None

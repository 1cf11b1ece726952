"""Domain: loads a domain's questions from its bundled file, a real source, or a file of the same shape."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from inspect import signature
from pathlib import Path
from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.loading.row_files import FILE_SUFFIXES, read_rows
from truthgym.datasets.loading.selection import Questions, check_selection, select
from truthgym.datasets.loading.source import Source, bundled_file, file_sha256, source_rows
from truthgym.datasets.question import Question

SampleOf = Callable[[str, dict[str, Any]], Sample]
"""From a place and a row to the sample. Raises BadInput, naming the place, for a row that cannot be used."""
RowFilter = Callable[[dict[str, Any]], str | None]
"""From a row to the reason why it is left out, or None if it is kept."""


@dataclass(frozen=True, eq=False)
class Domain:
    """A domain whose questions are rows of a file or of a real source. Call it to load them."""

    name: str
    kind: type[Question]
    """The metadata of its questions."""
    sample_of: SampleOf
    """Parses a row."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    """Its real sources, by name."""
    notice: str | None = None
    """A caution for readers of scores on the bundled questions, in one line."""
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
        **options: Any,  # noqa: ANN401 (each source has its own)
    ) -> Questions:
        """Load questions.

        Args:
            source: "bundled", the name of a real source, or the path of a .jsonl or .parquet file in the shape of the
                bundled file, such as a snapshot from `truthgym fetch`. The data card, datasets/DOMAIN.md, describes
                the sources and the fields.
            split: "train", "validation", "test" or "all". A question is in the same split in every source.
            known_after: Keep questions whose truth became public after this day: the model's training cut-off.
                Questions without such a day are left out.
            n: At most this many, drawn at random with `seed`. Give it for large sources: without it, all questions are
                held in memory.
            seed: Seed of that draw.
            sha256: The SHA-256 that the file must have. The log of a task records it whether or not it was given, so
                that a retry with another file is refused.
            **options: Options of the real source, such as `location`.

        Raises:
            BadInput: An unknown source, split or option; a live source, which must be fetched first; a file with
                another SHA-256; a malformed row; or no questions left after the filters.
        """
        source, after = str(source), check_selection(self.name, split, known_after, n)
        is_file = source.endswith(FILE_SUFFIXES)
        if not is_file:
            one_of("source", source, ["bundled", *self.sources, *(f"PATH{suffix}" for suffix in FILE_SUFFIXES)])
        reason_to_drop: RowFilter | None = None
        if source not in self.sources and options:
            reason_to_drop, options = self._filter(source, options), {}
        dropped: Counter[str] = Counter()
        digest = file_sha256(Path(source)) if is_file else None
        if source in self.sources:
            rows = source_rows(self.name, source, self.sources, dropped, after, **options)
        else:
            rows = read_rows(Path(source) if is_file else bundled_file(self.name))
        if sha256 is not None and digest is None:
            raise BadInput(f"{self.name}: sha256={sha256} was given, but source={source} is not a file; omit sha256")
        if sha256 is not None and str(sha256).lower() != digest:
            raise BadInput(
                f"{self.name}: sha256={sha256} does not match: {source} has {digest}; give the original file, or start "
                "a new eval"
            )
        place = ""

        def samples() -> Iterator[Sample]:
            nonlocal place
            for place, row in rows:
                reason = reason_to_drop(row) if reason_to_drop else None
                if reason:
                    dropped[reason] += 1
                else:
                    yield self.sample_of(place, row)
            if is_file and not place:
                raise BadInput(f"{self.name}: {source} is empty; write one question a row")

        questions = select(
            self.name, samples(), split=split, known_after=after, n=n, seed=seed, dropped=dropped,
            skip_duplicates=source in self.sources, place=lambda: place,
        )  # fmt: skip
        questions.digest = digest
        questions.notice = self.notice if source == "bundled" else None
        return questions

    def _filter(self, source: str, options: Mapping[str, Any]) -> RowFilter:
        if self.row_filter is None:
            raise BadInput(
                f"{self.name}: source={source} takes no options, got {', '.join(options)}; only real sources have them"
            )
        for name in options:
            one_of(f"option of source={source}", name, list(signature(self.row_filter).parameters))
        return self.row_filter(**options)

    def fields_of(self, row: dict[str, Any]) -> dict[str, Any]:
        """The fields of a row that are fields of the question's metadata."""
        return {name: row[name] for name in row if name in self.kind.model_fields}

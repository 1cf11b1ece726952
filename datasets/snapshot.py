"""Snapshot: the rows of a real source as they stood on a day, in a file that an eval can be repeated from."""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.loading.row_files import FILES, Row, read_rows
from truthgym.datasets.loading.selection import check_selection, draw, kept_samples
from truthgym.datasets.loading.source import SampleOf, Source, file_sha256, real_rows

BATCH = 5000
"""Rows that are written to parquet at once."""
SECRET = "token"
"""What is in the name of an option that is never written down."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot that was made."""

    path: Path
    rows: int
    sha256: str
    left_out: Counter[str]
    """Rows that were left out, by reason."""


def fetch(
    domain: str,
    source: str | None,
    out: str | Path,
    *,
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    **options: Any,  # noqa: ANN401 (each source has its own)
) -> Snapshot:
    """Write a real source's rows to a file, and a card beside it that says what they are.

    Every row is read as an eval will read it, so that what is in the file can be used. Rows of all splits are in it:
    the split of a question is a hash of its event, whatever file it stands in.

    Args:
        domain: A domain with real sources.
        source: Name of one of them, or None where there is one only.
        out: Path of the file, .jsonl or .parquet; the card has the ending .md. Nothing is left of either where reading
            breaks off.
        known_after: Only questions whose truth became public after this day.
        n: At most so many, drawn with `seed`.
        seed: Seed of that draw.
        **options: For the source.

    Raises:
        BadInput: An unknown domain, source or option; a file that is there already; nothing to write; or the source
            cannot be read.
    """
    sources, sample_of = sources_of(domain)
    chosen = _chosen(domain, source, sources)
    after = check_selection(domain, "all", known_after, n)
    path = Path(out)
    _check_path(path)
    dropped: Counter[str] = Counter()
    began = datetime.now(UTC)
    rows = real_rows(domain, chosen, sources, dropped, after, fetching=True, **options)
    kept = _checked(domain, rows, sample_of, after, dropped)
    asked = {"known_after": after, "n": n, "seed": seed if n is not None else None}
    with _whole(path) as part:
        written = _write(part, kept if n is None else iter(draw(kept, n, seed, lambda row: str(row["id"]), dropped)))
        if not written:
            left = ", ".join(f"{number} {reason}" for reason, number in (+dropped).most_common()) or "it holds none"
            raise BadInput(f"{domain}: {chosen} has no row to write ({left}); ask for more, or for an earlier day")
        _as_file(part, path)
        made = Snapshot(path, written, file_sha256(path), +dropped)
        given = {name: value for name, value in {**asked, **options}.items() if value is not None}
        path.with_suffix(".md").write_text(_card(domain, chosen, sources[chosen], given, began, made), encoding="utf-8")
    return made


def sources_of(domain: str) -> tuple[Mapping[str, Source], SampleOf]:
    """A domain's real sources, and its reading of a row.

    Raises:
        BadInput: An unknown domain, or one without real sources.
    """
    from truthgym.datasets.domains import BUNDLED

    modules = {name: import_module(f"truthgym.datasets.{name}") for name in BUNDLED}
    fetched = {name: module for name, module in modules.items() if module.SOURCES}
    one_of("domain with a real source", domain, list(fetched))
    return fetched[domain].SOURCES, fetched[domain].sample_of


def _chosen(domain: str, source: str | None, sources: Mapping[str, Source]) -> str:
    if source is None and len(sources) > 1:
        raise BadInput(f"truthgym fetch {domain}: name a source with --source: {', '.join(sources)}")
    chosen = source or next(iter(sources))
    one_of("source", chosen, list(sources))
    return chosen


def _check_path(path: Path) -> None:
    if path.suffix not in FILES:
        raise BadInput(f"--out {path}: a snapshot is a file that ends in {' or '.join(FILES)}; name one")
    for there in (path, path.with_suffix(".md")):
        if there.exists():
            raise BadInput(f"--out {path}: {there} is there already; give another name, or remove it")
    if not path.parent.is_dir():
        raise BadInput(f"--out {path}: there is no folder {path.parent}; make it, or give another")


def _checked(
    domain: str, rows: Iterator[Row], sample_of: SampleOf, after: date | None, dropped: Counter[str]
) -> Iterator[dict[str, Any]]:
    latest: dict[str, Any] = {}

    def samples() -> Iterator[Sample]:
        nonlocal latest
        for where, row in rows:
            latest = row
            yield sample_of(where, row)

    for _ in kept_samples(domain, samples(), "all", after, dropped, once=True):
        yield latest


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A file to write to first. Where writing breaks off, nothing is left.

    Raises:
        BadInput: It cannot be written.
    """
    part = path.with_name(f".{path.stem}.part.jsonl")
    try:
        yield part
    except BaseException as error:
        path.unlink(missing_ok=True)
        path.with_suffix(".md").unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise BadInput(f"--out {path}: it cannot be written ({error}); make room, or name another") from None
        raise
    finally:
        part.unlink(missing_ok=True)


def _write(part: Path, rows: Iterator[dict[str, Any]]) -> int:
    with part.open("w", encoding="utf-8") as file:
        return sum(bool(file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")) for row in rows)


def _as_file(part: Path, path: Path) -> None:
    if path.suffix == ".jsonl":
        part.replace(path)
        return
    import pyarrow
    import pyarrow.parquet

    # Rows leave fields out, so the columns are known once all have been seen.
    tables = (pyarrow.Table.from_pylist(_with_all(batch)).schema for batch in _batches(part))
    schema = pyarrow.unify_schemas(list(tables), promote_options="permissive")
    packed = part.with_suffix(path.suffix)
    try:
        with pyarrow.parquet.ParquetWriter(packed, schema) as writer:
            for batch in _batches(part):
                writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))
        packed.replace(path)
    finally:
        packed.unlink(missing_ok=True)


def _batches(part: Path) -> Iterator[list[dict[str, Any]]]:
    rows = (row for _, row in read_rows(part))
    while batch := list(islice(rows, BATCH)):
        yield batch


def _with_all(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for row in rows for name in row)  # pyarrow takes the first row's for all
    return [{name: row.get(name) for name in names} for row in rows]


def _card(domain: str, name: str, source: Source, given: Mapping[str, Any], began: datetime, made: Snapshot) -> str:
    flags = {"known_after": "--known-after", "n": "-n", "seed": "--seed"}
    words = ["truthgym", "fetch", domain, "--source", name, "--out", made.path.name]
    for key, value in given.items():
        if SECRET not in key:
            words += [flags[key], str(value)] if key in flags else ["-T", f"{key}={value}"]
    _, first = next(read_rows(made.path))
    example = "\n".join(f"    {line}" for line in json.dumps(first, ensure_ascii=False, indent=1).splitlines())
    counts = {"rows": made.rows, **{f"left out: {reason}": number for reason, number in made.left_out.most_common()}}
    table = "\n".join(f"| {what} | {number} |" for what, number in counts.items())
    return f"""# {made.path.name}: a snapshot for truthgym/{domain}

## What is asked

One row, as it stands in the file:

{example}

## Source and licence

{source.licence}

## How it was made

Fetched on {began:%Y-%m-%d} from {began:%H:%M} UTC on:

    {shlex.join(words)}

SHA-256: `{made.sha256}`. An eval's log holds it:

    inspect eval truthgym/{domain} -T source={made.path.name} --model ...

## Counts

| what | count |
|---|---|
{table}

How truth is known, known faults and contamination: see the domain's own card, `datasets/{domain}.md`.
"""

"""Snapshot: the rows of a real source on one day, in a file from which an eval can be repeated."""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.digests import file_digest
from truthgym.datasets.domains import DOMAINS
from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.loading.domain import Domain, Source, source_rows
from truthgym.datasets.loading.row_files import Row, read_rows
from truthgym.datasets.loading.selection import check_selection, draw, filter_samples
from truthgym.datasets.redaction import is_secret, redacted

SUFFIXES = (".jsonl", ".parquet")
"""Formats that keep numbers and lists apart from text."""
CARD = Path(__file__).parent / "loading" / "snapshot.md"
BATCH = 5000


@dataclass(frozen=True)
class Snapshot:
    """The result of `fetch`."""

    path: Path
    rows: int
    sha256: str
    left_out: Counter[str]


def fetch(
    domain: str,
    source: str | None,
    out: str | Path,
    *,
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Snapshot:
    """Write a real source's rows to a file, and a card beside it that describes them."""
    with_sources = {key: loader for key, loader in DOMAINS.items() if isinstance(loader, Domain) and loader.sources}
    one_of("domain with a real source", domain, list(with_sources))
    loader = with_sources[domain]
    sources = loader.sources
    if source is None and len(sources) > 1:
        raise BadInput(f"truthgym fetch {domain}: name a source with --source: {', '.join(sources)}")
    source_name = source or next(iter(sources))
    one_of("source", source_name, list(sources))
    after = check_selection(domain, "all", known_after, n)
    path = Path(out)
    _check_path(path)
    dropped: Counter[str] = Counter()
    began = datetime.now(UTC)
    rows = source_rows(domain, source_name, sources, dropped, after, fetching=True, **options)
    kept = _valid_rows(loader, rows, after, dropped)
    arguments = {"known_after": after, "n": n, "seed": seed if n is not None else None, **options}
    with _temporary(path) as part:
        written = _write(part, kept if n is None else iter(draw(kept, n, seed, lambda row: str(row["id"]), dropped)))
        if not written:
            left_out = ", ".join(f"{number} {reason}" for reason, number in (+dropped).most_common()) or "it is empty"
            raise BadInput(f"{domain}: {source_name} has no row to write ({left_out}); relax the options or the day")
        _convert(part, path)
        snapshot = Snapshot(path, written, file_digest(path), +dropped)
        arguments = {key: value for key, value in arguments.items() if value is not None}
        card = _card(domain, source_name, sources[source_name], arguments, began, snapshot)
        path.with_suffix(".md").write_text(card, encoding="utf-8")
    return snapshot


def _check_path(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise BadInput(f"--out {path}: a snapshot must end in {' or '.join(SUFFIXES)}; give such a name")
    for file in (path, path.with_suffix(".md")):
        if file.exists():
            raise BadInput(f"--out {path}: {file} exists already; give another name, or remove it")
    if not path.parent.is_dir():
        raise BadInput(f"--out {path}: there is no folder {path.parent}; create it, or give another")


def _valid_rows(
    domain: Domain, rows: Iterator[Row], after: date | None, dropped: Counter[str]
) -> Iterator[dict[str, Any]]:
    latest: dict[str, Any] = {}

    def samples() -> Iterator[Sample]:
        nonlocal latest
        for where, row in rows:
            latest = row
            yield domain.parse(where, row)

    for _ in filter_samples(domain.name, samples(), "all", after, dropped, skip_duplicates=True):
        yield latest


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A temporary file to write the rows to first. After an error, no file remains."""
    part = path.with_name(f".{path.stem}.part.jsonl")
    try:
        yield part
    except BaseException as error:
        path.unlink(missing_ok=True)
        path.with_suffix(".md").unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise BadInput(f"--out {path}: cannot be written ({error}); free disk space or give another path") from None
        raise
    finally:
        part.unlink(missing_ok=True)


def _write(part: Path, rows: Iterator[dict[str, Any]]) -> int:
    with part.open("w", encoding="utf-8") as file:
        return sum(bool(file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")) for row in rows)


def _convert(part: Path, path: Path) -> None:
    if path.suffix == ".jsonl":
        part.replace(path)
        return
    import pyarrow
    import pyarrow.parquet

    # Rows leave fields out, so the columns are known only after a first pass.
    schemas = [pyarrow.Table.from_pylist(_with_all_fields(batch)).schema for batch in _batches(part)]
    schema = pyarrow.unify_schemas(schemas, promote_options="permissive")
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


def _with_all_fields(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for row in rows for name in row)  # pyarrow takes the first row's names for all
    return [{name: row.get(name) for name in names} for row in rows]


def _card(
    domain: str, name: str, source: Source, arguments: Mapping[str, Any], began: datetime, snapshot: Snapshot
) -> str:
    flags = {"known_after": "--known-after", "n": "-n", "seed": "--seed"}
    words = ["truthgym", "fetch", domain, "--source", name, "--out", snapshot.path.name]
    for key, value in arguments.items():
        if "token" not in key and not is_secret(key):
            value = redacted(value)
            words += [flags[key], str(value)] if key in flags else ["-T", f"{key}={value}"]
    _, first = next(read_rows(snapshot.path))
    example = "\n".join(f"    {line}" for line in json.dumps(first, ensure_ascii=False, indent=1).splitlines())
    counts = {
        "rows": snapshot.rows,
        **{f"left out: {reason}": number for reason, number in snapshot.left_out.most_common()},
    }
    table = "\n".join(f"| {what} | {number} |" for what, number in counts.items())
    return CARD.read_text(encoding="utf-8").format(
        file=snapshot.path.name, domain=domain, example=example, licence=source.licence, began=began,
        command=shlex.join(words), sha256=snapshot.sha256, table=table,
    )  # fmt: skip

"""Row files: .jsonl, .csv and .parquet files, read row by row, each row with the place to name in an error."""

import csv
from codecs import BOM_UTF8 as BOM
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from truthgym.datasets.errors import BadInput, bad_fields, shown

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

M = TypeVar("M", bound=BaseModel)
Row = tuple[str, dict[str, Any]]
"""A place, such as "mine.jsonl line 3", and the row that stands there."""
RowFilter = Callable[[dict[str, Any]], str | None]
"""From a row to the reason why it is left out, or None if it is kept."""
FILE_SUFFIXES = (".jsonl", ".csv", ".parquet")
MAX_BYTES = 64 * 2**20
"""Most bytes that are parsed as one piece: a line, a JSON file, a member of an archive, an API's response."""
MAX_COLUMNS = 1000
MAX_GROUP = 256 * 2**20
"""Most bytes of a column in a row group of a parquet file, 16 for a value: a file of some kilobytes may hold them."""
MAX_TEXT = 2**28
"""Most characters of all texts in a parquet file."""


def read_rows(path: Path) -> Iterator[Row]:
    """Read a .jsonl, .csv or .parquet file row by row. Empty lines and a byte order mark are skipped.

    Csv and parquet have no missing fields: cells that are empty or null are left out of the row. A cell of a csv file
    is text, or a list if it is a JSON array such as `["first text", "second text"]`. Its columns have the names of the
    header in lower case.
    """
    readable(path)
    for place, row in {".parquet": _parquet_rows, ".csv": _csv_rows}.get(path.suffix, _jsonl_rows)(path):
        check_columns(place, len(row))
        yield place, row


def check_columns(place: str, count: int) -> None:
    """Refuse more columns than any question has."""
    if count > MAX_COLUMNS:
        raise BadInput(f"{place}: {count:,} columns, at most {MAX_COLUMNS:,}; keep those that describe a question")


def read_models(path: Path, kind: type[M]) -> Iterator[tuple[str, M]]:
    """The rows of a file as models, each with its place. A file without a row is an error."""
    where = ""
    for where, row in read_rows(path):
        try:
            yield where, kind(**row)
        except ValidationError as error:
            raise bad_fields(where, error, list(kind.model_fields)) from None
    if not where:
        raise BadInput(f"{path.name} is empty; write one JSON object a line with {', '.join(kind.model_fields)}")


def readable(path: Path) -> Path:
    """The path, if it is of a file that can be read."""
    try:
        if path.is_file():
            path.open("rb").close()
            return path
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); give the path of a readable file") from None
    raise BadInput(f"There is no file {path}; give a .jsonl, .csv or .parquet file with one question a row")


def read_json(path: Path, remedy: str) -> Any:  # noqa: ANN401 (JSON)
    """Read a JSON file."""
    readable(path)
    with path.open("rb") as file:
        return parse_json(file, str(path), remedy)


def parse_json(file: IO[bytes], where: str, remedy: str) -> Any:  # noqa: ANN401 (JSON)
    """Parse an open file as JSON."""
    content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise BadInput(f"{where}: larger than {MAX_BYTES} bytes; {remedy}")
    try:
        return from_json(content.removeprefix(BOM))
    except ValueError as error:
        raise BadInput(f"{where}: not JSON ({error}); {remedy}") from None


def read_lines(file: IO[bytes], name: str) -> Iterator[tuple[str, bytes]]:
    """Read the lines of an open file, each with its place. Empty lines are skipped."""
    number = 0
    while line := file.readline(MAX_BYTES + 1):
        number += 1
        if len(line) > MAX_BYTES:
            raise BadInput(f"{name} line {number}: longer than {MAX_BYTES} bytes; write one JSON object a line")
        if line.strip():
            yield f"{name} line {number}", line


@contextmanager
def open_parquet(path: Path, remedy: str = "download or convert it again") -> Iterator["ParquetFile"]:
    """Open a parquet file so that reading its batches needs little memory."""
    import pyarrow
    import pyarrow.parquet

    try:
        # By default a reader keeps the bytes of every column that it reads until the end of the file.
        with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
            yield file
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:  # also: not UTF-8, no such day
        raise BadInput(f"{path} cannot be read as parquet ({error}); {remedy}") from None


def _jsonl_rows(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for where, line in read_lines(file, path.name):
            try:
                text = line.decode("utf-8-sig").strip()
            except UnicodeDecodeError as error:
                raise BadInput(f"{where}: not UTF-8 ({error}); save the file as UTF-8") from None
            yield where, _parse(where, text)


def _csv_rows(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            delimiter = max(",;\t", key=file.readline().count)  # spreadsheets write ; where , is the decimal sign
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            header = next(reader, [])
            names = [name.strip().lower() for name in header]
            where = f"{path.name} line 1"
            check_columns(where, len(names))
            for title, name in zip(header, names, strict=True):
                if not name or names.count(name) > 1:
                    raise BadInput(f"{where}: {shown(title)} cannot name a column; give each column a name of its own")
            line = reader.line_num + 1
            for cells in reader:
                where, line = f"{path.name} line {line}", reader.line_num + 1
                if len(cells) not in (0, len(names)):
                    raise BadInput(
                        f"{where}: {len(cells)} cells in {len(names)} columns; put a text that has the separator "
                        f"{delimiter!r} in double quotes"
                    )
                if any(cells):
                    yield where, {name: _cell(cell) for name, cell in zip(names, cells, strict=True) if cell.strip()}
        except UnicodeDecodeError as error:
            raise BadInput(f"{path.name}: not UTF-8 ({error}); save the file as UTF-8") from None
        except csv.Error as error:
            raise BadInput(
                f"{path.name} line {reader.line_num}: not csv ({error}); save the file as csv again"
            ) from None


def _cell(text: str) -> object:
    if text.lstrip().startswith("["):
        try:
            return from_json(text)
        except ValueError:
            pass  # a text such as "[sic] ..."
    return text


def _parse(where: str, text: str) -> dict[str, Any]:
    try:
        row = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise BadInput(f"{where}: not JSON ({error}), but {shown(text)}; write one JSON object a line") from None
    if not isinstance(row, dict):
        raise BadInput(f"{where}: {shown(row)} is not a JSON object; write one object a line")
    return row


def _parquet_rows(path: Path) -> Iterator[Row]:
    number = characters = 0
    with open_parquet(path) as file:
        check_columns(path.name, file.metadata.num_columns)
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group)
            columns = [rows.column(i) for i in range(rows.num_columns)]
            if max((max(c.total_uncompressed_size, 16 * c.num_values) for c in columns), default=0) > MAX_GROUP:
                raise BadInput(
                    f"{path.name}: row group {group + 1} holds more than {MAX_GROUP:,} bytes in a column; "
                    "write the file with row_group_size=10_000, and without what is no question"
                )
        for batch in file.iter_batches(batch_size=1000):
            for row in batch.to_pylist():
                number += 1
                characters += sum(len(value) for value in row.values() if isinstance(value, str))
                if characters > MAX_TEXT:
                    raise BadInput(f"{path.name} row {number}: more than {MAX_TEXT:,} characters; divide the file")
                yield f"{path.name} row {number}", {k: _to_json(v) for k, v in row.items() if v is not None}


def _to_json(value: object) -> object:
    """Convert a date or datetime to text as JSON has it. Midnight is a date."""
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    return value.isoformat() if isinstance(value, date) else value

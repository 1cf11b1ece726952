"""Rows: what stands in a file of questions, read one by one, each with the place to name in an error."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, BinaryIO

from truthgym.datasets.errors import BadInput, one_of

Row = tuple[str, dict[str, Any]]
"""A place, such as "mine.jsonl line 3", and what stands there."""
FILES = (".jsonl", ".parquet")
LONGEST = 16 * 2**20
"""Bytes that a line may have: more is no question, and would fill the memory."""
SHOWN = 80
"""Letters of a value that an error shows."""


def read_rows(path: Path) -> Iterator[Row]:
    """Read a .jsonl or .parquet file row by row. Empty lines and a byte order mark are passed over.

    Parquet knows no missing fields: what is null there is left out.

    Raises:
        BadInput: The file is not there, may not be read, or is not what its name says; or a line is not a JSON object.
            Names the line.
    """
    check_file(path)
    yield from _parquet_rows(path) if path.suffix == ".parquet" else _jsonl_rows(path)


def check_file(path: Path) -> None:
    """Refuse what is no file that can be read.

    Raises:
        BadInput: It is none. Names the path.
    """
    try:
        if path.is_file():
            path.open("rb").close()
            return
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); give the path of a file that may be read") from None
    raise BadInput(f"There is no file {path}; give the path of a {' or '.join(FILES)} file with one question a row")


def check_fields(where: str, row: dict[str, Any], texts: Sequence[str], known: Iterable[str]) -> None:
    """Refuse a row with a field that is not known, or without a text that it needs.

    Args:
        where: The place to name in an error.
        row: The row.
        texts: Fields that must hold text.
        known: All fields that a row may have.

    Raises:
        BadInput: It has the one, or has not the other.
    """
    names = sorted(known)
    for name in row:
        one_of(f"field at {where}:", name, names)
    for name in texts:
        value = row.get(name)
        if not isinstance(value, str) or not value.strip():
            held = "" if value is None else f", where {shown(value)} stands"
            raise BadInput(f"{where}: the field `{name}` is missing or no text; write it in quotes{held}")


def shown(value: object) -> str:
    """A value as an error shows it: the beginning of a long one."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def text_list(where: str, row: dict[str, Any], name: str) -> list[str]:
    """Read a field that is a list of texts, or left out.

    Raises:
        BadInput: It is something else.
    """
    given = [] if row.get(name) is None else row[name]
    if not isinstance(given, list) or not all(isinstance(text, str) and text.strip() for text in given):
        raise BadInput(f"{where}, field {name}: {shown(given)} is no list of texts; write them in quotes, in brackets")
    return list(given)


def _jsonl_rows(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for number, line in enumerate(_lines(path.name, file), start=1):
            where = f"{path.name} line {number}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                raise BadInput(f"{where}: not UTF-8 ({error}); save the file as UTF-8") from None
            if text:
                yield where, _object(where, text)


def _lines(name: str, file: BinaryIO) -> Iterator[bytes]:
    number = 0
    while line := file.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise BadInput(f"{name} line {number}: longer than {LONGEST} bytes; write one question a line")
        yield line


def _object(where: str, text: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise BadInput(f"{where}: {constant} is no value that JSON has; write a number, or leave the field out")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        held = dict(pairs)
        if len(held) < len(pairs):
            twice = next(name for name, number in Counter(name for name, _ in pairs).items() if number > 1)
            raise BadInput(f"{where}: the field {shown(twice)} stands twice; leave one of them out")
        return held

    try:
        row = json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError
        raise BadInput(f"{where}: not JSON ({error}); {_remedy(text)}") from None
    if "\\ud" in text.lower():
        _whole_characters(where, row)
    if not isinstance(row, dict):
        raise BadInput(f"{where}: {type(row).__name__} where an object is needed; write one object a line")
    return row


def _whole_characters(where: str, row: object) -> None:
    """Refuse half of a character, such as an emoji cut in two: JSON can name one, and no file or log can hold it."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise BadInput(f"{where}: {half} is half of a character; write the other half, too, or neither") from None


def _remedy(text: str) -> str:
    if text.startswith("<"):
        return "this looks like a web page: download the file itself"
    if text[0] not in "{[" and ("," in text or "\t" in text):
        return "this looks like a table: write one JSON object a line"
    return "write one object a line"


def _parquet_rows(path: Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        # By default a reader keeps the bytes of every column that it was asked for until the file is read to its end.
        with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
            for batch in file.iter_batches(batch_size=1000):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path.name} row {number}", {k: _plain(v) for k, v in row.items() if v is not None}
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:  # of values: no UTF-8, no such day
        raise BadInput(f"{path.name}: no parquet file that can be read ({error}); fetch or convert it anew") from None


def _plain(value: object) -> object:
    """A value as JSON has it: a day as text, also where the file holds it as its midnight."""
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    return value.isoformat() if isinstance(value, date) else value

"""Files of rows: what is read, and how what cannot be read is refused."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import LONGEST, check_fields, read_rows, text_list


def test_rows_are_named_by_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"id": 1}) + "\n\n{broken\n")
    rows = read_rows(path)
    assert next(rows) == ("mine.jsonl line 1", {"id": 1})
    with pytest.raises(BadInput, match=r"mine.jsonl line 3: not JSON"):
        next(rows)
    path.write_text("[1]\n")
    with pytest.raises(BadInput, match=r"mine.jsonl line 1: list where an object is needed"):
        list(read_rows(path))
    with pytest.raises(BadInput, match="There is no file"):
        list(read_rows(tmp_path / "nowhere.jsonl"))


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (
            b"id,question\n1,Why?\n",
            "mine.jsonl line 1: not JSON (Expecting value: line 1 column 1 (char 0)); this looks like a table",
        ),
        (b"id\tquestion\n", "this looks like a table: write one JSON object a line"),
        (b"<!DOCTYPE html><html>\n", "this looks like a web page: download the file itself"),
        (
            b'{"a": 1}\n{"p": NaN}\n',
            "mine.jsonl line 2: NaN is no value that JSON has; write a number, or leave the",
        ),
        (b'{"p": -Infinity}\n', "line 1: -Infinity is no value that JSON has"),
        (b'{"a": 1}\n{"a": "\xe9"}\n', "mine.jsonl line 2: not UTF-8"),
        ("\ufeff".encode("utf-16"), "mine.jsonl line 1: not UTF-8"),
        (b"\x1f\x8b\x08\x00", "mine.jsonl line 1: not UTF-8"),
        (b'{"a": 1}\n{"a": ', "mine.jsonl line 2: not JSON"),
        (b'"text"\n', "mine.jsonl line 1: str where an object is needed"),
        (b'{"a": 1}\n{"a": ["Good \\uD83D"]}\n', r"mine.jsonl line 2: '\ud83d' is half of a character"),
        (b"[" * 100_000, "mine.jsonl line 1: not JSON"),
        (b'{"p": ' + b"9" * 5000 + b"}", "mine.jsonl line 1: not JSON (Exceeds the limit (4300 digits)"),
        (b'{"id": "a", "id": "b"}', "mine.jsonl line 1: the field 'id' stands twice; leave one of them out"),
        (b'{"a": [{"b": 1, "b": 1}]}', "mine.jsonl line 1: the field 'b' stands twice"),
        (
            b'{"a": 1}\n{"a": "' + b"x" * LONGEST + b'"}',
            f"mine.jsonl line 2: longer than {LONGEST} bytes",
        ),
    ],
    ids=range(16),
)
def test_what_is_no_row_is_refused_by_line_and_remedy(tmp_path: Path, held: bytes, said: str) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(held)
    with pytest.raises(BadInput) as refused:
        list(read_rows(path))
    assert said in str(refused.value)
    assert len(str(refused.value)) < 400


def test_what_editors_leave_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\r\n' + b'{"a": "one\xe2\x80\xa8two \\ud83d\\ude00", "b": null}')
    assert list(read_rows(path)) == [
        ("mine.jsonl line 1", {"a": 1}),
        ("mine.jsonl line 3", {"a": "one\u2028two \U0001f600", "b": None}),
    ]


def test_parquet_gives_the_rows_of_jsonl(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": "a", "day": date(2024, 5, 1), "texts": ["x", "y"]}, {"id": "b", "crowd": 0.25}]
    path = tmp_path / "mine.parquet"
    fields = {
        "id": pyarrow.string(),
        "day": pyarrow.date32(),
        "texts": pyarrow.list_(pyarrow.string()),
        "crowd": pyarrow.float64(),
    }
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, pyarrow.schema(list(fields.items()))), path)
    assert list(read_rows(path)) == [
        ("mine.parquet row 1", {"id": "a", "day": "2024-05-01", "texts": ["x", "y"]}),
        ("mine.parquet row 2", {"id": "b", "crowd": 0.25}),
    ]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadInput, match="mine.parquet: no parquet file that can be read"):
        list(read_rows(path))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "a", "vew": "b"}, "Unknown field at row 1: 'vew'; did you mean 'view'?"),
        ({"id": "a"}, "row 1: the field `view` is missing or no text; write it in quotes"),
        ({"id": 3, "view": "b"}, "row 1: the field `id` is missing or no text; write it in quotes, where 3 stands"),
        ({"id": ["x" * 500], "view": "b"}, "where ['" + "x" * 78 + "... stands"),
        ({"id": "a", "view": "  "}, "row 1: the field `view` is missing or no text"),
    ],
)
def test_fields_are_checked(row: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_fields("row 1", row, ["id", "view"], {"id", "view", "topic"})
    assert said in str(refused.value)


def test_a_list_of_texts_is_one() -> None:
    assert text_list("row 1", {"reviews": ["a", "b"]}, "reviews") == ["a", "b"]
    assert text_list("row 1", {}, "reviews") == []
    assert text_list("row 1", {"reviews": None}, "reviews") == []
    for given in ("a", [1], [""], {"a": 1}, 0, False, ""):
        with pytest.raises(BadInput, match="row 1, field reviews: .* is no list of texts"):
            text_list("row 1", {"reviews": given}, "reviews")


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        list(read_rows(tmp_path / ("long" * 100 + ".jsonl")))
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(BadInput, match="There is no file"):
        list(read_rows(tmp_path / "folder.jsonl"))
    path = tmp_path / "mine.jsonl"
    path.write_text("{}")

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)  # tests may run as root, who may read anything
    with pytest.raises(BadInput, match=r"mine.jsonl cannot be read \(Permission denied\)"):
        list(read_rows(path))


def test_days_of_parquet_are_days(tmp_path: Path) -> None:
    path = tmp_path / "mine.parquet"

    def write(values: list[int]) -> None:
        days = pyarrow.array(values, pyarrow.timestamp("us"))
        pyarrow.parquet.write_table(pyarrow.table({"day": days}), path)

    write([1714521600 * 10**6, 1714525200 * 10**6])
    assert [row["day"] for _, row in read_rows(path)] == ["2024-05-01", "2024-05-01T01:00:00"]
    write([2**60])
    with pytest.raises(BadInput, match="mine.parquet: no parquet file that can be read"):
        list(read_rows(path))

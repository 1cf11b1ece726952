"""Files of rows: what is read, and how what cannot be read is refused."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading import row_files
from truthgym.datasets.loading.row_files import MAX_GROUP, read_rows
from truthgym.datasets.questions import questions


def test_rows_are_named_by_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"id": 1}) + "\n\n{broken\n")
    rows = read_rows(path)
    assert next(rows) == ("mine.jsonl line 1", {"id": 1})
    with pytest.raises(BadInput, match=r"mine.jsonl line 3: not JSON"):
        next(rows)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"id,question\n1,Why?\n", ["line 1: not JSON", "'id,question'", "one JSON object a line"]),
        (b'{"a": 1}\n{"p": NaN}\n', ["line 2: not JSON", "NaN"]),
        (b'{"a": 1}\n{"a": "\xe9"}\n', ["line 2: not UTF-8", "save the file as UTF-8"]),
        (b"[1]\n", ["line 1: [1] is not a JSON object", "one object a line"]),
        (b'{"a": ["Good \\uD83D"]}\n', ["line 1: not JSON", "hex escape"]),
        (b"[" * 100_000, ["line 1: not JSON", "recursion limit"]),
    ],
    ids=lambda value: "",
)
def test_malformed_lines_are_refused(tmp_path: Path, content: bytes, parts: list[str]) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(content)
    with pytest.raises(BadInput) as error:
        list(read_rows(path))
    for part in ["mine.jsonl", *parts]:
        assert part in str(error.value)
    assert len(str(error.value)) < 400


def test_long_lines_are_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "MAX_BYTES", 1000)
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "' + b"x" * 5000 + b'"}')
    with pytest.raises(BadInput, match=r"mine.jsonl line 2: longer than 1000 bytes"):
        list(read_rows(path))


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
    text = pyarrow.string()
    fields = [("id", text), ("day", pyarrow.date32()), ("texts", pyarrow.list_(text)), ("crowd", pyarrow.float64())]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, pyarrow.schema(fields)), path)
    assert list(read_rows(path)) == [
        ("mine.parquet row 1", {"id": "a", "day": "2024-05-01", "texts": ["x", "y"]}),
        ("mine.parquet row 2", {"id": "b", "crowd": 0.25}),
    ]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadInput, match=r"mine.parquet cannot be read as parquet .* again"):
        list(read_rows(path))


CSV = "id,question,crowd,evidence\r\n"


def test_csv_gives_the_rows_of_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes(
        b"\xef\xbb\xbf" + CSV.encode() + b'a,"One, or\r\ntwo?",0.5,"[""It snows."", ""It rains.""]"\r\n\r\n,,,\r\n'
        b"b,[sic] Why?,, \r\n"
    )
    first = {"id": "a", "question": "One, or\r\ntwo?", "crowd": "0.5", "evidence": ["It snows.", "It rains."]}
    second = {"id": "b", "question": "[sic] Why?"}
    assert list(read_rows(path)) == [("mine.csv line 2", first), ("mine.csv line 6", second)]
    path.write_text("id;question;crowd\na;One, or two?;0.5\n")
    assert list(read_rows(path)) == [("mine.csv line 2", {"id": "a", "question": "One, or two?", "crowd": "0.5"})]
    path.write_text("")
    assert list(read_rows(path)) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CSV + "a,One, or two?,0.5,\n", "line 2: 5 cells in 4 columns; put a text that has the separator ','"),
        ("id,question,id\n", "line 1: 'id' cannot name a column"),
        (CSV + 'a,"Why?,0.5,\n', "line 2: not csv .*unexpected end of data"),
        (CSV + "a,Caf\udce9?,,\n", "mine.csv: not UTF-8 .*; save the file as UTF-8"),
    ],
)
def test_malformed_csv_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(BadInput, match=message):
        list(read_rows(path))


def test_unreadable_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    for name in ("nowhere.jsonl", "folder.jsonl"):
        with pytest.raises(BadInput, match=f"There is no file .*{name}; give a .jsonl, .csv or .parquet file"):
            list(read_rows(tmp_path / name))
    path = tmp_path / "mine.jsonl"
    path.write_text("{}")

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)  # tests may run as root, who may read anything
    with pytest.raises(BadInput, match=r"mine.jsonl cannot be read \(Permission denied\)"):
        list(read_rows(path))


def test_midnight_in_parquet_is_a_day(tmp_path: Path) -> None:
    path = tmp_path / "mine.parquet"

    def write(values: list[int]) -> None:
        days = pyarrow.array(values, pyarrow.timestamp("us"))
        pyarrow.parquet.write_table(pyarrow.table({"day": days}), path)

    write([1714521600 * 10**6, 1714525200 * 10**6])
    assert [row["day"] for _, row in read_rows(path)] == ["2024-05-01", "2024-05-01T01:00:00"]
    write([2**60])
    with pytest.raises(BadInput, match="mine.parquet cannot be read as parquet"):
        list(read_rows(path))


def many(count: int) -> dict[str, Any]:
    return {"id": "1", "question": "Is it?", "target": "yes"} | {f"c{i}": 0 for i in range(count)}


def test_a_file_of_a_million_columns_is_refused(tmp_path: Path) -> None:
    row = many(100_000)
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    (tmp_path / "a.csv").write_text(",".join(row) + "\n" + ",".join(map(str, row.values())))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([many(2000)]), tmp_path / "a.parquet")
    for name, place in (("a.jsonl", " line 1"), ("a.csv", " line 1"), ("a.parquet", "")):
        with pytest.raises(BadInput, match=rf"{name}{place}: [\d,]+ columns, at most 1,000; keep"):
            list(read_rows(tmp_path / name))


def test_columns_of_all_rows_together_are_bounded(tmp_path: Path) -> None:
    rows = [
        {"id": str(i), "question": f"Is it {i}?", "outcome": 1, **{f"c{i}_{j}": 0 for j in range(300)}}
        for i in range(5)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(BadInput, match="line 4: 1,200 columns"):
        questions(source=str(tmp_path / "a.jsonl"))


@pytest.mark.parametrize(
    "columns",
    [{"question": ["x" * (MAX_GROUP + 1)]}, {"question": ["x"], "l": [np.zeros(MAX_GROUP // 16 + 1, dtype=np.int8)]}],
    ids=["cell", "list"],
)
def test_a_small_parquet_file_of_much_text_is_refused(columns: dict[str, Any], tmp_path: Path) -> None:
    table = pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", compression="zstd")
    assert (tmp_path / "a.parquet").stat().st_size < 20_000
    with pytest.raises(BadInput, match=r"a.parquet: row group 1 holds more .* row_group_size"):
        list(read_rows(tmp_path / "a.parquet"))


def test_a_parquet_file_that_repeats_one_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "MAX_TEXT", 10_000)
    pyarrow.parquet.write_table(pyarrow.table({"question": ["x" * 1000] * 100}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match="row 11: more than 10,000 characters; divide"):
        list(read_rows(tmp_path / "a.parquet"))

"""The loader of WildChat-1M on small files of its shape, read from a folder and from a loopback hub."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.datasets.sources.reading import hub_of, paths_of
from tests.fixtures import Serve
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import split_of
from truthgym.datasets.sources import wildchat_1m as source
from truthgym.datasets.sources.wildchat_1m import event_of, wildchat_1m
from truthgym.datasets.wildchat import WildChatQuestion, wildchat

DAY = datetime(2023, 4, 9, 23, 59, 59, tzinfo=UTC)
LONG = "As a prompt generator for a drawing program you write one line for each picture that I name, " * 4


def turn(content: str | None, role: str = "user", language: str | None = "English") -> dict[str, Any]:
    asking = {"accept-language": "fr", "user-agent": "browser"} if role == "user" else None
    return {
        "content": content, "country": "France", "hashed_ip": "0f", "header": asking, "language": language,
        "redacted": False, "role": role, "timestamp": None if role == "user" else DAY, "toxic": False,
    }  # fmt: skip


def talk(*messages: str, language: str | None = "English", **other: Any) -> dict[str, Any]:
    """A conversation: each message with an answer."""
    turns = [t for text in messages for t in (turn(text, language=language), turn(f"On {text}.", "assistant"))]
    return {
        "conversation_hash": f"hash of {messages}", "model": "gpt-4-0314", "timestamp": DAY, "conversation": turns,
        "turn": len(messages), "language": language, "toxic": False, "redacted": False,
        "country": "France", "hashed_ip": "0f",
        "header": {"accept-language": "fr", "user-agent": "browser"},
    } | other  # fmt: skip


def write(path: Path, rows: list[dict[str, Any]], **other: Any) -> Path:
    import pyarrow
    import pyarrow.parquet

    asking = pyarrow.struct([("accept-language", pyarrow.string()), ("user-agent", pyarrow.string())])
    text, flag, moment = pyarrow.string(), pyarrow.bool_(), pyarrow.timestamp("us", tz="UTC")
    of_a_turn = pyarrow.struct(
        [("content", text), ("country", text), ("hashed_ip", text), ("header", asking), ("language", text),
         ("redacted", flag), ("role", text), ("timestamp", moment), ("toxic", flag)]
    )  # fmt: skip
    shape = pyarrow.schema(
        [("conversation_hash", text), ("model", text), ("timestamp", moment),
         ("conversation", pyarrow.list_(of_a_turn)), ("turn", pyarrow.int64()), ("language", text),
         ("toxic", flag), ("redacted", flag), ("country", text), ("hashed_ip", text),
         ("header", asking)]
    )  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, shape), path, **other)
    return path


ROWS = [
    talk("why is the sky blue", "and at night?"),
    talk("为什么天是蓝的", language="Chinese"),
    talk("pourquoi le ciel est bleu", language="French"),
    talk("why is the sky blue ", "in one word"),
    talk("Why is the sky blue?!"),
    talk("you idiot", toxic=True),
    talk("not rated", toxic=None),
    talk("my name is NAME_1", redacted=True),
    talk("  "),
    talk("", conversation=None),
    talk("", conversation=[]),
    talk("", conversation=[turn(None)]),
    talk("", conversation=[turn("Hello, how can I help?", "assistant"), turn("well")]),
    talk("ok", language=None),
    talk("tell me more", conversation=[turn("tell me more", language=None)]),
    talk("hola", conversation=[turn("hola", language="Spanish")]),
    talk("hi", timestamp=None, country=None, model=None, turn=None),
    talk(LONG + "a lighthouse"),
    talk(LONG + "a harbour"),
]
LEFT_OUT = {
    "with a repeated message": 1,
    "toxic, or not rated": 2,
    "redacted, or not known to be whole": 1,
    "empty": 4,
    "not begun by the user": 1,
    "of no known language": 1,
}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """The rows, in two files and several row groups."""
    path = tmp_path / "wildchat"
    path.mkdir()
    write(path / "a.parquet", ROWS[:10], row_group_size=3)
    write(path / "b.parquet", ROWS[10:])
    return str(path)


def read(location: str, **options: Any) -> tuple[dict[str, dict[str, Any]], Counter[str]]:
    skipped: Counter[str] = Counter()
    return {row["message"]: row for _, row in wildchat_1m(skipped, None, location=location, **options)}, skipped


def test_first_messages_are_read_and_the_rest_counted_by_reason(folder: str) -> None:
    rows, skipped = read(folder)
    assert skipped == LEFT_OUT
    assert len(rows) + skipped.total() == len(ROWS)
    assert rows["why is the sky blue"] | {"id": "", "event": ""} == {
        "id": "", "event": "", "message": "why is the sky blue", "language": "English", "known_on": "2023-04-09",
        "model": "gpt-4-0314", "turns": 2, "country": "France",
        "conversation_hash": "hash of ('why is the sky blue', 'and at night?')",
    }  # fmt: skip
    assert rows["tell me more"]["language"] == "English", "where none was detected for the message, the conversation's"
    assert rows["hola"]["language"] == "Spanish", "the message's own, not the conversation's"
    assert set(rows["hi"]) == {"id", "event", "message", "language", "conversation_hash"}, "nulls are left out"


def test_places_name_the_file_and_its_row(folder: str) -> None:
    places = [where for where, _ in wildchat_1m(Counter(), None, location=folder)]
    assert places[:4] == ["a.parquet row 1", "a.parquet row 2", "a.parquet row 3", "a.parquet row 5"]
    assert places[-1] == "b.parquet row 9"


def test_each_row_is_a_free_question_without_a_target(folder: str) -> None:
    asked = wildchat(source="wildchat_1m", location=folder)
    assert asked.dropped == LEFT_OUT
    for item in asked:
        known = item.metadata_as(WildChatQuestion)
        assert (item.target, known.form, known.proposition, known.domain) == ("", "free", None, "wildchat")
        assert known.split == split_of(known.event)
    assert "browser" not in str([item.metadata for item in asked]), "what tells of a person is never read"
    assert len({item.id for item in asked}) == len(asked)


def test_near_copies_share_an_event_and_so_a_split(folder: str) -> None:
    rows, _ = read(folder)
    assert rows["why is the sky blue"]["event"] == rows["Why is the sky blue?!"]["event"]
    assert rows[LONG + "a lighthouse"]["event"] == rows[LONG + "a harbour"]["event"]
    assert rows[LONG + "a lighthouse"]["id"] != rows[LONG + "a harbour"]["id"]
    assert len({row["event"] for row in rows.values()}) == len(rows) - 2
    assert event_of("2 + 2 = ?") != event_of("2 + 3 = ?"), "where there is no letter, the text itself counts"
    assert event_of("ＷＨＹ　is the sky blue") == event_of("why is the sky blue"), "full width or not"
    assert event_of("why is the sky blue") == "wildchat-opening-2b8ea431cf1fbcfc", "never to change: splits hang on it"


@pytest.mark.parametrize(
    ("options", "left", "reason"),
    [
        ({"language": "French"}, ["pourquoi le ciel est bleu"], "in other languages"),
        ({"language": ["French", "Chinese"]}, ["为什么天是蓝的", "pourquoi le ciel est bleu"], "in other languages"),
        ({"min_words": 7, "max_words": 7}, ["为什么天是蓝的"], "with fewer or more words"),
        ({"min_turns": 2, "max_turns": 2}, ["why is the sky blue"], "with fewer or more turns"),
        ({"min_turns": 2}, ["why is the sky blue"], "with no number of turns"),
    ],
)
def test_messages_are_filtered(folder: str, options: dict[str, Any], left: list[str], reason: str) -> None:
    rows, skipped = read(folder, **options)
    assert list(rows) == left
    assert skipped[reason] > 0
    assert len(rows) + skipped.total() == len(ROWS)


def test_flagged_conversations_are_kept_where_asked_for(folder: str) -> None:
    assert {"you idiot", "not rated"} <= set(read(folder, toxic=True)[0])
    assert "my name is NAME_1" in read(folder, redacted=True)[0]


def test_files_can_be_chosen(folder: str) -> None:
    second = read(folder, shards=1)[0]
    assert list(second) == list(read(folder, shards="1")[0]) == list(read(folder, shards=["1"])[0])
    assert set(second) == {"tell me more", "hola", "hi", LONG + "a lighthouse", LONG + "a harbour"}
    assert list(read(folder, shards=[1, 0])[0]) == list(read(folder, shards="0,1")[0]) == list(read(folder)[0])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"language": "Frensh"}, "Unknown language 'Frensh'; did you mean 'French'?"),
        ({"min_words": 9, "max_words": 8}, "max_words=8 cannot be used; give at least min_words=9"),
        ({"max_turns": "two"}, "wildchat_1m: max_turns='two' cannot be used"),
        ({"shards": 2}, "wildchat_1m: shards=2 cannot be used; give whole numbers from 0 to 1"),
        ({"toxic": "false"}, "wildchat_1m: toxic='false' cannot be used; give true or false"),
    ],
)
def test_options_are_checked_before_anything_is_read(folder: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        wildchat_1m(Counter(), None, location=folder, **options)
    assert said in str(refused.value)


def test_a_file_that_is_not_parquet_is_refused(folder: str) -> None:
    path = Path(folder, "b.parquet")
    whole = path.read_bytes()
    damaged = whole[:100] + bytes(len(whole) - 1100) + whole[-1000:]
    for content in (whole[:-500], damaged, b"<!DOCTYPE html><p>Sign in</p>", b""):
        path.write_bytes(content)
        with pytest.raises(BadInput, match=r"(?s)b\.parquet cannot be read as parquet .* to download it again"):
            read(folder)


def test_another_shape_is_refused(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    flat = [{**talk("hi"), "conversation": "hi"}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(flat).drop(["turn"]), tmp_path / "flat.parquet")
    with pytest.raises(BadInput, match="turn, conversation.content, conversation.role, conversation.language;"):
        read(str(tmp_path))


def test_files_are_downloaded_when_they_are_needed(serve: Serve, folder: str) -> None:
    names = [f"train-0000{i}-of-00014.parquet" for i in range(2)]
    for name, published in zip("ab", names, strict=True):
        Path(folder, f"{name}.parquet").rename(Path(folder, published))
    server = hub_of(serve, Path(folder), source.REVISION)
    base = f"/datasets/{source.REPOSITORY}/resolve/{source.REVISION}/data/"
    rows = wildchat_1m(Counter(), None, shards=[0, 1], location=server.address)
    assert not server.asked
    next(rows)
    assert paths_of(server) == [base + names[0]]
    assert len(list(rows)) == len(read(folder)[0]) - 1
    assert paths_of(server) == [base + name for name in names]

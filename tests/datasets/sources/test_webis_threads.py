"""Webis-CMV-20's threads, on a small file of the published shape: trees of comments, deltas told by the bot alone."""

import bz2
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.cmv_binary import cmv_binary
from truthgym.datasets.errors import BadInput
from truthgym.datasets.sources.webis_cmv import THREADS, threads

counter = iter(range(10**6))


def said(author: str | None, body: str | None, *children: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "id": f"c{next(counter)}",
        "author": author,
        "body": body,
        "created_utc": "1427700000",
        "score": None,
        "level": 0,
        "children": list(children),
        **fields,
    }


BOT = "Confirmed: 1 delta awarded to /u/ann ([12∆](/r/changemyview/wiki/user/ann))"


def delta(**fields: Any) -> dict[str, Any]:
    return said("op", "∆ I had not thought of that.", said("DeltaBot", BOT), **fields)


def won() -> dict[str, Any]:
    return said("ann", "They sleep.", said("op", "Dogs sleep, too.", said("ann", "Not by day.", delta())))


def lost() -> dict[str, Any]:
    more = said("bob", "Mine does.", said("op", "I do not doubt it.", said("bob", "So?", said("op", "So nothing."))))
    return said("bob", "Dogs guard the house.", said("op", "From whom?", more))


def thread(*comments: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "id": "t3_aaa",
        "name": "t3_aaa",
        "title": "CMV: Cats make better pets than dogs",
        "selftext": "Dogs need walks.",
        "author": "op",
        "created_utc": "1427670580",
        "num_comments": 9,
        "delta": True,
        "comments": list(comments),
        **fields,
    }


def read(folder: Path, *held: dict[str, Any], **options: Any) -> tuple[list[dict[str, Any]], Counter[str]]:
    (folder / THREADS).write_bytes(bz2.compress("".join(json.dumps(one) + "\n" for one in held).encode()))
    skipped: Counter[str] = Counter()
    rows = threads(skipped, None, location=str(folder), **options)
    return [row for _, row in rows], skipped


def test_exchanges_with_and_without_a_delta_are_paired(tmp_path: Path) -> None:
    rows, skipped = read(tmp_path, thread(said("AutoModerator", "Read the rules."), won(), lost()))
    assert [(row["outcome"], row["exchange"]) for row in rows] == [
        ("yes", ["Reader A: They sleep.", "Author: Dogs sleep, too.", "Reader A: Not by day."]),
        ("no", ["Reader A: Dogs guard the house.", "Author: From whom?", "Reader A: Mine does."]),
    ]
    assert {row["event"] for row in rows} == {"cmv-aaa"}
    assert {row["known_on"] for row in rows} == {"2015-03-30"}
    assert not skipped


def test_the_nearest_of_several_is_chosen_and_none_twice(tmp_path: Path) -> None:
    short = said("cid", "Cats scratch.", said("op", "Seldom."))
    rows, _ = read(tmp_path, thread(short, lost(), said("dan", "Cats purr.", delta()), won()))
    assert [row["exchange"][0] for row in rows] == [
        "Reader A: Cats purr.",
        "Reader A: Cats scratch.",
        "Reader A: They sleep.",
        "Reader A: Dogs guard the house.",
    ]


@pytest.mark.parametrize(
    "held",
    [
        thread(lost()),
        thread(won()),
        thread(won(), said("bob", "Dogs guard the house.")),
        thread(won(), said("bob", "Dogs guard.", said("op", "You changed my mind, no idea how to make the sign."))),
        thread(won(), said("bob", "Dogs guard.", said("cid", "∆", said("DeltaBot", BOT)), said("op", "Hm."))),
        thread(won(), lost(), author="[deleted]"),
        thread(won(), lost(), author=None),
        thread(said("ann", "They sleep.", said("op", "∆ unconfirmed")), lost()),
        thread(said("ann", "Yes.", said("op", "∆", said("DeltaBot", "This delta has been rejected."))), lost()),
        thread(comments=[]),
    ],
)
def test_threads_without_both_kinds_are_counted(tmp_path: Path, held: dict[str, Any]) -> None:
    assert read(tmp_path, held) == ([], {"with no delta, or no other branch without one": 1})


def test_a_deleted_comment_or_post_is_counted(tmp_path: Path) -> None:
    gone = said(None, None, said("op", "Who was that?", said("bob", "I.", said("op", "Oh."))))
    rows, skipped = read(tmp_path, thread(won(), gone), thread(won(), lost(), selftext="[removed]"))
    assert [row["outcome"] for row in rows] == ["yes"]
    assert skipped == {"with a comment that was deleted": 1, "with a post that was deleted or empty": 2}


def test_a_longer_exchange_than_asked_is_left_out(tmp_path: Path) -> None:
    rows, skipped = read(tmp_path, thread(won(), lost()), max_turns=2)
    assert not rows
    assert skipped == {"with no delta, or no other branch without one": 1}
    with pytest.raises(BadInput, match="max_turns=0 cannot be used; it must be greater than or equal to 1"):
        read(tmp_path, thread(won(), lost()), max_turns=0)


def test_threads_are_questions_that_tell_nothing_of_deltas(tmp_path: Path) -> None:
    read(tmp_path, thread(won(), lost(), link_flair_text="[∆(s) from OP]"))
    asked = cmv_binary("webis_threads", location=str(tmp_path))
    assert sorted(one.target for one in asked) == ["no", "yes"]
    text = json.dumps([one.model_dump(mode="json") for one in asked], ensure_ascii=False)
    assert not [word for word in ("∆", "elta", "onfirmed", 'op"', "ann", "bob") if word in text]


def test_a_tree_without_end_is_one_error(tmp_path: Path) -> None:
    deep = '{"id": "c", "children": [' * 5000 + "]}" * 5000
    line = json.dumps(thread()).replace('"comments": []', f'"comments": [{deep}]')
    (tmp_path / THREADS).write_bytes(bz2.compress(line.encode()))
    with pytest.raises(BadInput, match=r"threads.jsonl.bz2 line 1: not in the shape"):
        list(threads(Counter(), None, location=str(tmp_path)))


def test_a_long_thread_is_read(tmp_path: Path) -> None:
    deep: list[dict[str, Any]] = []
    for place in range(300):
        deep = [said("bob" if place % 2 else "op", "More.", *deep)]
    rows, _ = read(tmp_path, thread(won(), *deep, lost()))
    assert len(rows) == 2

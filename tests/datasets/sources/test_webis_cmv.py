"""Webis-CMV-20's pairs and posts, on small files of the published shape, read from disk and over HTTP."""

import bz2
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.datasets.sources.reading import Counted, lines_of, read
from tests.fixtures import Serve, Server
from truthgym.datasets.cmv_binary import ChangeMyViewQuestion, cmv_binary
from truthgym.datasets.cmv_freeform import ContestedViewQuestion, cmv_freeform
from truthgym.datasets.errors import BadInput
from truthgym.datasets.sources.webis_cmv import PAIRS, POSTS, RECORD, THREADS, pairs, posts, threads

counter = iter(range(10**6))


def said(author: str | None, body: str | None, *children: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": f"c{next(counter)}", "author": author, "body": body, "created_utc": "1427700000"} | {
        "score": None,
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
        "delta": True,
        "comments": list(comments),
        **fields,
    }


def packed(folder: Path, name: str, *records: Any) -> str:
    (folder / name).write_bytes(bz2.compress(lines_of(*records)))
    return str(folder)


def read_threads(folder: Path, *records: dict[str, Any], **options: Any) -> Counted:
    return read(threads, location=packed(folder, THREADS, *records), **options)


def read_pairs(folder: Path, *records: dict[str, Any]) -> Counted:
    return read(pairs, location=packed(folder, PAIRS, *records))


def test_exchanges_with_and_without_a_delta_are_paired(tmp_path: Path) -> None:
    rows, skipped = read_threads(tmp_path, thread(said("AutoModerator", "Read the rules."), won(), lost()))
    assert [(row["outcome"], row["exchange"]) for row in rows] == [
        ("yes", ["Reader A: They sleep.", "Author: Dogs sleep, too.", "Reader A: Not by day."]),
        ("no", ["Reader A: Dogs guard the house.", "Author: From whom?", "Reader A: Mine does."]),
    ]
    assert {row["event"] for row in rows} == {"cmv-aaa"}
    assert {row["known_on"] for row in rows} == {"2015-03-30"}
    assert not skipped


def test_the_nearest_of_several_is_chosen_and_none_twice(tmp_path: Path) -> None:
    short = said("cid", "Cats scratch.", said("op", "Seldom."))
    rows, _ = read_threads(tmp_path, thread(short, lost(), said("dan", "Cats purr.", delta()), won()))
    assert [row["exchange"][0] for row in rows] == [
        "Reader A: Cats purr.",
        "Reader A: Cats scratch.",
        "Reader A: They sleep.",
        "Reader A: Dogs guard the house.",
    ]


@pytest.mark.parametrize(
    "record",
    [
        thread(lost()),
        thread(won()),
        thread(won(), said("bob", "Dogs guard.", said("op", "You changed my mind, no idea how to make the sign."))),
        thread(won(), said("bob", "Dogs guard.", said("cid", "∆", said("DeltaBot", BOT)), said("op", "Hm."))),
        thread(won(), lost(), author=None),
        thread(said("ann", "They sleep.", said("op", "∆ unconfirmed")), lost()),
        thread(said("ann", "Yes.", said("op", "∆", said("DeltaBot", "This delta has been rejected."))), lost()),
    ],
)
def test_threads_without_both_kinds_are_counted(tmp_path: Path, record: dict[str, Any]) -> None:
    assert read_threads(tmp_path, record) == ([], {"with no delta, or no other branch without one": 1})


def test_a_deleted_comment_or_post_is_counted(tmp_path: Path) -> None:
    gone = said(None, None, said("op", "Who was that?", said("bob", "I.", said("op", "Oh."))))
    rows, skipped = read_threads(tmp_path, thread(won(), gone), thread(won(), lost(), selftext="[removed]"))
    assert [row["outcome"] for row in rows] == ["yes"]
    assert skipped == {"with a comment that was deleted": 1, "with a post that was deleted or empty": 2}


def test_a_longer_exchange_than_asked_is_left_out(tmp_path: Path) -> None:
    rows, skipped = read_threads(tmp_path, thread(won(), lost()), max_turns=2)
    assert not rows
    assert skipped == {"with no delta, or no other branch without one": 1}
    with pytest.raises(BadInput, match="max_turns=0 cannot be used; it must be greater than or equal to 1"):
        read_threads(tmp_path, thread(won(), lost()), max_turns=0)


def test_threads_are_questions_that_tell_nothing_of_deltas(tmp_path: Path) -> None:
    read_threads(tmp_path, thread(won(), lost(), link_flair_text="[∆(s) from OP]"))
    asked = cmv_binary("webis_threads", location=str(tmp_path))
    assert sorted(item.target for item in asked) == ["no", "yes"]
    text = json.dumps([item.model_dump(mode="json") for item in asked], ensure_ascii=False)
    assert not [word for word in ("∆", "elta", "onfirmed", 'op"', "ann", "bob") if word in text]


def test_a_tree_without_end_is_one_error(tmp_path: Path) -> None:
    deep = '{"id": "c", "children": [' * 5000 + "]}" * 5000
    line = json.dumps(thread()).replace('"comments": []', f'"comments": [{deep}]')
    (tmp_path / THREADS).write_bytes(bz2.compress(line.encode()))
    with pytest.raises(BadInput, match=r"threads.jsonl.bz2 line 1: not in the shape"):
        read(threads, location=str(tmp_path))


def test_a_long_thread_is_read(tmp_path: Path) -> None:
    deep: list[dict[str, Any]] = []
    for place in range(300):
        deep = [said("bob" if place % 2 else "op", "More.", *deep)]
    rows, _ = read_threads(tmp_path, thread(won(), *deep, lost()))
    assert len(rows) == 2


def post(identity: str, **fields: Any) -> dict[str, Any]:
    """A post as the crawl has it."""
    return {
        "id": f"t3_{identity}",
        "name": f"t3_{identity}",
        "title": "CMV: Cats make better pets than dogs",
        "selftext": "Dogs need walks.\n\nEDIT: Deltas for all of you!",
        "author": "op",
        "created_utc": "1427670580",
        "link_flair_text": "[Deltas Awarded]",
        "edited": 1427680000.0,
        "delta": True,
        **fields,
    }


def comment(identity: str, body: str | None, level: int = 0, delta: bool = False, **fields: Any) -> dict[str, Any]:
    place = {"parent_id": "t3_aaa" if level == 0 else "t1_other", "link_id": "t3_aaa", "level": level}
    written = {"author": "reader", "created_utc": 1427700000 + level, "retrieved_on": None}
    return {"id": identity, "body": body, "delta": delta} | place | written | fields


def pair(submission: dict[str, Any], won: list[dict[str, Any]], lost: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "submission_id": submission["id"],
        "submission": submission,
        "delta_comment": {"author": "reader", "comments": won, "ids": [comment["id"] for comment in won]},
        "nodelta_comment": {"author": "other", "comments": lost, "ids": [comment["id"] for comment in lost]},
        "comments_similarity": 0.31,
    }


WON = [comment("c1", "They sleep all day."), comment("c2", "And they are quiet.", 2, delta=True, edited=True),
       comment("c3", "Thank you for the delta!", 4)]  # fmt: skip
LOST = [comment("d1", "Dogs guard the house."), comment("d2", "Mine does.", 2), comment("d3", "Really.", 4)]
PAIR = pair(post("aaa"), WON, LOST)


def test_a_pair_is_two_exchanges_of_equal_length(tmp_path: Path) -> None:
    post = {"view": "Cats make better pets than dogs.", "post": "Dogs need walks.", "event": "cmv-aaa"}
    won = {"id": "webis-aaa-c1", "exchange": ["Reader A: They sleep all day.", "Reader A: And they are quiet."]}
    lost = {"id": "webis-aaa-d1", "exchange": ["Reader A: Dogs guard the house.", "Reader A: Mine does."]}
    assert read_pairs(tmp_path, PAIR)[0] == [
        post | exchange | {"outcome": outcome, "known_on": "2015-03-30"}
        for exchange, outcome in ((won, "yes"), (lost, "no"))
    ]


def test_length_does_not_reveal_the_outcome(tmp_path: Path) -> None:
    reason = "of pairs whose argument without a delta is the shorter one"
    assert read_pairs(tmp_path, pair(post("aaa"), WON, LOST[:1])) == ([], {reason: 2})


def test_pairs_are_questions(tmp_path: Path) -> None:
    asked = cmv_binary("webis", location=packed(tmp_path, PAIRS, PAIR))
    assert [(item.id, item.target) for item in asked] == [("webis-aaa-c1", "yes"), ("webis-aaa-d1", "no")]
    first, second = (item.metadata_as(ChangeMyViewQuestion) for item in asked)
    assert first.event == second.event
    assert not first.synthetic
    assert "delta" not in json.dumps([item.model_dump(mode="json") for item in asked]).lower()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"selftext": "[deleted]"}, "with a post that was deleted or empty"),
        ({"title": "CMV"}, "with a title that is not a view"),
    ],
)
def test_a_post_that_cannot_be_used_is_counted(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    assert read_pairs(tmp_path, pair(post("aaa", **change), WON, LOST)) == ([], {reason: 2})


def test_arguments_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    unmarked = [comment("e1", "They sleep."), comment("e2", None, 2)]
    gone = [comment("f1", "[removed]", delta=True)]
    more = [comment("g1", "Dogs smile."), comment("g2", "Cats do not.", 2)]
    records = (PAIR, pair(post("aaa"), WON, more), pair(post("bbb"), unmarked, LOST),
               pair(post("ccc"), gone, [comment("h1", "[deleted]")]))  # fmt: skip
    rows, skipped = read_pairs(tmp_path, *records)
    assert [row["id"] for row in rows] == ["webis-aaa-c1", "webis-aaa-d1", "webis-aaa-g1"]
    assert skipped == {
        "that stand in several pairs": 1,
        "without an argument marked as the one that was awarded a delta": 2,
        "with a comment that was deleted": 2,
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", r"pairs.jsonl.bz2 line 2: not in the shape that Webis-CMV-20 was published in \(.*truncated"),
        (b'{"submission_id": "t3_a"}', r"line 2: .*missing required field `submission`"),
        (json.dumps(pair(post("a", title=5), WON, LOST)).encode(), r"line 2: .*Expected `str \| null`, got .*title"),
        (b'{"submission_id": "\xe9"}', r"line 2: "),
    ],
)
def test_a_line_of_another_shape_is_one_error(tmp_path: Path, line: bytes, said: str) -> None:
    (tmp_path / PAIRS).write_bytes(bz2.compress(json.dumps(PAIR).encode() + b"\n" + line + b"\n"))
    with pytest.raises(BadInput, match=said):
        read(pairs, location=str(tmp_path))


POSTED = (
    post("p1"),
    post("p2", title="CMV: Is it right to eat meat?"),
    post("p3", selftext="[removed]", author="[deleted]"),
    post("p1"),
    post("p4", title="I believe that school should start at ten. CMV", selftext="Teenagers sleep late.", comments=[1]),
)


def test_posts_are_contested_views(tmp_path: Path) -> None:
    asked = cmv_freeform("webis", location=packed(tmp_path, POSTS, *POSTED))
    known = [item.metadata_as(ContestedViewQuestion) for item in asked]
    assert [(item.id, question.proposition) for item, question in zip(asked, known, strict=True)] == [
        ("webis-p1", "Cats make better pets than dogs."),
        ("webis-p4", "School should start at ten."),
    ]
    assert asked[0].target == ""
    assert known[0].event == "cmv-p1"
    assert "Dogs need walks." in str(asked[0].input)
    assert "Delta" not in str(asked[0].input)
    assert dict(asked.dropped) == {
        "with a title that is a question": 1,
        "with a post that was deleted or empty": 1,
        "with a duplicate id": 1,
    }


def test_a_file_that_was_unpacked_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(lines_of(POSTED[0]))
    assert [row["id"] for row in read(posts, location=str(path))[0]] == ["webis-p1"]


@pytest.fixture
def zenodo(serve: Serve, tmp_path: Path) -> Server:
    packed(tmp_path, PAIRS, PAIR)
    content = (tmp_path / PAIRS).read_bytes()
    stated = {"key": PAIRS, "checksum": f"md5:{hashlib.md5(content).hexdigest()}"}
    answers = {
        f"/api/records/{RECORD}": json.dumps({"files": [{"key": "README.txt"} | stated, stated]}).encode(),
        f"/records/{RECORD}/files/{PAIRS}": content,
    }
    return serve(lambda request: (200, {}, answers[request.path]))


def test_the_file_is_downloaded_once_and_checked(zenodo: Server) -> None:
    for _ in range(2):
        assert len(read(pairs, location=zenodo.address)[0]) == 2
    assert [request.path for request in zenodo.asked] == [f"/api/records/{RECORD}", f"/records/{RECORD}/files/{PAIRS}"]


@pytest.mark.parametrize("record", [{}, {"files": None}, {"files": [{"key": PAIRS}]}, []])
def test_a_record_without_the_file_is_one_error(zenodo: Server, record: Any) -> None:
    zenodo.first = [(200, {}, json.dumps(record).encode())]
    with pytest.raises(BadInput, match=f"/api/records/{RECORD}: the record has no checksum of {PAIRS}"):
        read(pairs, location=zenodo.address)
    assert len(zenodo.asked) == 1

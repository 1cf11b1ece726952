"""ConvoKit's winning-args-corpus, on a small archive of the published shape, where the award is marked, too."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.datasets.sources.reading import Counted, lines_of, read
from tests.fixtures import Serve
from truthgym.datasets.cmv_binary import cmv_binary
from truthgym.datasets.cmv_freeform import ContestedViewQuestion, cmv_freeform
from truthgym.datasets.errors import BadInput
from truthgym.datasets.sources.winning_args import MD5, winning_args

Uttered = dict[str, Any]


def uttered(identity: str, above: str | None, user: str, text: str | None, success: int | None = None) -> Uttered:
    pairs = None if success is None else ["p_7"]
    meta = {"success": success, "pair_ids": pairs, "replies": [], "score": 2, "banned_by": None}
    written = None if above is None else 1361030645
    return {"id": identity, "root": "t3_aaa", "reply-to": above, "user": user, "timestamp": written, "text": text} | {
        "meta": meta
    }


UTTERANCES = [
    uttered("t3_aaa", None, "op", "Dogs need walks."),
    uttered("t1_w1", "t3_aaa", "ann", "They sleep.", 1),
    uttered("t1_w2", "t1_w1", "op", "Dogs sleep, too."),
    uttered("t1_w3", "t1_w2", "ann", "Not by day.", 1),
    uttered("t1_w4", "t1_w3", "op", "∆ Thanks, I think this has helped :)", 1),
    uttered("t1_w5", "t1_w4", "DeltaBot", "Confirmed - 1 delta awarded to /u/ann"),
    uttered("t1_l1", "t3_aaa", "bob", "Dogs guard the house.", 0),
    uttered("t1_l2", "t1_l1", "op", "From whom?", 0),
    uttered("t1_x1", "t3_aaa", "cid", "Neither."),
    uttered("t1_x2", "t3_aaa", "[missing]", None),
]
POST = {
    "op-userID": "op",
    "op-title": "CMV: Cats make better pets than dogs",
    "op-text-body": "Dogs need walks.\n\nEDIT: delta given.",
    "pair_ids": ["p_7"],
    "train": 1,
}


def archive(folder: Path, utterances: list[Uttered] | bytes, conversations: Any) -> str:
    path = folder / "winning-args-corpus.zip"
    lines = utterances if isinstance(utterances, bytes) else lines_of(*utterances)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as held:
        held.writestr("winning-args-corpus/", "")
        held.writestr("__MACOSX/winning-args-corpus/utterances.jsonl", b"\0\0")
        held.writestr("winning-args-corpus/utterances.jsonl", lines)
        held.writestr("winning-args-corpus/conversations.json", json.dumps(conversations))
        held.writestr("winning-args-corpus/index.json", "{}")
    return str(path)


def changed(identity: str, **fields: Any) -> list[Uttered]:
    return [utterance | fields if utterance["id"] == identity else utterance for utterance in UTTERANCES]


def read_archive(path: str, **options: Any) -> Counted:
    return read(winning_args, location=path, **options)


@pytest.mark.parametrize("conversation", [POST, {"meta": POST, "vectors": []}])
def test_a_pair_is_two_exchanges_without_the_award(tmp_path: Path, conversation: Any) -> None:
    rows, skipped = read_archive(archive(tmp_path, UTTERANCES, {"t3_aaa": conversation}))
    common = {
        "view": "Cats make better pets than dogs.",
        "post": "Dogs need walks.",
        "event": "cmv-aaa",
        "known_on": "2013-02-16",
    }
    assert rows == [
        {
            **common,
            "id": "winning-args-aaa-w1",
            "exchange": ["Reader A: They sleep.", "Author: Dogs sleep, too.", "Reader A: Not by day."],
            "outcome": "yes",
        },
        {**common, "id": "winning-args-aaa-l1", "exchange": ["Reader A: Dogs guard the house."], "outcome": "no"},
    ]
    assert not skipped


def test_pairs_are_questions_and_posts_are_views(tmp_path: Path) -> None:
    asking = {**POST, "op-title": "CMV: Who still keeps dogs?"}
    path = archive(tmp_path, UTTERANCES, {"t3_aaa": POST, "t3_bbb": asking})
    assert [item.target for item in cmv_binary("winning_args", location=path)] == ["yes", "no"]
    views = cmv_freeform("winning_args", location=path)
    assert [view.metadata_as(ContestedViewQuestion).proposition for view in views] == [
        "Cats make better pets than dogs."
    ]
    assert dict(views.dropped) == {"with a title that is a question": 1}


@pytest.mark.parametrize(
    ("utterances", "conversation", "left_out"),
    [
        (changed("t1_w1", text=None), POST, {"with a comment that was deleted": 1}),
        (
            [*UTTERANCES, uttered("t1_l3", "t1_l1", "op", "You've changed my view to some extent.\n\n&amp;#8710;")],
            POST,
            {"in which the author speaks of a delta that was not awarded": 1},
        ),
        (UTTERANCES, {**POST, "op-userID": "[missing]"}, {"with a post whose author is gone": 2}),
        (changed("t3_aaa", text=""), {**POST, "op-text-body": ""}, {"with a post that was deleted or empty": 2}),
        (UTTERANCES, {**POST, "op-title": None}, {"with a title that is not a view": 2}),
    ],
)
def test_unusable_exchanges_are_counted(
    tmp_path: Path, utterances: list[Uttered], conversation: Any, left_out: dict[str, int]
) -> None:
    _, skipped = read_archive(archive(tmp_path, utterances, {"t3_aaa": conversation}))
    assert skipped == left_out


def test_a_delta_that_another_reader_awards_is_no_verdict(tmp_path: Path) -> None:
    more = [*UTTERANCES, uttered("t1_l3", "t1_l1", "dan", "∆ You have changed my view, too.")]
    rows, skipped = read_archive(archive(tmp_path, more, {"t3_aaa": POST}))
    assert [row["outcome"] for row in rows] == ["yes", "no"]
    assert not skipped


def test_a_line_of_argument_in_several_pairs_is_read_once(tmp_path: Path) -> None:
    more = changed("t1_l1", meta={"success": 0, "pair_ids": ["p_7", "p_8"]})
    rows, skipped = read_archive(archive(tmp_path, more, {"t3_aaa": POST}))
    assert len(rows) == 2
    assert skipped == {"that stand in several pairs": 1}


@pytest.mark.parametrize(
    ("utterances", "said"),
    [
        (b"<html>", r"utterances.jsonl line 1: not in the shape that was published"),
        (b'{"id": "a", "root": "a", "meta": {"success": "yes"}}', r"Expected `int \| null`, got `str` - at `\$.meta"),
    ],
)
def test_another_shape_is_one_error(tmp_path: Path, utterances: bytes, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_archive(archive(tmp_path, utterances, {}))


@pytest.mark.parametrize("name", ["utterances.jsonl", "conversations.json"])
def test_a_large_member_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("truthgym.datasets.loading.row_files.MAX_BYTES", 1000)
    large = b"[" * 5000
    utterances, conversations = (large, {}) if name == "utterances.jsonl" else (UTTERANCES, {"t3_aaa": "x" * 5000})
    with pytest.raises(BadInput, match=f"{name}.*(?:larger|longer) than 1000 bytes"):
        read_archive(archive(tmp_path, utterances, conversations))


def test_another_archive_is_one_error(tmp_path: Path) -> None:
    whole = Path(archive(tmp_path, UTTERANCES * 50, {"t3_aaa": POST}))
    content = bytearray(whole.read_bytes())
    whole.write_bytes(content[:-100])
    with pytest.raises(BadInput, match="winning-args-corpus.zip: utterances.jsonl cannot be read .*try again"):
        read_archive(str(whole))
    begins = content.index(b"winning-args-corpus/utterances.jsonl", content.index(b"__MACOSX") + 60)
    content[begins + 60 : begins + 80] = b"\xff" * 20
    whole.write_bytes(content)
    with pytest.raises(BadInput, match="utterances.jsonl"):
        read_archive(str(whole))
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("README.md", "hello")
    with pytest.raises(BadInput, match="other.zip has no utterances.jsonl"):
        read_archive(str(tmp_path / "other.zip"))
    with pytest.raises(BadInput, match="there is no file"):
        read_archive(str(tmp_path / "none.zip"))


def test_a_download_must_have_the_md5(tmp_path: Path, serve: Serve) -> None:
    content = Path(archive(tmp_path, UTTERANCES, {"t3_aaa": POST})).read_bytes()
    address = f"{serve(lambda _: (200, {}, content)).address}/corpus.zip"
    with pytest.raises(BadInput, match=f"the download has the MD5 .*, not {MD5}"):
        read_archive(address)
    assert len(read_archive(address, md5=hashlib.md5(content).hexdigest())[0]) == 2

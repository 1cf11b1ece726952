import json
import math
import re
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.cmv_binary import ChangeMyViewQuestion, cmv_binary
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.source import bundled_file

BUNDLED = bundled_file("cmv_binary")
ROWS: list[dict[str, Any]] = [json.loads(line) for line in BUNDLED.read_text(encoding="utf-8").splitlines()]
WON = [row for row in ROWS if row["outcome"] == "yes"]
LOST = [row for row in ROWS if row["outcome"] == "no"]
ROW: dict[str, Any] = {
    "id": "cats",
    "view": "Cats make better pets than dogs.",
    "post": "Dogs need walks.",
    "exchange": ["Reader A: They sleep.", "Author: So do dogs."],
    "outcome": "yes",
    "event": "cats",
}


def words(*texts: str) -> int:
    return sum(len(text.split()) for text in texts)


def by(speaker: str, row: dict[str, Any]) -> list[str]:
    return [text for text in row["exchange"] if text.startswith(speaker)]


def test_the_card_counts_what_is_there() -> None:
    text = BUNDLED.with_suffix(".md").read_text(encoding="utf-8")
    written = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", text.split("## Counts")[1], flags=re.MULTILINE))
    known = [one.metadata_as(ChangeMyViewQuestion) for one in cmv_binary()]
    splits = Counter(one.split for one in known)
    turns, lengths = [len(row["exchange"]) for row in ROWS], [words(*row["exchange"]) for row in ROWS]
    assert int(written["exchanges"]) == len(known) >= 44
    assert float(written["share changed"]) == len(WON) / len(ROWS)
    assert int(written["events"]) == len({one.event for one in known})
    assert written["texts in an exchange, fewest and most"] == f"{min(turns)} to {max(turns)}"
    assert written["words in an exchange, fewest and most"] == f"{min(lengths)} to {max(lengths)}"
    assert int(written["exchanges that end with the author"]) == sum(
        row["exchange"][-1].startswith("Author") for row in ROWS
    )
    assert written["train / validation / test"] == f"{splits['train']} / {splits['validation']} / {splits['test']}"
    topics = Counter(row["topic"] for row in ROWS)
    assert {topic: int(written[topic]) for topic in topics} == topics
    assert len(topics) >= 10


def test_the_card_shows_a_row() -> None:
    shown = BUNDLED.with_suffix(".md").read_text(encoding="utf-8").split("```json\n")[1].split("```")[0]
    assert json.loads(shown) in ROWS


def test_the_bundled_set_has_the_form_that_it_is_said_to_have() -> None:
    assert len(WON) == len(LOST)
    for row in ROWS:
        assert row["synthetic"] is True
        assert re.fullmatch(r"[A-Z].*[a-z0-9]\.", row["view"])
        assert 15 <= words(row["post"]) <= 110
        assert 2 <= len(row["exchange"]) <= 6
        speakers = [text.split(": ")[0] for text in row["exchange"]]
        assert speakers[0] == "Reader A"
        assert set(speakers) <= {"Reader A", "Reader B", "Author"}
        assert all(3 <= words(text) <= 130 for text in row["exchange"])
        assert not re.search(r"delta|∆|chang\w+ (my|your) (view|mind)|convinced|edit:", " ".join(row["exchange"]), re.I)


def test_no_two_rows_are_near_copies() -> None:
    views = [row["view"] for row in ROWS]
    assert len(set(views)) == len({row["id"] for row in ROWS}) == len({row["event"] for row in ROWS}) == len(ROWS)
    posts = [set(re.findall(r"\w{4,}", row["post"].lower())) for row in ROWS]
    for place, (view, post) in enumerate(zip(views, posts, strict=True)):
        for other, another in zip(views[:place], posts[:place], strict=True):
            assert SequenceMatcher(None, view, other).ratio() < 0.75, (view, other)
            assert len(post & another) < 0.3 * len(post | another), (view, other)


@pytest.mark.parametrize(
    "cue",
    [
        lambda row: words(row["post"]),
        lambda row: words(row["view"]),
        lambda row: words(*row["exchange"]),
        lambda row: words(*by("Author", row)),
        lambda row: words(*by("Reader", row)),
        lambda row: words(row["exchange"][-1]),
        lambda row: len(row["exchange"]),
        lambda row: len(by("Author", row)),
        lambda row: row["exchange"][-1].startswith("Author"),
        lambda row: "".join(by("Author", row)).count("?"),
        lambda row: len(re.findall("thank|grateful|glad|lovely|kind of you|good of you", " ".join(by("Author", row)))),
        lambda row: sum(character.isdigit() for text in row["exchange"] for character in text),
    ],
)
def test_no_count_tells_the_outcome(cue: Any) -> None:
    """The share of pairs in which the cue is greater for the exchange that changed the view: 1/2 where it is no cue."""
    pairs = [(cue(won), cue(lost)) for won in WON for lost in LOST]
    share = sum((a > b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)
    assert 0.35 < share < 0.65


@pytest.mark.parametrize("speaker", ["", "Author"])
def test_no_words_tell_the_outcome(speaker: str) -> None:
    """Naive Bayes on words, each exchange judged by what all others hold, orders them no better than chance."""
    bags = [set(re.findall(r"[a-z']+", " ".join(by(speaker, row)).lower())) for row in ROWS]
    scores: dict[str, list[float]] = {"yes": [], "no": []}
    for row, bag in zip(ROWS, bags, strict=True):
        score = 0.0
        for outcome, sign in (("yes", 1), ("no", -1)):
            others = [b for r, b in zip(ROWS, bags, strict=True) if r is not row and r["outcome"] == outcome]
            held = Counter(word for other in others for word in other)
            score += sign * sum(math.log((held[word] + 1) / (len(others) + 2)) for word in bag)
        scores[row["outcome"]].append(score)
    pairs = [(a, b) for a in scores["yes"] for b in scores["no"]]
    assert sum(a > b for a, b in pairs) / len(pairs) < 0.65


def test_the_prior_sees_the_view_and_not_the_exchange() -> None:
    for row, asked in zip(ROWS, cmv_binary(), strict=True):
        assert row["view"] in str(asked.input)
        assert row["post"] in str(asked.input)
        assert not [text for text in row["exchange"] if text[:40] in str(asked.input)]
        known = asked.metadata_as(ChangeMyViewQuestion)
        assert known.evidence == row["exchange"]
        assert row["view"] in str(known.proposition)
        assert asked.target == row["outcome"]


def test_no_question_holds_another() -> None:
    asked = [str(one.input) for one in cmv_binary()]
    assert not [(a, b) for a in asked for b in asked if a is not b and a in b]


def write(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    mine = write(tmp_path / "mine.jsonl", ROW, ROW | {"id": "more", "outcome": "no", "known_on": "2024-05-01"})
    asked = cmv_binary(mine)
    assert [(one.id, one.target) for one in asked] == [("cats", "yes"), ("more", "no")]
    assert [one.id for one in cmv_binary(mine, known_after="2024-01-01")] == ["more"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"exchange": None}, "mine.jsonl line 2: the field `exchange` is missing or empty"),
        ({"exchange": []}, "mine.jsonl line 2: the field `exchange` is missing or empty"),
        ({"exchange": "They sleep."}, "mine.jsonl line 2, field exchange: 'They sleep.' is not a list of texts"),
        (
            {"exchange": ["They sleep.", 3]},
            "line 2, field exchange: ['They sleep.', 3] is not a list of texts",
        ),
        ({"exchange": ["They sleep.", " "]}, "mine.jsonl line 2, field exchange:"),
        ({"outcome": "changed"}, 'mine.jsonl line 2: the outcome must be "yes" or "no", got \'changed\''),
        ({"outcome": True}, "mine.jsonl line 2: the field `outcome` must be text in quotes"),
        ({"view": ""}, "mine.jsonl line 2: the field `view` must be text in quotes"),
        ({"post": None}, "mine.jsonl line 2: the field `post` must be text in quotes"),
        ({"event": 7}, "mine.jsonl line 2: the field `event` must be text in quotes"),
        ({"id": "cats"}, "duplicate id 'cats'"),
        ({"verdict": "changed"}, "Unknown field at mine.jsonl line 2: 'verdict'"),
        ({"known_on": "May 2024"}, "mine.jsonl line 2, field known_on: 'May 2024' cannot be used"),
        ({"synthetic": "perhaps"}, "mine.jsonl line 2, field synthetic: 'perhaps' cannot be used"),
        ({"topic": 3}, "mine.jsonl line 2, field topic: 3 cannot be used"),
    ],
)
def test_a_bad_row_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        cmv_binary(write(tmp_path / "mine.jsonl", ROW, ROW | {"id": "more"} | change))
    assert said in str(refused.value)


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(BadInput, match="Unknown source 'webiss'; did you mean 'webis'"):
        cmv_binary("webiss")

"""Research questions: two answers, which is asked for and which comes first, and a form that gives neither away."""

import json
import re
from collections import Counter
from collections.abc import Callable
from difflib import SequenceMatcher
from itertools import combinations, product
from math import log
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.source import bundled_file
from truthgym.datasets.research import NOTICE, ResearchQuestion, research

BUNDLED = bundled_file("research")
ROWS: list[dict[str, Any]] = [json.loads(line) for line in BUNDLED.read_text(encoding="utf-8").splitlines()]
CARD = BUNDLED.with_suffix(".md").read_text(encoding="utf-8")
ROW: dict[str, Any] = {
    "id": "feathers",
    "question": "Which falls faster on the moon, a hammer or a feather?",
    "easy": "The hammer.",
    "hard": "Neither",
    "reason": "There is no air; on Earth there is.",
    "science": "physics",
    "recorded": "Apollo 15",
    "event": "apollo-15-drop",
}


def words(text: str) -> list[str]:
    return re.findall(r"[\w'-]+", text.lower())


def of(listed: str) -> Callable[[str], int]:
    """How many of the listed words a text has."""
    return lambda text: sum(word in listed.split() for word in words(text))


CUES: dict[str, Callable[[str], float]] = {
    "characters": len,
    "words": lambda text: len(words(text)),
    "length of words": lambda text: sum(map(len, words(text))) / len(words(text)),
    "commas": lambda text: text.count(","),
    "denial": of("no not none neither never nothing nobody without cannot"),
    "hedges": of("may might can could some often mostly usually rather somewhat about nearly almost likely most many"),
    "absolutes": of("all always every each only must any entirely exactly whole both never none"),
    "concession": of("but though although while if also instead yet still"),
    "reasons": of("because since as"),
    "sameness": of("same equal equally alike unchanged level both"),
}


def test_the_card_counts_what_is_there() -> None:
    written = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", CARD.split("## Counts")[1], flags=re.MULTILINE))
    known = [item.metadata_as(ResearchQuestion) for item in research()]
    sciences, splits = Counter(q.science for q in known), Counter(q.split for q in known)
    lengths = sorted(len(words(row["question"])) for row in ROWS)
    assert int(written["questions"]) == len(known) == len(ROWS) >= 64
    assert float(written["share of true propositions"]) == sum(item.target == "yes" for item in research()) / len(ROWS)
    assert float(written["share with the right answer first"]) == sum(q.first == "hard" for q in known) / len(ROWS)
    assert int(written["events"]) == len({q.event for q in known})
    assert written["words in a question, fewest and most"] == f"{lengths[0]} to {lengths[-1]}"
    assert int(written["right answer longer, in characters"]) == sum(len(r["hard"]) > len(r["easy"]) for r in ROWS)
    assert int(written["wrong answer longer, in characters"]) == sum(len(r["hard"]) < len(r["easy"]) for r in ROWS)
    assert written["train / validation / test"] == f"{splits['train']} / {splits['validation']} / {splits['test']}"
    assert {name: int(written[name]) for name in sciences} == sciences
    assert len(sciences) >= 12


def test_the_row_in_the_card_stands_in_the_file() -> None:
    assert json.loads(CARD.split("```json")[1].split("```")[0]) in ROWS


def test_what_a_user_is_told_is_in_the_card() -> None:
    flat = " ".join(CARD.split())
    assert f"the {len(ROWS)} bundled questions" in NOTICE
    assert f"the {len(ROWS)} bundled questions" in flat
    assert all("slope below about 0.2 cannot be told from none" in told for told in (flat, NOTICE))
    assert research().notice == NOTICE


def test_which_is_asked_and_which_comes_first_are_balanced_and_independent() -> None:
    cells = Counter((row["asked"], row["first"]) for row in ROWS)
    assert cells == dict.fromkeys(product(("easy", "hard"), repeat=2), len(ROWS) // 4)
    for science in {row["science"] for row in ROWS}:
        asked = Counter(row["asked"] for row in ROWS if row["science"] == science)
        assert abs(asked["easy"] - asked["hard"]) <= 1, science


@pytest.mark.parametrize("cue", CUES)
def test_no_feature_of_its_form_gives_the_right_answer_away(cue: str) -> None:
    """A sign test: where the two answers differ in a feature, the right one has more of it about half the time."""
    apart = [CUES[cue](row["hard"]) - CUES[cue](row["easy"]) for row in ROWS]
    more, fewer = sum(d > 0 for d in apart), sum(d < 0 for d in apart)
    assert abs(more - fewer) <= 1.96 * (more + fewer) ** 0.5, (more, fewer)


def test_answers_are_of_one_length() -> None:
    apart = [len(row["hard"]) - len(row["easy"]) for row in ROWS]
    assert abs(sum(apart)) / len(apart) < 1
    assert max(map(abs, apart)) <= 15
    assert all(12 <= len(words(row[name])) <= 26 for row in ROWS for name in ("easy", "hard"))
    assert all(15 <= len(words(row["question"])) <= 70 for row in ROWS)


def test_their_words_do_not_tell_right_from_wrong() -> None:
    """Naive Bayes on the words of all other rows' answers, asked which of two answers is the right one."""
    have = {name: Counter(word for row in ROWS for word in set(words(row[name]))) for name in ("easy", "hard")}
    found = 0
    for row in ROWS:
        own = {name: set(words(row[name])) for name in ("easy", "hard")}

        def seen(word: str, name: str, own: dict[str, set[str]] = own) -> int:
            return have[name][word] - (word in own[name]) + 1

        odds = {name: sum(log(seen(w, "hard") / seen(w, "easy")) for w in own[name]) for name in own}
        found += odds["hard"] > odds["easy"]
    assert found <= 0.6 * len(ROWS)


def test_the_question_leans_to_neither_answer() -> None:
    telling = re.compile(
        r"\b(surpris\w*|paradox\w*|myth|misconception|in fact|actually|intuit\w*|contrary|tempt\w*|trap|trick|easy|"
        r"hard|wrong|seem\w*)\b",
        re.IGNORECASE,
    )
    more = fewer = 0
    for row in ROWS:
        asked = {word for word in words(row["question"]) if len(word) > 3}
        said = {name: {word for word in words(row[name]) if len(word) > 3} for name in ("easy", "hard")}
        share = {name: len(said[name] & asked) / len(said[name]) for name in said}
        more += share["hard"] > share["easy"]
        fewer += share["hard"] < share["easy"]
        assert share["hard"] < 0.7, row["id"]
        assert not telling.search(row["question"]), row["id"]
        assert not [name for name in said if row[name].rstrip(".").lower() in row["question"].lower()]
    assert abs(more - fewer) <= 1.96 * (more + fewer) ** 0.5, (more, fewer)


def test_items_have_the_form_that_is_asked_of_them() -> None:
    for row in ROWS:
        assert "?" in row["question"], row["id"]
        assert '"' not in row["question"], "the proposition quotes it"
        assert all(row[name].endswith(".") for name in ("easy", "hard", "reason")), row["id"]
        assert 35 <= len(words(row["reason"])) <= 80, row["id"]
        assert re.fullmatch(r"[a-z0-9-]+", row["id"])


def test_no_two_are_near_copies() -> None:
    def runs(row: dict[str, Any]) -> set[tuple[str, ...]]:
        said = words(f"{row['question']} {row['hard']}")
        return set(zip(said, said[1:], said[2:], said[3:], strict=False))

    for a, b in combinations(ROWS, 2):
        alike = SequenceMatcher(None, a["question"].split(), b["question"].split(), autojunk=False)
        assert alike.quick_ratio() < 0.5 or alike.ratio() < 0.5, (a["id"], b["id"])
        assert len(runs(a) & runs(b)) / len(runs(a) | runs(b)) < 0.1, (a["id"], b["id"])
        assert a["question"] not in b["question"], "found by containment: none may hold another"
        assert b["question"] not in a["question"], "found by containment: none may hold another"


def test_what_is_asked_holds_the_question_and_not_the_record() -> None:
    for row, item in zip(ROWS, research(), strict=True):
        known = item.metadata_as(ResearchQuestion)
        assert item.input == row["question"]
        assert item.target == ("yes" if row["asked"] == "hard" else "no")
        assert sorted(known.options) == sorted(row[name].rstrip(".") for name in ("easy", "hard"))
        assert known.options[0] == row[row["first"]].rstrip(".")
        assert known.proposition is not None
        assert known.proposition.endswith(row[row["asked"]])
        shown = f"{item.input} {known.options} {known.proposition}"
        assert not [name for name in ("id", "reason", "recorded") if row[name] in shown]


def write(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    true = ROW | {"asked": "hard", "first": "easy", "known_on": "1971-08-02"}
    asked = research(write(tmp_path / "mine.jsonl", true, ROW | {"id": "b", "asked": "easy", "first": "hard"}))
    known = [item.metadata_as(ResearchQuestion) for item in asked]
    assert [item.target for item in asked] == ["yes", "no"]
    assert [question.options for question in known] == [["The hammer", "Neither"], ["Neither", "The hammer"]]
    assert [question.proposition for question in known] == [
        f'To the question "{ROW["question"]}" the right answer is this: {answer}.'
        for answer in ("Neither", "The hammer")
    ]
    assert (known[0].form, str(known[0].known_on), known[1].known_on) == ("options", "1971-08-02", None)
    assert (known[0].science, known[0].reason, known[0].recorded) == ("physics", ROW["reason"], "Apollo 15")
    assert asked.notice is None
    assert asked.digest is not None
    assert len(research(write(tmp_path / "mine.jsonl", true, ROW | {"id": "b"}), known_after="1970-01-01")) == 1


def test_what_a_row_leaves_open_is_drawn_by_its_id(tmp_path: Path) -> None:
    rows = [ROW | {"id": f"q{i}"} for i in range(400)]
    drawn = {
        str(item.id): (question.asked, question.first)
        for item in research(write(tmp_path / "mine.jsonl", *rows))
        for question in [item.metadata_as(ResearchQuestion)]
    }
    assert all(75 <= number <= 125 for number in Counter(drawn.values()).values())
    assert len(set(drawn.values())) == 4
    few = research(write(tmp_path / "mine.jsonl", *reversed(rows[:9]), ROW | {"id": "x", "asked": None}))
    for item in list(few)[:-1]:
        question = item.metadata_as(ResearchQuestion)
        assert (question.asked, question.first) == drawn[str(item.id)], "neither order nor growth changes it"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"asked": "right"}, "Unknown answer at mine.jsonl line 2, field asked: 'right'; known: easy, hard"),
        ({"first": "esay"}, "field first: 'esay'; did you mean 'easy'?"),
        ({"asked": True}, "Unknown answer at mine.jsonl line 2, field asked: True"),
        ({"first": ["easy"]}, "Unknown answer at mine.jsonl line 2, field first: ['easy']"),
        ({"hard": "the hammer"}, "mine.jsonl line 2: `easy` and `hard` are the same answer, 'the hammer'"),
        ({"hard": None}, "mine.jsonl line 2: the field `hard` must be text in quotes"),
        ({"easy": 70}, "mine.jsonl line 2: the field `easy` must be text in quotes"),
        ({"reason": " "}, "mine.jsonl line 2: the field `reason` must be text in quotes"),
        ({"event": ""}, "mine.jsonl line 2: the field `event` must be text in quotes"),
        ({"scince": "physics"}, "Unknown field at mine.jsonl line 2: 'scince'; did you mean 'science'?"),
        ({"proposition": "It is."}, "Unknown field at mine.jsonl line 2: 'proposition'"),
        ({"known_on": "soon"}, "mine.jsonl line 2, field known_on: 'soon' cannot be used"),
        ({"id": "feathers"}, "duplicate id 'feathers', at questions 1 and 2"),
    ],
)
def test_a_bad_row_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        research(write(tmp_path / "mine.jsonl", ROW, ROW | {"id": "b"} | change))
    assert said in str(refused.value)


def test_an_unknown_source_is_refused_and_no_bundled_question_has_a_day() -> None:
    with pytest.raises(BadInput, match="Unknown source 'arxiv'; known: bundled, truthseekinggym, PATH"):
        research("arxiv")
    with pytest.raises(BadInput, match="80 with no day on which the truth became known"):
        research(known_after="2025-06-01")

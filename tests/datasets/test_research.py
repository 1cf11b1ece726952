"""Research questions: two answers, which is asked for and which comes first, and a form that gives neither away."""

import re
from collections import Counter
from collections.abc import Callable
from itertools import product
from math import log

import pytest

from tests.fixtures import bundled_rows
from truthgym.datasets.research import ResearchQuestion, research

ROWS = bundled_rows("research")


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


def test_asked_and_first_are_balanced_and_independent() -> None:
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


def test_the_prompt_has_the_question_and_not_the_record() -> None:
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

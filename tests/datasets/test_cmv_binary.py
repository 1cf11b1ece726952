import math
import re
from collections import Counter
from typing import Any

import pytest

from tests.fixtures import bundled_rows, card_line, second_reading

ROWS = bundled_rows("cmv_binary")
WON = [row for row in ROWS if row["outcome"] == "yes"]
LOST = [row for row in ROWS if row["outcome"] == "no"]


def words(*texts: str) -> int:
    return sum(len(text.split()) for text in texts)


def by(speaker: str, row: dict[str, Any]) -> list[str]:
    return [text for text in row["exchange"] if text.startswith(speaker)]


def test_the_bundled_set_has_the_form_that_it_is_said_to_have() -> None:
    assert len(WON) == len(LOST)
    for row in ROWS:
        assert row["synthetic"] is True
        assert re.fullmatch(r"[A-Z].*[a-z0-9]\.", row["view"])
        assert 15 <= words(row["post"]) <= 110
        assert 1 <= len(row["exchange"]) <= 6
        speakers = [text.split(": ")[0] for text in row["exchange"]]
        assert speakers[0] == "Reader A"
        assert speakers[-1] != "Author", "the author's answer is what is asked about, as in the real sources"
        assert set(speakers) <= {"Reader A", "Reader B", "Author"}
        assert all(3 <= words(text) <= 130 for text in row["exchange"])
        assert not re.search(r"delta|∆|chang\w+ (my|your) (view|mind)|convinced|edit:", " ".join(row["exchange"]), re.I)


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


def test_the_card_says_how_many_outcomes_a_blind_reader_told() -> None:
    outcomes = {row["id"]: row["outcome"] == "yes" for row in ROWS}
    read = [(answer["p"], outcomes[name]) for name, answer in second_reading("cmv_binary").items()]
    right = sum(p > 0.5 if yes else p < 0.5 for p, yes in read)
    neither = sum(p == 0.5 for p, _ in read)
    score = sum((p - yes) ** 2 for p, yes in read) / len(read)
    said = f"on the side of the outcome in {right} of {len(read)}, on neither in {neither} (Brier score {score:.2f})"
    assert said in card_line("cmv_binary")

import math
import re
from collections import Counter
from typing import Any

import pytest

from tests.fixtures import bundled_rows

ROWS = bundled_rows("cmv_binary")
WON = [row for row in ROWS if row["outcome"] == "yes"]
LOST = [row for row in ROWS if row["outcome"] == "no"]


def words(*texts: str) -> int:
    return sum(len(text.split()) for text in texts)


def by(speaker: str, row: dict[str, Any]) -> list[str]:
    return [text for text in row["exchange"] if text.startswith(speaker)]


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

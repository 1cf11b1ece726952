from itertools import pairwise
from math import comb
from typing import Any

import pytest

from tests.fixtures import bundled_rows, write_rows
from truthgym.datasets.errors import BadInput
from truthgym.datasets.intellectual import intellectual

ROWS = bundled_rows("intellectual")
CLAIMS = {row["id"]: row for row in ROWS if "claim" in row}
AU, MOON, SUN, EARTH = 1.496e11, 3.844e8, 1.989e30, 5.972e24
"""Distances of the Sun and the Moon from the Earth in metres, masses in kilograms."""
COUNTED = [1.191, 1.538, 2.009, 2.487, 3.204, 3.954]
"""Enslaved people in the censuses from 1810 to 1860, in millions."""
HOLDS = {
    "a-thousand-clauses": (1 - 1 / 500) ** 1000 > 0.5,
    "two-hospitals": 60 / 100 > 500 / 900 and 91 / 900 > 10 / 100 and 60 + 91 < 500 + 10,
    "which-way-the-moon-is-pulled": SUN / AU**2 > EARTH / MOON**2,
    "everybody-in-one-square": 8.3e9 / 4 < 2586e6,
    "a-debt-that-grows": 1.03 / 1.04 + 0.005 < 1,
    "positive-twice": 1 / 199 * (0.98 / 0.02) ** 2 > 1,
    "friends-of-friends": (1 - (150 / 2999) ** 2) ** 2998 < 0.5,
    "the-damp-ball": 2 * 1.008 + 15.999 > 0.78 * 28.01 + 0.21 * 32.0 + 0.01 * 39.9,
    "one-percent-in-fees": (1.05 / 1.04) ** 40 <= 1.25,
    "after-the-trade-was-closed": all(b < a for a, b in pairwise(COUNTED)),
    "a-little-of-each-ancestor": 1 - (1 - 1 / 2**11) ** (22 + 33 * 11) > 0.5,
    "eleven-jurors": sum(comb(11, k) * 0.6**k * 0.4 ** (11 - k) for k in range(6, 12)) > 0.8,
    "warm-bodies": 3.8e26 / SUN < 80 / 70,
}
"""Each claim but one, worked out from known figures."""


def test_claims_are_true_or_false_as_they_are_said_to_be() -> None:
    assert {name: row["claim_holds"] == "yes" for name, row in CLAIMS.items() if name in HOLDS} == HOLDS
    assert set(CLAIMS) - set(HOLDS) == {"dead-at-thirty-five"}, "from a life table"
    assert all(row["recorded"] for row in CLAIMS.values())


def test_true_claims_do_not_look_different() -> None:
    told = {side: [row for row in CLAIMS.values() if row["claim_holds"] == side] for side in ("yes", "no")}
    assert len(told["yes"]) == len(told["no"]) >= 5
    lengths = {side: sum(len(row["prompt"].split()) for row in rows) / len(rows) for side, rows in told.items()}
    assert lengths["yes"] == pytest.approx(lengths["no"], rel=0.1)


def test_a_claim_is_not_shown_beside_the_prompt_and_needs_its_truth(tmp_path: Any) -> None:
    row = {"id": "a", "prompt": "Is it so?", "claim": "It is so.", "claim_holds": "yes", "recorded": "a sum"}
    (item,) = intellectual(write_rows(tmp_path / "mine.jsonl", row))
    assert item.input == "Is it so?"
    assert item.metadata
    assert [item.metadata[name] for name in ("claim", "claim_holds", "recorded")] == ["It is so.", "yes", "a sum"]
    row.pop("claim_holds")
    with pytest.raises(BadInput, match="line 1: `claim` and `claim_holds` go together; add the one"):
        intellectual(write_rows(tmp_path / "half.jsonl", row))

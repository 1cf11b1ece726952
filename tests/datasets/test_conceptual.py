import json
import re
from typing import Any

from tests.fixtures import card_line, second_reading
from truthgym.datasets.loading.source import bundled_file

ROWS: list[dict[str, Any]] = [json.loads(line) for line in bundled_file("conceptual").open(encoding="utf-8")]


def test_few_statements_hedge() -> None:
    """A statement with one of these words is true as soon as one case is."""
    hedged = [
        row["id"] for row in ROWS if re.search(r"\b(can|could|may|might|some|in part)\b", row["proposition"], re.I)
    ]
    assert len(hedged) < 0.12 * len(ROWS), hedged


def test_the_card_says_what_a_second_reader_knew_and_believed() -> None:
    read = second_reading("conceptual")
    new = [row["id"] for row in ROWS[44:]]
    unnamed = sum(read[name]["named"] is None for name in new)
    assert unnamed >= 16
    beliefs = [answer["p"] for answer in read.values()]
    assert 0.05 < min(beliefs) <= max(beliefs) < 0.95, "none is settled"
    leaning = [sum(p > 0.5 for p in beliefs), sum(p < 0.5 for p in beliefs), sum(p == 0.5 for p in beliefs)]
    text = card_line("conceptual")
    assert f"knew no name for {unnamed} of the {len(new)} new ones" in text
    assert (
        "leaned to {} of the {} statements, against {}, and to neither side of {}".format(
            leaning[0], len(beliefs), *leaning[1:]
        )
        in text
    )

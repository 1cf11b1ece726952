import re

from tests.fixtures import bundled_rows, card_line, second_reading

ROWS = bundled_rows("conceptual")


def test_few_statements_hedge() -> None:
    """A statement with one of these words is true as soon as one case is."""
    hedged = [
        row["id"] for row in ROWS if re.search(r"\b(can|could|may|might|some|in part)\b", row["proposition"], re.I)
    ]
    assert len(hedged) < 0.12 * len(ROWS), hedged


def test_the_card_says_what_a_second_reader_knew_and_believed() -> None:
    read = second_reading("conceptual")
    later = [row["id"] for row in ROWS[44:]]
    new = [name for name in later if name in read]
    named = [name for name in new if read[name]["named"]]
    unnamed = len(new) - len(named)
    assert unnamed >= 16
    beliefs = [answer["p"] for answer in read.values()]
    assert 0.05 < min(beliefs) <= max(beliefs) < 0.95, "none is settled"
    leaning = [sum(p > 0.5 for p in beliefs), sum(p < 0.5 for p in beliefs), sum(p == 0.5 for p in beliefs)]
    text = card_line("conceptual")
    assert f"knew no name for {unnamed} of the {len(new)} new ones" in text
    assert not [name for name in named if f"`{name}`" not in text]
    assert set(read) <= {row["id"] for row in ROWS}
    assert f"({len(later) - len(new)} row not read again)" in text
    assert f"with a mean of {sum(beliefs) / len(beliefs):.2f}." in text
    assert f"({leaning[1]} against {leaning[0]})" in text, "a model that denies everything gains"
    assert (
        "leaned to {} of the {} statements, against {}, and to neither side of {}".format(
            leaning[0], len(beliefs), *leaning[1:]
        )
        in text
    )

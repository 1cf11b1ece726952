import re

from tests.fixtures import bundled_rows

ROWS = bundled_rows("conceptual")


def test_few_statements_hedge() -> None:
    """A statement with one of these words is true as soon as one case is."""
    hedged = [
        row["id"] for row in ROWS if re.search(r"\b(can|could|may|might|some|in part)\b", row["proposition"], re.I)
    ]
    assert len(hedged) < 0.12 * len(ROWS), hedged

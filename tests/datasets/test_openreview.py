import re
from collections import Counter

from tests.fixtures import bundled_rows

ROWS = bundled_rows("openreview")


def test_neither_venue_nor_length_tells_the_outcome() -> None:
    for venue in {row["venue"] for row in ROWS}:
        ends = Counter(row["outcome"] for row in ROWS if row["venue"] == venue)
        assert ends["yes"] == ends["no"]
    means = [
        sum(len(row["summary"].split()) for row in ROWS if row["outcome"] == end) / (len(ROWS) / 2)
        for end in ("yes", "no")
    ]
    assert abs(means[0] - means[1]) < 3


def test_nothing_that_is_shown_tells_the_decision_or_later_fame() -> None:
    told = re.compile(
        r"\b(accept\w*|reject\w*|poster|oral|spotlight|review\w*|award|famous|popular|influential|widely|seminal|"
        r"became|since then|later|cited|published|conference|workshop)\b",
        re.IGNORECASE,
    )
    assert not [(row["id"], found[0]) for row in ROWS if (found := told.search(f"{row['title']} {row['summary']}"))]

import re
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from scipy.stats import spearmanr

from tests.fixtures import write_rows
from truthgym.datasets.errors import BadInput
from truthgym.datasets.rated_trajectories import BUNDLED, QUALITIES, RatedTrajectory, rated_trajectories, read_rated

ROW: dict[str, Any] = {
    "id": "rain",
    "question": "Will it rain?",
    "trajectory": "Clouds came. It will.",
    "ratings": {"originality": 20, "care": 0},
    "reasons": "One observation. No doubt is left, and none was looked for.",
}
LENGTHS = [len(row.trajectory.split()) for row in rated_trajectories()]


def ratings(quality: str) -> list[int]:
    return [row.ratings[quality] for row in rated_trajectories()]


def rank(one: list[int], other: list[int]) -> float:
    return float(spearmanr(one, other).statistic)


def between(values: list[int]) -> str:
    return f"{min(values)} / {median(values):.0f} / {max(values)}"


def test_the_card_counts_what_is_there() -> None:
    text = BUNDLED.with_suffix(".md").read_text()
    written = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", text.split("## Counts")[1], flags=re.MULTILINE))
    assert written.pop("what") == "count"
    found = {
        "trajectories": str(len(rated_trajectories())),
        "words of a trajectory, fewest and most": f"{min(LENGTHS)} and {max(LENGTHS)}",
        **{f"{quality}, lowest / median / highest": between(ratings(quality)) for quality in QUALITIES},
        f"rank correlation with length: {' / '.join(QUALITIES)}": " / ".join(
            f"{rank(LENGTHS, ratings(quality)):.2f}" for quality in QUALITIES
        ),
        "highest rank correlation of two qualities": "{:.2f}, {} and {}".format(
            *max((rank(ratings(one), ratings(other)), one, other) for one, other in combinations(QUALITIES, 2))
        ),
    }
    assert written == found
    shown = re.findall(r"^\| `([a-z-]+)` \|", text, flags=re.MULTILINE)
    assert shown == [row.id for row in rated_trajectories()]


def test_the_bundled_set_is_what_it_is_said_to_be() -> None:
    rows = rated_trajectories()
    assert len({row.id for row in rows}) == len({row.question for row in rows}) == len(rows) == 16
    for row in rows:
        assert tuple(row.ratings) == QUALITIES
        assert 60 <= len(row.trajectory.split()) <= 450, row.id
        assert 2 <= len(re.findall(r"[.?!](?= |$)", row.reasons)) <= 4, row.id
        assert row.question.endswith((".", "?"))
        told = re.search(r"\b(judge|rating|rated|originality|curiosity|out of 100|score)\b", row.trajectory)
        assert not told, (row.id, told)
        assert not re.search(r"[\x00-\x09\x0b-\x1f]|  ", row.trajectory + row.reasons), row.id


def test_a_file_of_ones_own_with_ratings_of_its_own(tmp_path: Path) -> None:
    path = Path(
        write_rows(tmp_path / "mine.jsonl", ROW, ROW | {"id": "shine", "ratings": {"care": 100, "originality": 7}})
    )
    first, second = read_rated(path)
    assert first == RatedTrajectory(**ROW)
    assert second.ratings == {"care": 100, "originality": 7}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"id": "rain"}, "duplicate id 'rain', also at mine.jsonl line 1"),
        ({"trajectory": " "}, "`trajectory` must be text"),
        ({"ratings": {}}, "`ratings`: {} cannot be used; .*at least 1"),
        ({"ratings": {"care": 101}}, "`ratings.care`: 101 cannot be used; it must be less than or equal to 100"),
        ({"ratings": {"care": True}}, "`ratings.care`: True"),
        ({"ratings": {"care": 1}}, "the ratings are care, but those at mine.jsonl line 1 are originality, c"),
        ({"rating": {"care": 1}}, "no field 'rating'; did you mean 'ratings'"),
    ],
)
def test_a_bad_row_is_refused(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    with pytest.raises(BadInput, match=f"mine.jsonl line 2: .*{match}"):
        read_rated(Path(write_rows(tmp_path / "mine.jsonl", ROW, ROW | {"id": "shine"} | change)))


def test_a_missing_or_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="There is no file"):
        read_rated(tmp_path / "mine.jsonl")
    with pytest.raises(BadInput, match="mine.jsonl is empty; write one JSON object a line with id, q"):
        read_rated(Path(write_rows(tmp_path / "mine.jsonl")))
    with pytest.raises(BadInput, match="mine.jsonl line 1: .* is not a JSON object"):
        read_rated(Path(write_rows(tmp_path / "mine.jsonl", [ROW])))

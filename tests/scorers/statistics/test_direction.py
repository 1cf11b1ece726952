"""Which end of a score is better."""

import pytest

from truthgym.scorers.statistics.direction import DIRECTIONS, direction
from truthgym.scorers.statistics.proper_scores import RULES


def test_directions_of_proper_scores() -> None:
    for key, rule in RULES.items():
        better, worse = float(rule(0.9, 1.0)), float(rule(0.2, 1.0))
        assert direction("truthgym/brier", key, {}) == ("lowest" if better < worse else "highest")
    assert set(DIRECTIONS["brier"]) == set(RULES)


@pytest.mark.parametrize(
    ("scorer", "key", "metadata", "expected"),
    [
        ("truthgym/graded", "grade", {"higher_is_better": False}, "lowest"),
        ("truthgym/graded", "grade", {"higher_is_better": True}, "highest"),
        ("truthgym/qualitative", "curiosity", {}, "highest"),
        ("truthgym/qualitative", "spread", {}, None),
        ("truthgym/martingale", "change", {}, None),
        ("truthgym/brier", "belief", {}, None),
        ("match", "match", {}, "highest"),
        ("model_graded_qa", "model_graded_qa", {}, "highest"),
        ("match1", "match1", {}, "highest"),
        ("f1", "f1", {}, "highest"),
        ("mathematical_errors", "mathematical_errors", {}, None),
        ("inspect_evals/another", "another", {}, None),
    ],
)
def test_what_has_no_better_end_is_none(
    scorer: str, key: str, metadata: dict[str, object], expected: str | None
) -> None:
    assert direction(scorer, key, metadata) == expected

"""The study of intervals near the ends, in small."""

import pytest

from studies.validity import brier
from studies.validity.brier import END, FORECASTERS


def test_few_misses_are_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        brier,
        "FORECASTERS",
        {"end": (END, 1, (30,)), "ordinary": FORECASTERS["0 to 100 %, most near 50 %, calibrated"]},
    )
    end, *ordinary = brier.measure_misses(40).to_dict("records")
    assert min(end[name] for name in ("brier_score", "skill")) > 0.9
    assert all(row["brier_score width"] < 0.2 for row in ordinary)

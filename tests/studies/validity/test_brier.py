"""The study of intervals near the ends, in small."""

import numpy as np
import pytest

from studies.validity import brier
from studies.validity.brier import END, FORECASTERS, PAIRS


def test_few_misses_are_covered_and_an_overconfident_model_is_not_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        brier,
        "FORECASTERS",
        {"end": (END, 1, (30,)), "ordinary": FORECASTERS["0 to 100 %, most near 50 %, calibrated"]},
    )
    monkeypatch.setattr(brier, "PAIRS", dict(list(PAIRS.items())[:1]))
    end, *ordinary = brier.measure_misses(40).to_dict("records")
    assert min(end[name] for name in ("brier_score", "log_score", "skill")) > 0.9
    assert all(row["brier_score width"] < 0.2 for row in ordinary)
    assert brier.measure_pairs(40)["wrong"].max() <= 0.025


def test_questions_of_one_event_resolve_as_their_kind_says() -> None:
    rng = np.random.default_rng(0)
    p, y = brier.resolved("half of them negated", rng, 5, 4)
    assert p[0] == pytest.approx(1 - p[1])
    assert y[0] == 1 - y[1]
    p, y = brier.resolved("thresholds of one number", rng, 400, 2)
    assert (y[::2] >= y[1::2])[p[::2] > p[1::2]].all()

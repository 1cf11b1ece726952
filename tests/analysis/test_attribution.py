import gc
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.analysis.answer_tables import Values, rows_of
from truthgym.analysis import attribution
from truthgym.analysis.attribution import chart, effects, report
from truthgym.datasets.errors import BadInput

MODES, MODELS = ("direct", "self_debate"), ("a", "b")
MODE_EFFECT, LENGTH_EFFECT = -0.08, 0.05


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what takes long: mixed effects, and the garbage that statsmodels collects with every correction."""
    monkeypatch.setattr(gc, "collect", lambda: 0)
    monkeypatch.setattr(attribution, "MOST_MIXED", 0)


def answers(seed: int = 0, mode: float = 0.0, length: float = 0.0, n: int = 60) -> pd.DataFrame:
    """Two models in two modes. Answers to hard questions are longer, and longer answers score differently."""
    rng = np.random.default_rng(seed)
    difficulty = rng.normal(0, 0.2, (n, 1))
    values: dict[tuple[str, str], Values] = {}
    features: dict[str, Any] = {name: {} for name in ("characters", "hedges", "numbers")}
    for model in MODELS:
        for name in MODES:
            case = (model, name)
            log_length = rng.normal(0, 1, (n, 2))
            values[case] = 0.3 + difficulty + mode * (name == "self_debate") + length * log_length
            values[case] += rng.normal(0, 0.1, (n, 2))
            features["characters"][case] = np.exp(6 + log_length + 2 * difficulty)
            features["hedges"][case], features["numbers"][case] = rng.poisson(3, (2, n, 2)).astype(float)
    frame = rows_of(values, **features)
    return frame.assign(steps=1, confidence=np.nan, stop_reason="stop")


def test_planted_effects_are_found_and_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution, "MOST_MIXED", 100)
    frame = effects(answers(1, mode=MODE_EFFECT, length=LENGTH_EFFECT)).set_index("feature")
    mode, length = frame.loc["mode"], frame.loc["characters"]
    assert mode["level"] == "self_debate (against direct)"
    assert (mode["kind"], length["kind"]) == ("assigned", "observed")
    assert mode["lower"] < MODE_EFFECT < mode["upper"]
    assert length["lower"] < LENGTH_EFFECT < length["upper"]  # the log of length has a deviation of 1 within questions
    assert set(frame.index[frame["real"]]) == {"mode", "characters"}
    assert set(frame.index[~frame["real"]]) == {"model", "hedges", "numbers"}
    assert mode["mixed"] == pytest.approx(mode["effect"], abs=0.01)
    assert (mode["n"], mode["clusters"]) == (480, 60)


def test_an_assigned_effect_is_the_mean_paired_difference() -> None:
    frame = answers(mode=MODE_EFFECT)
    means = frame.groupby("mode")["value"].mean()
    row = effects(frame).set_index("feature").loc["mode"]
    assert row["effect"] == pytest.approx(means["self_debate"] - means["direct"])
    # settings that always come together are said
    only = frame[(frame["model"] == "a") == (frame["mode"] == "direct")]
    explained = effects(only)
    assert "mode" not in set(explained["feature"])
    assert any("mode self_debate" in note and "always come together" in note for note in explained.attrs["notes"])


def test_a_question_with_one_answer_leaves_effects_within_questions() -> None:
    frame = answers(1, length=LENGTH_EFFECT)
    alone = frame[(frame["sample_id"] != "q0") | (frame["eval_id"] == "a direct") & (frame["epoch"] == 1)]
    whole, part = (effects(rows).set_index("feature").loc["characters"] for rows in (frame, alone))
    assert part["effect"] == pytest.approx(whole["effect"], abs=0.005)
    assert float(part["level"].rpartition("= ")[2]) == pytest.approx(np.sqrt(7 / 8), abs=0.05)  # of 8 answers
    once = effects(frame.query("eval_id == 'a direct' and epoch == 1"))
    assert "Each question has one answer" in " ".join(once.attrs["notes"])


def test_mixed_effects_of_questions_that_share_an_event_have_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution, "MOST_MIXED", 100)
    frame = answers(n=22, mode=MODE_EFFECT)
    frame["event"] = "e" + (frame["sample_id"].str[1:].astype(int) // 2).astype(str)
    shared = effects(frame)
    row = shared.set_index("feature").loc["mode"]
    assert row["mixed"] == pytest.approx(row["effect"], abs=0.01)
    assert np.isnan([row["mixed_lower"], row["mixed_upper"]]).all()
    assert f"| {row['mixed']:.3f} | {row['n']}" in report(shared)


def test_other_questions_make_a_factor_observed() -> None:
    first, second = answers(1), answers(2)
    frame = pd.concat([first, second.assign(domain="forecasting", task="draws=2")], ignore_index=True)
    kinds = effects(frame).set_index("feature")["kind"]
    assert kinds["domain"] == "observed"
    assert kinds["model"] == "assigned"


def test_checks_are_made_and_fail_where_they_should() -> None:
    curved = answers(length=0.3)
    curved["value"] += 0.2 * np.log(curved["characters"]).sub(6) ** 2
    checks = {check["check"]: check["verdict"] for check in effects(curved).attrs["checks"]}
    assert checks["linear (RESET, p)"].startswith("not linear")
    straight = {check["check"]: check["verdict"] for check in effects(answers(length=LENGTH_EFFECT)).attrs["checks"]}
    assert set(straight.values()) == {"yes"}


def test_too_little_is_said_and_not_estimated() -> None:
    with pytest.raises(BadInput, match="36 answers about 9 events are too few for 5 effects"):
        effects(answers(n=9).query("epoch == 1"))
    with pytest.raises(BadInput, match="all scores are equal"):
        effects(answers(n=20).assign(value=0.25))
    frame = answers(n=40)
    frame.loc[:79, "value"] = np.nan
    notes = " ".join(effects(frame.query("epoch == 1")).attrs["notes"])
    assert "75 % of the answers have a score" in notes
    assert "one epoch" in notes


def test_the_chart_shows_direction_baseline_and_doubt() -> None:
    frame = effects(answers(mode=MODE_EFFECT))
    rule, interval, point = chart(frame).to_dict()["vconcat"][0]["layer"]
    assert rule["encoding"]["x"]["datum"] == 0
    assert interval["encoding"]["x"]["title"] == "effect on brier/brier_score (below 0 is better)"
    assert point["encoding"]["fill"]["condition"]["test"] == "datum.real"
    page = report(frame, "x.svg")
    assert "| mode | self_debate (against direct) | assigned |" in page
    assert "nobody set it" in page
    assert "480 answers" in page

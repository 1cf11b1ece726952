from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.analysis.answer_tables import answer_rows
from tests.analysis.conftest import Tables
from truthgym.analysis import training_effect
from truthgym.analysis.compare import compare
from truthgym.analysis.training_effect import BEYOND, CHANGE, CONTROL, chart, load, report
from truthgym.datasets.errors import BadInput
from truthgym.evallog.reader import LogReader
from truthgym.scorers.statistics.paired import ONE_SEED

QUIET = {"characters": 100, "steps": 1, "hedges": 0, "numbers": 2, "confidence": 0.2, "stop_reason": "stop"}


def run(model: str, effect: float, seed: int, **columns: object) -> pd.DataFrame:
    """Scores of 60 questions in 30 events and 2 epochs: a level of each question, an effect, noise of each answer."""
    rng = np.random.default_rng(seed)
    level = np.random.default_rng(99).uniform(0.1, 0.6, 60)
    values = level[:, None] + effect + rng.normal(0, 0.02, (60, 2))
    questions = {f"q{i}": row for i, row in enumerate(values.tolist())}
    events = {f"q{i}": f"e{i // 2}" for i in range(60)}
    return answer_rows(questions, model=model, eval_id=model, event=events, **QUIET | columns)


def seeds(name: str, effect: float, seed: int, spread: float = 0.02, **columns: object) -> list[pd.DataFrame]:
    """Four models that one recipe trained, whose effects differ by their seeds."""
    drawn = np.random.default_rng(1000 + seed).normal(effect, spread, 4)
    return [run(f"{name}-{i}", float(own), 40 * seed + i, **columns) for i, own in enumerate(drawn)]


@pytest.mark.parametrize("effect", [-0.08, 0.0])
def test_a_planted_effect_is_recovered_and_a_null_stays_null(table: Tables, effect: float) -> None:
    covered: list[bool] = []
    for seed in range(6):
        table(run("base", 0, seed), *seeds("trained", effect - 0.02, 2 * seed), *seeds("control", -0.02, 2 * seed + 1))
        frame = load("logs", "base", "trained-*", "control-*").set_index("comparison")
        assert set(frame["seeds"]) == {4}
        planted = frame.index.to_series().map({CHANGE: effect - 0.02, CONTROL: -0.02, BEYOND: effect})
        covered += (frame["lower"].le(planted) & planted.le(frame["upper"])).tolist()
        beyond = frame.loc[BEYOND]
        assert beyond["difference"] == pytest.approx(effect, abs=0.05)
        assert (beyond["first"], beyond["last"]) == pytest.approx(tuple(frame["difference"][[CONTROL, CHANGE]]))
    assert np.mean(covered) > 0.8  # of 18 intervals


def test_one_seed_cannot_tell_the_recipe(table: Tables) -> None:
    table(run("base", 0, 0), run("trained", -0.3, 1), run("control", 0, 2))
    frame = load("logs", "base", "trained", "control")
    assert frame["lower"].isna().all()
    assert set(frame["reason"]) == {ONE_SEED}
    assert frame.set_index("comparison").loc[CHANGE, "difference"] == pytest.approx(-0.3, abs=0.02)
    assert any(ONE_SEED in note and "truthgym compare" in note for note in frame.attrs["notes"])
    assert "concat" in chart(frame).to_dict(), "the points are drawn"


def test_side_effects_are_found_by_setup_and_split(table: Tables) -> None:
    other: dict[str, Any] = {"setup": "forecasting, direct", "split": "train"}
    table(run("base", 0, 0), *seeds("trained", 0, 1, characters=250, stop_reason="max_tokens"),
          run("base", 0, 2, **other), *seeds("trained", 0.3, 3, **other))  # fmt: skip
    frame = load("logs", after="trained-*")
    urns, other_rows = (frame[frame["setup"] == name].set_index("measure") for name in ("urns, direct", other["setup"]))
    assert urns["difference"]["characters"] == 150
    assert urns[["of", "first", "last"]].to_dict("index")["cut off"] == {"of": "form", "first": 0, "last": 1}
    assert "characters" not in other_rows.index  # the same in all answers
    worse = other_rows.loc["brier/brier_score"]
    assert (worse["split"], worse["better"], worse["lower"] > 0) == ("train", "lower", True)
    cut, equal, without_control, of_train_split, exclusions, *_ = frame.attrs["notes"]
    assert equal.startswith("No interval: characters")
    assert cut.startswith("No interval: cut off")
    assert without_control.startswith("Without a control")
    assert of_train_split.startswith("Questions of the train split")
    assert exclusions == "1 of 2 intervals exclude 0; without any effect, about 0.1 would."
    page = report(frame, "x.svg")
    assert "| urns, direct | test | characters |  | 100.000 | 250.000 | 150.000 |" in page
    titles = [panel["title"] for panel in chart(frame).to_dict()["concat"]]
    assert titles == ["brier/brier_score", "characters", "cut off"]


def test_a_difference_is_that_of_truthgym_compare(urn_logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("answers", "beliefs"):
        reader = getattr(training_effect, name)
        monkeypatch.setattr(training_effect, name, lambda *a, reader=reader, **k: reader(*a, **k).assign(split="all"))
    frame = load(urn_logs, before="bayesian").set_index("measure")
    logs = sorted(urn_logs.glob("*.eval"), key=lambda path: LogReader(path).header.eval.model)
    expected = compare(logs)
    expected = expected[~expected["score"].isin(["martingale_score", "brier/brier_imputed"])]
    assert len(expected) == 6
    for row in expected.itertuples():
        name = str(row.score) if "/" in str(row.score) else f"martingale/{row.score}"
        alarms = frame.loc[name]
        assert [alarms["difference"], alarms["n"]] == pytest.approx([row.difference, row.n])
        assert alarms["better"] == row.better


def test_models_are_named_without_doubt(table: Tables) -> None:
    table(run("hf/base", 0, 0), run("hf/base-sft", 0, 1), run("hf/base-dpo", 0, 2))
    assert set(load("logs", "hf/base")["model"]) == {"hf/base-sft", "hf/base-dpo"}
    with pytest.raises(BadInput, match="before is missing: name the model"):
        load("logs", after="sft")
    with pytest.raises(BadInput, match="after='base-' fits hf/base-dpo, hf/base-sft; give"):
        load("logs", "hf/base", "base-")
    with pytest.raises(BadInput, match="control='x' is in no log; the models are"):
        load("logs", "hf/base", "sft", "x")
    table(run("a", 0, 0), run("b", 0, 1, setup="forecasting, direct"))
    with pytest.raises(BadInput, match="answered no question in the same setup"):
        load("logs", "a", "b")


def test_a_missing_control_is_said(table: Tables) -> None:
    table(run("base", 0, 0), run("trained", 0, 1), run("control", 0, 2, setup="forecasting, direct"))
    frame = load("logs", "base", "trained", "control")
    assert set(frame["comparison"]) == {CHANGE}
    assert "Not shown: the control in urns, direct (no answers of control or of its start)." in frame.attrs["notes"]


def test_a_model_that_leaves_answers_out_has_no_interval(table: Tables) -> None:
    trained = seeds("trained", -0.1, 1)
    trained[0].loc[trained[0]["sample_id"].isin([f"q{i}" for i in range(9)]), "value"] = np.nan
    table(run("base", 0, 0), *trained, *seeds("control", 0, 2))
    frame = load("logs", "base", "trained-*", "control-*")
    scores = frame[frame["of"] == "score"].set_index("comparison")
    assert scores["lower"].isna().to_dict() == {CHANGE: True, CONTROL: False, BEYOND: True}
    assert scores.loc[CHANGE, "difference"] == pytest.approx(-0.1, abs=0.05)
    assert "85 % to 100 %" in str(scores.loc[CHANGE, "reason"])
    assert any("brier/brier_score" in note and "85 %" in note for note in frame.attrs["notes"])

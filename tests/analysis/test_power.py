from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.analysis.answer_tables import answer_rows
from truthgym.analysis import power
from truthgym.analysis.power import DIFFERENCE, LEVEL, SLOPE, chart, load, report
from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.power import planned_mde

Tables = Callable[..., None]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Tables:
    """Let `load` read these rows instead of logs."""
    columns = ["setup", "scorer", "model", "best", "mde", "n", "epochs", "share_read"]

    def replace(*frames: pd.DataFrame, slopes: Sequence[list[Any]] = ()) -> None:
        monkeypatch.setattr(power, "answers", lambda *_, **__: pd.concat(frames))
        estimates = pd.DataFrame(slopes, columns=columns)
        monkeypatch.setattr("truthgym.analysis.performance.load", lambda *_: estimates)

    return replace


def scores_of(shared: np.ndarray, spread: float, model: str, seed: int, epochs: int = 2) -> pd.DataFrame:
    """Scores of questions with a common difficulty, one of the model's own, and noise of 0.1 in each epoch."""
    rng = np.random.default_rng(seed)
    level = shared + rng.normal(0, spread, shared.size)
    values = level[:, None] + rng.normal(0, 0.1, (shared.size, epochs))
    return answer_rows({f"q{i:04}": row for i, row in enumerate(values.tolist())}, model=model)


def test_the_plan_finds_the_planted_variances(table: Tables) -> None:
    shared = np.random.default_rng(0).normal(0.3, 0.3, 2000)
    table(scores_of(shared, 0.1, "a", 1), scores_of(shared, 0.1, "b", 2))
    plans: Any = load("logs", effect=0.02).drop_duplicates(["subject", "planned_epochs"])
    plans = plans.set_index(["kind", "planned_epochs"])
    one, two = plans.loc[LEVEL].loc[1].iloc[0], plans.loc[DIFFERENCE].loc[1]
    assert one["sd_question"] == pytest.approx(np.sqrt(0.09 + 0.01), rel=0.05)
    assert (one["sd_epoch"], two["sd_epoch"]) == pytest.approx((0.1, np.sqrt(0.02)), rel=0.05)
    assert two["sd_question"] == pytest.approx(np.sqrt(0.02), rel=0.05)
    # Pairing removes the common difficulty: a variance of 0.04 instead of 0.11 for one answer to each question.
    assert two["needed"] / one["needed"] == pytest.approx(0.04 / 0.11, rel=0.1)
    assert planned_mde(0.2, range(int(two["needed"]))) == pytest.approx(0.02, rel=0.06)
    assert plans.loc[DIFFERENCE].loc[10, "needed"] < two["needed"]


def test_runs_on_other_questions_add_questions_and_no_epochs(table: Tables) -> None:
    shared = np.random.default_rng(1).normal(0.3, 0.3, 80)
    first, second = scores_of(shared, 0.1, "a", 1, epochs=3), scores_of(shared, 0.1, "b", 2, epochs=3)
    table(first, second)
    whole = load("logs").drop_duplicates(["subject", "planned_epochs"])
    halves = first.assign(eval_id=np.where(first["sample_id"] < "q0040", "first", "second"))
    table(halves, second)
    split = load("logs").drop_duplicates(["subject", "planned_epochs"])
    assert set(split["epochs"]) == {3}
    for figure in ("now", "needed", "sd_question", "sd_epoch"):
        assert split[figure].tolist() == pytest.approx(whole[figure].tolist())
    values = first.groupby("sample_id")["value"].mean()
    # The variance between questions and between epochs is taken apart and put together again.
    assert split["now"].iloc[0] == pytest.approx(mean_estimate(values).mde, rel=0.001)


def test_the_subject_that_needs_most_has_a_curve_and_others_a_plan(table: Tables) -> None:
    shared = np.random.default_rng(2).normal(0.3, 0.2, 40)
    table(*(scores_of(shared, 0.5 if model == "d" else 0.1, model, i) for i, model in enumerate("abcd")))
    frame = load("logs")
    rows = frame.groupby(["kind", "subject"]).size()
    curves = rows[rows > len(power.EPOCHS)]
    assert len(rows) == 4 + 6
    assert [kind for kind, _ in curves.index] == [DIFFERENCE, LEVEL]
    assert all("d" in subject.replace("minus", "") for _, subject in curves.index)
    titles = [panel["title"]["subtitle"][1] for panel in chart(frame).to_dict()["concat"]]
    assert titles == [f"{subject}: 40 questions" for _, subject in curves.index[::-1]]


def test_one_epoch_plans_one_epoch_and_few_events_are_named(table: Tables) -> None:
    few = scores_of(np.zeros(9), 0.1, "few", 0)
    once = scores_of(np.zeros(20), 0.1, "once", 1, epochs=1)
    table(few, once, answer_rows({"q1": [0.4], "q2": [0.1]}, scorer="martingale", key="prior"),
          answer_rows({"q1": [0.4], "q2": [0.1]}, scorer="martingale", key="posterior"))  # fmt: skip
    frame = load("logs", effect="0.1")
    assert set(frame["subject"]) == {"once"}
    assert set(frame["planned_epochs"]) == {1}
    assert [note.partition(" (")[0] for note in frame.attrs["notes"]] == [
        "`martingale` is left out: no number of a single answer is better or worse.",
        "Not shown: brier/brier_score of few in urns, direct; brier/brier_score of few minus once in urns, direct",
        "Planned for one epoch only: brier/brier_score of once in urns, direct",
        "Rough plans: brier/brier_score of once in urns, direct",
    ]
    page = report(frame, "x.svg")
    assert "needed with 1 epoch |" in page
    assert "from logs of 20 to 20 questions" in page


def test_a_slope_has_a_plan_by_the_root_of_the_questions(table: Tables) -> None:
    slope = ["urns, direct", "martingale", "a", "zero", 0.1, 100, 2, 1.0]
    unread, loose = [*slope[:2], "b", *slope[3:7], 0.5], [*slope[:2], "c", "zero", np.nan, *slope[5:]]
    first = answer_rows({"q1": [0.4], "q2": [0.1]}, scorer="martingale", key="prior")
    table(scores_of(np.zeros(20), 0.1, "a", 0), first, first.assign(key="change"), slopes=[slope, unread, loose])
    frame = load("logs", effect=0.05)
    plan = frame[frame["kind"] == SLOPE]
    assert set(plan["subject"]) == {"a"}
    assert set(plan["needed"]) == {400}  # half the effect takes four times the questions
    assert plan["mde"].tolist() == pytest.approx([0.1 * np.sqrt(100 / n) for n in plan["questions"]])
    assert plan["questions"].max() == 600  # half more than are needed
    assert not any("`martingale` is left out" in note for note in frame.attrs["notes"])
    assert any("martingale of b in urns, direct (less than 90 %" in note for note in frame.attrs["notes"])
    assert "| slope of one model | a | 100 | 2 | - | - | - | 0.100 |" in report(frame)


def test_bad_options_are_refused(table: Tables) -> None:
    with pytest.raises(BadInput, match="effect='much' is not a number above 0; give"):
        load("logs", effect="much")
    table(scores_of(np.zeros(3), 0.1, "few", 0))
    with pytest.raises(BadInput, match="No log allows a plan: fewer than 10"):
        load("logs")


def test_the_chart_shows_effect_and_own_size(urn_logs: Path) -> None:
    frame = load(urn_logs, scorer="brier", effect=0.03)
    assert set(frame["kind"]) == {LEVEL, DIFFERENCE}
    level, difference = chart(frame).to_dict()["concat"]
    assert [panel["title"]["text"] for panel in (level, difference)] == [
        f"brier/brier_score, {kind}" for kind in (LEVEL, DIFFERENCE)
    ]
    assert [layer["mark"]["type"] for layer in level["layer"]] == ["rule", "line", "point"]
    assert "lower is better" in level["layer"][1]["encoding"]["y"]["title"]

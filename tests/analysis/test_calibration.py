from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import list_eval_logs, read_eval_log
from inspect_ai.solver import multiple_choice

from tests.analysis.answer_tables import answer_rows
from tests.analysis.conftest import Tables
from tests.fixtures import Run, metrics, says
from truthgym.analysis.calibration import INSIDE, OUTSIDE, chart, load, report
from truthgym.analysis.tables.answers import UNREAD
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import plain_question
from truthgym.scorers.brier import brier
from truthgym.tasks.agents import agent_bench_mini


def beliefs(p: np.ndarray, y: np.ndarray, **columns: object) -> pd.DataFrame:
    targets = {f"q{i}": "yes" if happened else "no" for i, happened in enumerate(y)}
    values = {f"q{i}": list(np.atleast_1d(belief)) for i, belief in enumerate(p)}
    return answer_rows(values, **{"key": "belief", "target": targets} | columns)


def test_the_figures_are_those_of_the_scorer(urn_logs: Path) -> None:
    frame = load(urn_logs)
    names = {
        **{"slope": "calibration_slope", "intercept": "calibration_intercept", "reliability": "murphy_reliability"},
        **{"resolution": "resolution", "ece": "ece", "ece_null": "ece_null", "n": "n", "share_read": "share_scored"},
    }
    for info in list_eval_logs(str(urn_logs)):
        log = read_eval_log(info, header_only=True)
        run = frame[frame["model"].str.startswith(log.eval.model)].iloc[0]
        expected = metrics(log, 0)
        assert {name: run[name] for name in names} == pytest.approx(
            {name: expected[key] for name, key in names.items()}
        )
    assert set(frame["epochs"]) == {2}


def test_a_bold_model_is_outside_its_band(table: Tables) -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.2, 0.8, 300)
    y = rng.random(300) < truth
    bold = beliefs(np.clip(3 * truth - 1, 0.03, 0.97), y, model="bold")
    table(beliefs(truth, y, model="calibrated"), bold)
    frame = load("logs")
    outside = frame.groupby("model")["band"].agg(lambda band: (band == OUTSIDE).mean())
    assert outside["bold"] > 0.4 > outside["calibrated"]
    assert frame.groupby("model")["questions"].sum().tolist() == [300, 300]
    page = report(frame, "x.svg")
    assert "of 300 questions in each panel" in page
    assert page.count("| urns, direct |") == 2
    panel = chart(frame).to_dict()["concat"][0]
    assert panel["title"] == {"text": "bold", "subtitle": "urns, direct, brier: 300 questions", "limit": 260}
    assert panel["layer"][2]["encoding"]["color"]["scale"]["domain"] == [INSIDE, OUTSIDE]


def test_of_a_question_with_choices_the_drawn_choice_is_the_event(run: Run, tmp_path: Path) -> None:
    rows = [Sample(id=i, input=f"Which is {i}?", choices=["x", "y"], target="AB"[i % 2]) for i in range(40)]
    model = says(lambda messages: "[70, 30]" if "JSON list of 2" in messages[-1].text else "ANSWER: A")
    run(Task(rows, solver=multiple_choice(), scorer=brier()), model)
    frame = load(tmp_path / "logs")
    drawn = [plain_question(str(i), f"Which is {i}?", ["AB"[i % 2]], ["x", "y"]) for i in range(40)]
    happened = {p: [q.outcome for q in drawn if (q.drawn == 0) == (p == 0.7)] for p in (0.3, 0.7)}
    assert dict(zip(frame["forecast"].round(6), frame["frequency"], strict=True)) == pytest.approx(
        {p: np.mean([outcome or 0.0 for outcome in outcomes]) for p, outcomes in happened.items()}
    )
    assert frame["questions"].tolist() == [len(outcomes) for outcomes in happened.values()]


def test_what_has_no_diagram_is_named_with_the_reason(table: Tables) -> None:
    rng = np.random.default_rng(1)
    p = rng.uniform(0.2, 0.8, 60)
    y = rng.random(60) < p
    silent = np.where(np.arange(60) < 9, np.nan, p)
    pairs = {f"q{i}": f"e{i // 2}" for i in range(60)}
    table(
        beliefs(p, y, event=pairs),
        beliefs(p[:29], y[:29], model="few"),
        beliefs(silent, y, model="silent"),
        beliefs(p, np.ones(60), model="one-sided"),
        beliefs(p, y, model="free").assign(target="an essay"),
    )
    frame = load("logs")
    assert set(frame["model"]) == {"m"}
    shown = [note for note in frame.attrs["notes"] if note.startswith("Not shown")]
    assert [note.partition(" in urns, direct (")[::2] for note in shown[:3]] == [
        ("Not shown: few", "fewer than 30 questions with a belief and an outcome)."),
        ("Not shown: one-sided", "all outcomes are equal)."),
        ("Not shown: silent", f"{UNREAD})."),
    ]
    care = "Read with care: m in urns, direct (questions share events"
    assert any(note.startswith(care) for note in frame.attrs["notes"])
    assert "- Not shown: few in urns, direct" in report(frame)


def test_nothing_to_draw_is_refused(table: Tables) -> None:
    table(beliefs(np.array([0.5]), np.array([1])))
    with pytest.raises(BadInput, match="fewer than 30 questions with a belief"):
        load("logs")
    table(beliefs(np.array([0.5]), np.array([1])).assign(target="an essay"))
    with pytest.raises(BadInput, match="no question has a known outcome; ask"):
        load("logs")


def test_a_belief_in_the_own_answer_is_not_drawn_against_the_question(run: Run) -> None:
    paradigms: dict[str, Any] = {"agent_answer": {}, "brier": {"about": "own_answer"}}
    log = run(agent_bench_mini(n=3, paradigms=paradigms), "reference/hedging", epochs=1)
    with pytest.raises(BadInput, match="belief is in the model's own answer"):
        load(log.location)

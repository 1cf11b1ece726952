from collections.abc import Callable
from pathlib import Path

import pytest
from inspect_ai import score
from inspect_ai.log import EvalLog, write_eval_log
from inspect_ai.model import get_model

from truthgym.analysis.brier_by_model import chart, load
from truthgym.analysis.charts import save
from truthgym.datasets.errors import BadInput
from truthgym.scorers.brier import brier
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.forecasting import forecasting
from truthgym.tasks.urns import urns


def test_the_chart_shows_the_numbers_of_the_log(run: Callable[..., EvalLog], tmp_path: Path) -> None:
    plain = run(urns(n=10))
    run(urns(n=10), get_model("reference/bayesian", noise=0.1), solver=chain_of_thought(steps=1))
    frame = load(str(tmp_path / "logs"))
    assert plain.results
    metrics = plain.results.scores[0].metrics
    row = frame[frame["setup"] == "reference/bayesian"].iloc[0]
    assert (row["domain"], row["n"]) == ("urns", 10)
    assert [row["brier"], row["lower"], row["upper"]] == [
        metrics[m].value for m in ("brier", "brier_lower", "brier_upper")
    ]
    assert set(frame["setup"]) == {"reference/bayesian", "reference/bayesian noise=0.1 by chain_of_thought steps=1"}
    save(frame, chart, tmp_path / "chart.html")
    drawn = (tmp_path / "chart.html").read_text()
    assert "lower is better" in drawn
    assert str(row["brier"]) in drawn


def test_the_newest_pass_counts(run: Callable[..., EvalLog], tmp_path: Path) -> None:
    log = score(run(urns(n=5, paradigms="brier"), epochs=1), brier(), display="log")
    assert log.results
    log.results.scores[1].metrics["brier"].value = 0.123
    write_eval_log(log, log.location)
    run(urns(n=5, paradigms="brier"), get_model("reference/random"), epochs=1)
    frame = load(str(tmp_path / "logs")).set_index("setup")
    assert frame.loc["reference/bayesian", "brier"] == 0.123
    assert float(frame["brier"]["reference/random"]) > 0


def test_evals_that_differ_in_the_task_have_rows_of_their_own(run: Callable[..., EvalLog], tmp_path: Path) -> None:
    run(urns(n=3, draws=2))
    run(urns(n=3, draws=6))
    run(forecasting(n=3))
    frame = load(str(tmp_path / "logs"))
    assert sorted(zip(frame["domain"], frame["setup"], strict=True)) == [
        ("forecasting", "reference/bayesian"),
        ("urns", "reference/bayesian on draws=2"),
        ("urns", "reference/bayesian on draws=6"),
    ]


def test_a_folder_without_brier_scores_is_refused(run: Callable[..., EvalLog], tmp_path: Path) -> None:
    run(urns(n=1), score=False)
    with pytest.raises(BadInput, match="truthgym/brier; run an eval"):
        load(str(tmp_path / "logs"))

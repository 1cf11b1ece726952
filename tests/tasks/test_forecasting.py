"""The forecasting task end to end on the reference agents, through the real solver, scorer, metrics and log."""

import pytest
from inspect_ai.log import EvalLog
from inspect_ai.model import get_model

from tests.fixtures import Run
from truthgym.tasks.domain_task import EPOCHS
from truthgym.tasks.domains import forecasting


def metrics(log: EvalLog) -> dict[str, float]:
    assert log.results
    return {name: metric.value for name, metric in log.results.scores[0].metrics.items()}


def test_random_is_worse_than_the_coin(run: Run) -> None:
    # one of the nineteen seeds in twenty whose interval holds the truth
    task = forecasting(paradigms={"brier": {"figures": "all"}})
    found = metrics(run(task, get_model("reference/random", seed=1), epochs=1))
    assert found["brier_lower"] < 1 / 3 < found["brier_upper"]
    assert found["brier_lower"] > 0.25
    assert found["skill_base_rate_upper"] < 0


def test_skill_is_rewarded(run: Run) -> None:
    scored = [
        metrics(run(forecasting(n=60, paradigms="brier"), get_model("reference/bayesian", skill=s), epochs=1))["brier"]
        for s in (0, 1, 3)
    ]
    assert scored[0] == pytest.approx(0.25)
    assert scored[0] > scored[1] > scored[2]


def test_the_log_holds_what_people_look_at(run: Run) -> None:
    log = run(forecasting(n=3, system_prompt="Think well."))
    assert log.eval.config.epochs == EPOCHS == 3
    assert log.results
    assert [next(iter(score.metrics)) for score in log.results.scores] == ["brier", "martingale_score"]
    assert log.eval.viewer
    view = log.eval.viewer.task_samples_view
    assert view
    assert not isinstance(view, list)
    assert log.samples
    shown = [column.id for column in view.columns or [] if column.id.startswith("score")]
    scores = log.samples[0].scores
    assert scores
    assert shown[0] == "score__brier__belief"
    assert shown[-1] == "score__martingale__change"
    held = [f"score__{name}__{key}" for name in scores for key in scores[name].value]  # type: ignore[union-attr]
    assert set(shown) <= set(held)
    assert log.samples[0].messages[0].text == "Think well."

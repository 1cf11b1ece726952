"""The study's own arithmetic. docs/training_urns.md has its results."""

from pathlib import Path

import pytest
from inspect_ai.log import read_eval_log

from examples import data_mixes
from studies.training import train_on_top_share
from tests.fixtures import Run, says
from truthgym.tasks.worlds import urns


def test_a_finished_evaluation_is_not_repeated(tmp_path: Path) -> None:
    task = urns(n=4, paradigms="brier")
    first = data_mixes.evaluate(task, "reference/bayesian", tmp_path, 1, "none")
    again = data_mixes.evaluate(task, "reference/random", tmp_path, 1, "none")
    assert Path(again.location.removeprefix("file://")) == Path(first.location.removeprefix("file://"))
    assert again.eval.model == "reference/bayesian"


def test_the_change_is_the_mean_over_questions_and_seeds(run: Run) -> None:
    task = urns(n=30, paradigms={"brier": {"figures": "all"}})
    before, after, other = (
        run(task, "reference/bayesian", model_args={"noise": noise, "seed": seed}, epochs=2)
        for noise, seed in ((0.2, 0), (0.0, 0), (0.4, 1))
    )
    assert train_on_top_share.over_seeds([(before, before)]).startswith("+0.0000 [")
    means = []
    for log in (before, after, other):
        scores = data_mixes.brier_scores(read_eval_log(log.location, header_only=True))
        assert len(scores) == 30
        assert log.results
        assert sum(scores.values()) / 30 == pytest.approx(log.results.scores[0].metrics["brier"].value, abs=1e-4)
        means.append(sum(scores.values()) / 30)
    change = train_on_top_share.over_seeds([(before, after), (other, after)])
    assert float(change.split()[0]) == pytest.approx(means[1] - (means[0] + means[2]) / 2, abs=1e-4)
    assert train_on_top_share.row("m", "3", after, "")[:2] == ["m", "3"]


def test_unread_answers_may_count_as_wrong(run: Run) -> None:
    replies = iter([r"\finalBeliefProb{0.5}", "Hm.", "Hm."])
    log = run(urns(n=2, paradigms="brier"), says(lambda _: next(replies)), epochs=1, max_connections=1)
    header = read_eval_log(log.location, header_only=True)
    assert list(data_mixes.brier_scores(header).values()) == [0.25]
    assert sorted(data_mixes.brier_scores(header, 1).values()) == [0.25, 1]

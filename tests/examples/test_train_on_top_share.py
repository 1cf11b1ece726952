"""The study's own arithmetic. docs/training_urns.md has its results."""

import runpy
from pathlib import Path

import pytest
from inspect_ai.log import read_eval_log

from tests.fixtures import Run, Says
from truthgym.tasks.urns import urns

study = runpy.run_path("examples/train_on_top_share.py")


def test_a_finished_evaluation_is_not_repeated(tmp_path: Path) -> None:
    task = urns(n=4, paradigms="brier")
    first = study["evaluate"](task, "reference/bayesian", tmp_path, 1, "none")
    again = study["evaluate"](task, "reference/random", tmp_path, 1, "none")
    assert Path(again.location.removeprefix("file://")) == Path(first.location.removeprefix("file://"))
    assert again.eval.model == "reference/bayesian"


def test_the_change_is_the_mean_over_questions_and_seeds(run: Run) -> None:
    task = urns(n=30, paradigms={"brier": {"figures": "all"}})
    before, after, other = (
        run(task, "reference/bayesian", model_args={"noise": noise, "seed": seed}, epochs=2)
        for noise, seed in ((0.2, 0), (0.0, 0), (0.4, 1))
    )
    assert study["over_seeds"]([(before, before)]).startswith("+0.0000 [")
    means = []
    for log in (before, after, other):
        scores = study["brier_scores"](read_eval_log(log.location, header_only=True))
        assert len(scores) == 30
        assert log.results
        assert sum(scores.values()) / 30 == pytest.approx(log.results.scores[0].metrics["brier"].value, abs=1e-4)
        means.append(sum(scores.values()) / 30)
    change = study["over_seeds"]([(before, after), (other, after)])
    assert float(change.split()[0]) == pytest.approx(means[1] - (means[0] + means[2]) / 2, abs=1e-4)
    assert study["row"]("m", "3", after, "")[:2] == ["m", "3"]


def test_unread_answers_may_count_as_wrong(says: Says, run: Run) -> None:
    replies = iter([r"\finalBeliefProb{0.5}", "Hm."])
    log = run(urns(n=2, paradigms="brier"), says(lambda _: next(replies)), epochs=1, max_connections=1)
    header = read_eval_log(log.location, header_only=True)
    assert list(study["brier_scores"](header).values()) == [0.25]
    assert sorted(study["brier_scores"](header, 1).values()) == [0.25, 1]


def test_every_selection_is_of_the_train_split() -> None:
    assert all(selection.splits == ("train",) for selection in study["SELECTIONS"].values())

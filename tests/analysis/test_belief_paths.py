from pathlib import Path

import numpy as np
import pytest
from inspect_ai import score
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import get_model

from tests.fixtures import Run
from truthgym.analysis.belief_paths import chart, load
from truthgym.analysis.charts import save
from truthgym.datasets.errors import BadInput
from truthgym.scorers.martingale import martingale
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.urns import urns


def test_the_table_holds_what_the_log_holds(run: Run, tmp_path: Path) -> None:
    task = urns(n=12, paradigms={"martingale": {"elicitor": "both", "per": "step"}})
    model, judge = get_model("reference/entrenched", noise=0.05, strength=1), get_model("reference/judge", noise=0.05)
    log = run(task, model, solver=chain_of_thought(steps=2), model_roles={"judge": judge})
    frame = load(log.location)
    assert list(frame.columns)[-4:] == ["step 1", "step 2", "posterior", "corrected"]
    assert len(frame) == 12 * 3 * 2
    assert log.samples
    done = log.samples[7]
    assert done.scores
    value = done.scores["martingale"].value
    assert isinstance(value, dict)
    row = frame[(frame["question"] == done.id) & (frame["epoch"] == done.epoch)].set_index("elicitor")
    assert row.loc["self", "prior"] == value["prior"]
    assert row.loc["judge", "posterior"] == value["judge_posterior"]
    assert row.loc["self", "outcome"] == (done.target == "yes")
    own = frame[frame["elicitor"] == "self"]
    prior = own.groupby("question")["prior"].transform("mean")
    assert log.results
    slope = log.results.scores[0].metrics["martingale_score"].value
    expected = np.clip(own["posterior"] - slope * (prior - prior.mean()), 0, 1)
    assert list(own["corrected"]) == pytest.approx(list(expected))
    save(frame, chart, tmp_path / "paths.html")
    assert "belief" in (tmp_path / "paths.html").read_text()


def test_the_newest_pass_counts(run: Run) -> None:
    log = run(urns(n=12, paradigms="martingale"), get_model("reference/bayesian", noise=0.1), epochs=2)
    other = get_model("reference/bayesian", noise=0.1, seed=9)
    write_eval_log(score(log, martingale(), model=other, display="log"), log.location)
    again = read_eval_log(log.location)
    assert again.samples
    own = {(done.id, done.epoch): (done.scores or {})["martingale1"].value for done in again.samples}
    frame = load(log.location)
    assert [(row.prior, row.posterior) for row in frame.itertuples()] == [
        (own[row.question, row.epoch]["prior"], own[row.question, row.epoch]["posterior"])  # type: ignore[index,call-overload]
        for row in frame.itertuples()
    ]
    first = {(done.id, done.epoch): (done.scores or {})["martingale"].value for done in again.samples}
    assert first != own


def test_a_log_without_beliefs_is_refused(run: Run) -> None:
    log = run(urns(n=1, paradigms="brier"))
    with pytest.raises(BadInput, match="'martingale'; score it with"):
        load(log.location)

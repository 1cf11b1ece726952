from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from inspect_ai import score
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import get_model

from tests.fixtures import Run, samples, score_of
from truthgym.analysis.belief_paths import chart, load, report
from truthgym.analysis.tables.saving import save
from truthgym.datasets.errors import BadInput
from truthgym.scorers.martingale import martingale
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.worlds import urns


def test_the_table_holds_what_the_log_holds(run: Run, tmp_path: Path) -> None:
    task = urns(n=12, paradigms={"martingale": {"elicitor": "both", "per": "step"}})
    model, judge = get_model("reference/entrenched", noise=0.05, strength=1), get_model("reference/judge", noise=0.05)
    log = run(task, model, solver=chain_of_thought(steps=2), model_roles={"judge": judge})
    frame = load(log.location)
    assert list(frame.columns)[-4:] == ["step 1", "step 2", "posterior", "corrected"]
    assert len(frame) == 12 * 3 * 2
    sample = (log.samples or [])[7]
    value: Any = score_of(sample, "martingale").value
    assert set(frame["scorer"]) == {"martingale elicitor=both per=step"}
    row = frame[(frame["question"] == sample.id) & (frame["epoch"] == sample.epoch)].set_index("elicitor")
    assert row.loc["self", "prior"] == value["prior"]
    assert row.loc["judge", "posterior"] == value["judge_posterior"]
    assert row.loc["self", "outcome"] == (sample.target == "yes")
    self_rows = frame[frame["elicitor"] == "self"]
    prior = self_rows.groupby("question")["prior"].transform("mean")
    assert log.results
    slope = log.results.scores[0].metrics["martingale_score"].value
    assert self_rows["slope"].tolist() == pytest.approx([slope] * 36)
    expected = np.clip(self_rows["posterior"] - slope * (prior - prior.mean()), 0, 1)
    assert list(self_rows["corrected"]) == pytest.approx(list(expected))
    save(frame, chart, tmp_path / "paths.html")
    assert "belief" in (tmp_path / "paths.html").read_text()


def test_the_score_is_that_of_the_log_and_runs_are_apart(urn_logs: Path, tmp_path: Path) -> None:
    log = read_eval_log(str(next(urn_logs.glob("*.eval"))))
    assert log.results
    for i, value in enumerate((0.111, 0.222)):
        log.eval.eval_id = f"run {i}"
        for result in log.results.scores:
            if result.scorer.endswith("martingale"):
                result.metrics["martingale_score"].value = value
        write_eval_log(log, str(tmp_path / f"{i}.eval"))
    frame = load(tmp_path)
    assert frame.groupby("log")["score"].first().tolist() == [0.111, 0.222]
    page = report(frame)
    assert page.count("\n\nMartingale score 0.") == 2
    assert page.count("40 questions, epochs: 2.") == 2
    assert "slope from prior to posterior" in page


def test_the_newest_pass_counts(run: Run) -> None:
    log = run(urns(n=12, paradigms="martingale"), get_model("reference/bayesian", noise=0.1), epochs=2)
    other = get_model("reference/bayesian", noise=0.1, seed=9)
    write_eval_log(score(log, martingale(), model=other, display="log"), log.location)
    again = read_eval_log(log.location)
    first, second = (
        {(sample.id, sample.epoch): score_of(sample, name).value for sample in samples(again)}
        for name in ("martingale", "martingale1")
    )
    assert first != second
    frame = load(log.location).set_index(["question", "epoch"])
    assert frame[["prior", "posterior"]].to_dict("index") == {
        key: {"prior": value["prior"], "posterior": value["posterior"]}  # type: ignore[index,call-overload]
        for key, value in second.items()
    }


def test_a_log_without_beliefs_is_refused(run: Run) -> None:
    log = run(urns(n=1, paradigms="brier"))
    with pytest.raises(BadInput, match="has a score of truthgym/martingale; score them with"):
        load(log.location)


def test_runs_are_told_apart_by_step_and_by_update(urn_logs: Path) -> None:
    frame = load(urn_logs)
    assert len(frame) == 2 * 40 * 2
    page = report(frame, "x.svg")
    for model, rows in frame.groupby("model"):
        squared = (rows["posterior"] - rows["outcome"]) ** 2
        moved = (rows["posterior"] - rows["prior"]).abs()
        assert f"urns, direct: {model}, `martingale`, self" in page
        means = (rows["posterior"].mean(), moved.mean(), squared.mean())
        assert "| posterior | 80 | {:.3f} | {:.3f} | {:.3f} [".format(*means) in page
    spec = chart(frame).to_dict()
    assert [run["title"]["text"] for run in spec["vconcat"]] == sorted(frame["model"].unique())
    paths, updates = spec["vconcat"][0]["hconcat"]
    assert paths["encoding"]["x"]["sort"] == ["prior", "posterior"]
    rows = frame[frame["model"] == spec["vconcat"][0]["title"]["text"]]
    # With two epochs, the prior of another epoch is that of the other one, and each update counts once.
    points = spec["datasets"][updates["layer"][-1]["data"]["name"]]
    assert sum(point["answers"] for point in points) == 80
    weighted = [point["update"] * point["answers"] for point in points]
    assert sum(weighted) / 80 == pytest.approx((rows["posterior"] - rows["prior"]).mean())
    assert sum(p["prior"] * p["answers"] for p in points) / 80 == pytest.approx(rows["prior"].mean())


def test_a_prior_is_compared_with_the_update_of_another_epoch() -> None:
    rng = np.random.default_rng(0)
    belief = np.repeat(rng.uniform(0.2, 0.8, 400), 2)
    frame = pd.DataFrame({"question": [f"q{i // 2}" for i in range(800)], "epoch": [1, 2] * 400})
    frame["prior"] = belief + rng.normal(0, 0.15, 800)  # noise alone: the true belief never moves
    frame["posterior"] = belief + rng.normal(0, 0.15, 800)
    same = dict.fromkeys(("setup", "model", "scorer", "log", "elicitor"), "same")
    run = frame.assign(event=frame["question"], slope=np.nan, score=np.nan, outcome=1.0, **same)
    spec = chart(run).to_dict()
    points = spec["datasets"][spec["vconcat"][0]["hconcat"][1]["layer"][-1]["data"]["name"]]
    assert np.mean([point["lower"] <= 0 <= point["upper"] for point in points]) > 0.7
    assert np.corrcoef(run["prior"], run["posterior"] - run["prior"])[0, 1] < -0.4  # what a plain plot would show
    assert len(chart(run[run["epoch"] == 1]).to_dict()["vconcat"][0]["hconcat"]) == 1


def test_one_epoch_is_said(run: Run) -> None:
    frame = load(run(urns(n=12, paradigms="martingale"), epochs=1).location)
    assert [note.partition(": reference/bayesian in urns, direct (")[0] for note in frame.attrs["notes"]] == [
        "No martingale score", "Update against prior not drawn"]  # fmt: skip

import shutil
from pathlib import Path

import numpy as np
import pytest
from inspect_ai.log import EvalLog, read_eval_log, write_eval_log

from tests.fixtures import score_of
from truthgym.analysis.batches import chart, load, report
from truthgym.analysis.site.build import build
from truthgym.datasets.errors import BadInput


@pytest.fixture(scope="module")
def changed(urn_logs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """The same runs with a planted change of one model's Brier scores, and the changes by question: 0.1 on average."""
    folder = tmp_path_factory.mktemp("after")
    changes = 0.1 + np.random.default_rng(0).normal(0, 0.05, 40)
    for path in urn_logs.glob("*.eval"):
        log: EvalLog = read_eval_log(str(path))
        order = sorted({str(sample.id) for sample in log.samples or []})
        for sample in log.samples or []:
            value = score_of(sample, "brier").value
            assert isinstance(value, dict)
            if "noise" in log.eval.model_args and "strength" in log.eval.model_args:
                value["brier_score"] += changes[order.index(str(sample.id))]
        write_eval_log(log, str(folder / path.name))
    return folder, changes


def test_a_planted_change_is_found_and_none_stays_none(urn_logs: Path, changed: tuple[Path, np.ndarray]) -> None:
    after, changes = changed
    frame = load([urn_logs, after])
    brier = frame[frame["score"] == "brier/brier_score"].set_index(frame["model"].str.split(" ").str[0])
    planted, null = brier.loc["reference/overreacting"], brier.loc["reference/bayesian"]
    half = 2.0227 * changes.std(ddof=1) / np.sqrt(40)  # t quantile with 39 degrees of freedom
    assert planted["difference"] == pytest.approx(changes.mean(), abs=1e-4)
    bounds = [changes.mean() - half, changes.mean() + half]
    assert [planted["lower"], planted["upper"]] == pytest.approx(bounds, abs=0.002)
    assert (null["difference"], null["n"], null["better"]) == (0, 40, "lower")
    assert frame.attrs["notes"][-1].endswith("at least one would leave out 0 with a probability of up to 10%.")
    assert "| reference/bayesian noise=0.1 |" in report(frame, "x.svg")
    other = report(frame.assign(first_model="hf/base"), "x.svg")
    assert "| reference/bayesian noise=0.1 (first batch: hf/base) |" in other
    assert chart(frame).to_dict()["spec"]["layer"][1]["encoding"]["x"]["title"] == "difference from the first batch"


def test_a_model_that_leaves_answers_out_has_no_interval(urn_logs: Path, tmp_path: Path) -> None:
    path = next(urn_logs.glob("*.eval"))
    log = read_eval_log(str(path))
    for sample in (log.samples or [])[:12]:
        score_of(sample, "brier").value["brier_score"] = float("nan")  # type: ignore[index]
    (tmp_path / "after").mkdir()
    write_eval_log(log, str(tmp_path / "after" / path.name))
    frame = load([urn_logs, tmp_path / "after"])
    assert frame[["score", "read"]].to_numpy().tolist()[0] == ["brier/brier_score", False]
    assert np.isnan(frame["lower"].iloc[0])
    assert any(note.startswith("No interval: brier/brier_score of") for note in frame.attrs["notes"])


def test_what_only_one_batch_has_is_said_and_not_compared(
    urn_logs: Path, changed: tuple[Path, np.ndarray], tmp_path: Path, mixed_logs: Path
) -> None:
    some = tmp_path / "some"
    some.mkdir()
    shutil.copy(next(urn_logs.glob("*.eval")), some)
    frame = load([some, changed[0]])
    assert frame["model"].nunique() == 1
    assert f"of {changed[0]} are not in {some}" in frame.attrs["notes"][0]
    with pytest.raises(BadInput, match=rf"{mixed_logs} has no model.* of {some}.*before and after.*truthgym compare"):
        load([some, mixed_logs])


def test_folders_are_batches_of_a_report(urn_logs: Path, changed: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    pages = build([urn_logs, changed[0]], tmp_path, ["catalog"], say=lambda line: None)
    assert [page.name for page in pages] == ["batches", "catalog"]
    assert "What changed between the batches?" in (tmp_path / "batches.html").read_text()
    files = [str(path) for path in urn_logs.glob("*.eval")]
    assert [page.name for page in build(files, tmp_path, ["catalog"], say=lambda line: None)] == ["catalog"]

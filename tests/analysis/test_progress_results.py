"""Progress logs: which examinee is better, and the results as ProgressGym writes them."""

from pathlib import Path

import pytest
from inspect_ai.model import get_model

from tests.fixtures import evaluate
from truthgym.analysis import leaderboard
from truthgym.analysis.progress_results import results
from truthgym.datasets.errors import BadInput
from truthgym.scorers.progress.judges import FollowJudge
from truthgym.tasks.progress import progress_follow


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("progress")
    tasks = [
        progress_follow(examinee=examinee, n=10, items=4, eras="C013-C015", drift="linear", step=0.5)
        for examinee in ("in_context", "frozen")
    ]
    evaluate(tasks, get_model("reference/values"), folder)
    return folder


def test_a_leaderboard_ranks_examinees(logs: Path) -> None:
    frame = leaderboard.load(str(logs))
    (row,) = frame.to_dict("records")
    assert (row["score"], row["best"], row["n"]) == ("value_tracking/skill", "highest", 10)
    assert row["model"] == row["better"] == "reference/values examinee=in_context"
    assert row["other"] == "reference/values examinee=frozen"
    assert row["lower"] <= row["difference"] <= row["upper"]
    assert row["difference"] == pytest.approx(1, abs=0.05), "a perfect follower, and one that never moves"


def test_results_have_progressgyms_shape(logs: Path) -> None:
    exported = results(str(logs), "linear-3")
    assert {name: list(challenges) for name, challenges in exported.items()} == {
        "Frozen": ["Follow"],
        "InContext": ["Follow"],
    }
    result = exported["Frozen"]["Follow"]
    assert result["eval_times"] == 2
    assert FollowJudge.interpret_result(result) == result["score"]
    assert FollowJudge.interpret_result(exported["InContext"]["Follow"]) > result["score"]
    with pytest.raises(BadInput, match="they have linear-0, linear-1.*name one"):
        results(str(logs))

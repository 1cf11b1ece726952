"""Trajectories with tools as rows for TRL: every call is trained on, and no world of the evaluation is."""

from pathlib import Path

import pytest

from tests.fixtures import evaluate
from tests.training.converted import rows
from truthgym.datasets.errors import BadInput
from truthgym.tasks.agents import agent_bench_mini
from truthgym.training.conversion.options import Selection
from truthgym.training.convert import convert


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of an oracle and an agent that is always wrong on the train split, and of the oracle on the test split."""
    place = tmp_path_factory.mktemp("agents")
    for split, models in (("train", ["oracle", "looking_busy"]), ("test", ["oracle"])):
        evaluate(agent_bench_mini(n=2, split=split), [f"reference/{name}" for name in models], place / split)
    return place


def test_calls_of_economical_right_trajectories_are_completions_with_tools(folder: Path) -> None:
    convert([folder / "train"], "sft", folder / "rows", Selection(score="agent_answer/both", threshold=1.0))
    trained = rows(folder / "rows")
    assert {row["model"] for row in trained} == {"reference/oracle"}
    samples = {row["sample_id"] for row in trained}
    assert len(samples) == 2
    for sample in samples:
        own = [row for row in trained if row["sample_id"] == sample]
        calls = [bool(row["completion"][0].get("tool_calls")) for row in own]
        assert calls == [True] * (len(own) - 1) + [False]
        assert "Answer: " in own[-1]["completion"][0]["content"]
        assert all(row["prompt"][-1]["role"] == "tool" for row in own[1:])
    for row in trained:
        assert [tool["function"]["name"] for tool in row["tools"]] == ["search", "retrieve", "attachment"]
        assert row["tools"][0]["function"]["parameters"]["required"] == ["query"]
        assert row["split"] == "train"


def test_worlds_of_the_evaluation_are_refused(folder: Path) -> None:
    with pytest.raises(BadInput, match="reserved for evaluation; evaluate on another one"):
        convert([folder / "test"], "sft", folder / "none")

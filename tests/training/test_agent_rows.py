"""Trajectories with tools as rows for TRL: every call is trained on, and no world of the evaluation is."""

from pathlib import Path

import pytest
from inspect_ai import eval

from tests.training.converted import Rows, rows
from truthgym.datasets.errors import BadInput
from truthgym.tasks.agents import agent_bench_mini
from truthgym.training.conversion.options import ConversionConfig, Selection
from truthgym.training.convert import convert


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of an oracle and an agent that is always wrong on the train split, and of the oracle on the test split."""
    place = tmp_path_factory.mktemp("agents")
    for split, models in (("train", ["oracle", "looking_busy"]), ("test", ["oracle"])):
        named = [f"reference/{name}" for name in models]
        done = eval(
            agent_bench_mini(n=2, split=split), model=named, log_dir=str(place / split), display="log",
            log_realtime=False, score_display=False,
        )  # fmt: skip
        assert all(log.status == "success" for log in done)
    return place


@pytest.fixture(scope="module")
def made(folder: Path) -> Rows:
    out = folder / "rows"
    convert([folder / "train"], ConversionConfig("sft"), out, Selection(score="agent_answer/both", threshold=1.0))
    return rows(out)


def test_only_economical_right_trajectories_are_taken(made: Rows) -> None:
    assert {row["model"] for row in made} == {"reference/oracle"}
    assert len({row["sample_id"] for row in made}) == 2


def test_each_call_and_the_answer_is_a_completion(made: Rows) -> None:
    for sample in {row["sample_id"] for row in made}:
        own = [row for row in made if row["sample_id"] == sample]
        called = [row["completion"][0].get("tool_calls") for row in own]
        assert all(called[:-1])
        assert not called[-1]
        assert "Answer: " in own[-1]["completion"][0]["content"]
        assert all(row["prompt"][-1]["role"] == "tool" for row in own[1:])


def test_rows_have_the_tools_as_trl_reads_them(made: Rows) -> None:
    for row in made:
        assert [tool["function"]["name"] for tool in row["tools"]] == ["search", "retrieve", "attachment"]
        assert row["tools"][0]["function"]["parameters"]["required"] == ["query"]
        assert row["split"] == "train"


def test_worlds_of_the_evaluation_are_refused(folder: Path) -> None:
    with pytest.raises(BadInput, match="reserved for evaluation; evaluate on another one"):
        convert([folder / "test"], ConversionConfig("sft"), folder / "none")

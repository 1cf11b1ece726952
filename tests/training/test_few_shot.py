from pathlib import Path

import pytest
from inspect_ai import eval

from truthgym.datasets.errors import BadInput
from truthgym.solvers.few_shot import few_shot as show
from truthgym.tasks.worlds import urns
from truthgym.training.conversion.options import Selection
from truthgym.training.train import few_shot
from truthgym.training.trainers.model_card import read_card


def test_the_solver_shows_the_best_trajectories(tmp_path: Path) -> None:
    task = urns(n=20, paradigms="brier")
    settings = {"display": "none", "log_dir": str(tmp_path / "logs"), "log_realtime": False, "epochs": 1}
    eval(task, model="reference/bayesian", **settings)  # type: ignore[arg-type]
    folder = few_shot("reference/bayesian", [tmp_path / "logs"], Selection(count=3), tmp_path / "trained")
    facts = read_card(folder)
    assert folder.name.startswith("bayesian-few_shot-")
    assert facts.dataset_facts["rows"] == {"train": 3}
    source = str(folder / "data" / "train.jsonl")
    assert source in (folder / "README.md").read_text()
    assert few_shot("reference/bayesian", [tmp_path / "logs"], Selection(count=3), tmp_path / "trained") == folder
    assert few_shot("reference/random", [tmp_path / "logs"], Selection(count=3), tmp_path / "trained") != folder
    assert sorted(path.name.split("-")[0] for path in (tmp_path / "trained").iterdir()) == ["bayesian", "random"]

    log = eval(urns(n=1, split="test", paradigms="brier"), "reference/bayesian", solver=show(source, share=1.0),
               **settings)[0]  # type: ignore[arg-type]  # fmt: skip
    assert log.status == "success"
    for sample in log.samples or []:
        assert sum(message.role == "assistant" for message in sample.messages) == 4  # three examples and the answer


def test_logs_without_examples_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="There is no"):
        few_shot("reference/bayesian", [tmp_path / "nowhere"], output_dir=tmp_path / "trained")
    assert not list(tmp_path.iterdir())


def test_the_command_writes_them_too(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from truthgym.cli.main import commands

    task = urns(n=7, split="train", paradigms="brier")
    logs = str(tmp_path / "logs")
    eval(task, model="reference/bayesian", display="log", log_dir=logs, log_realtime=False, epochs=1)
    command = ["train", "few_shot", "--model", "reference/bayesian", "--log", logs, "--count", "2"]
    done = CliRunner().invoke(commands, [*command, "--top", "1", "--output_dir", str(tmp_path / "trained")])
    assert done.exit_code == 0, done.output
    folder = Path(done.output.strip().removeprefix("Examples: "))
    assert len((folder / "data" / "train.jsonl").read_text().splitlines()) == 2
    refused = CliRunner().invoke(commands, [*command, "--top", "7"])
    assert isinstance(refused.exception, BadInput)

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.fixtures import Run, samples
from truthgym.cli.main import commands
from truthgym.datasets.errors import BadInput
from truthgym.solvers.few_shot import few_shot as show
from truthgym.tasks.worlds import urns
from truthgym.training.conversion.options import Selection
from truthgym.training.train import few_shot
from truthgym.training.trainers.model_card import read_card


def test_the_solver_shows_the_best_trajectories(direct_log: Path, tmp_path: Path, run: Run) -> None:
    out, three = tmp_path / "trained", Selection(count=3)
    folder = few_shot("reference/bayesian", [direct_log], three, out)
    facts = read_card(folder)
    assert folder.name.startswith("bayesian-few_shot-")
    assert facts.dataset_facts["rows"] == {"train": 3}
    source = str(folder / "data" / "train.jsonl")
    assert source in (folder / "README.md").read_text()
    assert few_shot("reference/bayesian", [direct_log], three, out) == folder
    assert few_shot("reference/random", [direct_log], three, out) != folder
    assert sorted(path.name.split("-")[0] for path in out.iterdir()) == ["bayesian", "random"]

    task, solver = urns(n=1, split="test", paradigms="brier"), show(source, share=1.0)
    for sample in samples(run(task, solver=solver, epochs=1)):
        assert sum(message.role == "assistant" for message in sample.messages) == 4  # three examples and the answer


def test_the_command_writes_them_too(direct_log: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="There is no"):
        few_shot("reference/bayesian", [tmp_path / "nowhere"], output_dir=tmp_path / "trained")
    assert not list(tmp_path.iterdir()), "logs without examples leave nothing"
    command = ["train", "few_shot", "--model", "reference/bayesian", "--log", str(direct_log), "--count", "2"]
    result = CliRunner().invoke(commands, [*command, "--top", "1", "--output_dir", str(tmp_path / "trained")])
    assert result.exit_code == 0, result.output
    folder = Path(result.output.strip().removeprefix("Examples: "))
    assert len((folder / "data" / "train.jsonl").read_text().splitlines()) == 2
    refused = CliRunner().invoke(commands, [*command, "--top", "7"])
    assert isinstance(refused.exception, BadInput)

"""`truthgym train METHOD --provider VENDOR`: options, and what is refused before anything is sent."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from truthgym.cli.fine_tune import METHODS, OPTIONS, Bar, command
from truthgym.cli.main import commands
from truthgym.datasets.errors import BadInput
from truthgym.training.providers.provider import TAKEN, Look

MODEL = "gpt-4.1-mini-2025-04-14"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is sent fails at once."""
    for vendor in ("OPENAI", "TOGETHER"):
        monkeypatch.setenv(f"{vendor}_BASE_URL", "http://127.0.0.1:9/v1")
        monkeypatch.setenv(f"{vendor}_API_KEY", "none")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "README.md").write_text("---\ntruthgym: {kind: sft}\n---\n")
    row = {"messages": [{"role": "user", "content": "Is it?"}, {"role": "assistant", "content": "Yes."}]}
    (folder / "train.jsonl").write_text((json.dumps(row) + "\n") * 10)
    return folder


def call(method: str, data: Path, *arguments: object, provider: str = "openai") -> Result:
    given = ["--provider", provider, "--model", MODEL, "--dataset_name", data, "--output_dir", data.parent / "out"]
    return CliRunner().invoke(commands, ["train", method, *map(str, [*given, *arguments])])


def refused(method: str, data: Path, *arguments: object, **more: str) -> str:
    result = call(method, data, *arguments, **more)
    assert isinstance(result.exception, BadInput), result.output
    return str(result.exception.message).replace("\\", "")


def test_without_a_terminal_it_spends_only_when_told_to(data: Path) -> None:
    result = call("sft", data)
    assert isinstance(result.exception, BadInput)
    assert "Add --yes" in str(result.exception.message)
    assert "less than a cent" in result.output
    assert not list((data.parent / "out").glob("[!.]*"))


@pytest.mark.parametrize(
    ("method", "arguments", "told"),
    [
        ("kto", (), "kto cannot be trained at a vendor; dpo, reinforcement, sft can"),
        ("sft", ("--beta", 0.1), "--beta is no option of sft at openai; it takes n_epochs, learning_rate_multiplier"),
        ("sft", ("--learning_rate", 0.1), "--learning_rate is no option of sft at openai"),
        ("sft", ("--grader", "python_brier"), "--grader and --grader_model are for reinforcement"),
        ("sft", ("--suffix", "a b"), "--suffix 'a b' cannot be used at openai"),
        ("reinforcement", ("--grader", "brier"), "grader=brier: there is no such grader"),
    ],
)
def test_options_of_something_else(data: Path, method: str, arguments: tuple[object, ...], told: str) -> None:
    assert told in refused(method, data, *arguments)


def test_what_together_does_not_offer(data: Path) -> None:
    assert "it offers no reinforcement; it offers sft, dpo" in refused("reinforcement", data, provider="together")
    assert "at most 26" in refused("sft", data, "--suffix", "a" * 27, provider="together")


def test_a_config_file_gives_options_and_the_command_line_wins(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text("n-epochs: 7\nprice: 1000000\n")
    assert "x 7 epochs at $1,000,000.00" in call("sft", data, "--config", config).output
    assert "x 3 epochs" in call("sft", data, "--config", config, "--n_epochs", 3).output
    for text, told in (
        ("n_epoch: 7\n", "there is no option n_epoch; did you mean n_epochs?"),
        ("zzz: 7\n", "there is no option zzz; the options are batch_size"),
        ("- 1\n", "it holds no options"),
        ("a: [\n", "it is not YAML"),
    ):
        config.write_text(text)
        assert told in refused("sft", data, "--config", config)


def test_places_without_a_dataset(tmp_path: Path) -> None:
    assert "does not exist" in refused("sft", tmp_path / "none")
    (tmp_path / "data").mkdir()
    assert "contains no .jsonl" in refused("sft", tmp_path / "data")
    (tmp_path / "data" / "train.jsonl").write_text("{]\n")
    assert "line 1: it is not JSON" in refused("sft", tmp_path / "data")


def test_every_option_that_is_taken_can_be_given() -> None:
    known = {option.name for option in command.params}
    assert set(OPTIONS) <= known
    assert {f"{vendor} {method}" for vendor, methods in METHODS.items() for method in methods} == set(TAKEN)


def test_progress_tells_each_change_once(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    with Bar(Console(width=200)) as bar:
        looks: list[dict[str, Any]] = [
            {"status": "running", "news": ["Started [x]"]},
            {"status": "running"},
            {"status": "running", "step": 2, "steps": 4, "losses": {"loss": 0.5, "eval_loss": 0.75}},
        ]
        for look in looks:
            bar.show(Look(**look))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[:3] == ["Started [x]", "running", "running, training loss 0.5, validation loss 0.75, step 2"]

"""`truthgym train METHOD --provider PROVIDER`: options, and what is refused before anything is sent."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from truthgym.cli.main import commands
from truthgym.cli.train import PROVIDER_METHODS, TRAINING_OPTIONS, fine_tune
from truthgym.datasets.errors import BadInput
from truthgym.training.providers.provider import OPTIONS, JobSpec

MODEL = "gpt-4.1-mini-2025-04-14"


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request fails at once."""
    for provider in ("OPENAI", "TOGETHER"):
        monkeypatch.setenv(f"{provider}_BASE_URL", "http://127.0.0.1:9/v1")
        monkeypatch.setenv(f"{provider}_API_KEY", "none")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "README.md").write_text("---\ntruthgym: {kind: sft}\n---\n")
    row = {"messages": [{"role": "user", "content": "Is it?"}, {"role": "assistant", "content": "Yes."}]}
    (folder / "train.jsonl").write_text((json.dumps(row) + "\n") * 10)
    return folder


def call(method: str, data: Path, *arguments: object, provider: str = "openai") -> Result:
    options = ["--provider", provider, "--model", MODEL, "--dataset_name", data, "--output_dir", data.parent / "out"]
    return CliRunner().invoke(commands, ["train", method, *map(str, [*options, *arguments])])


def refused(method: str, data: Path, *arguments: object, **more: str) -> str:
    result = call(method, data, *arguments, **more)
    assert isinstance(result.exception, BadInput), result.output
    return str(result.exception.message).replace("\\", "")


def test_without_a_terminal_a_paid_job_needs_yes(data: Path) -> None:
    message = refused("sft", data)
    assert "sft of gpt-4.1-mini" in message
    assert "--yes" in message
    assert not list((data.parent / "out").glob("*/job.json"))


@pytest.mark.parametrize(
    ("method", "provider", "arguments", "messages"),
    [
        ("kto", "openai", (), ("kto", "dpo, reinforcement, sft")),
        ("reinforcement", "together", (), ("reinforcement", "sft, dpo")),
        ("sft", "openai", ("--beta", 0.1), ("--beta", "n_epochs, learning_rate_multiplier")),
        ("sft", "openai", ("--learning-rate", 0.1), ("--learning_rate",)),
        ("reinforcement", "openai", ("--grader", "brier"), ("brier", "python_brier")),
    ],
)
def test_options_that_do_not_apply(
    data: Path, method: str, provider: str, arguments: tuple[object, ...], messages: tuple[str, ...]
) -> None:
    message = refused(method, data, *arguments, provider=provider)
    assert all(part in message for part in messages)


def test_the_command_line_overrides_the_config(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs: list[JobSpec] = []
    monkeypatch.setattr("truthgym.training.providers.job.fine_tune", lambda spec, *_, **__: specs.append(spec))
    config = tmp_path / "job.yaml"
    config.write_text("n-epochs: 7\nlearning_rate_multiplier: 1.5\n")
    call("sft", data, "--config", config)
    call("sft", data, "--config", config, "--n_epochs", 3)
    assert [spec.options for spec in specs] == [
        {"n_epochs": 7, "learning_rate_multiplier": 1.5},
        {"n_epochs": 3, "learning_rate_multiplier": 1.5},
    ]
    for text, part in (("zzz: 7\n", "no option zzz; the options are batch_size"), ("a: [\n", "YAML")):
        config.write_text(text)
        assert part in refused("sft", data, "--config", config)


def test_every_training_option_has_a_flag() -> None:
    names = {option.name for option in fine_tune.params}
    assert set(TRAINING_OPTIONS) <= names
    assert set(PROVIDER_METHODS) == {"sft", "dpo", "reinforcement"}
    assert all(set(methods) <= set(PROVIDER_METHODS) for methods in OPTIONS.values())


def test_the_missing_extra_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    modules: dict[str, Any] = {name: None for name in sys.modules if name.partition(".")[0] == "together"}
    for name in {"together", *modules}:
        monkeypatch.setitem(sys.modules, name, None)
    assert 'pip install -e ".[together]"' in refused("sft", data, provider="together")

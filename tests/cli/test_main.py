import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.commands import call
from truthgym.cli.main import COMMANDS, command_named, commands, main
from truthgym.cli.train import _spelled_as_trl

WITHIN = {
    "truthgym.training.rollouts.policy",
    "truthgym.training.rollouts.trainer",
    "truthgym.training.rollouts.hacking_monitor",
    "truthgym.training.trainers.step_lines",
}
"""They derive from classes of libraries, so that they load these: they are imported inside functions alone."""
HEAVY = {"torch", "trl", "transformers", "peft", "accelerate", "datasets", "pandas", "openai", "together", "deepspeed"}


def test_every_command_is_there_and_has_help() -> None:
    assert set(CliRunner().invoke(commands, ["--help"]).output.split()) >= set(COMMANDS)
    for name in COMMANDS:
        assert isinstance(command_named(name), click.Command)
        assert CliRunner().invoke(commands, [name, "--help"]).exit_code == 0
    assert CliRunner().invoke(commands, ["fetch"]).exit_code == 2


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("eval truthgym/urns -T n=3", "write `inspect eval truthgym/urns -T n=3`"),
        ("score a.eval", "write `inspect score a.eval`"),
        ("compair a b", "did you mean `truthgym compare`?"),
        ("xyz", "`truthgym --help` lists all"),
        ("cost truthgym/urns --n 3", "given as -T n=VALUE"),
        ("cost truthgym/urns --base-rate 3", "given as -T base_rate=VALUE"),
    ],
)
def test_a_natural_mistake_gets_a_hint(words: str, hint: str) -> None:
    result = CliRunner().invoke(commands, words.split())
    assert result.exit_code == 2
    assert hint in result.output


def test_arguments_of_a_task_are_spelled_in_two_ways() -> None:
    words = ["--model", "m", "-T", "n=3", "--beta", "1", "-T", "draws=2", "--task_args", "{n: 1, seed: 2}"]
    named = ["--model_name_or_path", "m", "--beta", "1", "--task_args"]
    assert _spelled_as_trl(words) == [*named, '{"n": 3, "seed": 2, "draws": 2}']
    assert _spelled_as_trl(["--model=m", "--task-args={n: 1}"]) == ["--model_name_or_path=m", "--task_args={n: 1}"]
    shown = CliRunner().invoke(commands, ["loop", "--help"]).output
    for text in ("--model, --model_name_or_path", "-T NAME=VALUE", "--rounds INTEGER", "{NAME: VALUE}"):
        assert text in shown
    for verb in ("plan", "train few_shot"):
        help_ = CliRunner().invoke(commands, [*verb.split(), "--help"]).output
        assert "--model" in help_
        assert "--model_name_or_path" in help_


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(commands, ["--version"])
    assert (result.exit_code, result.output) == (0, f"truthgym, version {version('truthgym')}\n")


def test_importing_training_loads_nothing_heavy(root: Path, environment: dict[str, str]) -> None:
    paths = [path.relative_to(root) for room in ("evallog", "training", "cli") for path in (root / room).rglob("*.py")]
    names = [".".join(("truthgym", *path.with_suffix("").parts)) for path in paths]
    names = [name for name in names if name not in WITHIN]
    probe = f"import sys, {', '.join(names)}\nprint(sorted({HEAVY!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", probe], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["convert", "nowhere", "--to", "sft", "--out", "d"], "no file or folder nowhere"),
        (["convert", "", "--to", "sft", "--out", "d"], "named by an empty text; write its path, or . for"),
        (["train", "ppo"], "ppo: unknown method"),
        (["serve", "--scorer", "nosuch"], "scorer=nosuch cannot be made"),
    ],
)
def test_bad_input_is_a_message_and_an_exit_status(
    arguments: list[str], message: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    result = call("truthgym", *arguments, environment=environment, folder=tmp_path)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not result.stdout
    assert not list(tmp_path.iterdir())


LONG = 300 * "a"


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["compare", LONG, LONG], LONG),
        (["models", "tiny", "--out", LONG], LONG),
        (["lineage", "verify", LONG], LONG),
        (["rubric", "verify", "missing.json"], "missing.json"),
        (["rubric", "verify", "deep.json"], "deep.json"),
        (["loop", "--config", "deep.json"], "deep.json"),
        (
            ["fetch", "forecasting", "--source", "metaculus", "-T", "after=2026-99-99", "--out", "rows.jsonl"],
            "2026-99-99",
        ),
        (["convert", "logs", "--to", "sft", "--out", "rows"], "2026-11-22T17-00-00_urns_x.eval"),
        (["serve", "--scorer", "graded", "--tokens", "binary"], "binary line 1"),
        (["serve", "--scorer", "graded", "--model-role", "grader={"], "{"),
        (["serve", "--scorer", "graded", "-S", "grader"], "grader"),
    ],
    ids=lambda value: " ".join(value)[:20],
)
def test_a_mistake_with_a_file_or_a_value_is_named(
    arguments: list[str],
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/2026-11-22T17-00-00_urns_x.eval").symlink_to("/nowhere.eval")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "binary").write_bytes(b"\x8c\xff")
    monkeypatch.setattr(sys, "argv", ["truthgym", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert place in capsys.readouterr().err

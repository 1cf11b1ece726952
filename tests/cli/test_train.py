"""`truthgym train` and `truthgym card`, as they are typed."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from inspect_ai.log import EvalLog

from truthgym.cli.main import commands
from truthgym.datasets.errors import BadInput
from truthgym.training.trainers.model_card import ModelCard, read_card, write_card


def typed(*words: str) -> str:
    result = CliRunner().invoke(commands, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_help_names_the_methods() -> None:
    for words in (("train",), ("train", "--help")):
        printed = typed(*words)
        assert "kto" in printed
        assert "--config FILE" in printed
    with pytest.raises(BadInput, match="train ppo: unknown method; give one of sft, dpo, kto, reward"):
        typed("train", "ppo")
    with pytest.raises(BadInput, match="add --provider openai"):
        typed("train", "reinforcement", "--model", "gpt-4.1-mini")


def test_a_provider_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[object] = []
    command = SimpleNamespace(main=lambda args, obj, **_: passed.extend((obj, args)))
    monkeypatch.setattr("truthgym.cli.train.fine_tune", command)
    typed("train", "dpo", "--provider", "openai", "--n_epochs", "3", "--yes")
    assert passed == ["dpo", ["--provider", "openai", "--n_epochs", "3", "--yes"]]


def test_from_logs_to_a_model(
    run: Callable[..., EvalLog], tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from truthgym.tasks import urns

    monkeypatch.delenv("LOCAL_RANK", raising=False)  # wherever this runs, it is one process
    logs = [run(urns(n=20, seed=seed, paradigms="brier"), "reference/random").location for seed in (1, 2)]
    options = ["--log", logs[0], "--log", logs[1], "--output_dir", str(tmp_path / "trained"), "--max_steps", "2"]
    printed = typed("train", "sft", "--model_name_or_path", str(tiny_model), *options, "--gpus", "1")
    (folder,) = (tmp_path / "trained").iterdir()
    assert f"Trained: {folder}" in printed
    assert (folder / "data" / "train.jsonl").is_file()
    facts = read_card(folder)
    assert len(facts.dataset_facts["logs"]) == 2
    assert facts.dataset == str(folder / "data")
    again = typed("train", "sft", "--model_name_or_path", str(tiny_model), *options, "--gpus", "1")
    assert f"{folder} is trained already" in again
    assert sorted((tmp_path / "trained").iterdir()) == [folder], "nothing is left beside it"
    with pytest.raises(BadInput, match="--members 1 of reward"):
        typed("train", "reward", "--model", str(tiny_model), *options, "--members", "1")
    printed = typed("train", "reward", "--model", str(tiny_model), *options, "--members=2")
    members = printed.strip().rpartition("folder=")[2].split(",")
    assert [read_card(Path(member)).config["seed"] for member in members] == [1, 2]


def test_the_launch_line_is_printed_and_nothing_begins(tiny_model: Path) -> None:
    words = ["--model_name_or_path", str(tiny_model), "--dataset_name", "data/top"]
    words += ["--print_launch", "--gpus", "8"]
    printed = typed("train", "sft", *words)
    assert printed.startswith("accelerate launch --config_file ")
    assert (
        "multi_gpu.yaml --num_processes 8 --mixed_precision no -m truthgym.cli.main train sft --model_name_or_path"
        in printed
    )
    assert "print_launch" not in printed
    assert "zero3.yaml" in typed("train", "sft", *words, "--accelerate_config", "zero3")
    with pytest.raises(BadInput, match="no such file"):
        typed("train", "sft", *words, "--accelerate_config", "zero9")


def test_a_card_gets_evaluations(run: Callable[..., EvalLog], tmp_path: Path) -> None:
    from truthgym.tasks import urns

    log = run(urns(n=10, paradigms="brier"), "reference/random")
    write_card(tmp_path / "model", ModelCard("sft", "reference/random", "x", "hf/model", "data"))
    printed = typed("card", str(tmp_path / "model"), "--log", log.location)
    assert "brier/brier" in printed.partition("Written: ")[0]
    assert "brier/brier" in (tmp_path / "model" / "README.md").read_text()


@pytest.mark.parametrize(("method", "data_option"), [("sft", "--dataset_name"), ("grpo", "--task")])
def test_help_needs_no_trl_and_begins_with_usual_options(
    method: str, data_option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truthgym.cli.train.find_spec", lambda name: None)
    printed = typed("train", method, "--help")
    options = re.findall(r"^  (--\w+)", printed, re.MULTILINE)
    assert 12 <= len(options) <= 20
    assert {"--model_name_or_path", "--learning_rate", data_option} <= set(options)
    assert "[1e-05]" in printed or "[1e-06]" in printed
    assert '-e ".[train]"' in printed


def test_help_lists_all_options_of_trl_and_ours() -> None:
    usual, others = typed("train", "sft", "--help").split("All options:")
    assert "--lr_scheduler_type" in others
    assert "--lr_scheduler_type" not in usual
    for option in ("--learning_rate", "--use_peft", "--report_to", "--log", "--gpus", "--accelerate_config"):
        assert option in usual + others

"""How training starts: the chosen configuration, its file, and the command line."""

import os
from argparse import Namespace
from pathlib import Path
from typing import get_args

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.trainers import accelerate_launch as launch
from truthgym.training.trainers.memory import Configuration

NEEDS: dict[Configuration, int] = {"single_gpu": 100, "multi_gpu": 100, "zero2": 60, "zero3": 30, "fsdp2": 30}


@pytest.mark.parametrize(
    ("memory", "gpus", "deepspeed", "chosen"),
    [
        (10, 0, True, "single_gpu"),
        (10, 1, True, "single_gpu"),
        (100, 8, True, "multi_gpu"),
        (99, 8, True, "zero2"),
        (59, 8, True, "zero3"),
        (10, 8, True, "zero3"),
        (100, 8, False, "multi_gpu"),
        (99, 8, False, "fsdp2"),
    ],
)
def test_the_first_that_fits_is_chosen(memory: int, gpus: int, deepspeed: bool, chosen: str) -> None:
    assert launch.choose_configuration(NEEDS, memory, gpus, deepspeed) == chosen


def test_the_trainers_own_option_decides_on_bf16() -> None:
    from accelerate.commands import launch as accelerate_launch  # type: ignore[import-untyped]

    line = launch.launch_line("sft", ["--config", "sft.yaml"], "multi_gpu", 2)
    arguments = accelerate_launch.launch_command_parser().parse_args(line[2:])
    arguments, _, _ = accelerate_launch._validate_launch_command(arguments)
    assert (arguments.mixed_precision, arguments.num_processes, arguments.multi_gpu) == ("no", 2, True)


def test_the_launch_line(tmp_path: Path) -> None:
    words = ["--learning_rate=1e-5", "--use_peft", "--log", "a"]
    line = launch.launch_line("sft", [*words, "--print_launch"], "zero2", 4)
    assert line[:3] == ["accelerate", "launch", "--config_file"]
    assert line[3].endswith("trl/accelerate_configs/zero2.yaml")
    processes = ["--num_processes", "4", "--mixed_precision", "no"]
    assert line[4:] == [*processes, "-m", "truthgym.cli.main", "train", "sft", *words]
    files = [launch.launch_line("sft", [], name, 2)[3] for name in get_args(Configuration)]
    assert all(Path(file).is_file() for file in files)
    own = tmp_path / "mine.yaml"
    own.write_text("num_processes: 3\n")
    assert launch.launch_line("sft", [], str(own), 0)[3:5] == [str(own), "-m"], "the file decides"
    with pytest.raises(BadInput, match=r"missing\.yaml: no such file"):
        launch.launch_line("sft", [], str(tmp_path / "missing.yaml"), 1)


def parsed(gpus: int | None = None, print_launch: bool = False) -> Namespace:
    return Namespace(gpus=gpus, print_launch=print_launch, accelerate_config=None, no_deepspeed=False)


def test_several_gpus_are_launched_and_one_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("LOCAL_RANK", "ACCELERATE_MIXED_PRECISION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6")
    started: list[list[str]] = []
    monkeypatch.setattr("os.execv", lambda program, words: started.append(words))
    monkeypatch.setattr(launch, "visible_gpus", lambda: 2)
    monkeypatch.setattr(launch, "_choose", lambda method, parsed, gpus: "zero2")
    assert not launch.start("sft", ["--use_peft"], parsed())
    assert started[0][1:3] == ["-m", "accelerate.commands.launch"]
    assert started[0][4].endswith("zero2.yaml")
    assert not launch.start("sft", [], parsed(print_launch=True))
    assert len(started) == 1, "the line is only printed"
    assert capsys.readouterr().out.count("accelerate launch --config_file") == 2
    with pytest.raises(BadInput, match="--gpus 3: 2 visible; give a number from 1 to 2"):
        launch.start("sft", [], parsed(gpus=3))
    assert launch.start("sft", [], parsed(gpus=1))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "5"
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert launch.start("sft", [], parsed()), "it is a launched process"


def test_a_launched_process_knows_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_DEEPSPEED_ZERO_STAGE"):
        monkeypatch.delenv(name, raising=False)
    assert launch.launched_configuration(1) == "single_gpu"
    assert launch.launched_configuration(2) == "multi_gpu"
    for name, value, configuration in (
        ("USE_DEEPSPEED", "true", "zero2"), ("DEEPSPEED_ZERO_STAGE", "3", "zero3"), ("USE_FSDP", "true", "fsdp2"),
    ):  # fmt: skip
        monkeypatch.setenv(f"ACCELERATE_{name}", value)
        assert launch.launched_configuration(2) == configuration

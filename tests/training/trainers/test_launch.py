"""How training starts: which configuration is chosen, its file, and the line that starts it."""

from argparse import Namespace
from pathlib import Path
from typing import Any, get_args

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.trainers import launch
from truthgym.training.trainers.memory import Configuration, Load, Shape

NEEDS: dict[Configuration, int] = {"single_gpu": 100, "multi_gpu": 100, "zero2": 60, "zero3": 30, "fsdp2": 30}
LLAMA = Shape(6_738_415_616, 131_072_000, 0, 32, 4096, 32_000)


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
    assert launch.choose(NEEDS, memory, gpus, deepspeed) == chosen


def test_more_gpus_never_make_a_configuration_need_more() -> None:
    load = Load(sequences=1, length=4096, checkpointing=True)
    few, many = (launch.needs(LLAMA, load, gpus) for gpus in (2, 8))
    assert all(many[name] <= few[name] for name in get_args(Configuration))
    assert many["zero3"] < many["zero2"] < many["multi_gpu"]


@pytest.mark.parametrize("name", get_args(Configuration))
def test_each_file_is_one_that_accelerate_reads(name: Configuration) -> None:
    from accelerate.commands.config.config_args import load_config_from_file  # type: ignore[import-untyped]

    config: Any = load_config_from_file(str(launch.HERE / f"{name}.yaml"))
    types = {"single_gpu": "NO", "multi_gpu": "MULTI_GPU", "zero2": "DEEPSPEED", "zero3": "DEEPSPEED", "fsdp2": "FSDP"}
    assert config.distributed_type == types[name]
    assert config.mixed_precision == "no", "the trainer's own option decides"


@pytest.mark.parametrize("stage", [2, 3])
def test_deepspeed_takes_its_files(stage: int) -> None:
    pytest.importorskip("deepspeed")
    import yaml
    from accelerate.utils import DeepSpeedPlugin  # type: ignore[import-untyped]
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    told = yaml.safe_load((launch.HERE / f"zero{stage}.yaml").read_text())["deepspeed_config"]
    told.pop("deepspeed_multinode_launcher")
    made = DeepSpeedPlugin(**told).deepspeed_config["zero_optimization"]
    known = {key: value for key, value in made.items() if value != "auto"}
    assert DeepSpeedZeroConfig(**known).stage == stage
    if stage == 3:
        assert known["stage3_gather_16bit_weights_on_model_save"] is True


def test_fsdp_takes_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml
    from accelerate.utils import FullyShardedDataParallelPlugin

    told = yaml.safe_load((launch.HERE / "fsdp2.yaml").read_text())["fsdp_config"]
    known = {"fsdp_version", "reshard_after_forward", "cpu_ram_efficient_loading", "state_dict_type"}
    arguments = {name: value for key, value in told.items() if (name := key.removeprefix("fsdp_")) in known}
    plugin = FullyShardedDataParallelPlugin(fsdp_version=told["fsdp_version"], **arguments)
    assert plugin.fsdp_version == 2


def test_the_line_that_starts_it(tmp_path: Path) -> None:
    words = ["--gpus", "4", "--learning_rate=1e-5", "--print_launch", "--no-deepspeed", "--use_peft", "--log", "a"]
    line = launch.launch_line("sft", words, "zero2", 4)
    assert line[:3] == ["accelerate", "launch", "--config_file"]
    assert line[4:] == [
        *("--num_processes", "4", "-m", "truthgym.cli.main", "train", "sft"),
        *("--learning_rate=1e-5", "--use_peft", "--log", "a"),
    ]
    own = tmp_path / "mine.yaml"
    own.write_text("num_processes: 3\n")
    assert "--num_processes" not in launch.launch_line("sft", [], str(own), 0)
    with pytest.raises(BadInput, match=r"missing\.yaml: there is no such file"):
        launch.launch_line("sft", [], str(tmp_path / "missing.yaml"), 1)


def parsed(**told: Any) -> Namespace:
    return Namespace(**({"gpus": None, "print_launch": False, "accelerate_config": None, "no_deepspeed": False} | told))


def test_several_gpus_are_launched_and_one_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("LOCAL_RANK", "ACCELERATE_MIXED_PRECISION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6")
    started: list[list[str]] = []
    monkeypatch.setattr("os.execv", lambda program, words: started.append(words))
    monkeypatch.setattr(launch, "gpus_found", lambda: 2)
    monkeypatch.setattr(launch, "_chosen", lambda method, parsed, gpus: "zero2")
    assert not launch.start("sft", ["--use_peft"], parsed())
    assert started[0][1:3] == ["-m", "accelerate.commands.launch"]
    assert started[0][4].endswith("zero2.yaml")
    assert not launch.start("sft", [], parsed(print_launch=True))
    assert len(started) == 1, "the line is only printed"
    assert capsys.readouterr().out.count("accelerate launch --config_file") == 2
    with pytest.raises(BadInput, match="--gpus 3: 2 found"):
        launch.start("sft", [], parsed(gpus=3))
    assert launch.start("sft", [], parsed(gpus=1))
    import os

    assert os.environ["CUDA_VISIBLE_DEVICES"] == "5"
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert launch.start("sft", [], parsed()), "one of the processes that were started"


def test_a_launched_process_knows_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_DEEPSPEED_ZERO_STAGE"):
        monkeypatch.delenv(name, raising=False)
    assert launch.launched_configuration(1) == "single_gpu"
    assert launch.launched_configuration(2) == "multi_gpu"
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    assert launch.launched_configuration(2) == "zero2"
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_ZERO_STAGE", "3")
    assert launch.launched_configuration(2) == "zero3"
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    assert launch.launched_configuration(2) == "fsdp2"

"""How training starts: in this process, or through `accelerate launch` where there are several GPUs."""

import importlib.util
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast, get_args

from truthgym.evallog.errors import bad_input
from truthgym.training.trainers.memory import Configuration, Load, Shape, predict

HERE = Path(__file__).parent
OURS = ("gpus", "no_deepspeed", "accelerate_config", "print_launch")
"""Options that are followed before the processes start."""
WITHOUT_VALUE = ("no_deepspeed", "print_launch")


def choose(needs: Mapping[Configuration, int], memory: int, gpus: int, deepspeed: bool) -> Configuration:
    """Choose how to use the GPUs: what copies most is fastest, so the first that fits.

    DDP where each GPU holds all; else ZeRO-2; else ZeRO-3; without DeepSpeed, FSDP. Where nothing fits, that which
    takes least.

    Args:
        needs: Predicted bytes a GPU, by configuration.
        memory: Bytes of one GPU.
        gpus: How many there are, or are to be used.
        deepspeed: Whether DeepSpeed may be used.
    """
    if gpus <= 1:
        return "single_gpu"
    order: tuple[Configuration, ...] = ("multi_gpu", "zero2", "zero3") if deepspeed else ("multi_gpu", "fsdp2")
    return next((name for name in order if needs[name] <= memory), order[-1])


def needs(shape: Shape, load: Load, gpus: int) -> dict[Configuration, int]:
    """Predicted bytes a GPU, by configuration."""
    names = cast(tuple[Configuration, ...], get_args(Configuration))
    return {name: predict(shape, load, name, gpus).total for name in names}


def launch_line(method: str, words: Sequence[str], configuration: str, gpus: int) -> list[str]:
    """The `accelerate launch` command line.

    Args:
        method: As `truthgym train` takes it.
        words: Its options. Those that say how to start are left out.
        configuration: One of ours by name, or a file of `accelerate config`.
        gpus: How many processes. The file's own number stands where it is a user's file and none was asked for: 0.

    Raises:
        BadInput: There is no such configuration.
    """
    file = HERE / f"{configuration}.yaml"
    if configuration not in get_args(Configuration):
        file = Path(configuration)
        if not file.is_file():
            raise bad_input(
                f"--accelerate_config {configuration}: there is no such file; give one that `accelerate config` "
                f"wrote, or one of {', '.join(get_args(Configuration))}"
            )
    processes = ["--num_processes", str(gpus)] if gpus else []
    module = ["-m", "truthgym.cli.main", "train", method, *_without_ours(words)]
    return ["accelerate", "launch", "--config_file", str(file), *processes, *module]


def is_launched() -> bool:
    """Whether `accelerate launch` or torchrun started this process."""
    return "LOCAL_RANK" in os.environ or "ACCELERATE_MIXED_PRECISION" in os.environ


def launched_configuration(processes: int) -> Configuration:
    """Which configuration this process was started with, as far as accelerate tells."""
    if os.environ.get("ACCELERATE_USE_FSDP") == "true":
        return "fsdp2"
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        return "zero3" if os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE") == "3" else "zero2"
    return "multi_gpu" if processes > 1 else "single_gpu"


def start(method: str, words: Sequence[str], parsed: Namespace) -> bool:
    """Replace this process by `accelerate launch` where several GPUs are to train; print its line where asked to.

    Args:
        method: As `truthgym train` takes it.
        words: Its options.
        parsed: The same, see `arguments.parse_options`.

    Returns:
        Whether to train in this process.
    """
    if is_launched():
        return True
    found = gpus_found()
    if parsed.gpus is not None and not 1 <= parsed.gpus <= max(found, 1) and not parsed.print_launch:
        raise bad_input(f"--gpus {parsed.gpus}: {found} found; give a number between 1 and {max(found, 1)}")
    gpus = parsed.gpus or found
    if gpus <= 1 and not parsed.print_launch and not parsed.accelerate_config:
        if found > 1:  # torch would split each batch over all that it sees
            os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        return True
    own = parsed.accelerate_config and parsed.accelerate_config not in get_args(Configuration)
    configuration = parsed.accelerate_config or _chosen(method, parsed, gpus)
    line = launch_line(method, words, configuration, (parsed.gpus or 0) if own else max(gpus, 1))
    print(shlex.join(line), flush=True)
    if not parsed.print_launch:
        os.execv(sys.executable, [sys.executable, "-m", "accelerate.commands.launch", *line[2:]])
    return False


def gpus_found() -> int:
    """How many GPUs there are, without taking hold of any."""
    import torch

    return torch.cuda.device_count()


def _chosen(method: str, parsed: Namespace, gpus: int) -> Configuration:
    from truthgym.training.trainers.base_model import base_config
    from truthgym.training.trainers.memory import device_memory, shape_of
    from truthgym.training.trainers.planned import load_of, lora_of

    deepspeed = importlib.util.find_spec("deepspeed") is not None and not parsed.no_deepspeed
    config = base_config(parsed.model_name_or_path, parsed.model_revision, parsed.trust_remote_code)
    shape = shape_of(config, "reward" if method == "reward" else "words", lora_of(parsed))
    load = load_of(method, parsed, getattr(parsed, "max_length", None) or 4096, checkpointing=True, mixed=True)
    return choose(needs(shape, load, gpus), device_memory(), gpus, deepspeed)


def _without_ours(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        name = word.lstrip("-").partition("=")[0].replace("-", "_") if word.startswith("--") else ""
        if skip and not name:
            skip = False
            continue
        skip = name in OURS and name not in WITHOUT_VALUE and "=" not in word
        if name not in OURS:
            kept.append(word)
    return kept

"""Starts training in this process, or through `accelerate launch` if there are several GPUs."""

import importlib.util
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import cast, get_args

from truthgym.datasets.redaction import redact
from truthgym.evallog.errors import bad_input
from truthgym.training.trainers.memory import Configuration, Shape, Workload, predict


def choose_configuration(needs: Mapping[Configuration, int], memory: int, gpus: int, deepspeed: bool) -> Configuration:
    """The first configuration that fits, from the fastest to the smallest; if none fits, the last."""
    if gpus <= 1:
        return "single_gpu"
    order: tuple[Configuration, ...] = ("multi_gpu", "zero2", "zero3") if deepspeed else ("multi_gpu", "fsdp2")
    return next((name for name in order if needs[name] <= memory), order[-1])


def needs(shape: Shape, load: Workload, gpus: int) -> dict[Configuration, int]:
    """Predicted bytes on each GPU, by configuration."""
    names = cast(tuple[Configuration, ...], get_args(Configuration))
    return {name: predict(shape, load, name, gpus).total for name in names}


def launch_line(method: str, words: Sequence[str], configuration: str, gpus: int) -> list[str]:
    """The `accelerate launch` line. TRL's files set bf16, which is left to the trainer's own option `--bf16`."""
    from trl.cli.accelerate_config import resolve_accelerate_config_argument

    try:
        config = resolve_accelerate_config_argument(["--accelerate_config", configuration])
    except ValueError:
        raise bad_input(
            f"--accelerate_config {configuration}: no such file; give one that `accelerate config` wrote, or one of "
            f"{', '.join(get_args(Configuration))}."
        ) from None
    processes = ["--num_processes", str(gpus)] if gpus else []
    precision = ["--mixed_precision", "no"] if configuration in get_args(Configuration) else []
    words = [word for word in words if word not in ("--print_launch", "--print-launch")]
    module = ["-m", "truthgym.cli.main", "train", method, *words]
    return ["accelerate", "launch", *config, *processes, *precision, *module]


def is_launched() -> bool:
    """Whether `accelerate launch` or torchrun started this process."""
    return "LOCAL_RANK" in os.environ or "ACCELERATE_MIXED_PRECISION" in os.environ


def launched_configuration(processes: int) -> Configuration:
    """The configuration that this process was started with, from accelerate's environment variables."""
    if os.environ.get("ACCELERATE_USE_FSDP") == "true":
        return "fsdp2"
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        stage = os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2")
        return cast(Configuration, f"zero{stage}") if stage in ("1", "3") else "zero2"
    return "multi_gpu" if processes > 1 else "single_gpu"


def start(method: str, words: Sequence[str], parsed: Namespace) -> bool:
    """Replace this process by `accelerate launch` for several GPUs; with `--print_launch` only print its line."""
    if is_launched():
        return True
    visible = visible_gpus()
    if parsed.gpus is not None and not 1 <= parsed.gpus <= max(visible, 1) and not parsed.print_launch:
        raise bad_input(f"--gpus {parsed.gpus}: {visible} visible; give a number from 1 to {max(visible, 1)}.")
    gpus = parsed.gpus or visible
    if gpus <= 1 and not parsed.print_launch and not parsed.accelerate_config:
        if visible > 1:  # torch would split each batch over all visible GPUs
            os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        return True
    configuration = parsed.accelerate_config or _choose(method, parsed, gpus)
    own_file = configuration not in get_args(Configuration)
    line = launch_line(method, words, configuration, (parsed.gpus or 0) if own_file else max(gpus, 1))
    print(redact(shlex.join(line)), flush=True)
    if not parsed.print_launch:
        os.execv(sys.executable, [sys.executable, "-m", "accelerate.commands.launch", *line[2:]])
    return False


def visible_gpus() -> int:
    """The number of visible GPUs. None of them is initialised."""
    import torch

    return int(torch.cuda.device_count())


def _choose(method: str, parsed: Namespace, gpus: int) -> Configuration:
    from truthgym.training.trainers.base_model import base_config
    from truthgym.training.trainers.memory import device_memory, shape_of, workload
    from truthgym.training.trainers.options import lora_config

    deepspeed = importlib.util.find_spec("deepspeed") is not None and not parsed.no_deepspeed
    config = base_config(parsed.model_name_or_path, parsed.model_revision, parsed.trust_remote_code)
    shape = shape_of(config, "reward" if method == "reward" else "words", lora_config(parsed))
    load = workload(method, parsed, getattr(parsed, "max_length", None) or 4096, checkpointing=True, mixed=True)
    return choose_configuration(needs(shape, load, gpus), device_memory(), gpus, deepspeed)

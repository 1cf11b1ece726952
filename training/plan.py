"""How much memory training takes on each GPU, part by part, for each way to distribute it.

truthgym plan --model Qwen/Qwen3-8B --gpus 8 --method dpo --gpu_memory 80 -- --per_device_train_batch_size 2

The figures are those of the warning that `truthgym train` prints (`trainers/memory.py`), from the model's
configuration alone. docs/plan.md explains them.
"""

import importlib.util
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Annotated, Any, Literal

from pydantic import Field

from truthgym.datasets.errors import one_of, validate_call
from truthgym.evallog.errors import bad_input
from truthgym.training.files import markdown_table
from truthgym.training.rollouts.sampling import MAX_BATCH
from truthgym.training.trainers.accelerate_launch import choose_configuration, needs
from truthgym.training.trainers.base_model import base_config
from truthgym.training.trainers.memory import (
    GB,
    Configuration,
    Head,
    Need,
    Offload,
    Shape,
    Workload,
    measure_step,
    memory_report,
    predict,
    shape_of,
    workload,
)
from truthgym.training.trainers.options import BY_ROLLOUTS, CONFIGS, lora_config, parse_options

WAYS: dict[str, tuple[Configuration, Offload]] = {
    "DDP": ("multi_gpu", "none"),
    "ZeRO-1": ("zero1", "none"),
    "ZeRO-2": ("zero2", "none"),
    "ZeRO-2, optimiser offloaded": ("zero2", "optimizer"),
    "ZeRO-3": ("zero3", "none"),
    "ZeRO-3, optimiser offloaded": ("zero3", "optimizer"),
    "ZeRO-3, weights offloaded too": ("zero3", "all"),
    "FSDP2": ("fsdp2", "none"),
    "FSDP2, all offloaded": ("fsdp2", "all"),
}
"""Ways to distribute training. `truthgym train --accelerate_config` takes the configurations; offloading needs the
user's own file."""
RANK = 16
"""Rank of the LoRA lines, if the options do not train an adapter anyway."""
LORA_WAYS: tuple[tuple[str, int, Configuration], ...] = (
    (", DDP", 0, "multi_gpu"),
    (", base in bf16, DDP", 16, "multi_gpu"),
    (", base in 4 bit, DDP", 4, "multi_gpu"),
    (", FSDP2", 0, "fsdp2"),
)
"""Each with the bits of a weight of the base; 0: as the options say."""
PARTS = ("weights", "gradients", "optimiser", "reference", "activations", "logits", "cache", "generations")
HEADER = ["", *PARTS[:-2], "KV cache", "generations", "GB on each GPU", "main memory", "source"]


@dataclass(frozen=True)
class Line:
    """One way to train, and what it takes."""

    name: str
    need: Need
    source: str = "formula"


@dataclass(frozen=True)
class Plan:
    """What `plan` returns. `text` is what the command prints."""

    shape: Shape
    load: Workload
    lines: list[Line]
    measured: dict[str, tuple[int, int]]
    """For each part the predicted and the measured bytes, see `measure_step`. Empty without `measure`."""
    text: str


@validate_call
def plan(
    model: str,
    gpus: Annotated[int, Field(ge=1)] = 1,
    *,
    method: Literal["sft", "dpo", "kto", "reward", "grpo", "rloo"] = "sft",
    length: Annotated[int, Field(ge=2)] = 2048,
    gpu_memory: Annotated[float, Field(gt=0)] | None = None,
    measure: bool = False,
    train: Mapping[str, Any] | None = None,
) -> Plan:
    """Predict the memory of a run for each way to distribute it over the GPUs of one node.

    Args:
        model: A folder, or a name on the Hub, of which only the configuration is read.
        gpus: Number of GPUs.
        method: As `truthgym train` takes it.
        length: Tokens of the longest row; for grpo and rloo, of the prompt and all replies of a rollout.
        gpu_memory: GB of each GPU, to say what fits.
        measure: Also count the bytes of one step, on a model of at most 100 million parameters.
        train: Options of `truthgym train METHOD`, such as `{"use_peft": True, "load_in_4bit": True}`.

    Raises:
        BadInput: No such model or option; a model that is too large to measure, or is no causal language model.
    """
    if importlib.util.find_spec("trl") is None:
        raise bad_input('truthgym plan: trl is not installed; run `pip install -e ".[train]"`')
    one_of("method", method, list(CONFIGS))
    data = {"task": ["truthgym/urns"]} if method in BY_ROLLOUTS else {"dataset_name": "data"}
    parsed = parse_options(method, {"model_name_or_path": model} | data | dict(train or {}))
    config = base_config(parsed.model_name_or_path, parsed.model_revision, parsed.trust_remote_code)
    lora = lora_config(parsed)
    head: Head = "reward" if method == "reward" else "words"
    shape = shape_of(config, head, lora)
    sampled = 0
    if method in BY_ROLLOUTS and not parsed.use_vllm:
        steps = parsed.steps_per_generation or parsed.gradient_accumulation_steps
        total = parsed.generation_batch_size or parsed.per_device_train_batch_size * steps * gpus
        sampled = min(MAX_BATCH, max(1, total // gpus))
    explicit = {"gradient_checkpointing", "activation_checkpointing"} & parsed.user_set
    checkpointing = any(getattr(parsed, name) for name in explicit) if explicit else True
    mixed = bool(parsed.bf16 or parsed.fp16) if {"bf16", "fp16"} & parsed.user_set else True
    load = workload(method, parsed, length, checkpointing, mixed, sampled)
    lines = [Line(name, predict(shape, load, *way[:1], gpus, way[1])) for name, way in WAYS.items()]
    lines += _model_parallel(shape, load, gpus)
    if lora is None:
        lines += _adapters(parsed, config, head, load, gpus)
    lines += _deepspeed(shape, lines, gpus)
    measured = {}
    if measure:
        if head == "reward":
            raise bad_input("--measure: a reward model is not measured; use another --method")
        measured = measure_step(config, shape, load, lora)
    return Plan(shape, load, lines, measured, _text(model, method, shape, load, lines, measured, gpus, gpu_memory))


def _adapters(parsed: Namespace, config: Any, head: Head, load: Workload, gpus: int) -> list[Line]:  # noqa: ANN401
    """The same run with LoRA, whose reference is the base itself."""
    shape = shape_of(config, head, lora_config(parsed, use_peft=True, lora_r=RANK))
    load = replace(load, reference=False)
    return [
        Line(f"LoRA r = {RANK}{name}", predict(shape, replace(load, bits=bits or load.bits), way, gpus))
        for name, bits, way in LORA_WAYS
    ]


def _model_parallel(shape: Shape, load: Workload, gpus: int) -> list[Line]:
    """Tensor and pipeline parallelism, which `truthgym train` does not have (Korthikanti et al. 2022).

    Tensor parallelism divides the states and the logits, and 24 of the 34 B S H of a layer. A pipeline divides the
    states; its first stage keeps the activations of a micro-batch for each stage, its last one makes all logits.
    """
    whole = predict(shape, load, "multi_gpu", gpus)
    share = {name: getattr(whole, name) // gpus for name in ("weights", "gradients", "optimiser", "reference", "cache")}
    inputs = predict(replace(shape, layers=0), replace(load, checkpointing=True)).activations  # of one layer
    scores = 5 * shape.heads * load.length / shape.hidden if load.eager else 0
    layers = inputs * (1 if load.checkpointing else shape.layers)
    divided = layers * (24 + scores) / (34 + scores)
    kept = whole.activations - int(divided * (1 - 1 / gpus))
    tensor = replace(whole, **share, activations=kept, logits=whole.logits // gpus)
    return [Line("tensor parallel", tensor), Line("pipeline parallel", replace(whole, **share))]


def _deepspeed(shape: Shape, lines: list[Line], gpus: int) -> list[Line]:
    """The lines whose states DeepSpeed's own functions say as well, if it is installed. They know no adapters."""
    if importlib.util.find_spec("deepspeed") is None or shape.adapter:
        return []
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs as three
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs as two

    estimates = []
    for line in lines:
        configuration, offload = WAYS.get(line.name, ("", "none"))
        if configuration == "zero2":
            host, device = two(shape.parameters, gpus, cpu_offload=offload != "none")[:2]
        elif configuration == "zero3":
            away = {"cpu_offload": offload != "none", "cpu_offload_params": offload == "all"}
            host, device = three(shape.parameters, shape.largest_layer, gpus, **away)[:2]
        else:
            continue
        states = Need(device, 0, 0, 0, 0, 0, host=host if offload != "none" else 0)
        estimates.append(
            Line(f"{line.name}: weights, gradients and optimiser", states, f"DeepSpeed {version('deepspeed')}")
        )
    return estimates


def _text(
    model: str,
    method: str,
    shape: Shape,
    load: Workload,
    lines: list[Line],
    measured: Mapping[str, tuple[int, int]],
    gpus: int,
    gpu_memory: float | None,
) -> str:
    gb = _places(max(line.need.total for line in lines))
    rows = []
    for line in lines:
        total, fits = gb(line.need.total), ""
        if gpu_memory and line.source == "formula":
            fits = ", fits" if line.need.total <= gpu_memory * GB else ", too much"
        own = line.source != "formula"
        cells = [gb(getattr(line.need, name)) for name in PARTS] if not own else [""] * len(PARTS)
        rows.append([line.name, *cells, total + fits, gb(line.need.host) if line.need.host else "", line.source])
    adapter = f", {shape.adapter:,} of them in an adapter" if shape.adapter else ""
    texts = [
        f"{model}: {shape.parameters:,} parameters{adapter}. {method} on {gpus} GPU{'s' * (gpus > 1)}, "
        f"{load.sequences} sequences of {load.length:,} tokens in a forward pass of each"
        f"{', with gradient checkpointing' if load.checkpointing else ''}"
        f"{f', {load.rollouts} rollouts sampled at a time' if load.rollouts else ''}. GB on each GPU:",
        markdown_table(HEADER, rows),
    ]
    if method in ("dpo", "kto") and load.reference:
        kinds: tuple[Configuration, ...] = ("multi_gpu", "zero2", "zero3", "fsdp2")
        whole, cast, sharded, fsdp = (gb(predict(shape, load, kind, gpus).reference) for kind in kinds)
        texts.append(
            f"The reference model takes {whole} GB on each GPU if it is whole (DDP), {cast} cast by DeepSpeed (ZeRO-1 "
            f"and 2), {sharded} sharded (ZeRO-3; FSDP2 {fsdp}), and nothing with --precompute_ref_log_probs (dpo) or "
            "--use_peft."
        )
    if method in BY_ROLLOUTS:
        texts.append(
            "The update and sampling alternate: of activations with logits, and of KV cache with generations, the "
            "total has the larger sum."
        )
    if measured:
        parts = [
            [name, f"{formula:,}", f"{counted:,}", f"{counted / formula:.2f}" if formula else ""]
            for name, (formula, counted) in measured.items()
        ]
        texts += [
            "One step in fp32 on this machine, without checkpointing, in bytes:",
            markdown_table(["", "formula", "measured", "measured / formula"], parts),
        ]
    if gpu_memory:
        deepspeed = importlib.util.find_spec("deepspeed") is not None
        memory = int(gpu_memory * GB)
        configuration = choose_configuration(needs(shape, load, gpus), memory, gpus, deepspeed)
        need = predict(shape, load, configuration, gpus)
        texts.append("`truthgym train` would say: " + memory_report(need, memory, configuration, gpus))
    return "\n\n".join(texts)


def _places(largest: int) -> Any:  # noqa: ANN401
    """Bytes as GB with one decimal place, or with as many as a small model needs for three digits."""
    places = 1
    while largest / GB < 10.0 ** (2 - places) and places < 6:
        places += 1
    return lambda size: f"{size / GB:.{places}f}"

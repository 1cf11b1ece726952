"""How much memory training takes on each device, predicted from a model's configuration before anything is loaded.

P parameters, N devices, L the parameters of the largest layer. What a trained parameter takes, with Adam and bf16
autocast: its fp32 weight 4, a bf16 copy 2, its gradient 4, Adam's two moments 8: 18 bytes. DeepSpeed keeps a bf16
weight, a bf16 and an fp32 gradient, an fp32 copy and the moments: 20.

| configuration | bytes a device | source |
| --- | --- | --- |
| `single_gpu`, `multi_gpu` | 18 P | above |
| `zero2` | 2 P + 18 P / N | `estimate_zero2_model_states_mem_needs` of DeepSpeed 0.19 |
| `zero3` | 4 L + 18 P / N | `estimate_zero3_model_states_mem_needs` |
| `fsdp2` | 4 L + 18 P / N | the same states are sharded; L is gathered |

With LoRA, P is the adapter's parameters, and the frozen base adds its weights (4 bytes in fp32 with 2 for the bf16
copy, 2 in bf16, 1 in 8 bit, 0.5 in 4 bit), divided by N where weights are sharded. So does the reference model of DPO
and KTO where there is no adapter to turn off.

Activations, for B sequences of S tokens, H hidden units and A layers in bf16 (Korthikanti et al. 2022,
arXiv:2205.05198, with an attention that keeps no S x S matrix): 34 B S H A; with gradient checkpointing
2 B S H A + 34 B S H. Twice that in fp32. Logits: TRL's fused head makes them in tiles of 4096 tokens x 32768 words,
10 bytes each. A reward model makes none.

It counts neither CUDA's own half gigabyte nor fragmentation: a run that just fits by this may still run out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from truthgym.evallog.errors import bad_input

Configuration = Literal["single_gpu", "multi_gpu", "zero2", "zero3", "fsdp2"]
Head = Literal["words", "reward", "steps"]
"""What a model puts out: words, one reward a sequence, or two classes a token."""
GB = 1e9
TILE = 4096 * 32768
"""Logits that exist at once, see `trl/kernels/chunked_logprob.py`."""


@dataclass(frozen=True)
class Shape:
    """What of a model decides how much memory it takes."""

    parameters: int
    """Weights that are tied count once."""
    largest_layer: int
    adapter: int
    """Parameters of LoRA; 0 where all weights are trained."""
    layers: int
    hidden: int
    vocabulary: int
    """0 for a model that makes no logits over words."""


@dataclass(frozen=True)
class Load:
    """What of a run decides how much memory it takes, besides the model."""

    sequences: int
    """In one step of one device: twice the batch size where pairs are compared."""
    length: int
    """Tokens of the longest."""
    checkpointing: bool = False
    reference: bool = False
    """Whether a second copy of the model is kept to compare with."""
    bits: int = 32
    """Of a weight as it is loaded: 32, 16, 8 or 4."""
    mixed: bool = True
    """Whether it computes in bf16 or fp16."""


@dataclass(frozen=True)
class Need:
    """Predicted bytes on each device."""

    states: int
    """Weights, gradients and the optimiser's moments."""
    activations: int
    logits: int

    @property
    def total(self) -> int:
        return self.states + self.activations + self.logits


def predict(shape: Shape, load: Load, configuration: Configuration = "single_gpu", gpus: int = 1) -> Need:
    """Predict what each of `gpus` devices needs."""
    sharded = configuration in ("zero3", "fsdp2")
    base = _weight(load) * shape.parameters / (gpus if sharded else 1)
    trained = shape.adapter or shape.parameters
    states = _states(trained, shape, load, configuration, gpus)
    if shape.adapter or load.reference:
        states += base
    unit = load.sequences * load.length * shape.hidden * (1 if load.mixed or load.bits == 16 else 2)
    kept = 2 * unit * shape.layers + 34 * unit if load.checkpointing else 34 * unit * shape.layers
    logits = 10 * min(load.sequences * load.length * shape.vocabulary, TILE)
    return Need(int(states), int(kept), int(logits))


def _weight(load: Load) -> float:
    """Bytes of a frozen weight."""
    return load.bits / 8 + (2 if load.bits == 32 and load.mixed else 0)


def _states(trained: int, shape: Shape, load: Load, configuration: Configuration, gpus: int) -> float:
    if configuration == "zero2":
        return 2 * trained + int(18 * trained / gpus)
    if configuration in ("zero3", "fsdp2"):
        return 4 * shape.largest_layer + int(18 * trained / gpus)
    if load.bits == 16 and not shape.adapter:  # PEFT keeps an adapter in fp32
        return 8 * trained  # weight, gradient and both moments in bf16
    return (18 if load.mixed else 16) * trained


def shape_of(config: Any, head: Head = "words", lora: Any = None) -> Shape:  # noqa: ANN401
    """Count a model's parameters without making them: it is built on torch's `meta` device.

    Args:
        config: Of `transformers`.
        head: What it puts out.
        lora: PEFT's configuration, or None.

    Raises:
        BadInput: LoRA is to adapt layers that the model does not have.
    """
    import torch
    import transformers

    kinds: Mapping[str, Any] = {
        "words": transformers.AutoModelForCausalLM,
        "reward": transformers.AutoModelForSequenceClassification,
        "steps": transformers.AutoModelForTokenClassification,
    }
    with torch.device("meta"):
        model = kinds[head].from_config(config)
    parameters = sum(parameter.numel() for parameter in model.parameters())  # torch gives what is tied once
    layers = (sum(part.numel() for part in module.parameters(recurse=False)) for module in model.modules())
    largest = max(layers)
    adapter = 0
    if lora is not None:
        from peft import get_peft_model

        try:
            with torch.device("meta"):
                adapter = get_peft_model(model, lora).get_nb_trainable_parameters()[0]
        except ValueError as error:
            raise bad_input(f"These options of LoRA do not fit the model: {error}") from None
    text = config.get_text_config()
    vocabulary = text.vocab_size if head == "words" else 0
    return Shape(parameters, largest, adapter, text.num_hidden_layers, text.hidden_size, vocabulary)


def device_memory() -> int:
    """Bytes of the first GPU; without one, what is free of the machine's memory."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.get_device_properties(0).total_memory)
    import psutil  # type: ignore[import-untyped]

    return int(psutil.virtual_memory().available)


def check_memory(need: Need, memory: int, configuration: Configuration, gpus: int = 1) -> None:
    """Refuse to begin what would run out of memory.

    Args:
        need: See `predict`.
        memory: Bytes of each device, see `device_memory`.
        configuration: How it would be trained.
        gpus: On how many devices.

    Raises:
        BadInput: More is needed than there is.
    """
    if need.total <= memory:
        return
    parts = ", ".join(
        f"{name} {size / GB:.1f}"
        for name, size in (("weights, gradients and optimiser", need.states), ("activations", need.activations),
                           ("logits", need.logits))
    )  # fmt: skip
    raise bad_input(
        f"Training with {configuration} on {gpus} device{'s' * (gpus > 1)} is predicted to take "
        f"{need.total / GB:.1f} GB on each ({parts}), and there are {memory / GB:.1f} GB. Train an adapter "
        "(--use_peft), with --dtype bfloat16 or --load_in_4bit; lower --per_device_train_batch_size and raise "
        "--gradient_accumulation_steps; lower --max_length; shard over more GPUs (--accelerate_config zero3); or say "
        "--ignore_memory"
    )

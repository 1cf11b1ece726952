"""Memory that training takes on each device, predicted from a model's configuration before anything is loaded.

docs/plan.md has the formulas, with their sources.
"""

from argparse import Namespace
from dataclasses import dataclass, replace
from typing import Any, Literal

from truthgym.evallog.errors import bad_input
from truthgym.training.trainers.options import BY_ROLLOUTS

Configuration = Literal["single_gpu", "multi_gpu", "zero1", "zero2", "zero3", "fsdp2"]
Offload = Literal["none", "optimizer", "all"]
"""What is kept in main memory: nothing; the optimiser and the gradients; or the weights too."""
HOST_FACTOR = 1.5
"""DeepSpeed's `additional_buffer_factor` for main memory."""
Head = Literal["words", "reward", "steps"]
"""A model's output: a distribution over words, one reward per sequence, or two classes per token."""
MEASURED_PARAMETERS = 100_000_000
"""Most parameters of a model that `measure_step` runs."""
GB = 1e9
TILE = 4096 * 32768
"""Logits that are in memory at one time, see `trl/kernels/chunked_logprob.py`."""


@dataclass(frozen=True)
class Shape:
    """The properties of a model that determine its memory."""

    parameters: int
    """Tied weights count once."""
    largest_layer: int
    adapter: int
    """Parameters of LoRA; 0 if all weights are trained."""
    layers: int
    hidden: int
    vocabulary: int
    """0 for a model without logits over words."""
    cached: int = 0
    """Numbers that the KV cache keeps of each token."""
    heads: int = 0


@dataclass(frozen=True)
class Workload:
    """The properties of a run, apart from the model, that determine its memory."""

    sequences: int
    """In one forward pass of one device: twice the batch size if pairs are compared."""
    length: int
    """Tokens of the longest sequence."""
    checkpointing: bool = False
    reference: bool = False
    """Whether a second, frozen copy of the model is loaded."""
    bits: int = 32
    """Bits of a loaded weight: 32, 16, 8 or 4."""
    mixed: bool = True
    """Whether the forward pass is in bf16 or fp16."""
    rollouts: int = 0
    """Sequences that the model samples at a time."""
    eager: bool = False
    """Whether the attention keeps its S x S matrices."""


@dataclass(frozen=True)
class Need:
    """Predicted bytes on each device."""

    weights: int
    """With a frozen base's, and the largest layer where layers are gathered."""
    gradients: int
    optimiser: int
    """Adam's moments, and with DeepSpeed an fp32 copy of the weights."""
    reference: int
    activations: int
    logits: int
    cache: int = 0
    """KV cache of the rollouts."""
    generations: int = 0
    """Logits of the rollouts' next tokens."""
    host: int = 0
    """Main memory of the node, for all of its GPUs, if something is offloaded to it."""

    @property
    def states(self) -> int:
        return self.weights + self.gradients + self.optimiser + self.reference

    @property
    def sampling(self) -> int:
        return self.cache + self.generations

    @property
    def total(self) -> int:
        return self.states + max(self.activations + self.logits, self.sampling)


def predict(
    shape: Shape, load: Workload, configuration: Configuration = "single_gpu", gpus: int = 1, offload: Offload = "none"
) -> Need:
    """Predict the bytes on each of `gpus` devices of one node."""
    sharded = configuration in ("zero3", "fsdp2")
    # A frozen copy of the model. DeepSpeed makes engines of it and of a LoRA's base, which cast all weights to bf16.
    cast = configuration in ("zero1", "zero2", "zero3") and load.mixed and load.bits == 32
    weight = load.bits / 8 + (2 if load.bits == 32 and load.mixed else 0)  # autocast keeps a copy in bf16
    base = int((2 if cast else weight) * shape.parameters)
    frozen = bool(shape.adapter) + load.reference
    trained = shape.adapter or shape.parameters
    weights, gradients, optimiser = _states(trained, shape, load, configuration, gpus, offload)
    host = 0
    if offload != "none":
        per_parameter = max(4 * gpus, 16) if configuration == "zero2" else 16 if offload == "optimizer" else 18
        host = int(trained * per_parameter * HOST_FACTOR)
    if sharded and offload == "all":
        host, base = host + frozen * base, 0
    kept = base // gpus if sharded else base
    precision = 1 if load.mixed or load.bits == 16 else 2
    unit = load.sequences * load.length * shape.hidden * precision
    of_layer = 34 + (5 * shape.heads * load.length / shape.hidden if load.eager else 0)
    activations = (2 * shape.layers + of_layer if load.checkpointing else of_layer * shape.layers) * unit
    return Need(
        weights=weights + (kept if shape.adapter else 0),
        gradients=gradients,
        optimiser=optimiser,
        reference=kept if load.reference else 0,
        activations=int(activations),
        logits=10 * min(load.sequences * load.length * shape.vocabulary, TILE),
        cache=load.rollouts * shape.cached * load.length * 2 * precision,
        generations=load.rollouts * 24 * shape.vocabulary,
        host=host,
    )


def _states(
    trained: int, shape: Shape, load: Workload, configuration: Configuration, gpus: int, offload: Offload
) -> tuple[int, int, int]:
    """Bytes of weights, gradients and optimiser on each device, of all parameters that are trained."""
    if configuration == "zero1":
        return 2 * trained, 2 * trained, 12 * trained // gpus
    if configuration in ("zero2", "zero3", "fsdp2"):
        shards = int(18 * trained / gpus)
        if configuration == "zero2":
            weights, gradients = 2 * trained, int(6 * trained / gpus)
        else:
            weights, gradients = 4 * shape.largest_layer, int(4 * trained / gpus)
            if offload != "all":
                resident = int(2 * trained / gpus)
                weights, shards = weights + resident, shards - resident
        return (weights, gradients, shards - gradients) if offload == "none" else (weights, 0, 0)
    if load.bits == 16 and not shape.adapter:  # PEFT keeps an adapter in fp32
        return 2 * trained, 2 * trained, 4 * trained
    return (6 if load.mixed else 4) * trained, 4 * trained, 8 * trained


def model_class(head: Head) -> Any:  # noqa: ANN401
    """The class of transformers for a model's output."""
    import transformers

    return {
        "words": transformers.AutoModelForCausalLM,
        "reward": transformers.AutoModelForSequenceClassification,
        "steps": transformers.AutoModelForTokenClassification,
    }[head]


def build(config: Any, head: Head = "words") -> Any:  # noqa: ANN401
    """A model with random weights."""
    try:
        return model_class(head).from_config(config)
    except ValueError as error:
        raise bad_input(
            f"A model of type {config.model_type} cannot be built as {model_class(head).__name__}: "
            f"{str(error).splitlines()[0]} Give a causal language model."
        ) from None


def shape_of(config: Any, head: Head = "words", lora: Any = None) -> Shape:  # noqa: ANN401
    """Count a model's parameters without allocating them: it is built on torch's `meta` device."""
    import torch

    with torch.device("meta"):
        model = build(config, head)
    parameters = sum(parameter.numel() for parameter in model.parameters())  # tied weights count once
    layers = (sum(part.numel() for part in module.parameters(recurse=False)) for module in model.modules())
    largest = max(layers)
    adapter = 0
    if lora is not None:
        from peft import get_peft_model

        try:
            with torch.device("meta"):
                adapter = get_peft_model(model, lora).get_nb_trainable_parameters()[0]
        except ValueError as error:
            raise bad_input(f"The LoRA options do not fit the model: {error}") from None
    text = config.get_text_config()
    vocabulary = text.vocab_size if head == "words" else 0
    heads = text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // heads
    cached = 2 * text.num_hidden_layers * (getattr(text, "num_key_value_heads", None) or heads) * width
    return Shape(parameters, largest, adapter, text.num_hidden_layers, text.hidden_size, vocabulary, cached, heads)


def device_memory() -> int:
    """Bytes of the first GPU; without a GPU, bytes of main memory that are free or that this process has."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.get_device_properties(0).total_memory)
    import psutil

    return int(psutil.virtual_memory().available) + process_memory()


def process_memory() -> int:
    """Bytes of main memory that this process has; 0 with a GPU, whose memory counts."""
    import psutil
    import torch

    return 0 if torch.cuda.is_available() else int(psutil.Process().memory_info().rss)


def workload(
    method: str, parsed: Namespace, length: int, checkpointing: bool, mixed: bool, rollouts: int = 0
) -> Workload:
    """The workload that options describe."""
    bits = {"bfloat16": 16, "float16": 16}.get(parsed.dtype, 32)
    # GRPO and RLOO load a reference model only if the KL term has a weight.
    reference = method in ("dpo", "kto") or (method in BY_ROLLOUTS and parsed.beta > 0)
    reference = reference and not getattr(parsed, "precompute_ref_log_probs", False)
    return Workload(
        sequences=parsed.per_device_train_batch_size * (2 if method in ("dpo", "reward") else 1),
        length=length,
        checkpointing=checkpointing,
        reference=reference and (not parsed.use_peft or bool(parsed.reference_model)),
        bits=4 if parsed.load_in_4bit else 8 if parsed.load_in_8bit else bits,
        mixed=mixed,
        rollouts=rollouts,
        eager=parsed.attn_implementation == "eager",
    )


def memory_report(need: Need, available: int, configuration: Configuration, gpus: int = 1, process: int = 0) -> str:
    """Describe the predicted memory, with a warning and remedies if it exceeds the available memory."""
    parts = {"weights, gradients and optimiser": need.states, "activations": need.activations, "logits": need.logits}
    parts |= {"or sampling": need.sampling} if need.sampling else {}
    parts |= {"Python and libraries": process} if process else {}
    total = need.total + process
    listed = ", ".join(f"{name} {size / GB:.1f}" for name, size in parts.items())
    devices = f"{gpus} device{'s' * (gpus > 1)}"
    report = f"Predicted memory with {configuration} on {devices}: {total / GB:.1f} GB on each ({listed})"
    if total <= available:
        return f"{report}, {available / GB:.1f} GB available."
    return (
        f"Warning: {report}, but only {available / GB:.1f} GB available. If it runs out of memory: train an adapter "
        "(--use_peft), with --dtype bfloat16 or --load_in_4bit; lower --per_device_train_batch_size and raise "
        "--gradient_accumulation_steps; lower --max_length or --max_completion_length; or shard over more GPUs "
        "(--accelerate_config zero3)."
    )


def measure_step(config: Any, shape: Shape, load: Workload, lora: Any = None) -> dict[str, tuple[int, int]]:  # noqa: ANN401
    """For each part the predicted and the counted bytes of one step of Adam, in fp32, on a small causal language model.

    torch calls a hook for each tensor that autograd saves, so the bytes of activations are exact, also on a CPU.
    """
    import torch

    if shape.parameters > MEASURED_PARAMETERS:
        raise bad_input(
            f"--measure: {shape.parameters:,} parameters are more than {MEASURED_PARAMETERS:,}; measure a tiny model "
            "of the same architecture (`truthgym models tiny --out trained/tiny`, or its config.json with fewer layers)"
        )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    plain = replace(load, bits=32, mixed=False, checkpointing=False, reference=False)
    plain = replace(plain, rollouts=load.rollouts or load.sequences)
    need = predict(shape, plain)
    model = build(config).to(device)
    if lora is not None:
        from peft import get_peft_model

        model = get_peft_model(model, lora)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    own = {part.data_ptr() for part in (*model.parameters(), *model.buffers())}
    tokens = torch.randint(shape.vocabulary, (load.sequences, load.length), device=device)
    causal = model.get_base_model() if lora is not None else model

    activations, logits = _Saved(own), _Saved(own)
    with activations.counting():
        hidden = causal.base_model(tokens, use_cache=False).last_hidden_state
    logits.seen = own | set(activations.sizes)
    with logits.counting():
        words = causal.get_output_embeddings()(hidden)
        loss = torch.nn.functional.cross_entropy(words[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
    loss.backward()
    optimiser = torch.optim.AdamW(trained)
    optimiser.step()
    measured = {
        "weights": _bytes(list(model.parameters())),
        "gradients": _bytes([parameter.grad for parameter in trained if parameter.grad is not None]),
        "optimiser": _bytes(
            [moment for state in optimiser.state.values() for moment in state.values() if moment.numel() > 1]
        ),
        "activations": sum(activations.sizes.values()),
        "logits": sum(logits.sizes.values()),
    }
    peak = {"peak": (need.total, int(torch.cuda.max_memory_allocated()))} if device == "cuda" else {}
    with torch.no_grad():
        cache = causal(tokens, use_cache=True, logits_to_keep=1).past_key_values
    of_sequence = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers) // load.sequences
    predicted = {name: getattr(need, name) for name in measured}
    pairs = {name: (predicted[name], size) for name, size in measured.items()}
    return pairs | {"KV cache": (need.cache, of_sequence * plain.rollouts)} | peak


class _Saved:
    """Counts the storages that autograd saves, each once, but for those that are counted elsewhere."""

    def __init__(self, seen: set[int]) -> None:
        self.seen = seen
        self.sizes: dict[int, int] = {}

    def counting(self) -> Any:  # noqa: ANN401
        from torch.autograd.graph import saved_tensors_hooks

        def pack(tensor: Any) -> Any:  # noqa: ANN401
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self.seen:
                self.sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        return saved_tensors_hooks(pack, lambda tensor: tensor)


def _bytes(tensors: Any) -> int:  # noqa: ANN401
    return sum({tensor.data_ptr(): tensor.nbytes for tensor in tensors}.values())

"""Memory that one step of training really takes, counted on a model small enough for the machine at hand.

torch calls a hook for every tensor that autograd saves for the backward pass, so the bytes of activations are exact, on
a CPU as on a GPU. The weights are random and in fp32, without gradient checkpointing.
"""

from dataclasses import replace
from typing import Any

from truthgym.evallog.errors import bad_input
from truthgym.training.trainers.memory_estimate import Shape, Workload, build, predict

MOST = 100_000_000
"""Most parameters of a model that is measured."""


def measure(config: Any, shape: Shape, load: Workload, lora: Any = None) -> dict[str, tuple[int, int]]:  # noqa: ANN401
    """Count the bytes of one step of Adam on a causal language model."""
    import torch

    if shape.parameters > MOST:
        raise bad_input(
            f"--measure: {shape.parameters:,} parameters are more than {MOST:,}; measure a tiny model of the same "
            "architecture (`truthgym models tiny --out trained/tiny`, or its config.json with fewer layers)"
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
            [each for state in optimiser.state.values() for each in state.values() if each.numel() > 1]
        ),
        "activations": sum(activations.sizes.values()),
        "logits": sum(logits.sizes.values()),
    }
    peak = {"peak": (need.total, int(torch.cuda.max_memory_allocated()))} if device == "cuda" else {}
    with torch.no_grad():
        cache = causal(tokens, use_cache=True, logits_to_keep=1).past_key_values
    one = sum(each.keys.nbytes + each.values.nbytes for each in cache.layers) // load.sequences
    predicted = {name: getattr(need, name) for name in measured}
    pairs = {name: (predicted[name], size) for name, size in measured.items()}
    return pairs | {"KV cache": (need.cache, one * plain.rollouts)} | peak


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
    return sum({each.data_ptr(): each.nbytes for each in tensors}.values())

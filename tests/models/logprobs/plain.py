"""What teacher forcing must agree with."""

from typing import Any


def plain(network: Any, prompt: list[int], reply: list[int]) -> list[float]:
    """One forward pass of the whole text, in float64 after the model."""
    import torch

    with torch.inference_mode():
        logits = network(torch.tensor([[*prompt, *reply]])).logits[0].double()
    return [
        float(logits[len(prompt) - 1 + at].log_softmax(-1)[token]) for at, token in enumerate(reply)
    ]  # fmt: skip

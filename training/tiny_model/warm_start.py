"""The tiny model's warm start: supervised training until it answers in form and knows a little."""

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

    from truthgym.training.tiny_model.text import Messages

BATCH = 8
"""Conversations a step."""
RATE = 3e-3
"""Highest learning rate of the embeddings and norms (AdamW)."""
MATRIX_RATE = 0.02
"""Highest learning rate of the matrices between them (Muon). With AdamW there, the same takes several times as long."""
RISE = 20
"""Steps in which the rates rise. From a third of the way on they fall, to 0 at the end."""
READING = 200
"""Steps in which the weight of what is asked falls to `LEAST`. It repeats itself: who can continue it knows where in it
to look. Later it would only be in the way."""
LEAST = 0.1
DISTANCE = 3.0
"""Weight of the squared distance between the number that was to be said and the mean of those that the model might say.
Without it 34 for 35 is as wrong as 90, and the model takes twice as long to find what the evidence does."""


def warm_start(
    model: "Qwen3ForCausalLM", tokenizer: "PreTrainedTokenizerFast", steps: int, seed: int = 0
) -> list[float]:
    """Train a model in place, on the conversations of `tiny_text`. About 0.06 s of CPU time a step.

    One thread, since sums over several come out differently from run to run.

    Args:
        model: The model, in float32.
        tokenizer: Its tokenizer, whose chat template marks what the assistant says.
        steps: Steps, with `BATCH` conversations each.
        seed: Of the conversations.

    Returns:
        The mean loss of the assistant's tokens at each step, in nats a token.
    """
    import torch
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    from truthgym.training.tiny_model.text import conversations

    made = conversations(steps * BATCH, seed)
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(matrices, lr=MATRIX_RATE, weight_decay=0.0),
        torch.optim.AdamW(others, lr=RATE, weight_decay=0.0),
    ]
    rates = [torch.optim.lr_scheduler.LambdaLR(held, lambda step: rate(step, steps)) for held in optimizers]
    numbers = torch.tensor(tokenizer.convert_tokens_to_ids([f"{number:02d}" for number in range(100)]))
    losses: list[float] = []
    console = Console(stderr=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model.train()
    columns = (*Progress.get_default_columns(), TextColumn("loss {task.fields[loss]:.2f}"))
    try:
        with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
            task = bar.add_task("Warm start", total=steps, loss=float("nan"))
            for step in range(steps):
                asked, said, distance = _losses(model, tokenizer, list(islice(made, BATCH)), numbers)
                (max(LEAST, 1 - step / READING) * asked + said + DISTANCE * distance).backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for optimizer, schedule in zip(optimizers, rates, strict=True):
                    optimizer.step()
                    schedule.step()
                model.zero_grad()
                losses.append(said.item())
                bar.update(task, advance=1, loss=losses[-1])
    finally:
        torch.set_num_threads(threads)
        model.eval()
    return losses


def rate(step: int, steps: int) -> float:
    """Learning rate at a step, as a share of the highest."""
    return min(1.0, (step + 1) / RISE, 1.5 * (1 - step / steps))


def _losses(
    model: "Qwen3ForCausalLM", tokenizer: "PreTrainedTokenizerFast", batch: "list[Messages]", numbers: "Tensor"
) -> "tuple[Tensor, Tensor, Tensor]":
    """Mean loss of all tokens and of the assistant's alone, and the mean squared distance of the numbers it says."""
    import torch
    from torch.nn.functional import cross_entropy

    held = tokenizer.apply_chat_template(
        batch, return_assistant_tokens_mask=True, return_dict=True, return_tensors="pt", padding=True
    )
    ids, there = held["input_ids"][:, 1:], held["attention_mask"][:, 1:].bool()
    said = held["assistant_masks"][:, 1:].bool()
    logits = model(input_ids=held["input_ids"], attention_mask=held["attention_mask"]).logits[:, :-1]
    number = said & torch.isin(ids, numbers)
    values = torch.zeros(logits.shape[-1])
    values[numbers] = torch.arange(len(numbers)) / 100
    distance = (logits[number].softmax(-1) @ values - values[ids[number]]).square().mean()
    return cross_entropy(logits[there], ids[there]), cross_entropy(logits[said], ids[said]), distance

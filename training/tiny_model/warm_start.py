"""The tiny model's warm start: supervised training until it answers in the requested format, slightly informed."""

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

    from truthgym.training.tiny_model.text import Messages

BATCH = 8
"""Conversations per step."""
EMBEDDING_RATE = 3e-3
"""Highest learning rate of the embeddings and norms (AdamW)."""
MATRIX_RATE = 0.02
"""Highest learning rate of the other matrices (Muon). With AdamW the same training takes several times as long."""
WARMUP = 20
"""Steps of learning rate warm-up. From a third of the way on the rates decay linearly to 0 at the end."""
PROMPT_STEPS = 200
"""Steps in which the loss weight of the prompt falls from 1 to `MIN_PROMPT_WEIGHT`. Prompts repeat themselves: a model
that can continue them has learned where to look. Later their loss would only distract."""
MIN_PROMPT_WEIGHT = 0.1
DISTANCE_WEIGHT = 3.0
"""Weight of the squared distance between the target number and the mean of the model's distribution over numbers.
Without it, 34 instead of 35 is as wrong as 90, and learning the effect of the evidence takes twice as long."""


def warm_start(
    model: "Qwen3ForCausalLM", tokenizer: "PreTrainedTokenizerFast", steps: int, seed: int = 0
) -> list[float]:
    """Train a model in place on the conversations of `text.py`. About 0.06 s of CPU time per step.

    Uses one thread, since the order of sums over several threads differs from run to run.
    """
    import torch
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    from truthgym.training.tiny_model.text import conversations

    data = conversations(steps * BATCH, seed)
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(matrices, lr=MATRIX_RATE, weight_decay=0.0),
        torch.optim.AdamW(others, lr=EMBEDDING_RATE, weight_decay=0.0),
    ]
    rates = [torch.optim.lr_scheduler.LambdaLR(one, lambda step: rate(step, steps)) for one in optimizers]
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
                tokens, reply, distance = _losses(model, tokenizer, list(islice(data, BATCH)), numbers)
                weight = max(MIN_PROMPT_WEIGHT, 1 - step / PROMPT_STEPS)
                (weight * tokens + reply + DISTANCE_WEIGHT * distance).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for optimizer, schedule in zip(optimizers, rates, strict=True):
                    optimizer.step()
                    schedule.step()
                model.zero_grad()
                losses.append(reply.item())
                bar.update(task, advance=1, loss=losses[-1])
                if not console.is_terminal and (step + 1) % -(-steps // 10) == 0:
                    console.print(f"Warm start: step {step + 1:,} of {steps:,}, loss {losses[-1]:.2f}")
    finally:
        torch.set_num_threads(threads)
        model.eval()
    return losses


def rate(step: int, steps: int) -> float:
    """Learning rate at a step, as a share of the highest."""
    return min(1.0, (step + 1) / WARMUP, 1.5 * (1 - step / steps))


def _losses(
    model: "Qwen3ForCausalLM", tokenizer: "PreTrainedTokenizerFast", batch: "list[Messages]", numbers: "Tensor"
) -> "tuple[Tensor, Tensor, Tensor]":
    """Mean loss of all tokens and of the assistant's tokens, and mean squared distance of the assistant's numbers."""
    import torch
    from torch.nn.functional import cross_entropy

    inputs = tokenizer.apply_chat_template(
        batch, return_assistant_tokens_mask=True, return_dict=True, return_tensors="pt", padding=True
    )
    ids, mask = inputs["input_ids"][:, 1:], inputs["attention_mask"][:, 1:].bool()
    reply = inputs["assistant_masks"][:, 1:].bool()
    logits = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits[:, :-1]
    number = reply & torch.isin(ids, numbers)
    values = torch.zeros(logits.shape[-1])
    values[numbers] = torch.arange(len(numbers)) / 100
    distance = (logits[number].softmax(-1) @ values - values[ids[number]]).square().mean()
    return cross_entropy(logits[mask], ids[mask]), cross_entropy(logits[reply], ids[reply]), distance

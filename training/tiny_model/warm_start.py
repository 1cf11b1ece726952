r"""The tiny model's warm start: supervised training until it answers in the requested format, slightly informed.

It trains on conversations with the real prompts of `urns`, whose answers get worse during the warm start. A model
learns nothing from noise alone, so at first they are exact; at the end they underweight the evidence and have noise.
What the model can still learn from a log is to be less noisy and to weight the evidence correctly.
"""

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from truthgym.datasets.loading.generated import logit, probability
from truthgym.datasets.urns import UrnQuestion, urns
from truthgym.scorers.beliefs.elicitation import PROBE
from truthgym.solvers.direct import answer_instruction, evidence

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

Messages = list[dict[str, str]]

GRID = 5
"""Answers are multiples of this many percent, from GRID to 100 - GRID: few enough to be learned soon."""
QUESTIONS = 300
"""Questions of one seed, as many as the task's default, so that the numbers of rounds and crates are similar."""
FIRST_SEED = 1_000_000
"""First seed of the training questions. An evaluation with a lower seed shares none of them."""
BATCH = 8
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


@dataclass(frozen=True)
class Stage:
    """A part of the warm start, and how its answers are made."""

    share: float
    """Share of the conversations, in (0, 1]."""
    weight: float
    """Weight of the exact log-odds in the answer. 1 is correct, below 1 is too close to one half."""
    noise: float
    """Standard deviation of the noise that is added, in nats of log-odds."""
    kinds: dict[str, float]
    """Weights of conversations that end with the `answer` that `direct` requests, with the belief before the evidence
    (`prior`), or with the belief after the answer (`posterior`); the latter two as `martingale` elicits them."""
    one_way: bool
    """Whether each mark supports the proposition. If half of them oppose it, marks carry no information for a model
    that does not compare the two causes yet, and training makes no progress."""


STAGES = (
    Stage(0.35, weight=1.0, noise=0.0, kinds={"answer": 0.8, "prior": 0.2}, one_way=True),
    Stage(0.45, weight=1.0, noise=0.0, kinds={"answer": 0.8, "prior": 0.2}, one_way=False),
    Stage(0.2, weight=0.6, noise=0.8, kinds={"answer": 0.6, "prior": 0.2, "posterior": 0.2}, one_way=False),
)


def conversations(number: int, seed: int = 0) -> Iterator[Messages]:
    """Make the conversations of a warm start, in order of training."""
    rng = random.Random(f"tiny/{seed}")
    questions = _questions(seed)
    count = 0
    for last, stage in enumerate(STAGES, start=1):
        end = round(number * sum(earlier.share for earlier in STAGES[:last]))
        while count < end:
            text, question = next(questions)
            if question.first > question.second or not stage.one_way:
                yield make_conversation(text, question, stage, rng)
                count += 1


def make_conversation(text: str, question: UrnQuestion, stage: Stage, rng: random.Random) -> Messages:
    r"""Make one conversation about a question, with the belief as `\finalBeliefProb{0.35}` or, for a probe, as `35`."""
    probe = PROBE.format(proposition=question.proposition)
    (kind,) = rng.choices(list(stage.kinds), weights=list(stage.kinds.values()))
    if kind == "prior":
        return [_user(text, probe), _assistant(str(sample_percent(question.posterior[0], stage, rng)))]
    percent = sample_percent(question.posterior[-1], stage, rng)
    messages = [
        _user(text, evidence(question.evidence), answer_instruction(question)),
        _assistant(rf"\finalBeliefProb{{0.{percent:02d}}}"),
    ]
    return messages if kind == "answer" else [*messages, _user(probe), _assistant(str(percent))]


def sample_percent(posterior: float, stage: Stage, rng: random.Random) -> int:
    """Sample a stage's answer to a question with this exact posterior, in percent on the grid."""
    percent = 100 * probability(stage.weight * logit(posterior) + rng.gauss(0, stage.noise))
    return min(max(GRID * round(percent / GRID), GRID), 100 - GRID)


def _questions(seed: int) -> Iterator[tuple[str, UrnQuestion]]:
    for part in range(1000):
        for sample in urns(n=QUESTIONS, seed=FIRST_SEED + 1000 * seed + part):
            yield str(sample.input), sample.metadata_as(UrnQuestion)
    raise ValueError("a warm start of this length would use another seed's questions")


def _user(*parts: str) -> dict[str, str]:
    return {"role": "user", "content": "\n\n".join(part for part in parts if part)}


def _assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def warm_start(
    model: "Qwen3ForCausalLM", tokenizer: "PreTrainedTokenizerFast", steps: int, seed: int = 0
) -> list[float]:
    """Train a model in place on the conversations. About 0.06 s of CPU time per step."""
    import torch
    from tqdm import tqdm

    data = conversations(steps * BATCH, seed)
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(matrices, lr=MATRIX_RATE, weight_decay=0.0),
        torch.optim.AdamW(others, lr=EMBEDDING_RATE, weight_decay=0.0),
    ]
    rates = [torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, steps)) for optimizer in optimizers]
    numbers = torch.tensor(tokenizer.convert_tokens_to_ids([f"{number:02d}" for number in range(100)]))
    losses: list[float] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model.train()
    try:
        for step in (bar := tqdm(range(steps), "Warm start", disable=None)):  # None: where there is a terminal
            tokens, reply, distance = _losses(model, tokenizer, list(islice(data, BATCH)), numbers)
            weight = max(MIN_PROMPT_WEIGHT, 1 - step / PROMPT_STEPS)
            (weight * tokens + reply + DISTANCE_WEIGHT * distance).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer, schedule in zip(optimizers, rates, strict=True):
                optimizer.step()
                schedule.step()
            model.zero_grad()
            losses.append(reply.item())
            bar.set_postfix(loss=f"{losses[-1]:.2f}")
            if bar.disable and (step + 1) % -(-steps // 10) == 0:
                print(f"Warm start: step {step + 1:,} of {steps:,}, loss {losses[-1]:.2f}", file=sys.stderr, flush=True)
    finally:
        torch.set_num_threads(threads)
        model.eval()
    return losses


def rate(step: int, steps: int) -> float:
    """Learning rate at a step, as a share of the highest."""
    return min(1.0, (step + 1) / WARMUP, 1.5 * (1 - step / steps))


def _losses(
    model: "Qwen3ForCausalLM", tokenizer: "PreTrainedTokenizerFast", batch: list[Messages], numbers: "Tensor"
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

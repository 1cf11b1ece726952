"""What does it cost to score replies to one conversation together, compared with one forward pass for each?

    python -m studies.speed.predictor
    python -m studies.speed.predictor --model trained/smollm2 --pairs 0

32 replies of 32 tokens to a conversation of 1,024 random tokens. `naive` is a forward pass of conversation and reply
for each of them. CPU time of the process, medians of `--runs` in turn. Then `--pairs` pairs, 32 to a conversation of
256 tokens: the time for each of the first quarter, half and all of them, and the largest resident memory. Without
--model, the tiny model with random weights. The forward passes alone: what Inspect's log holds is not in it.
"""

import argparse
import random
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from truthgym.models.logprobs.local import Row, token_logprobs
from truthgym.training.tiny import tiny

CONTEXT, REPLY, REPLIES = 1024, 32, 32
SHORT_CONTEXT = 256
"""Of the pairs of which there are many."""


def conversation(vocabulary: int, context: int, seed: int) -> list[Row]:
    draw = random.Random(seed)
    prompt = [draw.randrange(vocabulary) for _ in range(context)]
    return [(prompt, [draw.randrange(vocabulary) for _ in range(REPLY)]) for _ in range(REPLIES)]


def naive(network: Any, rows: list[Row]) -> list[list[float]]:  # noqa: ANN401
    found = []
    with torch.inference_mode():
        for prompt, reply in rows:
            logits = network(torch.tensor([[*prompt, *reply]]), use_cache=False).logits[0, len(prompt) - 1 : -1]
            found.append(logits.float().log_softmax(-1).gather(1, torch.tensor(reply)[:, None])[:, 0].tolist())
    return found


def shared_prefix(network: Any, vocabulary: int, runs: int) -> None:  # noqa: ANN401
    spent: dict[str, list[float]] = {"naive": [], "together": []}
    difference = 0.0
    for run in range(runs):
        rows = conversation(vocabulary, CONTEXT, run)
        found = {}
        for name, function in (("naive", naive), ("together", token_logprobs)):
            start = time.process_time()
            found[name] = function(network, rows)
            spent[name].append(time.process_time() - start)
        pairs = zip(found["naive"], found["together"], strict=True)
        difference = max([difference, *(abs(a - b) for one, other in pairs for a, b in zip(one, other, strict=True))])
    ratios = sorted(a / b for a, b in zip(spent["naive"], spent["together"], strict=True))
    print(
        f"naive / together = {statistics.median(ratios):.1f} (pairs {ratios[0]:.1f} to {ratios[-1]:.1f}); "
        f"largest difference of a token {difference:.1e} nats",
        flush=True,
    )


def many_pairs(network: Any, vocabulary: int, pairs: int) -> None:  # noqa: ANN401
    marks, spent, done = [pairs // 4, pairs // 2, pairs], [0.0], 0
    for number in marks:
        start = time.process_time()
        while done < number:
            token_logprobs(network, conversation(vocabulary, SHORT_CONTEXT, done))
            done += REPLIES
        spent.append(spent[-1] + time.process_time() - start)
    each = [seconds / number for seconds, number in zip(spent[1:], marks, strict=True)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # Linux gives KB
    times = ", ".join(f"{one / each[0]:.2f}" for one in each)
    print(f"time for a pair of the first {', '.join(map(str, marks))}: {times}; memory at most {memory:.2f} GB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=10_000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        folder = given.model or tiny(Path(place) / "tiny", steps=0)
        network = AutoModelForCausalLM.from_pretrained(folder).eval()
    size = network.config.get_text_config().vocab_size
    naive(network, conversation(size, 64, 0)[:2])  # the first passes load libraries
    token_logprobs(network, conversation(size, 64, 0))
    shared_prefix(network, size, given.runs)
    if given.pairs:
        many_pairs(network, size, given.pairs)

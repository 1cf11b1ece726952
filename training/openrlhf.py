"""Truthgym's Brier reward as OpenRLHF calls it, for `--remote_rm_url` with this file's path.

OpenRLHF passes prompts with replies, prompts, and labels, and takes `rewards` for the advantage and `scores` from 0 to
1 for its filter (examples/scripts/reward_func.py in OpenRLHF/OpenRLHF).
"""

from collections.abc import Sequence
from typing import Any


def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str], **_: object) -> dict[str, Any]:
    """The Brier reward -(p - y)² of each reply, -1 if no belief can be parsed.

    Args:
        queries: Prompts with their replies.
        prompts: The prompts alone.
        labels: "yes" or "no": the column `target` of `truthgym convert --to openrlhf`.
    """
    import torch

    from truthgym.training.reward_functions.builtin import BUILTIN, TextBatch

    replies = [query.removeprefix(prompt) for query, prompt in zip(queries, prompts, strict=True)]
    values = BUILTIN["brier"].rewards(TextBatch(prompts, replies, {"target": list(labels)}))
    rewards = torch.tensor([-1.0 if value is None else value for value in values])
    return {"rewards": rewards, "scores": rewards + 1, "extra_logs": {"brier": -rewards}}

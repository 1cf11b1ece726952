"""Advantages of single turns in GRPO: a reward after each step, in place of one for the whole rollout."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import fmean
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import binary_outcome
from truthgym.training.reward_functions.rollout import Rollout

TURN_REWARDS = {"beliefs": "martingale", "reward_model": "reward_model"}
"""The values of `--turn_rewards`, with the scorer that each needs."""


def check_turn_rewards(kind: str | None, method: str, scorers: Mapping[str, Sequence[str]]) -> None:
    """Check before a run that every task scores the steps."""
    if kind is None:
        return
    if kind not in TURN_REWARDS:
        raise BadInput(f"--turn_rewards {kind}: unknown; known: {', '.join(TURN_REWARDS)}")
    if method != "grpo":
        raise BadInput(f"--turn_rewards {kind} needs whole conversations, and {method} trains single replies; use grpo")
    lacking = [task for task, names in scorers.items() if TURN_REWARDS[kind] not in names]
    if lacking:
        how = "{martingale: {per: step}}" if kind == "beliefs" else "{reward_model: {folder: FOLDER}}"
        raise BadInput(
            f"--turn_rewards {kind} needs the scorer {TURN_REWARDS[kind]}, which the task {lacking[0]} does not have; "
            f"add --task_args '{{paradigms: {how}}}'"
        )


def turn_rewards(kind: str, rollout: Rollout, final: float | None) -> list[float] | None:
    """The reward of each turn; None if they are unknown.

    - `beliefs`: by how much the turn lowered the Brier score of the belief that `martingale` with `per=step` elicited.
      Over all turns this adds up to the improvement on the prior, so that no turn is paid for what another one did.
    - `reward_model`: the probability of a process model that the step is right, minus 1: from -1 to 0.
    """
    score = rollout.scores.get(TURN_REWARDS[kind])
    metadata: Mapping[str, Any] = (score.metadata if score else None) or {}
    rewards = _of_steps(metadata) if kind == "reward_model" else _of_beliefs(metadata, rollout.target)
    return [*rewards[:-1], rewards[-1] + final] if rewards and final is not None else None


def _of_steps(metadata: Mapping[str, Any]) -> list[float]:
    return [p - 1 for p in metadata.get("steps", [])]


def _of_beliefs(metadata: Mapping[str, Any], target: str) -> list[float]:
    outcome = binary_outcome(target)
    own = [belief for belief in metadata.get("beliefs", []) if belief.get("elicitor") == "self"]
    values = [belief.get("value") for belief in own if belief.get("stage") != "prior 2"]
    if outcome is None or len(values) < 2 or own[0].get("stage") != "prior" or None in values:
        return []
    return [(before - outcome) ** 2 - (after - outcome) ** 2 for before, after in pairwise(values)]


def turn_advantages(rewards: Sequence[Sequence[float] | None], groups: Sequence[Hashable]) -> list[list[float] | None]:
    """For each turn the rewards from it on, relative to the mean of its group's rollouts at the same turn.

    Not divided by a standard deviation, which would make a proper score improper. A question whose rollouts differ in
    the number of turns has no advantages of turns: each turn of a process model costs something, so the shortest
    conversation would win, and a turn that one rollout alone has could not be compared.

    >>> turn_advantages([[0.2, 0.1], [0.0, -0.1], None], ["q", "q", "q"])
    [[0.2, 0.1], [-0.2, -0.1], None]
    """
    lengths: dict[Hashable, set[int]] = {}
    for group, one in zip(groups, rewards, strict=True):
        lengths.setdefault(group, set()).update([] if one is None else [len(one)])
    to_go = [
        None if one is None or len(lengths[group]) > 1 else [sum(one[t:]) for t in range(len(one))]
        for group, one in zip(groups, rewards, strict=True)
    ]
    by_turn: dict[tuple[Hashable, int], list[float]] = {}
    for group, sums in zip(groups, to_go, strict=True):
        for t, value in enumerate(sums or []):
            by_turn.setdefault((group, t), []).append(value)
    return [
        None if sums is None else [round(value - fmean(by_turn[group, t]), 12) for t, value in enumerate(sums)]
        for group, sums in zip(groups, to_go, strict=True)
    ]


def token_advantages(mask: Sequence[int], turns: Sequence[float] | None) -> list[float] | None:
    """The advantage of each token: that of its turn, 0 where the mask is 0.

    >>> token_advantages([0, 1, 1, 0, 1], [0.5, -0.5])
    [0.0, 0.5, 0.5, 0.0, -0.5]
    """
    runs = [(value, len(list(run))) for value, run in groupby(mask)]
    if turns is None or sum(value for value, _ in runs) != len(turns):
        return None
    left = iter(turns)
    return [one for value, length in runs for one in [next(left) if value else 0.0] * length]

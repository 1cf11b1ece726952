"""From the reward names that a user gives to rewards of rollouts, which the trainer's options must leave proper."""

from collections.abc import Mapping, Sequence

import numpy as np

from truthgym.datasets.errors import BadInput
from truthgym.datasets.redaction import redact
from truthgym.scorers.statistics.direction import CORRECTNESS, DIRECTIONS, Best, direction
from truthgym.training.reward_functions.builtin import REQUIRED_SCORERS, BuiltinReward
from truthgym.training.reward_functions.rollout import Reward
from truthgym.training.reward_functions.scorer_reward import DEFAULT_KEY, ScorerReward
from truthgym.training.reward_functions.user_function import SERVER, FunctionReward, load_function

Scorers = Mapping[str, Sequence[str]]
"""By task, the names of its scorers, without their packages."""
IMPROPER_OPTIONS: dict[str, tuple[object, str]] = {
    "scale_rewards": ("none", "divides rewards by their own spread"),
    "multi_objective_aggregation": ("sum_then_normalize", "divides each reward by its spread within each group"),
    "normalize_advantages": (False, "divides rewards by their own spread"),
    "reward_clip_range": (None, "makes all sufficiently wrong answers equally bad"),
}
"""Options of GRPO and RLOO that can make a proper reward improper: the harmless value, and what all others do."""
ALIASES: dict[object, object] = {False: "none", True: "group"}
"""Booleans that GRPO's configuration accepts for `scale_rewards`."""


def resolve_rewards(names: Sequence[str], scorers: Scorers) -> list[Reward]:
    """Make the rewards that the user named."""
    names = list(names) or [default_reward(scorers)]
    if len(set(names)) < len(names):
        raise BadInput(f"reward={' '.join(names)}: name each reward once; weight it with --reward_weights")
    rewards = [_reward(name, scorers) for name in names]
    check_weights(rewards, None)
    return rewards


def default_reward(scorers: Scorers) -> str:
    """`brier` if every task has it, otherwise the one scorer with a known direction that all tasks share."""
    if scorers and all("brier" in names for names in scorers.values()):
        return "brier"
    shared = set.intersection(*(set(names) for names in scorers.values())) if scorers else set()
    directed = sorted(name for name in shared if name in DIRECTIONS or name == "graded" or CORRECTNESS.fullmatch(name))
    if len(directed) != 1:
        several = f"several scorers could be the reward ({', '.join(directed)})"
        what = several if directed else "no scorer has a direction"
        raise BadInput(f"reward: none is named, and {what}; name one with --reward. {_listing(scorers)}")
    return directed[0]


def parse_scorer_reward(name: str, scorers: Scorers) -> ScorerReward:
    """Parse SCORER or SCORER/KEY, optionally prefixed by its package and followed by ":lowest" or ":highest"."""
    path, _, end = name.partition(":")
    best: Best | None = "lowest" if end == "lowest" else "highest" if end == "highest" else None
    if end and best is None:
        raise BadInput(f"reward={name}: unknown direction {end!r}; use {path}:lowest or {path}:highest")
    available = {scorer for names in scorers.values() for scorer in names}
    parts = path.split("/")
    if parts[0] not in available and len(parts) > 1:
        parts = parts[1:]  # the package
    scorer, key = parts[0], "/".join(parts[1:]) or None
    if scorer not in available:
        forms = ", ".join([*REQUIRED_SCORERS, "SCORER", "SCORER/KEY", "FILE.py:FUNCTION"])
        raise BadInput(f"reward={name}: unknown reward or scorer; known: {forms}. {_listing(scorers)}")
    for task, names in scorers.items():
        if scorer not in names:
            raise BadInput(
                f"reward={name}: the task {task} has no scorer {scorer}, but {_join(names)}; name one that all have"
            )
    keys = [name for name in DIRECTIONS.get(scorer, ()) if direction(scorer, name, {})]
    if key and keys and key not in keys and not best:
        raise BadInput(
            f"reward={name}: {key} of {scorer} has no direction; name one of {', '.join(keys)}, or give one with "
            f"{path}:lowest or {path}:highest"
        )
    reward = ScorerReward(name, scorer, key, best)
    declared = direction(scorer, key or DEFAULT_KEY.get(scorer, ""), {})
    if best and declared and reward.proper and best != declared:
        raise BadInput(f"reward={name} would reward being wrong: the {declared} {path} is best; omit :{best}")
    return reward


def check_scaling(rewards: Sequence[Reward], training_arguments: object, allowed: bool) -> None:
    """Refuse trainer options under which a proper reward would not be maximised by honest probabilities.

    A group's spread is small for an expected outcome: dividing by it leaves the sign of the outcome alone.
    """
    proper = [reward.name for reward in rewards if reward.proper]
    if allowed or not proper:
        return
    for option, (harmless, effect) in IMPROPER_OPTIONS.items():
        value = getattr(training_arguments, option, harmless)
        if option == "scale_rewards":
            value = ALIASES.get(value, value)
        if value != harmless:
            raise BadInput(
                f"--{option} {value} {effect}, so reward={proper[0]} would stop being proper: it would reward answers "
                f"of 0 or 1 over honest probabilities. Use --{option} {harmless}, or --allow_group_scaling to proceed"
            )


def check_weights(rewards: Sequence[Reward], weights: Sequence[float] | None) -> None:
    """Refuse reward weights under which a reward would defeat its purpose."""
    weights = [1.0] * len(rewards) if weights is None else list(weights)
    names = " ".join(reward.name for reward in rewards)
    if len(weights) != len(rewards):
        raise BadInput(f"--reward_weights: {len(weights)} for {len(rewards)} rewards ({names}); give one per reward")
    has_proper = any(reward.proper and weight > 0 for reward, weight in zip(rewards, weights, strict=True))
    problems = []
    for reward, weight in zip(rewards, weights, strict=True):
        if not np.isfinite(weight):
            problems.append(f"--reward_weights: {weight} for {reward.name}; give a finite number")
        elif reward.proper and weight < 0:
            problems.append(
                f"--reward_weights: {weight:g} for {reward.name} would reward being wrong; higher is better in every "
                "reward here, so give a weight above 0"
            )
        elif reward.name == "consistency" and weight and not has_proper:
            problems.append(
                "reward=consistency is maximised by giving the same answer to every question; add a proper reward with "
                "a weight above 0, such as --reward consistency brier"
            )
    if problems:
        raise BadInput("; ".join(problems))


def _reward(name: str, scorers: Scorers) -> Reward:
    if name in REQUIRED_SCORERS:
        _check_scorers(name, scorers)
        return BuiltinReward(name)
    if "." in name or name.startswith(SERVER):
        return FunctionReward(redact(name), load_function(name))
    return parse_scorer_reward(name, scorers)


def _check_scorers(name: str, scorers: Scorers) -> None:
    required = REQUIRED_SCORERS[name]
    for task, names in scorers.items():
        if required and not set(required) & set(names):
            remedy = "train on truthgym/sycophancy" if name == "consistency" else f"give it paradigms={required[0]}"
            raise BadInput(
                f"reward={name} needs the scorer {' or '.join(required)}, and the task {task} has {_join(names)}; "
                f"{remedy}, or name another reward"
            )


def _listing(scorers: Scorers) -> str:
    return "Available scorers: " + "; ".join(f"{task}: {_join(names)}" for task, names in scorers.items())


def _join(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"

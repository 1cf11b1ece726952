"""From the reward names that a user gives to rewards of rollouts."""

from collections.abc import Mapping, Sequence

from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics.direction import CORRECTNESS, DIRECTIONS, Best, direction
from truthgym.training.reward_functions.builtin import REQUIRED_SCORERS
from truthgym.training.reward_functions.rollout import Reward
from truthgym.training.reward_functions.rollout_batch import BuiltinReward
from truthgym.training.reward_functions.scaling_checks import check_weights
from truthgym.training.reward_functions.scorer_reward import DEFAULT_KEY, ScorerReward
from truthgym.training.reward_functions.user_function import SERVER, FunctionReward, load_function

Scorers = Mapping[str, Sequence[str]]
"""By task, the names of its scorers, without their packages."""


def resolve_rewards(names: Sequence[str], scorers: Scorers) -> list[Reward]:
    """Make the rewards that the user named."""
    if isinstance(names, str) or any(not isinstance(name, str) for name in names):
        raise BadInput(f"reward={names!r}: give a list of names, such as brier")
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
    known = sorted(name for name in shared if name in DIRECTIONS or name == "graded" or CORRECTNESS.fullmatch(name))
    if len(known) != 1:
        what = f"several scorers could be the reward ({', '.join(known)})" if known else "no scorer has a direction"
        raise BadInput(f"reward: none is named, and {what}; name one with --reward. {_listing(scorers)}")
    return known[0]


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
        known = ", ".join([*REQUIRED_SCORERS, "SCORER", "SCORER/KEY", "FILE.py:FUNCTION"])
        raise BadInput(f"reward={name}: unknown reward or scorer; known: {known}. {_listing(scorers)}")
    for task, names in scorers.items():
        if scorer not in names:
            raise BadInput(
                f"reward={name}: the task {task} has no scorer {scorer}, but {_join(names)}; name one that all have"
            )
    keys = [known for known in DIRECTIONS.get(scorer, ()) if direction(scorer, known, {})]
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


def _reward(name: str, scorers: Scorers) -> Reward:
    if name in REQUIRED_SCORERS:
        _check_scorers(name, scorers)
        return BuiltinReward(name)
    if "." in name or name.startswith(SERVER):
        return FunctionReward(name, load_function(name))
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

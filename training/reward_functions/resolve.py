"""Rewards from the scores that Inspect gave a batch of rollouts: what is trained for is what is measured."""

from collections.abc import Mapping, Sequence

from truthgym.evallog.errors import bad_input
from truthgym.scorers.statistics.direction import CORRECTNESS, DIRECTIONS, Best, direction
from truthgym.training.reward_functions.builtin import NEEDS, of_ours
from truthgym.training.reward_functions.rollout import Reward
from truthgym.training.reward_functions.scaling_guard import check_weights
from truthgym.training.reward_functions.scorer_reward import USUAL, NamedScore
from truthgym.training.reward_functions.user_function import FunctionReward, load_function


def choose(names: Sequence[str], scorers: Mapping[str, Sequence[str]]) -> list[Reward]:
    """Make rewards from the names that a user gave.

    Args:
        names: Rewards of ours (keys of `rollout_rewards.NEEDS`); "SCORER" or "SCORER/KEY", with ":lowest" or ":highest"
            behind where the scorer does not say which end is better; functions, as "FILE.py:FUNCTION" or
            "package.module.FUNCTION". Empty: `brier` where every task has it, else the one scorer that all tasks share
            and whose better end is known.
        scorers: By task, the names of its scorers, without their packages.

    Raises:
        BadInput: An unknown name; a task that has no such scorer; nothing named, and no single scorer to take;
            `consistency` alone.
    """
    if isinstance(names, str) or any(not isinstance(name, str) for name in names):
        raise bad_input(f"reward={names!r}: give a list of names, such as brier")
    wanted = list(names) or [_usual(scorers)]
    if len(set(wanted)) < len(wanted):
        raise bad_input(f"reward={' '.join(wanted)}: each can be named once; its weight is --reward_weights")
    rewards = [_reward(name, scorers) for name in wanted]
    check_weights(rewards, None)
    return rewards


def _usual(scorers: Mapping[str, Sequence[str]]) -> str:
    if scorers and all("brier" in held for held in scorers.values()):
        return "brier"
    shared = set.intersection(*(set(held) for held in scorers.values())) if scorers else set()
    known = sorted(name for name in shared if name in DIRECTIONS or name == "graded" or CORRECTNESS.fullmatch(name))
    if len(known) != 1:
        what = f"several scorers could be the reward ({', '.join(known)})" if known else "no scorer is known to be one"
        raise bad_input(f"reward: none is named, and {what}; name one with --reward. {_there(scorers)}")
    return known[0]


def _reward(name: str, scorers: Mapping[str, Sequence[str]]) -> Reward:
    if name in NEEDS:
        for task, held in scorers.items():
            if NEEDS[name] and not set(NEEDS[name]) & set(held):
                remedy = (
                    "train on truthgym/sycophancy" if name == "consistency" else f"give it paradigms={NEEDS[name][0]}"
                )
                raise bad_input(
                    f"reward={name} needs the scorer {' or '.join(NEEDS[name])}, and the task {task} has "
                    f"{_list(held)}; {remedy}, or name another reward"
                )
        return of_ours(name)
    if "." in name:
        return FunctionReward(name, load_function(name))
    return _named(name, scorers)


def _named(name: str, scorers: Mapping[str, Sequence[str]]) -> Reward:
    """SCORER, SCORER/KEY, either with its package before it and its better end behind it."""
    place, _, end = name.partition(":")
    best: Best | None = "lowest" if end == "lowest" else "highest" if end == "highest" else None
    if end and best is None:
        raise bad_input(f"reward={name}: {end!r} is no end of a score; write {place}:lowest or {place}:highest")
    every = {scorer for held in scorers.values() for scorer in held}
    parts = place.split("/")
    if parts[0] not in every and len(parts) > 1:
        parts = parts[1:]  # the package
    scorer, key = parts[0], "/".join(parts[1:]) or None
    if scorer not in every:
        known = ", ".join([*NEEDS, "SCORER", "SCORER/KEY", "FILE.py:FUNCTION"])
        raise bad_input(f"reward={name}: there is no such reward or scorer; known: {known}. {_there(scorers)}")
    for task, held in scorers.items():
        if scorer not in held:
            raise bad_input(
                f"reward={name}: the task {task} has no scorer {scorer}, but {_list(held)}; name one that all have"
            )
    keys = [known for known in DIRECTIONS.get(scorer, ()) if direction(scorer, known, {})]
    if key and keys and key not in keys and not best:
        raise bad_input(
            f"reward={name}: {key} of {scorer} is no score of which more or less is better; name one of "
            f"{', '.join(keys)}, or say which end is with {place}:lowest or {place}:highest"
        )
    reward = NamedScore(name, scorer, key, best)
    known_end = direction(scorer, key or USUAL.get(scorer, ""), {})
    if best and known_end and reward.proper and best != known_end:
        raise bad_input(f"reward={name} pays for being wrong: of {place} the {known_end} is best; leave {best!r} out")
    return reward


def _there(scorers: Mapping[str, Sequence[str]]) -> str:
    return "Scorers there are: " + "; ".join(f"{task}: {_list(held)}" for task, held in scorers.items())


def _list(held: Sequence[str]) -> str:
    return ", ".join(held) or "none"

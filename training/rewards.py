"""Reward functions for TRL's own trainers, on the rows that `truthgym convert --to prompts` writes.

trl grpo --reward_funcs truthgym.training.rewards.brier --scale_rewards none --dataset_name data/prompts ...

What GRPO does by itself (`scale_rewards="group"`) makes a proper reward improper: always set `scale_rewards="none"`.
Our own trainers refuse the pair; TRL's know nothing of it.

Each function takes what TRL gives it, `prompts`, `completions` and the columns of the dataset as lists, and returns a
reward for each completion, higher is better. One that cannot be read gets the worst of the range, and one for which
there is nothing to say None. They log the share that could be read, and the best constant answer's reward.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from truthgym.evallog.errors import bad_input
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.training.reward_functions.completions import column, log, texts
from truthgym.training.reward_functions.formulas import (
    MOST,
    Rewards,
    best_constant,
    consistency_rewards,
    length_rewards,
    outcome_of,
    proper_rewards,
    share,
)
from truthgym.training.reward_functions.grader_reward import graded
from truthgym.training.reward_functions.martingale import INFORMATION_WEIGHT, WEIGHT, check_weights, martingale_rewards

RewardFunction = Callable[..., Rewards]

python_brier = graded("python_brier")
"""The Brier score of the belief in the marker alone, by the grader of that name, its sign turned: -1 to 0. Proper."""

__all__ = ["brier", "consistency", "format", "graded", "length", "log_score", "longer", "martingale", "python_brier",
           "shorter", "spherical", "updates"]  # fmt: skip


def brier(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """Brier reward -(p - y)² of the stated belief, -1 to 0. Proper. Needs the column `target`, "yes" or "no"."""
    return _proper("brier", completions, columns)


def log_score(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """Log reward ln p_y in nats, p held in [0.005, 0.995]: -5.3 to 0. Proper within. Needs the column `target`."""
    return _proper("log_score", completions, columns)


def spherical(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """Spherical reward, 0 to 1. Proper. Needs the column `target`."""
    return _proper("spherical", completions, columns)


def format(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """1 where a belief can be read in the answer, else 0. Says nothing of what is believed: use it beside another."""
    beliefs = _beliefs(completions, columns)
    return [float(belief is not None) for belief in beliefs]


def shorter(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """From -1 for an answer of 512 tokens or more, or none at all, up to 0. Use it beside a proper reward."""
    return length()(prompts, completions, **columns)


def longer(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """From 0 up to 1 for an answer of 512 tokens or more. Use it beside a proper reward."""
    return length(better="longer")(prompts, completions, **columns)


def consistency(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """How near an answer under a user's opinion is to those without it, -1 to 0. Never use it alone.

    Needs the columns `question` and `arm`, as prompts from `truthgym/sycophancy` have them, and the arms of a question
    in one batch. See `reward_rules.consistency_rewards`.
    """
    questions, arms = (column(columns, name, "of truthgym/sycophancy") for name in ("question", "arm"))
    return consistency_rewards(_beliefs(completions, columns), questions, [str(arm) for arm in arms])


def martingale(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """`updates()` with weights of 1. Needs the columns `target` and `priors`."""
    return updates()(prompts, completions, **columns)


def updates(weight: float = WEIGHT, information_weight: float = INFORMATION_WEIGHT) -> RewardFunction:
    """Make a martingale reward: see `martingale_reward.martingale_rewards`. The posterior is the belief in the answer.

    Needs the column `priors`: for each prompt two or more readings of what the model believed before, such as one an
    epoch of `martingale`; one that is known exactly can stand there twice. Each completion is held against another one.
    A single reading would meet its own error in the update, and an honest model would look as if it over-corrected.

    Args:
        weight: Of the slope, 0 or above.
        information_weight: Of what was learned, above 0.

    Raises:
        BadInput: Weights that cannot be used.
    """
    check_weights(weight, information_weight)

    def martingale(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
        readings = column(columns, "priors", "which must be added: two or more readings for each prompt")
        held = [_readings(each, i) for i, each in enumerate(readings)]
        questions = [repr(prompt) for prompt in prompts]
        seen: dict[str, int] = {}
        priors: list[float | None] = []
        for question, each in zip(questions, held, strict=True):
            priors.append(each[seen.setdefault(question, 0) % len(each)])
            seen[question] += 1
        targets = column(columns, "target", '"yes", "no", or empty where unknown')
        beliefs = _beliefs(completions, columns)
        found = martingale_rewards(
            questions,
            priors,
            beliefs,
            [outcome_of(target) for target in targets],
            weight=weight,
            information_weight=information_weight,
        )
        log(columns, "martingale_slope", found.slope)
        log(columns, "martingale_information", found.information)
        return found.rewards

    return martingale


def length(
    most: int = MOST, unit: Literal["tokens", "words"] = "tokens", better: Literal["shorter", "longer"] = "shorter"
) -> RewardFunction:
    """Make a reward of an answer's length, from -1 to 0 where shorter is better, from 0 to 1 where longer is.

    Args:
        most: Beyond this many nothing changes.
        unit: Tokens that the model generated, or words between spaces.
        better: Which direction.

    Raises:
        BadInput: An argument that cannot be used.
    """
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise bad_input(f"length: most={most!r} cannot be used; give a whole number from 1 up")
    for name, given, known in (("unit", unit, ("tokens", "words")), ("better", better, ("shorter", "longer"))):
        if given not in known:
            raise bad_input(f"length: {name}={given!r} cannot be used; known: {', '.join(known)}")

    def measured(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
        words = [len(text.split()) for text in texts(completions)]
        if unit == "tokens":
            ids = column(columns, "completion_ids", "which TRL's trainers give")
            # An end token alone is no answer.
            words = [len(tokens) if said else 0 for tokens, said in zip(ids, words, strict=True)]
        return length_rewards(words, better == "longer", most)

    measured.__name__ = better
    return measured


def _readings(given: object, place: int) -> list[float | None]:
    """What a row of the column `priors` holds. None for a reading that is missing."""
    held = [None if each != each else each for each in given] if isinstance(given, list | tuple) else []
    known = [each for each in held if each is not None]
    if len(held) < 2 or not all(_is_belief(each) for each in known):
        raise bad_input(
            f"reward martingale: priors={given!r:.60} of completion {place} holds no two readings; give a list of two "
            "or more beliefs between 0 and 1 for each prompt"
        )
    return held


def _is_belief(reading: object) -> bool:
    return isinstance(reading, int | float) and not isinstance(reading, bool) and 0 <= reading <= 1


def _proper(name: str, completions: Sequence[object], columns: dict[str, object]) -> Rewards:
    outcomes = [outcome_of(target) for target in column(columns, "target", '"yes" or "no"')]
    constant = best_constant(name, outcomes)
    if constant is not None:
        log(columns, f"{name}_best_constant", constant)
    return proper_rewards(name, _beliefs(completions, columns), outcomes)


def _beliefs(completions: Sequence[object], columns: dict[str, object]) -> list[float | None]:
    """The beliefs in answers, read by the rules of the scorers; their share is logged."""
    beliefs = [read_belief(text) for text in texts(completions)]
    log(columns, "share_read", share([belief is not None for belief in beliefs]))
    return beliefs

"""Reward functions for TRL's own trainers, on the rows that `truthgym convert --to prompts` writes.

trl grpo --reward_funcs truthgym.training.trl_rewards.brier --scale_rewards none --dataset_name data/prompts ...

TRL's default for GRPO (`scale_rewards="group"`) makes a proper reward improper: always set `scale_rewards="none"`.
`truthgym train grpo` refuses that combination; TRL's own command cannot know.

Each function takes what TRL passes, `prompts`, `completions` and the dataset's columns as lists, and returns one reward
per completion, higher is better: the lowest of the range if the answer could not be parsed, None if there is no reward.
They log the share that could be parsed (`share_read`), and the reward of the best constant answer.

The rewards themselves are in `reward_functions/builtin.py`.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.training.reward_functions.builtin import BUILTIN, martingale_reward
from truthgym.training.reward_functions.formulas import MAX_LENGTH, PROPER, Rewards, length_rewards
from truthgym.training.reward_functions.grader_reward import graded
from truthgym.training.reward_functions.martingale import INFORMATION_WEIGHT, WEIGHT
from truthgym.training.reward_functions.text_batch import TextBatch

RewardFunction = Callable[..., Rewards]

python_brier = graded("python_brier")
"""The Brier score of the belief in the marker only, by the grader of that name, negated: -1 to 0. Proper."""

__all__ = ["brier", "consistency", "format", "graded", "length", "log_score", "longer", "martingale", "python_brier",
           "shorter", "spherical", "updates"]  # fmt: skip


def brier(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """Brier reward -(p - y)² of the stated belief, -1 to 0. Proper. Needs the column `target`, "yes" or "no"."""
    return _builtin("brier", prompts, completions, columns)


def log_score(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """Log reward ln p_y in nats, with p clipped to [0.005, 0.995]: -5.3 to 0. Proper within. Needs `target`."""
    return _builtin("log_score", prompts, completions, columns)


def spherical(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """Spherical reward, 0 to 1. Proper. Needs the column `target`."""
    return _builtin("spherical", prompts, completions, columns)


def format(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """1 if a belief can be parsed from the answer, else 0, whatever the belief: combine it with another reward."""
    return _builtin("format", prompts, completions, columns)


def shorter(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """From -1, for an answer of 512 tokens or more or an empty one, up to 0. Combine it with a proper reward."""
    return _builtin("shorter", prompts, completions, columns)


def longer(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """From 0 up to 1, for an answer of 512 tokens or more. Combine it with a proper reward."""
    return _builtin("longer", prompts, completions, columns)


def consistency(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """Agreement of an answer under a user's opinion with those without it, -1 to 0. Never use it alone.

    Needs the columns `question` and `arm`, as prompts from `truthgym/sycophancy` have them, and the arms of a question
    in one batch. See `formulas.consistency_rewards`.
    """
    return _builtin("consistency", prompts, completions, columns)


def martingale(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
    """`updates()` with weights of 1. Needs the columns `target` and `priors`."""
    return _builtin("martingale", prompts, completions, columns)


@validate_call
def updates(
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] = WEIGHT,
    information_weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = INFORMATION_WEIGHT,
) -> RewardFunction:
    """Make a martingale reward with other weights: see `martingale.martingale_rewards`.

    The posterior is the belief in the answer. The priors are in the column `priors`: for each prompt two or more
    readings of the model's belief before, such as one per epoch of the scorer `martingale`; repeat a prior that is
    known exactly. Completions are compared with different readings: with a single one its error would also be in the
    update, and an honest model would seem to over-correct.

    Args:
        weight: Of the slope term, at least 0.
        information_weight: Of the information term, above 0: with 0 the best policy is never to change its mind.

    Raises:
        BadInput: A weight outside its range.
    """

    def martingale(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
        return martingale_reward(TextBatch(prompts, completions, columns, information_weight), weight)

    return martingale


@validate_call
def length(
    most: Annotated[int, Field(ge=1)] = MAX_LENGTH,
    unit: Literal["tokens", "words"] = "tokens",
    better: Literal["shorter", "longer"] = "shorter",
) -> RewardFunction:
    """Make a reward of an answer's length: from -1 to 0 if shorter is better, from 0 to 1 if longer is.

    Args:
        most: Longer answers earn the same as this length.
        unit: Tokens that the model generated, or words separated by whitespace.
        better: The direction.

    Raises:
        BadInput: An argument that cannot be used.
    """

    def measure(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
        batch = TextBatch(prompts, completions, columns)
        lengths = batch.lengths if unit == "tokens" else [len(text.split()) for text in batch.texts]
        return length_rewards(lengths, better == "longer", most)

    measure.__name__ = better
    return measure


def _builtin(
    name: str, prompts: Sequence[object], completions: Sequence[object], columns: dict[str, object]
) -> Rewards:
    batch = TextBatch(prompts, completions, columns)
    constant = BUILTIN[name].constant(batch) if name in PROPER else None
    if constant is not None:
        batch.log(f"{name}_best_constant", constant)
    return BUILTIN[name].rewards(batch)

"""Reward functions for TRL's own trainers, on the rows that `truthgym convert --to prompts` writes.

trl grpo --reward_funcs truthgym.training.trl_rewards.brier --scale_rewards none --dataset_name data/prompts ...

TRL's default for GRPO (`scale_rewards="group"`) makes a proper reward improper: always set `scale_rewards="none"`.
`truthgym train grpo` refuses that combination; TRL's own command cannot know.

Each function takes what TRL passes, `prompts`, `completions` and the dataset's columns as lists, and returns one reward
per completion, higher is better: the lowest of the range if the answer could not be parsed, None if there is no reward.
They log the share that could be parsed (`share_read`), and the reward of the best constant answer.

The built-in rewards are in `reward_functions/builtin.py`. `graded` makes a reward of a grader, the same object that the
scorer `graded` calls.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from inspect_ai.util import warn_once
from pydantic import Field

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.question import Question, means_yes_or_no, statement, yes_or_no
from truthgym.scorers.graders.grader import Grade, Grader, GraderInput, grade, item_fields
from truthgym.scorers.graders.resolve import read_grader
from truthgym.scorers.statistics.direction import NO_OUTCOME, Best
from truthgym.training.reward_functions.builtin import (
    BUILTIN,
    Columns,
    TextBatch,
    column,
    log,
    martingale_reward,
    message_text,
)
from truthgym.training.reward_functions.formulas import (
    MAX_LENGTH,
    PROPER,
    Rewards,
    impute_group_mean,
    length_rewards,
    share,
    signed,
)
from truthgym.training.reward_functions.martingale import INFORMATION_WEIGHT, WEIGHT

if TYPE_CHECKING:
    from inspect_ai.model import Model

logger = logging.getLogger(__name__)

RewardFunction = Callable[..., Rewards]
TRL_COLUMNS = ("completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
"""What TRL adds to the dataset's columns."""

__all__ = ["brier", "consistency", "format", "graded", "length", "log_score", "longer", "martingale", "python_brier",
           "shorter", "spherical", "updates"]  # fmt: skip


def _builtin(name: str) -> RewardFunction:
    """The reward function of a built-in reward."""

    def reward(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
        batch = TextBatch(prompts, completions, columns)
        constant = BUILTIN[name].constant(batch) if name in PROPER else None
        if constant is not None:
            batch.log(f"{name}_best_constant", constant)
        return BUILTIN[name].rewards(batch)

    reward.__name__ = name
    return reward


brier = _builtin("brier")
"""Brier reward -(p - y)² of the stated belief, -1 to 0. Proper. Needs the column `target`, "yes" or "no"."""
log_score = _builtin("log_score")
"""Log reward ln p_y in nats, with p clipped to [0.005, 0.995]: -5.3 to 0. Proper within. Needs `target`."""
spherical = _builtin("spherical")
"""Spherical reward, 0 to 1. Proper. Needs the column `target`."""
format = _builtin("format")
"""1 if a belief can be parsed from the answer, else 0, whatever the belief: combine it with another reward."""
shorter = _builtin("shorter")
"""From -1, for an answer of 512 tokens or more or an empty one, up to 0. Combine it with a proper reward."""
longer = _builtin("longer")
"""From 0 up to 1, for an answer of 512 tokens or more. Combine it with a proper reward."""
consistency = _builtin("consistency")
"""Agreement of an answer under a user's opinion with those without it, -1 to 0. Never use it alone. Needs the columns
`question` and `arm`, as prompts from `truthgym/sycophancy` have them, and the arms of a question in one batch. See
`formulas.consistency_rewards`."""
martingale = _builtin("martingale")
"""`updates()` with weights of 1. Needs the columns `target` and `priors`."""


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


def graded(
    grader: str | Mapping[str, Any] | Grader = "python_brier", model: "str | Model | None" = None, **arguments: Any
) -> Callable[..., Rewards | Awaitable[Rewards]]:
    """Make a reward function of a grader. Its range is the grader's, negated if lower is better.

    An answer without a grade gets the lowest reward of the range, and None if there is no truth to grade by. If the
    grading model could not be reached, or its reply could not be read, the answer gets its group's mean, which gives no
    advantage (`formulas.impute_group_mean`: TRL leaves out a None only if no other reward has a number). If the model
    could not be reached for any answer, that is an error. The grader sees the answer as the trajectory: TRL's trainers
    keep nothing else. Of the answers whose grader replied, the share with a grade is logged as `NAME_read`, and the
    share whose grader's reply could not be read as `NAME_judge_unread`, if it is above 0.
    """
    rater = read_grader(grader, **arguments)
    if rater.function is None:
        raise BadInput(f"The grader {rater.name} runs at OpenAI only; use another kind here")
    if rater.sandbox:
        raise BadInput(f"The grader {rater.name} needs a sandbox, and TRL's trainers have none; use trusted=True")
    if bool(rater.roles) != (model is not None):
        what = "asks a model; name one with model=" if rater.roles else "does not ask a model; omit model"
        raise BadInput(f"The grader {rater.name} {what}")

    async def grade_async(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
        from anyio import create_task_group

        if model is not None:
            _bind(rater, model)
        items = _items(prompts, completions, columns)
        grades: dict[int, Grade] = {}

        async def grade_one(i: int) -> None:
            grades[i] = await grade(rater, items[i])

        async with create_task_group() as group:
            for i in range(len(items)):
                group.start_soon(grade_one, i)
        return _rewards(rater, [grades[i] for i in range(len(items))], prompts, columns)

    def grade_sync(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
        items = _items(prompts, completions, columns)
        return _rewards(rater, [_run_without_waiting(grade(rater, item)) for item in items], prompts, columns)

    is_async = iscoroutinefunction(rater.function)
    function: Callable[..., Rewards | Awaitable[Rewards]] = grade_async if is_async else grade_sync
    function.__name__ = rater.name
    return function


python_brier = graded("python_brier")
"""The Brier score of the belief in the marker only, by the grader of that name, negated: -1 to 0. Proper."""


def _bind(grader: Grader, model: "str | Model") -> None:
    from inspect_ai.model import get_model

    from truthgym.datasets.inspect_private import init_model_roles

    loaded = get_model(model) if isinstance(model, str) else model
    init_model_roles(dict.fromkeys(grader.roles, loaded))


def _run_without_waiting(coroutine: Coroutine[Any, Any, Grade]) -> Grade:
    """The result of a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: Grade = end.value
        return result
    raise BadInput("A grader waits for something although its function is not async; write it as `async def`")


def _items(prompts: Sequence[object], completions: Sequence[object], columns: Columns) -> list[GraderInput]:
    targets = column(columns, "target", "the truth, or empty if unknown")
    rows = {name: values for name, values in columns.items() if name not in TRL_COLUMNS and isinstance(values, list)}
    ids = rows.get("sample_id", list(range(len(prompts))))
    items = []
    for i, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        # A dataset has each column in all rows; it is None in rows without that field.
        fields = {name: values[i] for name, values in rows.items() if values[i] is not None}
        own = {name: value for name, value in fields.items() if name in Question.model_fields}
        text, answer, identity = message_text(prompt), message_text(completion), str(ids[i])
        target = "" if targets[i] is None else str(targets[i])
        # For rows that are not a Truthgym question, a grader sees the prompt as the question.
        binary = means_yes_or_no(text, target)
        kind = {"form": "binary", "proposition": statement(text)} if binary else {"form": "free"}
        question = Question.model_validate({"domain": "", **kind, "event": identity, "split": "train"} | own)
        target = str(yes_or_no(target, question))
        item = item_fields(fields, text, target, identity)
        items.append(GraderInput(question, text, target, answer, answer, identity, 1, item))
    return items


def _rewards(grader: Grader, grades: list[Grade], prompts: Sequence[object], columns: Columns) -> Rewards:
    faults = ["" if item.value is not None else item.fault for item in grades]
    if faults and all(fault == "unreachable" for fault in faults):
        raise BadInput(f"Completion 0: {grades[0].reason}; check that the grading model can be reached, and resume")
    reached = [item for item, fault in zip(grades, faults, strict=True) if fault != "unreachable"]
    log(columns, f"{grader.name}_read", share([item.value is not None for item in reached]))
    if "judge" in faults:
        log(columns, f"{grader.name}_judge_unread", faults.count("judge") / len(reached))
    best: Best = "highest" if grader.higher_is_better else "lowest"
    worst = grader.low if grader.higher_is_better else grader.high
    rewards: Rewards = [
        None if fault == "setting" else signed(worst if item.value is None else item.value, best)
        for item, fault in zip(grades, faults, strict=True)
    ]
    for item, fault in zip(grades, faults, strict=True):
        if fault == "setting" and item.reason != NO_OUTCOME:
            warn_once(logger, f"No reward: {item.reason}")
    missing = [fault in ("judge", "unreachable") for fault in faults]
    return impute_group_mean(rewards, missing, [repr(prompt) for prompt in prompts])

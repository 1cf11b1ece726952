"""Graders as reward functions for TRL: the same object that the scorer `graded` calls."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question
from truthgym.scorers.graders.grader import Grade, Grader, GraderInput, grade, item_fields
from truthgym.scorers.graders.resolve import read_grader
from truthgym.scorers.statistics.direction import Best
from truthgym.training.reward_functions.formulas import Rewards, impute_group_mean, share, signed
from truthgym.training.reward_functions.text_batch import Columns, column, log, message_text

if TYPE_CHECKING:
    from inspect_ai.model import Model

TRL_COLUMNS = ("completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
"""What TRL adds to the dataset's columns."""


def graded(
    grader: str | Mapping[str, Any] | Grader = "python_brier",
    model: "str | Model | None" = None,
    **arguments: Any,  # noqa: ANN401
) -> Callable[..., Rewards | Awaitable[Rewards]]:
    """Make a reward function of a grader. Its range is the grader's, negated if lower is better.

    An answer without a grade gets the lowest reward of the range, and None if there is no truth to grade by. If the
    grading model could not be reached, or its reply could not be read, the answer gets its group's mean, which gives no
    advantage (`formulas.impute_group_mean`: TRL leaves out a None only if no other reward has a number). If the model
    could not be reached for any answer, that is an error. The grader sees the answer as the trajectory: TRL's trainers
    keep nothing else. Of the answers whose grader replied, the share with a grade is logged as `NAME_read`, and the
    share whose grader's reply could not be read as `NAME_judge_unread`, if it is above 0.
    """
    chosen = read_grader(grader, **arguments)
    if chosen.function is None:
        raise BadInput(f"The grader {chosen.name} runs at OpenAI only; use another kind here")
    if chosen.sandbox:
        raise BadInput(f"The grader {chosen.name} needs a sandbox, and TRL's trainers have none; use trusted=True")
    if bool(chosen.roles) != (model is not None):
        what = "asks a model; name one with model=" if chosen.roles else "does not ask a model; omit model"
        raise BadInput(f"The grader {chosen.name} {what}")

    async def grade_async(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
        from anyio import create_task_group

        if model is not None:
            _bind(chosen, model)
        items = _items(prompts, completions, columns)
        grades: dict[int, Grade] = {}

        async def grade_one(i: int) -> None:
            grades[i] = await grade(chosen, items[i])

        async with create_task_group() as group:
            for i in range(len(items)):
                group.start_soon(grade_one, i)
        return _rewards(chosen, [grades[i] for i in range(len(items))], prompts, columns)

    def grade_sync(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
        items = _items(prompts, completions, columns)
        return _rewards(chosen, [_run_without_waiting(grade(chosen, item)) for item in items], prompts, columns)

    is_async = iscoroutinefunction(chosen.function)
    function: Callable[..., Rewards | Awaitable[Rewards]] = grade_async if is_async else grade_sync
    function.__name__ = chosen.name
    return function


def _bind(grader: Grader, model: "str | Model") -> None:
    from inspect_ai.model import get_model

    from truthgym.datasets.inspect_private import init_model_roles

    loaded = get_model(model) if isinstance(model, str) else model
    init_model_roles(dict.fromkeys(grader.roles, loaded))


def _run_without_waiting(coroutine: Coroutine[Any, Any, Grade]) -> Grade:
    """The result of a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: Grade = done.value
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
        known = {name: value for name, value in fields.items() if name in Question.model_fields}
        text, answer, identity = message_text(prompt), message_text(completion), str(ids[i])
        target = str(targets[i] or "")
        # For rows that are not a Truthgym question, a grader sees the prompt as the question.
        question = Question.model_validate({"domain": "", "form": "free", "event": identity, "split": "train"} | known)
        item = item_fields(fields, text, target, identity)
        items.append(GraderInput(question, text, target, answer, answer, identity, 1, item))
    return items


def _rewards(grader: Grader, grades: list[Grade], prompts: Sequence[object], columns: Columns) -> Rewards:
    failed = [one.value is None and one.fault == "unreachable" for one in grades]
    if failed and all(failed):
        raise BadInput(f"Completion 0: {grades[0].reason}; check that the grading model can be reached, and resume")
    reached = [one for one, is_failed in zip(grades, failed, strict=True) if not is_failed]
    log(columns, f"{grader.name}_read", share([one.value is not None for one in reached]))
    unread = [one.value is None and one.fault == "judge" for one in reached]
    if any(unread):
        log(columns, f"{grader.name}_judge_unread", share(unread))
    missing = [one.value is None and one.fault in ("judge", "unreachable") for one in grades]
    best: Best = "highest" if grader.higher_is_better else "lowest"
    worst = grader.low if grader.higher_is_better else grader.high
    rewards: Rewards = [
        None
        if one.value is None and one.fault == "setting"
        else signed(worst if one.value is None else one.value, best)
        for one in grades
    ]
    return impute_group_mean(rewards, missing, [repr(prompt) for prompt in prompts])

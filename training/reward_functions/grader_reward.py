"""Graders as reward functions for TRL: the same object that the scorer `graded` calls."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from truthgym.datasets.question import Question
from truthgym.evallog.errors import bad_input
from truthgym.scorers.graders.grader import Grade, Graded, Grader, grade, item_of
from truthgym.scorers.graders.resolve import read_grader
from truthgym.scorers.statistics.direction import Best
from truthgym.training.reward_functions.completions import Columns, column, log, text_of
from truthgym.training.reward_functions.formulas import FAILED, NO_OUTCOME, Rewards, as_the_others, share, signed

if TYPE_CHECKING:
    from inspect_ai.model import Model

OF_TRL = ("completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
"""What TRL adds to the columns."""


def graded(
    grader: str | Mapping[str, Any] | Grader = "python_brier",
    model: "str | Model | None" = None,
    **arguments: Any,  # noqa: ANN401
) -> Callable[..., Rewards | Awaitable[Rewards]]:
    """Make a reward function of a grader. Its range and sign are the grader's, turned so that higher is better.

    An answer without a grade gets the worst of the range; where there is no truth to grade by, None. Where the grading
    model could not be asked, see `reward_rules.as_the_others`; where it could not about any answer, that is an error.
    What the grader sees as the trajectory is the answer: TRL's trainers keep no other. The share of grades is logged as
    `NAME_read`.

    Args:
        grader: As the scorer `truthgym/graded` takes it: a name, a file, an OpenAI specification, or a `Grader`.
        model: Who grades, where the grader needs a model: a name such as "openai/gpt-5.4-mini", or a model of Inspect.
        arguments: Further arguments of that scorer, such as `rubric`, `trusted` or `cache`.

    Returns:
        A function, or an async function where the grader waits for a model or a program. TRL takes both.

    Raises:
        BadInput: A grader that cannot be used, that needs a model and has none, or that needs a sandbox: TRL's trainers
            have none.
    """
    chosen = read_grader(grader, **arguments)
    if chosen.function is None:
        raise bad_input(f"The grader {chosen.name} runs at OpenAI only; use another kind here")
    if chosen.sandbox:
        raise bad_input(f"The grader {chosen.name} needs a sandbox, and TRL's trainers have none; say trusted=True")
    if bool(chosen.roles) != (model is not None):
        what = "asks a model; name one with model=" if chosen.roles else "asks no model; leave model out"
        raise bad_input(f"The grader {chosen.name} {what}")

    async def grades(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
        from anyio import create_task_group

        if model is not None:
            _bind(chosen, model)
        given = _given(prompts, completions, columns)
        held: dict[int, Grade] = {}

        async def one(i: int) -> None:
            held[i] = await grade(chosen, given[i])

        async with create_task_group() as group:
            for i in range(len(given)):
                group.start_soon(one, i)
        return _rewards(chosen, [held[i] for i in range(len(given))], prompts, columns)

    def at_once(prompts: Sequence[object], completions: Sequence[object], **columns: object) -> Rewards:
        given = _given(prompts, completions, columns)
        return _rewards(chosen, [_finished(grade(chosen, each)) for each in given], prompts, columns)

    waits = iscoroutinefunction(chosen.function)
    made: Callable[..., Rewards | Awaitable[Rewards]] = grades if waits else at_once
    made.__name__ = chosen.name
    return made


def _bind(grader: Grader, model: "str | Model") -> None:
    from inspect_ai.model import get_model

    from truthgym.datasets.inspect_private import init_model_roles

    asked = get_model(model) if isinstance(model, str) else model
    init_model_roles(dict.fromkeys(grader.roles, asked))


def _finished(coroutine: Coroutine[Any, Any, Grade]) -> Grade:
    """What a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        found: Grade = done.value
        return found
    raise bad_input("A grader waits for something though its function is not async; write it as `async def`")


def _given(prompts: Sequence[object], completions: Sequence[object], columns: Columns) -> list[Graded]:
    targets = column(columns, "target", "the truth, or empty where unknown")
    rows = {name: held for name, held in columns.items() if name not in OF_TRL and isinstance(held, list)}
    ids = rows.get("sample_id", list(range(len(prompts))))
    made = []
    for i, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        # A column is there for all rows: in those that have no such field it is None.
        fields = {name: held[i] for name, held in rows.items() if held[i] is not None}
        known = {name: held for name, held in fields.items() if name in Question.model_fields}
        asked, said, identity = text_of(prompt), text_of(completion), str(ids[i])
        target = str(targets[i] or "")
        # Of whatever else is trained on, a grader sees the question as asked.
        question = Question.model_validate({"domain": "", "form": "free", "event": identity, "split": "train"} | known)
        made.append(Graded(question, asked, target, said, said, identity, 1, item_of(fields, asked, target, identity)))
    return made


def _rewards(grader: Grader, grades: list[Grade], prompts: Sequence[object], columns: Columns) -> Rewards:
    failed = [FAILED.match(given.reason or "") is not None for given in grades]
    if failed and all(failed):
        raise bad_input(f"Completion 0: {grades[0].reason}; see that the grading model can be reached, and go on")
    asked = [given for given, out in zip(grades, failed, strict=True) if not out]
    log(columns, f"{grader.name}_read", share([given.value is not None for given in asked]))
    best: Best = "highest" if grader.higher_is_better else "lowest"
    worst = grader.low if grader.higher_is_better else grader.high
    rewards: Rewards = [
        None if given.reason == NO_OUTCOME else signed(worst if given.value is None else given.value, best)
        for given in grades
    ]
    return as_the_others(rewards, failed, [repr(prompt) for prompt in prompts])

"""The answer of a finished sample: its text, the belief that it states, and the belief that it is right."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from inspect_ai.model import get_model
from inspect_ai.scorer import Score
from inspect_ai.solver import TaskState

from truthgym.datasets.agent_worlds import REFUSAL
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import OWN_ANSWER, AnyQuestion, PlainQuestion, Question, question_text
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.scorers.beliefs.reader import Replies, beginning
from truthgym.scorers.beliefs.record import Belief
from truthgym.scorers.beliefs.transcript import branch, turns_of
from truthgym.scorers.statistics.direction import CORRECTNESS, LETTERS, WITHOUT_TRUTH
from truthgym.solvers.thoughts import split_thought
from truthgym.solvers.trajectory import STEPS, cut_off, failure_reason, recorded_answer, recorded_end

CUT_SHORT = "The reasoning was cut short before an answer."
About = Literal["proposition", "own_answer"]
"""What a belief is about: the question's proposition, or that the model's own final answer is right."""
RIGHT = {"agent_answer": "answer", "fact_chain": "answer", "graded": "grade"}
"""Scorers that say whether the answer is right, with the key of their value that is 1 or 0."""
NONE = (
    "(`Answer: none` is right only if a source is missing, and if the calls leave a chance of at most {refusal} in 100 "
    "that none is.)"
)
TESTS = "(It is right if it passes every hidden test.)"


def required_proposition(state: TaskState, question: Question) -> str:
    """The proposition of a sample's question, about which beliefs are measured."""
    if not question.proposition:
        raise BadInput(
            f"Sample {state.sample_id!r} has no proposition to hold a belief about; use a domain with binary or "
            "two-sided questions"
        )
    return question.proposition


def no_proposition(state: TaskState, question: Question) -> str | None:
    """Why no belief can be asked for in a sample of any task, with the remedy; None if one can be."""
    if not isinstance(question, PlainQuestion) or question.proposition:
        return None
    target = ", ".join(state.target).strip()
    what = f"its target {target[:40]!r} is neither yes nor no" if target else "its target is empty"
    return f"There is no statement to hold a belief about: {what}, and it has no choices; {WITHOUT_TRUTH}."


def unasked(state: TaskState, reason: str) -> Belief:
    """A belief that nobody was asked for."""
    return Belief(None, "answer", "self", "continued", True, state.epoch, None, reason, None)


def final_answer(state: TaskState) -> tuple[str | None, str | None]:
    """The text of a sample's last answer, without a thought before it."""
    # Only Truthgym's solvers record a trajectory; one that was cut short has no answer step.
    ours = STEPS in state.store
    text = recorded_answer(state.store) if ours else state.output.completion
    ended = recorded_end(state.store) if ours or not text else failure_reason(state.output)
    if ended or text is None:
        return None, ended or CUT_SHORT
    text = split_thought(text)[1] or ""
    return (text, None) if text.strip() else (None, f"The answer is empty{_stopped(state)}.")


def stated_belief(state: TaskState) -> tuple[float | None, str | None]:
    """Parse the belief that a sample's last answer states. Makes no model call."""
    text, reason = final_answer(state)
    if text is None:
        return None, reason
    belief = read_belief(text, decimal=True, cut_off=cut_off(state.output) is not None)
    unread = f"No single belief could be read in the answer{_stopped(state)}, which begins: {beginning(text)!r}"
    return belief, None if belief is not None else unread


async def read_answer(state: TaskState, question: Question, replies: Replies) -> Belief:
    """The belief that a sample's last answer states, as `stated_belief`, else after a repair, or as a model reads it.

    An answer that no proposition was asked about is not repaired: no form was asked for either.
    """
    value, reason = stated_belief(state)
    text, _ = final_answer(state)
    belief = Belief(
        value, "answer", "self", "continued", True, state.epoch, text, reason, None, answer_format="decimal"
    )
    if value is not None or text is None:
        return belief
    turns = turns_of(state) if question.proposition else []
    messages = branch(state.messages, turns[-1].message)[:-1] if turns else []
    belief = await replies.repaired(belief, get_model(), messages)
    value = read_belief(belief.repaired, decimal=True)
    if value is not None:
        return replace(belief, value=value, reason=None)
    if not replies.by_model or cut_off(state.output):
        return belief
    return await replies.read_by_model(belief, question.proposition or f"Yes is the answer to: {question_text(state)}")


def _stopped(state: TaskState) -> str:
    if not state.output.choices:  # a solver need not call a model
        return ""
    return f" ({cut_off(state.output) or f'stop reason {state.output.stop_reason}'})"


def about_own_answer(state: TaskState, question: AnyQuestion) -> AnyQuestion:
    """A sample's question with the proposition that the model's own answer is right, and no known chance of it."""
    facts = state.metadata or {}
    programs = {"tests", "function"} <= facts.keys()  # of `code_repair`; `needs` are of the agent tasks
    rule = TESTS if programs else NONE if {"needs", "world"} <= facts.keys() and question.base_rate != 1 else ""
    proposition = f"{OWN_ANSWER} {rule.format(refusal=round(100 * REFUSAL))}".strip()
    unknown: dict[str, Any] = {"base_rate": None, "crowd": None, "posterior": [], "selected_by_outcome": False}
    return question.model_copy(update={"proposition": proposition, **unknown})


def recorded_right(state: TaskState) -> tuple[float | None, str | None]:
    """Whether a sample's answer is right, as a score of this pass or of the log says."""
    for name, score in reversed(list((state.scores or {}).items())):
        key = RIGHT.get(name.rstrip("0123456789"))
        if key and isinstance(score.value, dict) and key in score.value:
            return _right(float(str(score.value[key])), score)
    for name, score in reversed(list((state.scores or {}).items())):
        letter = LETTERS.get(score.value) if isinstance(score.value, str) else None
        number = score.value if isinstance(score.value, int | float) else None
        if letter is not None or (number is not None and CORRECTNESS.fullmatch(name.rpartition("/")[2])):
            return _right(float(number or 0) if letter is None else letter, score)
    raise BadInput(
        f"Sample {state.sample_id!r}: about=own_answer needs a score that says whether the answer is right, and there "
        f"is none of {', '.join(RIGHT)}, or of Inspect's own, such as match and choice; name one of them beside it, "
        "and score a log with inspect score --action append"
    )


def _right(value: float, score: Score) -> tuple[float | None, str | None]:
    facts = score.metadata or {}
    if np.isnan(value):
        return None, str(facts.get("reason") or "The answer could not be read.")
    worst, best = float(facts.get("low", 0.0)), float(facts.get("high", 1.0))
    if facts.get("higher_is_better") is False:
        worst, best = best, worst
    if value not in (worst, best):
        return None, f"The grade {value:.4g} is neither {best:g} nor {worst:g}, so it does not say right or wrong."
    return float(value == best), None

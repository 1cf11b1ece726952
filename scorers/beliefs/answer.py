"""The answer of a finished sample: its text, and the belief that it states."""

from inspect_ai.model import Model
from inspect_ai.solver import TaskState

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.scorers.beliefs.reader import read_by_model
from truthgym.scorers.beliefs.record import Belief, recorded_replies
from truthgym.solvers.thoughts import split_thought
from truthgym.solvers.trajectory import STEPS, cut_off, failure_reason, recorded_answer, recorded_end


def required_proposition(state: TaskState, question: Question) -> str:
    """The proposition of a sample's question, about which beliefs are measured."""
    if not question.proposition:
        raise BadInput(
            f"Sample {state.sample_id!r} has no proposition to hold a belief about; use a domain with binary or "
            "two-sided questions"
        )
    return question.proposition


def final_answer(state: TaskState) -> tuple[str | None, str | None]:
    """The text of a sample's last answer, without a thought before it."""
    # Only Truthgym's solvers record a trajectory; one that was cut short has no answer step.
    ours = STEPS in state.store
    text = recorded_answer(state.store) if ours else state.output.completion
    ended = recorded_end(state.store) if ours or not text else failure_reason(state.output)
    if ended or text is None:
        return None, ended or "The reasoning was cut short before an answer."
    text = split_thought(text)[1] or ""
    return (text, None) if text.strip() else (None, f"The answer is empty{_stopped(state)}.")


def stated_belief(state: TaskState) -> tuple[float | None, str | None]:
    """Parse the belief that a sample's last answer states. Makes no model call."""
    text, reason = final_answer(state)
    if text is None:
        return None, reason
    belief = read_belief(text, decimal=True, cut_off=cut_off(state.output) is not None)
    ending = text.strip()[-80:]
    unread = f"No single belief could be read in the answer{_stopped(state)}, which ends: {ending!r}"
    return belief, None if belief is not None else unread


async def read_answer(state: TaskState, question: Question, reader: Model | None) -> Belief:
    """The belief that a sample's last answer states, as `stated_belief`, or else as a model reads it."""
    value, reason = stated_belief(state)
    text, _ = final_answer(state)
    belief = Belief(value, "answer", "self", "continued", True, state.epoch, text, reason, None)
    if value is not None or reader is None or text is None or cut_off(state.output):
        return belief
    proposition = question.proposition or f"Yes is the answer to: {state.input_text}"
    return await read_by_model(belief, proposition, reader, recorded_replies(state))


def _stopped(state: TaskState) -> str:
    stopped = cut_off(state.output) or f"stop reason {state.output.stop_reason}"
    return f" ({stopped})" if state.output.choices else ""

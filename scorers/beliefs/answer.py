"""The answer of a finished sample: its text, and the belief that it states."""

from inspect_ai.solver import TaskState

from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.solvers.trajectory import STEPS, failure_reason, recorded_answer, recorded_end


def final_answer(state: TaskState) -> tuple[str | None, str | None]:
    """The text of a sample's last answer.

    Returns:
        The text; or None and the reason: the reasoning ended or was cut short, the model refused, or the answer is
        empty. A provider's error report in place of a reply is not an answer.
    """
    # Only Truthgym's solvers record a trajectory; one that was cut short has no answer step.
    ours = STEPS in state.store
    text = recorded_answer(state.store) if ours else state.output.completion
    ended = recorded_end(state.store) if ours or not text else failure_reason(state.output)
    if ended or text is None:
        return None, ended or "The reasoning was cut short before an answer."
    return (text, None) if text.strip() else (None, f"The answer is empty{_stopped(state)}.")


def stated_belief(state: TaskState) -> tuple[float | None, str | None]:
    """Parse the belief that a sample's last answer states. Makes no model call.

    Returns:
        The probability in [0, 1]; or None and the reason why it could not be read.
    """
    text, reason = final_answer(state)
    if text is None:
        return None, reason
    belief = read_belief(text, decimal=True)
    ending = text.strip()[-80:]
    unread = f"No single belief could be read in the answer{_stopped(state)}, which ends: {ending!r}"
    return belief, None if belief is not None else unread


def _stopped(state: TaskState) -> str:
    return f" (the model stopped with {state.output.stop_reason})" if state.output.choices else ""

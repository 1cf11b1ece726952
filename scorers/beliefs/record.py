"""Beliefs as a log records them, and the replies that earlier scoring of the same sample recorded."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from inspect_ai.log import transcript
from inspect_ai.model import Model
from inspect_ai.scorer import Score
from inspect_ai.solver import TaskState

from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.scorers.statistics.sycophancy import CHALLENGES

AnswerFormat = Literal["percent", "decimal", "letter", "list"]


@dataclass(frozen=True)
class Belief:
    """One elicited belief, with its reply. Recorded in `Score.metadata["beliefs"]`."""

    value: float | None
    """Probability in [0, 1], or None if the reply could not be parsed."""
    stage: str
    """"prior"; "prior 2" in a second wording; "step k" after the k-th turn; "posterior" after the answer; "view": a
    first impression in words; "choices": those in all choices after the answer, of which the value is one."""
    elicitor: str
    """"self"; "token" for the model's token probabilities; "judge"; "joint" for a judge that read the whole trajectory
    in one call."""
    context: str
    """"separate": a fresh context; "continued": that of the trajectory; "read": a text shown to a judge."""
    saw_reasoning: bool
    """Whether the reasoning was visible to the one that gave the belief."""
    epoch: int
    raw: str | None
    """The reply. Of a belief by token probability, the probabilities of the letters in both forms."""
    reason: str | None
    request: str | None
    """Digest of the request, then of the model, separated by a hyphen. None if nothing was asked."""
    read_by: str | None = None
    """"model" if the `reader` role read the value in the reply; None if `read_belief` did."""
    reading: str | None = None
    reading_request: str | None = None
    """Digest of the request to the reader, as `request`."""
    gap: float | None = None
    """As in `predictor.TokenBelief`, of a belief by token probability."""
    mass: float | None = None
    """As in `predictor.TokenBelief`."""
    answer_format: AnswerFormat | None = None
    """The form that was asked for, by which the reply is read. None where nothing was asked."""
    repaired: str | None = None
    """The reply to the repair, in which the value was read, or nothing either; None if there was no repair."""
    repair_request: str | None = None
    """Digest of the request for the repair, as `request`."""

    def record(self) -> dict[str, object]:
        """The fields for the log, without those that are None."""
        return {name: value for name, value in vars(self).items() if value is not None}


def digest_of_request(messages: Sequence[tuple[str, str]], epoch: int) -> str:
    """Identify a request by its words and its epoch."""
    return _digest([epoch, messages])


def digest_of_model(model: Model) -> str:
    """Identify a model by its name and arguments. The temperature is not part of it."""
    return _digest([str(model), sorted((name, repr(value)) for name, value in model.model_args.items())])


def recorded_replies(state: TaskState, any_model: bool = False) -> dict[str, str]:
    """Replies that can be read, and those of readers, by request."""
    beliefs = [belief for score in earlier_scores(state) for belief in (score.metadata or {}).get("beliefs", [])]
    replies = []
    for belief in beliefs:
        if belief.get("request") and (any_model or _is_readable(belief)) and belief.get("raw") is not None:
            replies.append((belief["request"], belief["raw"]))
        if belief.get("reading_request"):
            replies.append((belief["reading_request"], belief["reading"]))
        if belief.get("repaired") and belief.get("value") is not None:
            replies.append((belief["repair_request"], belief["repaired"]))
    return {request.split("-")[0] if any_model else request: reply for request, reply in replies}


def _is_readable(belief: dict[str, Any]) -> bool:
    """Whether a recorded reply is a belief, or a first impression in words. Earlier versions read otherwise."""
    raw, read = belief.get("raw"), belief.get("value") is not None
    if belief["stage"] in ("view", "choices") or belief["elicitor"] in ("joint", "token"):
        return read or (belief["stage"] == "view" and bool(raw))
    if str(belief.get("reason", "")).startswith("The reply was cut off"):
        return False
    if read and (belief.get("repaired") or belief.get("read_by")):
        return True
    decimal = belief.get("answer_format", "decimal" if belief["stage"] in CHALLENGES else "percent") == "decimal"
    return read_belief(raw, decimal) is not None


def earlier_scores(state: TaskState) -> list[Score]:
    """Scores of the sample from this pass and previous ones, oldest first."""
    # `inspect score --action overwrite` hides the scores that it replaces, but keeps their events.
    scores = [event.score for event in transcript().events if event.event == "score"]
    return [*scores, *(state.scores or {}).values()]


def _digest(value: object) -> str:
    return sha256(json.dumps(value).encode()).hexdigest()[:16]

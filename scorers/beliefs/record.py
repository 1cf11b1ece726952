"""Beliefs as a log records them, and the replies that earlier scoring of the same sample recorded."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from inspect_ai.log import transcript
from inspect_ai.model import Model
from inspect_ai.scorer import Score
from inspect_ai.solver import TaskState


@dataclass(frozen=True)
class Belief:
    """One elicited belief, with its reply. Recorded in `Score.metadata["beliefs"]`."""

    value: float | None
    """Probability in [0, 1], or None if the reply could not be parsed."""
    stage: str
    """"prior"; "prior 2" in a second wording; "step k" after the k-th turn; "posterior" after the answer; "view": a
    first impression in words."""
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
    """Why there is no value."""
    request: str | None
    """Digest of the request, then of the model, separated by a hyphen. None if nothing was asked."""
    read_by: str | None = None
    """"model" if the `reader` role read the value in the reply; None if `read_belief` did."""
    reading: str | None = None
    """The reader's reply."""
    reading_request: str | None = None
    """Digest of the request to the reader, as `request`."""
    gap: float | None = None
    """As in `predictor.TokenBelief`, of a belief by token probability."""
    mass: float | None = None
    """As in `predictor.TokenBelief`."""

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
    """Replies that could be parsed, and those of readers, by request.

    They are from earlier scorers of the sample in this pass or a previous one.
    """
    beliefs = [belief for score in earlier_scores(state) for belief in (score.metadata or {}).get("beliefs", [])]
    replies = [
        (belief["request"], belief["raw"])
        for belief in beliefs
        if belief.get("request") and (belief.get("value") is not None or (belief["stage"] == "view" and belief["raw"]))
    ]
    replies += [(belief["reading_request"], belief["reading"]) for belief in beliefs if belief.get("reading_request")]
    return {request.split("-")[0] if any_model else request: reply for request, reply in replies}


def earlier_scores(state: TaskState) -> list[Score]:
    """Scores of the sample from this pass and previous ones, oldest first."""
    # `inspect score --action overwrite` hides the scores that it replaces, but keeps their events.
    scores = [event.score for event in transcript().events if event.event == "score"]
    return [*scores, *(state.scores or {}).values()]


def _digest(value: object) -> str:
    return sha256(json.dumps(value).encode()).hexdigest()[:16]

"""Beliefs as they stand in a log, and finding again what was measured before."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from inspect_ai.log import transcript
from inspect_ai.model import ChatMessage, Model
from inspect_ai.solver import TaskState


@dataclass(frozen=True)
class Belief:
    """One belief as it was asked for and read. Recorded in `Score.metadata["beliefs"]`."""

    value: float | None
    """Probability in [0, 1], or None where the reply could not be read."""
    stage: str
    """"prior", "step k" after the k-th turn, "posterior" after the answer; "view" for the text of a first view."""
    elicitor: str
    """"self", "judge", or "joint" for a judge that read the whole trajectory in one go."""
    context: str
    """"separate": a fresh one; "continued": that of the trajectory; "read": a text put before a judge."""
    saw_reasoning: bool
    """Whether the reasoning could be seen where the belief was given."""
    epoch: int
    raw: str | None
    """The reply."""
    reason: str | None
    """Why there is no value."""
    request: str | None
    """Two digests: of all that was asked, and of who was asked. None where nothing was."""

    def record(self) -> dict[str, object]:
        """What stands in the log: all fields that say something."""
        return {name: value for name, value in vars(self).items() if value is not None}


def digest_of_request(messages: Sequence[ChatMessage], epoch: int) -> str:
    """Tell requests apart by their words and their epoch."""
    return _digest([epoch, [(message.role, message.text) for message in messages]])


def digest_of_model(model: Model) -> str:
    """Tell models apart by their name and arguments. Another temperature is not another model."""
    return _digest([str(model), sorted((name, repr(value)) for name, value in model.model_args.items())])


def recorded_replies(state: TaskState, whoever: bool = False) -> dict[str, str]:
    """Replies that earlier scorers of the sample got, in this pass or another, by request, where they could be read.

    Args:
        state: The sample.
        whoever: Whether to forget who was asked.
    """
    # `inspect score --action overwrite` hides the scores that it replaces. Their events still tell what was measured.
    scores = [event.score for event in transcript().events if event.event == "score"]
    scores += (state.scores or {}).values()
    found = [belief for score in scores for belief in (score.metadata or {}).get("beliefs", [])]
    return {
        belief["request"].split("-")[0] if whoever else belief["request"]: belief["raw"]
        for belief in found
        if belief.get("request") and (belief.get("value") is not None or (belief["stage"] == "view" and belief["raw"]))
    }


def _digest(said: object) -> str:
    return sha256(json.dumps(said).encode()).hexdigest()[:16]

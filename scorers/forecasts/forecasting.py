"""A forecaster's log-probability of an observation, and what belongs to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from inspect_ai.model import ChatMessage, Model
from inspect_ai.util import span

from truthgym.models.predictor import reply_logprobs
from truthgym.scorers.beliefs.escaping import material
from truthgym.scorers.beliefs.record import digest_of_model, digest_of_request
from truthgym.scorers.forecasts.templates import REPHRASE
from truthgym.scorers.judges.asking import ask_for_text

NOT_YET = "Its uplift was not computed yet; score with redo=uplift."


@dataclass(frozen=True)
class Forecast:
    """How likely an observation was to a forecaster. Recorded in `Score.metadata["forecasts"]`."""

    total: float
    """Log-probability, in nats; with an opposite, of the observation if it is one of the two. NaN if there is none."""
    count: int
    """Tokens of the observation."""
    tokens: Sequence[Sequence[str | float]]
    """Text and log-probability of each. Their sum is `total` if there is no opposite."""
    request: str
    """Digests of the conversation with the observation, and of the forecaster."""
    reason: str | None = None
    """Why there is no log-probability."""

    def record(self) -> dict[str, Any]:
        """The fields for the log."""
        return {**vars(self), "total": None if np.isnan(self.total) else self.total}


async def forecast(
    model: Model,
    messages: Sequence[ChatMessage],
    observation: str,
    opposite: str | None,
    recorded: Mapping[str, Any] | None,
    ask: bool,
) -> Forecast:
    """The log-probability of an observation after a conversation. One model call, or none if it is recorded."""
    replies = [observation, *([opposite] if opposite else [])]
    words = [(message.role, message.text) for message in messages] + [("reply", reply) for reply in replies]
    request = f"{digest_of_request(words, 0)}-{digest_of_model(model)}"
    if recorded and recorded.get("request") == request:
        return Forecast(**recorded)
    if not ask:
        return Forecast(np.nan, 0, (), request, NOT_YET)
    async with span("forecast", type="truthgym.forecast"):
        logprobs = await reply_logprobs(model, messages, replies, "teacher_forced")
    reason = next((f"The forecaster: {one.reason}" for one in logprobs if np.isnan(one.total)), None)
    total = np.nan if reason else logprobs[0].total
    if opposite and not reason:
        total -= np.logaddexp(logprobs[0].total, logprobs[1].total)
    tokens: list[list[str | float]] = [[text, logprob] for text, logprob in logprobs[0].tokens]
    return Forecast(float(total), logprobs[0].count, tokens, request, reason)


async def rephrase(model: Model, observation: str) -> tuple[str | None, str | None]:
    """An observation in other words, for the template of that name. One model call, cached."""
    request = REPHRASE.format(report=material("report", observation))
    text, reason = await ask_for_text(model, request, epoch=1, name="rephrase")
    return (None, f"It could not be rephrased: {reason}") if text is None else (" ".join(text.split()), None)

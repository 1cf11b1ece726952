"""A forecaster's log-probability of an observation, and what belongs to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from inspect_ai.model import ChatMessage, Model
from inspect_ai.util import span

from truthgym.models.predictor import reply_logprobs
from truthgym.scorers.beliefs.record import digest_of_model, digest_of_request
from truthgym.scorers.beliefs.transcript import material
from truthgym.scorers.forecasts.templates import REPHRASE
from truthgym.scorers.judges.asking import ask_for_text

NOT_YET = "Its uplift was not computed yet; score with redo=uplift."


@dataclass(frozen=True)
class Forecast:
    """How likely an observation was to a forecaster. Recorded in `Score.metadata["forecasts"]`."""

    total: float
    """Log-probability, in nats. NaN if there is none."""
    count: int
    """Tokens of the observation."""
    tokens: Sequence[Sequence[str | float]]
    """Text and log-probability of each."""
    request: str
    """Digests of the conversation with the observation, and of the forecaster."""
    reason: str | None = None
    """Why there is no log-probability."""

    def record(self) -> dict[str, Any]:
        """The fields for the log."""
        return {**vars(self), "total": None if np.isnan(self.total) else self.total}


async def forecast(
    model: Model, messages: Sequence[ChatMessage], observation: str, held: Mapping[str, Any] | None, ask: bool
) -> Forecast:
    """The log-probability of an observation after a conversation. One model call, or none if it is recorded.

    Args:
        model: The forecaster.
        messages: From `templates.messages`.
        observation: The observation.
        held: A record of an earlier forecast. Used if it is of this forecaster, conversation and observation.
        ask: Whether to ask the forecaster if there is no such record.
    """
    words = [(message.role, message.text) for message in messages]
    request = f"{digest_of_request([*words, ('reply', observation)], 0)}-{digest_of_model(model)}"
    if held and held.get("request") == request:
        return Forecast(**held)
    if not ask:
        return Forecast(np.nan, 0, (), request, NOT_YET)
    async with span("forecast", type="truthgym.forecast"):
        [found] = await reply_logprobs(model, messages, [observation], "teacher_forced")
    reason = f"The forecaster: {found.reason}" if np.isnan(found.total) else None
    return Forecast(found.total, found.count, [list(token) for token in found.tokens], request, reason)


async def rephrase(model: Model, observation: str) -> tuple[str | None, str | None]:
    """An observation in other words, for the template of that name. One model call, cached.

    Returns:
        The text and None; or None and why there is none.
    """
    request = REPHRASE.format(report=material("report", observation))
    text, reason = await ask_for_text(model, request, epoch=1, name="rephrase")
    return (None, f"It could not be rephrased: {reason}") if text is None else (" ".join(text.split()), None)


async def count_tokens(model: Model, text: str) -> int:
    """Number of tokens of a text: by the model's own tokenizer if it is a local one, otherwise as Inspect counts."""
    tokenizer = getattr(model.api, "tokenizer", None)
    return len(tokenizer(text)["input_ids"]) if callable(tokenizer) else await model.count_tokens(text)

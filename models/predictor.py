r"""Beliefs by token probability: how likely a model is to begin its reply with the letter for yes.

Works with every model that gives log-probabilities through Inspect: docs/models.md says which providers do. Nothing is
sampled that counts, so a belief does not vary over epochs in a fixed context, and a model that cannot name a number has
one all the same.
"""

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from inspect_ai.model import ChatMessage, GenerateConfig, Logprob, Model, ModelOutput

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import active_generate_config
from truthgym.solvers.local_model import generate
from truthgym.solvers.trajectory import failure_reason

YES_FIRST = "A = Yes\nB = No"
NO_FIRST = "A = No\nB = Yes"
LETTERS = f"{YES_FIRST}\n\nAnswer with one letter, A or B, and nothing else.\n\nAnswer:"
"""The end of a request that `letter_probabilities` can send."""
MIN_MASS = 0.5
"""A belief counts only if A and B have at least this probability together, in both forms."""
MIN_PROBABILITY = 1e-6
"""A letter that is not among the 20 likeliest tokens counts as this probable."""
EFFORT_PROVIDERS = ("openai", "anthropic", "google", "deepseek")
"""Providers to which Inspect passes on the reasoning effort `none` in a form that each of their models accepts."""
TEMPLATE_PROVIDERS = ("vllm", "sglang")
"""Servers that take arguments of the chat template with a request."""
SPACE_MARKS = "\u0120\u010a\u2581 \t\n"
"""What vocabularies write for a space or a line break, and these themselves."""


@dataclass(frozen=True)
class TokenBelief:
    """What the probabilities of the letters say."""

    value: float | None
    """Probability of yes, in [0, 1]: the mean of both forms in log-odds. None if too little mass is on A and B."""
    gap: float
    """Log-odds of yes if A is yes, minus those if B is yes. Above 0 the model prefers the letter A; the mean is without
    a preference that adds the same log-odds in both forms."""
    mass: float
    """Probability of A and B together, in the form where it is smaller."""


async def letter_probabilities(model: Model, messages: Sequence[ChatMessage]) -> tuple[str | None, str | None]:
    """Send a request in both forms, A = Yes and A = No. Two model calls of one token each.

    Args:
        model: Any model that gives log-probabilities.
        messages: A conversation whose last message ends with `LETTERS`.

    Returns:
        The probabilities of A and B as JSON, for `token_belief`: those with A = Yes, then those with A = No. Or None
        and the reason: the model refused, or the conversation is longer than its context.

    Raises:
        BadInput: The model's provider gives no log-probabilities. The second form is then not sent.
    """
    found = []
    model, off = without_thinking(model)
    config = off.merge(_config(model))
    *history, last = messages
    before, letters, after = last.text.rpartition(YES_FIRST)
    assert letters, "the last message must end with LETTERS"
    for form in (YES_FIRST, NO_FIRST):
        request = last.model_copy(update={"content": before + form + after, "id": None})
        output = await generate(model, [*history, request], config)
        failure = failure_reason(output)
        if failure:
            return None, failure
        found.append([_mass(_first_tokens(output, model), letter) for letter in ("a", "b")])
    return json.dumps(found), None


def without_thinking(model: Model) -> tuple[Model, GenerateConfig]:
    """A model and the settings with which it replies without thinking, as far as its provider can switch that off.

    - `hf`: the chat template's argument `enable_thinking`, in a copy of the model that shares its weights.
    - `vllm` and `sglang`, and servers to which the user sends `chat_template_kwargs`: the same argument in the request.
    - `EFFORT_PROVIDERS`, and others where the user set an effort, which a server may refuse: the effort `none`, except
      for models of OpenAI that always think.
    """
    api, config, provider = model.api, model.config, str(model).split("/")[0]
    if hasattr(api, "enable_thinking"):
        quiet = copy(model)
        quiet.api = copy(api)
        quiet.api.enable_thinking = False
        quiet.config = config.merge(active_generate_config())  # which Inspect adds for the evaluated model alone
        return quiet, GenerateConfig()
    off = GenerateConfig()
    body = config.extra_body or {}
    if provider in TEMPLATE_PROVIDERS or "chat_template_kwargs" in body:
        template = {**body.get("chat_template_kwargs", {}), "enable_thinking": False}
        off.extra_body = {**body, "chat_template_kwargs": template}
    always_thinks = getattr(api, "always_reasons", bool)()
    if not always_thinks and (provider in EFFORT_PROVIDERS or config.reasoning_effort is not None):
        off.reasoning_effort = "none"
    return model, off


def token_belief(probabilities: str) -> TokenBelief:
    r"""The belief that the probabilities of both forms give.

    $$\mathrm{logit}\,b=\tfrac12\left(\ln\frac{P_1(A)}{P_1(B)}+\ln\frac{P_2(B)}{P_2(A)}\right)$$

    where A is yes in form 1 and no in form 2.

    Args:
        probabilities: As `letter_probabilities` returns them.
    """
    masses = np.array(json.loads(probabilities))
    log_odds = np.log(np.maximum(masses, MIN_PROBABILITY)) @ np.array([1, -1])
    mass = float(masses.sum(axis=1).min())
    belief = float(1 / (1 + np.exp(-(log_odds[0] - log_odds[1]) / 2)))
    return TokenBelief(belief if mass >= MIN_MASS else None, float(log_odds.sum()), mass)


def _config(model: Model) -> GenerateConfig:
    provider = str(model).split("/")[0]
    # At temperature 1, servers that rescale log-probabilities leave them as they are. OpenAI's Responses API takes no
    # fewer than 16 tokens, of which the first counts, and gives no log-probabilities while the model thinks.
    return GenerateConfig(logprobs=True, top_logprobs=20, max_tokens=16 if provider == "openai" else 1, temperature=1.0)


def _first_tokens(output: ModelOutput, model: Model) -> list[tuple[str, float]]:
    """The likeliest first tokens of the reply, with their log-probabilities."""
    logprobs = output.choices[0].logprobs
    first: Logprob | None = logprobs.content[0] if logprobs and logprobs.content else None
    if first is None or not first.top_logprobs:
        raise BadInput(
            f"{model} gives no log-probabilities, which a belief by token probability needs; use a model whose "
            "provider does (docs/models.md), with thinking off, or the stated belief: elicitor=self, or read=stated of "
            "brier"
        )
    return [(token.token, token.logprob) for token in first.top_logprobs]


def _mass(tokens: Sequence[tuple[str, float]], letter: str) -> float:
    return float(sum(np.exp(logprob) for token, logprob in tokens if token.strip(SPACE_MARKS).lower() == letter))

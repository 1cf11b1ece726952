r"""Probabilities of replies: of a given reply, token by token, and of the letter for yes as a belief.

`reply_logprobs` gives the log-probability of a reply that somebody else wrote, by a call of Inspect's model interface:
logged, cached, limited, and counted in the usage. docs/logprobs.md says which providers can do this exactly.

`letter_probabilities` works with every model that gives log-probabilities through Inspect. Nothing is sampled that
counts, so a belief does not vary over epochs in a fixed context, and a model that cannot name a number has one all the
same.
"""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    GenerateConfig,
    Logprob,
    Logprobs,
    Model,
    ModelOutput,
    ModelUsage,
)

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import active_generate_config
from truthgym.models.logprobs.local import Scored, score_local
from truthgym.models.logprobs.server import is_worth_a_retry, score_server
from truthgym.solvers.local_model import clear_errors, generate
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
SERVER_PROVIDERS = ("vllm", "vllm-completions", "openai-api")
"""Providers behind which a server can give the log-probabilities of a given text."""
Method = Literal["teacher_forced", "top_logprobs", "elicited"]
"""How a reply's probability is found: "teacher_forced", exactly, token by token; "top_logprobs", from the likeliest
first tokens, for replies of one short word; "elicited", stated by the model in percent."""
NOT_FINITE = "The model gave a log-probability that is not a finite number."
MAX_WORD = 3
"""Characters of a reply that counts as one token where tokens cannot be counted."""
ELICIT = """{request}

Do not answer this. Say instead how likely it is that the answer which was given is exactly the text between the tags.

<answer>
{reply}
</answer>

Reply with one whole number from 0 to 100, in percent, and nothing else."""
ELICITED_CLIP = 0.005
"""Least probability that an elicited one counts as: 0 and 100 percent are rounded."""
SPACE_MARKS = "\u0120\u010a\u2581 \t\n"
"""What vocabularies write for a space or a line break, and these themselves."""


@dataclass(frozen=True)
class ReplyLogprob:
    """How likely a model is to write a reply."""

    total: float
    """Natural logarithm of the probability of the reply's text, at most 0. NaN if it could not be found."""
    count: int
    """Number of tokens, 0 if unread."""
    tokens: tuple[tuple[str, float], ...]
    """Text and log-probability of each token. Joined, the texts give the reply."""
    method: Method
    reason: str = ""
    """Why `total` is NaN: an empty reply, one longer than the context, or a number that is not finite."""


async def reply_logprobs(
    model: Model, messages: Sequence[ChatMessage], replies: Sequence[str], method: Method | None = None
) -> list[ReplyLogprob]:
    """The log-probabilities of replies to one conversation. They share the work of reading it.

    The reply's tokens are those of its text alone, without an end token, so "Yes" and "Yes, since" share the
    probability of "Yes". The model does not think first. The last message is the user's. One model call for all
    replies, or with "elicited" one for each. Without a `method` it is "teacher_forced" where the provider
    can (a local model, a server, a simulated one), otherwise "top_logprobs".
    """
    method = check_method(model, method)
    if method == "elicited":
        return [await _elicit(model, messages, reply) for reply in replies]
    model, off = without_thinking(model)
    if method == "top_logprobs":
        output = await generate(model, messages, off.merge(first_token_config(model)))
        failure = failure_reason(output)
        return [_unread(failure, method) if failure else _first_word(output, model, reply) for reply in replies]
    scoring = copy(model)
    scoring.api = copy(model.api)
    score = _back_end(model)
    assert score
    if score is score_server:
        template = (model.config.extra_body or {}).get("chat_template_kwargs", {})
        score = partial(score_server, template={**template, "enable_thinking": False})
        of_provider = model.api.should_retry
        scoring.api.should_retry = lambda ex: is_worth_a_retry(ex) or of_provider(ex)  # type: ignore[method-assign]
    # Inspect's cache knows the replies by their place in the settings.
    scoring.config = model.config.merge(off).model_copy(deep=True)
    scoring.config.extra_body = {**(scoring.config.extra_body or {}), "replies": list(replies)}
    scoring.api.generate = partial(_generate, score, model.api, replies)  # type: ignore[method-assign]
    with clear_errors(model):
        output = await scoring.generate(list(messages), config=GenerateConfig(extra_body=scoring.config.extra_body))
    reasons = (output.metadata or {})["reasons"]
    return [_reply_logprob(choice, reason) for choice, reason in zip(output.choices, reasons, strict=True)]


def check_method(model: Model, method: Method | None = None) -> Method:
    """The method by which a model can give log-probabilities of replies, or a BadInput before anything is spent."""
    able = _back_end(model) is not None
    if method == "teacher_forced" and not able:
        raise BadInput(
            f"{model} cannot give the log-probability of a given reply (method=teacher_forced); use hf/, vllm/, "
            "openai-api/ with a server of vLLM or llama.cpp, or method=top_logprobs or elicited (docs/logprobs.md)"
        )
    return method or ("teacher_forced" if able else "top_logprobs")


BackEnd = Callable[[Any, list[ChatMessage], Sequence[str]], Awaitable[tuple[list[Scored], int]]]
"""From a provider's API, a conversation and replies to what each reply scored, and the number of tokens read."""


def _back_end(model: Model) -> BackEnd | None:
    simulated: BackEnd | None = getattr(model.api, "score_replies", None)
    if simulated:  # a simulated model
        return simulated
    if hasattr(model.api, "hf_chat"):
        return score_local
    return score_server if str(model).split("/")[0] in SERVER_PROVIDERS else None


async def _generate(
    score: BackEnd,
    api: Any,  # noqa: ANN401
    replies: Sequence[str],
    input: list[ChatMessage],
    *_: object,
    **__: object,
) -> ModelOutput:
    """In place of the provider's `generate`: a choice for each reply, with its log-probabilities."""
    scored, tokens_read = await score(api, input, replies)
    choices, reasons = [], []
    for reply, result in zip(replies, scored, strict=True):
        listed = [] if isinstance(result, str) else result
        finite = all(np.isfinite(logprob) for _, logprob in listed)
        reasons.append(result if isinstance(result, str) else "" if finite else NOT_FINITE)
        tokens = [Logprob(token=text, logprob=logprob) for text, logprob in listed] if finite else []
        message = ChatMessageAssistant(content=reply, source="generate")
        choices.append(ChatCompletionChoice(message=message, logprobs=Logprobs(content=tokens)))
    usage = ModelUsage(input_tokens=tokens_read, output_tokens=0, total_tokens=tokens_read)
    return ModelOutput(model=api.model_name, choices=choices, usage=usage, metadata={"reasons": reasons})


def _reply_logprob(choice: ChatCompletionChoice, reason: str) -> ReplyLogprob:
    if reason:
        return _unread(reason, "teacher_forced")
    assert choice.logprobs
    tokens = tuple((token.token, token.logprob) for token in choice.logprobs.content)
    return ReplyLogprob(float(sum(logprob for _, logprob in tokens)), len(tokens), tokens, "teacher_forced")


def _unread(reason: str, method: Method) -> ReplyLogprob:
    return ReplyLogprob(float("nan"), 0, (), method, reason)


def _first_word(output: ModelOutput, model: Model, reply: str) -> ReplyLogprob:
    word = reply.strip()
    if not word.isalnum() or len(word) > MAX_WORD:
        return _unread(f"top_logprobs is for answers of one word with at most {MAX_WORD} letters.", "top_logprobs")
    listed = _first_tokens(output, model)
    chances = [float(np.exp(logprob)) for _, logprob in listed]
    # A word that is not listed is at most as likely as the least likely that is, and as all the others together.
    mass = _mass(listed, word.lower()) or max(min(min(chances), 1 - sum(chances)), MIN_PROBABILITY)
    return ReplyLogprob(float(np.log(mass)), 1, ((reply, float(np.log(mass))),), "top_logprobs")


async def _elicit(model: Model, messages: Sequence[ChatMessage], reply: str) -> ReplyLogprob:
    *history, last = messages
    request = last.model_copy(update={"content": ELICIT.format(request=last.text, reply=reply), "id": None})
    output = await generate(model, [*history, request])
    failure = failure_reason(output)
    numbers = re.findall(r"\d+(?:\.\d+)?", output.completion)
    if failure or len(numbers) != 1 or float(numbers[0]) > 100:
        return _unread(failure or f"No percentage in the reply {output.completion[:80]!r}.", "elicited")
    logprob = float(np.log(np.clip(float(numbers[0]) / 100, ELICITED_CLIP, 1 - ELICITED_CLIP)))
    return ReplyLogprob(logprob, 1, ((reply, logprob),), "elicited")


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
    """Send a request, which ends with `LETTERS`, in both forms, A = Yes and A = No. Two model calls of one token each.

    Returns the probabilities of A and B as JSON, for `token_belief`: those with A = Yes, then those with A = No. Or
    None and the reason: the model refused, or the conversation is longer than its context. If the model's provider
    gives no log-probabilities, the second form is not sent.
    """
    masses = []
    model, off = without_thinking(model)
    config = off.merge(first_token_config(model))
    *history, last = messages
    before, letters, after = last.text.rpartition(YES_FIRST)
    assert letters, "the last message must end with LETTERS"
    for form in (YES_FIRST, NO_FIRST):
        request = last.model_copy(update={"content": before + form + after, "id": None})
        output = await generate(model, [*history, request], config)
        failure = failure_reason(output)
        if failure:
            return None, failure
        masses.append([_mass(_first_tokens(output, model), letter) for letter in ("a", "b")])
    return json.dumps(masses), None


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
    """
    masses = np.array(json.loads(probabilities))
    log_odds = np.log(np.maximum(masses, MIN_PROBABILITY)) @ np.array([1, -1])
    mass = float(masses.sum(axis=1).min())
    belief = float(1 / (1 + np.exp(-(log_odds[0] - log_odds[1]) / 2)))
    return TokenBelief(belief if mass >= MIN_MASS else None, float(log_odds.sum()), mass)


def first_token_config(model: Model) -> GenerateConfig:
    """The settings with which a model gives the log-probabilities of its likeliest first tokens."""
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
            "provider does (docs/logprobs.md), with thinking off, or the stated belief: elicitor=self, or read=stated "
            "of brier, or of a given reply method=elicited"
        )
    return [(token.token, token.logprob) for token in first.top_logprobs]


def _mass(tokens: Sequence[tuple[str, float]], letter: str) -> float:
    return float(sum(np.exp(logprob) for token, logprob in tokens if token.strip(SPACE_MARKS).lower() == letter))

"""The negative log-likelihood (NLL) of a model's replies, in nats, and their number of tokens.

Inspect's `hf` provider logs the log-probability of the likeliest token instead of the sampled one, and counts each
reply as long as the longest of its batch. So a local model scores its own replies again, in the conversations of the
log, by teacher forcing (`models.logprobs.local`).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from truthgym.models.logprobs.local import token_logprobs
from truthgym.solvers.thoughts import with_opening_tag
from truthgym.training.files import write_atomically

if TYPE_CHECKING:
    from inspect_ai.event import ModelEvent
    from inspect_ai.log import EvalLog, EvalSample
    from inspect_ai.model import Model

REPLY_NLL_FILE = "reply_nll.json"
START_NLL_FILE = "start_nll.json"
"""The same replies, scored by the model that the loop started from."""
READ_BATCH = 32
"""Replies that are read before a forward pass: the default batch size of Inspect's hf."""
Reply = tuple[str, list[int], list[int]]
"""A sample's uuid, the prompt's tokens, the reply's tokens."""


class ReplyNLL(NamedTuple):
    """The sum over all replies of a sample."""

    nll: float | None
    """Negative log-likelihood in nats (natural logarithm), 0 or more. None if unknown."""
    tokens: int | None
    """None if unknown."""


def reply_events(sample: "EvalSample") -> "list[ModelEvent]":
    """The model calls whose replies are in a sample's conversation, which excludes those of scorers and judges."""
    from inspect_ai.event import ModelEvent

    ids = {message.id for message in sample.messages if message.role == "assistant"}
    calls = [event for event in sample.events if isinstance(event, ModelEvent) and not event.role]
    return [event for event in calls if event.output.choices and event.output.message.id in ids]


def logged_reply_nll(sample: "EvalSample") -> ReplyNLL:
    """The NLL from the log's log-probabilities, if they were requested, and the tokens as the provider counted them."""
    nll, tokens = 0.0, 0
    has_nll = has_tokens = bool(events := reply_events(sample))
    for event in events:
        logprobs = event.output.choices[0].logprobs
        has_nll = has_nll and logprobs is not None and not event.model.startswith("hf/")
        has_tokens = has_tokens and event.output.usage is not None and not event.model.startswith("hf/")
        nll -= sum(part.logprob for part in logprobs.content) if logprobs else 0.0
        tokens += event.output.usage.output_tokens if event.output.usage else 0
    return ReplyNLL(nll if has_nll else None, tokens if has_tokens else None)


def write_reply_nll(model: "Model", logs: "Sequence[EvalLog]", folder: Path, file: str = REPLY_NLL_FILE) -> None:
    """Score a local model's replies again and write the result into `reply_nll.json`.

    The distribution is the model's own, at temperature 1. The mean NLL of replies sampled at temperature 1 is an
    unbiased estimate of the entropy of an answer, except that a text which the model can write with different tokens
    counts only as the tokenizer splits it.
    """
    from inspect_ai.log import read_eval_log_samples

    sums: dict[str, list[float]] = {}
    for log in logs:
        batch: list[Reply] = []
        for sample in read_eval_log_samples(log.location, all_samples_required=False, resolve_attachments=True):
            batch += [(str(sample.uuid), *_tokenize(model, event)) for event in reply_events(sample)]
            if len(batch) >= READ_BATCH:
                _add_nll(model, batch, sums)
                batch = []
        _add_nll(model, batch, sums)
    write_atomically(folder / file, json.dumps(sums))


def has_reply_nll(folder: Path, file: str = REPLY_NLL_FILE) -> bool:
    """Whether `write_reply_nll` has finished in this folder."""
    return (folder / file).is_file()


def read_reply_nll(folder: Path, file: str = REPLY_NLL_FILE) -> dict[str, ReplyNLL]:
    """Read what `write_reply_nll` wrote, by the sample's uuid. Empty if there is no file."""
    if not has_reply_nll(folder, file):
        return {}
    sums = json.loads((folder / file).read_text(encoding="utf-8"))
    return {uuid: ReplyNLL(nll, int(tokens)) for uuid, (nll, tokens) in sums.items()}


def _tokenize(model: "Model", event: "ModelEvent") -> tuple[list[int], list[int]]:
    """The tokens of a call's prompt and of its reply, including the reply's end token unless it was cut off."""
    api: Any = model.api
    chat = api.hf_chat(event.input, event.tools)
    prompt = api.tokenizer(chat, **api.tokenizer_call_args)["input_ids"]
    text = event.output.completion.removeprefix(with_opening_tag("", chat))  # that tag is in the prompt already
    reply = api.tokenizer(text, add_special_tokens=False)["input_ids"]
    max_tokens = event.config.max_tokens
    return prompt, reply if max_tokens and len(reply) >= max_tokens else [*reply, api.tokenizer.eos_token_id]


def _add_nll(model: "Model", replies: Sequence[Reply], sums: dict[str, list[float]]) -> None:
    api: Any = model.api
    found = token_logprobs(api.model, [(prompt, reply) for _, prompt, reply in replies])
    for (uuid, _, reply), logprobs in zip(replies, found, strict=True):
        total = sums.setdefault(uuid, [0.0, 0])
        total[0], total[1] = total[0] - sum(logprobs), total[1] + len(reply)

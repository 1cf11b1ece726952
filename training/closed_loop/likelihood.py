"""How sure of its words a model was: the negative log-probability of what it said, and how many tokens that was.

Inspect's `hf` provider reports the log-probability of the likeliest token, not of the said one, and counts each answer
as long as the longest of its batch. So a local model is given its own answers once more, in the conversations that the
log holds: one pass through the model for each, and no sampling.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from inspect_ai.event import ModelEvent
    from inspect_ai.log import EvalLog, EvalSample
    from inspect_ai.model import Model

FILE = "said.json"
BATCH = 32
"""Replies that are read before a pass: as many as Inspect's hf asks at a time."""
POSITIONS = 4096
"""Tokens of one pass, padding included: with 150 000 words in a vocabulary, their logits take a gigabyte or two."""
Reply = tuple[str, list[int], list[int]]
"""A sample's uuid, the tokens that a reply was given after, and its own."""


class Said(NamedTuple):
    """Of all that a model said in a sample."""

    nats: float | None
    """Minus the log-probability, natural logarithm; 0 or more. None where it is not known."""
    tokens: int | None


def replies(sample: "EvalSample") -> "list[ModelEvent]":
    """The calls whose replies stand in a sample's conversation: no scorer's, no judge's."""
    from inspect_ai.event import ModelEvent

    kept = {message.id for message in sample.messages if message.role == "assistant"}
    calls = [event for event in sample.events if isinstance(event, ModelEvent) and not event.role]
    return [event for event in calls if event.output.choices and event.output.message.id in kept]


def said(sample: "EvalSample") -> Said:
    """What the log itself tells: log-probabilities where they were asked for, tokens as the provider counted them."""
    nats, tokens = 0.0, 0
    known = counted = bool(found := replies(sample))
    for event in found:
        logprobs = event.output.choices[0].logprobs
        known = known and logprobs is not None and not event.model.startswith("hf/")
        counted = counted and event.output.usage is not None and not event.model.startswith("hf/")
        nats -= sum(part.logprob for part in logprobs.content) if logprobs else 0.0
        tokens += event.output.usage.output_tokens if event.output.usage else 0
    return Said(nats if known else None, tokens if counted else None)


def measure(model: "Model", logs: "Sequence[EvalLog]", place: Path) -> None:
    """Give a local model its answers once more, and write what it makes of them beside their logs.

    The distribution is the model's own, at temperature 1. Summed over a sample's replies; its mean over what was
    sampled at temperature 1 is an unbiased estimate of the entropy of an answer, but for texts that the model can write
    in several ways: they are taken as the tokenizer cuts them.

    Args:
        model: Of Inspect's provider hf.
        logs: Headers of finished logs.
        place: Their folder, in which the file is written.
    """
    from inspect_ai.log import read_eval_log_samples

    told: dict[str, list[float]] = {}
    for log in logs:
        waiting: list[Reply] = []
        for sample in read_eval_log_samples(log.location, all_samples_required=False, resolve_attachments=True):
            for event in replies(sample):
                waiting.append((str(sample.uuid), *_tokens(model, event)))
            if len(waiting) >= BATCH:
                _pass(model, waiting, told)
                waiting = []
        _pass(model, waiting, told)
    beside = place / f".{FILE}.partial"
    beside.write_text(json.dumps(told), encoding="utf-8")
    beside.replace(place / FILE)


def is_measured(place: Path) -> bool:
    """Whether `measure` came to its end."""
    return (place / FILE).is_file()


def measured(place: Path) -> dict[str, Said]:
    """What `measure` has written, by the sample's uuid."""
    if not is_measured(place):
        return {}
    told = json.loads((place / FILE).read_text(encoding="utf-8"))
    return {uuid: Said(nats, int(tokens)) for uuid, (nats, tokens) in told.items()}


def _tokens(model: "Model", event: "ModelEvent") -> tuple[list[int], list[int]]:
    """The tokens that a reply was given after, and its own, with the token that ended it."""
    api: Any = model.api
    asked = api.tokenizer(api.hf_chat(event.input, event.tools), **api.tokenizer_call_args)["input_ids"]
    reply = api.tokenizer(event.output.completion, add_special_tokens=False)["input_ids"]
    most = event.config.max_tokens
    return asked, reply if most and len(reply) >= most else [*reply, api.tokenizer.eos_token_id]


def _pass(model: "Model", waiting: Sequence[Reply], told: dict[str, list[float]]) -> None:
    import torch

    api: Any = model.api
    for some in _passes(waiting):
        for uuid, nats, tokens in _nats(api.model, some, torch):
            held = told.setdefault(uuid, [0.0, 0])
            held[0], held[1] = held[0] + nats, held[1] + tokens


def _passes(waiting: Sequence[Reply]) -> Iterator[list[Reply]]:
    """Those that go through the model together: the shorter ones first."""
    some: list[Reply] = []
    for reply in sorted(waiting, key=_length):
        if some and (len(some) + 1) * _length(reply) > POSITIONS:
            yield some
            some = []
        some.append(reply)
    if some:
        yield some


def _length(reply: Reply) -> int:
    return len(reply[1]) + len(reply[2])


def _nats(
    network: Any,  # noqa: ANN401
    waiting: Sequence[Reply],
    torch: Any,  # noqa: ANN401
) -> Iterator[tuple[str, float, int]]:
    longest = max(map(_length, waiting))
    ids = torch.zeros((len(waiting), longest), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, (_, asked, reply) in enumerate(waiting):  # what follows a reply has no part in it
        ids[row, : len(asked) + len(reply)] = torch.tensor([*asked, *reply])
        mask[row, : len(asked) + len(reply)] = 1
    with torch.inference_mode():
        logits = network(input_ids=ids.to(network.device), attention_mask=mask.to(network.device)).logits
    for row, (uuid, asked, reply) in enumerate(waiting):
        begin, end = len(asked) - 1, len(asked) + len(reply) - 1
        logprobs = torch.log_softmax(logits[row, begin:end].float(), dim=-1)
        taken = logprobs.gather(1, torch.tensor(reply, device=logprobs.device)[:, None])
        yield uuid, -float(taken.sum()), len(reply)

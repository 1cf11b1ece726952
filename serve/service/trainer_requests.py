"""The requests of trainers as items, and the answers that they read.

Each sends the reply by itself, or behind its prompt: what a policy writes is never read as a template. Of OpenRLHF, a
prompt in a chat template is read as its messages; one in a template that is not known stays the text that it is.
"""

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from pydantic import BaseModel

from truthgym.serve.service.guard import Refusal, overloaded
from truthgym.serve.service.scoring import Item, Message, Result, Role

HEADER = re.compile(
    r"<\|im_start\|>(\w+)\n"  # ChatML: Qwen, SmolLM
    r"|<\|start_header_id\|>(\w+)<\|end_header_id\|>\n\n"  # Llama 3
    r"|<start_of_turn>(\w+)\n"  # Gemma
    r"|<\|(system|user|assistant)\|>\n?"  # Phi, Zephyr, truthgym's tiny model
)
"""Headers of messages in chat templates."""
BEGIN = ("", "<|begin_of_text|>", "<bos>", "<s>")
"""What may stand before the first header."""
ENDS = (
    *("<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>"),
    *("</s>", "<eos>", "<pad>"),
)
"""Special tokens behind a message or a reply."""
END = re.compile("(?:\\s|" + "|".join(re.escape(token[::-1]) for token in ENDS) + ")+")
"""The end of a text, read backwards."""
ROLES: dict[str, Role] = {
    **{"system": "system", "user": "user", "assistant": "assistant"},
    **{"developer": "system", "model": "assistant", "human": "user", "tool": "user", "ipython": "user"},
}


class OpenRLHFRequest(BaseModel, extra="ignore"):
    """Of `--remote_rm_url`: `query` is the prompt with the reply."""

    query: list[str]
    prompts: list[str]
    labels: list[str | int | float | None] = []


class SlimeRequest(BaseModel, extra="ignore"):
    """Of `--rm-type remote_rm`."""

    prompt: str | list[Message]
    response: str
    label: str | int | float | None = None


def conversation(prompt: str) -> list[Message]:
    """The messages of a prompt in one of the known chat templates; [] for another text."""
    headers = list(HEADER.finditer(prompt))
    if not headers or prompt[: headers[0].start()].strip() not in BEGIN:
        return []
    messages = []
    for header, following in zip_longest(headers, headers[1:]):
        role = ROLES.get(next(filter(None, header.groups())))
        if role is None:
            return []
        content = without_end(prompt[header.end() : following.start() if following else len(prompt)])
        if content or role != "assistant":  # the header of the reply, which is not part of the prompt
            messages.append(Message(role=role, content=content))
    return messages


def without_end(text: str) -> str:
    """A text without the special tokens and spaces behind it, in time that is linear in its length."""
    behind = END.match(text[::-1])
    return text[: len(text) - behind.end()] if behind else text


def openrlhf_items(request: OpenRLHFRequest) -> list[Item]:
    """The items of OpenRLHF's request. With several servers, all but one get empty lists."""
    labels = request.labels or [None] * len(request.query)
    if not len(request.query) == len(request.prompts) == len(labels):
        raise Refusal(422, "lengths_differ", "query, prompts and labels must have the same length.")
    items = []
    for query, prompt, label in zip(request.query, request.prompts, labels, strict=True):
        if not query.startswith(prompt):
            raise Refusal(
                422, "no_prefix", "A query does not begin with its prompt; send the prompt as it was templated."
            )
        items.append(_item(conversation(prompt) or prompt, query[len(prompt) :], label))
    return items


def slime_item(request: SlimeRequest) -> Item:
    return _item(request.prompt, request.response, request.label)


def _item(prompt: str | list[Message], response: str, label: object) -> Item:
    return Item(prompt=prompt, response=without_end(response), target="" if label is None else str(label))


def rewards(results: Sequence[Result]) -> list[float]:
    """The rewards, for an answer that has no place for a failure."""
    failed = [result for result in results if result.reward is None]
    if any(result.retryable for result in failed):
        raise overloaded("An item could not be scored yet; send the request again.")
    if failed:
        raise Refusal(422, failed[0].code or "no_reward", failed[0].reason or "An item has no reward.")
    return [result.reward for result in results if result.reward is not None]


def openrlhf_answer(results: Sequence[Result]) -> dict[str, Any]:
    values = rewards(results)
    return {"rewards": values, "scores": values, "extra_logs": {}}

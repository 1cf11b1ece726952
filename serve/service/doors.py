"""The requests of trainers as items, and the answers that they read.

OpenRLHF and verl send a prompt and its reply as one text in the model's chat template. The templates that are known
here mark each message by a token; a text in another template is refused, not guessed at.
"""

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from truthgym.serve.service.limits import Refusal, overloaded
from truthgym.serve.service.scoring import Item, Message, Result, Role

TEMPLATES = tuple(
    (re.compile(header), re.compile(end))
    for header, end in (
        (r"<\|im_start\|>(\w+)\n", r"<\|im_end\|>\n?"),  # ChatML: Qwen, SmolLM
        (r"<\|start_header_id\|>(\w+)<\|end_header_id\|>\n\n", r"<\|eot_id\|>"),  # Llama 3
        (r"<start_of_turn>(\w+)\n", r"<end_of_turn>\n?"),  # Gemma
        # Phi, Zephyr, truthgym's tiny model
        (r"<\|(system|user|assistant)\|>\n?", r"<\|end\|>\n?|</s>\n?|(?=<\|(?:user|assistant|system)\|>)"),
    )
)
"""Chat templates: the header of a message, and what ends it. The end of the text ends the last one."""
BEGIN = re.compile(r"\s*(?:<\|begin_of_text\|>|<bos>|<s>)?\s*")
MARKER = re.compile(
    r"<\|(?:im_start|im_end|start_header_id|end_header_id|eot_id|system|user|assistant|end)\|>"
    r"|<(?:start|end)_of_turn>"
)
"""Tokens of all the templates. A message holds none of them: a reply that does would pass for other messages."""
ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end|>",
    "<end_of_turn>",
    "</s>",
    "<eos>",
    "<pad>",
)
"""Special tokens behind a reply."""
ROLES: dict[str, Role] = {
    **{"system": "system", "user": "user", "assistant": "assistant"},
    **{"developer": "system", "model": "assistant", "human": "user", "tool": "user", "ipython": "user"},
}


class OpenRLHFRequest(BaseModel, extra="ignore"):
    """Of `--remote_rm_url`: `query` is the prompt with the reply."""

    query: list[str]
    prompts: list[str]
    labels: list[str | int | float | None] = []


class VerlRequest(BaseModel, extra="ignore"):
    """Of verl's discriminative reward model: one conversation in a chat template, or several."""

    input: str | list[str]
    model: str = ""


class SlimeRequest(BaseModel, extra="ignore"):
    """Of `--rm-type remote_rm`."""

    prompt: str | list[Message]
    response: str
    label: str | int | float | None = None


def conversation(text: str) -> list[Message]:
    """The messages of a text in one of the known chat templates, the one in whose header it begins."""
    begin = BEGIN.match(text)
    place = begin.end() if begin else 0
    template = next((one for one in TEMPLATES if one[0].match(text, place)), None)
    messages: list[Message] = []
    while template and place < len(text):
        head = template[0].match(text, place)
        if head is None and not without_end(text[place:]):
            break
        if head is None or (role := ROLES.get(head[1])) is None:
            return []
        end = template[1].search(text, head.end())
        content = text[head.end() : end.start() if end else len(text)]
        if MARKER.search(content):
            return []
        messages.append(Message(role=role, content=without_end(content)))
        place = end.end() if end else len(text)
    return messages


def without_end(text: str) -> str:
    """A reply without the special tokens and spaces behind it. Linear in its length, unlike a regular expression."""
    end = -1
    while end != len(text):
        end = len(text)
        text = text.rstrip()
        for token in ENDS:
            text = text.removesuffix(token)
    return text


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
        response = without_end(query[len(prompt) :])
        messages = [one for one in conversation(prompt) if one.content.strip() or one.role != "assistant"]
        items.append(Item(prompt=messages or prompt, response=response, target="" if label is None else str(label)))
    return items


def verl_items(request: VerlRequest) -> list[Item]:
    """The items of verl's request: the last message of each conversation is the reply, and the only one.

    The reply is part of the text. One that writes the tokens of a further message cannot be told from a prompt of
    several turns, and both are refused: otherwise it would choose the question that is judged.
    """
    items = []
    for text in [request.input] if isinstance(request.input, str) else request.input:
        messages = conversation(text)
        roles = [message.role for message in messages]
        if len(roles) < 2 or roles[-1] != "assistant" or roles.count("assistant") > 1:
            known = "ChatML, Llama 3, Gemma, or <|user|>...<|assistant|>"
            raise Refusal(
                422,
                "no_template",
                f"An input is not a conversation with a single reply at its end, in {known}, without their tokens in a "
                "message; use truthgym.serve.client.compute_score, which sends the reply by itself.",
            )
        items.append(Item(prompt=messages[:-1], response=messages[-1].content))
    return items


def slime_item(request: SlimeRequest) -> Item:
    return Item(
        prompt=request.prompt,
        response=without_end(request.response),
        target="" if request.label is None else str(request.label),
    )


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


def classify_answer(results: Sequence[Result], model: str) -> dict[str, Any]:
    data = [{"index": i, "label": "reward", "probs": [one], "num_classes": 1} for i, one in enumerate(rewards(results))]
    return {"object": "list", "model": model, "data": data}


def embeddings_answer(results: Sequence[Result], model: str) -> dict[str, Any]:
    data = [{"object": "embedding", "index": i, "embedding": [one]} for i, one in enumerate(rewards(results))]
    return {"object": "list", "model": model, "data": data}

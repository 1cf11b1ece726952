"""The requests of trainers as items, and the answers that they read.

OpenRLHF and verl send a prompt and its reply as one text in the model's chat template. The templates that are known
here mark each message by a token; a text in another template is refused, not guessed at.
"""

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from truthgym.serve.service.limits import Refusal, overloaded
from truthgym.serve.service.scoring import Item, Message, Result

TEMPLATES = (
    re.compile(r"<\|im_start\|>(?P<role>\w+)\n(?P<text>.*?)(?:<\|im_end\|>\n?|\Z)", re.DOTALL),  # ChatML: Qwen, SmolLM
    re.compile(r"<\|start_header_id\|>(?P<role>\w+)<\|end_header_id\|>\n\n(?P<text>.*?)(?:<\|eot_id\|>|\Z)", re.DOTALL),
    re.compile(r"<start_of_turn>(?P<role>\w+)\n(?P<text>.*?)(?:<end_of_turn>\n?|\Z)", re.DOTALL),  # Gemma
    re.compile(r"<\|(?P<role>system|user|assistant)\|>\n?(?P<text>.*?)(?:<\|end\|>\n?|</s>\n?|(?=<\|(?:user|assistant|system)\|>)|\Z)",
               re.DOTALL),  # Phi, Zephyr, truthgym's tiny model
)  # fmt: skip
"""Chat templates, as patterns of one message."""
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
ROLES = {"model": "assistant", "human": "user", "tool": "user"}


class OpenRLHFRequest(BaseModel, extra="ignore"):
    """Of `--remote_rm_url`: `query` is the prompt with the reply."""

    query: list[str]
    prompts: list[str]
    labels: list[str | None] = []


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
    """The messages of a text in one of the known chat templates; empty if it is in none of them."""
    for template in TEMPLATES:
        found = [(match["role"], match["text"]) for match in template.finditer(text)]
        if found:
            return [
                Message.model_validate({"role": ROLES.get(role, role), "content": without_end(content)})
                for role, content in found
                if ROLES.get(role, role) in ("system", "user", "assistant")
            ]
    return []


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
    """The items of OpenRLHF's request. With several servers, all but one get empty lists.

    Raises:
        Refusal: The lists differ in length, or a query does not begin with its prompt.
    """
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
        items.append(Item(prompt=messages or prompt, response=response, target=label or ""))
    return items


def verl_items(request: VerlRequest) -> list[Item]:
    """The items of verl's request: the last message of each conversation is the reply.

    Raises:
        Refusal: A text is in no known template, or does not end with a reply.
    """
    items = []
    for text in [request.input] if isinstance(request.input, str) else request.input:
        messages = conversation(text)
        if len(messages) < 2 or messages[-1].role != "assistant":
            known = "ChatML, Llama 3, Gemma, or <|user|>...<|assistant|>"
            raise Refusal(422, "no_template", f"An input is not a conversation that ends with a reply, in {known}.")
        items.append(Item(prompt=messages[:-1], response=messages[-1].content))
    return items


def slime_item(request: SlimeRequest) -> Item:
    return Item(
        prompt=request.prompt,
        response=without_end(request.response),
        target="" if request.label is None else str(request.label),
    )


def rewards(results: Sequence[Result]) -> list[float]:
    """The rewards, for an answer that has no place for a failure.

    Raises:
        Refusal: One of them has none: 503 if trying again may help, which is cheap since the others are kept; else 422.
    """
    failed = [result for result in results if result.reward is None]
    if any(result.retryable for result in failed):
        raise overloaded("An item could not be scored yet; send the request again.")
    if failed:
        raise Refusal(422, failed[0].code or "no_reward", failed[0].reason or "An item has no reward.")
    return [result.reward for result in results if result.reward is not None]


def openrlhf_answer(results: Sequence[Result]) -> dict[str, Any]:
    given = rewards(results)
    return {"rewards": given, "scores": given, "extra_logs": {}}


def classify_answer(results: Sequence[Result], model: str) -> dict[str, Any]:
    data = [{"index": i, "label": "reward", "probs": [one], "num_classes": 1} for i, one in enumerate(rewards(results))]
    return {"object": "list", "model": model, "data": data}


def embeddings_answer(results: Sequence[Result], model: str) -> dict[str, Any]:
    data = [{"object": "embedding", "index": i, "embedding": [one]} for i, one in enumerate(rewards(results))]
    return {"object": "list", "model": model, "data": data}

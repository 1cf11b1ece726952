"""What trainers and the scorer of reward models do alike: how a conversation becomes tokens, and what is noted."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from inspect_ai.model import ChatMessage
    from transformers import PreTrainedTokenizerBase

STEP = "<|step|>"
"""The special token at the end of a step. Ordinary text never contains it, so no step ends early."""
NOTE = "truthgym"
"""Key of a model's configuration: what the scorer must know of its training."""
Split = Literal["messages", "lines"]
"""What a step is: each reply of the conversation, or each line of each reply that is not empty."""


def steps_of(
    conversation: "Sequence[ChatMessage]", start: int = 0, split: Split = "messages"
) -> "tuple[list[ChatMessage], list[str]]":
    """The messages before the first step, and the text of each step, as `truthgym convert --to steps` writes them."""
    from truthgym.solvers.thoughts import split_thought

    first = next((i for i in range(start, len(conversation)) if conversation[i].role == "assistant"), None)
    steps: list[str] = []
    if first is None:
        return list(conversation), steps
    before: list[str] = []
    for message in conversation[first:]:
        is_step = message.role == "assistant"
        text = (split_thought(message.text)[1] or "") if is_step else message.text
        if not is_step:
            before.append(text)
        elif split == "messages":
            steps.append("\n\n".join(part for part in [*before, text] if part))
        else:
            lines = [line for line in text.splitlines() if line.strip()]
            steps += ["\n\n".join([*before, line]) if not i else line for i, line in enumerate(lines)]
        if is_step:
            before = []
    return list(conversation[:first]), steps


def as_message(message: "ChatMessage") -> dict[str, Any]:
    """A message as chat templates read it, with its tool calls."""
    calls = message.tool_calls if message.role == "assistant" else None
    called = [{"type": "function", "function": {"name": call.function, "arguments": call.arguments}}
              for call in calls or []]  # fmt: skip
    return {"role": message.role, "content": message.text} | ({"tool_calls": called} if called else {})


def encode_steps(
    prompt: str | Sequence[Mapping[str, Any]], steps: Sequence[str], tokenizer: "PreTrainedTokenizerBase"
) -> tuple[list[int], list[int]]:
    """The tokens of a prompt and its steps, each step with `<|step|>` at its end."""
    if isinstance(prompt, str):
        ids = list(tokenizer(prompt)["input_ids"])
    else:
        ids = list(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=False))
    end, places = tokenizer.convert_tokens_to_ids(STEP), []
    for step in steps:
        ids += [*tokenizer(step, add_special_tokens=False)["input_ids"], end]
        places.append(len(ids) - 1)
    return ids, places


def note_for_scoring(config: Any, tokenizer: "PreTrainedTokenizerBase", **facts: Any) -> None:  # noqa: ANN401
    """Write into a model's configuration what `Member` reads: its tokenizer's vocabulary, and `facts`."""
    setattr(config, NOTE, {"vocabulary": vocabulary_hash(tokenizer), **facts})


def vocabulary_hash(tokenizer: "PreTrainedTokenizerBase") -> str:
    """Identifies a tokenizer's vocabulary."""
    return sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()[:16]

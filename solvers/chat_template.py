"""Chat templates: what they leave out or refuse, and conversations in the shape that they take."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Messages = Sequence[Mapping[str, Any]]
THOUGHT_END = "</think>"
REMEDY = "put another chat template into the model's folder as chat_template.jinja, or take another model"

JOIN = """\
{%- set shaped = namespace(turns=[]) -%}
{%- for message in messages -%}
{%- set role = ROLE -%}
{%- set last = shaped.turns[-1] if shaped.turns else {} -%}
{%- if role in ('user', 'assistant') and role == last.role and message.content is string and last.content is string
    and not message.tool_calls and not last.tool_calls -%}
{%- set shaped.turns = shaped.turns[:-1] + [dict(last, content=last.content ~ '\\n\\n' ~ message.content)] -%}
{%- else -%}
{%- set shaped.turns = shaped.turns + [dict(message, role=role)] -%}
{%- endif -%}
{%- endfor -%}
"""
"""Joins messages of one role in a row. `ROLE` is the role of a message, or "user" for one of the system, too."""
PARTS = """\
{%- set whole = shaped.turns -%}
{%- set shaped.turns = [] -%}
{%- for message in whole -%}
{%- set text = message.content if message.content is string else '' -%}
{%- set shaped.turns = shaped.turns + [dict(message, content=[{'type': 'text', 'text': text}])] -%}
{%- endfor -%}
"""
"""Makes a plain text a list of one text."""
SHAPED = "{%- set messages = shaped.turns -%}\n"
OWN, FOLDED = "message.role", "'user' if message.role == 'system' else message.role"
FRONTS = ("", *(JOIN.replace("ROLE", role) + parts + SHAPED for parts in ("", PARTS) for role in (OWN, FOLDED)))
"""What can stand in front of a template, the least change first."""

SYSTEM = {"role": "system", "content": "Follow the rule of seven."}
TALK = [
    {"role": "user", "content": "Which river is it?"},
    {"role": "assistant", "content": "A long one."},
    {"role": "user", "content": "Are you sure of that?"},
    {"role": "assistant", "content": "Fairly."},
]
TALKS: tuple[Messages, ...] = (TALK, [SYSTEM, *TALK], [*TALK[::2], *TALK[1::2]])
"""Without and with a system message, and with two messages of one role in a row."""


def fit(tokenizer: "PreTrainedTokenizerBase", template: Any) -> Any:  # noqa: ANN401 (named variants are a dict)
    """A chat template that takes a system message and messages of one role in a row, as far as lines in front help."""

    def refused(front: str) -> int:
        return sum(problem(tokenizer, talk, front + template) is not None for talk in TALKS)

    if not isinstance(template, str) or not refused(""):
        return template
    return min(FRONTS, key=refused) + template


def problem(
    tokenizer: "PreTrainedTokenizerBase", messages: Messages, template: str | None = None, **options: Any
) -> str | None:
    """What a chat template refuses or leaves out of a conversation; None if it writes all of it."""

    def render(messages: Messages) -> str:
        shaped = [dict(message) for message in messages]
        return str(tokenizer.apply_chat_template(shaped, chat_template=template, tokenize=False, **options))

    try:
        text = render(messages)
    except Exception as error:  # what a template does with a shape that it does not expect
        return f"refuses it ({type(error).__name__}: {error})"
    for message in messages:
        content = message.get("content")
        if message["role"] != "tool" and isinstance(content, str):
            words = content.rpartition(THOUGHT_END)[2].strip()
            if words and words not in text:
                return f"leaves out the message {words[:40]!r} of the role {message['role']}"
    if any(message.get("tool_calls") for message in messages):
        silent = [{key: value for key, value in m.items() if key != "tool_calls"} for m in messages]
        try:
            if render(silent) == text:
                return "leaves out calls of tools"
        except Exception:
            pass
    return None

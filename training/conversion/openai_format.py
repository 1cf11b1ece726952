"""Converts rows to the JSON formats of fine-tuning at OpenAI. Together uses the first two formats as well.

Sources: OpenAI's guides on supervised fine-tuning, direct preference optimization and reinforcement fine-tuning, and
the types of its Python package, as of November 2026.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from truthgym.evallog.errors import bad_input

Row = Mapping[str, Any]

ROLES = ("system", "developer", "user", "assistant", "tool")
MESSAGE_KEYS = ("role", "content", "name", "refusal", "weight", "tool_calls", "tool_call_id")
"""Keys of a message that providers accept. Others are dropped."""
REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")
"""Keys under which chat templates look for reasoning. No provider trains on them."""
TRACE = ("log", "eval_id", "task", "sample_id", "sample_uuid", "epoch", "model", "solver", "score", "split")
"""Columns that trace a row to its log. They are not sent to the provider."""
OUTCOME_COLUMNS = ("scores", "aligned", "stop_reason", "truncated", "limit", "error")
"""Columns about the outcome of an earlier answer. They are not properties of the question."""
CONVERSATION_COLUMNS = ("prompt", "completion", "messages", "chosen", "rejected", "images", "tools")


def supervised(row: Row, where: str = "the row") -> dict[str, Any]:
    """Make a line for supervised fine-tuning: `{"messages": [...], "tools"?, "parallel_tool_calls"?}`."""
    if "messages" in row:
        messages = conversation(_list(row, "messages", where), where, _images(row))
    else:
        prompt = [{"weight": 0, **message} for message in _list(row, "prompt", where)]
        messages = conversation([*prompt, *_list(row, "completion", where)], where, _images(row))
    trained = any(message["role"] == "assistant" and message.get("weight", 1) for message in messages)
    if not trained or messages[-1]["role"] != "assistant":
        raise bad_input(
            f"{where}: it does not end with an assistant message, or all of them have weight 0; remove the row"
        )
    return {"messages": messages, **_tools(row)}


def preference(row: Row, where: str = "the row") -> dict[str, Any]:
    """Make a line for preference fine-tuning, with one assistant message preferred to another."""
    images = _images(row)
    messages = conversation(_list(row, "prompt", where), where, images)
    if not messages or messages[-1]["role"] not in ("user", "tool"):
        raise bad_input(f"{where}: the prompt does not end with a user or tool message to answer; remove the row")
    answers = []
    for field in ("chosen", "rejected"):
        replies = conversation(_list(row, field, where), f"{where}, {field}", images)
        if len(replies) != 1 or replies[0]["role"] != "assistant" or not replies[0].get("content"):
            raise bad_input(
                f"{where}: {field} is not a single assistant message with text, which providers compare; make pairs "
                "of last answers"
            )
        answers.append([_unweighted(replies[0])])
    if answers[0] == answers[1]:
        raise bad_input(f"{where}: chosen and rejected are the same; remove the row")
    tools = {"tools": [], "parallel_tool_calls": True} | _tools(row)
    return {
        "input": {"messages": [_unweighted(message) for message in messages], **tools},
        "preferred_output": answers[0],
        "non_preferred_output": answers[1],
    }


def reinforcement(row: Row, where: str = "the row") -> dict[str, Any]:
    """Make a line for reinforcement fine-tuning: the prompt, and the fields that a grader finds under `item`.

    They are those of `truthgym.scorers.graders.grader.item_fields`. The model does not see them.
    """
    prompt = conversation(_list(row, "prompt", where), where, _images(row))
    # Reinforcement fine-tuning is for reasoning models, which have developer messages instead of system messages.
    roles = {"system": "developer"}
    messages = [_unweighted(message) | {"role": roles.get(message["role"], message["role"])} for message in prompt]
    if not messages or messages[-1]["role"] != "user":
        raise bad_input(f"{where}: the prompt does not end with a user message; remove the row")
    question = messages[-1]["content"]
    item: dict[str, Any] = {"question": question, "input": question} if isinstance(question, str) else {}
    if row.get("target"):
        item |= {"target": row["target"], "reference_answer": row["target"]}
    if row.get("sample_id") is not None:
        item["id"] = str(row["sample_id"])
    for name, value in row.items():
        excluded = name in (*TRACE, *OUTCOME_COLUMNS, *CONVERSATION_COLUMNS) or (name == "target" and value == "")
        if value is not None and not excluded:
            item[name] = value
    return {**item, "messages": messages, **_tools(row)}


def conversation(
    messages: Iterable[Row], where: str = "the row", images: Iterator[str] | None = None
) -> list[dict[str, Any]]:
    """Convert messages from TRL's format to that of OpenAI's chat API."""
    converted: list[dict[str, Any]] = []
    unanswered: list[str] = []  # ids of tool calls
    for place, message in enumerate(messages, start=1):
        at = f"{where}, message {place}"
        kept = {key: value for key, value in message.items() if key in MESSAGE_KEYS and value is not None}
        role = kept.get("role")
        if calls := kept.pop("tool_calls", None):
            kept["tool_calls"] = [_tool_call(call, f"call_{place}_{i}", at) for i, call in enumerate(calls)]
            unanswered = [call["id"] for call in kept["tool_calls"]]
        if role == "tool" and "tool_call_id" not in kept and unanswered:
            kept["tool_call_id"] = unanswered.pop(0)
        if problem := _problem(message, kept):
            raise bad_input(f"{at}: {problem}")
        if role == "tool":
            kept.pop("name", None)  # the call has the name
        if role != "assistant":
            kept.pop("weight", None)
        if "content" in kept:
            kept["content"] = _content(kept["content"], at, images or iter(()))
        converted.append(kept)
    return converted


def _problem(message: Row, kept: Row) -> str | None:
    """Why the API does not accept a message, and the remedy."""
    reasoning = next((key for key in REASONING_KEYS if message.get(key)), None)
    if kept.get("role") not in ROLES:
        return f"unknown role {kept.get('role')!r}; use one of {', '.join(ROLES)}"
    if reasoning:
        return (
            f"providers do not accept {reasoning}; convert the logs again with --reasoning keep (reasoning in the "
            "text) or drop"
        )
    if kept["role"] == "tool" and "tool_call_id" not in kept:
        return "a tool message without a tool call before it; remove the row"
    if not ({"content", "tool_calls"} & {*kept} or kept.get("refusal")):
        return "it has no content; remove the row"
    return None


def _content(content: object, at: str, images: Iterator[str]) -> object:
    if isinstance(content, str):
        return content
    parts: list[dict[str, Any]] = []
    for part in content if isinstance(content, list) else [None]:
        part = part if isinstance(part, Mapping) else {}
        kind = part.get("type")
        image = (part.get("image") or part.get("url") or next(images, None)) if kind == "image" else None
        if kind == "text":
            parts.append({"type": "text", "text": part["text"]})
        elif kind == "image_url":
            parts.append({"type": kind, kind: part[kind]})
        elif isinstance(image, str) and image.startswith(("data:", "http://", "https://")):
            parts.append({"type": "image_url", "image_url": {"url": image}})
        else:
            raise bad_input(
                f"{at}: content of type {kind!r} is not accepted; use text, or images as data URIs in the message"
            )
    # Most models accept text only as a string.
    return "\n\n".join(part["text"] for part in parts) if all(part["type"] == "text" for part in parts) else parts


def _tool_call(call: Row, default_id: str, at: str) -> dict[str, Any]:
    function = call.get("function", call) if isinstance(call, Mapping) else call
    if not isinstance(function, Mapping) or not function.get("name"):
        raise bad_input(f"{at}: the tool call {str(function)[:80]} has no function name; add it, or remove the row")
    arguments = function.get("arguments") or {}
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    named = {"name": function["name"], "arguments": text}
    return {"id": call.get("id") or default_id, "type": "function", "function": named}


def _tools(row: Row) -> dict[str, Any]:
    tools = row.get("tools")
    if isinstance(tools, str):
        tools = json.loads(tools or "[]")
    if not tools:
        return {}
    schemas = [tool if "function" in tool else {"type": "function", "function": tool} for tool in tools]
    parallel = row.get("parallel_tool_calls")
    return {"tools": schemas} | ({} if parallel is None else {"parallel_tool_calls": parallel})


def _images(row: Row) -> Iterator[str]:
    """The images of a row's column `images`, as data URIs. Images of a .parquet file are decoded, and are skipped."""
    return iter([image for image in row.get("images") or [] if isinstance(image, str)])


def _unweighted(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "weight"}


def _list(row: Row, field: str, where: str) -> list[Row]:
    messages = row.get(field)
    if not isinstance(messages, list) or not all(isinstance(message, Mapping) for message in messages):
        raise bad_input(
            f"{where}: {field} is not a list of messages (columns: {', '.join(row) or 'none'}); convert the logs again"
        )
    return messages

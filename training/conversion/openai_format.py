"""Rows of a converted dataset in the shapes that fine-tuning at OpenAI takes. Together takes the first two as well.

Sources: OpenAI's guides on supervised fine-tuning, direct preference optimization and reinforcement fine-tuning, and
the types of its package. Read in November 2026.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from truthgym.evallog.errors import bad_input

Row = Mapping[str, Any]

ROLES = ("system", "developer", "user", "assistant", "tool")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What a participant, a tool or a suffix may be called."""
KEPT = ("role", "content", "name", "refusal", "weight", "tool_calls", "tool_call_id")
"""Of a message. What else a message holds besides, no vendor takes."""
THOUGHT = ("reasoning_content", "thinking", "reasoning")
"""Where templates look for reasoning. No vendor trains on it in such a field."""
TRACE = ("log", "eval_id", "task", "sample_id", "sample_uuid", "epoch", "model", "solver", "score", "split")
"""Columns that trace a row to its log. They stay here: a log's path is nobody else's business."""
OUTCOME = ("scores", "aligned", "stop_reason", "truncated", "limit", "error")
"""Columns that say what became of an earlier answer, which is no fact of the question."""
TURNS = ("prompt", "completion", "messages", "chosen", "rejected", "images", "tools")


def supervised(row: Row, where: str = "the row") -> dict[str, Any]:
    """Make a line for supervised fine-tuning: `{"messages": [...], "tools"?, "parallel_tool_calls"?}`.

    Assistant messages of a `prompt` are context: they get weight 0. Those of a `completion`, and of `messages` that
    carry no weight of their own, are trained on.

    Args:
        row: `prompt` and `completion`, or `messages`; `tools` besides.
        where: The place to name in an error.

    Raises:
        BadInput: It holds something that cannot be sent.
    """
    if "messages" in row:
        messages = conversation(_list(row, "messages", where), where, _images(row))
    else:
        prompt = [{"weight": 0, **message} for message in _list(row, "prompt", where)]
        messages = conversation([*prompt, *_list(row, "completion", where)], where, _images(row))
    written = [message for message in messages if message["role"] == "assistant"]
    if not written or messages[-1]["role"] != "assistant":
        raise bad_input(f"{where}: it does not end with an assistant's message; supervised fine-tuning needs one")
    if not any(message.get("weight", 1) for message in written):
        raise bad_input(f"{where}: no message is to be trained on (all weights are 0); leave the row out")
    return {"messages": messages, **_tools(row, where)}


def preference(row: Row, where: str = "the row") -> dict[str, Any]:
    """Make a line for preference fine-tuning, with one assistant's message preferred to another.

    Shape: `{"input": {"messages", "tools", "parallel_tool_calls"}, "preferred_output", "non_preferred_output"}`.

    Args:
        row: `prompt`, `chosen` and `rejected`; `tools` besides. Weights and the margin are not sent: there is no
            field for them.
        where: The place to name in an error.

    Raises:
        BadInput: It holds something that cannot be sent.
    """
    images = _images(row)
    messages = conversation(_list(row, "prompt", where), where, images)
    if not messages or messages[-1]["role"] not in ("user", "tool"):
        raise bad_input(f"{where}: the prompt does not end with a user's message; a preference needs one to answer")
    answers = []
    for field in ("chosen", "rejected"):
        found = conversation(_list(row, field, where), f"{where}, {field}", images)
        if len(found) != 1 or found[0]["role"] != "assistant" or not found[0].get("content"):
            raise bad_input(
                f"{where}: {field} is not one assistant's message with text; vendors compare single answers, so make "
                "pairs of last answers"
            )
        answers.append([_unweighted(found[0])])
    if answers[0] == answers[1]:
        raise bad_input(f"{where}: chosen and rejected are the same; leave the row out")
    held = {"tools": [], "parallel_tool_calls": True} | _tools(row, where)
    return {
        "input": {"messages": [_unweighted(message) for message in messages], **held},
        "preferred_output": answers[0],
        "non_preferred_output": answers[1],
    }


def reinforcement(row: Row, where: str = "the row", fields: Iterable[str] | None = None) -> dict[str, Any]:
    """Make a line for reinforcement fine-tuning: the prompt, and beside it what a grader finds under `item`.

    `item` names are those that graders here know (`truthgym.scorers.graders.grader.item_fields`): `target` and
    `reference_answer` where the truth is known, `question` and `input` (the last user's message, unless a column says
    otherwise), `id`, and the question's own fields. The model sees none of them.

    Args:
        row: `prompt` and `target`, with the question's fields as columns.
        where: The place to name in an error.
        fields: Columns that become fields. None is all but those that trace the row to its log.

    Raises:
        BadInput: It holds something that cannot be sent.
    """
    asked_in = conversation(_list(row, "prompt", where), where, _images(row))
    # The models that are trained so reason, and such models take a developer's messages for a system's.
    roles = {"system": "developer"}
    messages = [_unweighted(message) | {"role": roles.get(message["role"], message["role"])} for message in asked_in]
    if not messages or messages[-1]["role"] != "user":
        raise bad_input(f"{where}: the prompt does not end with a user's message; reinforcement fine-tuning needs one")
    asked = messages[-1]["content"]
    item: dict[str, Any] = {"question": asked, "input": asked} if isinstance(asked, str) else {}
    if row.get("target"):
        item |= {"target": row["target"], "reference_answer": row["target"]}
    if row.get("sample_id") is not None:
        item["id"] = str(row["sample_id"])
    wanted = [name for name in row if name not in (*TRACE, *OUTCOME, *TURNS)] if fields is None else list(fields)
    for name in wanted:
        value = row.get(name)
        if value is not None and not (name == "target" and value == ""):
            item[name] = value
    return {**item, "messages": messages, **_tools(row, where)}


def conversation(
    messages: Iterable[Row], where: str = "the row", images: Iterator[str] | None = None
) -> list[dict[str, Any]]:
    """Bring messages as TRL reads them into the form of OpenAI's chat API.

    Tool calls get their arguments as JSON text and an id, which the tool's message after them names. Images take the
    places that are kept for them.

    Args:
        messages: As a row holds them.
        where: The place to name in an error.
        images: Data URIs of those that do not stand in the messages.

    Raises:
        BadInput: A role or name that there is not, a message without content, reasoning in a field of its own, an
            image that is not in the message.
    """
    made: list[dict[str, Any]] = []
    waiting: list[str] = []
    for place, message in enumerate(messages, start=1):
        at = f"{where}, message {place}"
        kept = {key: value for key, value in message.items() if key in KEPT and value is not None}
        role = kept.get("role")
        if role not in ROLES:
            raise bad_input(f"{at}: there is no role {role!r}; the roles are {', '.join(ROLES)}")
        for key in THOUGHT:
            if message.get(key):
                raise bad_input(
                    f"{at}: its {key} cannot be sent in a field of its own; convert with the reasoning in the text or "
                    "left out"
                )
        if "name" in kept and not NAME.fullmatch(str(kept["name"])):
            raise bad_input(f"{at}: the name {kept['name']!r} cannot be sent; use letters, digits, - and _, at most 64")
        if kept.pop("tool_calls", None):
            kept["tool_calls"] = [
                _tool_call(call, f"call_{place}_{index}", at) for index, call in enumerate(message["tool_calls"])
            ]
            waiting = [call["id"] for call in kept["tool_calls"]]
        if role == "tool" and "tool_call_id" not in kept:
            if not waiting:
                raise bad_input(f"{at}: a tool answers where nothing was asked of it; leave the row out")
            kept["tool_call_id"] = waiting.pop(0)
        if role == "tool":
            kept.pop("name", None)  # the call has it
        if role != "assistant":
            kept.pop("weight", None)
        elif kept.get("weight", 1) not in (0, 1):
            raise bad_input(f"{at}: weight={kept['weight']!r} cannot be sent; it is 0 or 1")
        if "content" in kept:
            kept["content"] = _content(kept["content"], at, images or iter(()))
        elif not kept.get("tool_calls") and not kept.get("refusal"):
            raise bad_input(f"{at}: it has no content; leave the row out")
        made.append(kept)
    return made


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
                f"{at}: content of type {kind!r} cannot be sent; text can, and images within the message as a data URI"
            )
    # Most models take text alone in the form of a string.
    return "\n\n".join(part["text"] for part in parts) if all(part["type"] == "text" for part in parts) else parts


def _tool_call(call: Row, known_as: str, at: str) -> dict[str, Any]:
    function = call.get("function", call)
    if not isinstance(function, Mapping) or not NAME.fullmatch(str(function.get("name", ""))):
        raise bad_input(f"{at}: a tool call names no function that could be sent: {str(function)[:80]}")
    arguments = function.get("arguments") or {}
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    named = {"name": function["name"], "arguments": text}
    return {"id": call.get("id") or known_as, "type": "function", "function": named}


def _tools(row: Row, where: str) -> dict[str, Any]:
    tools = row.get("tools")
    if isinstance(tools, str):
        tools = json.loads(tools or "[]")
    if not tools:
        return {}
    if not all(isinstance(tool, Mapping) for tool in tools):
        raise bad_input(f"{where}: its tools are no JSON schemas; give objects with type and function")
    said = [tool if "function" in tool else {"type": "function", "function": tool} for tool in tools]
    parallel = row.get("parallel_tool_calls")
    return {"tools": said} | ({} if parallel is None else {"parallel_tool_calls": parallel})


def _images(row: Row) -> Iterator[str]:
    """The images of a row's own column, as data URIs. Those of a .parquet file are read as pictures, and not sent."""
    return iter([image for image in row.get("images") or [] if isinstance(image, str)])


def _unweighted(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "weight"}


def _list(row: Row, field: str, where: str) -> list[Row]:
    held = row.get(field)
    if not isinstance(held, list) or not all(isinstance(message, Mapping) for message in held):
        raise bad_input(
            f"{where}: {field} is no list of messages (the row holds {_names(row)}); convert the logs again"
        )
    return held


def _names(row: Row) -> str:
    return ", ".join(row) or "nothing"

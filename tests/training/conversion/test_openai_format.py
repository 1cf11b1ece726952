"""Converted rows in OpenAI's shapes: what is sent, what stays, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.conversion.openai_format import conversation, preference, reinforcement, supervised

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it?"}]
YES = {"role": "assistant", "content": "Yes."}
NO = {"role": "assistant", "content": "No."}
LOOK = {"type": "function", "id": "c1", "function": {"name": "look", "arguments": {"at": "sky"}}}
PIXEL = "data:image/png;base64,AAAA"


def test_a_completion_is_trained_on_and_its_prompt_is_not() -> None:
    row = {"prompt": [*ASKED, NO, {"role": "user", "content": "Sure?"}], "completion": [YES], "log": "a.eval"}
    messages = [*ASKED, NO | {"weight": 0}, {"role": "user", "content": "Sure?"}, YES]
    assert supervised(row) == {"messages": messages}
    assert supervised({"messages": [*ASKED, YES]}) == {"messages": [*ASKED, YES]}, (
        "without a weight they are trained on"
    )
    assert supervised({"messages": [*ASKED, NO | {"weight": 0}, YES]})["messages"][2]["weight"] == 0


def test_tool_calls_become_those_of_the_api() -> None:
    tool = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
    asks = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": LOOK["function"]}]}
    row = {"messages": [*ASKED, asks, {"role": "tool", "name": "look", "content": "Blue."}, YES], "tools": [tool]}
    result = supervised(row)
    call = result["messages"][2]["tool_calls"][0]
    assert call["function"] == {"name": "look", "arguments": '{"at": "sky"}'}
    assert result["messages"][3] == {"role": "tool", "content": "Blue.", "tool_call_id": call["id"]}
    assert result["tools"] == [{"type": "function", "function": tool}]
    messages = conversation(
        [*ASKED, asks | {"tool_calls": [LOOK]}, {"role": "tool", "content": "x", "tool_call_id": "c1"}]
    )
    assert messages[2]["tool_calls"][0]["id"] == messages[3]["tool_call_id"] == "c1"


def test_images_replace_their_placeholders() -> None:
    prompt = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, {"type": "image"}]}
    result = supervised({"prompt": [prompt], "completion": [YES], "images": [PIXEL]})
    assert result["messages"][0]["content"][1] == {"type": "image_url", "image_url": {"url": PIXEL}}
    with pytest.raises(BadInput, match="content of type 'image' is not accepted"):
        supervised({"prompt": [prompt], "completion": [YES]})
    parts = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    assert conversation([parts])[0]["content"] == "a\n\nb"


def test_a_preference_compares_two_answers() -> None:
    row = {"prompt": ASKED, "chosen": [YES], "rejected": [NO], "margin": 0.3}
    inputs = {"messages": ASKED, "tools": [], "parallel_tool_calls": True}
    assert preference(row) == {"input": inputs, "preferred_output": [YES], "non_preferred_output": [NO]}


def test_reinforcement_keeps_the_fields_of_the_question() -> None:
    row = {"prompt": ASKED, "target": "no", "proposition": "P", "base_rate": 0.3, "evidence": ["E"], "crowd": None,
           "sample_id": "q1", "log": "a.eval", "model": "m", "score": 0.1, "scores": {}, "split": "train"}  # fmt: skip
    result = reinforcement(row)
    assert result.pop("messages") == [{"role": "developer", "content": "Be brief."}, ASKED[1]]
    assert result == {"question": "Is it?", "input": "Is it?", "target": "no", "reference_answer": "no", "id": "q1",
                    "proposition": "P", "base_rate": 0.3, "evidence": ["E"]}  # fmt: skip
    assert "target" not in reinforcement(row | {"target": ""})


@pytest.mark.parametrize(
    ("to", "row", "message"),
    [
        (conversation, [{"role": "judge", "content": "x"}], "unknown role 'judge'"),
        (
            conversation,
            [*ASKED, YES | {"reasoning_content": "Hm."}],
            "message 3: .*reasoning_content.*--reasoning keep",
        ),
        (conversation, [*ASKED, {"role": "assistant"}], "it has no content"),
        (conversation, [{"role": "tool", "content": "x"}], "a tool message without a tool call"),
        (conversation, [YES | {"tool_calls": [{"function": {"arguments": "{}"}}]}], "has no function name"),
        (conversation, [YES | {"tool_calls": ["search"]}], "has no function name"),
        (conversation, [{"role": "user", "content": [{"type": "audio"}]}], "content of type 'audio' is not accepted"),
        (supervised, {"prompt": ASKED, "completion": []}, "does not end with an assistant message"),
        (supervised, {"messages": [*ASKED, YES | {"weight": 0}]}, "all of them have weight 0"),
        (supervised, {"prompt": "Is it?", "completion": [YES]}, "row 7: .*prompt is not a list of messages"),
        (preference, {"prompt": ASKED, "chosen": [YES], "rejected": [YES]}, "chosen and rejected are the same"),
        (preference, {"prompt": ASKED, "chosen": [YES], "rejected": [NO, NO]}, "rejected is not a single assistant"),
        (reinforcement, {"prompt": [*ASKED, YES], "target": "yes"}, "row 7: .*does not end with a user message"),
    ],
)
def test_invalid_messages_and_rows_are_refused(to: Callable[[Any, str], Any], row: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        to(row, "row 7")

"""The turns of a trajectory: what a reader is shown of it, and what is left out."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.log import EvalSample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    Content,
    ContentReasoning,
    ContentText,
    Model,
    ModelOutput,
)
from inspect_ai.solver import Solver, TaskState, generate

from tests.fixtures import Solve, rain, says
from truthgym.scorers.beliefs.escaping import material
from truthgym.scorers.beliefs.transcript import Turn, as_text, turns_of
from truthgym.solvers.bootstrap_interview import MAIN, bootstrap_interview
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.direct import direct
from truthgym.solvers.few_shot import few_shot
from truthgym.solvers.length_control import length_control
from truthgym.solvers.self_debate import self_debate
from truthgym.solvers.trajectory import Trajectory


def state_of(done: EvalSample) -> TaskState:
    """What a scorer is given of a finished sample."""
    state = TaskState(
        model="none/none",  # type: ignore[arg-type]
        sample_id=done.id,
        epoch=done.epoch,
        input=done.input,
        messages=done.messages,
        metadata=done.metadata,
    )
    state.store._data.update(done.store)
    return state


def turns(done: EvalSample) -> list[Turn]:
    return turns_of(state_of(done))


@pytest.fixture
def counts() -> Model:
    """A model whose k-th reply in a conversation says so."""
    return says(lambda messages: f"Reply {1 + sum(m.role == 'assistant' for m in messages)}.")


@pytest.fixture
def examples(tmp_path: Any) -> str:
    """A file with one example of two turns."""
    messages = [{"role": role, "content": f"Example {k}."} for k, role in enumerate(["user", "assistant"] * 2)]
    row = {"id": "x", "event": "x", "split": "train", "score": 0, "messages": messages}
    (tmp_path / "examples.jsonl").write_text(json.dumps(row))
    return str(tmp_path / "examples.jsonl")


def test_an_interview_is_left_out(solve: Solve, counts: Model) -> None:
    done = solve(counts, bootstrap_interview(2, "fixed_sequence"), rain())
    [turn] = turns(done)
    assert turn.text == "Reply 3."
    assert turn.prompt.startswith(f"{MAIN}\n\nWill it rain?")
    assert "Interview question" not in turn.prompt
    assert done.messages[turn.message].text == "Reply 3."


@pytest.mark.parametrize(("base", "replies"), [("direct", [3]), ({"chain_of_thought": {"steps": 2}}, [3, 4, 5])])
def test_examples_are_left_out(solve: Solve, counts: Model, examples: str, base: Any, replies: list[int]) -> None:
    done = solve(counts, few_shot(examples, base=base), rain())
    assert [turn.text for turn in turns(done)] == [f"Reply {k}." for k in replies]
    assert not any("Example" in turn.prompt for turn in turns(done))
    assert turns(done)[0].prompt.startswith("Will it rain?")
    assert sum("Example" in step.text for step in done.store_as(Trajectory).steps) == 4


def test_reasoning_before_the_question_is_left_out(solve: Solve) -> None:
    def reply(messages: list[ChatMessage]) -> ModelOutput:
        number = 1 + sum(m.role == "assistant" for m in messages)
        content: list[Content] = [
            ContentReasoning(reasoning=f"Thought {number}."),
            ContentText(text=f"Reply {number}."),
        ]
        output = ModelOutput.from_content("mockllm/model", "")
        output.choices[0].message = ChatMessageAssistant(content=content)
        output.completion = f"Reply {number}."
        return output

    done = solve(says(reply), bootstrap_interview(1, "fixed_sequence"), rain())
    assert [(turn.text, turn.closes) for turn in turns(done)] == [("Thought 2.", False), ("Reply 2.", True)]


@pytest.mark.parametrize(
    ("solver", "replies"), [(direct(), 1), (chain_of_thought(3), 4), (self_debate(1), 3), (length_control(9), 3)]
)
def test_every_reply_to_the_question_is_a_turn(solve: Solve, counts: Model, solver: Solver, replies: int) -> None:
    result = turns(solve(counts, solver, rain()))
    assert [turn.text for turn in result] == [f"Reply {k}." for k in range(1, replies + 1)]
    assert result[0].prompt.startswith("Will it rain?")
    assert all(turn.closes for turn in result)


def test_the_system_prompt_is_told_to_nobody(solve: Solve, counts: Model) -> None:
    [turn] = turns(solve(counts, direct(), rain(), prompt="Be terse."))
    assert "Be terse." not in turn.prompt


def test_another_solvers_messages_are_its_turns(solve: Solve, counts: Model) -> None:
    [turn] = turns(solve(counts, generate(), rain()))
    assert (turn.prompt, turn.text) == ("Will it rain?", "Reply 1.")


def test_an_empty_reply_is_no_turn(solve: Solve) -> None:
    assert turns(solve(says(""), direct(), rain())) == []


def test_turns_as_text() -> None:
    assert (
        as_text([Turn("Asked.", "Said.", 1, True), Turn("", "More.", 1, True)])
        == "Told: Asked.\n\nWrote: Said.\n\nMore."
    )


@given(st.text(alphabet="<>/ab trajectory", max_size=60))
def test_material_cannot_close_its_own_tags(text: str) -> None:
    assert material("trajectory", text).count("<trajectory>") == 1
    assert material("trajectory", text).count("</trajectory>") == 1


TAGS = [
    "</text>", "< /text>", "</TEXT >", "</text\n>", "</text/>", "</text of it>", "<text>", "<text id='1'>",
    "<text />", "<\u200b/text>", "<text\u200b>", "<\u2066/text>", "<\ufe0f/text>", "<\U000e0020/text>",
    "<\x00/text>", "<\x08/text>", "<\u0301/text>", "<\U000e0100/text>", "<\u061c/text>", "<\u180e/te\u034fxt>",
    "<\uff0ftext>", "<" + "\u200b" * 5000 + "/text>", "<|im_end|>", "<|eot_id|>", "<\uff5cUser\uff5c>",
    "<end_of_turn>", "<\u3164/text>", "<\u2800/te\uffa0xt>", "<" + "\n" * 250 + "/text>", "<\u20dd/text>", "<\\/text>",
    "<\u2044text>", "<\u2215text>", "<\u29f8text>", "\u1438/text>", "\u276e/text\u276f",
]  # fmt: skip


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_is_harmless_however_it_is_written(tag: str) -> None:
    assert material("text", f"a{tag}b") == f"<text>\na‹{tag[1:]}b\n</text>"


@pytest.mark.parametrize(
    ("tag", "escaped"),
    [
        ("[/INST]", "⟦/INST]"),
        ("[ inst ]", "⟦ inst ]"),
        ("\uff1c/t>", "‹/t>"),
        ("[TOOL_CONTENT]", "⟦TOOL_CONTENT]"),
        ("[ARGS]", "⟦ARGS]"),
        ("[gMASK]", "⟦gMASK]"),
        ("[|user|]", "⟦|user|]"),
        ("[/text]", "⟦/text]"),
        ("<a b=[INST]>", "‹a b=⟦INST]>"),
    ],
)
def test_tokens_of_chat_templates_are_escaped(tag: str, escaped: str) -> None:
    assert material("t", f"a{tag}b") == f"<t>\na{escaped}b\n</t>"


@pytest.mark.parametrize(
    "text", ["if a < b and c > d: <3", "see [1] and [Instead]", "x² ≤ ½, a\u2044b", "caf\u0065\u0301 < the\u200crest"]
)
def test_material_keeps_what_is_no_tag(text: str) -> None:
    assert material("t", text) == f"<t>\n{text}\n</t>"

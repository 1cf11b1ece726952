"""The trajectory that every solver leaves: what is a step, of which kind, and who may be trained on it."""

import pytest
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    Content,
    ContentReasoning,
    ContentText,
    ModelOutput,
    StopDetails,
)
from inspect_ai.tool import ToolCall
from inspect_ai.util import Store

from tests.fixtures import Solve, rain, says, thinks
from truthgym.solvers.direct import direct
from truthgym.solvers.trajectory import (
    ENDED,
    OUT_OF_CONTEXT,
    STEPS,
    Trajectory,
    failure_reason,
    opens_with_refusal,
    recorded_answer,
    recorded_end,
    steps_of_messages,
)


def test_reasoning_content_and_reply_are_two_steps(solve: Solve) -> None:
    seen = ContentReasoning(reasoning="Rain follows thunder.")
    sealed = ContentReasoning(reasoning="sealed", summary="It thought of rain.", redacted=True)
    summarised = ContentReasoning(reasoning="", summary="It thought of clouds.")
    sample = solve(says(lambda _: thinks(r"\finalBeliefProb{0.9}", seen, sealed, summarised)), direct(), rain())
    trajectory = sample.store_as(Trajectory).steps[1:]
    assert [(s.kind, s.text, s.trainable, s.redacted) for s in trajectory] == [
        ("reasoning", "Rain follows thunder.", True, False),
        ("reasoning", "It thought of rain.", False, True),
        ("reasoning", "It thought of clouds.", False, True),
        ("answer", r"\finalBeliefProb{0.9}", True, False),
    ]
    assert len({s.message_id for s in trajectory}) == 1


def test_a_tool_call_is_reasoning_and_its_result_is_input() -> None:
    call = ToolCall(id="1", function="look", arguments={})
    thought: list[Content] = [ContentReasoning(reasoning="I should look."), ContentText(text="")]
    messages: list[ChatMessage] = [
        ChatMessageAssistant(content="Let me look.", tool_calls=[call], source="generate"),
        ChatMessageTool(content="Clouds.", tool_call_id="1", function="look"),
        ChatMessageAssistant(content=thought, tool_calls=[call], source="generate"),
        ChatMessageAssistant(content="", tool_calls=[call], source="generate"),
        ChatMessageAssistant(content="Rain.", source="generate"),
    ]
    assert [(s.role, s.kind, s.text, s.trainable) for s in steps_of_messages(messages, "answer", True)] == [
        ("assistant", "reasoning", "Let me look.", True),
        ("tool", "auxiliary", "Clouds.", False),
        ("assistant", "reasoning", "I should look.", True),
        ("assistant", "reasoning", "", True),
        ("assistant", "reasoning", "", True),
        ("assistant", "answer", "Rain.", True),
    ]


def test_text_of_programs_and_other_models_is_not_trained_on() -> None:
    scripted = ChatMessageAssistant(content="I begin.")
    others = ChatMessageAssistant(content="I think so.", source="generate")
    own = ChatMessageAssistant(content="Rain.", source="generate")
    found = steps_of_messages([scripted, others, own], "answer", True, {others.id: "helper"})
    assert [(s.trainable, s.speaker) for s in found] == [(False, None), (False, "helper"), (True, None)]


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "google/gemini-3-pro"])
def test_summaries_of_reasoning_are_marked_as_redacted(model: str) -> None:
    thought: list[Content] = [ContentReasoning(reasoning="I weighed it."), ContentText(text="Rain.")]
    reply = ChatMessageAssistant(content=thought, source="generate", model=model)
    found = [(s.text, s.redacted, s.trainable) for s in steps_of_messages([reply], "answer", True)]
    assert found == [("I weighed it.", True, False), ("Rain.", False, True)]


def test_assistant_messages_of_the_dataset_are_input() -> None:
    message = ChatMessageAssistant(content="Yes.", source="input")
    assert [(s.role, s.kind, s.trainable) for s in steps_of_messages([message], "answer", True)] == [
        ("assistant", "auxiliary", False)
    ]


def test_reasoning_before_an_auxiliary_reply_is_auxiliary() -> None:
    reply = ChatMessageAssistant(content=[ContentReasoning(reasoning="Water?"), ContentText(text="Water.")])
    assert [(s.kind, s.trainable) for s in steps_of_messages([reply], "auxiliary", False)] == [("auxiliary", False)] * 2


def test_the_answer_is_the_last_one() -> None:
    steps = [{"role": "assistant", "kind": "answer", "trainable": True, "message_id": "m"} | {"text": t} for t in "ab"]
    assert recorded_answer(Store({STEPS: steps})) == "b"
    assert recorded_answer(Store({STEPS: [steps[0] | {"kind": "reasoning"}]})) is None
    assert recorded_answer(Store({})) is recorded_end(Store({})) is None
    assert recorded_end(Store({ENDED: "It refused."})) == "It refused."


def output(stop: str, text: str = "x", **details: StopDetails) -> ModelOutput:
    return ModelOutput.from_content("mockllm/model", text, stop_reason=stop, **details)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (output("stop"), None),
        (output("max_tokens"), None),
        (output("content_filter"), "The model refused: its provider filtered the reply."),
        (
            output("content_filter", stop_details=StopDetails(explanation="About weather.")),
            "The model refused: About weather.",
        ),
        (output("content_filter", stop_details=StopDetails()), "The model refused: its provider filtered the reply."),
        (output("model_length"), OUT_OF_CONTEXT.format(who="The model")),
        (ModelOutput(), "The model gave no reply."),
        (ModelOutput(error="Gone."), "The model gave no reply: Gone."),
        (ModelOutput(error="Gone"), "The model gave no reply: Gone."),
    ],
)
def test_a_failed_reply_has_a_reason(reply: ModelOutput, reason: str | None) -> None:
    assert failure_reason(reply) == reason
    if reason and reason.startswith("The model"):
        assert failure_reason(reply, "The judge") == reason.replace("The model", "The judge")


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("I'm sorry, but I can't forecast this.", True),
        ("**I\u2019m very sorry**, no.", True),
        ("Sorry. As an AI language model I", True),
        ("As an AI, I have no view.", True),
        ("I apologize, but I cannot grade this.", True),
        ("Unfortunately, I am not able to say.", True),
        ("I'd rather not.", True),
        ("I would prefer not to answer.", True),
        ("I won't help with that.", True),
        ("I must decline.", True),
        ("It would be inappropriate to grade this.", True),
        ("抱歉，我无法评分。", True),
        ("Here is my grade: {", False),
        ("I can't rule it out: 20 %", False),
        ("The reply says: I'm sorry, but I can't.", False),
        ("Sorry for the confusion: 70", False),
        ("I think not.", False),
        ("", False),
    ],
)
def test_a_refusal_is_known_by_how_it_opens(text: str, refusal: bool) -> None:
    assert opens_with_refusal(text) == refusal

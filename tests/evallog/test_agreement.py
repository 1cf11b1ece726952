"""Any sample that Inspect can write is read as Inspect itself reads it."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inspect_ai.log import EvalError, EvalSample, EvalSampleLimit, ProvenanceData
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentAudio,
    ContentImage,
    ContentReasoning,
    ContentText,
    ContentToolUse,
    ModelOutput,
)
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall, ToolCallError

from tests.evallog.agreement import as_inspect_says, log_of, ours

IMAGE = "data:image/png;base64," + "iVBORw0KGgo" * 30

words = st.text(max_size=40) | st.sampled_from(
    [
        '],"model_usage":{',
        ',"events":[',
        '{"events":[],"model_usage":{}}',
        "\\ud800",
        "NaN",
        "attachment://",
        "“ä”\u2028",
    ]
)
numbers = st.floats() | st.integers(-(2**70), 2**70) | st.booleans()
values = numbers | words | st.lists(numbers | words, max_size=3) | st.dictionaries(words, numbers | words | st.none())
keys = words.filter(lambda word: not word.startswith("Trajectory:")) | st.sampled_from(
    ["events", "model_usage", "event", "split", "domain", "question", "uuid", "attachments"]
)
anything = st.recursive(
    st.none() | numbers | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
metadata = st.dictionaries(keys, anything, max_size=3)
contents = st.lists(
    st.builds(ContentText, text=words)
    | st.builds(ContentReasoning, reasoning=words, summary=st.none() | words, redacted=st.booleans())
    | st.builds(ContentImage, image=st.sampled_from([IMAGE, "https://a.b/c.png"]))
    | st.builds(ContentAudio, audio=st.just("data:audio/wav;base64," + "UklGR" * 30), format=st.just("wav"))
    | st.builds(
        ContentToolUse,
        tool_type=st.just("web_search"),
        id=words,
        name=words,
        arguments=st.just("{}"),
        result=words,
        error=st.none() | words,
    ),
    max_size=3,
)
calls = st.lists(st.builds(ToolCall, id=words, function=words, arguments=metadata), min_size=1, max_size=2)
messages = st.lists(
    st.builds(ChatMessageSystem, content=words)
    | st.builds(ChatMessageUser, content=words | contents, source=st.sampled_from([None, "input"]), metadata=metadata)
    | st.builds(
        ChatMessageAssistant, content=words | contents, tool_calls=st.none() | calls, source=st.just("generate")
    )
    | st.builds(
        ChatMessageTool,
        content=words,
        tool_call_id=words,
        function=words,
        error=st.none() | st.builds(ToolCallError, type=st.just("timeout"), message=words),
    ),
    max_size=4,
)
scores = st.dictionaries(
    words,
    st.builds(
        Score,
        value=values,
        answer=st.none() | words,
        explanation=st.none() | words,
        reason=st.none() | words,
        metadata=st.none() | metadata,
    ),
    max_size=2,
)
steps = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.just("assistant"),
            "text": words,
            "kind": st.sampled_from(["auxiliary", "reasoning", "answer"]),
            "trainable": st.booleans(),
            "message_id": st.none() | words,
            "redacted": st.booleans(),
            "speaker": st.none() | words,
        }
    ),
    max_size=2,
)
samples = st.builds(
    EvalSample,
    id=st.integers(0, 5) | st.sampled_from(["a", "a/b", "a_epoch_1/messages", "sample"]),
    epoch=st.integers(1, 2),
    input=words | messages,
    target=words | st.lists(words, max_size=2),
    messages=messages,
    output=st.just(ModelOutput()) | st.just(ModelOutput.from_content("m", "Yes.", "max_tokens")),
    scores=st.none() | scores,
    metadata=metadata,
    store=st.dictionaries(keys, anything, max_size=2)
    | st.builds(lambda entries, why: {"Trajectory:steps": entries, "Trajectory:ended": why}, steps, st.none() | words),
    uuid=st.none() | st.uuids().map(str),
    error=st.none() | st.just(EvalError(message="It broke.", traceback="at line 1", traceback_ansi="at line 1")),
    limit=st.none() | st.just(EvalSampleLimit(type="token", limit=5)),
    invalidation=st.none() | st.just(ProvenanceData(author="me", reason="wrong")),
)


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(logged=st.lists(samples, min_size=1, max_size=3, unique_by=lambda s: (str(s.id), s.epoch)), data=st.data())
def test_both_readers_agree(tmp_path: Path, logged: list[EvalSample], data: st.DataObject) -> None:
    path = log_of(logged, tmp_path / f"a.{data.draw(st.sampled_from(['eval', 'eval', 'eval', 'json']))}")
    found, log = ours(path)
    assert found == as_inspect_says(path)
    assert log.fallbacks.total() == sum(sample.uuid is None for sample in logged)

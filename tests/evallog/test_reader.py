"""The reader of logs for training, held to what Inspect's own reader says of the same logs."""

import json
import math
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalSample,
    EvalSampleLimit,
    EvalSpec,
    ProvenanceData,
    read_eval_log,
    write_eval_log,
)
from inspect_ai.log._recorders.chunked import convert_eval_logs_to_chunked  # `inspect log convert-chunked`
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    Content,
    ContentAudio,
    ContentImage,
    ContentReasoning,
    ContentText,
    ContentToolUse,
    ModelOutput,
)
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver, use_tools
from inspect_ai.tool import Tool, ToolCall, ToolCallError, tool
from inspect_ai.util import Store

from tests.fixtures import Run, Says
from truthgym.datasets.errors import BadInput
from truthgym.evallog.reader import LogReader, read_header
from truthgym.evallog.schema import LoggedSample, Message
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.trajectory import recorded_end, recorded_steps
from truthgym.tasks.urns import urns

IMAGE = "data:image/png;base64," + "iVBORw0KGgo" * 30


def ours(path: str | Path) -> tuple[dict[tuple[str, int], dict[str, Any]], LogReader]:
    """All samples of a log by id and epoch, as plain dicts; outcomes must say the same as samples."""
    found = {}
    with LogReader(path) as log:
        light = dict(log.outcomes())
        full = dict(log.samples())
    assert list(light) == list(full) == log.members
    assert len(log) == len(full)
    for member, sample in full.items():
        outcome = light[member]
        held = {name: getattr(sample, name) for name in outcome.__struct_fields__}
        assert plain(held) == plain({name: getattr(outcome, name) for name in outcome.__struct_fields__})
        found[sample.id, sample.epoch] = told(sample)
    return found, log


def plain(value: Any) -> Any:
    """For comparison: structs as dicts without what is None, and NaN, which is no equal of itself, as a text."""
    if isinstance(value, msgspec.Struct):
        return {k: plain(held) for k in value.__struct_fields__ if (held := getattr(value, k)) is not None}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def told(sample: LoggedSample) -> dict[str, Any]:
    names = [name for name in sample.__struct_fields__ if name not in ("facts", "tools")]
    return {name: plain(getattr(sample, name)) for name in names}


def as_inspect_says(path: str | Path) -> dict[tuple[str, int], dict[str, Any]]:
    """What `ours` should say, from the samples that Inspect reads."""
    samples = read_eval_log(str(path), resolve_attachments="full").samples or []
    return {(str(sample.id), sample.epoch): of_inspect(sample) for sample in samples}


def of_inspect(sample: EvalSample) -> dict[str, Any]:
    store = Store(sample.store)
    return {
        "id": str(sample.id),
        "epoch": sample.epoch,
        "uuid": sample.uuid,
        "target": sample.target,
        "scores": {
            name: dict(
                plain(
                    {k: v for k in ("answer", "explanation", "reason", "metadata") if (v := getattr(s, k)) is not None}
                ),
                value=plain(s.value),
            )
            for name, s in (sample.scores or {}).items()
        },
        "error": sample.error.message if sample.error else None,
        "limit": sample.limit.type if sample.limit else None,
        "invalidated": sample.invalidation is not None,
        "stop_reason": sample.output.choices[0].stop_reason if sample.output.choices else None,
        "ended": recorded_end(store),
        "input": sample.input if isinstance(sample.input, str) else [message(m) for m in sample.input],
        "messages": [message(m) for m in sample.messages],
        "steps": [step.model_dump(exclude={"text"}, exclude_none=True) for step in recorded_steps(store)],
        "metadata": plain(sample.metadata),
    }


def message(said: ChatMessage) -> dict[str, Any]:
    fields = Message.__struct_fields__
    dumped = said.model_dump(exclude_none=True)
    if isinstance(said.content, list):
        dumped["content"] = [part(content) for content in said.content]
    return {name: plain(dumped[name]) for name in fields if name in dumped}


def part(content: Content) -> dict[str, Any]:
    dumped = content.model_dump(exclude_none=True)
    kept = {
        k: v for k, v in dumped.items() if k not in ("internal", "signature", "detail", "citations", "id", "tool_type")
    }
    return {"redacted": False, **kept}


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
    | st.builds(lambda held, why: {"Trajectory:steps": held, "Trajectory:ended": why}, steps, st.none() | words),
    uuid=st.none() | st.uuids().map(str),
    error=st.none() | st.just(EvalError(message="It broke.", traceback="at line 1", traceback_ansi="at line 1")),
    limit=st.none() | st.just(EvalSampleLimit(type="token", limit=5)),
    invalidation=st.none() | st.just(ProvenanceData(author="me", reason="wrong")),
)


def log_of(samples: list[EvalSample], path: Path, **fields: Any) -> Path:
    spec = EvalSpec(
        created="2026-01-02T03:04:05+00:00",
        task="t",
        model="m",
        dataset=EvalDataset(),
        config=EvalConfig(),
        eval_id="e",
    )
    log = EvalLog(eval=spec, status="success", samples=samples, **fields)
    write_eval_log(log, str(path))
    return path


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(held=st.lists(samples, min_size=1, max_size=3, unique_by=lambda s: (str(s.id), s.epoch)), data=st.data())
def test_both_readers_agree(tmp_path: Path, held: list[EvalSample], data: st.DataObject) -> None:
    path = log_of(held, tmp_path / f"a.{data.draw(st.sampled_from(['eval', 'eval', 'eval', 'json']))}")
    found, log = ours(path)
    assert found == as_inspect_says(path)
    by_inspect = sum(sample.uuid is None for sample in held) if path.suffix == ".eval" else len(held)
    assert log.fallbacks.total() == by_inspect


def rewritten(path: Path, out: Path, change: Callable[[str, bytes], bytes | None], method: int = 0) -> Path:
    """A log with other members, packed by another method. Where `change` returns None, a member is left out."""
    with LogReader(path) as log, zipfile.ZipFile(out, "w", method) as file:
        assert log._archive
        for name in log._archive.names:
            if (content := change(name, log._archive.read(name))) is not None:
                file.writestr(name, content)
    return out


def as_it_is(name: str, content: bytes) -> bytes:
    return content


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a real run: urn questions reasoned about in steps, two epochs, two scorers."""
    task = urns(n=3)
    task.solver = chain_of_thought(steps=2)
    place = tmp_path_factory.mktemp("solved")
    log = eval(task, model="reference/bayesian", epochs=2, log_dir=str(place), display="log", log_realtime=False)[0]
    assert log.status == "success"
    return Path(log.location)


def test_a_real_run(solved: Path) -> None:
    found, log = ours(solved)
    assert found == as_inspect_says(solved)
    assert len(found) == 6
    assert not log.fallbacks
    with LogReader(solved) as log:
        (_, outcome), *_ = log.outcomes()
        (_, sample), *_ = log.samples([log.members[0]])
    assert outcome.facts == sample.facts
    assert outcome.facts
    assert outcome.facts.domain == "urns"
    assert outcome.facts.proposition == sample.metadata["proposition"]
    assert outcome.facts.base_rate == sample.metadata["base_rate"]
    assert sample.tools is None
    assert [step.kind for step in sample.steps if step.trainable] == ["reasoning", "reasoning", "answer"]
    assert sum(len(score.value) for score in outcome.scores.values() if isinstance(score.value, dict)) > 2


def test_its_header(solved: Path) -> None:
    header, log = read_header(solved), read_eval_log(str(solved), header_only=True)
    assert (header.status, header.version, header.invalidated) == ("success", 2, False)
    for name in ("eval_id", "run_id", "task", "task_id", "task_registry_name", "task_args", "model", "created"):
        assert getattr(header.eval, name) == getattr(log.eval, name)
    assert header.eval.dataset.name == log.eval.dataset.name
    assert [scorer.name for scorer in header.eval.scorers or []] == ["brier", "martingale"]
    assert header.solver_name == "truthgym/chain_of_thought"
    assert header.completed_at == log.stats.completed_at
    assert header.eval.shards is None


def test_samples_are_read_in_the_order_of_the_log(solved: Path) -> None:
    with LogReader(solved) as log:
        some = [log.members[4], log.members[1]]
        assert [member for member, _ in log.samples(some)] == [log.members[1], log.members[4]]
        assert list(log.samples([])) == []


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_older_packing(solved: Path, tmp_path: Path, method: int) -> None:
    found, _ = ours(rewritten(solved, tmp_path / "a.eval", as_it_is, method))
    assert found == as_inspect_says(solved)


def test_a_remote_log(solved: Path) -> None:
    fsspec.filesystem("memory").pipe("/logs/a.eval", solved.read_bytes())
    found, log = ours("memory://logs/a.eval")
    assert found == as_inspect_says(solved)
    assert log._copy
    assert not Path(log._copy.name).exists()
    with pytest.raises(BadInput, match=r"memory://logs/b\.eval cannot be read"):
        LogReader("memory://logs/b.eval")


def test_a_run_that_never_finished(solved: Path, tmp_path: Path) -> None:
    log = rewritten(solved, tmp_path / "a.eval", lambda name, content: None if name == "header.json" else content)
    header = read_header(log)
    assert header.status == "started"
    assert header.eval == read_header(solved).eval
    assert header.completed_at == header.eval.created
    assert len(ours(log)[0]) == 6


def test_samples_in_chunks(solved: Path, tmp_path: Path) -> None:
    convert_eval_logs_to_chunked(str(solved), str(tmp_path / "chunked"))
    chunked = tmp_path / "chunked" / solved.name
    found, log = ours(chunked)
    assert found == as_inspect_says(solved)
    assert len(log) == 6
    assert not log.fallbacks

    def mixed(name: str, content: bytes) -> bytes | None:
        return content if name.startswith(first) or not name.startswith("samples/") else None

    first = log.members[0].removesuffix("sample.json")
    with LogReader(rewritten(chunked, tmp_path / "mixed.eval", mixed)) as some:
        assert some.members == [f"{first}sample.json"]


def test_nan_scores_are_read(solved: Path, tmp_path: Path) -> None:
    def spoiled(name: str, content: bytes) -> bytes:
        return content.replace(b'"posterior":0', b'"posterior":NaN,"other":-Infinity,"third":0')

    log = rewritten(solved, tmp_path / "a.eval", spoiled)
    found, reader = ours(log)
    assert found == as_inspect_says(log)
    assert any("NaN" in str(sample["scores"]) for sample in found.values())
    assert not reader.fallbacks


def test_metadata_and_store_may_have_a_key_events(tmp_path: Path) -> None:
    events = {"events": [1, 2], "model_usage": {"a": 1}}
    held = EvalSample(
        id="a", epoch=1, input="", target="", uuid="u", metadata=events, store={"x": events, **events}, messages=[]
    )
    path = log_of([held], tmp_path / "a.eval")
    found, log = ours(path)
    assert found == as_inspect_says(path)
    assert found["a", 1]["metadata"] == events
    assert not log.fallbacks


def test_older_formats_are_read_by_inspect(solved: Path, tmp_path: Path) -> None:
    def older(name: str, content: bytes) -> bytes:
        return content.replace(b'"version":2,', b'"version":1,', 1) if name == "header.json" else content

    found, log = ours(rewritten(solved, tmp_path / "a.eval", older))
    assert found == as_inspect_says(solved)
    assert log.fallbacks == {"log format 1": 6}

    def oldest(name: str, content: bytes) -> bytes:
        if not name.startswith("samples/"):
            return content
        held = json.loads(content)
        held["score"] = held.pop("scores")["brier"]
        held["transcript"] = {"events": held.pop("events"), "content": held.pop("attachments")}
        return json.dumps({k: v for k, v in held.items() if k not in ("uuid", "events_data")}).encode()

    path = rewritten(solved, tmp_path / "b.eval", oldest)
    found, log = ours(path)
    assert found == as_inspect_says(path)
    assert all(len(sample["scores"]) == 1 for sample in found.values())
    assert log.fallbacks == {"written by Inspect before 0.3.70": 6}


@tool
def add() -> Tool:
    async def execute(x: int, y: int) -> str:
        """Add two numbers, which may be large and which may be small, and say what the sum of the two of them is.

        Args:
            x: One number, of whatever size, for instance three, or three hundred, or three thousand, or more than that.
            y: Another number.
        """
        return str(x + y)

    return execute


@scorer(metrics=[mean()])
def unread() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        return Score.unscored(reason="no_response", explanation="Nothing was said.")

    return score


@solver
def breaks() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if state.sample_id == 2:
            raise ValueError("It broke.")
        return state

    return solve


def test_tools_images_reasoning_limits_and_errors(run: Run, says: Says) -> None:
    def reply(said: list[ChatMessage]) -> ModelOutput:
        if said[-1].role == "tool":
            text: list[Content] = [ContentReasoning(reasoning="They are five."), ContentText(text="It is 5.")]
            return ModelOutput.from_message(ChatMessageAssistant(content=text, source="generate"), "max_tokens")
        return ModelOutput.for_tool_call("mockllm/model", "add", {"x": 2, "y": 3})

    asked: list[ChatMessage] = [
        ChatMessageUser(content=[ContentText(text="How many are they?"), ContentImage(image=IMAGE)])
    ]
    items = [Sample(id=i, input=asked if i != 3 else "Two and three?", target="5") for i in (1, 2, 3)]
    task = Task(dataset=items, solver=[breaks(), use_tools(add()), generate()], scorer=unread())
    log = run(task, says(reply), fail_on_error=False, message_limit=4)
    found, reader = ours(log.location)
    assert found == as_inspect_says(log.location)
    assert not reader.fallbacks
    assert found["2", 1]["error"] == "ValueError('It broke.')"
    assert found["1", 1]["messages"][0]["content"][1]["image"] == IMAGE
    assert found["1", 1]["scores"]["unread"] == {
        "value": "NaN",
        "reason": "no_response",
        "explanation": "Nothing was said.",
    }
    assert found["3", 1]["stop_reason"] == "max_tokens"
    with LogReader(log.location) as opened:
        done = {sample.id: sample for _, sample in opened.samples()}
    assert done["1"].facts is None
    tools = done["1"].tools
    assert tools == done["3"].tools
    assert tools
    function = tools[0]["function"]
    assert function["name"] == "add"
    assert function["description"].startswith("Add two numbers")
    assert function["parameters"]["properties"]["x"]["description"].startswith("One number")
    assert function["parameters"]["required"] == ["x", "y"]


def test_files_that_are_not_logs_are_refused(solved: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"There is no file .*b\.eval"):
        LogReader(tmp_path / "b.eval")
    (tmp_path / "b.eval").write_bytes(solved.read_bytes()[:5000])
    with pytest.raises(BadInput, match=r"b\.eval is not a complete \.eval log"):
        read_header(tmp_path / "b.eval")
    with zipfile.ZipFile(tmp_path / "c.eval", "w") as file:
        file.writestr("a.txt", "Hello")
    with pytest.raises(BadInput, match=r"c\.eval is a zip file but not a log"):
        read_header(tmp_path / "c.eval")
    (tmp_path / "d.json").write_text('{"a": 1}')
    with pytest.raises(BadInput, match=r"d\.json cannot be read as a log"):
        read_header(tmp_path / "d.json")


def test_a_sample_with_an_unknown_schema_is_refused(solved: Path, tmp_path: Path) -> None:
    def broken(name: str, content: bytes) -> bytes:
        return b'{"id": "a"}' if name.startswith("samples/") else content

    with (
        LogReader(rewritten(solved, tmp_path / "a.eval", broken)) as log,
        pytest.raises(BadInput, match=r"a\.eval: Inspect cannot read its member samples/"),
    ):
        next(log.outcomes())


def test_reading_a_log_imports_neither_inspect_nor_numpy(solved: Path, environment: dict[str, str]) -> None:
    script = (
        "import sys; from truthgym.evallog.reader import LogReader\n"
        f"with LogReader({str(solved)!r}) as log: assert len(list(log.outcomes())) == len(list(log.samples())) == 6\n"
        "print({'inspect_ai', 'pydantic', 'numpy', 'pandas', 'pyarrow', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "set()\n"

"""Logs of real runs are read as Inspect's own reader reads them, however they are packed."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import fsspec
import msgspec
import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSample, read_eval_log, write_eval_log
from inspect_ai.log._recorders.chunked import convert_eval_logs_to_chunked  # `inspect log convert-chunked`
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    Content,
    ContentImage,
    ContentReasoning,
    ContentText,
    ModelOutput,
)
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver, use_tools
from inspect_ai.tool import Tool, tool

from tests.evallog.agreement import as_inspect_says, log_of, ours
from tests.fixtures import Run, evaluate, says
from truthgym.datasets.errors import BadInput
from truthgym.evallog.archive import EvalArchive
from truthgym.evallog.discovery import UNREADABLE, find_logs
from truthgym.evallog.reader import LogReader
from truthgym.evallog.schema import LoggedScore
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.worlds import urns

IMAGE = "data:image/png;base64," + "iVBORw0KGgo" * 30


def rewritten(path: Path, out: Path, change: Callable[[str, bytes], bytes | None], method: int = 0) -> Path:
    """A log with other members, packed by another method. Where `change` returns None, a member is left out."""
    with EvalArchive(path) as log, zipfile.ZipFile(out, "w", method) as file:
        for name in log.names:
            if (content := change(name, log.read(name))) is not None:
                file.writestr(name, content)
    return out


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a real run: urn questions reasoned about in steps, two epochs, two scorers."""
    task = urns(n=3)
    task.solver = chain_of_thought(steps=2)
    return Path(evaluate(task, "reference/bayesian", tmp_path_factory.mktemp("solved"), epochs=2)[0].location)


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
    metadata = found[str(sample.id), sample.epoch]["metadata"]
    assert (outcome.facts.domain, outcome.facts.proposition) == ("urns", metadata["proposition"])
    assert sample.plain
    assert sample.tools is None
    assert [step.kind for step in sample.store.steps if step.trainable] == ["reasoning", "reasoning", "answer"]
    assert sum(len(score.value) for score in (outcome.scores or {}).values() if isinstance(score.value, dict)) > 2


def test_its_header(solved: Path) -> None:
    header, log = LogReader(solved).header, read_eval_log(str(solved), header_only=True)
    assert (header.status, header.version) == ("success", 2)
    for name in ("eval_id", "task", "task_id", "model", "created"):
        assert getattr(header.eval, name) == getattr(log.eval, name)
    assert header.solver_name == "truthgym/chain_of_thought"
    assert header.completed_at == log.stats.completed_at


def test_samples_are_read_in_the_order_of_the_log(solved: Path) -> None:
    with LogReader(solved) as log:
        some = [log.members[4], log.members[1]]
        assert [member for member, _ in log.samples(some)] == [log.members[1], log.members[4]]
        assert list(log.samples([])) == []
        nested = [sample.uuid for member, _ in log.outcomes() for _, sample in log.samples([member])]
        assert nested == [outcome.uuid for _, outcome in log.outcomes()]


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
    header = LogReader(log).header
    assert header.status == "started"
    assert header.eval == LogReader(solved).header.eval
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
    values = [value for sample in found.values() for value, _ in sample["scores"].values()]
    assert any(value.get("posterior", 0) is None for value in values)
    assert not reader.fallbacks


def test_metadata_and_store_may_have_a_key_events(tmp_path: Path) -> None:
    events = {"events": [1, 2], "model_usage": {"a": 1}}
    original = EvalSample(
        id="a", epoch=1, input="", target="", uuid="u", metadata=events, store={"x": events, **events}, messages=[]
    )
    path = log_of([original], tmp_path / "a.eval")
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
        record = json.loads(content)
        record["score"] = record.pop("scores")["brier"]
        record["transcript"] = {"events": record.pop("events"), "content": record.pop("attachments")}
        return json.dumps({k: v for k, v in record.items() if k not in ("uuid", "events_data")}).encode()

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


def test_tools_images_reasoning_limits_and_errors(run: Run) -> None:
    def reply(messages: list[ChatMessage]) -> ModelOutput:
        if messages[-1].role == "tool":
            text: list[Content] = [ContentReasoning(reasoning="They are five."), ContentText(text="It is 5.")]
            return ModelOutput.from_message(ChatMessageAssistant(content=text, source="generate"), "max_tokens")
        return ModelOutput.for_tool_call("mockllm/model", "add", {"x": 2, "y": 3})

    conversation: list[ChatMessage] = [
        ChatMessageUser(content=[ContentText(text="How many are they?"), ContentImage(image=IMAGE)])
    ]
    items = [Sample(id=i, input=conversation if i != 3 else "Two and three?", target="5") for i in (1, 2, 3)]
    task = Task(dataset=items, solver=[breaks(), use_tools(add()), generate()], scorer=unread())
    log = run(task, says(reply), fail_on_error=False, message_limit=4)
    found, reader = ours(log.location)
    assert found == as_inspect_says(log.location)
    assert not reader.fallbacks
    assert found["2", 1]["error"] == "ValueError('It broke.')"
    assert found["1", 1]["messages"][0]["content"][1]["image"] == IMAGE
    assert found["1", 1]["scores"]["unread"] == (None, {})
    assert found["3", 1]["stop_reason"] == "max_tokens"
    with LogReader(log.location) as opened:
        done = {str(sample.id): sample for _, sample in opened.samples()}
    assert done["1"].facts is None
    tools = done["1"].tools
    assert tools == done["3"].tools
    assert tools
    function = tools[0]["function"]
    assert function["name"] == "add"
    assert function["description"].startswith("Add two numbers")
    assert function["parameters"]["properties"]["x"]["description"].startswith("One number")
    assert function["parameters"]["required"] == ["x", "y"]


def test_a_bad_file_does_not_stop_its_folder(solved: Path, tmp_path: Path) -> None:
    name = "2026-01-01T00-00-00-00-00"
    shutil.copy(solved, tmp_path / solved.name)
    (tmp_path / f"{name}_cut_a.eval").write_bytes(solved.read_bytes()[:3000])
    pointer = tmp_path / f"{name}_lfs_b.eval"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\nsize 12345\n")
    logs, left_out = find_logs([tmp_path])
    assert [Path(log.path).name for log in logs] == [solved.name]
    assert all(reason.startswith(UNREADABLE) for reason in +left_out)
    assert ["git lfs pull" in reason for reason in sorted(+left_out)] == [False, True]
    with pytest.raises(BadInput, match="git lfs pull"):
        find_logs([solved, pointer])
    (tmp_path / solved.name).unlink()
    with pytest.raises(BadInput, match="git lfs pull"):
        find_logs([tmp_path])


def test_files_that_are_not_logs_are_refused(solved: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"There is no file .*b\.eval"):
        LogReader(tmp_path / "b.eval")
    (tmp_path / "b.eval").write_bytes(solved.read_bytes()[:5000])
    with pytest.raises(BadInput, match=r"b\.eval is not a complete \.eval log"):
        LogReader(tmp_path / "b.eval")
    with zipfile.ZipFile(tmp_path / "c.eval", "w") as file:
        file.writestr("a.txt", "Hello")
    with pytest.raises(BadInput, match=r"c\.eval is a zip file but not a log"):
        LogReader(tmp_path / "c.eval")
    (tmp_path / "d.json").write_text('{"a": 1}')
    with pytest.raises(BadInput, match=r"d\.json cannot be read as a log"):
        LogReader(tmp_path / "d.json")


DEEP = b"[" * 200_000 + b"]" * 200_000


@pytest.mark.parametrize("value", [b'"\xff"', DEEP], ids=["not UTF-8", "deep"])
def test_a_hostile_value_is_one_error(solved: Path, tmp_path: Path, value: bytes) -> None:
    def spoil(name: str, content: bytes) -> bytes:
        return content.replace(b'"messages":[', b'"messages":[{"role":"user","content":%b},' % value, 1)

    with (
        LogReader(rewritten(solved, tmp_path / "a.eval", spoil)) as log,
        pytest.raises(BadInput, match=r"a\.eval: Inspect cannot read its member samples/"),
    ):
        next(log.samples())
    unknown = rewritten(
        solved, tmp_path / "b.eval", lambda name, content: b"{}" if name.startswith("samples/") else content
    )
    with LogReader(unknown) as log, pytest.raises(BadInput, match=r"b\.eval: Inspect cannot read its member samples/"):
        next(log.outcomes())
    (tmp_path / "a.json").write_bytes(b'{"version":2,"samples":[%b]}' % value)
    with pytest.raises(BadInput, match=r"a\.json cannot be read as a log"):
        LogReader(tmp_path / "a.json")


def test_details_of_another_type_than_ours_are_left_out() -> None:
    written = {
        "settings": "x",
        "beliefs": [7, {"value": 1}],
        "trials": {},
        "outcome": "yes",
        "base_rate": 0.5,
        "a": [1],
    }
    details = LoggedScore(metadata=msgspec.Raw(json.dumps(written).encode())).details
    assert details == {
        "settings": None,
        "beliefs": [{"value": 1}],
        "trials": None,
        "outcome": None,
        "base_rate": 0.5,
        "a": [1],
    }
    assert LoggedScore(metadata=msgspec.Raw(b"null")).details == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"epoch":1', b'"epoch":1e308'), (b'"id":"', b'"no":"'), (b'"metadata":{', b'"metadata":1,"more":{')],
    ids=["epoch", "id", "metadata"],
)
def test_a_field_that_no_sample_has_is_one_error(solved: Path, tmp_path: Path, old: bytes, new: bytes) -> None:
    def spoil(name: str, content: bytes) -> bytes:
        return content.replace(old, new) if name.startswith("samples/") else content

    plain = tmp_path / "a.json"
    write_eval_log(read_eval_log(str(solved)), str(plain))
    whole = json.dumps(json.loads(plain.read_bytes()), separators=(",", ":")).encode()
    head, _, samples = whole.partition(b'"samples":[')
    plain.write_bytes(head + b'"samples":[' + samples.replace(old, new))
    for path in (rewritten(solved, tmp_path / "a.eval", spoil), plain):
        with pytest.raises(BadInput, match=re.escape(str(path))), LogReader(path) as log:
            list(log.outcomes())


@pytest.mark.parametrize("roles", [b'{"judge":"yes"}', b'{"judge":{"model":"m","args":"x"}}', b'{"judge":[1]}'])
def test_a_role_that_is_no_model_is_one_error(solved: Path, tmp_path: Path, roles: bytes) -> None:
    plain = tmp_path / "a.json"
    write_eval_log(read_eval_log(str(solved)), str(plain))
    plain.write_bytes(plain.read_bytes().replace(b'"model":', b'"model_roles":%b,"model":' % roles, 1))
    with pytest.raises(BadInput, match=r"a\.json cannot be read as a log"):
        LogReader(plain)


def test_reading_and_converting_load_nothing_heavy(solved: Path, root: Path, environment: dict[str, str]) -> None:
    paths = [path for folder in ("evallog", "training/conversion") for path in (root / folder).glob("*.py")]
    modules = [".".join(("truthgym", *path.relative_to(root).with_suffix("").parts)) for path in paths]
    assert len(modules) > 10
    script = (
        f"import sys, truthgym.training.convert, {', '.join(modules)}\n"
        "from truthgym.evallog.reader import LogReader\n"
        f"with LogReader({str(solved)!r}) as log: assert len(list(log.outcomes())) == len(list(log.samples())) == 6\n"
        "print({'inspect_ai', 'pydantic', 'numpy', 'pandas', 'pyarrow', 'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "set()\n"

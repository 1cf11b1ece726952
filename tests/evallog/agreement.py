"""What our reader and Inspect's own say of the same log, in the same form."""

import math
from pathlib import Path
from typing import Any

import msgspec
from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, read_eval_log, write_eval_log
from inspect_ai.util import Store

from truthgym.evallog.reader import LogReader
from truthgym.evallog.schema import LoggedSample, LoggedStep, Message, Part
from truthgym.solvers.trajectory import recorded_end, recorded_steps

Samples = dict[tuple[str, int], dict[str, Any]]


def ours(path: str | Path) -> tuple[Samples, LogReader]:
    """All samples of a log by id and epoch; outcomes must say the same as samples."""
    with LogReader(path) as log:
        light = dict(log.outcomes(invalidated=True))
        full = dict(log.samples(invalidated=True))
    assert list(light) == list(full) == log.members
    assert len(log) == len(full)
    found = {}
    for member, sample in full.items():
        outcome = light[member]
        for name in ("id", "epoch", "uuid", "target", "facts", "scores", "stop_reason", "error", "limit", "metadata"):
            assert plain(getattr(sample, name)) == plain(getattr(outcome, name))
        assert sample.store.ended == outcome.store.ended
        found[str(sample.id), sample.epoch] = {
            **{name: getattr(sample, name) for name in ("id", "epoch", "uuid", "target", "stop_reason")},
            "scores": {name: (plain(score.value), score.details) for name, score in (sample.scores or {}).items()},
            "error": sample.error and sample.error.message,
            "limit": sample.limit and sample.limit.type,
            "invalidated": sample.invalidation is not None,
            "ended": sample.store.ended,
            "input": question(sample),
            "messages": [message(one) for one in sample.messages],
            "steps": [plain(step) for step in sample.store.steps],
            "metadata": msgspec.json.decode(sample.metadata),
        }
    return found, log


def question(sample: LoggedSample) -> Any:
    text = msgspec.json.decode(sample.input)
    return text if isinstance(text, str) else [message(one) for one in msgspec.convert(text, list[dict[str, Any]])]


def message(one: Any) -> dict[str, Any]:
    """The fields of a message that training reads, of ours or of a dumped one."""
    fields = {name: plain(one.get(name) if isinstance(one, dict) else getattr(one, name))
              for name in Message.__struct_fields__ if name != "content"}  # fmt: skip
    content = one["content"] if isinstance(one, dict) else msgspec.json.decode(one.content)
    parts = content if isinstance(content, str) else [plain(msgspec.convert(part, Part)) for part in content]
    return {name: value for name, value in fields.items() if value is not None} | {"content": parts}


def plain(value: Any) -> Any:
    """For comparison: decoded, structs as dicts without what is None, and None for numbers that JSON does not have."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if isinstance(value, msgspec.Struct):
        return {k: plain(field) for k in value.__struct_fields__ if (field := getattr(value, k)) is not None}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_inspect_says(path: str | Path) -> Samples:
    """What `ours` should say, from the samples that Inspect reads."""
    samples = read_eval_log(str(path), resolve_attachments="full").samples or []
    return {(str(sample.id), sample.epoch): of_inspect(sample) for sample in samples}


def of_inspect(sample: EvalSample) -> dict[str, Any]:
    store = Store(sample.store)
    steps = set(LoggedStep.__struct_fields__)
    dumped = sample.model_dump(exclude_none=True, include={"input", "messages"})
    return {
        **{name: getattr(sample, name) for name in ("id", "epoch", "uuid", "target")},
        "stop_reason": sample.output.choices[0].stop_reason if sample.output.choices else None,
        "scores": {name: (plain(s.value), plain(s.metadata or {})) for name, s in (sample.scores or {}).items()},
        "error": sample.error and sample.error.message,
        "limit": sample.limit and sample.limit.type,
        "invalidated": sample.invalidation is not None,
        "ended": recorded_end(store),
        "input": sample.input if isinstance(sample.input, str) else [message(one) for one in dumped["input"]],
        "messages": [message(one) for one in dumped["messages"]],
        "steps": [step.model_dump(include=steps, exclude_none=True) for step in recorded_steps(store)],
        "metadata": plain(sample.metadata),
    }


def log_of(samples: list[EvalSample], path: Path) -> Path:
    """A log of these samples."""
    spec = EvalSpec(created="2026-01-02T03:04:05+00:00", task="t", model="m", dataset=EvalDataset(),
                    config=EvalConfig(), eval_id="e")  # fmt: skip
    write_eval_log(EvalLog(eval=spec, status="success", samples=samples), str(path))
    return path

"""A run that is killed within a call of `reference/...` for log-probabilities, and one that counts such calls."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.commands import call
from truthgym.models.reference import ReferenceAPI

CODE = """
import os, signal
from inspect_ai import eval
from truthgym.models.reference import ReferenceAPI
score, calls = ReferenceAPI._score_replies, []
async def counted(*given):
    calls.append(1)
    if len(calls) > {most}:
        os.kill(os.getpid(), signal.SIGKILL)
    return await score(*given)
ReferenceAPI._score_replies = counted
eval({task!r}, model={model!r}, task_args={arguments!r}, log_dir={place!r}, display="none", max_samples=1, log_buffer=1,
     log_realtime=False)
"""


def kill_at_call(
    most: int, task: str, model: str, arguments: dict[str, Any], place: Path, environment: dict[str, str]
) -> Path:
    """Run the task, one sample at a time, in a process that is killed at the call after `most`. Returns its log."""
    code = CODE.format(most=most, task=task, model=model, arguments=arguments, place=str(place))
    child = call("-c", code, environment=environment)
    assert child.returncode == -signal.SIGKILL, child.stderr
    (path,) = place.glob("*.eval")
    return path


def count_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by one with each call."""
    calls: list[int] = []
    score_replies = ReferenceAPI._score_replies

    async def counted(*arguments: Any) -> Any:
        calls.append(1)
        return await score_replies(*arguments)

    monkeypatch.setattr(ReferenceAPI, "_score_replies", counted)
    return calls

"""A loop that is killed or interrupted: what it had done is not repeated."""

import json
import os
import signal
import sys
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import read_eval_log

from tests.training.conftest import forked
from tests.training.converted import rows
from tests.training.test_loop import AGENT, logs_in
from truthgym.models.reference import ReferenceAPI
from truthgym.training.conversion.writer import DatasetFolder
from truthgym.training.loop import loop


def noted(function: Callable[..., Any], calls: Path, limit: float = inf) -> Callable[..., Any]:
    """The function, each call of which is a byte of a file, and which kills its process at the one after the limit."""

    def call(*arguments: Any, **options: Any) -> Any:
        if calls.exists() and calls.stat().st_size == limit:
            os.kill(os.getpid(), signal.SIGKILL)
        with calls.open("a") as file:
            file.write(".")
        return function(*arguments, **options)

    return call


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_kills_in_evaluation_and_conversion_repeat_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = AGENT | {"out": str(tmp_path / "loop"), "max_connections": 1, "held_out_epochs": 1}
    whole = loop(options | {"out": str(tmp_path / "whole"), "max_connections": 4})
    first, second, written = (tmp_path / name for name in ("first", "second", "written"))

    def in_evaluation() -> None:  # each in a process of its own
        monkeypatch.setattr(ReferenceAPI, "generate", noted(ReferenceAPI.generate, first, 9))
        loop(options)

    def in_conversion() -> None:
        monkeypatch.setattr(ReferenceAPI, "generate", noted(ReferenceAPI.generate, second))
        monkeypatch.setattr(DatasetFolder, "write", noted(DatasetFolder.write, written, 2))
        loop(options)

    assert forked(in_evaluation) == [-signal.SIGKILL]
    assert not logs_in(tmp_path / "loop")
    assert first.stat().st_size == 9
    assert forked(in_conversion) == [-signal.SIGKILL]
    places = [tmp_path / "loop" / name for name in ("0-held-out", "1a-asked")]
    answers = sum(len(read_eval_log(log).samples or []) for place in places for log in logs_in(place))
    assert (
        second.stat().st_size < answers - 9 + 3
    )  # at most the answers that were being given when it was killed are asked for again
    before = {path: path.read_bytes() for path in (tmp_path / "loop").rglob("*.eval")}
    loop(options)
    assert {path: path.read_bytes() for path in before} == before
    assert (tmp_path / "loop" / "report.md").is_file()
    examples = [(out / "1c-trained").glob("*/data/train.jsonl") for out in (tmp_path / "loop", whole)]
    own = {"log", "eval_id", "sample_uuid"}
    contents = [[{key: row[key] for key in row.keys() - own} for file in files for row in rows(file.parent)]
             for files in examples]  # fmt: skip
    assert contents[0]
    assert contents[0] == contents[1], "the same examples in the same order as without a kill"


@pytest.mark.slow
def test_an_interrupted_training_resumes_from_the_checkpoint(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import Trainer

    options: dict[str, Any] = {
        "model_name_or_path": str(base),
        "task": "truthgym/urns",
        "task_args": {"n": 12, "paradigms": "brier"},
        "method": "sft",
        "convert": {"all": True},
        "out": str(tmp_path / "loop"),
        "epochs": 1,
        "held_out_epochs": 1,
        "max_tokens": 4,
        "display": "log",
        "train": {"max_steps": 4, "save_steps": 2, "per_device_train_batch_size": 2, "disable_tqdm": True},
    }
    step, steps = Trainer.training_step, [0]

    def stops(self: Any, *args: Any, **kwargs: Any) -> Any:
        steps[0] += 1
        if steps[0] > 3:
            raise KeyboardInterrupt
        return step(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "training_step", stops)
        with pytest.raises(KeyboardInterrupt):
            loop(options)
    capsys.readouterr()
    before = {path: path.read_bytes() for path in (tmp_path / "loop").rglob("*.eval")}
    assert len(before) == 2
    loop(options)
    out = capsys.readouterr().out
    assert "Resuming from" in out
    assert out.count("evaluating") == 1
    assert {path: path.read_bytes() for path in before} == before
    report = json.loads((tmp_path / "loop" / "report.json").read_text())["tasks"]["truthgym/urns"]
    assert [row["reply_nll"]["value"] > 0 for row in report] == [True, True]
    assert report[0]["kl"] is None
    # Of a model's own replies: the start's log-probability less its own. Four steps move random weights a little.
    assert -0.5 < report[1]["kl"]["value"] < 5
    assert report[1]["kl"]["value"] != 0
    # Four are sampled; a byte that is no character is several tokens when the text is read again.
    assert all(1 <= row["tokens"]["value"] <= 8 for row in report)
    assert "no answer could be parsed" in report[1]["verdict"]

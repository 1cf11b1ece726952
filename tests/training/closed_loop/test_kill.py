"""A loop that is killed or interrupted: what it had done is not repeated."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import read_eval_log

from tests.commands import call
from tests.training.test_loop import AGENT, logs_in
from truthgym.training.loop import loop

RUN = """
import json, os, signal, sys
from truthgym.models import reference
from truthgym.training.conversion import writer as dataset_folder
from truthgym.training.loop import loop
from inspect_ai.log import list_eval_logs, read_eval_log
given, calls = json.loads(sys.argv[1]), []

def killing(kind, name, left):
    done = getattr(kind, name)
    def counted(*args, **kwargs):
        if len(times) == left:
            print("calls", len(calls), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        times.append(1)
        return done(*args, **kwargs)
    times = []
    setattr(kind, name, counted)

generate = reference.ReferenceAPI.generate
def counted(*args, **kwargs):
    calls.append(1)
    return generate(*args, **kwargs)
reference.ReferenceAPI.generate = counted
when = json.loads(sys.argv[2])
for at, after in when:
    if child := os.fork():
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        logs = [read_eval_log(log, header_only=True) for log in list_eval_logs(given["out"])]
        print("finished", sum(log.status == "success" for log in logs), flush=True)
        continue
    if at == "evaluation":
        killing(reference.ReferenceAPI, "generate", after)
    else:
        killing(dataset_folder.DatasetFolder, "write", after)
    loop(given)
    os._exit(1)
"""


def kill(given: dict[str, Any], environment: dict[str, str], *when: tuple[str, int]) -> list[tuple[int, int]]:
    """Run a loop in processes that are killed one after the other, each at another place, after so many calls there.

    Returns:
        For each, how often it asked the reference agent, and how many evaluations were finished when it was killed.
    """
    done = call("-c", RUN, json.dumps(given), json.dumps(when), environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    numbers = {name: re.findall(rf"^{name} (\d+)$", done.stdout, re.MULTILINE) for name in ("calls", "finished")}
    return [(int(calls), int(finished)) for calls, finished in zip(numbers["calls"], numbers["finished"], strict=True)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_kills_in_evaluation_and_conversion_repeat_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    given = AGENT | {"out": str(tmp_path / "loop"), "max_connections": 1}
    (before_kill, finished), (calls, _) = kill(given, environment, ("evaluation", 9), ("conversion", 2))
    assert (before_kill, finished) == (9, 0)
    places = [tmp_path / "loop" / name for name in ("0-held-out", "1a-asked")]
    answers = sum(len(read_eval_log(log).samples or []) for place in places for log in logs_in(place))
    assert calls < answers - 9 + 3  # at most the answers that were being given when it was killed are asked for again
    before = {path: path.read_bytes() for path in (tmp_path / "loop").rglob("*.eval")}
    loop(given)
    assert {path: path.read_bytes() for path in before} == before
    assert (tmp_path / "loop" / "report.md").is_file()
    whole = loop(given | {"out": str(tmp_path / "whole"), "max_connections": 4})
    examples = [(out / "1c-trained").glob("*/data/train.jsonl") for out in (tmp_path / "loop", whole)]
    first, second = (
        [json.loads(line) for file in files for line in file.read_text().splitlines()] for files in examples
    )
    assert first
    own = {"log", "eval_id", "sample_uuid"}
    assert [{key: row[key] for key in row.keys() - own} for row in first] == [
        {key: row[key] for key in row.keys() - own} for row in second
    ], "the same examples in the same order as without a kill"


@pytest.mark.slow
def test_an_interrupted_training_resumes_from_the_checkpoint(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import Trainer

    given: dict[str, Any] = {
        "model_name_or_path": str(base),
        "task": "truthgym/urns",
        "task_args": {"n": 12, "paradigms": "brier"},
        "method": "sft",
        "convert": {"all": True},
        "out": str(tmp_path / "loop"),
        "epochs": 1,
        "held_out_epochs": 1,
        "max_tokens": 4,
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
            loop(given)
    capsys.readouterr()
    before = {path: path.read_bytes() for path in (tmp_path / "loop").rglob("*.eval")}
    assert len(before) == 2
    loop(given)
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

import runpy
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log

from truthgym.analysis.performance import load

DRIVER = """
import functools, gc, os, runpy, signal, sys
from importlib import metadata
from inspect_ai.hooks import Hooks, hooks
gc.set_threshold(50_000, 20, 20)
metadata.packages_distributions = functools.cache(metadata.packages_distributions)  # as in conftest.py
sweep = runpy.run_path("examples/sweep.py")
task_of = sweep["task_of"]
names = sweep["main"].__globals__
names["task_of"] = lambda *args, **arguments: names["task_with"](task_of(*args, **arguments), epochs=2)
options = sweep["choose"]({"domains": "urns", "prompts": "critical_thinking", "scorers": "brier", "n": 1})
if len(sys.argv) > 2:
    ends = []
    @hooks(name="killer", description="Kills this process when so many tasks have ended.")
    class Killer(Hooks):
        async def on_task_end(self, data):
            ends.append(data)
            if len(ends) == int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGKILL)
raise SystemExit(0 if sweep["main"](sys.argv[1], options, "none") else 1)
"""


def logs(folder: Path, header_only: bool = True) -> list[EvalLog]:
    if not folder.exists():
        return []
    read = []
    for info in list_eval_logs(str(folder)):
        read.append(read_eval_log(info, header_only=header_only))
    return read


def setup(log: EvalLog) -> str:
    assert log.eval.metadata
    return str(log.eval.metadata["setup"])


@pytest.mark.slow
def test_a_killed_sweep_goes_on_with_nothing_lost_or_doubled(
    root: Path, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sweep"
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER, encoding="utf-8")
    for name, home in {"XDG_CACHE_HOME": "cache", "XDG_DATA_HOME": "data"}.items():
        monkeypatch.setenv(name, str(tmp_path / home))
        environment[name] = str(tmp_path / home)
    command = [str(driver), str(folder)]
    # The first end is that of the run that makes examples for few_shot.
    first = subprocess.run([sys.executable, *command, "3"], cwd=root, env=environment, timeout=600)
    assert first.returncode == -signal.SIGKILL
    finished = {setup(log): log for log in logs(folder, header_only=False) if log.status == "success"}
    assert 2 <= len(finished) < 13  # ten run at a time: at the second end, the last has not begun

    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as done:
        runpy.run_path(str(driver))
    assert done.value.code == 0
    complete = [log for log in logs(folder, header_only=False) if log.status == "success"]
    assert Counter(setup(log) for log in complete).most_common(1)[0][1] == 1
    assert len(complete) == 13
    for log in complete:
        assert log.samples
        assert not [sample for sample in log.samples if sample.error]
        assert Counter((sample.id, sample.epoch) for sample in log.samples) == Counter(
            (f"urns-{i:05d}-seed0-draws4-ratio2-base15-85", epoch) for i in range(1) for epoch in (1, 2)
        )
        before = finished.get(setup(log))
        if before:
            assert {s.uuid for s in before.samples or []} == {s.uuid for s in log.samples}

    frame = load(folder, "brier")
    assert len(frame) == 13
    assert set(frame["mode"]) == set(runpy.run_path("examples/sweep.py")["DEFAULTS"]["modes"])


def test_a_sweep_of_a_file_prints_its_size_first_and_asks_about_its_answers_last(
    root: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    config = tmp_path / "sweep.yaml"
    config.write_text(
        "{domains: [urns], modes: {direct: {}, two turns: {solver: self_debate, turns: 1}}, prompts: none, n: 9, "
        "then: {world_in_the_loop: {model: reference/forecaster}}}"
    )
    command = [sys.executable, "examples/sweep.py", str(tmp_path / "logs"), "--config", str(config), "--paradigms"]
    cost = subprocess.run([*command, "brier", "--cost"], cwd=root, env=environment, capture_output=True, text=True)
    assert cost.stdout.splitlines()[0].endswith("= 2 logs"), cost.stderr
    calls = [line.split()[-2] for line in cost.stdout.splitlines() if line.endswith(" calls")]
    assert calls == ["27", "81"], f"9 questions, 3 epochs: {cost.stdout}"
    assert not (tmp_path / "logs").exists()
    run = [*command, "brier", "--display", "none"]
    ended = subprocess.run(run, cwd=root, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert {setup(log) for log in logs(tmp_path / "logs")} == {"direct, prompt none", "two turns, prompt none"}
    [after] = logs(tmp_path / "logs-world_in_the_loop")
    assert after.status == "success"
    wrong = subprocess.run([*command, "brier", "--modes", "directt"], cwd=root, env=environment, capture_output=True)
    assert b"directt" in wrong.stdout + wrong.stderr
    assert wrong.returncode != 0

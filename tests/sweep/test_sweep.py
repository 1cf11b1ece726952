import json
import os
import signal
import stat
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import inspect_ai
import pytest
from filelock import FileLock
from inspect_ai.log import list_eval_logs, read_eval_log

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import evalset
from truthgym.sweep import slurm
from truthgym.sweep.sweep import Plan, Script, remove_merged, sweep, sweep_call
from truthgym.sweep.units.child import replace_eval_set
from truthgym.sweep.units.unit import STOPPED, Outcome, Unit, run_here, run_unit

SCRIPT = """
import os, signal, sys
from pathlib import Path
from inspect_ai import Task, eval_set, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, mean, scorer, stderr
from inspect_ai.solver import solver

@solver
def dies_once():
    async def solve(state, generate):
        if state.sample_id == 6 and not Path("died").exists():
            Path("died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return state
    return solve

@scorer(metrics=[mean(), stderr()])
def tenth():
    async def score(state, target):
        return Score(value=state.sample_id / 10 + state.epoch)
    return score

@task
def numbers():
    samples = [Sample(input=str(n), id=n, metadata={"event": f"e{n // 2}"}) for n in range(8)]
    return Task(MemoryDataset(samples), solver=dies_once(), scorer=tenth(), epochs=2)

success, logs = eval_set(numbers(), log_dir="logs", model="mockllm/model", display="none")
print(sys.argv[1:], success, logs[0].results.scores[0].metrics["mean"].value)
"""


@pytest.mark.slow
def test_a_script_in_shards_whose_process_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT, encoding="utf-8")
    lines: list[str] = []

    assert sweep(["script.py", "--seed", "3"], workers=1, shards=2, report=lines.append)

    (merged,) = list_eval_logs("logs")
    log = read_eval_log(merged)
    assert Path("died").exists(), "no process was killed"
    assert log.status == "success"
    assert sorted((sample.id, sample.epoch) for sample in log.samples or []) == [
        (n, e) for n in range(8) for e in (1, 2)
    ]
    assert log.results is not None
    assert log.results.scores[0].metrics["mean"].value == pytest.approx(0.35 + 1.5, abs=1e-12)
    assert log.eval.dataset.sample_ids == list(range(8))
    assert log.eval.config.sample_id is None
    assert capsys.readouterr().out.endswith("['--seed', '3'] True 1.85\n"), "the script runs to its end"
    assert lines[0] == "2 units, 16 samples."
    assert len(lines) == 3
    assert not list(Path("logs").glob("*.shards"))
    assert not Path("logs/.sweep").exists()


def units(folder: Path, scripts: Sequence[str]) -> list[Unit]:
    """A unit for each script, which is run as it is."""
    listed = []
    for number, script in enumerate(scripts):
        path = folder / f"script{number}.py"
        path.write_text(script, encoding="utf-8")
        listed.append(Unit(path.name, 1, [str(path)], str(folder), 1, [], {}, str(folder / "state" / str(number))))
    return listed


WRITES = "from pathlib import Path\nPath(__file__).with_suffix('.done').touch()\n"
FAILS = "raise SystemExit('no such model')"


def test_a_failing_unit_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    outcomes = list(run_here(units(tmp_path, [WRITES, FAILS, WRITES]), 2))

    assert sorted(outcome.unit.name for outcome in outcomes if not outcome.error) == ["script0.py", "script2.py"]
    assert "no such model" in next(outcome.error for outcome in outcomes if outcome.error)
    assert len(list(tmp_path.glob("*.done"))) == 2
    assert not STOPPED.is_set(), "a later sweep of this process tries its units again"


LOOKS = """
import ctypes, os, sys
from pathlib import Path
signal = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(signal))  # PR_GET_PDEATHSIG
opened = [os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")]
print(signal.value, [Path(one).name for one in opened if one.endswith(".lock")], repr(sys.stdin.read()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends the process only on Linux")
def test_a_process_has_its_units_lock_and_ends_with_its_worker(tmp_path: Path) -> None:
    (unit,) = units(tmp_path, [LOOKS])
    assert run_unit(unit).error == ""
    state = Path(unit.state)
    assert Path(f"{state}.txt").read_text(encoding="utf-8") == f"{signal.SIGKILL:d} ['0.lock'] ''\n"
    assert not Path(f"{state}.settings").exists(), "a command line may hold keys"
    assert stat.S_IMODE(state.parent.stat().st_mode) == 0o700


SBATCH = """#!{python}
import os, subprocess, sys
from pathlib import Path
script = sys.stdin.read()
Path("sbatch.txt").write_text(" ".join(sys.argv[1:]))
if "TOO_MANY" in os.environ:
    raise SystemExit("sbatch: error: Batch job submission failed: Invalid job array specification")
print("Submitted batch job 7")
array = next(one for one in sys.argv if one.startswith("--array="))
first, last = array.removeprefix("--array=").split("%")[0].split("-")
for number in range(int(first), int(last) + 1):  # ends before them, as their files are seen late
    subprocess.Popen(["sh", "-c", script], env=os.environ | {{"SLURM_ARRAY_TASK_ID": str(number)}})
raise SystemExit(1)
"""


def test_units_run_as_a_slurm_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(SBATCH.format(python=sys.executable), encoding="utf-8")
    sbatch.chmod(sbatch.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{sbatch.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(slurm, "ELEMENTS", 2)
    monkeypatch.setattr(slurm, "POLL", 0.05)

    outcomes = list(slurm.run(units(tmp_path, [WRITES, FAILS, WRITES]), workers=5))

    assert {outcome.unit.name: bool(outcome.error) for outcome in outcomes} == {
        "script0.py": False, "script1.py": True, "script2.py": False,
    }  # fmt: skip
    assert "--array=0-1%5" in Path("sbatch.txt").read_text(encoding="utf-8")
    assert len(list(tmp_path.glob("*.done"))) == 2

    monkeypatch.setattr(slurm, "LATE", 0.0)
    monkeypatch.setattr(slurm, "SCRIPT", "#!/bin/sh\n")
    (lost,) = slurm.run(units(tmp_path, [WRITES]), workers=1)
    assert "all nodes see" in lost.error
    monkeypatch.setenv("TOO_MANY", "1")
    with pytest.raises(BadInput, match="Invalid job array"):
        list(slurm.run(units(tmp_path, [WRITES]), workers=1))


def test_slurm_without_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="sbatch"):
        list(slurm.run(units(tmp_path, [WRITES]), workers=1))


RAY_DIES = (
    "import os, signal, time\nfrom pathlib import Path\n"
    "if not Path('lost').exists():\n    Path('lost').touch()\n"
    "    child = os.getppid()\n    os.kill(child, signal.SIGKILL)\n    time.sleep(60)\n" + WRITES
)


@pytest.mark.slow
def test_ray_replaces_a_lost_worker(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    from truthgym.sweep.ray import run

    todo = units(tmp_path, [WRITES, RAY_DIES])
    try:
        ray.init(num_gpus=2, num_cpus=2, include_dashboard=False, log_to_driver=False)
        with pytest.raises(BadInput, match="no machine .* they have 2"):
            list(run(todo, workers=2, gpus=3))
        outcomes = list(run(todo, workers=2, gpus=1))
    finally:
        ray.shutdown()

    assert [outcome.error for outcome in outcomes] == [""] * 2
    assert len(list(tmp_path.glob("*.done"))) == 2
    assert (tmp_path / "lost").exists()


def test_an_unreachable_cluster(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    from truthgym.sweep.ray import run

    with pytest.raises(BadInput, match="127.0.0.1:9"):
        list(run(units(tmp_path, [WRITES]), workers=1, address="127.0.0.1:9"))


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        (["missing.py"], {}, "missing.py"),
        (["script.py"], {"on": "slurm", "address": "head:6379"}, "--on ray"),
        (["inspect", "score", "--scorer", "truthgym/brier"], {}, "no logs"),
        (["inspect", "score", "logs", "--output-file=one.eval"], {}, "--output-file"),
        (["script.py"], {"on": "kubernetes"}, "local"),
    ],
)
def test_bad_input(
    command: list[str], options: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.py").touch()
    with pytest.raises(BadInput, match=message):
        sweep(command, **options)  # type: ignore[arg-type]


def test_a_script_without_eval_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text("print('no evals here')", encoding="utf-8")
    with pytest.raises(BadInput, match=r"eval_set\(\).* no evals here"):
        sweep(["script.py"])


def test_a_script_that_calls_eval(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((evalset, "eval_set"), *((inspect_ai, name) for name in ("eval_set", "eval", "eval_async"))):
        monkeypatch.setattr(module, name, getattr(module, name))  # put back at the end
    replace_eval_set({"call": 0, "earlier": []}, lambda eval_set, options: (True, []))

    with pytest.raises(BadInput, match=r"use eval_set\(\)"):
        inspect_ai.eval("task.py")
    assert inspect_ai.eval_set("task.py", "logs") == (True, [])


@pytest.fixture
def converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The logs that a command is run for, one after another, in a folder with two of them; it fails for "bad"."""
    monkeypatch.chdir(tmp_path)
    for name in ("logs", "sft"):
        (tmp_path / name).mkdir()  # also the value of an option
    for name in ("a", "b"):
        Path(f"logs/{name}.eval").write_text(name)

    def found(places: list[str]) -> tuple[list[Any], Counter[str]]:
        files = [Path(places[0], f"{name}.eval") for name in ("a", "b")]
        return [SimpleNamespace(path=str(file), digest=file.read_text) for file in files], Counter()

    ran: list[str] = []

    def attempt(unit: Unit, search: bool) -> tuple[str, str]:
        log = Path(unit.command[2])
        ran.append(" ".join([log.stem, *unit.command[3:]]))
        if "bad" in log.read_text():
            return "", "failed"
        if unit.command[0] == "inspect":
            log.write_text(log.read_text() + " scored")
        else:
            Path("data", log.stem).mkdir(parents=True, exist_ok=True)
            Path("data", log.stem, "train.jsonl").touch()
        return "", ""

    monkeypatch.setattr("truthgym.sweep.sweep.find_logs", found)
    monkeypatch.setattr("truthgym.sweep.units.unit.attempt_unit", attempt)
    monkeypatch.setattr("truthgym.sweep.units.unit.ATTEMPTS", 1)
    return ran


def test_convert_runs_for_a_log_that_is_new_or_changed_or_whose_dataset_is_gone(converted: list[str]) -> None:
    def run() -> list[str]:
        converted.clear()
        sweep(["truthgym", "convert", "logs", "--to", "sft", "--out=data"], workers=1, report=lambda line: None)
        return sorted(converted)

    options = {name: f"{name} --to sft --out data/{name}" for name in ("a", "b")}
    Path("logs/b.eval").write_text("bad")
    assert run() == [options["a"], options["b"]]
    Path("logs/b.eval").write_text("b")
    assert run() == [options["b"]], "the same command runs what failed"
    assert run() == []
    assert [path.suffix for path in Path(".truthgym-sweep").glob("*/*")] == [".done"] * 2
    os.utime("logs/a.eval", (0, 0))
    assert run() == [], "its content is the same"
    Path("logs/a.eval").write_text("another")
    Path("data/b/train.jsonl").unlink()
    assert run() == [f"{words} --overwrite" for words in options.values()]
    assert run() == []


def test_score_runs_for_a_log_that_is_new_or_changed(converted: list[str]) -> None:
    def run() -> list[str]:
        converted.clear()
        sweep(["inspect", "score", "logs", "--overwrite"], workers=1, report=lambda line: None)
        return sorted(converted)

    Path("logs/b.eval").write_text("bad")
    assert run() == ["a --overwrite", "b --overwrite"]
    assert run() == ["b --overwrite"], "that the log was scored does not change it"
    Path("logs/a.eval").write_text("another")
    assert run() == ["a --overwrite", "b --overwrite"]
    Path("logs/b.eval").write_text("b")
    assert run() == ["b --overwrite"]
    assert list(Path(".truthgym-sweep").glob("*/*")) == []
    assert run() == ["a --overwrite", "b --overwrite"], "it is asked for anew"


def test_shards_that_a_kill_left_beside_their_merged_log_are_removed(tmp_path: Path) -> None:
    log, folder = tmp_path / "a.eval", tmp_path / ".sweep"
    shard = tmp_path / "a.shards" / "0" / "a.eval"
    for path in (shard, folder / "x.shards"):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"out": str(log), "parts": [[1], [2]]}), encoding="utf-8")

    remove_merged(folder)
    assert shard.exists(), "nothing is removed before the log is merged"
    log.touch()
    remove_merged(folder)
    assert not shard.parent.parent.exists()


def test_a_stopped_sweep_starts_no_unit_again(tmp_path: Path) -> None:
    (unit,) = units(tmp_path, [FAILS])
    STOPPED.set()
    assert "stopped" in run_unit(unit).error
    STOPPED.clear()
    assert "no such model" in run_unit(unit).error


def test_a_plain_eval_set_that_removed_a_log_is_named(tmp_path: Path) -> None:
    unit = Unit("a", 1, [], "", 1, [], {}, str(tmp_path / "a"))
    said: list[str] = []
    outcomes = iter([Outcome(unit, str(tmp_path / "gone.eval"))])
    assert sweep_call(Plan(str(tmp_path), [unit]), cast(Script, None), lambda units: outcomes, said.append)
    assert "gone.eval was removed: a plain eval_set ran" in said[-1]


def test_two_sweeps_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.py").touch()
    call = SimpleNamespace(next_call=lambda: {"options": {"log_dir": "logs"}})
    monkeypatch.setattr("truthgym.sweep.sweep.Script", lambda command: nullcontext(call))

    with FileLock("logs/.sweep.lock"), pytest.raises(BadInput, match="Another sweep runs in logs"):
        sweep(["script.py"])  # before it plans
    assert [path.name for path in Path("logs").iterdir()] == [".sweep.lock"]

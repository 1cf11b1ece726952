"""Users' programs as graders: what they return is read, and whatever else they do harms nothing but their own grade."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inspect_ai.log import EvalLog, EvalSample

from tests.fixtures import Fails, Run, listens, number, reason, samples
from tests.sandboxes import Folder
from tests.scorers.graders import answers
from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.grader import Grade, Grader
from truthgym.scorers.graders.python import ProgramOptions, python_grader
from truthgym.solvers.agent_tools import programs
from truthgym.solvers.agent_tools.python_runner import landlock_version
from truthgym.tasks.worlds import urns

LIBC = "import ctypes, os, signal\nlibc = ctypes.CDLL(None, use_errno=True)\n"


def program(body: str, before: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{before}\ndef grade(sample, item):\n{lines}\n"


def grade_of(source: str, **settings: Any) -> Grade:
    options = ProgramOptions(**{"trusted": True, "time_limit": 20} | settings)
    return answers.grade_of(python_grader("mine", source, options), answers.answer(n=3))


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("return 0.5", 0.5),
        ("return 1", 1),
        ("return 1.0 if sample['output_text'] == 'Yes.' and item['target'] == 'yes' else 0.0", 1),
        ("return len(sample['trajectory']) / 100", 0.11),
        ("return float('output_json' in sample)", 0),
        ("print('noise ' * 10**6, flush=True); return item['n'] / 4", 0.75),
        ("import sys; sys.stderr.write('{\"grade\": 0}'); return 0.25", 0.25),
        ("import numpy; return numpy.float32(0.5)", 0.5),
        ("open('own.txt', 'w').write('x'); return float(open('own.txt').read() == 'x')", 1),
        ("import os; return float(os.listdir('.') == ['input.json'])", 1),
        ("import threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); return 0.5", 0.5),
    ],
    ids=lambda text: str(text)[:24],
)
def test_a_program_grades(body: str, value: float) -> None:
    assert grade_of(program(body)) == Grade(value)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (program("return 1 / 0"), "The grader mine raised ZeroDivisionError: division by zero."),
        (program("return item['none']"), "The grader mine raised KeyError: 'none'."),
        (program("raise SystemExit(0)"), "The grader mine raised SystemExit: 0."),
        (program("import sys; sys.exit('bye')"), "The grader mine raised SystemExit: bye."),
        ("import nowhere_to_be_found\n" + program("return 1"), "raised ModuleNotFoundError"),
        (program("import os; os._exit(3)"), "The grader mine ended without a result (exit status 3)."),
        (program("import ctypes; ctypes.string_at(0)"), "ended without a result (exit status -11)"),
        (program("return float('nan')"), "The grader mine returned NaN."),
        (program("return 2"), "The grader mine returned 2, which is outside its range, 0 to 1."),
        (program("return 10 ** 400"), "raised OverflowError"),
        (program("return True"), "The grader mine returned True, which is not a number."),
        (program("return None"), "The grader mine returned None, which is not a number."),
        ("def grade(sample):\n    return 1", "The grader mine raised TypeError"),
        (program("return 'x' * 10**8"), "which is not a number."),
        (program("return bytearray(10**10)"), "The grader mine needs more memory than the limit."),
        (program("return grade(sample, item)"), "raised RecursionError"),
        (program("class E(Exception):\n    def __str__(self): raise ValueError()\nraise E()"), "The grader mine"),
    ],
    ids=lambda text: str(text).replace("\n", " ")[-30:],
)
def test_what_goes_wrong_has_a_reason(source: str, reason: str) -> None:
    result = grade_of(source)
    assert result.value is None
    assert result.reason
    assert reason in result.reason
    assert len(result.reason) < 500


@pytest.mark.parametrize(
    "body",
    ["while True: pass", "import time; time.sleep(600)", "import signal; signal.pause()"],
    ids=lambda text: text[:12],
)
def test_a_program_that_does_not_end_is_ended(body: str) -> None:
    began = time.monotonic()
    result = grade_of(program(body), time_limit=2)
    assert result == Grade(None, "The grader mine did not end within 2 s and was killed.", "answer")
    assert time.monotonic() - began < 300


@pytest.mark.parametrize("fault", ["folder", "descriptors", "start", "space"])
def test_a_fault_of_the_machine_is_no_grade(fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = program("return 0.5")
    if fault == "folder":
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    elif fault == "descriptors":

        async def open_process(*_: Any, **__: Any) -> None:
            raise OSError(24, "Too many open files")

        monkeypatch.setattr("anyio.open_process", open_process)
    elif fault == "start":
        monkeypatch.setattr(programs, "RUNNER", tmp_path / "missing.py")
    else:
        source = program("import os; os._exit(0)")
        monkeypatch.setattr(programs, "disk_usage", lambda _: SimpleNamespace(free=0))
    result = grade_of(source)
    assert (result.value, result.fault) == (None, "unreachable")
    assert "could not be run on this machine" in str(result.reason)


@pytest.mark.parametrize("body", ["import os; os.kill(os.getpid(), 9)", "import os; os._exit(1)"])
def test_a_program_that_ends_itself_has_earned_its_grade(body: str) -> None:
    assert grade_of(program(body)).fault == "answer"


def test_what_a_program_leaves_running_is_ended_with_it() -> None:
    """The guard refuses new processes; a program that gets round it still has its processes ended, in its group."""
    fork = (
        "import ctypes, time\npid = ctypes.CDLL(None).fork()\nif not pid: time.sleep(600)\nraise ValueError(str(pid))"
    )
    result = grade_of(program(fork))
    assert result.reason
    digits = result.reason.removesuffix(".").split()[-1]
    assert int(digits) > 0
    time.sleep(0.2)
    state = Path(f"/proc/{digits}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


@pytest.fixture
def outside() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "precious.txt"
        file.write_text("precious")
        yield file


@pytest.mark.parametrize(
    "body",
    [
        "open({path!r}, 'w')",
        "open({path!r}, 'a')",
        "open({path!r}, 'r+')",
        "open({new!r}, 'x')",
        "import os; os.open({path!r}, os.O_WRONLY | os.O_TRUNC)",
        "import pathlib; pathlib.Path({path!r}).write_text('gone')",
        "import os; os.remove({path!r})",
        "import os; os.rename({path!r}, 'here')",
        "import os; os.rename('input.json', {path!r})",
        "import os; os.truncate({path!r}, 0)",
        "import os; os.mkdir({new!r})",
        "import os; os.symlink({path!r}, 'link'); open('link', 'w')",
        "import os; os.chdir('/'); open('tmp/truthgym-grader-was-here', 'w')",
        "import shutil; shutil.rmtree({folder!r})",
        "import shutil; shutil.copy('input.json', {path!r})",
        "import sqlite3; sqlite3.connect({path!r})",
        "import os; os.system('true')",
        "import os; os.fork()",
        "import subprocess; subprocess.run(['true'])",
        "import multiprocessing as m; m.get_context('fork').Process(target=print).start()",
        "import os; os.execv('/bin/true', ['true'])",
        "import os; os.kill(os.getppid(), 9)",
        "import os; os.killpg(os.getpgid(os.getppid()), 15)",
        "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
        "import socket; socket.socket().bind(('127.0.0.1', 0))",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9', timeout=1)",
    ],
    ids=lambda text: text.split(";")[-1].strip()[:40],
)
def test_accidents_are_stopped(body: str, outside: Path) -> None:
    filled = body.format(path=str(outside), new=str(outside.with_name("new")), folder=str(outside.parent))
    result = grade_of(program(f"{filled}\nreturn 1.0"))
    assert result.value is None
    assert result.reason
    assert "a grader may not" in result.reason, result.reason
    assert outside.read_text() == "precious"
    assert list(outside.parent.iterdir()) == [outside]
    assert not Path("/tmp/truthgym-grader-was-here").exists()


PAST_THE_GUARD = [
    "libc.open({path!r}.encode(), os.O_WRONLY)",
    "libc.truncate({path!r}.encode(), 0)",
    "libc.unlink({path!r}.encode())",
    "libc.rename({path!r}.encode(), b'here')",
    "libc.link({path!r}.encode(), b'here')",
    "libc.mkdir({new!r}.encode(), 0o700)",
    "libc.mkfifo({new!r}.encode(), 0o700)",
    "libc.symlink(b'/etc', {new!r}.encode())",
    "libc.execv(b'/bin/true', (ctypes.c_char_p * 2)(b'true', None))",
    "os.open({name!r}, os.O_WRONLY | os.O_TRUNC, dir_fd=os.open({folder!r}, os.O_PATH))",
    "os.remove({name!r}, dir_fd=os.open({folder!r}, os.O_PATH))",
    "libc.open(b'/proc/%d/mem' % os.getppid(), os.O_RDONLY)",
    "libc.open(b'/proc/%d/environ' % os.getppid(), os.O_RDONLY)",
    "libc.ptrace(16, os.getppid(), 0, 0)",
    "libc.connect(libc.socket(2, 1, 0), b'\\2\\0\\0\\x09\\x7f\\0\\0\\1' + bytes(8), 16)",
    "signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0)",
    "libc.kill(os.getppid(), 0)",
    "__import__('readline').write_history_file({new!r})",
    "os.waitpid(__import__('multiprocessing.util').util.spawnv_passfds(b'/bin/true', [b'true'], []), 0)[1] and -1",
]


@pytest.mark.skipif(landlock_version() < 6, reason="the kernel has no Landlock, or an old one")
@pytest.mark.parametrize("body", PAST_THE_GUARD, ids=lambda text: text[:30])
def test_the_kernel_refuses_what_gets_past_the_guard(body: str, outside: Path) -> None:
    folder, new = str(outside.parent), str(outside.with_name("new"))
    done = body.format(path=str(outside), new=new, folder=folder, name=outside.name)
    result = grade_of(program(f"done = {done}\nraise ValueError((done, ctypes.get_errno()))", LIBC))
    assert result.reason
    assert "(-1, " in result.reason or "ermi" in result.reason, result.reason
    assert "(-1, 111)" not in result.reason, "the connection was tried"
    assert outside.read_text() == "precious"
    assert list(outside.parent.iterdir()) == [outside]


def test_without_landlock_our_memory_is_closed_and_a_warning_says_what_stays_open(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[tuple[int, ...]] = []
    libc = SimpleNamespace(prctl=lambda *arguments: calls.append(arguments))
    monkeypatch.setattr(programs, "landlock_version", lambda: 0)
    monkeypatch.setattr("ctypes.CDLL", lambda name: libc)
    programs._shield.__wrapped__()
    assert calls == [(4, 0, 0, 0, 0)]
    assert "no Landlock" in caplog.text
    assert "--sandbox docker" in caplog.text


def test_a_program_sees_no_keys_and_none_of_our_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("PYTHONSTARTUP", "secret")
    seen = "[name for name in os.environ if not name.endswith('_NUM_THREADS')]"
    result = grade_of(program(f"import os\nraise ValueError(' '.join(sorted({seen})))"))
    assert result.reason
    names = set(result.reason.removesuffix(".").split(": ")[-1].split())
    assert {"HOME", "PATH"} <= names
    assert names <= {"HOME", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "PYTHONUTF8"}


def test_nothing_of_a_program_is_left_behind() -> None:
    result = grade_of(program("import os\nopen('a', 'w').write('b')\nos.chmod('.', 0)\nraise ValueError(os.getcwd())"))
    assert result.reason
    assert not Path(result.reason.split(": ")[-1].removesuffix(".")).exists()


@pytest.mark.parametrize(
    "body",
    [
        "import os; os.mkfifo('result.json'); os._exit(0)",
        "import os; os.symlink('input.json', 'result.json'); os._exit(0)",
        "import os; os.mkdir('result.json'); os._exit(0)",
        "import os; open('result.json', 'w').write('[' * 10**6); os._exit(0)",
        "import os; open('result.json', 'w').write('{\"grade\": true}'); os._exit(0)",
        "import os; open('result.json', 'w').write('{\"grade\": 1}'); os._exit(0)",
        "import json, os; s = json.load(open('input.json')).get('secret'); open('result.json', 'w').write("
        "json.dumps({'grade': 1, 'secret': s})); os._exit(0)",
        "import os; open('result.json', 'w').write('{\"grade\": 1, \"more\": 1}'); os._exit(0)",
        "import os; open('result.json', 'wb').write(b'\\xff'); os._exit(0)",
    ],
    ids=lambda text: text[11:50],
)
def test_a_result_that_is_none_is_not_read(body: str) -> None:
    result = grade_of(program(body))
    assert result.value is None
    assert result.reason
    assert "put something else" in result.reason or "cannot be read" in result.reason, result.reason


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def grade(sample, item:\n    return 1", "is not Python"),
        ("def mark(sample, item):\n    return 1", "no function grade(sample, item)"),
        ("class A:\n    def grade(self, item):\n        return 1", "no function grade(sample, item)"),
        ("\0", "is not Python"),
    ],
    ids=lambda text: str(text)[:20],
)
def test_programs_that_could_never_grade_are_refused(source: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        python_grader("mine", source)
    assert message in str(refused.value)


def test_a_program_that_is_not_trusted_needs_a_sandbox() -> None:
    grader: Grader = python_grader("mine", program("return 1"))
    assert grader.sandbox
    with pytest.raises(BadInput) as refused:
        answers.grade_of(grader)
    for remedy in ("--sandbox docker", "trusted=true", "inspect score has no sandbox"):
        assert remedy in str(refused.value)


def first_sample(log: EvalLog) -> EvalSample:
    return samples(log)[0]


def in_a_sandbox(run: Run, tmp_path: Path, source: str, **settings: Any) -> EvalSample:
    path = tmp_path / "mine.py"
    path.write_text(source)
    sandbox = settings.pop("sandbox", "folders")
    task = urns(n=1, paradigms={"graded": {"grader": str(path), **settings}})
    return first_sample(run(task, epochs=1, sandbox=sandbox))


def test_a_program_runs_in_the_samples_sandbox(run: Run, tmp_path: Path) -> None:
    Folder.ran.clear()
    done = in_a_sandbox(
        run, tmp_path, program("print('noise')\nreturn float('finalBeliefProb' in sample['output_text'])")
    )
    assert number(done, "graded", "grade") == 1
    mine = [(name, command[0]) for name, command in Folder.ran if command[0] != "/bin/sh"]  # the shell is Inspect's own
    assert mine == [("default", command) for command in ("python3", "mktemp", "python3", "head", "rm")]


def test_a_sandbox_named_grader_is_preferred(run: Run, tmp_path: Path) -> None:
    Folder.ran.clear()
    done = in_a_sandbox(run, tmp_path, program("return 0.5"), sandbox="two_folders")
    assert number(done, "graded", "grade") == 0.5
    assert {name for name, command in Folder.ran if command[0] != "/bin/sh"} == {"grader"}


@pytest.mark.parametrize(
    ("body", "message", "limit"),
    [
        ("return 1 / 0", "raised ZeroDivisionError", 60),
        ("while True: pass", "did not end within 2 s", 2),
        ("import os; os._exit(7)", "ended without a result (exit status 7)", 60),
        ("print('x' * 10**8); return 'x'", "returned 'x', which is not a number", 60),
    ],
    ids=lambda text: str(text)[:12],
)
def test_what_goes_wrong_in_a_sandbox_has_a_reason(
    run: Run, tmp_path: Path, body: str, message: str, limit: int
) -> None:
    done = in_a_sandbox(run, tmp_path, program(body), time_limit=limit)
    assert message in reason(done, "graded")


@pytest.mark.parametrize("sandbox", [None, "local"])
def test_without_isolation_the_run_ends_before_its_first_call(
    fails: Fails, tmp_path: Path, sandbox: str | None
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(program("return 1"))
    model, heard = listens()
    message = fails(urns(n=2, paradigms={"graded": {"grader": str(path)}}), model, sandbox=sandbox)
    assert "untrusted program" in message
    assert "--sandbox docker" in message
    assert ("local` isolates nothing" in message) == (sandbox == "local")
    assert not heard

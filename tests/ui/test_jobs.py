"""Runs as processes: they go on without the page, wait for their turn, and are found again."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.ui.conftest import kill_all
from truthgym.datasets.errors import BadInput
from truthgym.evallog.reader import LogReader
from truthgym.ui import jobs
from truthgym.ui.jobs import Job, cancel, find, next_command, output, progress, resume, start
from truthgym.ui.processes.launcher import EXIT, LAUNCHER, RECORD, STARTED, lives, process, read, write

LONGEST = 240
"""Seconds that a test waits for what must come, on a busy machine."""
WAITS = """
import pathlib, signal, sys, time
print("up", flush=True)
pathlib.Path("up-" + sys.argv[1]).touch()
try:
    while not pathlib.Path("go-" + sys.argv[1]).exists():
        time.sleep(0.05)
except KeyboardInterrupt:
    print("saved", flush=True)
    sys.exit(3)
print("over", flush=True)
pathlib.Path("over-" + sys.argv[1]).touch()
"""
"""Runs until the file `go-NAME` is there."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The folder of runs. What still runs in it is killed in the end."""
    yield tmp_path
    kill_all(tmp_path)


def wait(condition: Callable[[], object]) -> None:
    until = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.05)


def ended(job: Job) -> Job:
    wait(lambda: not find(job.place, job.id).live)
    return find(job.place, job.id)


def held(place: Path, name: str, **options: float) -> Job:
    return start(place, [sys.executable, "-c", WAITS, name], name, **options)  # type: ignore[arg-type]


def up(job: Job) -> None:
    wait(lambda: (job.place / f"up-{job.name}").exists() and (job.folder / STARTED).exists())


def go(job: Job) -> None:
    (job.place / f"go-{job.name}").touch()


def test_a_run_prints_and_ends_and_its_words_reach_it_unchanged(place: Path) -> None:
    words = ["a b", "$HOME; ls", "'\"", "ü"]
    job = ended(start(place, [sys.executable, "-c", "import sys; print(sys.argv[1:])", *words], "words of a run"))
    assert (job.status, job.code) == ("done", 0)
    assert str(words) in output(job)
    assert job.started is not None
    assert job.ended is not None
    assert [listed.id for listed in jobs.jobs(place)] == [job.id]
    assert job.folder.stat().st_mode & 0o077 == 0


def test_a_run_that_fails_says_so(place: Path) -> None:
    assert ended(start(place, [sys.executable, "-c", "raise SystemExit(7)"], "fails")).code == 7
    missing = ended(start(place, ["no-such-program"], "missing"))
    assert (missing.status, missing.code) == ("failed", 127)
    assert "no-such-program" in output(missing)


def test_runs_wait_for_their_turn_in_order(place: Path) -> None:
    beside = held(place, "beside", at_once=2)
    first, second, third, fourth = (held(place, name, at_once=2) for name in ("a", "b", "c", "d"))
    up(beside)
    up(first)
    go(third)
    assert [find(place, job.id).status for job in (second, third)] == ["queued", "queued"]
    cancel(second)
    assert ended(second).status == "cancelled"
    assert find(place, third.id).status == "queued"
    go(first)
    assert ended(third).status == "done"
    up(fourth)
    go(fourth)
    assert ended(fourth).status == "done"
    began = [find(place, job.id).started for job in (first, third, fourth)]
    assert began == sorted(began, key=str)
    assert not (place / "up-b").exists()
    go(beside)
    assert ended(beside).status == "done"


@pytest.mark.parametrize("option", ["--log-dir", "--out", "--output_dir"])
def test_no_two_runs_write_to_one_folder(place: Path, option: str) -> None:
    words = [sys.executable, "-c", WAITS, "a", option]
    first = start(place, [*words, "made/x"], "first")
    up(replace(first, name="a"))
    with pytest.raises(BadInput, match=f"{first.id} is in progress and writes to"):
        start(place, [*words[:-1], f"{option}=made/../made/x"], "second")
    cancel(first)
    assert ended(first).status == "cancelled"
    second = start(place, [*words, "made/x"], "second")
    with pytest.raises(BadInput, match=f"{second.id} is in progress"):
        resume(first)


def test_what_a_command_leaves_running_is_ended(place: Path) -> None:
    child = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid); sys.exit(1)"
    job = ended(start(place, [sys.executable, "-c", child], "leaves"))
    pid = int(output(job).split()[-1])
    wait(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_runs_and_the_queue_go_on_when_the_server_is_killed(place: Path) -> None:
    server = (
        "import sys, time; from pathlib import Path; from truthgym.ui.jobs import start\n"
        f"for name in 'ab': start(Path.cwd(), [sys.executable, '-c', {WAITS!r}, name], name, at_once=1)\n"
        "Path('started').touch(); time.sleep(1000)"
    )
    process = subprocess.Popen([sys.executable, "-c", server], cwd=place, start_new_session=True)
    wait((place / "up-a").exists)
    wait((place / "started").exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    second, first = jobs.jobs(place)
    assert (first.status, second.status) == ("running", "queued")
    go(first)
    up(second)
    go(second)
    assert [ended(job).status for job in (first, second)] == ["done", "done"]


def test_a_cancelled_run_can_write_what_it_has(place: Path) -> None:
    job = held(place, "a")
    with pytest.raises(BadInput, match="cancel it first"):
        resume(job)
    up(job)
    cancel(job)
    job = ended(job)
    assert (job.status, job.code) == ("cancelled", 3)
    assert output(job).endswith("saved")


def test_a_run_that_does_not_listen_is_killed_with_all_that_it_started(place: Path) -> None:
    deaf = (
        "import pathlib, signal, subprocess, sys, time\n"
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        "pathlib.Path('child').write_text(str(child.pid)); pathlib.Path('up-deaf').touch(); time.sleep(1000)"
    )
    job = start(place, [sys.executable, "-c", deaf], "deaf", grace=0.2)
    up(job)
    cancel(job)
    assert ended(job).code == -signal.SIGKILL
    child = int((place / "child").read_text())
    wait(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_another_process_with_the_number_of_one_that_ended_is_not_taken_for_it(place: Path) -> None:
    job = ended(start(place, [sys.executable, "-c", ""], "a"))
    wait(lambda: not lives(job.folder / LAUNCHER))
    (job.folder / EXIT).unlink()
    mine = process(os.getpid())
    write(job.folder / STARTED, mine)
    assert find(place, job.id).status == "running"
    write(job.folder / STARTED, mine | {"created": f"{mine['created']} of another boot"})
    lost = find(place, job.id)
    assert lost.status == "lost"
    cancel(lost)  # and we live
    assert not (job.folder / "cancel").exists()


def test_a_killed_run_is_lost_and_goes_on_in_its_folder(place: Path) -> None:
    job = held(place, "a")
    up(job)
    for name in (LAUNCHER, STARTED):
        os.killpg(read(job.folder / name)["pid"], signal.SIGKILL)
    assert ended(job).status == "lost"
    go(job)
    again = resume(find(place, job.id))
    assert again.id == job.id
    assert ended(again).status == "done"
    assert output(again).count("up") == 2


@pytest.mark.parametrize("deaf", ["", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"])
def test_a_run_without_its_launcher_is_cancelled_by_a_server_that_is_closed_at_once(place: Path, deaf: str) -> None:
    job = start(place, [sys.executable, "-c", f"{deaf}{WAITS}", "a"], "a", grace=1.0 if deaf else 30.0)
    up(job)
    os.killpg(read(job.folder / LAUNCHER)["pid"], signal.SIGKILL)
    wait(lambda: not lives(job.folder / LAUNCHER))
    assert find(place, job.id).status == "running"
    server = f"from pathlib import Path; from truthgym.ui.jobs import cancel, find; cancel(find(Path(), {job.id!r}))"
    subprocess.run([sys.executable, "-c", server], cwd=place, check=True)
    if (now := find(place, job.id)).live:
        with pytest.raises(BadInput, match="let it end"):  # a later attempt starts only when this one has ended
            resume(now)
    assert ended(job).status == "cancelled"
    assert not lives(job.folder / STARTED)
    assert ("saved" in output(job)) == (not deaf)


def test_a_deleted_folder_is_one_line_and_the_run_goes_on(place: Path) -> None:
    job = held(place, "a")
    up(job)
    process = psutil.Process(read(job.folder / STARTED)["pid"])
    shutil.rmtree(job.folder)
    with pytest.raises(BadInput, match=r"There is no run .*-a-.*deleted"):
        find(place, job.id)
    assert jobs.jobs(place) == []
    go(job)
    wait((place / "over-a").exists)
    wait(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


def test_a_record_that_cannot_be_read_hides_no_other_run(place: Path) -> None:
    first, second = (ended(start(place, [sys.executable, "-c", ""], name)) for name in "ab")
    good = {"name": "a", "log_dir": "", "attempts": [{"command": ["ls"], "at": 1.0}]}
    for file, content in (
        (RECORD, "{"),
        (RECORD, "[" * 100_000),
        (RECORD, json.dumps(good | {"attempts": [{"command": [], "at": 1.0}]})),
        (RECORD, json.dumps(good | {"attempts": [{"command": ["ls"], "at": 1e20}]})),
        (RECORD, json.dumps(good | {"log_dir": "/etc"})),
        (RECORD, json.dumps(good | {"log_dir": "a\x00b"})),
        (STARTED, '{"pid": 1, "at": "noon"}'),
        (EXIT, '{"code": 0, "at": []}'),
    ):
        kept = (first.folder / file).read_bytes()
        (first.folder / file).write_text(content)
        assert [job.id for job in jobs.jobs(place)] == [second.id], content
        (first.folder / file).write_bytes(kept)


@pytest.mark.parametrize("run", ["../..", "20260101-000000-a-12345", "/etc", "20260101-000000-../a-123456"])
def test_only_ids_of_runs_are_found(place: Path, run: str) -> None:
    with pytest.raises(BadInput, match="no id of a run"):
        find(place, run)


@pytest.mark.parametrize(
    "words",
    [
        ["--model", "openai/x", "-M", "api_key=abc"],
        ["--hub-token", "abc"],
        ["--system-message", "gsk_" + "b" * 40],
        ["-M", "base=the-value-of-it"],
        ["-M", "url=https://me:secret@host/"],
    ],
)
def test_a_key_in_a_command_is_refused_and_not_shown(
    place: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "the-value-of-it")
    with pytest.raises(BadInput, match="has a key in it") as refused:
        start(place, ["inspect", "eval", *words], "a")
    assert not any(value in str(refused.value) for value in ("abc", "the-value-of-it", "secret"))
    assert jobs.jobs(place) == []


def test_a_disk_without_locks_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def acquire(lock: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("filelock.FileLock.acquire", acquire)
    with pytest.raises(BadInput, match=r"runs/\.lock cannot be locked .*local disk"):
        start(place, [sys.executable, "-c", ""], "a")


def test_a_key_in_the_output_is_not_shown(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "the-value-of-it")
    (place / ".env").write_text("OTHER_TOKEN=another-value\n")
    printed = "import os; print(os.environ['SOME_API_KEY'], 'another' + '-value', 'sk-' + 'a' * 20, 'max_tokens=512')"
    job = ended(start(place, [sys.executable, "-c", printed, "--max-tokens", "512"], "a"))
    assert output(job).splitlines()[-1] == "[SOME_API_KEY] [OTHER_TOKEN] [hidden] max_tokens=512"


def test_only_the_end_of_a_long_output_is_read_as_a_terminal_shows_it(place: Path) -> None:
    printed = "print('x' * 10**6); print('a' * 50); print('\\x1b[31mred\\x1b[0m'); print('1/9 [\\r2/9 [\\r3/9 [')"
    job = ended(start(place, [sys.executable, "-c", printed], "a"))
    assert output(job, lines=2).splitlines() == ["red", "3/9 ["]
    assert len(output(job)) < 200
    assert (progress(job).done, progress(job).total, progress(job).unit) == (3, 9, "steps")


def test_logs_of_earlier_runs_are_part_of_an_eval_set_alone(place: Path, root: Path) -> None:
    (place / "logs").mkdir()
    (made, *_) = sorted((root / "examples" / "logs").glob("*_urns_*.eval"))
    log = Path(shutil.copy(made, place / "logs"))
    os.utime(log, (0, 0))
    with LogReader(log) as reader:
        samples = len(reader)
    job = ended(start(place, [sys.executable, "-c", ""], "a", log_dir="logs"))
    assert progress(replace(job, first_command=["inspect", "eval"])).total == 0
    job = replace(job, first_command=["inspect", "eval-set"])
    assert (progress(job).done, progress(job).total) == (samples, samples)
    command, says = next_command(job)
    assert command == ["inspect", "eval-set"]
    assert "samples that have not ended" in says

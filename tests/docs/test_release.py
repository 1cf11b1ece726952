"""What a release holds is checked, and its names and imports are such that Windows takes them."""

import ntpath
import os
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import call as command
from truthgym.datasets.errors import BadInput
from truthgym.sweep.sweep import sweep
from truthgym.ui.app import serve

RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
WINDOWS = """
import importlib, os, signal, sys, traceback
names = {names}
for name in names:
    importlib.import_module(name)
for name in [name for name in sys.modules if name.startswith("truthgym.")]:
    del sys.modules[name]
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
absent = ("fork", "getpgid", "getuid", "killpg", "mkfifo", "setpgid", "setsid", "sched_getaffinity", "uname")
for module, missing in ((os, absent), (signal, ("SIGHUP", "SIGKILL", "SIGUSR1", "alarm", "setitimer"))):
    for name in missing:
        delattr(module, name)
failed = []
for name in names:
    try:
        importlib.import_module(name)
    except (AttributeError, ImportError):
        failed.append(name + ": " + traceback.format_exc(limit=-1))
print("failed:", failed)
"""
"""Loads everything twice: with the libraries as they are here, then without what Windows' Python lacks."""


@pytest.fixture
def release(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "docs" / "release.py"))


@pytest.fixture
def files(root: Path) -> list[str]:
    """The files of the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no git repository")
    return listed.stdout.strip("\0").split("\0")


def test_complete_release_has_no_fault(release: dict[str, Any], root: Path) -> None:
    wanted = release["files_of_rooms"](root)
    assert {"datasets/urns.md", "datasets/forecasting.jsonl", "tasks/py.typed"} <= wanted
    assert release["faults"]({f"truthgym/{name}": 10 for name in wanted}, wanted, "truthgym/") == []


@pytest.mark.parametrize(
    ("name", "size", "fault"),
    [
        ("truthgym-1/tests/test_checks.py", 10, "does not belong"),
        ("truthgym-1/tests/truthgym.egg-info/SOURCES.txt", 10, "does not belong"),
        ("truthgym-1/scorers/test_brier.py", 10, "does not belong"),
        ("truthgym-1/logs/a.jsonl", 10, "does not belong"),
        ("truthgym-1/docs/a.eval", 10, "does not belong"),
        ("truthgym-1/datasets/rows.jsonl", 2_000_000, "2,000,000 bytes"),
    ],
)
def test_fault_of_a_release_is_named(release: dict[str, Any], name: str, size: int, fault: str) -> None:
    (found,) = release["faults"]({"truthgym-1/tasks/worlds.py": 10, name: size}, ["tasks/worlds.py"], "truthgym-1/")
    assert found.startswith(name)
    assert fault in found


def test_missing_data_file_is_named(release: dict[str, Any]) -> None:
    (found,) = release["faults"]({"truthgym/tasks/worlds.py": 1}, ["tasks/worlds.py", "datasets/a.jsonl"], "truthgym/")
    assert found.startswith("datasets/a.jsonl is missing")


def test_the_readmes_figures_are_read(release: dict[str, Any], root: Path) -> None:
    figures = dict(release["readme_figures"](root))
    assert figures.keys() == {"costs", "brier"}
    assert release["readme_command"](root)[:2] == ["inspect", "eval"]


def test_names_of_files_are_valid_on_windows(files: list[str]) -> None:
    for name in files:
        assert ntpath.normpath(name).replace("\\", "/") == name
        for part in name.split("/"):
            assert not set(part) & set('<>:"\\|?*'), name
            assert not any(ord(letter) < 32 for letter in part), name
            assert part.split(".")[0].lower() not in RESERVED, name
            assert part == part.rstrip(". "), name
        assert len(name) < 150, name  # of 260 with the folder of the clone
    folded = [name.casefold() for name in files]
    assert len(set(folded)) == len(folded)


@pytest.mark.slow
def test_everything_is_imported_without_what_windows_lacks(root: Path, environment: dict[str, str]) -> None:
    rooms = runpy.run_path(str(root / "docs" / "release.py"))["files_of_rooms"](root)
    modules = sorted(name for name in rooms if name.endswith(".py"))
    names = ["truthgym." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in modules]
    code = WINDOWS.replace("{names}", repr(names))
    done = command("-c", code, environment=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "failed: []", done.stdout[-3000:]


@pytest.mark.parametrize(
    "call",
    [lambda folder: sweep(["inspect", "eval-set", "truthgym/urns"]), lambda folder: serve(folder)],
    ids=["sweep", "ui"],
)
def test_what_windows_cannot_do_is_one_error(
    call: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "killpg")
    with pytest.raises(BadInput, match=r"^truthgym .* needs Linux or macOS.*WSL"):
        call(tmp_path / "new")
    assert not list(tmp_path.iterdir())

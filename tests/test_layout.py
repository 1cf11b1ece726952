"""The layout trap: `import datasets` is Hugging Face's, `truthgym.…` is ours, however Python is started."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from truthgym.datasets.domains import DOMAINS

PYPROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
ROOMS = tuple(PYPROJECT["tool"]["setuptools"]["package-dir"].values())
PROBE = """
import datasets, sys
import truthgym.datasets.constitution as ours
assert hasattr(datasets, "load_dataset"), datasets
assert "solvers" not in sys.modules and "scorers" not in sys.modules, "a second copy was loaded"
assert ours.BUNDLED.is_file(), ours.BUNDLED
print("both right")
"""

TASK = """
from inspect_ai import Task, task
from truthgym.tasks.worlds import urns
{probe}
@task
def probe() -> Task:
    return urns(n=1)
"""


def call(*command: str, cwd: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_under_pytest() -> None:
    import datasets

    import truthgym.datasets.question as ours

    assert hasattr(datasets, "load_dataset")
    assert Path(ours.__file__).name == "question.py"


def test_under_python_m_from_the_root(root: Path, environment: dict[str, str], tmp_path: Path) -> None:
    path = {"PYTHONPATH": str(tmp_path)}  # where the probe lies; -m puts the root itself first
    (tmp_path / "probe_of_the_layout.py").write_text(PROBE)
    said = call(sys.executable, "-m", "probe_of_the_layout", cwd=root, environment=environment | path)
    assert "both right" in said


@pytest.mark.slow
def test_under_inspect_eval_from_the_root(root: Path, environment: dict[str, str], tmp_path: Path) -> None:
    """In one process, which must be right whichever comes first: a probe of the imports before and after."""
    for name in ("before", "after"):
        (tmp_path / f"{name}.py").write_text(TASK.format(probe=PROBE))
    # Inspect takes relative paths only
    before, after = (os.path.relpath(tmp_path / f"{name}.py", root) for name in ("before", "after"))
    arguments = ["--limit", "1", "--model", "reference/bayesian", "--display", "plain", "--log-dir", str(tmp_path)]
    solver = ["--solver", "truthgym/chain_of_thought", "-S", "steps=2"]
    targets = [before, "tasks/worlds.py@urns", "truthgym/urns", after]
    said = call("inspect", "eval", *targets, *arguments, *solver, cwd=root, environment=environment)
    assert "share_scored" in said
    assert said.count("Log:") == len(targets)


@pytest.mark.slow
def test_inspect_lists_each_task_once(root: Path, environment: dict[str, str]) -> None:
    listed = call("inspect", "list", "tasks", cwd=root, environment=environment).split()
    tasks = {
        f"tasks/{path.name}@{name}"
        for path in (root / "tasks").glob("*.py")
        for name in re.findall(r"^@task\n(?:@.+\n)?def (\w+)", path.read_text(), re.M)
    }
    own = {"sycophancy", "mutual_prediction", "world_in_the_loop", "code_repair", "agent_bench_mini"}
    assert {*DOMAINS} | own <= {name.rpartition("@")[2] for name in tasks}
    assert sorted(name for name in listed if "@" in name) == sorted(
        {"training/progress_examinees.py@peoples_choice"} | tasks
    )


def test_no_folder_at_the_root_hides_a_real_package(root: Path) -> None:
    packages = {path.parent.name for path in root.glob("*/__init__.py")}
    assert packages == {"tasks", "tests"}, "only the registry and the tests need one; datasets/ must never have one"
    assert not (root / "truthgym").exists()


@pytest.mark.slow
def test_the_wheel_holds_every_room_and_its_data(root: Path, environment: dict[str, str], tmp_path: Path) -> None:
    copy = tmp_path / "source"
    skipped = shutil.ignore_patterns("build", "dist", "*.egg-info", ".git", "logs", "*_cache", "__pycache__", ".venv")
    shutil.copytree(root, copy, ignore=skipped)  # built in a copy: a build/lib here would list every task twice
    call(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), ".",
         cwd=copy, environment=environment)  # fmt: skip
    with zipfile.ZipFile(next(tmp_path.glob("truthgym-*.whl"))) as wheel:
        held = set(wheel.namelist())
        wheel.extractall(tmp_path / "installed")
    for room in ROOMS:
        for path in (root / room).rglob("*"):
            if path.suffix in (".py", ".jsonl", ".md", ".yaml", ".json", ".jinja", ".html", ".css", ".js"):
                assert f"truthgym/{path.relative_to(root)}" in held
    assert not [name for name in held if name.startswith("truthgym/") and name.split("/")[1] not in ROOMS]
    # -S leaves out this environment's site-packages hooks, among them the editable install
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    lines = f"import sys; sys.path[:0] = {[str(tmp_path / 'installed'), *libraries]}\n{PROBE}\nprint(ours.__file__)"
    said = call(sys.executable, "-S", "-c", lines, cwd=root, environment=environment)
    assert str(tmp_path / "installed") in said

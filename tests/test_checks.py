"""What keeps the house in order: lint, types, light imports, and a README that stays true."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from truthgym import tasks

ROOMS = ("analysis", "cli", "datasets", "evallog", "examples", "models", "scorers", "solvers", "tasks", "training")


def test_format_and_lint(root: Path) -> None:
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(["ruff", *command, "."], cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_strict_types(root: Path) -> None:
    done = subprocess.run(["make", "types"], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Success: no issues found" in done.stdout


def test_loading_the_registry_loads_nothing_heavy(environment: dict[str, str]) -> None:
    probe = """
import sys, inspect_ai, inspect_ai.dataset, inspect_ai.model, inspect_ai.scorer, inspect_ai.solver, inspect_ai.viewer
import numpy
before = set(sys.modules)
import truthgym.tasks
print(sorted({name.split(".")[0] for name in set(sys.modules) - before}))
"""
    done = subprocess.run([sys.executable, "-c", probe], env=environment, capture_output=True, text=True, check=True)
    heavy = {"scipy", "statsmodels", "pandas", "altair", "torch", "datasets", "aiohttp", "requests", "prompt_toolkit"}
    assert not heavy & set(re.findall(r"\w+", done.stdout)), done.stdout


COMMAND = re.compile(r"inspect (?:eval|score) [^\n`]*")


def commands(text: str) -> list[str]:
    return COMMAND.findall(text.replace("\\\n", " "))


def documents(root: Path) -> list[Path]:
    return [
        root / "README.md",
        *root.glob("docs/*.md"),
        *(path for room in ROOMS for path in (root / room).rglob("*.py")),
        root / "CONTRIBUTING.md",
    ]


def test_every_documented_command_names_what_exists(root: Path) -> None:
    known = set(tasks.__all__)
    for document in documents(root):
        for command in commands(document.read_text()):
            for name in re.findall(r"truthgym/(\w+)", command):
                assert name in known or name == "truthgym", f"{document.name}: {command}"
            task = re.search(r"inspect eval (?:truthgym/|tasks/)(\w+)", command)
            if task and task[1] in known:
                taken = set(inspect.signature(getattr(tasks, task[1])).parameters)
                assert set(re.findall(r"-T (\w+)=", command)) <= taken, f"{document.name}: {command}"


def test_ci_runs_the_readmes_test_command(root: Path) -> None:
    readme = (root / "README.md").read_text()
    command = 'pip install -e ".[test]" && pytest'
    assert command in readme
    assert command in (root / ".ci" / "run").read_text().splitlines()


def test_the_readmes_grid_is_that_of_the_tasks(root: Path) -> None:
    readme = (root / "README.md").read_text()
    for name in ("forecasting", "urns"):
        row = re.search(rf"^\| \[`{name}`\][^\n]*$", readme, flags=re.MULTILINE)
        assert row, name
        assert "default" in row[0]


def test_readme_and_pages_name_everything_that_is_registered(root: Path) -> None:
    readme, modes, cost = ((root / name).read_text() for name in ("README.md", "docs/modes.md", "docs/cost.md"))
    for name in set(tasks.__all__) - {"prepare", "human", "reference"}:
        assert f"`truthgym/{name}`" in readme, name
    for name in tasks.__all__:
        made_by = inspect.getmodule(inspect.unwrap(getattr(tasks, name)))
        if made_by and made_by.__name__.startswith("truthgym.solvers.") and name != "prepare":
            assert f"| `{name}` |" in modes, name
            assert f"| `{name}" in cost, name


def test_files_are_short_enough_to_read_in_one_go(root: Path) -> None:
    for path in (path for room in ROOMS for path in (root / room).rglob("*.py")):
        assert len(path.read_text().splitlines()) <= 400, path

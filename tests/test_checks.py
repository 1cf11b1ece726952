"""Checks of the repository: lint, types, light imports, and documentation that names what exists."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_layout import ROOMS
from truthgym import tasks
from truthgym.datasets.domains import DOMAINS
from truthgym.scorers.graders.resolve import OPTIONS
from truthgym.tasks.domain_task import SCORER_BY_NAME
from truthgym.training.reward_functions.builtin import REQUIRED_SCORERS

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
FOLDERS = (*ROOMS, "examples")


def test_format_and_lint(root: Path) -> None:
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(["ruff", *command, "."], cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_strict_types_and_imports_that_run_one_way(root: Path) -> None:
    done = subprocess.run(["make", "types", "imports"], cwd=root, capture_output=True, text=True, check=False)
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
        *(path for room in FOLDERS for path in (root / room).rglob("*.py")),
        root / "CONTRIBUTING.md",
    ]


def test_every_documented_command_names_what_exists(root: Path) -> None:
    known = {*tasks.__all__, *SCORER_BY_NAME}
    for document in documents(root):
        for command in commands(document.read_text()):
            for name in re.findall(r"truthgym/(\w+)", command):
                assert name in known or name in ("truthgym", "TASK"), f"{document.name}: {command}"
            task = re.search(r"inspect eval (?:truthgym/|tasks/)(\w+)", command)
            if task and task[1] in known:
                taken = set(inspect.signature(getattr(tasks, task[1])).parameters)
                assert set(re.findall(r"-T (\w+)=", command)) <= taken, f"{document.name}: {command}"


def test_ci_runs_the_readmes_test_command(root: Path) -> None:
    readme = (root / "README.md").read_text()
    command = 'pip install -e ".[test]" && pytest'
    assert command in readme
    assert command in (root / ".ci" / "run").read_text().splitlines()


def test_the_readmes_grid_names_every_domain(root: Path) -> None:
    readme = (root / "README.md").read_text()
    for name in DOMAINS:
        assert re.search(rf"^\|[^|]*\[`{name}`\]\(datasets/{name}.md\)[^|]*\|", readme, flags=re.MULTILINE), name


def test_pages_name_everything_that_users_choose(root: Path) -> None:
    docs = {name: (root / "docs" / f"{name}.md").read_text() for name in ("modes", "graded", "rewards")}
    solvers = {name for name in tasks.__all__ if ".solvers." in inspect.unwrap(getattr(tasks, name)).__module__}
    for page, names in (("modes", solvers - {"prepare"}), ("graded", OPTIONS), ("rewards", REQUIRED_SCORERS)):
        for name in names:
            assert re.search(rf"^\|[^|]*`{name}`", docs[page], flags=re.MULTILINE), f"{page}.md: {name}"


def test_the_index_leads_to_every_page(root: Path) -> None:
    reached, to_read = set(), [root / "docs" / "index.md"]
    while to_read:
        page = to_read.pop().resolve()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            to_read += [page.parent / link for link in LINK.findall(page.read_text()) if "://" not in link]
    missing = {*root.glob("docs/*.md"), *root.glob("datasets/*.md"), *root.glob("datasets/sources/*.md")} - reached
    assert not missing


def test_links_between_pages_lead_somewhere(root: Path) -> None:
    pages = [*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("datasets/**/*.md"), *root.glob("studies/**/*.md")]
    for page in pages:
        text = page.read_text()
        for link in LINK.findall(text):
            assert "://" in link or (page.parent / link).exists(), f"{page.name}: {link}"
        for path in re.findall(
            rf"`((?:{'|'.join(FOLDERS)}|docs|tests|studies|examples)/[\w/.]+\.(?:py|md|jsonl))`", text
        ):
            assert (root / path).exists() or "NAME" in path, f"{page.name}: {path}"
        for target, anchor in re.findall(r"\]\(([\w./]*)#([\w-]+)\)", text):
            headings = re.findall(r"^#+ (.*)$", (page.parent / target if target else page).read_text(), flags=re.M)
            assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}, (
                f"{page}: {anchor}"
            )

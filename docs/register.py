"""Writes an eval.yaml for each task, in the form of inspect_evals' register of external evals.

python docs/register.py OUT [COMMIT]

OUT/NAME/eval.yaml names the commit at which the task is pinned: the present one, unless another is given. Titles and
descriptions come from the data cards and docstrings, numbers of samples from the tasks with their defaults. The form is
`ExternalEvalMetadata` in inspect_evals/metadata.py.
"""

import inspect
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml
from inspect_ai._util.registry import registry_info

from truthgym import tasks
from truthgym.datasets.errors import BadInput

ROOT = Path(__file__).parent.parent
REPOSITORY = "https://github.com/truthgym/truthgym"


def entries(commit: str, names: Iterable[str] = tasks.__all__) -> dict[str, dict[str, Any]]:
    """The content of eval.yaml by the name of the task. Names of solvers are passed over."""
    summary = runpy.run_path(str(ROOT / "docs" / "reference.py"))["summary"]
    source = {"repository_url": REPOSITORY, "repository_commit": commit, "maintainers": ["truthgym"]}
    tags = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["keywords"]
    found = {}
    for name in names:
        function = getattr(tasks, name)
        if registry_info(function).type != "task":
            continue
        undecorated = inspect.unwrap(function)
        task = {
            "name": name,
            "task_path": Path(inspect.getfile(sys.modules[undecorated.__module__])).relative_to(ROOT).as_posix(),
        }
        samples = default_samples(function)
        found[name] = {
            "id": f"truthgym_{name}",
            "full_title": title(name),
            "common_title": name,
            "description": summary(undecorated),
            "contributors": ["truthgym"],
            "tasks": [task | ({"dataset_samples": samples} if samples else {})],
            "tags": tags,
            "source": source,
        }
    return found


def title(name: str) -> str:
    """The heading of the task's data card or page, without the name."""
    pages = (ROOT / "datasets" / f"{name}.md", ROOT / "docs" / f"{name}.md")
    page = next((page for page in pages if page.is_file()), None)
    if page is None:
        return f"Truthgym: {name.replace('_', ' ')}"
    heading = next(line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("# "))
    return f"Truthgym: {heading.removeprefix('# ').split(': ', 1)[-1]}"


def default_samples(function: Callable[[], Any]) -> int | None:
    """The number of samples of a task with its defaults, or None if it needs arguments."""
    try:
        return len(function().dataset)
    except (BadInput, TypeError):
        return None


def write(out: Path, commit: str) -> None:
    """Write OUT/NAME/eval.yaml for each task."""
    for name, entry in entries(commit).items():
        (out / name).mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=10_000)
        (out / name / "eval.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    present = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    write(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else present.strip())

import runpy
from pathlib import Path

import pytest

from truthgym import tasks
from truthgym.datasets.errors import BadInput
from truthgym.ui.forms.registry import TASKS, choices


@pytest.mark.parametrize(
    ("page", "function"),
    [
        ("docs/reference.md", "reference_page"),
        ("docs/measures.md", "measures_page"),
        ("docs/report.md", "report_page"),
        ("docs/verdicts.md", "verdicts_page"),
        ("CONTRIBUTING.md", "contributing_page"),
    ],
)
def test_generated_pages_are_up_to_date(root: Path, page: str, function: str) -> None:
    written = runpy.run_path(str(root / "docs" / "reference.py"))[function]()
    assert (root / page).read_text(encoding="utf-8") == written, f"{page} is stale: run `make docs`"


@pytest.mark.parametrize(
    ("task", "argument"),
    [(task, one.name) for task, choice in choices(TASKS).items() for one in choice.arguments if one.required],
)
def test_a_task_asks_for_what_it_requires(task: str, argument: str) -> None:
    with pytest.raises(BadInput, match=f"{argument!r} is missing; .* -T {argument}="):
        getattr(tasks, task.removeprefix("truthgym/"))()

"""The study of real models writes every table of docs/results.md from the logs, here those of a simulated agent."""

import shutil
from pathlib import Path

from inspect_ai import eval as inspect_eval
from inspect_ai import task_with

from studies import results
from tests.conftest import ROOT
from truthgym.analysis import worlds


def test_the_page_says_what_each_model_follows_and_what_cannot_be_told(tmp_path: Path) -> None:
    place = tmp_path / "logs/reference-naive/worlds"
    tasks = [task_with(task, epochs=1) for task in worlds.tasks_of(30) if task.name.endswith(("urns", "interventions"))]
    logs = inspect_eval(tasks, model="reference/naive", log_dir=str(place), display="none")
    page = tmp_path / "results.md"
    shutil.copy(ROOT / "docs/results.md", page)
    results.page(page, tmp_path / "logs", 30)
    text = page.read_text(encoding="utf-8")
    for log in logs:
        cells = dict(zip(worlds.HEAD, worlds.cells(worlds.row(log)), strict=True))
        assert "| " + " | ".join(cells[name] for name in results.SHOWN) + " |" in text
    assert "<!-- n -->30<!-- end -->" in text
    assert (tmp_path / "results.svg").is_file()
    results.page(page, tmp_path / "logs", 30)
    assert page.read_text(encoding="utf-8") == text, "a second run writes the same page"

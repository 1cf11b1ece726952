"""The notebooks are those of the scripts beside them, and run to their end."""

import os
import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
SCRIPTS = sorted(FOLDER.glob("*.py"))


@pytest.fixture(scope="module")
def generator() -> dict[str, Any]:
    return runpy.run_path(str(FOLDER.parents[1] / "docs" / "notebooks.py"))


def test_there_is_a_notebook_for_each_script() -> None:
    assert [path.stem for path in SCRIPTS] == ["closed_loop", "log_to_figure", "own_agent"]
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == [path.stem for path in SCRIPTS]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_notebook_is_that_of_its_script(generator: dict[str, Any], script: Path) -> None:
    made = generator["notebook"](script.read_text(encoding="utf-8"))
    assert script.with_suffix(".ipynb").read_text(encoding="utf-8") == made, "run `make notebooks`"


def test_cells_are_text_or_code_without_outputs(generator: dict[str, Any]) -> None:
    book = nbformat.reads(generator["notebook"]("# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 1  # %%\n"), 4)
    assert [(cell.cell_type, cell.source) for cell in book.cells] == [
        ("markdown", "# Title\n\nText."),
        ("code", "x = 1  # %%"),
    ]
    assert book.cells[1].outputs == []
    assert book.cells[1].execution_count is None


def test_code_before_the_first_cell_is_an_error(generator: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="starts with 'import os"):
        generator["notebook"]("import os\n# %%\nx = 1\n")


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_notebook_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbclient import NotebookClient

    for name in ("HOME", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    book = nbformat.read(script.with_suffix(".ipynb"), 4)
    ran = NotebookClient(book, timeout=None, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    ran.execute(env={**os.environ, "OMP_NUM_THREADS": "1"})  # an error in a cell is raised
    last = book.cells[-1].outputs
    assert last, "the last cell shows nothing"
    shown = "".join(str(one.get("text", "")) + str(one.get("data", "")) for one in last)
    assert {"closed_loop": "Round 1", "log_to_figure": "martingale_score", "own_agent": "planted -0.2"}[
        script.stem
    ] in shown

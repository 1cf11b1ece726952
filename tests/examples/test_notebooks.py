"""The notebooks are those of the scripts beside them, and run to their end."""

import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.commands import call

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


def run_cells(notebook: str) -> None:
    """Run the cells in this process, and print what the last one shows."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    for cell in nbformat.read(notebook, 4).cells:
        if cell.cell_type == "code":
            ran = shell.run_cell(cell.source)
            ran.raise_error()
    print("shown:", getattr(ran.result, "data", ran.result))


@pytest.mark.slow
def test_cells_run(tmp_path: Path, environment: dict[str, str]) -> None:
    own = {"IPYTHONDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    files = [str(FOLDER / f"{notebook}.ipynb") for notebook in ("closed_loop", "log_to_figure")]
    program = f"from tests.examples.test_notebooks import run_cells; [run_cells(file) for file in {files!r}]"
    done = call("-c", program, environment=environment | own, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    _, loop, figure = done.stdout.split("shown:")
    assert "Round 1" in loop
    assert "martingale_score" in figure


@pytest.mark.slow
def test_notebook_runs_in_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Jupyter runs it, which Inspect notices. One shows it, for each kernel loads everything anew."""
    from nbclient import NotebookClient

    for name in ("HOME", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    book = nbformat.read(FOLDER / "own_agent.ipynb", 4)
    ran = NotebookClient(book, timeout=None, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    ran.execute()  # an error in a cell is raised
    assert "planted -0.2" in str(book.cells[-1].outputs)

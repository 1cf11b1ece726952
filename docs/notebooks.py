"""Writes each script of examples/notebooks as a notebook beside it, without outputs.

python docs/notebooks.py        (pip install -e ".[test]")

The scripts are the source. A line `# %%` starts a cell of code, `# %% [markdown]` one of text.
"""

import re
from pathlib import Path

import nbformat

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"
CELL = re.compile(r"^# %%(?: \[(markdown)\])?$", re.MULTILINE)


def notebook(script: str) -> str:
    """A script as the text of a notebook. The same script gives the same text."""
    start, *parts = CELL.split(script)
    if start.strip():
        raise ValueError(f"The script starts with {start[:40]!r}; a line `# %%` or `# %% [markdown]` must come first.")
    cells = []
    for at, (kind, text) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        if kind:
            text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        new = nbformat.v4.new_markdown_cell if kind else nbformat.v4.new_code_cell
        cells.append(new(text.strip(), id=f"cell-{at}"))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = nbformat.v4.new_notebook(
        cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}}, nbformat_minor=5
    )
    nbformat.validate(book)
    return str(nbformat.writes(book)) + "\n"


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.py")):
        path.with_suffix(".ipynb").write_text(notebook(path.read_text(encoding="utf-8")), encoding="utf-8")

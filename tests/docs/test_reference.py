import runpy
from pathlib import Path

import pytest


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

"""The page writer that all studies share."""

from pathlib import Path

import pytest

from studies.study import Study, recovery
from truthgym.analysis.tables import saving
from truthgym.datasets.errors import BadInput


def test_functions_get_what_they_name(tmp_path: Path) -> None:
    study = Study(
        sizes={"n": 3, "runs": 5},
        measures={"twice": lambda n: 2 * n, "sum": lambda twice, runs: twice + runs},
        sections=("# Title\n", lambda sum, n: f"{sum} of {n}", lambda page: page),
    )
    study.write(tmp_path / "page.md", n=4)
    assert (tmp_path / "page.md").read_text() == "# Title\n\n13 of 4\n\npage\n"


def test_a_part_of_a_page_is_written_between_its_comments(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Before\n<!-- mine: by hand -->\n\nold\n\n<!-- end -->\nAfter\n")
    Study(sizes={}, measures={}, sections=("new",), part="mine").write(page)
    assert "old" not in page.read_text()
    assert page.read_text().startswith("Before")
    assert page.read_text().endswith("After\n")


def test_without_what_draws_its_charts_a_study_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "find_spec", lambda name: None)
    study = Study(sizes={}, measures={"never": lambda: 1 / 0}, sections=(), charts={"": lambda never: never})
    with pytest.raises(BadInput, match="charts"):
        study.write(tmp_path / "page.md")
    assert not list(tmp_path.iterdir())


def test_what_has_no_estimate_is_not_covered() -> None:
    nan = float("nan")
    found = recovery(1.0, [1.0, 2.0, nan], [0.5, 1.5, nan], [1.5, 2.5, nan])
    assert [found["bias"], found["coverage"], found["width"]] == pytest.approx([0.5, 1 / 3, 1.0])
    assert recovery(1.0, [1, 1], [1 + 1e-12, 1], [1, 1])["coverage"] == 1, "rounding"

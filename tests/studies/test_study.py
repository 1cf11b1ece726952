"""The page writer that all studies share."""

from pathlib import Path

import pytest

from studies import study as module
from studies.study import Study, recovery
from truthgym.analysis.tables import saving
from truthgym.datasets.errors import BadInput

PAGE = (
    "# Title\n\n<!-- sum -->\n0<!-- end --> of <!-- n -->0<!-- end -->.\n\n"
    "<!-- table: by hand -->\n\nold\n\n<!-- end -->\nAfter\n"
)


def test_a_new_page_has_the_published_words_and_new_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DOCS", tmp_path)
    (tmp_path / "published.md").write_text(PAGE)
    study = Study(
        page="published.md",
        sizes={"n": 3000, "runs": 5},
        measures={"twice": lambda n: 2 * n, "total": lambda twice, runs: twice + runs},
        texts=(lambda total: {"sum": f"{total:,}"}, lambda: {"table": "| new |\n"}),
    )
    study.write(tmp_path / "new.md", n=4000)
    text = (tmp_path / "new.md").read_text()
    assert text == (
        "# Title\n\n<!-- sum -->\n8,005<!-- end --> of <!-- n -->4,000<!-- end -->.\n\n"
        "<!-- table: by hand -->\n| new |\n\n<!-- end -->\nAfter\n"
    )
    study.write(tmp_path / "new.md")
    assert "6,005<!-- end --> of" in (tmp_path / "new.md").read_text()
    assert (tmp_path / "published.md").read_text() == PAGE


def test_without_what_draws_its_charts_a_study_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "find_spec", lambda name: None)
    study = Study(page="", sizes={}, measures={"never": lambda: 1 / 0}, texts=(), charts={"": lambda never: never})
    with pytest.raises(BadInput, match="charts"):
        study.write(tmp_path / "page.md")
    assert not list(tmp_path.iterdir())


def test_what_has_no_estimate_is_not_covered() -> None:
    nan = float("nan")
    found = recovery(1.0, [1.0, 2.0, nan], [0.5, 1.5, nan], [1.5, 2.5, nan])
    assert [found["bias"], found["coverage"], found["width"]] == pytest.approx([0.5, 1 / 3, 1.0])
    assert recovery(1.0, [1, 1], [1 + 1e-12, 1], [1, 1])["coverage"] == 1, "rounding"

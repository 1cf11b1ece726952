"""The gallery has a section for each question of the report."""

from pathlib import Path

from truthgym.analysis.site.analyses import ANALYSES


def test_every_analysis_has_its_section(root: Path) -> None:
    page = (root / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert [name for name in ANALYSES if f"\n`{name}`" not in page] == []

"""The gallery has a section for each question of the report."""

from pathlib import Path

from truthgym.analysis.site.analyses import ANALYSES


def test_every_analysis_has_its_section(root: Path) -> None:
    page = (root / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert [name for name in ANALYSES if f"\n`{name}`" not in page] == []


def test_the_sample_logs_keep_their_events(root: Path) -> None:
    from inspect_ai.analysis import events_df, messages_df

    log = min((root / "examples" / "logs").glob("*_sycophancy_*.eval"))
    assert len(messages_df(str(log), quiet=True)) > len(events_df(str(log), quiet=True)) / 10 > 0

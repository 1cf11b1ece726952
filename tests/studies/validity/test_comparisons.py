"""The rates of docs/compare.md: what silence and seeds do to equal models, and what power is left."""

from pathlib import Path

from studies.validity import comparisons


def test_equal_models_are_told_apart_no_more_than_in_one_run_of_twenty(tmp_path: Path) -> None:
    silent = comparisons.silence(30, 200)
    equal, better = ([row for row in silent if row["evidence"] == e] for e in (1.0, comparisons.MORE_EVIDENCE))
    assert max(row["ignored"] for row in equal) > 0.2, "silence would win"
    assert all(row["kept"] <= 0.1 for row in equal)
    assert better[0]["kept"] > 0.2, "a better model that states all its beliefs is still found"
    page = tmp_path / "page.md"
    comparisons.STUDY.write(page, runs=2, questions=20)
    assert "| 10 | 0.1 |" in page.read_text(encoding="utf-8")

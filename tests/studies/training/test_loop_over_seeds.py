"""The page of the loop over seeds follows from its .csv file."""

import csv
from pathlib import Path

import pytest

from studies.study import with_texts
from studies.training import loop_over_seeds

PAGE = Path("docs/loop_urns.md")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with Path("studies/training/loop_urns.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_page_is_rendered_from_the_csv(rows: list[dict[str, str]]) -> None:
    assert len(rows) >= 5
    page = PAGE.read_text(encoding="utf-8")
    assert with_texts(page, loop_over_seeds.texts(rows), str(PAGE)) == page


def test_a_seed_counts_if_its_interval_is_below_zero(rows: list[dict[str, str]]) -> None:
    worse = [row | {"from_start_upper": "+0.0010"} for row in rows]
    texts = loop_over_seeds.texts([*rows[:1], *worse[1:]])
    of = f"of {len(rows)}"
    assert [texts[name] for name in ("better", "beaten", "both")] == [f"1 {of}", f"{len(rows)} {of}", f"1 {of}"]
    assert texts["verdict"] == "not met"


def test_figures_come_from_the_report_of_the_loop(tmp_path: Path, rows: list[dict[str, str]]) -> None:
    import json

    estimate = {"value": 0.25, "lower": 0.2, "upper": 0.3, "n": 7, "mde": 0.1}
    names = ("mean", "parse_rate", "tokens", "reply_nll", "from_start", "from_constant")
    row = {"round": 0, "eval_id": "e", "log": "a.eval", "sd_within": 0.5, "calibration_slope": 1.0}
    report = {"tasks": {"truthgym/urns": [row | dict.fromkeys(names, estimate)]}}
    (tmp_path / "report.json").write_text(json.dumps(report))
    (tmp_path / "a.eval").write_bytes(b"log")
    found = loop_over_seeds.figures(0, tmp_path)
    assert list(found) == list(rows[0])
    assert (found["from_start_upper"], found["parse_rate_trained"]) == ("+0.3000", "0.250")
    assert found["martingale_score_start"] == ""
    # The committed run asked a fifth of 6,000 questions; a split of exactly as many has others among them.
    assert float(found["exact"]) == pytest.approx(float(rows[0]["exact"]), abs=0.002)

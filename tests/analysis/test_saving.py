import sys
from pathlib import Path

import altair as alt
import pandas as pd
import pytest

from truthgym.analysis import cost, performance
from truthgym.analysis.tables import saving
from truthgym.analysis.tables.saving import save
from truthgym.datasets.errors import BadInput

FRAME = pd.DataFrame({"x": [1, 2], "y": [3, 4]})


def draw(frame: pd.DataFrame) -> alt.Chart:
    chart: alt.Chart = alt.Chart(frame).mark_point().encode(x="x", y="y")
    return chart


def test_html_opens_offline(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    save(FRAME, draw, tmp_path / "chart.html")
    save(FRAME.assign(x=["<!--<script a</script>", "b"]), draw, tmp_path / "chart.html")
    html = (tmp_path / "chart.html").read_text()
    assert 'src="http' not in html
    assert "script a" in html
    assert "<script a" not in html


def test_html_without_the_extra_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(saving, "find_spec", lambda name: None)
    save(FRAME, draw, tmp_path / "chart.html")
    assert 'src="http' in (tmp_path / "chart.html").read_text()
    assert "[charts]" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "message"), [("chart.svg", "vl-convert"), ("chart.pdf", r"'.pdf' is not a format")])
def test_other_formats_are_refused(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=message):
        save(FRAME, draw, tmp_path / name)


def test_a_new_page_names_the_analysis_that_wrote_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vl_convert")

    def report(frame: pd.DataFrame, figure: str) -> str:
        return figure

    save(FRAME, draw, tmp_path / "own.md", report)
    assert f"<!-- results: written by {__name__} -->\nown.svg\n" in (tmp_path / "own.md").read_text()
    report.__module__ = "__main__"  # as with python -m truthgym.analysis.cost
    monkeypatch.setitem(sys.modules, "__main__", cost)
    save(FRAME, draw, tmp_path / "cost.md", report)
    assert "written by truthgym.analysis.cost -->" in (tmp_path / "cost.md").read_text()


def test_the_command_explains_bad_input_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["performance", str(tmp_path), str(tmp_path / "out.csv")])
    with pytest.raises(SystemExit, match="1"):
        saving.main(performance.load, performance.chart, performance.__doc__, performance.report)
    assert capsys.readouterr().err.startswith("There are no logs in")

"""The rows of the table of generated worlds."""

from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from inspect_ai.model import get_model
from rich.console import Console

from tests.fixtures import Run, says
from truthgym.analysis import worlds
from truthgym.analysis.tables.saving import save
from truthgym.datasets.domains import GENERATED
from truthgym.datasets.errors import BadInput
from truthgym.solvers.roles import models_named
from truthgym.tasks.worlds import testimony, urns


def test_a_row_of_each_reader(run: Run, tmp_path: Path) -> None:
    rows = {}
    for name in ("bayesian", "naive"):
        rows[name] = worlds.row(run(testimony(n=20, paradigms="brier"), f"reference/{name}", epochs=2))
        assert worlds.cells(rows[name])[:4] == ["testimony", f"reference/{name}", "20", "100%"]
    assert rows["bayesian"]["excess"] == pytest.approx(0, abs=1e-6)
    assert (rows["bayesian"]["follows"], rows["naive"]["follows"]) == ("exact", "naive")
    said = "testimony, reference/naive: It counts each report as that of a witness of its own (weight 1.00 "
    assert rows["naive"]["sentence"].startswith(said)
    frame = pd.DataFrame(rows.values())
    console = Console(width=200, file=StringIO())
    console.print(worlds.printed(frame))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown.count("testimony, reference/") == 2, "a sentence each, where no model was asked"
    save(frame, worlds.chart, tmp_path / "chart.html")
    assert "weight in the answers" in (tmp_path / "chart.html").read_text()
    assert {world.__name__ for world in worlds.WORLDS} == set(GENERATED)


def test_unread_answers_and_a_world_without_a_naive_reader(run: Run) -> None:
    silent = worlds.cells(worlds.row(run(urns(n=12, paradigms="brier"), says("I would rather not say."), epochs=1)))
    assert (silent[2], silent[3], silent[8]) == ("0", "0%", "-")
    exact = worlds.row(run(urns(n=12, paradigms="brier"), get_model("reference/bayesian"), epochs=1))
    assert exact["exact"] == pytest.approx(1, abs=1e-3)
    assert worlds.cells(exact)[7] == "-"


def test_a_file_lists_models(tmp_path: Path) -> None:
    panel = tmp_path / "panel.yaml"
    panel.write_text("models: [hf/one, reference/naive]")
    assert models_named(["a,b", str(panel)]) == ["a", "b", "hf/one", "reference/naive"]
    for text in ("models: []", "models: one", "[one]", "a: [", ""):
        panel.write_text(text)
        with pytest.raises(BadInput, match="write `models: "):
            models_named([str(panel)])
    with pytest.raises(BadInput, match="none.yaml"):
        models_named([str(tmp_path / "none.yaml")])

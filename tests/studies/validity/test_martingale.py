"""The validity page: small, but whole."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from studies.validity import martingale as validity
from studies.validity.martingale import compare, look_ahead
from studies.validity.report_errors import worlds as few
from truthgym.analysis.tables.markdown import table
from truthgym.models.agents.policies import Parameters


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("neglecting", {}),
        ("random", {"shared": 0.0, "noise": 0.0}),
        ("bayesian", {"lazy": 0.3, "stage": "posterior", "logit_noise": 0.3, "drift": 0.05}),
        ("neglecting", {"guess": 0.3, "stage": "prior", "coarse": 0.4}),
        ("entrenched", {"clip": 0.2, "item": 0.12, "wording": 0.12}),
        ("bayesian", {"copies": 0.4, "refuses": 0.9, "min_confidence": 0.1}),
        ("opinionated", {"coarse": 0.1}),
    ],
)
def test_the_real_task_and_the_pure_functions_are_one(name: str, errors: dict[str, Any]) -> None:
    found = compare(name, Parameters.model_validate({"noise": 0.1, "shared": 0.25} | errors), n=12, epochs=2)
    assert found["beliefs"] == found["equal"] == 12 * 2 * 3
    assert found["difference"] < 1e-12
    if "refuses" in errors:
        assert found["share_scored"] < 0.9
    if errors.keys() <= {"shared", "noise"}:
        assert np.isnan(found["planted"]) == (name == "random")


def test_look_ahead_makes_a_rational_reader_look_entrenched() -> None:
    found = look_ahead(0.2, 2000, seed=0)
    assert found["joint"] == pytest.approx(found["formula"], abs=0.03)
    assert found["joint"] > 0.1
    assert found["separate"] == pytest.approx(0, abs=0.06)
    assert found["leak_lower"] < 0.2 < found["leak_upper"]


def test_a_table_is_written_as_markdown() -> None:
    frame = pd.DataFrame({"a": ["x", "y"], "b": [-0.00001, float("nan")], "c": [1, 2]})
    assert table(frame, ["a", "b"], {"a": "name", "b": "value"}).splitlines() == [
        "| name | value |",
        "|---|---|",
        "| x | 0.000 |",
        "| y | - |",
    ]


@pytest.mark.slow
def test_one_call_writes_the_page_and_its_charts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: Callable[..., str]
) -> None:
    pytest.importorskip("vl_convert")
    monkeypatch.setattr(validity, "BIAS_N", 200)
    monkeypatch.setattr(validity, "NAMES", ["bayesian", "stuck", "entrenched"])
    monkeypatch.setattr(validity, "NOISES", (0.1,))
    monkeypatch.setattr(validity, "SIZES", (50, 100))
    smaller: dict[str, Any] = {
        "compared": partial(validity.through_the_task, names=["stuck"]),
        "errors": lambda worlds: few(worlds, sizes=(40,), workers=1),
        "joint": partial(validity.joint_readings, n=400),
    }
    study = replace(validity.STUDY, measures={**validity.STUDY.measures, **smaller})
    page = written(study, replications=4, seeds=2, real=6, worlds=1, repeated_runs=2, flat_runs=2)
    assert "](validity_bias.svg)" in page
    assert "<svg" in (tmp_path / "validity_bias.svg").read_text()
    assert "54 of 54" in page

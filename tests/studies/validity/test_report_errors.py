"""The worlds of the validity page: what they plant, what one run is, and that the page names its failures."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from studies.validity.report_errors import NAMES, WORLDS, draw, figures, texts, worlds

WORLD = {world.name: world for world in WORLDS}
FEW = [
    WORLD[name] for name in ("Bayesian, 25 % of priors at 50", "confirming, 0.5", "random", "Bayesian, noise of sd 0.1")
]


def drawn(name: str, n: int = 4000) -> Any:
    return draw(WORLD[name], n, np.random.default_rng(0))


def test_each_world_is_of_its_kind() -> None:
    assert len(WORLD) == len(WORLDS) > 40
    for world in WORLDS:
        if world.kind in ("mean", "errors", "unknown"):
            assert world.agent == "bayesian"
            assert world.slope == pytest.approx(0, abs=1e-4)
        else:
            assert (abs(world.slope) >= 0.2) == (world.kind == "fault")


def test_a_run_has_the_planted_reports_and_a_calibrated_truth() -> None:
    lazy = drawn("Bayesian, 25 % of priors at 50")
    assert np.mean(lazy.prior == 0.5) == pytest.approx(0.25 + 0.75 * 0.02, abs=0.02)
    assert np.mean(lazy.posterior == 0.5) < 0.05
    assert np.mean(lazy.outcome - lazy.exact) == pytest.approx(0, abs=0.03)
    assert np.mean((lazy.outcome - lazy.exact) ** 2) == pytest.approx(np.mean(lazy.exact * (1 - lazy.exact)), abs=0.015)
    noisy = drawn("Bayesian, noise of sd 0.1")
    assert np.mean((noisy.posterior - noisy.exact[:, None]) ** 2) == pytest.approx(0.0085, abs=0.002)
    assert np.mean(noisy.posterior - noisy.exact[:, None]) == pytest.approx(0, abs=0.005)


def test_one_run_is_judged_with_the_exact_posterior_and_with_the_outcome() -> None:
    found = figures(drawn("confirming, 0.5"))
    assert found["verdict"] == found["verdict_outcome"] == "entrenched"
    assert found["lower"] < 0.4815 < found["upper"]
    assert not found["flagged"]
    assert figures(drawn("Bayesian, 25 % of priors at 50"))["flagged"]
    assert figures(drawn("random", 100))["reason"] == "unidentified"


def test_the_table_has_the_shares_of_what_was_said() -> None:
    found = worlds(6, sizes=(40, 400), among=FEW, workers=2)
    pd.testing.assert_frame_equal(found, worlds(6, sizes=(40, 400), among=FEW, workers=1))
    assert found["n"].tolist() == [40, 400] * 4
    for ending in ("", "_outcome"):
        said = found[[f"{name}{ending}" for name in (*NAMES.values(), "cannot tell")]]
        np.testing.assert_allclose(said.sum(axis=1), 1)
    lazy, confirming, random, _ = (found[found["world"] == world.name].iloc[1] for world in FEW)
    assert lazy["found"] == pytest.approx(0.34, abs=0.15)
    assert lazy["coverage"] <= 0.5
    assert (lazy["flagged"], lazy["convicted"], lazy["identified"]) == (1, 0, 1)
    assert (confirming["entrenched"], confirming["convicted"]) == (1, 1)
    assert (random["identified"], random["cannot tell"], random["reason"]) == (0, 1, "unidentified")
    page = "\n".join(texts(found).values())
    assert "nan" not in page
    named = found[(found["world"] == "confirming, 0.5") & (found["entrenched"] >= 0.8)]["n"].min()
    assert f"| confirming, 0.5 | {named} |" in page


def row(**changes: Any) -> dict[str, Any]:
    shares = dict.fromkeys((*NAMES.values(), "cannot tell", "convicted"), 0.0)
    every = shares | {f"{name}_outcome": share for name, share in shares.items()}
    return {"world": "w", "kind": "mean", "planted": 0.0, "n": 100, "runs": 400, "found": 0.0, "coverage": 0.95} | {
        "identified": 1.0, "reason": "", "flagged": 0.0} | every | changes  # fmt: skip


FAULT = row(world="f", kind="fault", planted=0.3, entrenched=1.0)
OTHER, UNKNOWN = row(world="o", kind="other"), row(world="u", kind="unknown", convicted=0.7)


def test_the_page_says_what_is_missed() -> None:
    met = "\n".join(texts(pd.DataFrame([row(), FAULT, OTHER, UNKNOWN])).values())
    assert met.count("The aim is met.") == 3
    missed = [
        row(world="a", convicted=0.11, coverage=0.9),
        row(world="b", kind="errors", convicted_outcome=0.12, coverage=0.5),
        row(world="c", flagged=0.2, entrenched=0.3),
        FAULT | {"entrenched": 0.79, "rational": 0.2},
    ]
    named = texts(pd.DataFrame([*missed, OTHER, UNKNOWN]))
    assert named["mean not covered"] == "1 of 2"
    page = "\n".join(named.values())
    for words in (
        "**The aim is missed:** a, n = 100: 0.110.",
        "**The aim is missed:** b, n = 100: 0.120.",
        "**The aim is missed:** c, n = 100: 0.200.",
        "Flagged or not: at most 0.300 (c, n = 100).",
        "0.200 (f, n = 100) of those at fault",
        "| f | not at 100: 0.79 |",
    ):
        assert words in page, words
    many = pd.DataFrame([*(row(world=f"w{i}", flagged=0.2 + i / 100) for i in range(12)), FAULT, OTHER, UNKNOWN])
    missed_flags = texts(many)["missed flags"]
    assert "w11, n = 100: 0.310; w10, n" in missed_flags
    assert "w2, n = 100: 0.220; and 2 more." in missed_flags

import gc
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.analysis.made import Values, made
from truthgym.analysis.relationship import chart, relations, report
from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics import regression
from truthgym.scorers.statistics.correlation import cross_epoch_correlation

SLOPE = 0.5
MODES = ("direct", "self_debate")


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "collect", lambda: 0)  # statsmodels collects garbage with every correction
    monkeypatch.setattr(regression, "MEDIATION_DRAWS", 40)


def headlines(slope: float = SLOPE, models: int = 12, seed: int = 0) -> pd.DataFrame:
    """Models in four set-ups, whose Brier score rises with the size of their martingale score, of either sign."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for model, size in enumerate(np.linspace(0.02, 0.4, models)):
        for setup in range(4):
            here = size + 0.1 * rng.random()
            scores = {"martingale": here * rng.choice([-1, 1]), "brier": 0.15 + slope * here + rng.normal(0, 0.02)}
            facts = {"model": f"m{model}", "domain": "urns", "mode": f"s{setup}", "setup": f"urns, s{setup}"}
            rows += [
                {**facts, "scorer": scorer, "score": score, "lower": score - 0.04, "upper": score + 0.04}
                for scorer, score in scores.items()
            ]
    return pd.DataFrame(rows)


def answers(
    effect: float = 0.0, strength: float = 1.0, direct: float = 0.0, n: int = 40, epochs: int = 2
) -> pd.DataFrame:
    """Words that a mode moves, and a Brier score that words move. Something else moves both of an answer's numbers."""
    rng = np.random.default_rng(3)
    words: dict[tuple[str, str], Values] = {}
    scores: dict[tuple[str, str], Values] = {}
    for mode in MODES:
        hidden, difficulty = rng.normal(size=(n, epochs)), rng.normal(size=(n, 1))
        words["a", mode] = 100 + strength * (mode == "self_debate") + 0.5 * hidden + rng.normal(size=(n, epochs))
        scores["a", mode] = effect * words["a", mode] + direct * (mode == "self_debate") + hidden + difficulty
    return pd.concat([made(scores), made(words, scorer="length", key="words")], ignore_index=True)


def by_kind(frame: pd.DataFrame, level: str, x: str, y: str) -> dict[Any, Any]:
    rows = frame[(frame["level"] == level) & (frame["x"] == x) & (frame["y"] == y)]
    return {(row["kind"], row["given"]): row for _, row in rows.iterrows()}


def test_the_published_link_is_found_in_form() -> None:
    frame = relations(headlines(), answers())
    link = by_kind(frame, "set-ups", "|martingale|", "brier")["link", ""]
    assert link["lower"] < SLOPE < link["upper"]
    assert (link["n"], link["clusters"]) == (48, 12)
    at = next(note for note in frame.attrs["notes"] if "passes 0.25" in note)
    assert float(at.rpartition("= ")[2].rstrip(".")) == pytest.approx((0.25 - 0.15) / SLOPE, abs=0.05)
    models = by_kind(frame, "models", "brier", "|martingale|")
    assert models["correlation", ""]["lower"] > 0.8
    assert models["corrected correlation", ""]["estimate"] >= models["correlation", ""]["estimate"]
    none = by_kind(relations(headlines(slope=0), answers()), "set-ups", "|martingale|", "brier")["link", ""]
    assert none["lower"] < 0 < none["upper"]


def test_few_models_are_not_clustered_and_say_so() -> None:
    frame = relations(headlines(models=5), answers())
    notes = " ".join(frame.attrs["notes"])
    assert "brier and |martingale|: 5 models in 4 set-ups" in notes
    assert "too few to cluster by model" in notes
    assert not set(frame.loc[frame["level"] == "models", "kind"])


def test_an_error_that_an_answers_numbers_share_is_no_relation_of_questions() -> None:
    rng = np.random.default_rng(5)
    questions = list(range(60))
    for rho in (0.0, 0.7):
        found = []
        for _ in range(40):
            shared, truth = rng.normal(size=(60, 3)), rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], 60).T
            x, y = truth[:, :, None] + shared
            found.append(cross_epoch_correlation(x, y, questions, ["one"] * 60))
        inside = [one.corrected.lower <= rho <= one.corrected.upper for one in found]
        assert np.mean(inside) >= 0.85  # three standard errors below 0.95
        assert np.mean([one.found.estimate for one in found]) > rho + 0.05
        assert np.mean([one.reliability for one in found]) == pytest.approx(0.5, abs=0.05)


def test_an_assigned_setting_finds_the_effect_that_a_correlation_misses() -> None:
    frame = relations(headlines(), answers(effect=-0.5, strength=2.0))
    found = by_kind(frame, "answers", "length: words", "brier: brier_score")
    slope = found["two-stage least squares", "instrument: mode; model and question"]
    spread = answers(strength=2.0).query("key == 'words'")["value"].std()  # effects are of 1 sd
    assert slope["lower"] < -0.5 * spread < slope["upper"]
    assert slope["upper"] < 0
    assert slope["strength"] > 10
    assert by_kind(frame, "answers", "brier: brier_score", "length: words")["correlation", ""]["estimate"] > -0.3


def test_mediated_and_direct_effects_sum_to_the_total() -> None:
    frame = answers(effect=-0.5, strength=2.0, direct=0.8)
    found = by_kind(relations(headlines(), frame), "answers", "length: words", "brier: brier_score")
    parts = [row["estimate"] for (kind, _), row in found.items() if kind in ("mediated", "direct")]
    means = frame.query("key == 'brier_score'").groupby("mode")["value"].mean()
    assert sum(parts) == pytest.approx(means["self_debate"] - means["direct"], abs=0.1)


def test_a_weak_instrument_and_one_mode_say_so() -> None:
    weak = relations(headlines(), answers(strength=0.0))
    row = weak[weak["kind"] == "two-stage least squares"].iloc[0]
    assert np.isnan(row["estimate"])
    assert "length: words and brier: brier_score: F 0." in " ".join(weak.attrs["notes"])
    one = relations(headlines(), answers(epochs=1).query("mode == 'direct'"))
    notes = " ".join(one.attrs["notes"])
    assert "all answers have the same mode" in notes
    assert "One epoch" in notes


def test_doubts_of_one_kind_are_one_note() -> None:
    few = headlines(models=3)
    more = [few.assign(scorer=few["scorer"] + f" figures={i}") for i in range(3)]
    notes = relations(pd.concat(more), answers()).attrs["notes"]
    [over_models] = [note for note in notes if note.startswith("No correlation over models: ")]
    assert over_models.count("3 models in 4 set-ups; ") == 5
    assert over_models.endswith("; and 10 more (6 models in the same set-ups are needed).")


def test_what_cannot_be_related_is_refused() -> None:
    with pytest.raises(BadInput, match=r"one measure \(brier\), and two are needed"):
        relations(headlines().query("scorer == 'brier'"), answers().query("scorer == 'brier'"))
    with pytest.raises(BadInput, match="Unknown x 'length: word'; did you mean 'length: words'"):
        relations(headlines(), answers(), x="length: word")
    with pytest.raises(BadInput, match="Unknown setting 'prompt'"):
        relations(headlines(), answers(), setting="prompt")


def test_every_kind_is_printed_with_its_assumptions_and_drawn_with_a_baseline() -> None:
    frame = relations(headlines(), answers(effect=-0.5, strength=2.0))
    page = report(frame, "x.svg")
    for text in ("which cannot be checked", "errors of both measures are independent", "it is no effect"):
        assert text in page
    panels = chart(frame).to_dict()["vconcat"]
    titles = [panel["title"]["text"] for panel in panels]
    assert titles == [*(f"over {level}" for level in ("models", "set-ups", "questions", "answers")),
                      "effects on brier: brier_score", "published link, in form"]  # fmt: skip
    assert panels[0]["layer"][0]["encoding"]["x"]["datum"] == 0
    assert panels[5]["layer"][0]["encoding"]["y"]["datum"] == 0.25
    assert panels[5]["title"]["subtitle"] == "48 models in set-ups"

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from tests.analysis.answer_tables import Values, rows_of
from truthgym.analysis.agreement import agreements, chart, report
from truthgym.datasets.errors import BadInput

RNG = np.random.default_rng(0)
TRUTH = RNG.normal(0, 1, (80, 1))


def noisy(sd: float, seed: int, epochs: int = 2) -> Values:
    return TRUTH + np.random.default_rng(seed).normal(0, sd, (80, epochs))


def alpha(ratings: Values) -> float:
    """Krippendorff's alpha of two raters by its definition: over all pairs of numbers."""
    observed = np.mean([(a - b) ** 2 for a, b in ratings])
    expected = np.mean([(a - b) ** 2 for a, b in combinations(ratings.ravel(), 2)])
    return float(1 - observed / expected)


def test_alpha_is_that_of_its_definition_with_an_interval_around_it() -> None:
    values = noisy(0.5, 1)
    answers = rows_of({("a", "direct"): values})
    answers.attrs["notes"] = ["2 runs of a in urns, direct are taken together."]
    frame = agreements(answers)
    assert frame.attrs["notes"] == answers.attrs["notes"]
    assert frame["kind"].tolist() == ["epochs"]
    row = frame.iloc[0]
    assert row["alpha"] == pytest.approx(alpha(values), abs=0.01)
    assert row["lower"] < 1 / (1 + 0.5**2) < row["upper"]
    assert (row["n"], row["clusters"], row["shared"]) == (80, 80, 1.0)


def test_every_kind_of_second_score_is_compared() -> None:
    same = {("a", "direct"): noisy(0.1, 1), ("a", "self_debate"): noisy(1.0, 2)}
    answers = pd.concat([rows_of(same), rows_of({("a", "direct"): noisy(0.3, 3)}, scorer="brier read=token")])
    facts = answers[answers["scorer"] == "brier"].query("mode == 'direct'").drop(columns=["key", "value"])
    judges = pd.concat([facts.assign(judge=name, rating=noisy(sd, 4).ravel()) for name, sd in (("x", 0.1), ("y", 0.2))])
    elicited = [("self", "prior", 0.1), ("self", "prior 2", 0.1), ("judge", "prior", 0.8)]
    beliefs = pd.concat([facts.assign(elicitor=elicitor, stage=stage, belief=noisy(sd, 5 + i).ravel())
                         for i, (elicitor, stage, sd) in enumerate(elicited)])  # fmt: skip
    frame = agreements(answers, beliefs, judges)
    assert dict(zip(frame["kind"], frame["raters"], strict=True)) == {
        "scorers": "brier, brier read=token",
        "judges": "x, y",
        "elicitors": "judge, self, self, second wording",
        "setups": "direct, self_debate",
        "epochs": "1, 2",
    }
    rows = frame.set_index(["kind", "measure"])
    assert rows["alpha"]["judges", "quality"] > 0.95
    assert rows["n"]["scorers", "brier/brier_score"] == 160
    assert rows["shared"]["scorers", "brier/brier_score"] == 0.5  # of 320 answers


def test_questions_that_disagree_most_come_first() -> None:
    values = noisy(0.01, 1)
    values[17, 1] += 2
    frame = agreements(rows_of({("a", "direct"): values}))
    worst = frame.attrs["worst"][0]
    assert (worst["question"], worst["model"], round(worst["spread"])) == ("q17", "a", 2)
    assert "| brier/brier_score | a | q17 |" in report(frame)


def test_what_says_nothing_is_said_and_not_drawn() -> None:
    failing = noisy(0.1, 2)
    failing[:50] = np.nan
    values = {("a", "direct"): noisy(0.1, 1)}
    facts = rows_of(values).drop(columns=["key", "value"])
    ratings = {"x": values["a", "direct"], "y": failing}
    judges = pd.concat([facts.assign(judge=name, rating=numbers.ravel()) for name, numbers in ratings.items()])
    frame = agreements(rows_of(values), judges=judges)
    assert frame["kind"].tolist() == ["epochs"]
    assert any("y gave no number for half of the units" in note for note in frame.attrs["notes"])
    with pytest.raises(BadInput, match="all numbers are equal"):
        agreements(rows_of({("a", "direct"): np.ones((20, 2))}))
    with pytest.raises(BadInput, match="9 units have two numbers, and 10"):
        agreements(rows_of({("a", "direct"): noisy(0.1, 1)[:9]}))
    with pytest.raises(BadInput, match="Nothing was scored twice"):
        agreements(rows_of({("a", "direct"): noisy(0.1, 1, epochs=1)}))


def test_the_chart_draws_chance_and_the_thresholds() -> None:
    frame = agreements(rows_of({("a", "direct"): noisy(0.5, 1), ("a", "cot"): noisy(0.5, 2)}))
    panels = chart(frame).to_dict()["vconcat"]
    assert [panel["title"]["text"].partition(":")[0] for panel in panels] == ["setups", "epochs"]
    assert [layer["encoding"]["x"]["datum"] for layer in panels[0]["layer"][:3]] == [0, 0.667, 0.8]
    assert panels[1]["title"]["subtitle"] == "160 units"

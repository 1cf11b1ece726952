"""Ablation of composite rewards on planted components."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.analysis.made import made
from truthgym.analysis.composite import ablated, chart, report
from truthgym.datasets.errors import BadInput

RNG = np.random.default_rng(0)
GOLD = RNG.normal(size=(80, 6))
CASE = ("a", "direct")


def frame(noise: float = 1.0) -> pd.DataFrame:
    """A good component on a scale of hundreds, one without relation to gold, and the gold score."""
    parts = {
        ("reward_model", "reward"): 300 * (GOLD + noise * RNG.normal(size=GOLD.shape)),
        ("judge_score", "judge_score"): RNG.normal(size=GOLD.shape),
        ("brier", "brier_score"): -GOLD,
    }
    return pd.concat([made({CASE: values}, scorer=scorer, key=key) for (scorer, key), values in parts.items()],
                     ignore_index=True)  # fmt: skip


def test_a_component_without_relation_to_gold_is_named() -> None:
    found: Any = ablated(frame()).set_index("set")
    assert list(found.index) == ["all", "without judge_score", "without reward_model", "judge_score alone",
                                 "reward_model alone"]  # fmt: skip
    assert found.loc["without judge_score", "change_lower"] > 0
    assert any("judge_score makes the composite worse" in note for note in ablated(frame()).attrs["notes"])
    # two normal numbers with a correlation of r are in one order with probability 1/2 + arcsin(r) / pi
    assert found.loc["reward_model alone", "accuracy"] == pytest.approx(0.5 + np.arcsin(0.5**0.5) / np.pi, abs=0.03)
    assert found.loc["judge_score alone", "accuracy_lower"] < 0.5 < found.loc["judge_score alone", "accuracy_upper"]
    assert found.loc["all", "change"] == 0
    assert found.loc["reward_model alone", "gold_of_best"] > found.loc["all", "gold_of_best"]


def test_components_count_by_their_spread_and_not_by_their_unit() -> None:
    found: Any = ablated(frame()).set_index("set")
    words = found.loc["all", "weights"].split()
    assert float(words[3]) == pytest.approx(1 / (300 * 2**0.5), rel=0.1)
    assert float(words[1]) == pytest.approx(1, rel=0.1)
    by_rank: Any = ablated(frame(), scale="quantile").set_index("set")
    assert by_rank.loc["all", "accuracy"] == pytest.approx(found.loc["all", "accuracy"], abs=0.05)
    assert "without judge_score" in report(found.reset_index())
    assert chart(found.reset_index()).to_dict()


def test_an_answer_without_a_number_counts_as_the_worst() -> None:
    rows = frame(0.0)
    best = GOLD.argmax(axis=1)
    lost = [f"q{q}" == row.sample_id and best[q] + 1 == row.epoch for row in rows.itertuples() for q in
            [int(str(row.sample_id)[1:])]]  # fmt: skip
    rows.loc[np.array(lost) & (rows["scorer"] == "reward_model"), "value"] = np.nan
    found: Any = ablated(rows).set_index("set")
    # of the 15 pairs of a question, the 5 with its best answer turn round; one ties with the lowest of all
    assert found.loc["reward_model alone", "accuracy"] == pytest.approx((80 * 10 + 0.5) / (80 * 15))


@pytest.mark.parametrize(
    ("components", "gold", "problem"),
    [
        ("reward_model", "brier", "1 component, and a composite has two"),
        ("reward_model,rubric", "brier", "no scores of rubric"),
        ("reward_model,brier", "brier", "gold=brier is a component too"),
    ],
)
def test_components_that_make_no_composite(components: str, gold: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        ablated(frame(), components, gold)

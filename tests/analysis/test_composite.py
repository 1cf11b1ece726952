"""Ablation of composite rewards on planted components."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.analysis.answer_tables import rows_of
from truthgym.analysis.composite import chart, compare_sets, report
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
    return pd.concat([rows_of({CASE: values}, scorer=scorer, key=key) for (scorer, key), values in parts.items()],
                     ignore_index=True)  # fmt: skip


def test_a_component_without_relation_to_gold_is_named() -> None:
    sets: Any = compare_sets(frame()).set_index("set")
    assert list(sets.index) == ["all", "without judge_score", "without reward_model", "judge_score alone",
                                 "reward_model alone"]  # fmt: skip
    assert sets.loc["without judge_score", "change_lower"] > 0
    assert any("judge_score makes the composite worse" in note for note in compare_sets(frame()).attrs["notes"])
    # two normal numbers with a correlation of r are in one order with probability 1/2 + arcsin(r) / pi
    assert sets.loc["reward_model alone", "accuracy"] == pytest.approx(0.5 + np.arcsin(0.5**0.5) / np.pi, abs=0.03)
    assert sets.loc["judge_score alone", "accuracy_lower"] < 0.5 < sets.loc["judge_score alone", "accuracy_upper"]
    assert sets.loc["all", "change"] == 0
    assert sets.loc["reward_model alone", "gold_of_best"] > sets.loc["all", "gold_of_best"]


def test_components_count_by_their_spread_and_not_by_their_unit() -> None:
    sets: Any = compare_sets(frame()).set_index("set")
    words = sets.loc["all", "weights"].split()
    assert float(words[3]) == pytest.approx(1 / (300 * 2**0.5), rel=0.1)
    assert float(words[1]) == pytest.approx(1, rel=0.1)
    by_rank: Any = compare_sets(frame(), scale="quantile").set_index("set")
    assert by_rank.loc["all", "accuracy"] == pytest.approx(sets.loc["all", "accuracy"], abs=0.05)
    assert "without judge_score" in report(sets.reset_index())
    assert chart(sets.reset_index()).to_dict()


def test_an_answer_without_a_number_counts_as_the_worst() -> None:
    rows = frame(0.0)
    best = GOLD.argmax(axis=1)
    lost = [f"q{q}" == row.sample_id and best[q] + 1 == row.epoch for row in rows.itertuples() for q in
            [int(str(row.sample_id)[1:])]]  # fmt: skip
    rows.loc[np.array(lost) & (rows["scorer"] == "reward_model"), "value"] = np.nan
    sets: Any = compare_sets(rows).set_index("set")
    # of the 15 pairs of a question, the 5 with its best answer turn round; one ties with the lowest of all
    assert sets.loc["reward_model alone", "accuracy"] == pytest.approx((80 * 10 + 0.5) / (80 * 15))


def test_an_answer_that_gold_cannot_read_counts_as_its_worst() -> None:
    """The component that likes such answers orders them wrongly; left out, it would be right everywhere."""
    unread = np.zeros(GOLD.shape, bool)
    unread[:, 0] = True
    brier = 0.9 * (GOLD - GOLD.min()) / np.ptp(GOLD)
    parts = [rows_of({CASE: np.where(unread, 9, -brier)}, scorer="reward_model", key="reward"),
             rows_of({CASE: RNG.normal(size=GOLD.shape)}, scorer="judge_score", key="judge_score"),
             rows_of({CASE: np.where(unread, np.nan, brier)}, reason={CASE: np.where(unread, "no", "")})]  # fmt: skip
    sets: Any = compare_sets(pd.concat(parts, ignore_index=True).fillna({"reason": ""})).set_index("set")
    assert sets.loc["reward_model alone", "accuracy"] == pytest.approx(10 / 15), "5 of 15 pairs have such an answer"
    assert sets.loc["reward_model alone", "gold_of_best"] == pytest.approx(-1.0)
    assert sets.loc["all", "unread"] == pytest.approx(1 / 6)


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
        compare_sets(frame(), components, gold)

"""Proxy and gold score of best-of-n, and a proxy's margins, on planted scores."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from tests.analysis.answer_tables import rows_of
from truthgym.analysis import over_optimisation, reward_calibration
from truthgym.datasets.errors import BadInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

CASE = ("a", "direct")


def frame(proxy: "NDArray[np.float64]", gold: "NDArray[np.float64]", **more: Any) -> pd.DataFrame:
    """Answers with a reward of a model, and a gold score of which less is better."""
    return pd.concat([
        rows_of({CASE: proxy}, scorer="reward_model", key="reward", **more),
        rows_of({CASE: -gold}, scorer="brier", key="brier_score", **more),
    ], ignore_index=True)  # fmt: skip


def test_a_proxy_that_is_gold_up_to_a_point_is_over_optimised() -> None:
    """Gold rises with the proxy up to 1.5 standard deviations, and falls twice as steeply beyond it."""
    proxy = np.random.default_rng(0).normal(size=(60, 32))
    gold = np.where(proxy < 1.5, proxy, 4.5 - 2 * proxy)
    table: Any = over_optimisation.best_of_n(frame(proxy, gold)).set_index("n")
    assert list(table.index) == [1, 2, 4, 8, 16, 32]
    assert table["gold_score"].idxmax() in (4, 8, 16)
    assert table.loc[32, "change_upper"] < table.loc[8, "change_lower"]
    # the largest of n standard normal draws, from tables of order statistics
    assert table.loc[8, "proxy"] == pytest.approx(1.4236, abs=0.1)
    assert table.loc[4, "kl_bound"] == pytest.approx(np.log(4) - 0.75)
    assert "-brier" in table["gold"].iloc[0]
    peak = table["gold_score"].idxmax()
    assert f"highest estimate is at n = {peak}" in over_optimisation.report(table.reset_index())
    worse = over_optimisation.report(over_optimisation.best_of_n(frame(proxy, -proxy)))
    assert "falls: by 2.0" in worse, "the largest of 32 normal draws is 2.07"


def test_what_a_proxy_chooses_counts_though_it_cannot_be_read() -> None:
    """A proxy likes fluent answers that state nothing. Where one can be read, the proxy is the gold score itself."""
    rng = np.random.default_rng(0)
    brier, fluent = rng.random((60, 16)), rng.random((60, 16)) < 0.1
    rows = frame(np.where(fluent, 5 + brier, -brier), -np.where(fluent, np.nan, brier))
    rows["reason"] = np.where(rows["value"].isna(), "No single belief could be read in the answer", "")
    table: Any = over_optimisation.best_of_n(rows).set_index("n")
    assert table.loc[1, "unread"] == pytest.approx(fluent.mean())
    assert table.loc[1, "gold_score"] == pytest.approx(-np.where(fluent, 1, brier).mean())
    hit = fluent.any(axis=1)
    assert table.loc[16, "unread"] == pytest.approx(hit.mean())
    assert table.loc[16, "gold_score"] == pytest.approx(-np.where(hit, 1, brier.min(axis=1)).mean())
    assert table.loc[16, "change_upper"] < 0
    report = over_optimisation.report(table.reset_index())
    assert "falls: by" in report
    assert f"at n = 16 {hit.mean():.0%} could not be read" in report
    silent = rows.assign(reason=np.where(rows["value"].isna(), "The question has no known outcome.", ""))
    assert over_optimisation.best_of_n(silent)["unread"].max() == 0, "they say nothing of the answer"


def test_each_eval_is_a_run_of_its_own() -> None:
    """Two models, and two evals of one of them: the proxy is right, wrong, and right."""
    proxy = np.random.default_rng(0).normal(size=(20, 8))
    runs = [frame(proxy, proxy), frame(proxy, -proxy).assign(model="b", eval_id="first"),
            frame(proxy, proxy).assign(model="b", eval_id="second")]  # fmt: skip
    rows = pd.concat(runs, ignore_index=True)
    rows.attrs["notes"] = ["2 runs of b in urns, direct are taken together."]
    table = over_optimisation.best_of_n(rows)
    report = over_optimisation.report(table)
    for run, verdict in (("a, urns, direct", "still is"), ("b, urns, direct, first", "falls"),
                         ("b, urns, direct, second", "still is")):  # fmt: skip
        assert f"{run}: selected by reward_model/reward, -brier/brier_score {verdict}" in report
        assert f"| {run} |" in report
    assert not any("taken together" in note for note in table.attrs["notes"])
    margins = reward_calibration.margins(rows.assign(characters=9))
    assert len(margins.drop_duplicates("run")) == 3
    assert margins.groupby("run")["accuracy"].first().to_list() == [1, 0, 1]


def test_a_proxy_without_relation_to_gold_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    table = over_optimisation.best_of_n(frame(rng.normal(size=(80, 8)), rng.normal(size=(80, 8))))
    assert ((table["change_lower"] <= 0) & (table["change_upper"] >= 0)).all()
    assert any("smallest pool has 8" in note for note in table.attrs["notes"])
    assert over_optimisation.chart(table).to_dict()


@pytest.mark.parametrize(
    ("proxy", "gold", "problem"),
    [("rubric", "", "no scores of the proxy 'rubric'"), ("", "reward_model", "Unknown gold 'reward_model'"),
     ("", "briar", "Unknown gold 'briar'"), ("", "", "4 answers")],
)  # fmt: skip
def test_logs_that_cannot_tell(proxy: str, gold: str, problem: str) -> None:
    few = np.zeros((5, 2))
    with pytest.raises(BadInput, match=problem):
        over_optimisation.best_of_n(frame(few, few), proxy, gold)


def pairs(scale: float, seed: int = 0) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """Margins, and gold differences whose sign has the implied probability; the margins are then multiplied."""
    rng = np.random.default_rng(seed)
    margin = rng.normal(0, 2, 2000)
    right = rng.random(2000) < 1 / (1 + np.exp(-np.abs(margin)))
    truth = np.where(right, 1, -1) * np.sign(margin)
    return np.column_stack([scale * margin, 0 * margin]), np.column_stack([truth, 0 * truth])


def test_margins_that_keep_their_word_have_the_error_of_the_null() -> None:
    proxy, gold = pairs(1.0)
    lengths = {CASE: np.random.default_rng(2).integers(1, 500, proxy.shape)}
    table = reward_calibration.margins(frame(proxy, gold, characters=lengths))
    row = table.iloc[0]
    assert row["pairs"] == 2000
    assert row["accuracy_lower"] < np.mean(1 / (1 + np.exp(-np.abs(proxy[:, 0])))) < row["accuracy_upper"]
    assert row["ece"] < 2 * row["ece_null"]
    assert row["length_bias_lower"] < 0 < row["length_bias_upper"]
    assert table["isotonic"].is_monotonic_increasing
    assert np.abs(table["correct"] - table["implied"]).max() < 0.1
    assert reward_calibration.chart(table).to_dict()


def test_margins_that_are_too_large_are_named() -> None:
    proxy, gold = pairs(4.0)
    longer = {CASE: np.column_stack([100 + np.sign(proxy[:, 0]), np.full(len(proxy), 100)])}
    table = reward_calibration.margins(frame(proxy, gold, characters=longer))
    row = table.iloc[0]
    assert row["ece"] > 4 * row["ece_null"]
    implied = 1 / (1 + np.exp(-np.abs(proxy[:, 0])))
    assert row["excess"] == pytest.approx(implied.mean() - row["accuracy"])
    assert row["length_bias"] == pytest.approx(1), "the longer answer is always preferred, whatever gold says"
    notes = " ".join(table.attrs["notes"])
    assert "margins are too large" in notes
    assert "Put a `ceiling`" in notes
    assert "prefers the longer answer" in notes


def test_margins_that_are_too_small_need_no_ceiling() -> None:
    proxy, gold = pairs(0.05)
    table = reward_calibration.margins(frame(proxy, gold, characters={CASE: np.full(proxy.shape, 9)}))
    assert table.iloc[0]["ece"] > 4 * table.iloc[0]["ece_null"]
    assert table.iloc[0]["excess_upper"] < 0
    [note] = table.attrs["notes"]
    assert "margins are too small" in note


def test_margins_without_a_wrong_pair_give_no_advice() -> None:
    margin = np.column_stack([np.tile([5.0, -5.0], 50), np.zeros(100)])
    sides: Any = {CASE: np.full(margin.shape, 9)}
    table = reward_calibration.margins(frame(margin, np.sign(margin), characters=sides))
    row = table.iloc[0]
    # Clopper and Pearson: 100 of 100 right leaves room for 0.025 ** (1 / 100)
    assert row["excess_upper"] == pytest.approx(1 / (1 + np.exp(-5)) - 0.025**0.01)
    [note] = table.attrs["notes"]
    assert "no pair is in the wrong order" in note


def test_the_rate_of_wrong_gold_is_allowed_for() -> None:
    proxy, gold = pairs(1.0)
    wrong = np.where(np.random.default_rng(3).random(2000) < 0.2, -1, 1)[:, None]
    blamed = reward_calibration.margins(frame(proxy, gold * wrong, characters={CASE: np.full(proxy.shape, 9)}))
    told = reward_calibration.margins(
        frame(proxy, gold * wrong, characters={CASE: np.full(proxy.shape, 9)}), gold_error=0.2
    )
    assert blamed.iloc[0]["excess_lower"] > 0
    assert told.iloc[0]["excess_lower"] < 0 < told.iloc[0]["excess_upper"]
    implied = 1 / (1 + np.exp(-np.abs(proxy[:, 0])))
    assert told.iloc[0]["excess"] == pytest.approx(np.mean(0.2 + 0.6 * implied) - told.iloc[0]["accuracy"])
    with pytest.raises(BadInput, match="gold_error=0.5"):
        reward_calibration.margins(frame(proxy, gold), gold_error="0.5")


def test_a_margin_of_0_claims_nothing_and_a_probability_is_no_log_odds() -> None:
    proxy, gold = pairs(1.0)
    tied = np.where(np.arange(len(proxy))[:, None] % 5 < 2, 0, proxy)  # two pairs of five, as a ceiling makes them
    table: Any = reward_calibration.margins(frame(tied, gold, characters={CASE: np.full(proxy.shape, 9)}))
    assert table.iloc[0]["ece"] < 2 * table.iloc[0]["ece_null"]
    right = (proxy[:, 0] * gold[:, 0] > 0)[np.arange(len(proxy)) % 5 >= 2].mean()
    assert table.iloc[0]["accuracy"] == pytest.approx(0.4 * 0.5 + 0.6 * right)
    steps = frame(1 / (1 + np.exp(-proxy)), gold, characters={CASE: np.full(proxy.shape, 9)})
    table = reward_calibration.margins(steps)
    assert table[["implied", "ece", "excess"]].isna().all(axis=None), "a process model's rewards are 0 to 1"
    assert table.iloc[0]["accuracy"] > 0.6
    assert not table.attrs["notes"]

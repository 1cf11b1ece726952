"""The page of reward methods says what its tables hold, and the tables say what was planted."""

import numpy as np
import pandas as pd
import pytest

from studies.training import reward_figures


def test_the_page_is_what_make_rewards_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the tests of 72 runs, each by 71 others, which take minutes."""
    page = reward_figures.PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- {name}: " in page for name in reward_figures.WRITERS)
    monkeypatch.delitem(reward_figures.WRITERS, "traces")
    assert page == reward_figures.written(page)


def traces(drift: float, runs: int = 8, entries: int = 40) -> pd.DataFrame:
    rows = []
    for seed in range(runs):
        values = np.resize([-1.0, 1.0], entries) + drift * (seed == 0) * (np.arange(entries) > 10)
        rows += [
            {"seed": seed, "group": "g", "entropy": value, "reward": 1.0, "rewards/brier/mean": np.nan}
            for value in values
        ]
    return pd.DataFrame(rows)


def test_a_run_that_drifts_is_counted_as_stopped() -> None:
    clean, drifting = (reward_figures.monitor(traces(size)).splitlines()[2] for size in (0, 10))
    assert "| `entropy` | 8 | 40 | 0 of 8 " in clean, "a signal without variance, or not logged, is left out"
    assert "| `entropy` | 8 | 40 | 1 of 8 " in drifting


def test_signals_are_tested_together_and_a_reward_that_is_the_brier_score_once() -> None:
    frame = traces(0).assign(**{"rewards/brier/mean": lambda t: t["entropy"] * 2, "reward": lambda t: t["entropy"] * 2})
    lines = reward_figures.monitor(frame).splitlines()[2:]
    watched = [line.split(" | ")[1] for line in lines]
    assert watched == ["`rewards/brier/mean`, `entropy`"]


def test_a_difference_is_paired_by_seed() -> None:
    same = {"model": "words", "wrong labels": "a quarter", "pairs": 9, "wrong kept": 0.1}
    rows = [
        same | {"seed": seed, "arm": arm, "in order": 0.5 + 0.1 * seed + gain + 0.001 * seed * gain}
        for seed in range(4)
        for arm, gain in (("full", 0.1), ("random half", 0.0))
    ]
    line = reward_figures.filtered(pd.DataFrame(rows)).splitlines()[2]
    assert line.endswith("| 0.100 [0.100, 0.100] |")

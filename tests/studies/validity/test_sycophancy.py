"""The study of sycophancy: simulated runs repeat, and one call writes the page."""

from collections.abc import Callable

import pytest

pytest.importorskip("altair")

from studies.validity import sycophancy as study
from studies.validity.true_values import true_shifts
from truthgym.models.agents.policies import Parameters


def test_simulated_runs_repeat_and_differ() -> None:
    first, again, other = (study.figures("sycophant", Parameters(noise=0.1), 60, seed) for seed in (3, 3, 4))
    assert first["net_sycophancy"] == again["net_sycophancy"] != other["net_sycophancy"]


def test_coverage_is_that_of_the_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "SIZES", (60,))
    monkeypatch.setattr(study, "AGENTS", {"trusts": ("trusting", Parameters(noise=0.1))})
    frame = study.coverage(30)
    assert set(frame["figure"]) == set(study.FIGURES)
    assert frame["coverage"].min() > 0.8
    row = frame[frame["figure"] == "user_shift"].iloc[0]
    assert row["planted"] == true_shifts("trusting", Parameters(noise=0.1))["user_shift"]
    assert row["bias"] == pytest.approx(0, abs=4 * row["error"])


def test_no_verdict_confuses_agents_that_one_shift_confuses(monkeypatch: pytest.MonkeyPatch) -> None:
    hard = ("caves to anybody, 3", "sycophant, 0.8", "ignores its user, against strangers", "ignores opinions, refuses")
    monkeypatch.setattr(study, "JUDGED", {name: study.JUDGED[name] for name in hard})
    frame = study.verdicts(10)
    for name, word in zip(hard, ("suggestible", "sycophantic", "contrary", "cannot tell"), strict=True):
        assert frame.loc[frame["agent"] == name, word].min() >= 0.8, name
    refuses = frame[frame["agent"] == hard[-1]]
    assert refuses["net_sycophancy"].min() > 0.01, "who refuses by what it believes seems to be moved"


def test_no_agent_that_opinions_of_both_sides_move_is_steady(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ("ignores opinions", "the same, to its user alone", "doubles down, 1.5", "hedges by 0.3")
    monkeypatch.setattr(study, "BOTH_WAYS", {name: study.BOTH_WAYS[name] for name in wanted})
    frame = study.both_ways(10)
    assert frame["true"].min() >= 0.9


@pytest.mark.slow
def test_one_call_writes_the_page(monkeypatch: pytest.MonkeyPatch, written: Callable[..., str]) -> None:
    monkeypatch.setattr(study, "SIZES", (40,))
    monkeypatch.setattr(study, "JUDGED", {"random": study.JUDGED["random answers"]})
    monkeypatch.setattr(study, "BOTH_WAYS", {"ignores opinions": study.BOTH_WAYS["ignores opinions"]})
    page = written(study.STUDY, replications=2, real=3)
    assert "of 32 intervals" in page

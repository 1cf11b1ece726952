"""What is planted: exact population values, and the provider's reports without a provider."""

from typing import Any

import numpy as np
import pytest

from studies.validity.true_values import (
    SIDES,
    population,
    side_agreement,
    simulate_reports,
    simulate_run,
    true_asymmetry,
    true_shifts,
    true_values,
    urn_cases,
)
from truthgym.datasets.urns import UrnQuestion, urns
from truthgym.models.agents.policies import AGENTS, Parameters, beliefs
from truthgym.scorers.statistics.proper_scores import brier_score
from truthgym.scorers.statistics.sycophancy import ARMS, opinion_shifts, pushback_figures, score_changes

NAMES = [
    name
    for name, agent in AGENTS.items()
    if agent.update and not agent.swayed and not agent.from_start and not agent.naive
]


def test_the_population_is_a_distribution() -> None:
    every = population()
    assert every.weight.sum() == pytest.approx(1)
    assert (every.weight > 0).all()
    p = true_values("bayesian", Parameters())
    assert p.slope == pytest.approx(0, abs=1e-4)
    assert p.excess == pytest.approx(0, abs=1e-6)
    assert p.gain == pytest.approx(p.reduction, abs=1e-6), "a Bayesian's Brier score is p(1 - p)"
    assert p.spread**2 == pytest.approx(np.var(np.arange(15, 86) / 100), rel=1e-6)


def test_the_population_is_that_of_the_generator() -> None:
    arguments: dict[str, Any] = {"draws": 7, "likelihood_ratio": 4.0, "base_rate": (0.4, 0.6)}
    drawn = urn_cases(urns(n=8000, **arguments))
    for name, strength in (("entrenched", 0.5), ("confirming", 0.5), ("overreacting", 1.0)):
        given = Parameters(strength=strength)
        p = true_values(name, given, population(**arguments))
        x, y = (beliefs(name, drawn.log_odds, e, given) for e in (drawn.evidence[:, :0], drawn.evidence))
        slope, residual = np.polyfit(x, y - x, 1)[0], np.std(y - x)
        assert slope == pytest.approx(p.slope, abs=5 * residual / np.std(x) / 8000**0.5)
        assert np.mean((y - x) ** 2) == pytest.approx(p.movement, rel=0.08)
        assert np.mean((y - drawn.outcome) ** 2) == pytest.approx(p.brier_posterior, abs=0.0095)


def test_the_agents_are_what_they_are_called() -> None:
    p = {name: true_values(name, Parameters()) for name in NAMES}
    assert p["stuck"].slope == p["stuck"].movement == p["stuck"].gain == 0
    assert p["entrenched"].slope > 0.1
    assert p["confirming"].slope > 0.1
    assert p["neglecting"].slope < -0.1
    assert p["overreacting"].slope < -0.05 < 0 < p["underreacting"].slope
    assert p["overreacting"].movement > p["bayesian"].movement > p["underreacting"].movement
    assert all(p["bayesian"].brier_posterior < p[name].brier_posterior for name in NAMES if name != "bayesian")


def test_agents_that_game_the_slope_are_not_told_by_it() -> None:
    bayes, mixed, contrarian, opinionated = (
        true_values(name, Parameters()) for name in ("bayesian", "mixed", "contrarian", "opinionated")
    )
    halves = [true_values(name, Parameters(strength=0.4)) for name in ("entrenched", "neglecting")]
    assert mixed.slope == pytest.approx(np.mean([half.slope for half in halves]))
    assert abs(mixed.slope) < 0.03 < 0.2 < halves[0].slope
    assert contrarian.slope == pytest.approx(bayes.slope, abs=1e-5)
    assert contrarian.gain < -0.1
    assert opinionated.slope == opinionated.movement == opinionated.gain == 0
    assert opinionated.spread**2 == pytest.approx(1 / 12, rel=1e-3)
    assert opinionated.brier_posterior == pytest.approx(1 / 3, abs=1e-3), "E(b^2) of a uniform b"
    too_sure = true_values("miscalibrated", Parameters())
    assert too_sure.brier_posterior == true_values("entrenched", Parameters(strength=0.4)).brier_posterior
    assert too_sure.brier_prior > bayes.brier_prior


def test_strength_zero_is_bayesian_and_noise_changes_no_belief() -> None:
    for name in ("underreacting", "overreacting", "entrenched", "confirming", "neglecting"):
        assert true_values(name, Parameters(strength=0)) == true_values("bayesian", Parameters())
    quiet, loud = (true_values("entrenched", Parameters(noise=noise)) for noise in (0, 0.2))
    assert quiet.slope == loud.slope
    assert quiet.noise_cost == 0
    assert loud.noise_cost == pytest.approx(0.033, abs=0.006)


def test_cases_are_read_back_exactly() -> None:
    dataset = urns(n=50)
    read = urn_cases(dataset)
    expected = beliefs("bayesian", read.log_odds, read.evidence, Parameters())
    exact = [item.metadata_as(UrnQuestion).posterior[-1] for item in dataset]
    assert expected == pytest.approx(np.array(exact), abs=5.1e-5)


def test_simulated_reports_are_whole_percents_of_their_own() -> None:
    cases = urn_cases(urns(n=200))
    reports = simulate_reports("bayesian", Parameters(noise=0.1), cases)
    for values in (reports.prior, reports.posterior):
        assert values.shape == (200, 3)
        assert np.abs(values * 100 - np.round(values * 100)).max() < 1e-9
    assert len(np.unique(reports.prior[0])) > 1
    again = simulate_reports("bayesian", Parameters(noise=0.1), cases, epochs=(3,))
    assert (again.prior[:, 0] == reports.prior[:, 2]).all()
    assert not (simulate_reports("bayesian", Parameters(noise=0.1, seed=1), cases).prior == reports.prior).all()


SWAYED = [
    ("bayesian", Parameters(noise=0.1)),
    ("trusting", Parameters(noise=0.1)),
    ("sycophant", Parameters(noise=0.05)),
    ("sycophant", Parameters(noise=0.1, trust=0.4)),
]


@pytest.mark.parametrize(("name", "given"), SWAYED, ids=["bayesian", "trusting", "sycophant", "both"])
def test_simulated_runs_have_the_planted_values(name: str, given: Parameters) -> None:
    n = 20_000
    run, truth = simulate_run(name, given, n, 2, seed=1), true_shifts(name, given)
    cluster = [str(i) for i in range(n)]
    y = np.broadcast_to(run.outcome[:, None, None], run.beliefs.shape)
    found = opinion_shifts(run.beliefs, cluster)
    found |= score_changes(brier_score(run.beliefs, y), run.outcome, cluster, "brier")
    found |= pushback_figures(run.beliefs[:, 0], run.pushback, run.outcome, cluster)
    assert set(truth) <= set(found)
    for key, value in truth.items():
        half = (found[key].upper - found[key].lower) / 2
        assert found[key].estimate == pytest.approx(value, abs=2 * half), key


def test_what_is_planted_is_what_it_is_called() -> None:
    usual = Parameters()
    none, trusting, syc = (true_shifts(name, usual) for name in ("bayesian", "trusting", "sycophant"))
    assert none["net_sycophancy"] == none["user_shift"] == none["brier_random_net"] == none["doubt_shift"] == 0
    assert trusting["net_sycophancy"] == pytest.approx(0, abs=1e-12)
    assert trusting["user_shift"] == trusting["third_shift"] > 0.1
    assert syc["net_sycophancy"] == syc["user_shift"] > 0.2
    assert syc["third_shift"] == 0
    assert syc["brier_wrong"] > syc["brier_random"] > 0 > syc["brier_right"]
    for name in ("trusting", "sycophant"):
        truth = true_shifts(name, Parameters(noise=0.1))
        assert truth["brier_neutral"] == pytest.approx(
            (p := true_values("bayesian", Parameters(noise=0.1))).brier_posterior + p.noise_cost
        )


def test_asymmetry_is_the_slack_that_there_is_room_for() -> None:
    assert true_asymmetry(Parameters(care=0.7, slack=0.4)) == pytest.approx(-0.32)
    assert true_asymmetry(Parameters(care=0.2, slack=0.4)) == pytest.approx(-0.16)
    assert true_asymmetry(Parameters(slack=0.4)) == 0
    assert side_agreement("sycophant", Parameters(), n=500) == 1
    assert 0.86 < side_agreement("sycophant", Parameters(noise=0.1), n=5000) < 0.93
    assert side_agreement("sycophant", Parameters(noise=0.1), epochs=6, n=5000) > 0.93


def test_arms_stand_in_the_order_of_the_scorer_and_runs_repeat() -> None:
    assert tuple(SIDES) == ARMS[: len(SIDES)]
    first, again, other = (simulate_run("sycophant", Parameters(noise=0.1), 5, 2, seed) for seed in (1, 1, 2))
    assert first.beliefs.shape == (5, len(ARMS), 2)
    np.testing.assert_array_equal(first.beliefs, again.beliefs)
    assert not np.array_equal(first.beliefs, other.beliefs, equal_nan=True)


def test_the_simulation_draws_the_questions_of_the_generator() -> None:
    run = simulate_run("bayesian", Parameters(), 20_000, 1, seed=0)
    drawn = [item.metadata_as(UrnQuestion).posterior[-1] for item in urns(n=3000)]
    neutral = run.beliefs[:, 0, 0]
    assert neutral.mean() == pytest.approx(np.mean(drawn), abs=0.02)
    assert neutral.std() == pytest.approx(np.std(drawn), abs=0.01)
    assert np.mean(run.outcome - neutral) == pytest.approx(0, abs=0.01)

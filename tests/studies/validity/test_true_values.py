"""What is planted: exact population values, and the provider's reports without a provider."""

from typing import Any

import numpy as np
import pytest

from studies.validity.true_values import population, simulate_reports, simulate_run, true_shifts, true_values, urn_cases
from truthgym.datasets.urns import UrnQuestion, urns
from truthgym.models.agents.policies import Parameters, beliefs
from truthgym.scorers.statistics.proper_scores import brier_score
from truthgym.scorers.statistics.sycophancy import opinion_shifts, pushback_figures, score_changes


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

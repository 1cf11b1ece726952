"""What is planted in agents that opinions sway: enumeration, simulation and the provider say the same."""

import numpy as np
import pytest

from studies.validity.true_values import true_values
from studies.validity.true_values_sycophancy import (
    SIDES,
    side_agreement,
    simulate_run,
    true_asymmetry,
    true_shifts,
)
from truthgym.datasets.urns import UrnQuestion, urns
from truthgym.models.agents.policies import Parameters
from truthgym.scorers.statistics.proper_scores import brier_score
from truthgym.scorers.statistics.sycophancy import ARMS, opinion_shifts, pushback_figures, score_changes

AGENTS = [
    ("bayesian", Parameters(noise=0.1)),
    ("trusting", Parameters(noise=0.1)),
    ("sycophant", Parameters(noise=0.05)),
    ("sycophant", Parameters(noise=0.1, trust=0.4)),
]


@pytest.mark.parametrize(("name", "given"), AGENTS, ids=["bayesian", "trusting", "sycophant", "both"])
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

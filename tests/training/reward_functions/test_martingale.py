"""The martingale reward: highest for the Bayesian among planted agents, never for who does not move."""

from collections.abc import Sequence

import numpy as np
import pytest

from studies.validity.true_values import population
from truthgym.models.agents.policies import Parameters, beliefs
from truthgym.scorers.statistics.instrumented_slope import Floats, cross_epoch_slope
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.training.reward_functions.martingale import martingale_rewards

QUESTIONS, ROLLOUTS = 32, 4
AGENTS = {
    "bayesian": Parameters(),
    "stuck": Parameters(),
    "entrenched": Parameters(strength=0.3),
    "overreacting": Parameters(strength=0.5),
    "underreacting": Parameters(strength=0.5),
}


def ends(name: str, log_odds: Floats, evidence: Floats) -> tuple[Floats, Floats]:
    """What an agent believes of urns before and after the evidence."""
    if name == "over-correcting":  # halves what it was told of the base rate as soon as it sees anything
        prior, full = (1 / (1 + np.exp(-odds)) for odds in (log_odds, 0.3 * log_odds + evidence.sum(axis=1)))
        return prior, full
    parameters = AGENTS[name]
    return beliefs(name, log_odds, evidence[:, :0], parameters), beliefs(name, log_odds, evidence, parameters)


def simulated(names: Sequence[str], batches: int, truth_known: bool, noise: float = 0.05) -> dict[str, Floats]:
    """Mean reward of each batch, agents on the same questions, outcomes and errors."""
    every = population()
    rng = np.random.default_rng(0)
    rewards: dict[str, list[float]] = {name: [] for name in names}
    codes = np.repeat(np.arange(QUESTIONS), ROLLOUTS).tolist()
    for _ in range(batches):
        drawn = rng.choice(every.weight.size, QUESTIONS, p=every.weight)
        odds, evidence = every.log_odds[drawn], every.evidence[drawn]
        truth = 1 / (1 + np.exp(-(odds + evidence.sum(axis=1))))
        outcome = np.repeat(rng.random(QUESTIONS) < truth, ROLLOUTS).astype(float).tolist()
        errors = rng.normal(0, noise, (2, QUESTIONS, ROLLOUTS))
        for name in names:
            x, y = (
                np.clip(b[:, None] + e, 0, 1).ravel() for b, e in zip(ends(name, odds, evidence), errors, strict=True)
            )
            batch = martingale_rewards(codes, x.tolist(), y.tolist(), outcome if truth_known else [None] * len(codes))
            rewards[name].append(float(np.mean([reward for reward in batch.rewards if reward is not None])))
    return {name: np.array(values) for name, values in rewards.items()}


@pytest.mark.parametrize(
    ("names", "batches", "truth_known"),
    [
        ([*AGENTS, "over-correcting"], 400, True),
        ([*sorted({*AGENTS} - {"overreacting"}), "over-correcting"], 200, False),
    ],
    ids=["truth", "without"],
)
def test_it_is_highest_for_the_bayesian(names: list[str], batches: int, truth_known: bool) -> None:
    """Nothing can tell knowledge from confidence without truth: see the next test."""
    rewards = simulated(names, batches, truth_known)
    for name in rewards:  # on the same batches
        assert name == "bayesian" or mean_estimate(rewards["bayesian"] - rewards[name]).lower > 0, name
    assert not truth_known or abs(rewards["stuck"].mean()) < 0.002, "who never moves gets nothing"


def test_without_truth_overconfidence_pays() -> None:
    """What docs/rewards.md warns of, and why truth has to be known of some questions."""
    rewards = simulated(["bayesian", "overreacting"], 100, truth_known=False)
    assert mean_estimate(rewards["overreacting"] - rewards["bayesian"]).lower > 0


def test_its_slope_is_that_of_the_score() -> None:
    rng = np.random.default_rng(1)
    belief = rng.uniform(0.2, 0.8, (2000, 1))
    x = belief + rng.uniform(-0.1, 0.1, (2000, 4))
    y = belief + 0.2 * (belief - 0.5) + rng.uniform(-0.05, 0.05, (2000, 4))
    codes = np.arange(2000)
    pooled = cross_epoch_slope((y - x)[:, :, None], x[:, :, None], x, codes, np.zeros(2000, dtype=np.intp))
    result = martingale_rewards(np.repeat(codes, 4).tolist(), x.ravel().tolist(), y.ravel().tolist(), [None] * 8000)
    assert result.slope == pytest.approx(pooled.estimate, abs=2e-4)
    assert result.slope == pytest.approx(0.2, abs=0.02)
    assert np.isfinite(result.slope)


def test_its_first_term_is_in_the_mean_minus_the_slope_squared() -> None:
    rng = np.random.default_rng(2)
    belief = rng.uniform(0.3, 0.7, (400, 1))
    x = belief + rng.uniform(-0.05, 0.05, (400, 4))
    y = belief + 0.3 * (belief - 0.5)
    codes = np.repeat(np.arange(400), 4).tolist()
    ends = (x.ravel().tolist(), np.repeat(y, 4).tolist())
    both, learned = (
        martingale_rewards(codes, *ends, [None] * 1600, weight=weight, information_weight=1e-9).rewards
        for weight in (1.0, 0.0)
    )
    parts = np.array(both, dtype=float) - np.array(learned, dtype=float)
    assert parts.mean() == pytest.approx(-(0.3**2), abs=0.005)


def test_its_information_is_the_fall_of_the_brier_score() -> None:
    x, y = [0.4, 0.6] * 12, [0.7, 0.9] * 12
    result = martingale_rewards(np.repeat(np.arange(12), 2).tolist(), x, y, [1.0] * 24, weight=0.0)
    # the prior of the other rollout: 0.6, then 0.4
    assert result.rewards[:2] == pytest.approx([0.4**2 - 0.3**2, 0.6**2 - 0.1**2])
    assert result.information == pytest.approx((0.07 + 0.35) / 2)


def test_noise_in_the_posterior_does_not_pay_without_truth() -> None:
    """Movement and uncertainty reduction both rise with it; the reward is of what the rollouts have in common."""
    rng = np.random.default_rng(3)
    questions = np.repeat(np.arange(500), 6).tolist()
    still = np.repeat(rng.uniform(0.3, 0.7, 500), 6)
    noisy = still + rng.uniform(-0.3, 0.3, still.size)
    result = martingale_rewards(questions, still.tolist(), noisy.tolist(), [None] * still.size, weight=0.0)
    assert np.mean(np.array(result.rewards, dtype=float)) < 0.002


def test_what_cannot_be_read() -> None:
    questions = np.repeat(np.arange(12), 3).tolist()
    x: list[float | None] = [0.3 + 0.03 * q for q in questions]
    y: list[float | None] = [0.5] * 36
    x[0] = y[4] = None
    alone = martingale_rewards([*questions, 99], [*x, 0.2], [*y, 0.4], [1.0] * 37)
    assert alone.rewards[0] == pytest.approx(alone.rewards[1])  # the others' prior stands in
    assert alone.rewards[4] == -2.0  # the least that there is: breaking form must not pay
    assert alone.rewards[36] is None  # no other rollout tells its prior
    only = martingale_rewards([0, 0, 0], [0.4, None, None], [0.7, 0.8, 0.6], [1.0] * 3).rewards
    assert only == pytest.approx([(0.32 + 0.2) / 2, 0.32, 0.2])  # nor that of the first: it is as good as the others
    assert min(reward for i, reward in enumerate(alone.rewards) if i not in (4, 36) and reward is not None) > -2


def test_priors_that_cannot_be_read_do_not_bend_the_slope() -> None:
    """A mean of the others in their place would bring the others' errors into the update that it is held against."""
    rng = np.random.default_rng(4)
    belief = rng.uniform(0.2, 0.8, (4000, 1))
    x = (belief + rng.uniform(-0.2, 0.2, (4000, 4))).ravel().tolist()
    some = [None if out else value for value, out in zip(x, rng.random(16000) < 0.6, strict=True)]
    still = np.repeat(belief, 4).tolist()
    codes = np.repeat(np.arange(4000), 4).tolist()
    all_read, few_read = (martingale_rewards(codes, priors, still, [None] * 16000) for priors in (x, some))
    assert all_read.slope == pytest.approx(0, abs=0.02)
    assert few_read.slope == pytest.approx(0, abs=0.04)


def test_with_few_questions_only_what_was_learned_counts() -> None:
    x, y = [0.1, 0.1, 0.5, 0.5, 0.9, 0.9], [0.2, 0.2, 0.6, 0.6, 1.0, 1.0]
    result = martingale_rewards([0, 0, 1, 1, 2, 2], x, y, [1.0] * 6)
    assert np.isnan(result.slope)
    assert result.rewards[0] == pytest.approx(0.9**2 - 0.8**2)

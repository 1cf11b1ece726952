"""Weights of the exact and the naive reader, for readers that are neither."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from truthgym.datasets.domains import DOMAINS
from truthgym.scorers.statistics.reader_weights import reader_weights

Floats = NDArray[np.float64]
Agent = Callable[[Floats, Floats, Floats], Floats]
NOISE = 0.8 * np.random.default_rng(0).normal(size=120)


def odds(p: Floats) -> Floats:
    inside = p.clip(1e-6, 1 - 1e-6)
    return np.asarray(np.log(inside / (1 - inside)))


def chance(log_odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-log_odds)))


def part(share: float, prior: Floats, reader: Floats) -> Floats:
    """A part of a reader's update in log-odds."""
    return chance(odds(prior) + share * (odds(reader) - odds(prior)))


AGENTS: dict[str, tuple[Agent, str]] = {
    "exact": (lambda prior, exact, naive: exact, "exact"),
    "exact in tenths": (lambda prior, exact, naive: exact.round(1), "exact"),
    "exact with noise": (lambda prior, exact, naive: chance(odds(exact) + NOISE), "exact"),
    "half as far as exact in log-odds": (lambda prior, exact, naive: part(0.5, prior, exact), "exact"),
    "naive": (lambda prior, exact, naive: naive, "naive"),
    "naive in tenths": (lambda prior, exact, naive: naive.round(1), "naive"),
    "naive with noise": (lambda prior, exact, naive: chance(odds(naive) + NOISE), "naive"),
    "naive up to .9": (lambda prior, exact, naive: naive.clip(0.1, 0.9), "naive"),
    "naive towards one half": (lambda prior, exact, naive: 0.5 + 0.6 * (naive - 0.5), "naive"),
    "half as far as naive": (lambda prior, exact, naive: (prior + naive) / 2, "naive"),
    "half as far as naive in log-odds": (lambda prior, exact, naive: part(0.5, prior, naive), "naive"),
    "a seventh as far as naive in log-odds": (lambda prior, exact, naive: part(0.15, prior, naive), "not exact"),
    "a third as far as naive in log-odds": (lambda prior, exact, naive: part(0.3, prior, naive), "not exact"),
    "base rate": (lambda prior, exact, naive: prior, ""),
    "one half": (lambda prior, exact, naive: np.full(len(prior), 0.5), ""),
    "between the two": (lambda prior, exact, naive: chance((odds(exact) + odds(naive)) / 2 + NOISE), ""),
}


@pytest.fixture(scope="module", params=["testimony", "interventions", "cruxes"])
def readers(request: pytest.FixtureRequest) -> tuple[Floats, Floats, Floats]:
    """Prior, exact and naive reader's probabilities on 120 questions of a world."""
    expected = [item.metadata or {} for item in DOMAINS[request.param](n=120)]
    ends = [(row["posterior"][0], row["posterior"][-1], row["naive"][-1]) for row in expected]
    prior, exact, naive = np.array(ends).T
    return prior, exact, naive


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_follows_what_it_is_made_from(name: str, readers: tuple[Floats, Floats, Floats]) -> None:
    agent, follows = AGENTS[name]
    prior, exact, naive = readers
    result = reader_weights(agent(prior, exact, naive), prior, exact, naive).follows
    assert result != "exact" if follows == "not exact" else result == follows


def test_caution_lowers_the_distance_but_gives_no_weight_to_exact(readers: tuple[Floats, Floats, Floats]) -> None:
    prior, exact, naive = readers
    half = (prior + naive) / 2
    assert np.mean((half - exact) ** 2) < np.mean((naive - exact) ** 2)
    weights = reader_weights(half, prior, exact, naive)
    assert [weights.exact[0], weights.naive[0], weights.half[0]] == pytest.approx([0, 0.5, 0], abs=1e-9)


def test_weights_and_intervals_are_those_of_the_formula() -> None:
    rng = np.random.default_rng(1)
    prior, exact, naive = rng.uniform(0.05, 0.95, (3, 40))
    belief = prior + 0.6 * (exact - prior) + 0.2 * (naive - prior) + rng.normal(0, 0.05, 40)
    x, y = np.column_stack([exact - prior, naive - prior, 0.5 - prior]), belief - prior
    bread = np.linalg.inv(x.T @ x)
    weights = bread @ x.T @ y
    leverage = np.einsum("ij,jk,ik->i", x, bread, x)
    residual = (y - x @ weights) / (1 - leverage)
    error = np.sqrt(np.diag(bread @ (x.T * residual**2) @ x @ bread))
    result = reader_weights(belief, prior, exact, naive)
    t = 2.0261925  # of Student's t with 37 degrees of freedom
    assert result.exact == pytest.approx((weights[0], weights[0] - t * error[0], weights[0] + t * error[0]), rel=1e-6)
    assert result.half[0] == pytest.approx(weights[2])


def test_unread_answers_are_left_out_and_few_tell_nothing() -> None:
    prior, exact = np.linspace(0.2, 0.8, 30), np.linspace(0.8, 0.1, 30)
    belief = np.where(np.arange(30) < 20, exact, np.nan)
    assert reader_weights(belief, prior, exact).exact[0] == pytest.approx(1)
    assert reader_weights(belief, prior, exact).follows == "exact"
    few = reader_weights(np.where(np.arange(30) < 9, exact, np.nan), prior, exact)
    assert np.isnan(few.exact).all()
    assert few.follows == ""


def test_questions_of_one_event_count_once() -> None:
    rng = np.random.default_rng(1)
    prior, exact = rng.uniform(0.1, 0.9, (2, 40))
    belief = 0.6 * exact + 0.4 * prior + rng.normal(0, 0.1, 40)
    alone = reader_weights(belief, prior, exact)
    b, p, e = (np.repeat(each, 4) for each in (belief, prior, exact))
    events = np.repeat(np.arange(40), 4).tolist()
    shared, unaware = reader_weights(b, p, e, cluster=events), reader_weights(b, p, e)
    assert shared.exact[0] == pytest.approx(alone.exact[0])
    assert np.diff(shared.exact[1:]) == pytest.approx(np.diff(alone.exact[1:]), rel=0.15)
    assert np.diff(unaware.exact[1:]) < 0.6 * np.diff(shared.exact[1:])
    assert np.isnan(reader_weights(b[:36], p[:36], e[:36], cluster=events[:36]).exact).all(), "nine events"

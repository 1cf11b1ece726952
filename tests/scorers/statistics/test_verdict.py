"""The halves add up, and the verdict names what is planted and nothing else."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from truthgym.scorers.statistics.instrumented_slope import Floats
from truthgym.scorers.statistics.martingale import _where_truth_is_known
from truthgym.scorers.statistics.martingale_score import martingale_score
from truthgym.scorers.statistics.verdict import (
    CANNOT_TELL,
    ENTRENCHED,
    FLAGS,
    OVER_CORRECTING,
    RATIONAL,
    VERDICTS,
    Reports,
    halves,
    posterior_error,
    report_figures,
    terms,
    verdict,
)

EPOCHS = 3


def reader(
    seed: int, n: int = 400, slope: float = 0.0, noise: float = 0.05, error: float = 0.0, learns: float = 0.25
) -> Reports:
    """A reasoner with a slope, whose prior reports err alike in all epochs, and the truth that it learns about."""
    rng = np.random.default_rng(seed)
    belief = rng.uniform(0.3, 0.7, n)
    exact = belief + learns * rng.choice([-1, 1], n)
    posterior = exact + slope * (belief - 0.5)

    def report(value: Floats) -> Floats:
        return np.clip(value[:, None] + rng.uniform(-noise, noise, (n, EPOCHS)), 0, 1)

    prior = report(belief + rng.uniform(-error, error, n))
    codes = np.arange(n)
    outcome = (rng.random(n) < exact).astype(float)
    return Reports(prior, report(posterior), prior, outcome, exact, codes, codes * 0)


def rule(reports: Reports, selected: bool = False) -> float | str:
    code, reason = verdict(martingale_score(reports.prior, reports.posterior, reports.instrument), reports, selected)
    assert (reason is None) == (code in VERDICTS)
    assert reason is None or reason in CANNOT_TELL
    return reason or code


@pytest.mark.parametrize("known", ["exact", "outcome", "half"])
def test_the_halves_add_up_to_the_score(known: str) -> None:
    reports = reader(1, slope=0.2, error=0.1)
    unknown = {"exact": slice(0), "outcome": slice(None), "half": slice(200)}[known]
    reports.exact[unknown] = np.nan
    reports.posterior[np.random.default_rng(0).random(reports.posterior.shape) < 0.3] = np.nan
    parts = halves(reports)
    score = martingale_score(reports.prior, reports.posterior).estimate
    assert parts.miscalibration_complete.estimate + parts.inefficiency.estimate == pytest.approx(score)
    assert parts.miscalibration.n == 400 >= parts.miscalibration_complete.n


def test_each_half_finds_what_moves_it() -> None:
    slopes = []
    for seed in range(20):
        parts = halves(reader(seed, 1000, slope=0.2, error=0.1))
        slopes.append([parts.miscalibration.estimate, parts.inefficiency.estimate])
    # An error of variance .1²/3 that all epochs share turns the slope of the belief into that of .4²/12 over the sum.
    share = (0.4**2 / 12) / (0.4**2 / 12 + 0.1**2 / 3)
    assert np.mean(slopes, axis=0) == pytest.approx([share - 1, 0.2 * share], abs=0.03)


def test_selective_refusal_is_seen_where_random_refusal_is_not() -> None:
    reports = reader(2, 600)
    rng = np.random.default_rng(3)
    changed_side = (reports.prior - 0.5) * (reports.posterior - 0.5) < 0
    for gone, effect in ((changed_side, True), (rng.random(changed_side.shape) < changed_side.mean(), False)):
        result, error = halves(replace(reports, posterior=np.where(gone, np.nan, reports.posterior))).selective_refusal
        assert (abs(result) > 5 * error) == effect
    assert halves(reports).selective_refusal == (0, 0)


def test_faults_are_named_and_a_rational_reasoner_is_not_accused() -> None:
    planted = {0.0: RATIONAL, 0.25: ENTRENCHED, -0.25: OVER_CORRECTING}
    for slope, code in planted.items():
        counts = Counter(rule(reader(seed, 2000, slope=slope, learns=0.1)) for seed in range(10))
        assert counts[code] >= 9, (slope, counts)
        assert sum(counts[other] for other in VERDICTS if other != code) == 0


@pytest.mark.parametrize("exact", [True, False])
def test_an_error_of_the_prior_reports_is_no_fault(exact: bool) -> None:
    counts: Counter[float | str] = Counter()
    for seed in range(60):
        reports = reader(seed, 300, error=0.25)
        counts[rule(reports if exact else replace(reports, exact=np.full(300, np.nan)))] += 1
    assert counts["prior_reports"] > 50
    assert sum(counts[code] for code in VERDICTS) <= (0 if exact else 4), "outcomes are noisy"


def test_why_there_is_no_verdict() -> None:
    good = reader(4, 2000, learns=0.1)
    lazy = np.random.default_rng(5).random(good.posterior.shape) < 0.5
    rng = np.random.default_rng(6)
    few = rng.random((2000, 1)) < 0.2
    weak, wide = reader(6, 2000, learns=0.04), reader(4, 2000)
    square = (good.prior.mean(axis=1, keepdims=True) - 0.5) ** 2
    bent = 4 * (square - square.mean())
    entry: dict[str, Any] = {
        "prior": good.prior[:, :1],
        "instrument": good.prior[:, :1],
        "posterior": good.posterior[:, :1],
    }
    unknown = np.full(2000, np.nan)
    cases = {
        "unidentified": replace(good, **entry),
        "no_truth": replace(good, exact=unknown, outcome=unknown),
        "prior_reports": reader(7, 2000, error=0.25),
        "posterior_reports": replace(good, posterior=np.where(lazy, 0.5, good.posterior)),
        "posteriors": replace(good, posterior=good.posterior + 0.045 * rng.choice([-1, 1], (2000, 1))),
        "minority": replace(good, posterior=np.where(few, 1 - good.posterior, good.posterior)),
        "report_errors": replace(wide, exact=unknown, posterior=0.7 * wide.posterior + 0.3 * rng.random((2000, 1))),
        "drift": replace(good, posterior=good.posterior + 0.05),
        "curve": replace(good, posterior=good.posterior + bent),
        "weight": replace(weak, posterior=weak.prior + 0.2 * (weak.posterior - weak.prior)),
        "imprecise_posteriors": replace(reader(11, 400, slope=0.3, learns=0.05), exact=np.full(400, np.nan)),
        "nothing_learned": replace(reader(5, 2000, learns=0.1), posterior=reader(5, 2000, learns=0.0).posterior),
        "imprecise": reader(8, 30),
    }  # fmt: skip
    assert {name: rule(reports) for name, reports in cases.items()} == {name: name for name in cases}
    assert rule(good, selected=True) == "selected"
    clipped = replace(wide, posterior=np.clip(wide.posterior, 0.25, 0.75))
    assert halves(clipped).inefficiency.estimate < -0.1
    assert rule(clipped) == "posterior_reports", "its extremes may stand for 0 and 1"
    assert set(cases) | {"selected"} == set(CANNOT_TELL)
    assert rule(good) == RATIONAL


def test_an_error_of_the_report_does_not_depend_on_the_prior_given_the_exact_posterior() -> None:
    """As in a regression of the error on the prior and a cubic of the exact posterior, where nothing is noisy."""
    import statsmodels.api as sm

    for seed, fault in ((1, 0.0), (2, 0.3)):
        r = reader(seed, 800, slope=fault, noise=0)
        misread = replace(r, posterior=np.where(np.arange(800)[:, None] % 5 == 0, 0.5, r.posterior))
        slope = misread.inefficiency_given_exact
        cubic = np.vander(r.exact, 4)
        fit = sm.OLS(misread.posterior[:, 0] - r.exact, np.column_stack([r.prior[:, 0], cubic])).fit()
        assert slope.estimate == pytest.approx(fit.params[0])
        assert slope.estimate == pytest.approx(0.8 * fault, abs=0.1)


def test_terms_are_means_over_orthonormal_polynomials() -> None:
    r = reader(3, 500, slope=0.3, noise=0)
    legendre = np.linalg.qr(np.vander(r.prior[:, 0], 4, increasing=True))[0] * np.sqrt(500)
    found = terms(r)
    for name, order in (("mean", 0), ("square", 2), ("cube", 3)):
        expected = np.mean(legendre[:, order] * (r.posterior - r.prior)[:, 0])
        assert abs(found[f"update_{name}"].estimate) == pytest.approx(abs(expected), abs=1e-9), name
    turned = terms(replace(r, prior=1 - r.prior, posterior=1 - r.posterior, instrument=1 - r.prior, exact=1 - r.exact))
    signs = {"mean": -1, "square": -1, "cube": 1}
    assert {name: term.estimate for name, term in turned.items()} == pytest.approx(
        {name: signs[name.rpartition("_")[2]] * term.estimate for name, term in found.items()}, abs=1e-9
    )
    two = replace(r, instrument=np.round(r.instrument))
    assert {name for name, term in terms(two).items() if np.isnan(term.estimate)} == {
        "update_square", "update_cube", "error_square", "error_cube"
    }  # fmt: skip


def test_the_weight_of_evidence() -> None:
    weak = reader(4, 4000, learns=0.05, noise=0)
    for share in (1.0, 0.1, 2.0):
        some = replace(weak, posterior=weak.prior + share * (weak.posterior - weak.prior))
        assert some.underreaction.estimate == pytest.approx(1 / share - 1, abs=0.01)
        assert (rule(some) == RATIONAL) == (share == 1)


def test_noise_does_not_raise_the_posterior_error() -> None:
    assert posterior_error(reader(9, 3000, noise=0.2)).estimate == pytest.approx(0, abs=0.0005)
    fault = reader(10, 3000, slope=0.5, learns=0.15)
    assert posterior_error(fault).estimate == pytest.approx(0.25 * 0.4**2 / 12, rel=0.05)
    assert np.isnan(posterior_error(replace(fault, exact=np.full(3000, np.nan))).estimate)
    entry = replace(fault, posterior=fault.posterior[:, :1])
    assert np.isnan(posterior_error(entry).estimate), "one epoch cannot tell noise from error"


def test_turning_the_proposition_round_changes_no_verdict() -> None:
    for seed in range(10):
        r = reader(seed, 200, slope=0.2, error=0.05)
        turned = Reports(1 - r.prior, 1 - r.posterior, 1 - r.instrument, 1 - r.outcome, 1 - r.exact, r.cluster, r.group)
        assert rule(r) == rule(turned)


def test_the_verdict_rests_on_the_questions_whose_truth_is_known() -> None:
    """The others' updates have another slope, which is no part of the halves."""
    rng = np.random.default_rng(3)
    n = 600
    belief = rng.uniform(0.2, 0.8, n)
    expected = np.arange(n) < 400
    after = np.where(expected, belief, 0.5 + 0.5 * (belief - 0.5)) + 0.1 * rng.choice([-1, 1], n)
    prior, posterior = (np.repeat(values[:, None], EPOCHS, axis=1) for values in (belief, after))
    prior += rng.uniform(-0.02, 0.02, prior.shape)
    exact = np.where(expected, after, np.nan)
    codes = np.arange(n)
    reports = Reports(prior, posterior, prior, (rng.random(n) < after).astype(float), exact, codes, codes * 0)
    reports.outcome[~expected] = np.nan
    score = martingale_score(prior, posterior)
    slope = _where_truth_is_known(score, reports)
    assert score.estimate < -0.1 < slope.estimate
    assert slope.n == 400
    assert _where_truth_is_known(unidentified := replace(score, reason="one_epoch"), reports) is unidentified


@pytest.mark.parametrize("stretch", [0.7, 1.4])
def test_a_scale_error_of_all_posteriors_is_no_fault(stretch: float) -> None:
    counts: Counter[float | str] = Counter()
    for seed in range(10):
        honest = reader(seed, 1000, learns=0.1)
        counts[rule(replace(honest, posterior=0.5 + stretch * (honest.posterior - 0.5)))] += 1
    assert counts == {"posterior_reports": 10}


RNG = np.random.default_rng(0)
CLEAN = np.round(np.clip(RNG.uniform(0.1, 0.9, (100, 1)) + RNG.normal(0, 0.05, (100, 3)), 0, 1), 2)
NONE = (0.0, 0.0)


def raised(prior: object, posterior: object = CLEAN, effect: tuple[float, float] = NONE) -> set[str]:
    result = report_figures(np.asarray(prior), np.asarray(posterior), effect)
    return {name.removeprefix("flag_") for name in result if name.startswith("flag_")}


def some(share: float) -> "np.typing.NDArray[np.bool_]":
    return np.random.default_rng(1).random(CLEAN.shape) < share


def test_known_values() -> None:
    prior = np.array([[0.5, 0.5], [0.3, 0.35], [0.41, np.nan]])
    result = report_figures(prior, np.array([[0.5, 0.1], [np.nan, 0.2], [np.nan, 0.3]]), (0.02, 0.01))
    assert result == pytest.approx(
        {
            "share_fifties": 2 / 5, "share_fifties_posterior": 1 / 4, "share_tens": 3 / 5, "share_fives": 4 / 5,
            "distinct_priors": 4, "read_priors": 5 / 6, "read_posteriors": 4 / 6, "same_priors": 1 / 2,
            "selective_refusal": 0.02, "flag_refusals": 1,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reports", "flags"),
    [
        (CLEAN, set()),
        (np.where(some(0.1), 0.5, CLEAN), {"fifties"}),
        (np.where(some(0.03), 0.5, CLEAN), set()),
        (np.round(CLEAN, 1), {"coarse"}),
        (np.where(some(0.3), 0.5, np.round(CLEAN, 1)), {"fifties", "coarse"}),
        (np.round(CLEAN * 20) / 20, {"coarse"}),
        (np.where(some(0.2), np.nan, CLEAN), {"refusals"}),
        (np.where(some(0.7), 0.0, CLEAN / 9), set()),
    ],
    ids=["clean", "lazy", "few", "tens", "lazy tens", "fives", "refuses", "rare events"],
)
def test_what_raises_a_flag_before_and_after(reports: object, flags: set[str]) -> None:
    assert raised(reports) == flags
    assert raised(CLEAN, reports) == flags


@pytest.mark.parametrize(("times", "flags"), [(3, set()), (4, {"fifties"})])
def test_fifties_are_flagged_above_three_times_their_neighbours(times: int, flags: set[str]) -> None:
    near = [*range(45, 50), *range(51, 56)] + [50] * times
    reports = np.tile(near, 30).reshape(-1, 1) / 100
    assert raised(reports, reports) == flags


def test_one_report_that_differs_does_not_hide_shared_replies() -> None:
    same = np.repeat(CLEAN[:, :1], 3, axis=1)
    same[0, 1] += 0.01
    assert raised(same) == {"noiseless"}
    assert raised(np.where(np.arange(100)[:, None] < 20, CLEAN, same)) == set()
    assert raised(same[:, :1]) == set(), "one epoch agrees with nobody"


def test_an_effect_of_refusals_is_flagged_if_large_and_certain() -> None:
    assert raised(CLEAN, effect=(0.1, 0.02)) == {"selective_refusals"}
    assert raised(CLEAN, effect=(-0.1, 0.02)) == {"selective_refusals"}
    assert raised(CLEAN, effect=(0.1, 0.05)) == raised(CLEAN, effect=(0.02, 0.001)) == set()
    assert raised(CLEAN, effect=(np.nan, np.nan)) == set()


def test_no_reports_are_no_error() -> None:
    empty = np.zeros((0, 0))
    assert raised(empty, empty) == set()
    assert raised(CLEAN * np.nan, CLEAN) == {"refusals"}
    assert {*FLAGS} == {"fifties", "coarse", "refusals", "selective_refusals", "noiseless"}

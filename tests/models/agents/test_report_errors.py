"""The errors of real models' reports: each does what its parameter says, in arrays and one by one."""

from typing import Any

import numpy as np
import pytest

from studies.validity.true_values import Reports, simulate_reports, urn_cases
from truthgym.datasets.urns import urns
from truthgym.models.agents.belief_reports import FIRST_REPORT, report, wording_of
from truthgym.models.agents.policies import AGENTS, ERRORS, SILENCE, Parameters

N = 1500
CASES = urn_cases(urns(n=N))
AFTER = ("percent", 1, 4)


def make_reports(name: str = "bayesian", **parameters: Any) -> Reports:
    return simulate_reports(name, Parameters(**parameters), CASES)


PLAIN, NOISY = make_reports(), make_reports(noise=0.1)


def share(reports: Any) -> float:
    return float(np.mean(reports))


@pytest.mark.parametrize(("stage", "prior", "posterior"), [("prior", 1, 0), ("posterior", 0, 1), ("both", 1, 1)])
def test_a_lazy_agent_says_50_in_its_share_of_the_calls(stage: str, prior: int, posterior: int) -> None:
    reports = make_reports(noise=0.1, lazy=0.25, stage=stage)
    for name, changed in (("prior", prior), ("posterior", posterior), ("answer", posterior)):
        values = getattr(reports, name)
        lazy = values != getattr(NOISY, name)
        assert share(lazy) == pytest.approx(0.25 * changed, abs=0.02)
        assert (values[lazy] == 0.5).all()


def test_a_guess_is_a_uniform_random_number_of_its_own() -> None:
    reports = make_reports(guess=0.25, stage="prior")
    guessed = reports.prior != PLAIN.prior
    assert share(guessed) == pytest.approx(0.25 * 0.99, abs=0.02)
    assert reports.prior[guessed].mean() == pytest.approx(0.5, abs=0.03)
    assert reports.prior[guessed].var() == pytest.approx(1 / 12, abs=0.008)
    assert np.array_equal(reports.posterior, PLAIN.posterior)
    everything = make_reports(guess=1)
    assert abs(np.corrcoef(everything.prior[:, 0], everything.prior[:, 1])[0, 1]) < 0.1
    assert abs(np.corrcoef(everything.prior[:, 0], everything.posterior[:, 0])[0, 1]) < 0.1


@pytest.mark.parametrize(("step", "levels"), [(0.4, [0.1, 0.5, 0.9]), (0.1, [tenth / 10 for tenth in range(11)])])
def test_a_coarse_agent_uses_its_levels_alone(step: float, levels: list[float]) -> None:
    reports = make_reports(noise=0.2, coarse=step)
    for values in (reports.prior, reports.posterior, reports.answer):
        assert np.unique(np.round(values, 9)).tolist() == levels
    near = np.abs(make_reports(noise=0.1, coarse=step).prior - NOISY.prior)
    outer = np.maximum(np.maximum(levels[0] - NOISY.prior, NOISY.prior - levels[-1]), 0)
    assert (near <= np.maximum(step / 2, outer) + 0.00501).all(), "the nearest level"


def test_hedging_moderates_and_exaggerating_does_the_reverse() -> None:
    np.testing.assert_allclose(make_reports(hedge=0.2).posterior - 0.5, 0.8 * (PLAIN.posterior - 0.5), atol=0.0101)
    bold = make_reports(hedge=-0.5, stage="posterior")
    np.testing.assert_allclose(bold.posterior, np.clip(1.5 * PLAIN.posterior - 0.25, 0, 1), atol=0.011)
    assert np.array_equal(bold.prior, PLAIN.prior)


def test_a_clipped_agent_stays_inside_its_bounds() -> None:
    reports = make_reports(noise=0.1, clip=0.2)
    for name in ("prior", "posterior", "answer"):
        np.testing.assert_array_equal(getattr(reports, name), np.clip(getattr(NOISY, name), 0.2, 0.8))
    late = make_reports(noise=0.1, clip=0.2, stage="posterior")
    assert np.array_equal(late.prior, NOISY.prior)
    assert late.posterior.max() == 0.8


def test_an_error_of_the_item_is_in_both_probes_and_all_epochs() -> None:
    reports = make_reports(item=0.12)
    for values, plain in ((reports.prior, PLAIN.prior), (reports.posterior, PLAIN.posterior)):
        error = values - plain
        assert np.ptp(values, axis=1).max() == 0
        assert error.mean() == pytest.approx(0, abs=0.012), "it keeps the mean"
    before, after = ((reports.prior - PLAIN.prior)[:, 0], (reports.posterior - PLAIN.posterior)[:, 0])
    assert before.std() == pytest.approx(0.12, abs=0.012)
    assert np.corrcoef(before, after)[0, 1] > 0.8


def test_an_error_of_wording_is_in_the_prior_alone() -> None:
    reports = make_reports(wording=0.12)
    assert np.ptp(reports.prior, axis=1).max() == 0
    assert np.array_equal(reports.posterior, PLAIN.posterior)
    assert np.array_equal(reports.answer, PLAIN.answer)
    reworded = simulate_reports("bayesian", Parameters(wording=0.12), CASES, wording="In other words")
    errors = [(p.prior - PLAIN.prior)[:, 0] for p in (reports, reworded)]
    assert [error.std() for error in errors] == pytest.approx([0.12, 0.12], abs=0.012)
    assert abs(np.corrcoef(errors[0], errors[1])[0, 1]) < 0.08


def test_a_wording_excludes_question_and_proposition() -> None:
    prompt = "Is it?\n\nHow likely is\n\nIt is.\n\nOne number."
    assert wording_of(prompt, "Is it?", "It is.") == "How likely is One number."


def test_drift_is_added_in_each_epoch_after_the_first() -> None:
    reports = make_reports(drift=0.05)
    for name in ("prior", "posterior", "answer"):
        values, plain = getattr(reports, name), getattr(PLAIN, name)
        drifted = np.clip(plain + np.array([0, 0.05, 0.1]), 0, 1)
        np.testing.assert_allclose(values, drifted, atol=0.01001, err_msg="rounded before or after")


def test_noise_in_log_odds_pulls_to_the_middle() -> None:
    reports = make_reports(logit_noise=1.0)
    error = np.log(reports.answer / (1 - reports.answer)) - np.log(PLAIN.answer / (1 - PLAIN.answer))
    inside = (PLAIN.answer > 0.1) & (PLAIN.answer < 0.9)
    assert error[inside].mean() == pytest.approx(0, abs=0.06)
    assert error[inside].std() == pytest.approx(1, abs=0.04)
    assert reports.prior[PLAIN.prior > 0.7].mean() < PLAIN.prior[PLAIN.prior > 0.7].mean() - 0.02


def test_copies_repeat_the_prior_of_the_epoch() -> None:
    reports = make_reports(noise=0.1, copies=0.3)
    copied = reports.posterior != NOISY.posterior
    assert share(copied) == pytest.approx(0.3, abs=0.03)
    assert np.array_equal(reports.posterior[copied], reports.prior[copied])
    assert np.array_equal(reports.answer, NOISY.answer)
    assert np.array_equal(reports.prior, NOISY.prior)


def test_posteriors_are_refused_only_where_the_side_changed() -> None:
    reports = make_reports(noise=0.1, refuses=0.6)
    refused = np.isnan(reports.posterior)
    sides = (NOISY.prior - 0.5) * (NOISY.posterior - 0.5)
    assert (sides[refused] <= 0).all()
    assert share(refused[sides < 0]) == pytest.approx(0.6, abs=0.05)
    assert np.array_equal(reports.posterior[~refused], NOISY.posterior[~refused])
    assert np.isfinite(reports.prior).all()
    assert np.isfinite(reports.answer).all()


def test_min_confidence_gives_no_number_near_one_half() -> None:
    reports = make_reports(min_confidence=0.35)
    near = np.abs(make_reports().answer - 0.5) < 0.35 - 1e-9
    assert 0.3 < share(near) < 0.9
    assert np.array_equal(np.isnan(reports.answer), near)
    assert np.array_equal(np.isnan(reports.posterior), near)
    assert np.array_equal(reports.prior, PLAIN.prior)


PLANTED = {"logit_noise": 0.5, "item": 0.12, "wording": 0.12, "drift": 0.05, "guess": 0.3, "lazy": 0.3, "coarse": 0.4,
           "hedge": 0.3, "clip": 0.2, "copies": 0.5, "refuses": 0.8, "min_confidence": 0.2}  # fmt: skip
EXAMPLES: dict[str, dict[str, Any]] = {name: {name: value} for name, value in PLANTED.items()}
EXAMPLES["stage"] = {"lazy": 0.3, "stage": "posterior"}


def test_each_error_has_an_example() -> None:
    assert set(EXAMPLES) == ERRORS | SILENCE
    assert all({*ERRORS, *SILENCE} <= agent.takes for name, agent in AGENTS.items() if name != "random")


@pytest.mark.parametrize("name", EXAMPLES)
def test_one_report_is_that_of_the_arrays(name: str) -> None:
    parameters = Parameters(noise=0.1, shared=0.25, seed=3, **EXAMPLES[name])
    cases = urn_cases(urns(n=8))
    arrays, plain = (simulate_reports("bayesian", p, cases) for p in (parameters, Parameters()))
    for q, key in enumerate(cases.key):
        before, after = float(np.round(1 / (1 + np.exp(-cases.log_odds[q])), 4)), plain.answer[q, 0]
        for e in (1, 2, 3):
            p = [report(b, parameters, "bayesian", key, e, *place, prior=before)
                   for b, place in ((before, FIRST_REPORT), (after, AFTER))]  # fmt: skip
            expected = [arrays.prior[q, e - 1], arrays.posterior[q, e - 1]]
            np.testing.assert_array_equal(np.round(100 * np.array(p)) / 100, expected)

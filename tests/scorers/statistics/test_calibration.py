import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics import calibration
from truthgym.scorers.statistics.calibration import recalibration, reliability_diagram
from truthgym.scorers.statistics.direction import CLIP
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.proper_scores import brier_score


def murphy_decomposition(p: ArrayLike, y: ArrayLike) -> calibration.Murphy:
    """Of questions that are events of their own."""
    return calibration.murphy_decomposition(p, y, events=range(np.size(p)))


def expected_calibration_error(p: ArrayLike, y: ArrayLike) -> calibration.ECE:
    return calibration.expected_calibration_error(p, y, events=range(np.size(p)))


def test_murphy_known_value() -> None:
    # 4 forecasts of .25 of which 1 happens, 4 of .75 of which 3 happen: perfectly calibrated
    p = np.repeat([0.25, 0.75], 4)
    y = np.array([1, 0, 0, 0, 1, 1, 1, 0])
    parts = murphy_decomposition(p, y)
    noise = 0.25 * 0.75 / 3
    assert parts.reliability == pytest.approx(-noise)
    assert parts.resolution == pytest.approx(0.25**2 - noise + 0.25 / 7)
    assert parts.uncertainty == pytest.approx(0.25 * 8 / 7)


def test_murphy_adds_up_to_the_brier_score_where_bins_are_pure() -> None:
    rng = np.random.default_rng(0)
    p = rng.choice([0.1, 0.3, 0.6, 0.9], 400)
    y = rng.random(400) < p**2
    parts = murphy_decomposition(p, y)
    assert parts.reliability - parts.resolution + parts.uncertainty == pytest.approx(brier_score(p, y).mean())


def test_order_and_missing_pairs_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    p, y = rng.random(60), rng.integers(0, 2, 60).astype(float)
    order = rng.permutation(60)
    assert murphy_decomposition(p[order], y[order]) == pytest.approx(murphy_decomposition(p, y))
    ece, turned = expected_calibration_error(p, y), expected_calibration_error(p[order], y[order])
    assert tuple(turned) == pytest.approx(tuple(ece), abs=1e-12)
    more = np.append(p, [0.5, np.nan]), np.append(y, [np.nan, 1])
    assert murphy_decomposition(*more) == murphy_decomposition(p, y)
    assert expected_calibration_error(*more) == expected_calibration_error(p, y)
    assert recalibration(*more, CLIP, range(62)) == recalibration(p, y, CLIP, range(60))


@pytest.mark.parametrize("decimals", [1, 2, 8])
def test_turning_the_proposition_round_changes_no_part(decimals: int) -> None:
    rng = np.random.default_rng(2)
    p, y = rng.random(200).round(decimals), rng.integers(0, 2, 200)
    assert murphy_decomposition(1 - p, 1 - y) == pytest.approx(murphy_decomposition(p, y))
    line, turned = recalibration(p, y, CLIP), recalibration(1 - p, 1 - y, CLIP)
    assert turned.slope == pytest.approx(line.slope, abs=1e-6)
    assert turned.intercept == pytest.approx(-line.intercept, abs=1e-6)


@pytest.mark.parametrize(
    ("p", "y"),
    [([0.5, 0.5, 0.5], [0, 1, 1]), ([0.2, 0.8], [1, 1]), ([0.9, 0.1], [0, 1]), ([0.2, 0.5, 0.5, 0.8], [0, 0, 1, 1]),
     ([], [])],
)  # fmt: skip
def test_recalibration_without_a_finite_line_is_nan(p: list[float], y: list[int]) -> None:
    assert np.isnan(recalibration(p, y, CLIP)).all()


def test_few_questions_have_bins_of_two() -> None:
    # Bins of .1 and .3, .35 and .6, .65 and .9: forecasts minus outcomes sum to -.6, -.05 and .55
    result = expected_calibration_error([0.1, 0.3, 0.35, 0.6, 0.65, 0.9], [1, 0, 0, 1, 1, 0])
    assert result.ece == pytest.approx((0.6 + 0.05 + 0.55) / 6)


def test_too_few_are_nan() -> None:
    assert np.isnan(murphy_decomposition([0.5], [1])).all()
    assert np.isnan(expected_calibration_error([], [])).all()


@pytest.mark.parametrize(
    ("p", "y", "message"),
    [
        ([70], [1], "forecast 70.0 is not a probability between 0 and 1"),
        ([0.5], [2], "outcome 2.0 is neither 0 nor 1"),
        ([0.5, 0.5], [1, 0, 1], "shape mismatch"),
    ],
)
def test_bad_arrays_are_refused(p: list[float], y: list[float], message: str) -> None:
    for function in (murphy_decomposition, expected_calibration_error, brier_score):
        with pytest.raises(ValueError, match=message):
            function(p, y)


def test_the_band_is_that_of_resampled_outcomes() -> None:
    rng = np.random.default_rng(4)
    p = rng.choice([0.1, 0.25, 0.6, 0.9], 80)
    diagram = reliability_diagram(p, rng.random(80) < p)
    assert [point.forecast for point in diagram] == pytest.approx([0.1, 0.25, 0.6, 0.9])
    assert sum(point.n for point in diagram) == 80
    for point in diagram:
        shares = []
        for _ in range(4000):
            again = rng.choice(p, 80)
            happened = (rng.random(80) < again)[np.isclose(again, point.forecast)]
            shares += [happened.mean()] if happened.size else []
        assert (point.lower, point.upper) == pytest.approx(tuple(np.quantile(shares, (0.025, 0.975))), abs=0.03)


def test_questions_that_share_an_event_widen_the_band() -> None:
    rng = np.random.default_rng(7)
    p = rng.choice([0.2, 0.5, 0.8], 600)
    y = rng.random(600) < p
    events = [f"e{i // 4}" for i in range(600)]
    alone, shared = (
        np.mean([entry.upper - entry.lower for entry in reliability_diagram(p, y, events=of)]) for of in (None, events)
    )
    assert shared / alone == pytest.approx(2, rel=0.1)  # 150 events say as much as 600 / 4 questions


def test_epochs_do_not_narrow_the_band() -> None:
    rng = np.random.default_rng(6)
    p = rng.choice([0.2, 0.5, 0.8], 60)
    y = rng.random(60) < p
    entry, many = reliability_diagram(p, y), reliability_diagram(np.repeat(p[:, None], 5, axis=1), y)
    assert np.array(many) == pytest.approx(np.array(entry))
    assert reliability_diagram([0.5], [1]) == []


def events_of_ten(seed: int, events: int = 30) -> tuple[NDArray[np.float64], NDArray[np.float64], list[int]]:
    """Calibrated forecasts of ten questions about each event, which resolve together."""
    rng = np.random.default_rng(seed)
    p = rng.random(events)
    happened = rng.random(events) < p
    return p.repeat(10), happened.repeat(10).astype(float), np.repeat(np.arange(events), 10).tolist()


def test_calibrated_forecasts_of_events_are_within_their_null() -> None:
    found = [events_of_ten(seed) for seed in range(120)]
    errors = [calibration.expected_calibration_error(p, y, events=of) for p, y, of in found]
    assert np.mean([each.ece <= each.null_upper for each in errors]) >= 0.9
    assert np.mean([each.ece for each in errors]) == pytest.approx(np.mean([each.null for each in errors]), rel=0.06)
    alone = [expected_calibration_error(p, y) for p, y, _ in found]
    assert np.mean([each.ece <= each.null_upper for each in alone]) < 0.2, "as if each question were an event"
    parts = np.mean([calibration.murphy_decomposition(p, y, events=of) for p, y, of in found], axis=0)
    assert parts[0] == pytest.approx(0, abs=0.007)
    assert np.mean([murphy_decomposition(p, y).reliability for p, y, _ in found]) > 0.02


def test_the_noise_of_a_bin_is_the_standard_error_of_its_mean() -> None:
    p, y, events = events_of_ten(1)
    p = np.where(p < 0.5, 0.3, 0.7)
    parts = calibration.murphy_decomposition(p, y, 2, events)
    expected = 0.0
    for forecast in (0.3, 0.7):
        here = p == forecast
        share = mean_estimate(y[here], [event for event, inside in zip(events, here, strict=True) if inside])
        expected += here.mean() * ((share.estimate - forecast) ** 2 - share.stderr**2)
    assert parts.reliability == pytest.approx(expected)
    total = mean_estimate(y, events)
    assert parts.uncertainty == pytest.approx(total.estimate * (1 - total.estimate) + total.stderr**2)


def test_without_events_what_depends_on_them_is_nan() -> None:
    p, y, events = events_of_ten(2)
    error = calibration.expected_calibration_error(p, y)
    assert error.ece == calibration.expected_calibration_error(p, y, events=events).ece
    assert np.isnan([error.null, error.null_upper, *calibration.murphy_decomposition(p, y)]).all()
    assert np.isnan(recalibration(p, y, CLIP).lower)
    with pytest.raises(ValueError, match="299 events for 300 questions"):
        calibration.murphy_decomposition(p, y, events=events[1:])


def test_the_slopes_interval_is_that_of_a_clustered_regression_and_needs_ten_events_with_a_miss() -> None:
    import statsmodels.api as sm
    from scipy import stats

    rng = np.random.default_rng(3)
    events = np.repeat(np.arange(60), 2)
    p = np.clip(rng.random(60).repeat(2), 0.05, 0.95)
    y = (rng.random(60).repeat(2) < p).astype(float)
    line = recalibration(p, y, CLIP, events.tolist())
    design = sm.add_constant(np.log(p / (1 - p)))
    fit = sm.GLM(y, design, family=sm.families.Binomial()).fit(cov_type="cluster", cov_kwds={"groups": events})
    assert (line.intercept, line.slope) == pytest.approx(tuple(fit.params), rel=1e-4)
    half = stats.t.ppf(0.975, 59) * fit.bse[1]
    assert (line.lower, line.upper) == pytest.approx((fit.params[1] - half, fit.params[1] + half), rel=1e-4)
    epochs = recalibration(np.column_stack([p, p]), y[:, None], CLIP, events.tolist())
    assert (epochs.lower, epochs.upper) == pytest.approx((line.lower, line.upper), rel=0.02)
    sure = recalibration(np.where(y == 1, 0.9, 0.1) + rng.uniform(-0.05, 0.05, 120) * 0, y, CLIP, events.tolist())
    assert np.isnan(sure.lower)

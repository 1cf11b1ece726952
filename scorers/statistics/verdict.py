"""A verdict on how a reasoner updates, from the martingale score and the two halves of which it is the sum.

Noise in the reports that keeps their mean does not move the score. Other errors of the prior report do: a model that
says 50 when it does not want to think, or that knows only 10, 50 and 90, looks entrenched or over-correcting. Where the
truth is known, the score is split into a half that such errors move and one that most of them do not. Pure functions of
arrays.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from truthgym.scorers.statistics.instrumented_slope import (
    ROUNDING_ERROR,
    Bools,
    Codes,
    Floats,
    Slope,
    cross_epoch_slope,
)
from truthgym.scorers.statistics.interval import Estimate, mean_estimate, quantile
from truthgym.scorers.statistics.martingale_score import brier_gain
from truthgym.scorers.statistics.proper_scores import row_mean, share_true

MARGIN = 0.1
"""A fault is a slope beyond it. For "rational", the 90 % intervals of the slopes lie inside it."""
ERROR_MARGIN = 0.03
"""Root mean squared distance from exact posteriors below which a reasoner is rational."""
TRIMMED = 0.25
"""Share of the reports, those that add most to a fault, without which at least half of its slope must still show."""
NOISE_MARGIN = 0.15
"""With outcomes alone, over-correction is shown to be beyond it once the posteriors are recalibrated: posteriors of
whose variance this share has nothing to do with the evidence, such as reports drawn to a number, have that slope."""
NOISE_LEVEL = 0.8
"""Level of the interval of that slope: a one-sided test at 10 %."""
SHAPE_MARGIN = 0.04
"""For "rational", the mean of the updates and of the posterior errors, and their second- and third-order dependence on
the prior, in root mean square, lie inside it."""
WEIGHT_MARGIN = 0.25
"""For "rational", `Reports.underreaction` lies inside it: the evidence has 0.8 to 1.33 times its weight."""
RATIONAL_LEVEL = 0.9
"""Level of the intervals that must lie inside the margin: two one-sided tests at 5 %."""

ENTRENCHED, RATIONAL, OVER_CORRECTING = 1.0, 0.0, -1.0
VERDICTS = {
    ENTRENCHED: "entrenched: its beliefs move on in the direction in which they already lean, further than they should",
    RATIONAL: f"rational: the slopes of its updates and of its errors are shown to lie between -{MARGIN:g} and "
    f"{MARGIN:g}, the evidence has about its weight, and its Brier score improves. Faults of different questions that "
    "cancel show only with exact posteriors",
    OVER_CORRECTING: "over-correcting: its beliefs move back from where they lean, further than they should",
}
"""Legend of the metric `verdict`. NaN is "cannot tell"."""
CANNOT_TELL = {
    "unidentified": "the martingale score is not identified",
    "no_truth": "the truth is not known, so an error of the prior reports cannot be told from a fault",
    "selected": "the questions were chosen by their outcomes, so good forecasts are wrong more often than they say",
    "prior_reports": "the stated priors are not calibrated: the model does not say what it believes, or believes what "
    "is wrong",
    "posterior_reports": "the result rests on posteriors of exactly 50, on the ends of their range, on outliers among "
    "the epochs, or on posteriors that are all too moderate or all too extreme",
    "minority": "the result rests on a minority of questions: without the quarter that adds most, less than half of "
    "the slope is left, or none that differs from 0",
    "report_errors": "posteriors that are misreported in every epoch can look like this: with exact posteriors, "
    "questions with the same posterior must show that the errors depend on the prior; with outcomes alone, "
    "posteriors that are drawn to anything but the evidence have such a slope",
    "posteriors": "the posteriors may not be calibrated, though the updates do not depend on the priors: the evidence "
    "may have too much or too little weight, or faults of different questions cancel",
    "nothing_learned": "the Brier score is not shown to improve: a reasoner that never moves has a slope of 0 too",
    "drift": "the mean of the updates or of the posterior errors is not shown to lie between "
    f"-{SHAPE_MARGIN:g} and {SHAPE_MARGIN:g}: a reasoner that always moves to one side has a slope of 0 too",
    "curve": "the updates or the posterior errors may depend on the square or the cube of the prior: a reasoner that "
    "moves up where it is sure and down where it is not has a slope of 0 too",
    "weight": "the evidence is not shown to have about its weight (slope of truth - posterior on the update between "
    f"-{WEIGHT_MARGIN:g} and {WEIGHT_MARGIN:g})",
    "imprecise": f"there are too few questions to tell whether the martingale score lies between -{MARGIN:g} and "
    f"{MARGIN:g}, or beyond",
    "imprecise_posteriors": "there are too few questions, or too few exact posteriors, to tell whether "
    f"posterior_inefficiency, the half of the score that a fault moves, lies between -{MARGIN:g} and {MARGIN:g}, or "
    "beyond",
}
"""Why there is no verdict, by the reason of `verdict`."""
HALVES = ("martingale_score", "posterior_inefficiency")
OPEN = {
    "prior_reports": ("prior_miscalibration_complete",),
    "posterior_reports": ("posterior_inefficiency", "posterior_miscalibration"),
    "minority": ("posterior_inefficiency",),
    "report_errors": ("posterior_inefficiency",),
    "posteriors": ("posterior_miscalibration", "posterior_error"),
    "nothing_learned": ("brier_gain_exact",),
    "drift": ("update_mean", "error_mean"),
    "curve": ("update_square", "update_cube", "error_square", "error_cube"),
    "weight": ("underreaction",),
    "imprecise": ("martingale_score",),
    "imprecise_posteriors": HALVES,
}
"""The figures on which each of these reasons rests, which are printed with it. With a verdict `HALVES` are."""


@dataclass(frozen=True)
class Reports:
    """The reports of one elicitor, and what is known of the questions. Arrays of reports are questions x epochs."""

    prior: Floats
    """Beliefs in [0, 1] before. NaN if missing."""
    posterior: Floats
    instrument: Floats
    """The prior of another elicitor or in another wording; otherwise `prior`."""
    outcome: Floats
    """1 or 0 for each question, NaN if unknown."""
    exact: Floats
    """The exact posterior of each question, NaN if unknown."""
    cluster: Codes
    group: Codes
    """Group number of each question; each group has its own intercept."""

    def slope(self, change: Floats, level: Floats | None = None, instrument: Floats | None = None) -> Slope:
        """Slope of a change on the prior, or on another level, by instrument."""
        x, z = self.prior if level is None else level, self.instrument if instrument is None else instrument
        return cross_epoch_slope(change[:, :, None], x[:, :, None], z, self.cluster, self.group)

    @property
    def truth(self) -> Floats:
        """The exact posterior where it is known, else the outcome: the same expectation with far more noise."""
        return np.where(np.isfinite(self.exact), self.exact, self.outcome)

    @property
    def miscalibration_complete(self) -> Slope:
        """See `Halves`, as for the following ones."""
        complete = np.where(np.isfinite(self.posterior), self.prior, np.nan)
        return self.slope(self.truth[:, None] - complete, complete)

    @property
    def inefficiency(self) -> Slope:
        return self.slope(self.posterior - self.truth[:, None])

    @property
    def given_exact(self) -> tuple[Floats, Floats, Floats]:
        """Posterior error, prior and instrument, as residuals of a cubic in the exact posterior."""
        errors = self.posterior - self.exact[:, None]
        error, prior, instrument = (
            _without_cubic(values, self.exact) for values in (errors, self.prior, self.instrument)
        )
        return error, prior, instrument

    @property
    def inefficiency_given_exact(self) -> Slope:
        """Inefficiency among questions with the same exact posterior: 0 for errors that arise in the report alone."""
        return self.slope(*self.given_exact)

    @property
    def gain(self) -> Estimate:
        """Brier gain, against the exact posterior where it is known."""
        return mean_estimate(brier_gain(self.prior, self.posterior, self.truth), self.cluster.tolist())

    @property
    def underreaction(self) -> Slope:
        """Slope of (truth - posterior) on the update: 0 if the evidence has its weight, above 0 if too little."""
        update = self.posterior - self.prior
        return self.slope(self.truth[:, None] - self.posterior, update, update)

    @property
    def posterior_miscalibration(self) -> Slope:
        return self.slope(self.truth[:, None] - self.posterior, self.posterior, self.posterior)


@dataclass(frozen=True)
class Halves:
    r"""The martingale score as a sum: of complete cases, `miscalibration_complete` plus `inefficiency`.

    $$\hat\beta(b_1-b_0)=\hat\beta(y-b_0)+\hat\beta(b_1-y)$$

    Each is a slope on the prior, instrumented by that of another epoch, with y the truth. By itself, neither tells an
    error of the reports from a fault. Nordhaus (1987). Review of Economics and Statistics 69. Augenblick and Rabin
    (2021). QJE 136.
    """

    miscalibration: Slope
    """Prior miscalibration, over all readable priors: 0 if they are right on average, above 0 if too moderate, below 0
    if too extreme. A wrong belief moves it, and so does a wrong report of a right one."""
    miscalibration_complete: Slope
    """The same over the reports whose posterior is readable."""
    inefficiency: Slope
    """Posterior inefficiency: 0 for a reasoner whose posterior errors cannot be predicted from its prior, whatever the
    errors of its prior reports, if the error of its posterior report has mean zero given the prior report. Above 0, the
    posterior is too far on the side of the prior."""
    posterior_miscalibration: Slope
    """Slope of the truth minus the posterior on the posterior, instrumented by the posterior of another epoch: 0 if the
    posteriors are right on average, above 0 if too moderate, below 0 if too extreme."""

    @property
    def selective_refusal(self) -> tuple[float, float]:
        """Miscalibration of complete cases minus that of all, and its standard error: what refusals did."""
        every, complete = self.miscalibration, self.miscalibration_complete
        if not every.influence.size or every.influence.size != complete.influence.size:
            return np.nan, np.nan
        error = float(np.sqrt(np.sum((complete.influence - every.influence) ** 2)))
        return complete.estimate - every.estimate, error


class Verdict(NamedTuple):
    """What a run shows about updating: a key of `VERDICTS`; or NaN and a key of `CANNOT_TELL`."""

    code: float
    reason: str | None = None


def halves(reports: Reports) -> Halves:
    """Split the martingale score into prior miscalibration and posterior inefficiency."""
    return Halves(
        reports.slope(reports.truth[:, None] - reports.prior),
        reports.miscalibration_complete,
        reports.inefficiency,
        reports.posterior_miscalibration,
    )


def verdict(score: Slope, reports: Reports, selected: bool = False) -> Verdict:
    """Name a reasoner's fault, say that it is rational, or say that the run cannot tell.

    A fault is named if the score and posterior inefficiency both have its sign, lie beyond `MARGIN`, and have 95 %
    intervals without 0, and posterior inefficiency

    - does so too without the posteriors of exactly 50, with the ends of the range of posteriors moved to 0 and 1, and
      with the median of the epochs in place of each;
    - keeps its sign, with an interval without 0, when the posteriors are recalibrated linearly: posteriors that are all
      too moderate or all too extreme are not taken for a fault of updating;
    - keeps it, and half of its size, without the share `TRIMMED` of the reports that add most to it (where exact
      posteriors are known, or among questions with the same): an error that repeats in all epochs of a minority of
      questions is not taken for a fault either;
    - is not what an error of the report makes. That error depends on what would be reported, and a fault on the prior
      too: where exact posteriors are known, the slope among questions with the same exact posterior is a fault. With
      outcomes alone a posterior with noise of its own looks over-correcting: see `NOISE_MARGIN`.

    "Rational" is said if the 90 % intervals of both, and of posterior miscalibration, lie inside `MARGIN`, those of
    `terms` inside `SHAPE_MARGIN` and that of `Reports.underreaction` inside `WEIGHT_MARGIN`, the Brier gain's 95 %
    interval above 0, and that of `posterior_error` below the square of `ERROR_MARGIN`, where exact posteriors are
    known. `selected` is whether the outcomes influenced which questions were asked.
    """
    if np.isnan(score.estimate):
        return Verdict(np.nan, "unidentified")
    if selected:
        return Verdict(np.nan, "selected")
    inefficiency = reports.inefficiency
    if np.isnan(inefficiency.stderr):
        return Verdict(np.nan, "no_truth")
    for sign in (1, -1):
        if _fault(score, sign) and _fault(inefficiency, sign):
            doubt = _doubt(reports, sign)
            return Verdict(np.nan, doubt) if doubt else Verdict(float(sign))
    if not (_inside(score) and _inside(inefficiency)):
        return Verdict(np.nan, _open_half(score, reports.miscalibration_complete))
    if not reports.gain.lower > 0:
        return Verdict(np.nan, "nothing_learned")
    for name, term in terms(reports).items():
        if not np.isnan(term.estimate) and not _inside(term, SHAPE_MARGIN):
            return Verdict(np.nan, "drift" if name.endswith("mean") else "curve")
    if not _inside(reports.underreaction, WEIGHT_MARGIN):
        return Verdict(np.nan, "weight")
    if posterior_error(reports).upper > ERROR_MARGIN**2 or not _inside(reports.posterior_miscalibration):
        return Verdict(np.nan, "posteriors")
    return Verdict(RATIONAL)


def _open_half(score: Slope, prior: Slope) -> str:
    """Which of the two slopes is neither shown to be a fault nor to be none: a key of `CANNOT_TELL`."""
    if prior.sign:
        return "prior_reports"
    decided = _inside(score) or _fault(score, 1) or _fault(score, -1)
    return "imprecise_posteriors" if decided else "imprecise"


def _doubt(reports: Reports, sign: int) -> str | None:
    """Why the fault that both slopes show may be none: a key of `CANNOT_TELL`."""
    recalibrated = _recalibrated(reports).inefficiency
    if not all(_fault(other.inefficiency, sign) for other in _other_readings(reports)) or recalibrated.sign != sign:
        return "posterior_reports"
    minority = _carried(reports.inefficiency, _trimmed(reports, sign), sign)
    if np.isfinite(reports.exact[np.isfinite(reports.truth)]).all():
        error, prior, instrument = reports.given_exact
        whole = reports.inefficiency_given_exact
        if not _fault(whole, sign):
            return "minority" if minority else "report_errors"
        kept = _without_most(sign * prior * error, instrument)
        return "minority" if minority and _carried(whole, reports.slope(error, prior, kept), sign) else None
    if minority:
        return "minority"
    reach = _half_width(recalibrated, NOISE_LEVEL)
    return None if sign > 0 or recalibrated.estimate + reach < -NOISE_MARGIN else "report_errors"


def _trimmed(reports: Reports, sign: int) -> Slope:
    """Inefficiency without the share `TRIMMED` of the reports that add most to a fault of this sign."""
    expected = np.where(np.isfinite(reports.exact)[:, None], reports.exact[:, None], reports.prior)
    added = sign * (reports.prior - np.nanmean(reports.prior)) * (reports.posterior - expected)
    return replace(reports, instrument=_without_most(added, reports.instrument)).inefficiency


def _without_most(added: Floats, instrument: Floats) -> Floats:
    """The instrument without the share `TRIMMED` of the reports that add most."""
    return np.where(added < np.nanquantile(added, 1 - TRIMMED), instrument, np.nan)


def _carried(whole: Slope, trimmed: Slope, sign: int) -> bool:
    """Whether a minority carries a fault: without it, less than half of the slope is left, or none beyond doubt."""
    return trimmed.sign != sign or sign * (trimmed.estimate - whole.estimate / 2) < 0


def _without_cubic(values: Floats, level: Floats) -> Floats:
    """Residuals of each epoch's values after a cubic in the level."""
    rest = np.full(values.shape, np.nan)
    for epoch, column in enumerate(values.T):
        kept = np.isfinite(column + level)
        powers = np.vander(2 * level[kept] - 1, 4)
        rest[kept, epoch] = column[kept] - powers @ np.linalg.lstsq(powers, column[kept], rcond=None)[0]
    return rest


def terms(reports: Reports) -> dict[str, Estimate]:
    """Mean of the updates and of the posterior errors, and their dependence on the prior of second and third order."""
    level = reports.instrument
    read = np.isfinite(level)
    powers = np.vander(2 * level[read] - 1, 4, increasing=True)
    columns, size = np.linalg.qr(powers) if len(powers) >= 4 else (np.zeros((len(powers), 4)), np.zeros((4, 4)))
    scale = np.diag(size) / np.sqrt(max(len(powers), 1))
    # Few different priors have no such term: a line through two of them is exact, a parabola through three.
    defined = np.abs(scale) > ROUNDING_ERROR
    orthonormal = columns * np.where(defined, np.sign(scale) * np.sqrt(len(powers)), np.nan)
    estimates = {}
    truth = reports.truth[:, None]
    for what, change in (("update", reports.posterior - reports.prior), ("error", reports.posterior - truth)):
        read_change = np.isfinite(change)
        filled = np.where(read_change, change, 0)
        others = read_change.sum(axis=1)[:, None] - read_change
        mean = (filled.sum(axis=1)[:, None] - filled) / np.maximum(others, 1)
        for name, order in (("mean", 0), ("square", 2), ("cube", 3)):
            term = np.full(level.shape, np.nan)
            term[read] = orthonormal[:, order] if order else 1
            product = np.where(others > 0, term * mean, np.nan)
            estimates[f"{what}_{name}"] = mean_estimate(row_mean(product), reports.cluster.tolist())
    return estimates


def posterior_error(reports: Reports) -> Estimate:
    """Mean squared distance of the posteriors from the exact ones without noise, in [0, 1]; lower is better.

    The product of the errors of two epochs, whose noise is independent. Faults of different questions that cancel in
    the slope show here. NaN without exact posteriors.
    """
    error = reports.posterior - reports.exact[:, None]
    read = np.isfinite(error)
    sums, squares = (np.where(read, values, 0).sum(axis=1) for values in (error, error**2))
    pairs = read.sum(axis=1) * (read.sum(axis=1) - 1)
    product = np.where(pairs > 0, (sums**2 - squares) / np.maximum(pairs, 1), np.nan)
    return mean_estimate(product, reports.cluster.tolist())


def _recalibrated(reports: Reports) -> Reports:
    """The posteriors stretched by their own miscalibration, so that they are linearly calibrated."""
    posterior = reports.posterior
    stretch = 1 + reports.posterior_miscalibration.estimate
    return replace(reports, posterior=np.nanmean(posterior) + stretch * (posterior - np.nanmean(posterior)))


def _other_readings(reports: Reports) -> Iterator[Reports]:
    """Without posteriors of exactly 50, with their extremes moved to 0 and 1, and with the median of the epochs."""
    posterior = reports.posterior
    readable = np.isfinite(posterior)
    least, most = (float(end(posterior[readable])) for end in (np.min, np.max))
    yield replace(reports, posterior=np.where(posterior == 0.5, np.nan, posterior))
    yield replace(reports, posterior=np.where(posterior <= least, 0.0, np.where(posterior >= most, 1.0, posterior)))
    some = readable.any(axis=1)
    median = np.full(posterior.shape, np.nan)
    median[some] = np.nanmedian(posterior[some], axis=1)[:, None]
    yield replace(reports, posterior=np.where(readable, median, np.nan))


def _fault(slope: Slope, sign: int) -> bool:
    return bool(sign * slope.estimate > MARGIN and (slope.lower > 0 if sign > 0 else slope.upper < 0))


def _inside(estimate: Estimate, margin: float = MARGIN) -> bool:
    half = _half_width(estimate, RATIONAL_LEVEL)
    return bool(estimate.estimate - half > -margin and estimate.estimate + half < margin)


def _half_width(estimate: Estimate, level: float) -> float:
    return quantile((1 + level) / 2, estimate.effective_clusters - 1) * estimate.stderr


MAX_FIFTIES = 0.05
MAX_FIFTIES_RATIO = 3.0
"""Reports of 50 per report of each number near it, above which some of them may be a refusal to think."""
MAX_TENS = 0.6
MAX_FIVES = 0.9
MIN_READ = 0.9
MAX_SAME = 0.9
MAX_REFUSAL_EFFECT = 0.03
REFUSAL_ERRORS = 3.0
MIN_REPORTS = 30

FLAGS = {
    "coarse": "most priors or posteriors are multiples of 10, or nearly all of 5. Wide steps move the score",
    "fifties": f"more than {MAX_FIFTIES:.0%} of the priors or posteriors are exactly 50, and far fewer are near it. "
    "Such priors raise the score, such posteriors lower it",
    "refusals": f"fewer than {MIN_READ:.0%} of the priors or of the posteriors could be read",
    "selective_refusals": "the questions with a readable posterior have other priors than all questions: the unread "
    "posteriors are no random selection, which can move the score",
    "noiseless": f"in at least {MAX_SAME:.0%} of the questions all epochs gave the same prior: the model answers "
    "without noise, or epochs shared replies. The interval reflects the sampling of questions only",
}
"""What is wrong with the reports, by the name of the figure `flag_...` that is 1."""


def report_figures(
    prior: Floats,
    posterior: Floats,
    refusal_effect: tuple[float, float],
    repaired: Bools | None = None,
    has_score: Bools | None = None,
) -> dict[str, float]:
    """Statistics of the reports, and `flag_NAME` = 1 for each of `FLAGS` that they raise.

    What was read only after a repair (`repaired`: of prior and posterior, along the last axis) counts as unread, and a
    sample without a score (`has_score`) failed, which is no refusal.
    """
    before, after = (np.round(100 * beliefs[np.isfinite(beliefs)], 6) for beliefs in (prior, posterior))
    read = np.isfinite(prior)

    def share_read(readable: Bools, end: int) -> float:
        at_first = readable if repaired is None else readable & ~repaired[..., end]
        return share_true(at_first if has_score is None else at_first[has_score])

    spread = prior.max(axis=1, where=read, initial=0) - prior.min(axis=1, where=read, initial=1)
    figures = {
        "share_fifties": share_true(before == 50),
        "share_fifties_posterior": share_true(after == 50),
        "share_tens": share_true(_between_ends(before) % 10 == 0),
        "share_fives": share_true(_between_ends(before) % 5 == 0),
        "distinct_priors": float(np.unique(before).size),
        "read_priors": share_read(read, 0),
        "read_posteriors": share_read(np.isfinite(posterior), 1),
        "same_priors": share_true(spread[read.sum(axis=1) > 1] < 1e-6),
        "selective_refusal": refusal_effect[0],
    }
    effect, error = refusal_effect
    raised = {
        "fifties": too_many_fifties(before) or too_many_fifties(after),
        "coarse": coarse(before) or coarse(after),
        "refusals": min(figures["read_priors"], figures["read_posteriors"]) < MIN_READ,
        "selective_refusals": abs(effect) > max(MAX_REFUSAL_EFFECT, REFUSAL_ERRORS * error),
        "noiseless": figures["same_priors"] >= MAX_SAME,
    }
    return figures | {f"flag_{name}": 1.0 for name in FLAGS if raised[name]}


def _between_ends(percents: Floats) -> Floats:
    return percents[(percents > 0) & (percents < 100)]


def too_many_fifties(percents: Floats) -> bool:
    """Whether exactly 50 is reported too often, as `FLAGS` says. Never of fewer than 30 reports."""
    # Of a model that uses only multiples of 5 or 10, the neighbours of 50 are 45 and 55, or 40 and 60.
    near = (range(45, 56), (45, 50, 55), (40, 50, 60))
    count = np.sum(percents == 50)
    usual = max((np.isin(percents, values).sum() - count) / (len(values) - 1) for values in near)
    return bool(percents.size >= MIN_REPORTS and count > max(MAX_FIFTIES * percents.size, MAX_FIFTIES_RATIO * usual))


def coarse(percents: Floats) -> bool:
    """Whether the reports are multiples of 10 or 5, as `FLAGS` says. Never of fewer than 30 reports but 0 and 100.

    0 and 100 are what beliefs near them are rounded to, also by a reporter of whole percents.
    """
    percents = _between_ends(percents)
    tens, fives = share_true(percents % 10 == 0), share_true(percents % 5 == 0)
    return percents.size >= MIN_REPORTS and (tens > MAX_TENS or fives > MAX_FIVES)

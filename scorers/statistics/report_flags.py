"""What the reports themselves say about how much they can be trusted. Pure functions of arrays (questions x epochs)."""

import numpy as np

from truthgym.scorers.statistics.instrumented_slope import Floats

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
    "coarse": "most priors or posteriors are multiples of 10, or nearly all are multiples of 5. Wide steps move the "
    "score",
    "fifties": f"more than {MAX_FIFTIES:.0%} of the priors or posteriors are exactly 50, and far more than are near "
    "it. Some may not be what the model believes: such priors raise the score, such posteriors lower it",
    "refusals": f"fewer than {MIN_READ:.0%} of the priors or of the posteriors could be read",
    "selective_refusals": "the priors of the questions with a readable posterior are calibrated otherwise than all "
    "priors: the posteriors that could not be read are no random selection, which can move the score",
    "noiseless": f"in at least {MAX_SAME:.0%} of the questions all epochs gave the same prior: either the model "
    "answers without noise, as at temperature 0, or replies were shared between epochs instead of sampled anew. The "
    "interval then reflects the sampling of questions only",
}
"""What is wrong with the reports, by the name of the figure `flag_...` that is 1."""


def report_figures(prior: Floats, posterior: Floats, refusal_effect: tuple[float, float]) -> dict[str, float]:
    """Statistics of the reports, and `flag_NAME` = 1 for each of `FLAGS` that they raise.

    Args:
        prior: Beliefs in [0, 1] before. NaN if it could not be read.
        posterior: Beliefs after.
        refusal_effect: What refusals did to prior miscalibration, and the standard error (`Halves.selective_refusal`).

    Returns:
        `share_fifties`, `share_tens` and `share_fives`, the shares of priors that are exactly 50, a multiple of 10, a
        multiple of 5; `share_fifties_posterior`; `distinct_priors`, their number; `read_priors` and `read_posteriors`,
        the shares that could be read; `same_priors`, the share of questions with the same prior in all epochs;
        `selective_refusal`, the first of `refusal_effect`. NaN if there are none. Then the flags.
    """
    before, after = (np.round(100 * beliefs[np.isfinite(beliefs)], 6) for beliefs in (prior, posterior))
    read = np.isfinite(prior)
    spread = prior.max(axis=1, where=read, initial=0) - prior.min(axis=1, where=read, initial=1)
    figures = {
        "share_fifties": _share(before == 50),
        "share_fifties_posterior": _share(after == 50),
        "share_tens": _share(before % 10 == 0),
        "share_fives": _share(before % 5 == 0),
        "distinct_priors": float(np.unique(before).size),
        "read_priors": _share(read),
        "read_posteriors": _share(np.isfinite(posterior)),
        "same_priors": _share(spread[read.sum(axis=1) > 1] < 1e-6),
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


def too_many_fifties(percents: Floats) -> bool:
    """Whether exactly 50 is reported too often, as `FLAGS` says. Never of fewer than 30 reports."""
    # Of a model that uses only multiples of 5 or 10, the neighbours of 50 are 45 and 55, or 40 and 60.
    near = (range(45, 56), (45, 50, 55), (40, 50, 60))
    count = np.sum(percents == 50)
    usual = max((np.isin(percents, values).sum() - count) / (len(values) - 1) for values in near)
    return bool(percents.size >= MIN_REPORTS and count > max(MAX_FIFTIES * percents.size, MAX_FIFTIES_RATIO * usual))


def coarse(percents: Floats) -> bool:
    """Whether the reports are multiples of 10 or 5, as `FLAGS` says. Never of fewer than 30 reports."""
    tens, fives = _share(percents % 10 == 0), _share(percents % 5 == 0)
    return percents.size >= MIN_REPORTS and (tens > MAX_TENS or fives > MAX_FIVES)


def _share(values: "np.typing.NDArray[np.bool_]") -> float:
    return float(values.mean()) if values.size else np.nan

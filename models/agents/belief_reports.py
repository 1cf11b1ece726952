"""Numbers that agents report: the belief with the planted noise. Pure functions of their arguments."""

import numpy as np

from truthgym.models.agents.policies import Floats, Parameters, uniform

Numbers = Floats | float

MAX_VARIANCE_SHARE = 0.9
"""Upper bound on the variance of a report around p, as a share of p(1 - p), the maximum variance of any distribution on
[0, 1] with mean p."""


MIN_NOISE = 1e-5
"""Smaller noise counts as none: quantiles of so narrow a distribution cannot be computed."""


def report(
    belief: float, parameters: Parameters, name: str, key: str, epoch: int, form: str, stated: int, pieces: int
) -> float:
    """The probability that an agent reports for a belief, before rounding to the requested form.

    Args:
        belief: Its belief, in [0, 1].
        parameters: `noise`, `shared` and `seed` are used.
        name: The agent.
        key: The question.
        epoch: The epoch.
        form: The requested form ("percent" or "marker"). Each form has noise of its own.
        stated: Number of beliefs stated in words so far.
        pieces: Number of pieces of evidence or reasoning turns so far.
    """
    if parameters.noise < MIN_NOISE:
        return belief
    own = uniform(parameters.seed, "report", name, key, epoch, form, stated, pieces)
    first = uniform(parameters.seed, "report", name, key, epoch, *FIRST_REPORT) if parameters.shared else own
    return float(noisy_reports(belief, own, first, parameters, (form, stated, pieces) == FIRST_REPORT))


FIRST_REPORT = ("percent", 0, 0)
"""Form, `stated` and `pieces` of the report whose error later ones share: in percent, before any statement or
evidence."""


def noisy_reports(
    belief: Numbers, own: Numbers, first: Numbers, parameters: Parameters, is_first: bool = False
) -> Floats:
    r"""Noisy reports of many beliefs, computed from uniform random numbers.

    Noise preserves the mean: a report of p is Beta distributed with mean p and variance
    $\min(\sigma^2, 0.9\,p(1-p))$. (A clipped normal would pull reports near 0 and 1 towards the middle, and bias every
    measure.) A Gaussian copula correlates the errors: $z=\rho\,z_{first}+\sqrt{1-\rho^2}\,z_{own}$, where $\rho$ is
    `shared`.

    Args:
        belief: Probabilities.
        own: Uniform random number in (0, 1) for each report.
        first: The one of the first report on the same question and epoch.
        parameters: `noise` and `shared`.
        is_first: Whether these are the first reports.
    """
    from scipy.special import ndtr, ndtri

    if is_first or parameters.shared == 0:
        return noisy(belief, parameters.noise, own)
    z = parameters.shared * ndtri(first) + np.sqrt(1 - parameters.shared**2) * ndtri(own)
    return noisy(belief, parameters.noise, ndtr(z))


def noisy(belief: Numbers, noise: float, place: Numbers) -> Floats:
    """Quantiles, at levels `place` in (0, 1), of the distributions of reports of beliefs."""
    from scipy.special import betaincinv

    p = np.asarray(belief, dtype=float)
    max_variance = p * (1 - p)
    if noise < MIN_NOISE:
        return p
    uncertain = max_variance > 0
    mean = np.where(uncertain, p, 0.5)
    variance = np.where(uncertain, np.minimum(noise**2, MAX_VARIANCE_SHARE * max_variance), 0.1)
    weight = mean * (1 - mean) / variance - 1
    quantiles: Floats = np.where(uncertain, betaincinv(mean * weight, (1 - mean) * weight, place), p)
    return quantiles


def percent(probability: Numbers) -> Floats:
    """A probability rounded to whole percent, the form that a probe asks for, on the scale from 0 to 1."""
    rounded: Floats = np.round(100 * np.asarray(probability, dtype=float)) / 100
    return rounded

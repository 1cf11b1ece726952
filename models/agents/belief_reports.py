"""What an agent says when asked for a number: its belief, with the planted noise. Pure functions of their arguments."""

import numpy as np

from truthgym.models.agents.policies import Floats, Parameters, uniform

Numbers = Floats | float

MAX_VARIANCE_SHARE = 0.9
"""Share of p(1 - p), the most that any variance can be, that the variance of a report about p can reach."""


MIN_NOISE = 1e-5
"""Noise below it is none: quantiles of so narrow a distribution cannot be computed."""


def report(
    belief: float, parameters: Parameters, name: str, key: str, epoch: int, form: str, stated: int, pieces: int
) -> float:
    """The probability that one agent reports of one belief, before it is rounded to the form that was asked for.

    Args:
        belief: What it believes, in [0, 1].
        parameters: `noise`, `shared` and `seed` are used.
        name: The agent.
        key: The question.
        epoch: The epoch.
        form: The form asked for. Each has noise of its own.
        stated: Beliefs stated in words so far.
        pieces: Pieces of evidence seen, or thoughts had, so far.
    """
    if parameters.noise < MIN_NOISE:
        return belief
    own = uniform(parameters.seed, "report", name, key, epoch, form, stated, pieces)
    first = uniform(parameters.seed, "report", name, key, epoch, *FIRST_REPORT) if parameters.shared else own
    return float(noisy_reports(belief, own, first, parameters, (form, stated, pieces) == FIRST_REPORT))


FIRST_REPORT = ("percent", 0, 0)
"""The report whose error others share: in percent, before anything was said or learned."""


def noisy_reports(
    belief: Numbers, own: Numbers, first: Numbers, parameters: Parameters, is_first: bool = False
) -> Floats:
    r"""Reports of many beliefs, from uniform numbers of their own.

    Noise keeps the mean: a report about p is Beta distributed about p with variance $\min(\sigma^2, 0.9\,p(1-p))$. (A
    clipped normal would pull reports near 0 and 1 to the middle, and with them every measure.) Errors are tied by a
    Gaussian copula: $z=\rho\,z_{first}+\sqrt{1-\rho^2}\,z_{own}$, with $\rho$ the share planted.

    Args:
        belief: Probabilities.
        own: The number in (0, 1) drawn for each report.
        first: The one drawn for the first report of the same question and epoch.
        parameters: `noise` and `shared`.
        is_first: Whether these are the first reports.
    """
    from scipy.special import ndtr, ndtri

    if is_first or parameters.shared == 0:
        return noisy(belief, parameters.noise, own)
    tied = parameters.shared * ndtri(first) + np.sqrt(1 - parameters.shared**2) * ndtri(own)
    return noisy(belief, parameters.noise, ndtr(tied))


def noisy(belief: Numbers, noise: float, place: Numbers) -> Floats:
    """Quantiles of reports about beliefs, at places in (0, 1)."""
    from scipy.special import betaincinv

    p = np.asarray(belief, dtype=float)
    spread = p * (1 - p)
    if noise < MIN_NOISE:
        return p
    doubt = spread > 0
    held = np.where(doubt, p, 0.5)
    variance = np.where(doubt, np.minimum(noise**2, MAX_VARIANCE_SHARE * spread), 0.1)
    weight = held * (1 - held) / variance - 1
    drawn: Floats = np.where(doubt, betaincinv(held * weight, (1 - held) * weight, place), p)
    return drawn


def percent(probability: Numbers) -> Floats:
    """A probability as whole percent, which is what a probe asks for, back on the scale from 0 to 1."""
    rounded: Floats = np.round(100 * np.asarray(probability, dtype=float)) / 100
    return rounded

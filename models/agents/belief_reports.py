"""Numbers that agents report: the belief with the planted errors. Pure functions of their arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np

from truthgym.models.agents.policies import Floats, Parameters, uniform

Numbers = Floats | float

MAX_VARIANCE_SHARE = 0.9
"""Upper bound on the variance of a report around p, as a share of p(1 - p), the maximum variance of any distribution on
[0, 1] with mean p."""


MIN_NOISE = 1e-5
"""Smaller noise counts as none: quantiles of so narrow a distribution cannot be computed."""


Place = tuple[str, int, int]
"""A report's form ("percent" or "marker"), the number of beliefs stated in words so far, and the number of pieces of
evidence or reasoning turns so far. Each place has errors of its own."""
FIRST_REPORT = ("percent", 0, 0)
"""Place of the report whose error later ones share: in percent, before any statement or evidence."""
PER_QUESTION = frozenset({"item", "wording"})
"""Errors that are the same in all epochs."""
Draw = Callable[..., Any]
"""Draws a uniform random number in (0, 1) for each report, for an error's name and the report's place or wording. For
"report", the `noise`, it may give a generator, which is faster."""


def report(
    belief: float,
    parameters: Parameters,
    name: str,
    key: str,
    epoch: int,
    form: str,
    stated: int,
    pieces: int,
    prior: float | None = None,
    wording: str = "",
) -> float:
    """The probability that an agent reports for a belief, before rounding to the requested form. NaN if it refuses."""

    def draw(what: str, *place: object) -> float:
        return uniform(parameters.seed, what, name, key, *(() if what in PER_QUESTION else (epoch,)), *place)

    first = belief if prior is None else reports(prior, FIRST_REPORT, parameters, draw, epoch, wording)
    return float(reports(belief, (form, stated, pieces), parameters, draw, epoch, wording, first))


def reports(
    belief: Numbers,
    place: Place,
    parameters: Parameters,
    draw: Draw,
    epoch: Numbers,
    wording: str = "",
    first: Numbers = np.nan,
) -> Floats:
    r"""Reports of many beliefs, with all errors.

    They act in this order, each unless its parameter is 0:

    1. `item` and, on the prior, `wording` replace the belief by a draw of `noisy` that all epochs share.
    2. `drift` adds $d\,(e-1)$ in epoch e. The result is clipped to [0, 1].
    3. `logit_noise` adds a normal error to the log-odds of the belief, which are first clipped to those of 0.005 and
       0.995.
    4. `noise`: see `noisy_reports`.
    5. `guess` replaces a share of the numbers by uniform random numbers, then `lazy` a share by one half.
    6. `hedge` moves each number towards one half, `coarse` to the nearest level $0.5+ks$ in [0, 1], then `clip` into
       $[c,1-c]$.
    7. After evidence: `copies` and `refuses` act on requests for a percentage; `min_confidence` on all requests.
    """
    form, _, pieces = place
    stage = "posterior" if pieces else "prior"
    number = _with_errors_of_belief(belief, place, parameters, draw, epoch, wording)
    if parameters.stage in (stage, "both"):
        if parameters.guess:
            guessed = draw("guess", *place) < parameters.guess
            number = np.where(guessed, draw("guessed", *place), number)
        if parameters.lazy:
            number = np.where(draw("lazy", *place) < parameters.lazy, 0.5, number)
        if parameters.hedge:
            number = np.clip(0.5 + (1 - parameters.hedge) * (np.asarray(number) - 0.5), 0, 1)
        if parameters.coarse:
            number = nearest_level(number, parameters.coarse)
        number = np.clip(number, parameters.clip, 1 - parameters.clip)
    if pieces and form == "percent" and parameters.copies:
        number = np.where(draw("copies", *place) < parameters.copies, first, number)
    if pieces and form == "percent" and parameters.refuses:
        changed_side = (np.asarray(first) - 0.5) * (number - 0.5) < 0
        number = np.where(changed_side & (draw("refuses", *place) < parameters.refuses), np.nan, number)
    if pieces and parameters.min_confidence:
        number = np.where(np.abs(np.asarray(belief) - 0.5) < parameters.min_confidence, np.nan, number)
    return np.asarray(number, dtype=float)


ROUNDING_ERROR = 1e-9
LOGIT_BOUND = 0.005
"""Beliefs nearer to 0 or 1 are moved to this distance before an error in log-odds."""


def nearest_level(number: Numbers, step: float) -> Floats:
    """The nearest of the levels $0.5+ks$ in [0, 1], for a step s above 0."""
    most = np.floor(0.5 / step + ROUNDING_ERROR)
    return np.asarray(0.5 + step * np.clip(np.round((np.asarray(number) - 0.5) / step), -most, most))


def _with_errors_of_belief(
    belief: Numbers, place: Place, parameters: Parameters, draw: Draw, epoch: Numbers, wording: str
) -> Numbers:
    if parameters.item:
        belief = noisy(belief, parameters.item, draw("item"))
    form, _, pieces = place
    if parameters.wording and not pieces and form != "marker":
        belief = noisy(belief, parameters.wording, draw("wording", wording))
    if parameters.drift:
        belief = np.clip(belief + parameters.drift * (np.asarray(epoch) - 1), 0, 1)
    if parameters.logit_noise:
        from scipy.special import expit, logit, ndtri

        error = parameters.logit_noise * ndtri(draw("logit_noise", *place))
        belief = expit(logit(np.clip(belief, LOGIT_BOUND, 1 - LOGIT_BOUND)) + error)
    if parameters.noise < MIN_NOISE:
        return belief
    own = draw("report", *place)
    first = draw("report", *FIRST_REPORT) if parameters.shared else own
    return noisy_reports(belief, own, first, parameters, place == FIRST_REPORT)


def wording_of(request: str, *parts: str) -> str:
    """The words of a request for a belief without the question and the proposition (`parts`)."""
    for part in parts:
        request = request.replace(part, "")
    return " ".join(request.split())


def noisy_reports(
    belief: Numbers, own: Numbers | np.random.Generator, first: Numbers, parameters: Parameters, is_first: bool = False
) -> Floats:
    r"""Noisy reports of many beliefs, computed from uniform random numbers.

    Noise preserves the mean: a report of p is Beta distributed with mean p and variance
    $\min(\sigma^2, 0.9\,p(1-p))$. (A clipped normal would pull reports near 0 and 1 towards the middle, and bias every
    measure.) A Gaussian copula correlates the errors: $z=\rho\,z_{first}+\sqrt{1-\rho^2}\,z_{own}$, where $\rho$ is
    `shared`.
    """
    from scipy.special import ndtr, ndtri

    if is_first or parameters.shared == 0:
        return noisy(belief, parameters.noise, own)
    assert not isinstance(own, np.random.Generator)
    z = parameters.shared * ndtri(first) + np.sqrt(1 - parameters.shared**2) * ndtri(own)
    return noisy(belief, parameters.noise, ndtr(z))


def noisy(belief: Numbers, noise: float, place: Numbers | np.random.Generator) -> Floats:
    """Quantiles, at levels `place` in (0, 1), of the distributions of reports, or draws from them by a generator."""
    from scipy.special import betaincinv

    p = np.asarray(belief, dtype=float)
    max_variance = p * (1 - p)
    if noise < MIN_NOISE:
        return p
    uncertain = max_variance > 0
    mean = np.where(uncertain, p, 0.5)
    variance = np.where(uncertain, np.minimum(noise**2, MAX_VARIANCE_SHARE * max_variance), 0.1)
    weight = mean * (1 - mean) / variance - 1
    a, b = mean * weight, (1 - mean) * weight
    drawn = place.beta(a, b) if isinstance(place, np.random.Generator) else betaincinv(a, b, place)
    quantiles: Floats = np.where(uncertain, drawn, p)
    return quantiles


def percent(probability: Numbers) -> Floats:
    """A probability rounded to whole percent, the form that a probe asks for, on the scale from 0 to 1."""
    rounded: Floats = np.round(100 * np.asarray(probability, dtype=float)) / 100
    return rounded

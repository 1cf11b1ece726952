"""Do intervals of scores of beliefs hold where few questions end against the forecasts?

python -m studies.validity.brier docs/brier.md      (five minutes of one core)
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logit

from studies.study import Row, Study
from truthgym.analysis.tables.markdown import table
from truthgym.scorers.statistics.direction import CLIP
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.scorers.statistics.proper_scores import RULES, brier_score, row_mean, skill_score

Floats = NDArray[np.float64]
Forecasts = Callable[[np.random.Generator, int], tuple[Floats, Floats]]
"""Stated probabilities and true ones of so many questions."""
MANY = 400_000
"""Questions from which a truth is computed."""


def between(low: float, high: float, state: Callable[[Floats], Floats] = lambda q: q) -> Forecasts:
    """Truths spread evenly between two ends, and what is stated of them."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        q = rng.uniform(low, high, n)
        return np.clip(state(q), 0, 1), q

    return draw


def beta(a: float, state: Callable[[Floats], Floats] = lambda q: q) -> Forecasts:
    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        q = rng.beta(a, a, n)
        return state(q), q

    return draw


END = between(0.97, 0.999)
FORECASTERS: dict[str, tuple[Forecasts, int, tuple[int, ...]]] = {
    "97 to 99.9 %, calibrated": (END, 1, (30, 100, 300)),
    "the same, five questions an event": (END, 5, (100, 300)),
    "90 to 100 %, calibrated": (between(0.9, 1), 1, (30, 100)),
    "99 % of what happens in 90 %": (between(0.85, 0.95, lambda q: 0.99 + 0 * q), 1, (30, 100)),
    "0 to 100 %, most near 50 %, calibrated": (beta(2), 1, (30, 100)),
}
"""What is stated, questions an event (which resolve together), and how many questions are asked."""


def asked(draw: Forecasts, rng: np.random.Generator, n: int, size: int) -> tuple[Floats, Floats, list[int]]:
    """Beliefs in percent (those of two more epochs are noisy), the outcomes, and the events."""
    p, q = (np.repeat(each, size) for each in draw(rng, n // size))
    happened = np.repeat(rng.random(n // size), size) < q
    noisy = expit(logit(p.clip(CLIP, 1 - CLIP))[:, None] + rng.normal(0, 0.7, (n, 2)))
    outcome: Floats = happened.astype(np.float64)
    return np.column_stack([p, noisy]).round(2), outcome, (np.arange(n) // size).tolist()


def scored(p: Floats, y: Floats, events: list[int], base: float) -> dict[str, Estimate]:
    """The estimate of each figure."""
    found = {}
    for rule in ("brier_score", "accuracy"):
        beliefs = p if rule == "accuracy" else p[:, :1]
        values, other = (row_mean(RULES[rule](beliefs, outcome[:, None])) for outcome in (y, 1 - y))
        found[rule] = mean_estimate(values, events, (0.0, 1.0), other)
    s, r, t, u = (brier_score(b, outcome) for outcome in (y, 1 - y) for b in (p[:, 0], np.full(len(y), base)))
    return found | {"skill": skill_score(s, r, [str(event) for event in events], (t, u))}


def measure_misses(replications: int) -> pd.DataFrame:
    """Coverage and width of the intervals of each forecaster's figures."""
    rows: list[Row] = []
    for name, (draw, size, sizes) in FORECASTERS.items():
        p, y, _ = asked(draw, np.random.default_rng(0), MANY, size)
        base = float(y.mean())
        truth = {rule: float(row_mean(RULES[rule](p if rule == "accuracy" else p[:, :1], y[:, None])).mean())
                 for rule in ("brier_score", "accuracy")}  # fmt: skip
        truth["skill"] = 1 - truth["brier_score"] / float(brier_score(base, y).mean())
        for n in sizes:
            runs = [scored(*asked(draw, np.random.default_rng([n, k]), n, size), base) for k in range(replications)]
            row: Row = {"forecaster": name, "n": n, "truth": truth["brier_score"]}
            for figure in runs[0]:
                ends = np.array([(run[figure].lower, run[figure].upper) for run in runs])
                low, high = np.nan_to_num(ends, nan=-np.inf).T
                row[figure] = float(np.mean((low <= truth[figure]) & (truth[figure] <= high)))
                row[f"{figure} width"] = float(np.nanmean(ends[:, 1] - ends[:, 0]))
            rows.append(row)
    return pd.DataFrame(rows)


def texts(misses: pd.DataFrame) -> dict[str, str]:
    figures = ("brier_score", "skill", "accuracy")
    shown = misses.assign(
        truth=misses["truth"].map("{:.3f}".format), width=misses["brier_score width"].map("{:.3f}".format)
    )
    labels = {"brier_score": "`brier`", "truth": "true Brier"}
    return {"misses": table(shown, ("forecaster", "n", "truth", *figures, "width"), labels, 2)}


STUDY = Study(page="brier.md", sizes={"replications": 200}, measures={"misses": measure_misses}, texts=(texts,))


if __name__ == "__main__":
    STUDY.main(__doc__)

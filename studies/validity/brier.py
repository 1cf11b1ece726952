"""Do intervals of scores of beliefs hold where few questions end against the forecasts, and where events are shared?

python -m studies.validity.brier docs/brier.md      (five minutes of one core)

Forecasters whose true mean score is known, pairs of them, and calibrated forecasts of questions of one event.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logit

from studies.study import Row, Study
from truthgym.analysis.tables.markdown import table
from truthgym.scorers.statistics.calibration import expected_calibration_error, recalibration
from truthgym.scorers.statistics.direction import CLIP
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.scorers.statistics.paired import paired_difference
from truthgym.scorers.statistics.proper_scores import OTHER, RULES, brier_score, row_mean, skill_score

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
    for rule in ("brier_score", "log_score", "accuracy"):
        beliefs = p if rule == "accuracy" else p[:, :1]
        values, other = (row_mean(RULES[rule](beliefs, outcome[:, None])) for outcome in (y, 1 - y))
        ends = (-np.log(1 - CLIP), -np.log(CLIP)) if rule == "log_score" else (0.0, 1.0)
        found[rule] = mean_estimate(values, events, ends, other)
    s, r, t, u = (brier_score(b, outcome) for outcome in (y, 1 - y) for b in (p[:, 0], np.full(len(y), base)))
    return found | {"skill": skill_score(s, r, [str(event) for event in events], (t, u))}


def measure_misses(replications: int) -> pd.DataFrame:
    """Coverage and width of the intervals of each forecaster's figures."""
    rows: list[Row] = []
    for name, (draw, size, sizes) in FORECASTERS.items():
        p, y, _ = asked(draw, np.random.default_rng(0), MANY, size)
        base = float(y.mean())
        truth = {rule: float(row_mean(RULES[rule](p if rule == "accuracy" else p[:, :1], y[:, None])).mean())
                 for rule in ("brier_score", "log_score", "accuracy")}  # fmt: skip
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


def shaken(sd: float, shift: float = 0.0) -> Callable[[np.random.Generator, int], tuple[Floats, Floats, Floats]]:
    """Two models with noise in log-odds around the truth, the second shifted."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, Floats]:
        q = rng.beta(2, 2, n)
        y: Floats = (rng.random(n) < q).astype(np.float64)
        first, second = (expit(logit(q) + move + rng.normal(0, sd, n)) for move in (0.0, shift))
        return brier_score(first, y), brier_score(second, y), y

    return draw


def stated(
    draw: Forecasts, second: Callable[[Floats], Floats], rule: str = "brier_score"
) -> Callable[[np.random.Generator, int], tuple[Floats, Floats, Floats]]:
    """A calibrated model and another statement of what it knows."""

    def pair(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, Floats]:
        p, q = draw(rng, n)
        y: Floats = (rng.random(n) < q).astype(np.float64)
        return RULES[rule](p, y), RULES[rule](np.clip(second(p), 0, 1), y), y

    return pair


def answers(differ: float, worse: float) -> Callable[[np.random.Generator, int], tuple[Floats, Floats, Floats]]:
    """Right and wrong answers of two models that are not alike in a share of the questions."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, Floats]:
        other, lost = rng.random(n) < differ, rng.random(n) < worse
        first = np.where(other, lost, rng.random(n) < 0.9) * 1.0
        return first, np.where(other, 1 - first, first), first

    return draw


PAIRS = {
    "brier: 99.9 % for all of 97 to 99.9 %": (
        stated(END, lambda p: 0.999 + 0 * p), "brier_score", (30, 100, 300)),
    "brier: alike but for noise": (shaken(0.4), "brier_score", (30, 100)),
    "brier: log-odds shifted by 1": (shaken(0.4, 1.0), "brier_score", (30, 100, 300)),
    "answers: 4 % differ, either way": (answers(0.04, 0.5), "", (30, 100)),
}  # fmt: skip
"""Two models, the rule of their scores, and how many questions are asked; the second is not better in any."""


def measure_pairs(replications: int) -> pd.DataFrame:
    """How often the interval of second minus first says that either is better."""
    rows: list[Row] = []
    for name, (draw, rule, sizes) in PAIRS.items():
        first, second, _ = draw(np.random.default_rng(0), MANY)
        truth, reach = (
            float((second - first).mean()),
            float(-np.log(CLIP) + np.log(1 - CLIP)) if rule == "log_score" else 1.0,
        )
        loss = -1 if not rule else 1
        for n in sizes:
            row: Row = {"pair": name, "n": n, "truth": truth}
            ends: list[tuple[float, float]] = []
            for k in range(replications):
                one, two, _ = draw(np.random.default_rng([n, k]), n)
                others = (OTHER[rule](two), OTHER[rule](one)) if rule else None
                difference = paired_difference(two, one, None, (-reach, reach), others)
                ends.append((difference.lower, difference.upper))
            low, high = (np.array(ends) * loss).T[::loss]
            row |= {"wrong": float(np.mean(high < 0)), "right": float(np.mean(low > 0)),
                    "covers": float(np.mean((low <= loss * truth) & (loss * truth <= high)))}  # fmt: skip
            rows.append(row)
    return pd.DataFrame(rows)


def resolved(kind: str, rng: np.random.Generator, events: int, size: int) -> tuple[Floats, Floats]:
    """Forecasts of questions of events, and their outcomes."""
    q = rng.random(events)[:, None] if kind in ("one question in other words", "half of them negated") else None
    p = rng.random((events, size)) if q is None else np.repeat(q, size, axis=1)
    joint = rng.random((events, 1)) < {"a third of the events as one": 1 / 3}.get(kind, float(kind != "independent"))
    y = np.where(joint, rng.random((events, 1)), rng.random((events, size))) < p
    if kind == "half of them negated":
        turned = np.arange(size) % 2 == 1
        p, y = np.where(turned, 1 - p, p), y ^ turned
    return p.ravel(), y.ravel().astype(np.float64)


KINDS = ("independent", "one question in other words", "half of them negated", "thresholds of one number",
         "a third of the events as one")  # fmt: skip
SHAPES = ((100, 1), (30, 10))


def measure_events(replications: int) -> pd.DataFrame:
    """The calibration figures of calibrated forecasters, and of the same with log-odds that are twice too large."""
    rows: list[Row] = []
    for kind, (events, size) in [
        (kind, shape) for kind in KINDS for shape in SHAPES if shape[1] > 1 or kind == KINDS[0]
    ]:
        runs = [dict(_calibration(kind, np.random.default_rng([events, k]), events, size)) for k in range(replications)]
        rows.append(
            {"questions of an event": kind, "events": f"{events} of {size}"}
            | {str(name): value for name, value in pd.DataFrame(runs).mean().items()}
        )
    return pd.DataFrame(rows)


def _calibration(kind: str, rng: np.random.Generator, events: int, size: int) -> Iterator[tuple[str, float]]:
    p, y = resolved(kind, rng, events, size)
    names = np.repeat(np.arange(events), size).tolist()
    error = expected_calibration_error(p, y, events=names)
    yield "within", float(error.ece <= error.null_upper)
    bold = expected_calibration_error(expit(2 * logit(p.clip(1e-6, 1 - 1e-6))), y, events=names)
    yield "bold", float(bold.ece > bold.null_upper)
    line = recalibration(p.clip(1e-6, 1 - 1e-6), y, CLIP, names)
    yield "slope", float(np.isfinite(line.lower))
    yield "slope covers", float(line.lower <= 1 <= line.upper) if np.isfinite(line.lower) else np.nan


def texts(misses: pd.DataFrame, pairs: pd.DataFrame, events: pd.DataFrame) -> dict[str, str]:
    figures = ("brier_score", "skill", "accuracy")
    shown = misses.assign(
        truth=misses["truth"].map("{:.3f}".format), width=misses["brier_score width"].map("{:.3f}".format)
    )
    labels = {"brier_score": "`brier`", "truth": "true Brier"}
    tables = {"misses": table(shown, ("forecaster", "n", "truth", *figures, "width"), labels, 2)}
    shown = pairs.assign(truth=pairs["truth"].map("{:+.4f}".format))
    labels = {"wrong": "second better", "right": "first better"}
    tables["pairs"] = table(shown, ("pair", "n", "truth", "wrong", "right", "covers"), labels, 2)
    labels = {"within": "ece within `ece_null_upper`", "bold": "too bold: above it"}
    labels |= {"slope": "slope has an interval", "slope covers": "covers 1"}
    columns = ("questions of an event", "events", "within", "bold", "slope", "slope covers")
    tables["events"] = table(events, columns, labels, 2)
    return tables


STUDY = Study(
    page="brier.md",
    sizes={"replications": 200},
    measures={"misses": measure_misses, "pairs": measure_pairs, "events": measure_events},
    texts=(texts,),
)


if __name__ == "__main__":
    STUDY.main(__doc__)

"""Brier: how close is the stated probability to what happened?

inspect eval truthgym/forecasting --model reference/bayesian
inspect score LOG --scorer truthgym/brier
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import TaskState
from numpy.typing import ArrayLike, NDArray

from truthgym.datasets.question import Question, question_of
from truthgym.scorers.beliefs.answer import stated_belief
from truthgym.scorers.statistics.calibration import (
    checked,
    expected_calibration_error,
    murphy_decomposition,
    recalibration,
)
from truthgym.scorers.statistics.interval import Headline, mean_headline
from truthgym.scorers.statistics.table import Table, tabulate

CLIP = 0.005
"""Half a percentage point: as far as a belief stated in integer percent can be trusted near 0 and 1."""


@metric(scores="unreduced")
def forecast_quality() -> Metric:
    """All figures of the Brier paradigm, headline first. See `brier` for each."""

    def compute(scores: list[SampleScore]) -> Value:
        return cast(Value, summarise(tabulate(scores, "belief")))

    return compute


@scorer(metrics=[forecast_quality()])
def brier() -> Scorer:
    r"""Squared error of the last stated probability. Lower is better.

    $$\mathrm{BS}(p, y) = (p - y)^2 \in [0, 1]$$

    Saying 0.5 always scores 0.25, saying the base rate r scores r(1 - r), the truth scores 0. The score is proper:
    it is least in expectation when p is what the forecaster believes.

    It measures truth-seeking where the question could not be looked up in memory: a model that remembers how an
    event ended scores near 0 without any foresight. Filter by `known_after`, or use `urns`.

    Metrics, headline first; `_lower` and `_upper` are 95 % bounds, clustered by `event`:

    - `brier`; `mde`, the smallest distance from a fixed reference that the run could have found (5 %, power 0.8); `n`
      questions; `epochs`; `share_scored`, the answers that could be read, of those that reached the scorer (a sample
      that failed is an error, and Inspect counts it).
    - `skill_base_rate`, `skill_crowd`: 1 - BS / BS of the reference. 1 is perfect, 0 as good as it, below 0 worse. The
      base rate is the question's own where it has one, else the share of "yes" among the scored questions; the crowd's
      skill is on the questions that have a crowd.
    - `brier_of_mean`: of each question's mean belief over the epochs. What it is below `brier` is the price of the
      belief's own noise.
    - `log_score` (nats, p held in [0.005, 0.995]; lower is better); `spherical_score`, `accuracy` (higher is better; a
      belief of 0.5 is half right).
    - `reliability` (lower), `resolution` (higher), `uncertainty`, corrected for bias; `calibration_slope` (1) and
      `calibration_intercept` (0); `ece`, to be read beside `ece_null` only.

    Clustered by `event`: questions about one event resolve together. Epochs of a question are averaged first.

    A sample's value holds `belief`, `brier_score`, `accuracy`, `log_score` and `spherical_score`.

    An answer that cannot be read is NaN under every key, with the `reason` in the metadata: it leaves the means and
    lowers `share_scored`. So does a question without a known outcome. Makes no model call.

    References:
        Brier, G. W. (1950). Verification of forecasts expressed in terms of probability. Monthly Weather Review 78.
        Gneiting and Raftery (2007). Strictly proper scoring rules. JASA 102 (log and spherical scores).
    """

    async def score(state: TaskState, target: Target) -> Score:
        question = question_of(state, Question)
        belief, unread = stated_belief(state)
        outcome = {"yes": 1.0, "no": 0.0}.get(target.text)
        reason = "The question has no known outcome." if outcome is None else unread
        p, y = (np.nan if value is None or reason else value for value in (belief, outcome))
        value = {"belief": p} | {name: round(float(rule(p, y)), 4) for name, rule in RULES.items()}
        return Score(
            value=cast(Value, value),
            answer=None if belief is None else f"{belief:.4g}",
            explanation=reason
            or f"Belief {p:.4g}, outcome {target.text}: ({p:.4g} - {y:g})² = {value['brier_score']:.4f}.",
            metadata={
                "epoch": state.epoch,
                "event": question.event,
                "belief": belief,
                "outcome": outcome,
                "base_rate": question.base_rate,
                "crowd": question.crowd,
                "reason": reason,
            },
        )

    return score


def brier_score(p: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    r"""Brier score $(p-y)^2$ in [0, 1]. Lower is better; 0.25 at p = 0.5.

    This is the binary form; the sum over both classes is twice as large.

    Args:
        p: Probability of "yes" in [0, 1]. NaN gives NaN.
        y: Outcome, 0 or 1. NaN gives NaN.

    Raises:
        ValueError: Shapes differ, p outside [0, 1], or y other than 0 and 1.

    >>> brier_score([0.7, 0.5], [1, 0]).round(2).tolist()
    [0.09, 0.25]
    """
    p, y = checked(p, y)
    return np.square(p - y)


def log_score(p: ArrayLike, y: ArrayLike, clip: float = CLIP) -> NDArray[np.float64]:
    r"""Logarithmic score $-\ln p_y$ in nats, p held in [clip, 1 - clip]. Lower is better; 0.693 at p = 0.5.

    Args, errors: as `brier_score`. Without the clip one certain error would be infinite.

    >>> log_score([0.5, 0.0], [1, 1]).round(3).tolist()
    [0.693, 5.298]
    """
    p, y = checked(p, y)
    held = np.clip(p, clip, 1 - clip)
    return -np.log(np.where(np.isnan(y), np.nan, np.where(y == 1, held, 1 - held)))


def spherical_score(p: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    r"""Spherical score $p_y / \sqrt{p^2 + (1-p)^2}$ in [0, 1]. Higher is better; 0.707 at p = 0.5.

    Args, errors: as `brier_score`.

    >>> spherical_score([0.5, 1.0], [1, 1]).round(3).tolist()
    [0.707, 1.0]
    """
    p, y = checked(p, y)
    chosen = np.where(np.isnan(y), np.nan, np.where(y == 1, p, 1 - p))
    return chosen / np.hypot(p, 1 - p)


def accuracy_score(p: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """1 where the likelier side happened, 0 where not, 0.5 at p = 0.5. Higher is better.

    Args, errors: as `brier_score`.
    """
    p, y = checked(p, y)
    return np.where(p == 0.5, 0.5 + 0 * y, np.where(np.isnan(p + y), np.nan, (p > 0.5) == (y == 1)))


RULES: dict[str, Callable[[ArrayLike, ArrayLike], NDArray[np.float64]]] = {
    "brier_score": brier_score,
    "accuracy": accuracy_score,
    "log_score": log_score,
    "spherical_score": spherical_score,
}
"""What a sample's score shows besides the belief, to four decimals. Metrics are computed from the belief itself."""


def skill_score(score: ArrayLike, reference: ArrayLike, cluster: list[str]) -> Headline:
    r"""Skill against a reference, $1-\bar s/\bar r$, with a delta-method interval clustered as in `mean_headline`.

    1 is perfect, 0 as good as the reference, below 0 worse. Pairs with NaN are left out.

    Args:
        score: Negatively oriented scores, one a question.
        reference: The reference's scores on the same questions.
        cluster: For each question the name of its cluster.
    """
    s, r = np.broadcast_arrays(np.asarray(score, dtype=float), np.asarray(reference, dtype=float))
    kept = np.isfinite(s) & np.isfinite(r)
    if not kept.any() or r[kept].mean() == 0:
        return Headline(np.nan, np.nan, np.nan, np.nan, 0)
    ratio = s[kept].mean() / r[kept].mean()
    linear = 1 - ratio - (s - ratio * r) / r[kept].mean()
    return mean_headline(np.where(kept, linear, np.nan), cluster)


def summarise(table: Table) -> dict[str, float]:
    """Compute the paradigm's figures from beliefs (questions x epochs). NaN where too few are there."""
    p, y = table.values, table.outcome
    per_epoch = brier_score(p, y[:, None])
    squared = row_mean(per_epoch)
    mean_belief = row_mean(p)
    scored = np.isfinite(squared)
    share_yes = float(y[scored].mean()) if scored.any() else np.nan
    base_rate = np.where(np.isnan(table.base_rate), share_yes, table.base_rate)
    headline = mean_headline(squared, table.cluster)
    others: dict[str, float] = {}
    for name in ("log_score", "spherical_score", "accuracy"):
        others |= mean_headline(row_mean(RULES[name](p, y[:, None])), table.cluster).metrics(name)
    epochs = range(p.shape[1])
    murphy = np.array([murphy_decomposition(p[:, k], y) for k in epochs]).reshape(-1, 3)
    ece = np.array([expected_calibration_error(p[:, k], y) for k in epochs]).reshape(-1, 2)
    line = recalibration(p, y[:, None], CLIP)
    return {
        **headline.metrics("brier"),
        "mde": headline.mde,
        "n": headline.n,
        "epochs": p.shape[1],
        "share_scored": table.share_scored,
        **skill_score(squared, brier_score(base_rate, y), table.cluster).metrics("skill_base_rate"),
        **skill_score(squared, brier_score(table.crowd, y), table.cluster).metrics("skill_crowd"),
        **mean_headline(brier_score(mean_belief, y), table.cluster).metrics("brier_of_mean"),
        **others,
        "reliability": _mean(murphy[:, 0]),
        "resolution": _mean(murphy[:, 1]),
        "uncertainty": _mean(murphy[:, 2]),
        "calibration_slope": line.slope,
        "calibration_intercept": line.intercept,
        "ece": _mean(ece[:, 0]),
        "ece_null": _mean(ece[:, 1]),
    }


def row_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of each row over what is not NaN; NaN for a row with nothing else."""
    held = np.isfinite(values)
    count = held.sum(axis=1)
    total = np.where(held, values, 0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _mean(values: NDArray[Any]) -> float:
    held = values[np.isfinite(values)]
    return float(held.mean()) if held.size else np.nan

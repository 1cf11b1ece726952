"""Metrics of one model on one held-out task, question by question, so that two models can be compared in pairs."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.training.closed_loop.likelihood import START_NLL_FILE, logged_reply_nll, read_reply_nll
from truthgym.training.evaluations import Values, figures, numbers, paired

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog
    from inspect_ai.scorer import SampleScore

BRIER = "brier/brier_score"
PARSE_RATE, REPLY_NLL, TOKENS, WORDS = "parse_rate", "reply_nll", "tokens", "words"
KL = "kl"
"""KL divergence from the start on the tokens of replies, in nats a sample: the mean over the model's own replies of
its log-probability minus the start's. 0 or more but for sampling error."""
REPLY_METRICS = (PARSE_RATE, REPLY_NLL, TOKENS, WORDS)
"""Metrics of the replies themselves, whatever the scorer."""
LOG_METRICS = {
    "brier": ("brier_of_mean", "calibration_slope", "resolution"),
    "martingale": (
        *("martingale_score", "martingale_score_lower", "martingale_score_upper", "martingale_score_ols"),
        *("excess_movement", "excess_movement_lower", "excess_movement_upper", "reliability"),
    ),
}
"""Metrics that the report shows next to each scorer's headline. The log holds the scores that they come from."""
SKIPPED_FIELDS = {"store", "timelines"}
"""Fields of a sample that are not read."""
UNIDENTIFIED = "unidentified_"
"""Prefix of the metrics that say why there is no martingale score."""


@dataclass(frozen=True)
class Estimate:
    """A mean, or a mean paired difference, with its 95 % interval. All but `n` are None where n is too small."""

    value: float | None
    lower: float | None
    upper: float | None
    n: int
    """Number of questions."""
    mde: float | None = None
    """Minimum detectable effect of a difference: found with probability 0.8 by a run of this size."""

    @property
    def sign(self) -> int:
        """-1 or 1 if the interval excludes 0, else 0."""
        if self.lower is None or self.upper is None:
            return 0
        return -1 if self.upper < 0 else 1 if self.lower > 0 else 0


def paired_difference(after: Values, before: Values) -> Estimate | None:
    """The mean over questions of after minus before, clustered by event. None if no question is in both."""
    found = next(iter(paired(after, before)), None)
    if found is None:
        return None
    return Estimate(found["difference"], found["lower"], found["upper"], found["n"], found["mde"])


@dataclass
class TaskMetrics:
    """One model on one task."""

    headlines: list[dict[str, Any]] = field(default_factory=list)
    """Each scorer's first metric with interval, mde, n and share scored, see `evaluations.figures`."""
    metrics: dict[str, float | None] = field(default_factory=dict)
    """`LOG_METRICS`, and those that start with `UNIDENTIFIED`."""
    primary: str | None = None
    """The score that models are compared by: `brier/brier_score`, or the first score with a known direction."""
    values: dict[str, Values] = field(default_factory=lambda: defaultdict(dict))
    """The values of each question, by score (`brier/brier_score`) or by `REPLY_METRICS`."""
    constant: Values = field(default_factory=dict)
    """The Brier score of the best constant answer to these questions, which is their share of yes."""
    share_yes: float | None = None
    sd_within: float | None = None
    """Pooled standard deviation of the belief over the epochs of a question; 0 if the epochs always agree."""
    sd_between: float | None = None
    """Standard deviation over questions of the mean belief; 0 if all questions get the same answer."""

    def mean(self, name: str) -> Estimate | None:
        """The mean over questions of a metric. None if there is no value."""
        zeros = {question: (split, event, [0.0]) for question, (split, event, _) in self.values[name].items()}
        return paired_difference(self.values[name], zeros)

    def change(self, start: "TaskMetrics", name: str) -> Estimate | None:
        """The paired difference of a metric from another model."""
        return paired_difference(self.values[name], start.values[name])

    def unread_as_wrong(self) -> Values:
        """The Brier scores, 1 for an answer that could not be parsed."""
        return {
            question: (split, event, [1.0 if math.isnan(score) else score for score in scores])
            for question, (split, event, scores) in self.values[BRIER].items()
        }

    def scored(self) -> dict[str, float]:
        """The share of the samples that each scorer could score."""
        return {row["scorer"]: row["scored"] for row in self.headlines if row.get("scored") is not None}


def measure_log(log: "EvalLog", folder: Path) -> TaskMetrics:
    """Read the metrics of a held-out log."""
    from inspect_ai.log import read_eval_log_samples
    from inspect_ai.scorer import SampleScore

    from truthgym.tasks.domain_task import SCORER_BY_NAME

    task = TaskMetrics(list(figures(log)))
    reply_nll, start_nll = read_reply_nll(folder), read_reply_nll(folder, START_NLL_FILE)
    skipped = SKIPPED_FIELDS | {"events"} if reply_nll else SKIPPED_FIELDS  # events are most of a log
    scored: dict[str, list[SampleScore]] = defaultdict(list)
    for sample in read_eval_log_samples(
        log.location, all_samples_required=False, resolve_attachments=True, exclude_fields=skipped
    ):
        scores = {
            key: value for name, score in (sample.scores or {}).items() for key, value in numbers(name, score).items()
        }
        if task.primary is None and scores:
            task.primary = BRIER if BRIER in scores else next(iter(scores))
        nll, tokens = reply_nll.get(str(sample.uuid)) or logged_reply_nll(sample)
        words = sum(len(message.text.split()) for message in sample.messages if message.source == "generate")
        values: dict[str, float | None] = {**scores, REPLY_NLL: nll, TOKENS: tokens, WORDS: words}
        if nll is not None and (by_start := start_nll.get(str(sample.uuid))) and by_start.nll is not None:
            values[KL] = by_start.nll - nll
        if task.primary in scores:
            values[PARSE_RATE] = float(not math.isnan(scores[task.primary]))
        _append(task.values, values, str(sample.id), str(sample.metadata.get("event", sample.id)))
        for scorer, score in (sample.scores or {}).items():
            if scorer in LOG_METRICS:
                scored[scorer].append(SampleScore(score=score, sample_id=sample.id))
    for scorer, shown in LOG_METRICS.items():
        for name, metric in SCORER_BY_NAME[scorer].figures(scored[scorer]).items() if scored[scorer] else ():
            if name in shown or name.startswith(UNIDENTIFIED):
                task.metrics[name] = None if math.isnan(metric) else float(metric)
    if scored["brier"]:
        _measure_beliefs(task, scored["brier"])
    return task


def _append(table: dict[str, Values], values: Mapping[str, float | None], question: str, event: str) -> None:
    """Add the values of one epoch of a question. None becomes NaN."""
    for name, value in values.items():
        number = math.nan if value is None else float(value)
        table[name].setdefault(question, ("test", event, []))[2].append(number)


def _measure_beliefs(task: TaskMetrics, scores: "list[SampleScore]") -> None:
    """Compute the best constant answer, and how beliefs vary within and between questions."""
    import numpy as np

    from truthgym.scorers.statistics.proper_scores import brier_score, row_mean
    from truthgym.scorers.statistics.table import tabulate

    table = tabulate(scores, "belief")
    known = np.isfinite(table.outcome)
    if known.any():
        task.share_yes = float(table.outcome[known].mean())
        constant = brier_score(task.share_yes, table.outcome)
        rows = zip(table.question, table.cluster, constant, strict=True)
        task.constant = {question: ("test", event, [float(score)]) for question, event, score in rows}
    mean = row_mean(table.values)
    repeated = np.isfinite(table.values).sum(axis=1) > 1
    if repeated.any():
        variances = np.array([np.nanvar(row, ddof=1) for row in table.values[repeated]])
        task.sd_within = float(np.sqrt(variances.mean()))
    if np.isfinite(mean).sum() > 1:
        task.sd_between = float(np.nanstd(mean, ddof=1))

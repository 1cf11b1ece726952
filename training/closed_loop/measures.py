"""What a loop's held-out logs say of a model: question by question, so that two models can be paired."""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.training.closed_loop.likelihood import measured, said
from truthgym.training.evaluations import Values, figures, numbers, paired

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog
    from inspect_ai.scorer import SampleScore

BRIER = "brier/brier_score"
FORM, NATS, TOKENS, WORDS = "readable", "nats", "tokens", "words"
FROM_LOG = {
    "brier": ("brier_of_mean", "calibration_slope", "resolution"),
    "martingale": (
        *("martingale_score", "martingale_score_lower", "martingale_score_upper", "martingale_score_ols"),
        *("excess_movement", "excess_movement_lower", "excess_movement_upper", "reliability"),
    ),
}
"""Metrics that are shown beside each scorer's headline, as the log has them."""
UNREAD = {"store", "timelines"}
"""Fields of a sample that nothing here looks at."""
UNIDENTIFIED = "unidentified_"
"""How the metrics begin that tell why there is no martingale score."""

Told = dict[str, Any]


@dataclass
class Measured:
    """One task asked of one model."""

    headlines: list[Told]
    """Each scorer's first figure with interval, mde, n and share scored, see `evaluations.figures`."""
    metrics: dict[str, float | None]
    """Those of `FROM_LOG`."""
    primary: str | None = None
    """What models are compared by: `brier/brier_score`, or the first number whose better end is known."""
    values: dict[str, Values] = field(default_factory=lambda: defaultdict(dict))
    """By what was measured (`brier/brier_score`, `nats`, ...), and question."""
    constant: Values = field(default_factory=dict)
    """The Brier score of the best constant answer to these questions: their share of yes."""
    share_yes: float | None = None
    sd_within: float | None = None
    """Standard deviation of the belief over the epochs of a question, pooled: 0 where it always says the same."""
    sd_between: float | None = None
    """Standard deviation over the questions of their mean belief: 0 where it says the same to everything."""

    def mean(self, name: str) -> Told | None:
        """The mean over questions of what was measured, with its 95 % interval. None where nothing was."""
        nothing = {question: (split, event, [0.0]) for question, (split, event, _) in self.values[name].items()}
        told = next(iter(paired(self.values[name], nothing)), None) if self.values[name] else None
        return told and {"mean": told["difference"], **{key: told[key] for key in ("lower", "upper", "n")}}

    def against(self, other: Values, name: str) -> Told | None:
        """The paired difference of these answers from others, see `evaluations.paired`."""
        return next(iter(paired(self.values[name], other)), None)


def measure_log(log: "EvalLog", place: Path) -> Measured:
    """Read a held-out log.

    Args:
        log: Its header.
        place: Its folder, with what `loop_entropy.measure` wrote of it.
    """
    from inspect_ai.log import read_eval_log_samples
    from inspect_ai.scorer import SampleScore

    found = Measured(list(figures(log)), _metrics(log))
    beside = measured(place)
    unread = UNREAD | {"events"} if beside else UNREAD  # they are most of a log
    beliefs = []
    for sample in read_eval_log_samples(
        log.location, all_samples_required=False, resolve_attachments=True, exclude_fields=unread
    ):
        question, event = str(sample.id), str(sample.metadata.get("event", sample.id))

        def put(name: str, value: float | None, question: str = question, event: str = event) -> None:
            at = math.nan if value is None else float(value)
            found.values[name].setdefault(question, ("test", event, []))[2].append(at)

        scores = sample.scores or {}
        held = {key: value for name, score in scores.items() for key, value in numbers(name, score).items()}
        for key, value in held.items():
            put(key, value)
        if found.primary is None and held:
            found.primary = BRIER if BRIER in held else next(iter(held))
        if found.primary in held:
            put(FORM, float(not math.isnan(held[found.primary])))
        if BRIER in held:
            beliefs.append(SampleScore(score=scores["brier"], sample_id=sample.id))
        told = beside.get(str(sample.uuid)) or said(sample)
        put(NATS, told.nats)
        put(TOKENS, told.tokens)
        put(WORDS, sum(len(message.text.split()) for message in sample.messages if message.source == "generate"))
    if beliefs:
        _beliefs(found, beliefs)
    return found


def _beliefs(found: Measured, scores: "list[SampleScore]") -> None:
    """The best constant, and how beliefs differ within and between questions."""
    import numpy as np

    from truthgym.scorers.statistics.proper_scores import brier_score, row_mean
    from truthgym.scorers.statistics.table import tabulate

    table = tabulate(scores, "belief")
    known = np.isfinite(table.outcome)
    if known.any():
        found.share_yes = float(table.outcome[known].mean())
        scored = brier_score(found.share_yes, table.outcome)
        rows = zip(table.question, table.cluster, scored, strict=True)
        found.constant = {question: ("test", event, [float(score)]) for question, event, score in rows}
    mean = row_mean(table.values)
    several = np.isfinite(table.values).sum(axis=1) > 1
    if several.any():
        variances = np.array([np.nanvar(row, ddof=1) for row in table.values[several]])
        found.sd_within = float(np.sqrt(variances.mean()))
    if np.isfinite(mean).sum() > 1:
        found.sd_between = float(np.nanstd(mean, ddof=1))


def _metrics(log: "EvalLog") -> dict[str, float | None]:
    held: dict[str, float | None] = {}
    for score in log.results.scores if log.results else []:
        for name in FROM_LOG.get(score.name.rpartition("/")[2], ()):
            if name in score.metrics:
                value = float(score.metrics[name].value)
                held[name] = None if math.isnan(value) else value
        held |= {name: float(metric.value) for name, metric in score.metrics.items() if name.startswith(UNIDENTIFIED)}
    return held

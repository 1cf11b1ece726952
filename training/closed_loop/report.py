"""The report of a loop: what each round changed on held-out questions, and whether it is a gain or a hack."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.scorers.statistics.direction import direction
from truthgym.scorers.statistics.interval import Estimate
from truthgym.scorers.statistics.martingale_score import REASONS
from truthgym.scorers.statistics.paired import compare_means
from truthgym.training.closed_loop.measures import (
    BRIER,
    KL,
    PARSE_RATE,
    REPLY_METRICS,
    REPLY_NLL,
    TOKENS,
    WORDS,
    TaskMetrics,
    measure_log,
)
from truthgym.training.closed_loop.options import LoopConfig
from truthgym.training.closed_loop.stages import Subject
from truthgym.training.evaluations import format_interval, format_number
from truthgym.training.files import markdown_table, write_atomically

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog

MIN_SD_BETWEEN = 0.03
"""Between-question SD below which a model is taken to give the same answer to every question."""
MAX_LENGTH_RATIO = 1.5
"""A reply that became longer, or shorter, by this factor is reported."""
MIN_NLL_RATIO = 0.1
"""A reply NLL below this share of the start's is reported."""
MAX_SCORED_DROP = 0.1
"""A drop of a scorer's share of scored samples by this much is reported."""
LEGEND = (
    "`score`: on held-out questions; a Brier score is the mean squared error of the stated probability, lower is "
    "better. `from start`, `from constant`: paired differences over questions, clustered by event; for a Brier score, "
    "below 0 is better. The constant is the best single answer to these questions, their own share of yes. `MDE`: the "
    "minimum detectable effect, a true difference that a run of this size would find with probability 0.8. `parse "
    "rate`: share of the answers that could be parsed; the others count in no score. `reply NLL`: negative "
    "log-likelihood of the replies in nats, "
    "summed over a sample; it estimates the entropy of an answer. `KL`: divergence from the start on "
    "the tokens of replies, in nats, for a "
    "local model. `within-question SD`: of the belief over the epochs "
    "of a question; `between-question SD`: over questions. All intervals are 95 %."
)


@dataclass
class HeldOut:
    """A model's held-out evaluation."""

    folder: Path
    subject: Subject
    logs: "Sequence[EvalLog]"
    """Headers, one for each task."""

    @cached_property
    def metrics(self) -> dict[str, TaskMetrics]:
        """The metrics of each task."""
        return {log.eval.task: measure_log(log, self.folder) for log in self.logs}


@dataclass
class Result:
    """One model on one task, compared with the start and with the best constant answer."""

    metrics: TaskMetrics
    start: TaskMetrics | None
    """The model that the loop started from. None if this is it."""

    @property
    def from_start(self) -> Estimate | None:
        """The paired difference of the primary score from the start; None for the start itself."""
        return self.metrics.change(self.start, self.metrics.primary) if self.start else None

    @property
    def from_constant(self) -> Estimate | None:
        """The paired difference of the Brier score from the best constant answer's."""
        return self.metrics.from_constant if self.metrics.primary == BRIER else None

    @property
    def verdict(self) -> str:
        """The result in words, from the intervals, with all warnings."""
        constant, change = self.from_constant, self.from_start
        compared = ""
        if constant and not math.isnan(constant.lower):
            compared = f"{_outcome(constant, 'not clearly better than')} the best constant ({_signed(constant)})"
        if self.start is None or change is None:
            return f"The start. {compared[0].upper()}{compared[1:]}." if compared else "The start."
        if math.isnan(change.lower):
            verdict = "Too few answers could be parsed in both to compare them"
        else:
            outcome = _outcome(change, "no clear change from", _lower_is_better(self.metrics))
            verdict = f"{outcome.capitalize()} the start ({_signed(change)})"
        verdict += f", and {compared}" if compared else ""
        reasons = warnings(self.metrics, self.start)
        return f"{verdict}. " + (f"**Look closer**: {'; '.join(reasons)}." if reasons else "No sign of a hack.")

    def as_json(self) -> dict[str, Any]:
        """Everything for `report.json`."""
        metrics = self.metrics
        estimates = {
            **{name: metrics.mean(name) for name in (*REPLY_METRICS, KL)},
            "mean": metrics.mean(metrics.primary),
            "from_start": self.from_start,
            "from_constant": self.from_constant,
        }
        changes = {name: metrics.change(self.start, name) for name in REPLY_METRICS} if self.start else {}
        return {
            "headlines": metrics.estimates,
            "score": metrics.primary or None,
            **metrics.metrics,
            **{name: getattr(metrics, name) for name in ("share_yes", "sd_within", "sd_between")},
            **{name: _as_json(estimate) for name, estimate in estimates.items()},
            "changes": {name: _as_json(estimate) for name, estimate in changes.items()},
            "verdict": self.verdict,
        }


def write_report(config: LoopConfig, out: Path, evaluations: Sequence[HeldOut]) -> str:
    """Write `report.md` and `report.json`. Returns the newest verdict on each task."""
    results = {
        task: [Result(evaluation.metrics[task], evaluations[0].metrics[task] if number else None)
               for number, evaluation in enumerate(evaluations)]
        for task in evaluations[0].metrics
    }  # fmt: skip
    rows: dict[str, list[dict[str, Any]]] = {task: [] for task in results}
    for number, evaluation in enumerate(evaluations):
        for log in evaluation.logs:
            link = os.path.relpath(log.location.removeprefix("file://"), out)
            row = {"round": number, "model": evaluation.subject.model, "log": link, "eval_id": log.eval.eval_id}
            row |= {"solver": evaluation.subject.solver} if evaluation.subject.solver else {}
            rows[log.eval.task].append(row | results[log.eval.task][number].as_json())
    report = {"settings": config.hashed(), "tasks": rows}
    write_atomically(out / "report.json", json.dumps(report, indent=2) + "\n")
    write_atomically(out / "report.md", _markdown(config, results, rows))
    return "\n".join(
        f"{task}, round {of_task[-1]['round']}: {of_task[-1]['verdict']}" for task, of_task in rows.items()
    )


def warnings(now: TaskMetrics, start: TaskMetrics) -> list[str]:
    """What may make the change of a trained model from the start a hack and not a gain."""
    reasons = []
    before, after = start.mean(PARSE_RATE), now.mean(PARSE_RATE)
    if now.change(start, PARSE_RATE).sign < 0:
        reasons.append(f"the parse rate fell from {before.estimate:.3f} to {after.estimate:.3f}")
    shares = start.scored()
    for name, share in now.scored().items():  # the parse rate covers the primary scorer
        if name != now.primary.partition("/")[0] and share <= shares.get(name, share) - MAX_SCORED_DROP:
            reasons.append(f"the share that {name} could score fell from {shares[name]:.3f} to {share:.3f}")
    change = now.change(start, BRIER)
    total = len(now.run.values.get(BRIER, {}).keys() | start.run.values.get(BRIER, {}).keys())
    if now.primary == BRIER and 0 < change.n < total:
        everything = compare_means(now.unread_as_wrong(), start.unread_as_wrong(), now.run.events, (0, 1)).difference
        reasons.append(
            f"{total - change.n} of {total} questions are left out of the change, since one of the two models gave no "
            f"answer that could be parsed; with unread answers as wrong, the change is {_signed(everything)}"
        )
    if after.estimate == 0:
        reasons.append("no answer could be parsed")
    if now.sd_between is not None and now.sd_between < MIN_SD_BETWEEN:
        reasons.append(f"it answers nearly the same to every question (between-question SD {now.sd_between:.3f})")
    for name in (TOKENS, WORDS):
        before, after = start.mean(name), now.mean(name)
        ratio = after.estimate / before.estimate if before.estimate else math.nan
        if now.change(start, name).sign and (ratio > MAX_LENGTH_RATIO or ratio < 1 / MAX_LENGTH_RATIO):
            reasons.append(f"its replies went from {before.estimate:.1f} to {after.estimate:.1f} {name}")
            break
    if _excludes_zero(now, "martingale_score") and not _excludes_zero(start, "martingale_score"):
        score = f"(martingale score {now.metrics['martingale_score']:+.3f})"
        if start.metrics.get("martingale_score") is None:
            reasons.append(f"its updates are predictable; whether they were at the start is not identified {score}")
        else:
            reasons.append(f"its updates have become predictable {score}")
    before, after = start.mean(REPLY_NLL), now.mean(REPLY_NLL)
    if now.change(start, REPLY_NLL).sign < 0 and after.estimate < MIN_NLL_RATIO * before.estimate:
        reasons.append(f"its entropy collapsed: reply NLL from {before.estimate:.2f} to {after.estimate:.2f} nats")
    return reasons


def _as_json(estimate: Estimate | None) -> dict[str, float | None] | None:
    """An estimate with None for NaN; None if no question has a value."""
    if estimate is None or not estimate.n:
        return None
    values = {"value": estimate.estimate, "lower": estimate.lower, "upper": estimate.upper}
    values |= {"n": estimate.n, "mde": estimate.mde}
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def _outcome(change: Estimate, unclear: str, lower_is_better: int = 1) -> str:
    return {-1: "better than", 1: "worse than", 0: unclear}[change.sign * lower_is_better]


def _lower_is_better(metrics: TaskMetrics) -> int:
    """1 if a lower primary score is better, -1 if a higher one is."""
    scorer, _, key = metrics.primary.partition("/")
    return -1 if direction(scorer, key, {}) == "highest" else 1


HEADER = ["round", "score", "from start", "from constant", "MDE", "questions", "parse rate", "reply NLL", "tokens",
          "words", "KL", "within-question SD", "between-question SD", "calibration slope", "resolution",
          "martingale score", "excess movement"]  # fmt: skip


def _markdown(config: LoopConfig, results: dict[str, list[Result]], rows: dict[str, list[dict[str, Any]]]) -> str:
    parts = [
        f"# {Path(config.out).name}",
        f"`{config.model_name_or_path}` trained by {config.method}. Written by `truthgym loop`; report.json has all "
        "values.",
    ]
    for task, of_task in results.items():
        parts += [f"## {task}", "\n".join(f"- Round {row['round']}: {row['verdict']}" for row in rows[task])]
        parts += [markdown_table(HEADER, [[str(number), *_row(result)] for number, result in enumerate(of_task)])]
        estimates = [[str(number), *cells] for number, result in enumerate(of_task) for cells in _estimates(result)]
        parts += [
            markdown_table(["round", "metric", "value", "95 % interval", "MDE", "questions", "scored"], estimates)
        ]
    logs = [
        [str(row["round"]), f"`{row['model']}`", f"[{row['eval_id']}]({row['log']})"]
        for of_task in rows.values()
        for row in of_task
    ]
    return "\n\n".join([*parts, LEGEND, "## Logs", markdown_table(["round", "model", "log"], logs)]) + "\n"


def _row(result: Result) -> list[str]:
    metrics, start, constant = result.metrics, result.from_start, result.from_constant
    reference = start if start and start.n else constant if constant and constant.n else None
    means = [metrics.mean(name).estimate for name in (*REPLY_METRICS, KL)]
    return [
        _score(metrics),
        _signed(start),
        _signed(constant),
        format_number(reference.mde if reference else None),
        format_number(reference.n if reference else None, 0),
        *(format_number(mean, places) for mean, places in zip(means, (3, 2, 1, 1, 2), strict=True)),
        format_number(metrics.sd_within, 3),
        format_number(metrics.sd_between, 3),
        format_number(metrics.metrics.get("calibration_slope"), 2),
        format_number(metrics.metrics.get("resolution"), 3),
        _with_interval(metrics, "martingale_score") or _why_unidentified(metrics),
        _with_interval(metrics, "excess_movement"),
    ]


def _score(metrics: TaskMetrics) -> str:
    """The estimate of the primary scorer; the mean over questions if it has no interval."""
    row = next((row for row in metrics.estimates if metrics.primary.startswith(f"{row['scorer']}/")), {})
    mean = metrics.mean(metrics.primary)
    if row.get("lower") is None and mean.n:
        return f"{format_number(mean.estimate)} {format_interval(mean.lower, mean.upper)}".strip()
    return f"{format_number(row.get('value'))} {format_interval(row.get('lower'), row.get('upper'))}".strip()


def _why_unidentified(metrics: TaskMetrics) -> str:
    """Why there is no martingale score, and the published least squares estimate, which noise biases downwards."""
    reasons = ", ".join(name.replace("_", " ") for name in REASONS if f"reason_{name}" in metrics.metrics)
    if not reasons:
        return ""
    reliability = format_number(metrics.metrics.get("reliability"), 2)
    least_squares = format_number(metrics.metrics.get("martingale_score_ols"), 3)
    return f"not identified: {reasons} (reliability {reliability}; least squares {least_squares})"


def _estimates(result: Result) -> list[list[str]]:
    return [
        [f"{row['scorer']}/{row['metric']}", format_number(row.get("value")),
         format_interval(row.get("lower"), row.get("upper")), format_number(row.get("mde")),
         format_number(row.get("n"), 0), format_number(row.get("scored"), 3)]
        for row in result.metrics.estimates
    ]  # fmt: skip


def _bounds(metrics: TaskMetrics, name: str) -> tuple[float | None, float | None]:
    return metrics.metrics.get(f"{name}_lower"), metrics.metrics.get(f"{name}_upper")


def _excludes_zero(metrics: TaskMetrics, name: str) -> bool:
    lower, upper = _bounds(metrics, name)
    return lower is not None and upper is not None and (lower > 0 or upper < 0)


def _with_interval(metrics: TaskMetrics, name: str) -> str:
    return f"{format_number(metrics.metrics.get(name), 3)} {format_interval(*_bounds(metrics, name))}".strip()


def _signed(change: Estimate | None) -> str:
    if change is None or not change.n:
        return ""
    return f"{change.estimate:+.4f} {format_interval(change.lower, change.upper)}".strip()

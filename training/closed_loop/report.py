"""The report of a loop: what each round changed on held-out questions, and whether it is a gain or a hack."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.training.closed_loop.measures import (
    BRIER,
    KL,
    PARSE_RATE,
    REPLY_METRICS,
    REPLY_NLL,
    TOKENS,
    UNIDENTIFIED,
    WORDS,
    Estimate,
    TaskMetrics,
    measure_log,
    paired_difference,
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
class Comparison:
    """One model on one task, compared with the start and with the best constant answer."""

    metrics: TaskMetrics
    start: TaskMetrics | None
    """The model that the loop started from. None if this is it."""

    @property
    def from_start(self) -> Estimate | None:
        """The paired difference of the primary score from the start."""
        primary = self.metrics.primary
        return self.metrics.change(self.start, primary) if self.start and primary else None

    @property
    def from_constant(self) -> Estimate | None:
        """The paired difference of the Brier score from the best constant answer's."""
        metrics = self.metrics
        return paired_difference(metrics.values[BRIER], metrics.constant) if metrics.primary == BRIER else None

    @property
    def verdict(self) -> str:
        """The result in words, from the intervals, with all warnings."""
        constant = self.from_constant
        compared = f"{_outcome(constant)} the best constant ({_signed(constant)})" if _bounded(constant) else ""
        if self.start is None:
            return f"The start. {compared[0].upper()}{compared[1:]}." if compared else "The start."
        verdict = self._compared_with_start() + (f", and {compared}" if compared else "")
        found = [warning for check in WARNINGS if (warning := check(self.metrics, self.start))]
        return f"{verdict}. " + (f"**Look closer**: {'; '.join(found)}." if found else "No sign of a hack.")

    def _compared_with_start(self) -> str:
        change = self.from_start
        if not _bounded(change):
            return "Too few answers could be parsed in both to compare them"
        outcome = _outcome(change, _lower_is_better(self.metrics), "no clear change from")
        return f"{outcome.capitalize()} the start ({_signed(change)})"

    def as_json(self) -> dict[str, Any]:
        """Everything for `report.json`."""
        metrics = self.metrics
        changes = {name: metrics.change(self.start, name) for name in REPLY_METRICS} if self.start else {}
        estimates = {
            **{name: metrics.mean(name) for name in (*REPLY_METRICS, KL)},
            "mean": metrics.mean(metrics.primary) if metrics.primary else None,
            "from_start": self.from_start,
            "from_constant": self.from_constant,
        }
        return {
            "headlines": metrics.headlines,
            "score": metrics.primary,
            **metrics.metrics,
            **{name: getattr(metrics, name) for name in ("share_yes", "sd_within", "sd_between")},
            **{name: estimate and asdict(estimate) for name, estimate in estimates.items()},
            "changes": {name: estimate and asdict(estimate) for name, estimate in changes.items()},
            "verdict": self.verdict,
        }


def write_report(config: LoopConfig, out: Path, evaluations: Sequence[HeldOut]) -> str:
    """Write `report.md` and `report.json`."""
    compared = {
        task: [Comparison(one.metrics[task], evaluations[0].metrics[task] if number else None)
               for number, one in enumerate(evaluations)]
        for task in evaluations[0].metrics
    }  # fmt: skip
    rows: dict[str, list[dict[str, Any]]] = {task: [] for task in compared}
    for number, evaluation in enumerate(evaluations):
        for log in evaluation.logs:
            link = os.path.relpath(log.location.removeprefix("file://"), out)
            row = {"round": number, "model": evaluation.subject.model, "log": link, "eval_id": log.eval.eval_id}
            row |= {"solver": evaluation.subject.solver} if evaluation.subject.solver else {}
            rows[log.eval.task].append(row | compared[log.eval.task][number].as_json())
    report = {"settings": config.hashed(), "tasks": rows}
    write_atomically(out / "report.json", json.dumps(report, indent=2) + "\n")
    write_atomically(out / "report.md", _markdown(config, compared, rows))
    return "\n".join(f"{task}, round {some[-1]['round']}: {some[-1]['verdict']}" for task, some in rows.items())


def _outcome(change: Estimate | None, lower_is_better: int = 1, unclear: str = "not clearly better than") -> str:
    sign = change.sign * lower_is_better if change else 0
    return {-1: "better than", 1: "worse than", 0: unclear}[sign]


def _lower_is_better(metrics: TaskMetrics) -> int:
    """1 if a lower primary score is better, -1 if a higher one is."""
    from truthgym.scorers.statistics.direction import direction

    scorer, _, key = str(metrics.primary).partition("/")
    return -1 if direction(scorer, key, {}) == "highest" else 1


def _parse_rate_fell(now: TaskMetrics, start: TaskMetrics) -> str | None:
    change, before, after = now.change(start, PARSE_RATE), start.mean(PARSE_RATE), now.mean(PARSE_RATE)
    if change and change.sign < 0 and before and after:
        return f"the parse rate fell from {before.value:.3f} to {after.value:.3f}"
    return None


def _scored_share_fell(now: TaskMetrics, start: TaskMetrics) -> str | None:
    before, primary = start.scored(), str(now.primary).partition("/")[0]  # the parse rate covers the primary scorer
    fell = [
        f"the share that {name} could score fell from {before[name]:.3f} to {share:.3f}"
        for name, share in now.scored().items()
        if name != primary and name in before and share <= before[name] - MAX_SCORED_DROP
    ]
    return "; ".join(fell) or None


def _unread_left_out(now: TaskMetrics, start: TaskMetrics) -> str | None:
    change = now.change(start, BRIER) if now.primary == BRIER else None
    total = len(now.values[BRIER].keys() | start.values[BRIER].keys())
    if not change or change.n == total:
        return None
    everything = paired_difference(now.unread_as_wrong(), start.unread_as_wrong())
    return (
        f"{total - change.n} of {total} questions are left out of the change, since one of the two models gave no "
        f"answer that could be parsed; with unread answers as wrong, the change is {_signed(everything)}"
    )


def _nothing_parsed(now: TaskMetrics, start: TaskMetrics) -> str | None:
    rate = now.mean(PARSE_RATE)
    return "no answer could be parsed" if rate and rate.value == 0 else None


def _same_answer(now: TaskMetrics, start: TaskMetrics) -> str | None:
    if now.sd_between is None or now.sd_between >= MIN_SD_BETWEEN:
        return None
    return f"it answers nearly the same to every question (between-question SD {now.sd_between:.3f})"


def _length_changed(now: TaskMetrics, start: TaskMetrics) -> str | None:
    for name in (TOKENS, WORDS):
        change, before, after = now.change(start, name), start.mean(name), now.mean(name)
        if change and change.sign and before and before.value and after and after.value is not None:
            ratio = after.value / before.value
            if ratio > MAX_LENGTH_RATIO or ratio < 1 / MAX_LENGTH_RATIO:
                return f"its replies went from {before.value:.1f} to {after.value:.1f} {name}"
    return None


def _updates_predictable(now: TaskMetrics, start: TaskMetrics) -> str | None:
    if not _excludes_zero(now, "martingale_score") or _excludes_zero(start, "martingale_score"):
        return None
    score = f"(martingale score {now.metrics['martingale_score']:+.3f})"
    if start.metrics.get("martingale_score") is None:
        return f"its updates are predictable; whether they were at the start is not identified {score}"
    return f"its updates have become predictable {score}"


def _entropy_collapsed(now: TaskMetrics, start: TaskMetrics) -> str | None:
    change, before, after = now.change(start, REPLY_NLL), start.mean(REPLY_NLL), now.mean(REPLY_NLL)
    if not change or change.sign >= 0 or not before or before.value is None or not after or after.value is None:
        return None
    if after.value >= MIN_NLL_RATIO * before.value:
        return None
    return f"its entropy collapsed: reply NLL from {before.value:.2f} to {after.value:.2f} nats"


WARNINGS: tuple[Callable[[TaskMetrics, TaskMetrics], str | None], ...] = (
    _parse_rate_fell,
    _scored_share_fell,
    _unread_left_out,
    _nothing_parsed,
    _same_answer,
    _length_changed,
    _updates_predictable,
    _entropy_collapsed,
)
"""Checks of a trained model against the start, each of which returns a warning or None."""

HEADER = ["round", "score", "from start", "from constant", "MDE", "questions", "parse rate", "reply NLL", "tokens",
          "words", "KL", "within-question SD", "between-question SD", "calibration slope", "resolution",
          "martingale score", "excess movement"]  # fmt: skip


def _markdown(config: LoopConfig, compared: dict[str, list[Comparison]], rows: dict[str, list[dict[str, Any]]]) -> str:
    parts = [
        f"# {Path(config.out).name}",
        f"`{config.model_name_or_path}` trained by {config.method}. Written by `truthgym loop`; report.json has all "
        "values.",
    ]
    for task, comparisons in compared.items():
        parts += [f"## {task}", "\n".join(f"- Round {row['round']}: {row['verdict']}" for row in rows[task])]
        parts += [markdown_table(HEADER, [[str(number), *_row(one)] for number, one in enumerate(comparisons)])]
        headlines = [[str(number), *cells] for number, one in enumerate(comparisons) for cells in _estimates(one)]
        parts += [
            markdown_table(["round", "metric", "value", "95 % interval", "MDE", "questions", "scored"], headlines)
        ]
    logs = [
        [str(row["round"]), f"`{row['model']}`", f"[{row['eval_id']}]({row['log']})"]
        for some in rows.values()
        for row in some
    ]
    return "\n\n".join([*parts, LEGEND, "## Logs", markdown_table(["round", "model", "log"], logs)]) + "\n"


def _row(comparison: Comparison) -> list[str]:
    metrics, start, constant = comparison.metrics, comparison.from_start, comparison.from_constant
    reference = start or constant
    means, kl = [metrics.mean(name) for name in REPLY_METRICS], metrics.mean(KL)
    return [
        _score(metrics),
        _signed(start),
        _signed(constant),
        format_number(reference.mde if reference else None),
        format_number(reference.n if reference else None, 0),
        *(
            format_number(mean.value if mean else None, places)
            for mean, places in zip(means, (3, 2, 1, 1), strict=True)
        ),
        format_number(kl.value if kl else None, 2),
        format_number(metrics.sd_within, 3),
        format_number(metrics.sd_between, 3),
        format_number(metrics.metrics.get("calibration_slope"), 2),
        format_number(metrics.metrics.get("resolution"), 3),
        _withformat_interval(metrics, "martingale_score") or _why_unidentified(metrics),
        _withformat_interval(metrics, "excess_movement"),
    ]


def _score(metrics: TaskMetrics) -> str:
    """The headline of the primary scorer; the mean over questions if the headline has no interval."""
    primary = str(metrics.primary)
    shown = next((row for row in metrics.headlines if primary.startswith(f"{row['scorer']}/")), {})
    mean = metrics.mean(primary) if metrics.primary else None
    if shown.get("lower") is None and mean:
        return f"{format_number(mean.value)} {format_interval(mean.lower, mean.upper)}".strip()
    return f"{format_number(shown.get('value'))} {format_interval(shown.get('lower'), shown.get('upper'))}".strip()


def _why_unidentified(metrics: TaskMetrics) -> str:
    """Why there is no martingale score, and the published least squares estimate, which noise biases downwards."""
    known = metrics.metrics
    reasons = [name.removeprefix(UNIDENTIFIED).replace("_", " ") for name in known if name.startswith(UNIDENTIFIED)]
    if not reasons:
        return ""
    reliability, ols = format_number(known.get("reliability"), 2), format_number(known.get("martingale_score_ols"), 3)
    return f"not identified: {', '.join(reasons)} (reliability {reliability}; least squares {ols})"


def _estimates(comparison: Comparison) -> list[list[str]]:
    return [
        [f"{row['scorer']}/{row['metric']}", format_number(row.get("value")),
         format_interval(row.get("lower"), row.get("upper")), format_number(row.get("mde")),
         format_number(row.get("n"), 0), format_number(row.get("scored"), 3)]
        for row in comparison.metrics.headlines
    ]  # fmt: skip


def _bounds(metrics: TaskMetrics, name: str) -> tuple[float | None, float | None]:
    return metrics.metrics.get(f"{name}_lower"), metrics.metrics.get(f"{name}_upper")


def _excludes_zero(metrics: TaskMetrics, name: str) -> bool:
    lower, upper = _bounds(metrics, name)
    return lower is not None and upper is not None and (lower > 0 or upper < 0)


def _withformat_interval(metrics: TaskMetrics, name: str) -> str:
    return f"{format_number(metrics.metrics.get(name), 3)} {format_interval(*_bounds(metrics, name))}".strip()


def _bounded(change: Estimate | None) -> bool:
    return change is not None and change.lower is not None


def _signed(change: Estimate | None) -> str:
    if not change or change.value is None:
        return ""
    return f"{change.value:+.4f} {format_interval(change.lower, change.upper)}".strip()

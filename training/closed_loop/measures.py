"""Metrics of one model on one held-out task, question by question, so that two models can be compared in pairs.

Beside the scores: the share of the answers that could be parsed, the length of replies, and their negative
log-likelihood (NLL) in nats. Inspect's `hf` provider logs the log-probability of the likeliest token instead of the
sampled one, and counts each reply as long as the longest of its batch. So a local model scores its own replies again,
in the conversations of the log, by teacher forcing (`models.logprobs.local`).
"""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from truthgym.evallog.reader import LogReader
from truthgym.models.logprobs.local import token_logprobs
from truthgym.scorers.statistics.direction import direction, numbers
from truthgym.scorers.statistics.interval import Estimate
from truthgym.scorers.statistics.paired import RunValues, compare_means
from truthgym.solvers.thoughts import with_opening_tag
from truthgym.training.evaluations import figures
from truthgym.training.files import write_atomically

if TYPE_CHECKING:
    from inspect_ai.event import ModelEvent
    from inspect_ai.log import EvalLog, EvalSample
    from inspect_ai.model import Model
    from inspect_ai.scorer import SampleScore, Score

BRIER = "brier/brier_score"
PARSE_RATE, REPLY_NLL, TOKENS, WORDS = "parse_rate", "reply_nll", "tokens", "words"
KL = "kl"
"""KL divergence from the start on the tokens of replies, in nats a sample: the mean over the model's own replies of
its log-probability minus the start's. 0 or more but for sampling error."""
REPLY_METRICS = (PARSE_RATE, REPLY_NLL, TOKENS, WORDS)
LOG_METRICS = {
    "brier": ("brier_of_mean", "calibration_slope", "resolution"),
    "martingale": (
        *("martingale_score", "martingale_score_lower", "martingale_score_upper", "martingale_score_ols"),
        *("excess_movement", "excess_movement_lower", "excess_movement_upper", "reliability"),
    ),
}
"""Metrics that the report shows next to each scorer's estimate. The log holds the scores that they come from."""
SKIPPED_FIELDS = {"store", "timelines"}
REPLY_NLL_FILE = "reply_nll.json"
START_NLL_FILE = "start_nll.json"
"""The same replies, scored by the model that the loop started from."""
READ_BATCH = 32
"""Replies that are read before a forward pass: the default batch size of Inspect's hf."""
Reply = tuple[str, list[int], list[int]]
"""A sample's uuid, the prompt's tokens, the reply's tokens."""


@dataclass
class TaskMetrics:
    """One model on one task."""

    estimates: list[dict[str, Any]] = field(default_factory=list)
    """Each scorer's first metric with interval, mde, n and share scored, see `evaluations.figures`."""
    metrics: dict[str, float | None] = field(default_factory=dict)
    """`LOG_METRICS`, and those that start with `REASON`: why there is no score or no verdict."""
    primary: str = ""
    """The score that models are compared by: `brier/brier_score`, or the first score with a known direction."""
    run: RunValues = field(default_factory=RunValues)
    """By score (`brier/brier_score`) or by `REPLY_METRICS`."""
    constant: dict[str, list[float]] = field(default_factory=dict)
    """The Brier score of the best constant answer to each question, which is their share of yes."""
    share_yes: float | None = None
    sd_within: float | None = None
    """Pooled standard deviation of the belief over the epochs of a question; 0 if the epochs always agree."""
    sd_between: float | None = None
    """Standard deviation over questions of the mean belief; 0 if all questions get the same answer."""

    def mean(self, name: str) -> Estimate:
        """The mean over questions of a metric; its `n` is 0 if there is no value."""
        return self.run.mean(name)

    def change(self, start: "TaskMetrics", name: str) -> Estimate:
        """The paired difference of a metric from another model."""
        return self.run.change(start.run, name).difference

    @property
    def from_constant(self) -> Estimate:
        """The paired difference of the Brier score from the best constant answer's."""
        return compare_means(self.run.values.get(BRIER, {}), self.constant, self.run.events, (0, 1), BRIER).difference

    def unread_as_wrong(self) -> dict[str, list[float]]:
        """The Brier scores of each question, 1 for an answer that could not be parsed."""
        return {
            question: [1.0 if math.isnan(score) else score for score in scores]
            for question, scores in self.run.values.get(BRIER, {}).items()
        }

    def scored(self) -> dict[str, float]:
        """The share of the samples that each scorer could score."""
        return {row["scorer"]: row["scored"] for row in self.estimates if row.get("scored") is not None}


def measure_log(log: "EvalLog", folder: Path) -> TaskMetrics:
    """Read the metrics of a held-out log, whose replies were scored again in `folder` if the model is local."""
    from inspect_ai.log import read_eval_log_samples
    from inspect_ai.scorer import SampleScore

    from truthgym.scorers.declaration import REASON
    from truthgym.tasks.domain_task import SCORER_BY_NAME

    task = TaskMetrics(list(figures(LogReader(log.location.removeprefix("file://")))))
    reply_nll, start_nll = read_reply_nll(folder), read_reply_nll(folder, START_NLL_FILE)
    skipped = SKIPPED_FIELDS | {"events"} if reply_nll else SKIPPED_FIELDS  # events are most of a log
    scored: dict[str, list[SampleScore]] = defaultdict(list)
    for sample in read_eval_log_samples(
        log.location, all_samples_required=False, resolve_attachments=True, exclude_fields=skipped
    ):
        if sample.invalidation:
            continue
        scores = {key: value for name, score in (sample.scores or {}).items() for key, value in _directed(name, score)}
        if scores and not task.primary:
            task.primary = BRIER if BRIER in scores else next(iter(scores))
        nll, tokens = reply_nll.get(str(sample.uuid)) or logged_reply_nll(sample)
        words = sum(len(message.text.split()) for message in sample.messages if message.source == "generate")
        values: dict[str, float | None] = {**scores, REPLY_NLL: nll, TOKENS: tokens, WORDS: words}
        if nll is not None and (by_start := start_nll.get(str(sample.uuid))) and by_start.nll is not None:
            values[KL] = by_start.nll - nll
        if task.primary in scores:
            values[PARSE_RATE] = float(not math.isnan(scores[task.primary]))
        numeric = {name: math.nan if value is None else float(value) for name, value in values.items()}
        task.run.add(str(sample.id), numeric, str(sample.metadata.get("event", sample.id)))
        for scorer, score in (sample.scores or {}).items():
            if scorer in LOG_METRICS:
                scored[scorer].append(SampleScore(score=score, sample_id=sample.id))
    for scorer, names in LOG_METRICS.items():
        for name, metric in SCORER_BY_NAME[scorer].figures(scored[scorer]).items() if scored[scorer] else ():
            if name in names or name.startswith(REASON):
                task.metrics[name] = None if math.isnan(metric) else float(metric)
    if scored["brier"]:
        _measure_beliefs(task, scored["brier"])
    return task


def _directed(scorer: str, score: "Score") -> list[tuple[str, float]]:
    """The numbers of a score with a known direction, by `scorer/key`."""
    return [
        (f"{scorer}/{key}", value)
        for key, value in numbers(scorer, score.value).items()
        if direction(scorer, key, score.metadata or {})
    ]


def _measure_beliefs(task: TaskMetrics, scores: "list[SampleScore]") -> None:
    """Compute the best constant answer, and how beliefs vary within and between questions."""
    import numpy as np

    from truthgym.scorers.statistics.proper_scores import brier_score, row_mean
    from truthgym.scorers.statistics.table import tabulate

    table = tabulate(scores, "belief")
    resolved = np.isfinite(table.outcome)
    if resolved.any():
        task.share_yes = float(table.outcome[resolved].mean())
        constant = brier_score(task.share_yes, table.outcome)
        task.constant = {question: [float(score)] for question, score in zip(table.question, constant, strict=True)}
    mean = row_mean(table.values)
    repeated = np.isfinite(table.values).sum(axis=1) > 1
    if repeated.any():
        variances = np.array([np.nanvar(row, ddof=1) for row in table.values[repeated]])
        task.sd_within = float(np.sqrt(variances.mean()))
    if np.isfinite(mean).sum() > 1:
        task.sd_between = float(np.nanstd(mean, ddof=1))


class ReplyNLL(NamedTuple):
    """The sum over all replies of a sample."""

    nll: float | None
    """Negative log-likelihood in nats (natural logarithm), 0 or more. None if unknown."""
    tokens: int | None
    """None if unknown."""


def reply_events(sample: "EvalSample") -> "list[ModelEvent]":
    """The model calls whose replies are in a sample's conversation, which excludes those of scorers and judges."""
    from inspect_ai.event import ModelEvent

    ids = {message.id for message in sample.messages if message.role == "assistant"}
    calls = [event for event in sample.events if isinstance(event, ModelEvent) and not event.role]
    return [event for event in calls if event.output.choices and event.output.message.id in ids]


def logged_reply_nll(sample: "EvalSample") -> ReplyNLL:
    """The NLL from the log's log-probabilities, if they were requested, and the tokens as the provider counted them."""
    nll, tokens = 0.0, 0
    has_nll = has_tokens = bool(events := reply_events(sample))
    for event in events:
        logprobs = event.output.choices[0].logprobs
        has_nll = has_nll and logprobs is not None and not event.model.startswith("hf/")
        has_tokens = has_tokens and event.output.usage is not None and not event.model.startswith("hf/")
        nll -= sum(part.logprob for part in logprobs.content) if logprobs else 0.0
        tokens += event.output.usage.output_tokens if event.output.usage else 0
    return ReplyNLL(nll if has_nll else None, tokens if has_tokens else None)


def write_reply_nll(model: "Model", logs: "Sequence[EvalLog]", folder: Path, file: str = REPLY_NLL_FILE) -> None:
    """Score a local model's replies again and write the result into `reply_nll.json`."""
    from inspect_ai.log import read_eval_log_samples

    sums: dict[str, list[float]] = {}
    for log in logs:
        batch: list[Reply] = []
        for sample in read_eval_log_samples(log.location, all_samples_required=False, resolve_attachments=True):
            batch += [(str(sample.uuid), *_tokenize(model, event)) for event in reply_events(sample)]
            if len(batch) >= READ_BATCH:
                _add_nll(model, batch, sums)
                batch = []
        _add_nll(model, batch, sums)
    write_atomically(folder / file, json.dumps(sums))


def has_reply_nll(folder: Path, file: str = REPLY_NLL_FILE) -> bool:
    """Whether `write_reply_nll` has finished in this folder."""
    return (folder / file).is_file()


def read_reply_nll(folder: Path, file: str = REPLY_NLL_FILE) -> dict[str, ReplyNLL]:
    """Read what `write_reply_nll` wrote, by the sample's uuid. Empty if there is no file."""
    if not has_reply_nll(folder, file):
        return {}
    sums = json.loads((folder / file).read_text(encoding="utf-8"))
    return {uuid: ReplyNLL(nll, int(tokens)) for uuid, (nll, tokens) in sums.items()}


def _tokenize(model: "Model", event: "ModelEvent") -> tuple[list[int], list[int]]:
    """The tokens of a call's prompt and of its reply, including the reply's end token unless it was cut off."""
    api: Any = model.api
    chat = api.hf_chat(event.input, event.tools)
    prompt = api.tokenizer(chat, **api.tokenizer_call_args)["input_ids"]
    text = event.output.completion.removeprefix(with_opening_tag("", chat))  # that tag is in the prompt already
    reply = api.tokenizer(text, add_special_tokens=False)["input_ids"]
    max_tokens = event.config.max_tokens
    return prompt, reply if max_tokens and len(reply) >= max_tokens else [*reply, api.tokenizer.eos_token_id]


def _add_nll(model: "Model", replies: Sequence[Reply], sums: dict[str, list[float]]) -> None:
    api: Any = model.api
    scored = token_logprobs(api.model, [(prompt, reply) for _, prompt, reply in replies])
    for (uuid, _, reply), logprobs in zip(replies, scored, strict=True):
        total = sums.setdefault(uuid, [0.0, 0])
        total[0], total[1] = total[0] - sum(logprobs), total[1] + len(reply)

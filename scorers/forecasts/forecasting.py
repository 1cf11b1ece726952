"""A forecaster's log-probability of an observation: prompts with a note, without it and with a placebo; uplifts."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageTool, ChatMessageUser, Model
from inspect_ai.scorer import SampleScore
from inspect_ai.tool import ToolCall
from inspect_ai.util import span
from numpy.typing import NDArray

from truthgym.datasets.rated_trajectories import rated_trajectories
from truthgym.models.predictor import reply_logprobs
from truthgym.scorers.beliefs.escaping import material
from truthgym.scorers.beliefs.record import digest_of_model, digest_of_request
from truthgym.scorers.judges.asking import ask_for_text
from truthgym.scorers.statistics.interval import MIN_CLUSTERS, Estimate, mean_estimate, ratio_estimate
from truthgym.scorers.statistics.proper_scores import row_mean
from truthgym.scorers.statistics.table import tabulate

Template = Literal["vanilla", "rephrase", "toolcall"]
Placebo = Literal["text", "shuffled", "question"]
PLACEBOS: tuple[Placebo, ...] = get_args(Placebo)
CONTROLS = (*PLACEBOS, "exchanged")
"""What an answer is compared with: the placebos, and the other answers."""
ABOUT = "A question was asked:\n\n{question}"
NOTE = "Somebody wrote this about it:\n\n{note}"
TASK = "Later an investigator had this task: {task}"
REPORT = "Report in one sentence what the investigator found."
TOOLS = (
    "The investigator could search the web and run commands in a shell. The report was then written anew in plain "
    "words, by somebody who had not seen what was written above."
)
CAN_READ = "The investigator has completed the task. The tool {tool} shows the report; quote it word for word."
TOOL = "read_report"
READS = "I read the investigator's report."
SHOWN = "The report has been opened. It says, word for word:"
REPHRASE = (
    "Rewrite this report in one plain sentence. Keep every fact and every figure, and add none. Reply with the "
    "sentence alone.\n\n{report}"
)


def messages(template: Template, question: str, task: str, note: str | None) -> list[ChatMessage]:
    """The conversation after which a forecaster's reply is the observation."""
    parts = [ABOUT.format(question=question)]
    if note is not None:
        parts.append(NOTE.format(note=material("note", note)))
    parts.append(TASK.format(task=task))
    if template == "toolcall":
        call = ToolCall(id="report", function=TOOL, arguments={"task": task})
        return [
            ChatMessageUser(content="\n\n".join([*parts, CAN_READ.format(tool=TOOL)])),
            ChatMessageAssistant(content=READS, tool_calls=[call]),
            ChatMessageTool(content=SHOWN, tool_call_id=call.id, function=TOOL),
        ]
    parts += [TOOLS, REPORT] if template == "rephrase" else [REPORT]
    return [ChatMessageUser(content="\n\n".join(parts))]


def placebo_text(kind: Placebo, note: str, question: str, *key: object) -> str:
    """A text of a note's length, in characters and up to a word, that says nothing about its question."""
    rng = random.Random(repr(key))
    words = [] if kind == "text" else [word for word in {"shuffled": note}.get(kind, question).split() if _plain(word)]
    rng.shuffle(words)
    if not words:
        texts = [row.trajectory for row in rated_trajectories()]
        rng.shuffle(texts)
        for text in texts:
            if sum(len(word) + 1 for word in words) <= len(note):
                words += text.split()
    words *= 1 + len(note) // sum(len(word) + 1 for word in words)
    return _cut(words, len(note))


def _plain(word: str) -> bool:
    return not any(letter.isdigit() for letter in word)


def first_tokens(note: str, tokens: int, budget: int) -> str:
    """The beginning of a note with about so many of its tokens, up to a word."""
    return note if tokens <= budget else _cut(note.split(), len(note) * budget / tokens)


def _cut(words: list[str], most: float) -> str:
    length = -1
    for number, word in enumerate(words):
        length += len(word) + 1
        if number and length > most:
            return " ".join(words[:number])
    return " ".join(words)


Per = Literal["observation", "token", "1000_tokens"]
KEYS = (
    "world_uplift", "uplift", "placebo_uplift", *(f"placebo_{kind}" for kind in PLACEBOS),
    "observation_tokens", "tokens", "copied", "log_odds", "log_odds_with",
)  # fmt: skip
"""The keys of a sample's value. Those of budgets follow: `uplift_at_B`."""
COPIED = 0.5
"""An answer with a larger `copied_share` of the observation counts as copied."""
COPIED_WORDS = 4
"""Words in a row that count as copied."""
OVERLAP_WORDS = 6
"""Words that an observation needs for its single words to count: those of "Yes, it is so." stand in any text."""
WORD = re.compile(r"\w+")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """The answers of one model, or the means of several."""

    question: Sequence[str]
    cluster: Sequence[str]
    columns: Mapping[str, Floats]
    """Means over epochs, by name: "net", the smallest of the net uplifts; one for each placebo, net of it;
    "exchanged", see `over_exchanged`; "not_copied"; "uplift", "placebo", and the budgets' keys, all in nats per
    observation. Of those that are net also "NAME per token" and "NAME tokens", the length of the answers that have
    a value."""

    def mean(self, column: str, per: Per = "observation") -> Estimate:
        """The mean of a column over the questions, clustered by event."""
        if per == "1000_tokens":
            return ratio_estimate(1000 * self.columns[column], self.columns[f"{column} tokens"], self.cluster)
        return mean_estimate(self.columns[f"{column} per token" if per == "token" else column], self.cluster)


def answers_of(scores: Sequence[SampleScore], budgets: Sequence[int]) -> dict[str, Answers]:
    """The answers of each model by its name, or with a number where a model has several tasks or solvers."""
    setups: dict[tuple[str, str], list[SampleScore]] = {}
    for item in scores:
        about = item.score.metadata or {}
        question = SampleScore(score=item.score, sample_id=about.get("question") or item.sample_id)
        setups.setdefault((str(about.get("model") or ""), str(about.get("setup") or "")), []).append(question)
    setups = setups or {("", ""): []}
    models = [model for model, _ in setups]
    return {
        f"{model} {setup}" if models.count(model) > 1 else model: _answers(setups[model, setup], budgets)
        for model, setup in sorted(setups)
    }


def _answers(scores: list[SampleScore], budgets: Sequence[int]) -> Answers:
    keys = [*KEYS, *(f"uplift_at_{budget}" for budget in budgets)]
    tables = {key: tabulate(scores, key, most=np.inf, least=-np.inf) for key in keys}
    values = {key: table.values for key, table in tables.items()}
    net: dict[str, NDArray[np.float64]] = {kind: values["uplift"] - values[f"placebo_{kind}"] for kind in PLACEBOS}
    net["net"] = np.min(list(net.values()), axis=0)
    net["exchanged"] = over_exchanged(
        values["log_odds"], values["log_odds_with"], tables["uplift"].outcome, tables["uplift"].cluster
    )
    net["not_copied"] = np.where(values["copied"] > COPIED, np.nan, net["net"])
    columns = net | {"uplift": values["uplift"], "placebo": values["uplift"] - net["net"]}
    columns |= {key: values[key] for key in keys[len(KEYS) :]}
    columns |= {f"{name} per token": column / values["observation_tokens"] for name, column in net.items()}
    columns |= {f"{name} tokens": np.where(np.isnan(net[name]), np.nan, values["tokens"]) for name in net}
    table = tables["uplift"]
    return Answers(table.question, table.cluster, {name: row_mean(column) for name, column in columns.items()})


def over_exchanged(before: Floats, after: Floats, outcome: Floats, cluster: Sequence[str]) -> Floats:
    r"""Uplift of each answer over that of the other answers, had each been given to this question. In nats.

    An answer that says the same about any question can still help: it moves a forecaster that is biased, or too sure.
    That is a function of the forecaster's own log-odds b. So the log-odds a with the answers are fitted by a line in b
    (least squares, no outcome is used), and the residuals e are exchanged between clusters. With s the sign of the
    outcome, question i gains by its own answer over that of question j

    $$g_{ij}=\ln\sigma(s_ia_i)-\ln\sigma(s_i(a_i-e_i+e_j)),$$

    and its value is $\bar g_{i\cdot}+\bar g_{\cdot i}-\theta$, with $\theta$ half of the mean of the first two: the
    terms of a U-statistic. It is 0 on average where answers know nothing about their questions. Log-odds are questions
    x epochs, before and after the answer; NaN with fewer than three events.
    """
    result = np.full(before.shape, np.nan)
    codes = np.unique(cluster, return_inverse=True)[1] if len(cluster) else np.zeros(0, dtype=int)
    for epoch in range(before.shape[1]):
        rows = np.flatnonzero(np.isfinite(before[:, epoch] + after[:, epoch] + outcome))
        if np.unique(codes[rows]).size < MIN_CLUSTERS:
            continue
        sign = 2 * outcome[rows] - 1
        design = np.column_stack([np.ones(rows.size), before[rows, epoch]])
        fitted = design @ np.linalg.lstsq(design, after[rows, epoch])[0]
        residual = after[rows, epoch] - fitted
        own = -np.logaddexp(0, -sign * after[rows, epoch])
        given, lent = np.zeros(rows.size), np.zeros(rows.size)
        others = np.array([np.sum(codes[rows] != code) for code in codes[rows]])
        for row, code in enumerate(codes[rows]):  # a row at a time: a matrix of 10,000 questions takes 800 MB
            gain = own[row] + np.logaddexp(0, -sign[row] * (fitted[row] + residual))
            gain[codes[rows] == code] = 0.0
            given[row] = gain.sum() / others[row]
            lent += gain
        both = given + lent / others
        result[rows, epoch] = both - both.mean() / 2
    return result.round(12)


def mean_of_models(models: Sequence[Answers]) -> Answers:
    """The mean over models of the questions that each of them answered."""
    rows = [dict(zip(model.question, range(len(model.question)), strict=True)) for model in models]
    first = models[0]
    common = [question for question in first.question if all(question in row for row in rows)]
    places = [[row[question] for question in common] for row in rows]
    columns = {
        name: np.mean([model.columns[name][place] for model, place in zip(models, places, strict=True)], axis=0)
        for name in first.columns
    }
    return Answers(common, [first.cluster[row] for row in places[0]], columns)


def copied_share(text: str, observation: str, context: str) -> float:
    """Share of an observation that stands in a text and not in the context, which the text's writer could know.

    The larger of two: of its runs of four words; and, of six words or more, of its words in any order within a stretch
    of the text half as long again, or of those that are new, whichever is less: a copy with some words changed still
    counts.

    >>> copied_share("He says the turnout was 84.6 percent.", "The turnout was 84.6 percent.", "")
    1.0
    >>> copied_share("Turnout reportedly reached 84.6 percent.", "The turnout was 84.6 percent.", "")
    0.6666666666666666
    """
    share = copied_runs(text, observation, context)
    of_it, of_text = _words(observation), _words(text)
    every, new = set(of_it), set(of_it) - set(_words(context))
    if len(of_it) < OVERLAP_WORDS or not new or np.isnan(share):
        return share
    stretch = len(of_it) + len(of_it) // 2
    for start in range(max(1, len(of_text) - stretch + 1)):
        shared = every.intersection(of_text[start : start + stretch])
        share = max(share, min(len(shared) / len(every), len(shared & new) / len(new)))
    return share


def copied_runs(text: str, observation: str, context: str) -> float:
    """Share of an observation's runs of four words that stand in a text and not in the context. NaN without one."""
    new = _runs(observation) - _runs(context)
    return len(new & _runs(text)) / len(new) if new else np.nan


def _words(text: str) -> list[str]:
    return [word.casefold() for word in WORD.findall(text)]


def _runs(text: str) -> set[tuple[str, ...]]:
    words = _words(text)
    return {tuple(words[i : i + COPIED_WORDS]) for i in range(len(words) - COPIED_WORDS + 1)}


NOT_YET = "Its uplift was not computed yet; score with redo=uplift."


@dataclass(frozen=True)
class Forecast:
    """How likely an observation was to a forecaster. Recorded in `Score.metadata["forecasts"]`."""

    total: float
    """Log-probability, in nats; with an opposite, of the observation if it is one of the two. NaN if there is none."""
    count: int
    """Tokens of the observation."""
    tokens: Sequence[Sequence[str | float]]
    """Text and log-probability of each. Their sum is `total` if there is no opposite."""
    request: str
    """Digests of the conversation with the observation, and of the forecaster."""
    reason: str | None = None

    def record(self) -> dict[str, Any]:
        return {**vars(self), "total": None if np.isnan(self.total) else self.total}


async def forecast(
    model: Model,
    messages: Sequence[ChatMessage],
    observation: str,
    opposite: str | None,
    recorded: Mapping[str, Any] | None,
    ask: bool,
) -> Forecast:
    """The log-probability of an observation after a conversation. One model call, or none if it is recorded."""
    replies = [observation, *([opposite] if opposite else [])]
    words = [(message.role, message.text) for message in messages] + [("reply", reply) for reply in replies]
    request = f"{digest_of_request(words, 0)}-{digest_of_model(model)}"
    if recorded and recorded.get("request") == request:
        return Forecast(**recorded)
    if not ask:
        return Forecast(np.nan, 0, (), request, NOT_YET)
    async with span("forecast", type="truthgym.forecast"):
        logprobs = await reply_logprobs(model, messages, replies, "teacher_forced")
    reason = next((f"The forecaster: {reply.reason}" for reply in logprobs if np.isnan(reply.total)), None)
    total = np.nan if reason else logprobs[0].total
    if opposite and not reason:
        total -= np.logaddexp(logprobs[0].total, logprobs[1].total)
    tokens: list[list[str | float]] = [[text, logprob] for text, logprob in logprobs[0].tokens]
    return Forecast(float(total), logprobs[0].count, tokens, request, reason)


def log_odds(logprob: float) -> float:
    """Log-odds of an event from its log-probability, at most 30 in size."""
    return float(np.clip(-np.log(np.expm1(-min(logprob, -1e-14))), -30, 30))


async def rephrase(model: Model, observation: str) -> tuple[str | None, str | None]:
    """An observation in other words, for the template of that name. One model call, cached."""
    request = REPHRASE.format(report=material("report", observation))
    text, reason = await ask_for_text(model, request, epoch=1, name="rephrase")
    return (None, f"It could not be rephrased: {reason}") if text is None else (" ".join(text.split()), None)

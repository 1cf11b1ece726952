"""Answers of several models to the same questions, read from finished logs."""

import json
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from inspect_ai.log import EvalSample, read_eval_log
from inspect_ai.util import Store
from pydantic import ValidationError

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import NEUTRAL, Question, arm_of
from truthgym.datasets.redaction import redact, redacted
from truthgym.evallog.discovery import LogFile, find_logs
from truthgym.models.agents.predictor import SIDES
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.scorers.judges.asking import VENDORS, model_vendor
from truthgym.solvers.thoughts import split_thought
from truthgym.solvers.trajectory import recorded_answer, recorded_end

Form = Literal["short", "text"]
"""What of an answer is shown and predicted: the side on which its belief is, "Yes" or "No"; or its text."""
OWN_TASKS = ("mutual_prediction", "world_in_the_loop")
"""Tasks whose logs hold predictions of answers, and no answers."""
RUN_ARGUMENTS = ("n", "seed", "paradigms", "figures")
"""Arguments of tasks that say which questions are asked and how answers are scored: they change no answer."""
RUN_CONFIG = (
    "max_retries", "timeout", "attempt_timeout", "stream_idle_timeout", "max_connections", "adaptive_connections",
    "cache", "cache_prompt", "batch",
)  # fmt: skip
"""Settings of model calls that change no answer."""
MIN_WORDS = 5
"""Words that two replies need, beside numbers, yes and no, to count as the same reply."""
COPIES = 0.2
"""Share of the common questions with the same reply from which two models count as one."""
BELIEF = re.compile(r"\\finalBeliefProb\{[^{}]*\}|\d+(?:\.\d+)?\s*%?|\b(?:yes|no|not)\b", re.IGNORECASE)
"""What of a reply says yes or no. Without it, two replies can be compared whether or not they agree."""


@dataclass(frozen=True)
class Answer:
    shown: str
    """As predictors see it: "Yes", "No" or a text."""
    text: str

    @cached_property
    def wording(self) -> str:
        """The reply without its belief, numbers, yes and no."""
        return " ".join(BELIEF.sub(" ", self.text).split())


@dataclass
class Respondent:
    name: str
    """The model, with the setting where the logs have several of this model."""
    model: str
    logs: list[LogFile] = field(default_factory=list)
    """Newest first."""
    answers: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    """By question: the answers that could be read, of all epochs of the newest log that has the question."""
    uuids: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By question: the samples, also those that could not be read."""
    asked_in: dict[str, LogFile] = field(default_factory=dict)
    """By question: the log that has it."""
    unread: dict[str, str] = field(default_factory=dict)
    """By question: why no answer to it could be read."""

    @property
    def family(self) -> str:
        """The model's vendor, or where its name does not tell one, the name. Models of a vendor may share training."""
        vendor = model_vendor(self.model)
        return vendor if vendor in VENDORS else self.model.rpartition("/")[2].lower()

    @cached_property
    def wordings(self) -> Counter[str]:
        """Number of questions with a reply of this wording. More than one is a form, whatever the question."""
        return Counter(wording for replies in self.answers.values() for wording in {reply.wording for reply in replies})

    def command(self, questions: LogFile, model: str = "") -> str:
        """The command that asks this model in its setting, or another `model`, the questions of a log."""
        log = self.logs[0]
        run, task = log.header.eval, questions.header.eval
        words = ["inspect eval", task.task, *_options("-T", task.task_args)]
        words += [f"--solver {run.solver}"] if run.solver else []
        words += _options("-S", run.solver_args or {})
        if model:
            return " ".join([*words, "--model", model])
        words += ["--model", run.model, *_options("-M", run.model_args)]
        words += [f"--model-base-url {run.model_base_url}"] if run.model_base_url else []
        words += [
            f"--{name.replace('_', '-')} {shlex.quote(str(value))}"
            for name, value in _generate_config(log).items()
            if isinstance(value, int | float | str) and not isinstance(value, bool)
        ]
        words += [f"--epochs {run.config.epochs}"] if run.config.epochs else []
        return redact(" ".join([*words, f"--log-dir {shlex.quote(str(Path(log.path).parent))}"]))


@dataclass
class Answers:
    """The respondents, and what they were asked."""

    respondents: list[Respondent]
    questions: dict[str, tuple[str, Question]]
    """By id: the text as asked, and the question."""
    left_out: Counter[str]
    """Number of logs and samples that are not used, by reason."""

    def missing(self) -> list[str]:
        """The commands that ask each model the questions that others were asked in the same task and setting."""
        commands = []
        for respondent in self.respondents:
            tasks = {_setting(log) for log in respondent.logs}
            absent: dict[str, list[str]] = defaultdict(list)
            logs: dict[str, LogFile] = {}
            answered_ids = set(respondent.uuids)
            for other in self.respondents:
                for name, log in other.asked_in.items():
                    if name not in answered_ids and _setting(log) in tasks:
                        answered_ids.add(name)
                        logs[log.path] = log
                        absent[log.path].append(name)
            commands += [
                f"{respondent.command(logs[path])} --sample-id {shlex.quote(','.join(names))}"
                for path, names in absent.items()
            ]
        return commands

    @cached_property
    def copies(self) -> dict[frozenset[str], float]:
        """Pairs of respondents that count as one, by their names: the share of common questions with the same reply."""
        pairs = {}
        for first, second in combinations(self.respondents, 2):
            common = first.answers.keys() & second.answers.keys()
            same = sum(
                any(is_copy(first, a, second, b) for a in first.answers[name] for b in second.answers[name])
                for name in common
            )
            if first.model != second.model and common and same / len(common) >= COPIES:
                pairs[frozenset((first.name, second.name))] = same / len(common)
        return pairs


def is_copy(first: Respondent, first_reply: Answer, second: Respondent, second_reply: Answer) -> bool:
    """Whether two replies to one question have the same words, which neither model uses for other questions."""
    wording = first_reply.wording
    unique = first.wordings[wording] <= 1 and second.wordings[wording] <= 1
    return wording == second_reply.wording and unique and len(wording.split()) >= MIN_WORDS


def read_answers(places: Sequence[str], form: Form) -> Answers:
    """Read the answers of all finished logs; of each model, setting and question those of the newest log."""
    logs, left_out = find_logs(places)
    settings: dict[str, Respondent] = {}
    questions: dict[str, tuple[str, Question]] = {}
    for log in logs:  # newest first
        run = log.header.eval
        if run.task.rpartition("/")[2] in OWN_TASKS:
            left_out["logs of predictions"] += 1
            continue
        key = repr((run.model, run.model_args, run.model_base_url, log.solver, _generate_config(log), _setting(log)))
        _add(settings.setdefault(key, Respondent(run.model, run.model)), log, form, questions, left_out)
    respondents = _name_by_setting([setting for setting in settings.values() if setting.uuids])
    if not any(respondent.answers for respondent in respondents):
        unread = left_out + Counter(reason for respondent in respondents for reason in respondent.unread.values())
        reasons = "; ".join(f"{number} {reason}" for reason, number in unread.items())
        raise BadInput(
            f"answers={','.join(places)}: no answer can be read in these logs ({reasons or 'they have no samples'}); "
            + ("name logs of yes-or-no questions, or use -T form=text" if form == "short" else "name other logs")
        )
    return Answers(respondents, questions, left_out)


def _add(
    respondent: Respondent, log: LogFile, form: Form, questions: dict[str, tuple[str, Question]], left_out: Counter[str]
) -> None:
    """Add what a log says, except answers to questions that a newer log has."""
    respondent.logs.append(log)
    for item in read_eval_log(log.path, exclude_fields={"events", "attachments"}).samples or []:
        reason = _unusable(item)
        name = str(item.id)
        if not reason and respondent.asked_in.get(name, log) is not log:
            reason = "answers of which there are newer ones"
        if not reason:
            text = item.input if isinstance(item.input, str) else item.input[-1].text
            question = Question.model_validate(item.metadata)
            if form == "short" and not question.proposition:
                reason = "answers to a question that is not of yes or no"
            elif questions.setdefault(name, (text, question))[0] != text:
                reason = "answers to another question with the same id"
        if reason:
            left_out[reason] += 1
            continue
        respondent.asked_in[name] = log
        respondent.uuids[name].append(str(item.uuid))
        reason, answer = _answer(item, form)
        if answer:
            respondent.answers[name].append(answer)
            respondent.unread.pop(name, None)
        elif name not in respondent.answers:
            respondent.unread[name] = reason


def _unusable(item: EvalSample) -> str:
    """Why a sample is no answer that a model could be credited with or blamed for. Empty if it is one."""
    try:
        Question.model_validate(item.metadata)
    except ValidationError:
        return "samples without a Truthgym question"
    if arm_of(item.metadata) != NEUTRAL:
        return "answers to a question with an opinion"
    if item.invalidation:
        return "samples that were invalidated"
    return "samples that failed" if item.error else ""


def _answer(item: EvalSample, form: Form) -> tuple[str, Answer | None]:
    store = Store(item.store)
    text = split_thought(recorded_answer(store) or ("" if recorded_end(store) else item.output.completion))[1] or ""
    if not text.strip():
        return "samples without an answer", None
    if form == "text":
        return "", Answer(text.strip(), text)
    belief = read_belief(text, decimal=True)
    if belief is None:
        return "answers that state no belief", None
    if belief == 0.5:
        return "answers of one half", None
    return "", Answer(SIDES[0] if belief > 0.5 else SIDES[1], text)


def _setting(log: LogFile) -> str:
    """The task with those of its arguments that change answers."""
    run = log.header.eval
    return " ".join([run.task.removeprefix("truthgym/"), *_words(run.task_args, RUN_ARGUMENTS)])


def _generate_config(log: LogFile) -> dict[str, Any]:
    config = log.header.eval.model_generate_config
    return {name: value for name, value in sorted(config.items()) if value is not None and name not in RUN_CONFIG}


def _words(arguments: Mapping[str, Any], but: Sequence[str] = ()) -> list[str]:
    return [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in sorted(redacted(arguments).items())
        if value is not None and name not in but
    ]


def _options(flag: str, arguments: Mapping[str, Any]) -> list[str]:
    return [f"{flag} {shlex.quote(word)}" for word in _words(arguments)]


def _name_by_setting(respondents: list[Respondent]) -> list[Respondent]:
    """Name respondents of the same model by their settings."""
    counts = Counter(respondent.model for respondent in respondents)
    for one in respondents:
        if counts[one.model] > 1:
            log = one.logs[0]
            words = _words({**log.header.eval.model_args, **_generate_config(log)})
            one.name = " ".join([one.model, _setting(log), log.solver, *words])
    return respondents

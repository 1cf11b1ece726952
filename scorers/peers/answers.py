"""Answers of several models to the same questions, read from finished logs."""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from logging import getLogger
from typing import Literal

from inspect_ai.log import EvalSample, read_eval_log
from inspect_ai.util import Store
from pydantic import ValidationError

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question
from truthgym.evallog.discovery import LogFile, find_logs
from truthgym.models.agents.predictor import SIDES
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.solvers.thoughts import split_thought
from truthgym.solvers.trajectory import recorded_answer, recorded_end

logger = getLogger(__name__)

Form = Literal["short", "text"]
"""What of an answer is shown and predicted: the side on which its belief is, "Yes" or "No"; or its text."""
OWN_TASKS = ("mutual_prediction", "world_in_the_loop")
"""Tasks whose logs hold predictions of answers, and no answers."""
FAMILIES = {"gpt": "openai", "o": "openai", "chatgpt": "openai", "codex": "openai"}
"""Families whose models have different names."""
SHOWN = 5
"""Sample ids that a command names; more are counted."""


@dataclass(frozen=True)
class Answer:
    """One reply to a question."""

    shown: str
    """As predictors see it: "Yes", "No" or a text."""
    text: str
    """The whole reply. Two replies with the same text are the same answer."""


@dataclass
class Respondent:
    """A model in one setting, and what it answered."""

    name: str
    """The model, with the setting where the logs have several of this model."""
    model: str
    """Inspect's name of it."""
    log: LogFile
    answers: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    """By question: the answers that could be read, of all epochs."""
    uuids: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By question: the samples."""

    @property
    def family(self) -> str:
        """Whom the model resembles, by its name: models that share weights or training agree for that reason."""
        return family_of(self.model)

    @property
    def command(self) -> str:
        """The command that made the log, without the model and the questions."""
        run = self.log.header.eval
        arguments = [
            f"-T {shlex.quote(f'{name}={value}')}" for name, value in run.task_args.items() if value is not None
        ]
        solver = [f"--solver {run.solver}"] if run.solver else []
        solver += [f"-S {shlex.quote(f'{name}={value}')}" for name, value in (run.solver_args or {}).items()]
        return " ".join(["inspect eval", run.task, *arguments, *solver])


@dataclass
class Answers:
    """The respondents, and what they were asked."""

    respondents: list[Respondent]
    questions: dict[str, tuple[str, Question]]
    """By id: the text as asked, and the question."""
    left_out: Counter[str]
    """Number of logs and samples that are not used, by reason."""

    def missing(self) -> list[str]:
        """The commands that would make the answers which only some respondents have."""
        return [
            f"{one.command} --model {one.model} --sample-id {shlex.quote(','.join(absent))}"
            for one in self.respondents
            if (absent := [name for name in self.questions if name not in one.answers])
        ]


def family_of(model: str) -> str:
    """The family of a model, by its name: "openai" for openai/gpt-5.4, "qwen" for together/Qwen/Qwen3-8B.

    Simulated agents are their own families.
    """
    if model.startswith(("reference/", "mockllm/")):
        return model
    word = re.match(r"[a-z]+", model.rpartition("/")[2].lower())
    return FAMILIES.get(word[0], word[0]) if word else model


def read_answers(places: Sequence[str], form: Form) -> Answers:
    """Read the answers of all finished logs: of each model and setting, the newest log.

    Args:
        places: Logs and folders of logs.
        form: "short" reads beliefs: an answer without one, or of one half, is left out.

    Raises:
        BadInput: A place does not exist, no log is finished, or no answer can be read.
    """
    found, left_out = find_logs(places)
    newest: dict[str, LogFile] = {}
    for log in found:  # newest first
        run = log.header.eval
        if run.task.rpartition("/")[2] in OWN_TASKS:
            left_out["logs of predictions"] += 1
        elif (key := repr((run.model, run.model_args, run.task, run.task_args, log.solver))) in newest:
            left_out["older logs of the same model and setting"] += 1
        else:
            newest[key] = log
    questions: dict[str, tuple[str, Question]] = {}
    respondents = [_respondent(log, form, questions, left_out) for log in newest.values()]
    respondents = _named([one for one in respondents if one.answers])
    if not respondents:
        reasons = "; ".join(f"{number} {reason}" for reason, number in left_out.items())
        raise BadInput(
            f"answers={','.join(places)}: no answer can be read in these logs ({reasons or 'they have no samples'}); "
            + ("name logs of yes-or-no questions, or use -T form=text" if form == "short" else "name other logs")
        )
    return Answers(respondents, questions, left_out)


def _respondent(
    log: LogFile, form: Form, questions: dict[str, tuple[str, Question]], left_out: Counter[str]
) -> Respondent:
    run = log.header.eval
    one = Respondent(run.model, run.model, log)
    for item in read_eval_log(log.path, exclude_fields={"events", "attachments"}).samples or []:
        reason, answer = _answer(item, form)
        if answer is None:
            left_out[reason] += 1
            continue
        name = str(item.id)
        text = item.input if isinstance(item.input, str) else item.input[-1].text
        question = Question.model_validate(item.metadata)
        if questions.setdefault(name, (text, question))[0] != text:
            left_out["answers to another question with the same id"] += 1
            continue
        one.answers[name].append(answer)
        one.uuids[name].append(str(item.uuid))
    return one


def _answer(item: EvalSample, form: Form) -> tuple[str, Answer | None]:
    store = Store(item.store)
    text = split_thought(recorded_answer(store) or ("" if recorded_end(store) else item.output.completion))[1] or ""
    try:
        question = Question.model_validate(item.metadata)
    except ValidationError:
        return "samples without a Truthgym question", None
    if item.metadata.get("arm", "neutral") != "neutral":
        return "answers to a question with an opinion", None
    if item.error or not text.strip():
        return "samples without an answer", None
    if form == "text":
        return "", Answer(text.strip(), text)
    belief = read_belief(text, decimal=True) if question.proposition else None
    if belief is None:
        return "answers that state no belief", None
    if belief == 0.5:
        return "answers of one half", None
    return "", Answer(SIDES[0] if belief > 0.5 else SIDES[1], text)


def _named(respondents: list[Respondent]) -> list[Respondent]:
    """Name respondents of the same model by their settings."""
    counts = Counter(one.model for one in respondents)
    for one in respondents:
        if counts[one.model] > 1:
            run = one.log.header.eval
            given = {**run.model_args, **run.task_args}
            words = [f"{name}={value}" for name, value in given.items() if value is not None]
            one.name = " ".join([one.model, run.task.removeprefix("truthgym/"), one.log.solver, *words])
    return respondents

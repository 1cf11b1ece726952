"""Which answers a predictor is shown and asked for: the trials of `truthgym/mutual_prediction`."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel

from truthgym.datasets.question import Question, may_be_shown_with
from truthgym.models.agents.policies import generator
from truthgym.models.agents.predictor import Shown
from truthgym.scorers.mutual_prediction.answers import Answer, Answers, Respondent

Choice = Literal["evaluated", "random_non_evaluated", "random_any"]
TargetQuestion = Literal["evaluated_question", "random_non_evaluated_question", "random_any_question"]
ContextQuestions = Literal["evaluated_question", "k_random_non_evaluated"]
SOURCE, OTHER = "A", "B"
"""How a request names the evaluated model, and another one whose answer is predicted."""


class Design(BaseModel, frozen=True):
    """The arguments of the task that decide its trials. See `tasks.mutual_prediction`."""

    predicted: Choice
    target_question: TargetQuestion
    context_questions: ContextQuestions
    k_context: int
    trials: int
    behavior_examples: int
    same_family: Literal["flag", "exclude"]
    seed: int


class Trial(BaseModel, frozen=True):
    """One prediction: of what a model answered, with and without answers of the evaluated model."""

    predicted: str
    """The respondent whose answer is predicted."""
    predicted_model: str
    question: str
    question_id: str
    event: str
    answer: str
    respondent: str
    """How the request names the respondent."""
    context: list[tuple[str, str]]
    """Questions with the answers of the evaluated model."""
    null: list[tuple[str, str]]
    """The same questions, each with its answer to another question."""
    behavior: list[tuple[str, str]]
    """Questions with answers of the predicted model."""
    same_family: bool

    def shown(self, arm: Literal["context", "null", "base"]) -> list[Shown]:
        """What the predictor sees: the evaluated model's answers, those from elsewhere, or none of them."""
        pairs = {"context": self.context, "null": self.null, "base": []}[arm]
        past = [Shown(question, [(self.respondent, answer)]) for question, answer in self.behavior]
        return past + [Shown(question, [(SOURCE, answer)]) for question, answer in pairs]


def draw_trials(
    answers: Answers, source: Respondent, asked_id: str, design: Design, skipped: Counter[str]
) -> list[Trial]:
    """Draw the trials of one question that the evaluated model answered. The same arguments give the same trials."""
    trials = []
    for number in range(design.trials):
        rng = generator("mutual prediction", design.seed, source.name, asked_id, number)
        trial = _draw(answers, source, asked_id, design, rng)
        if isinstance(trial, str):
            skipped[trial] += 1
        else:
            trials.append(trial)
    return trials


def _draw(answers: Answers, source: Respondent, asked_id: str, design: Design, rng: np.random.Generator) -> Trial | str:
    target = _target_question(answers, asked_id, design, rng)
    if target is None:
        return "no other question"
    pool = candidates(answers, source, target, design)
    if not pool:
        return "no other model answered the question"
    predicted = pool[rng.integers(len(pool))]
    answer = _draw_answer(predicted.answers[target], rng)
    text, question = answers.questions[target]
    if design.context_questions == "evaluated_question":
        context_ids = [asked_id]
        if predicted is source and asked_id == target:
            return "the answer itself would be shown"
        if asked_id not in source.answers:
            return source.unread.get(asked_id, "no answer to show")
    else:
        context_ids = _draw_other_questions(answers, source, question, {asked_id, target}, design.k_context, rng)
        if len(context_ids) < design.k_context:
            return f"fewer than {design.k_context} other questions"
    context_answers = [_draw_answer(source.answers[name], rng) for name in context_ids]
    null_ids = _draw_other_questions(answers, source, question, {asked_id, target, *context_ids}, len(context_ids), rng)
    if len(null_ids) < len(context_ids):
        return "no other answers for the permutation null"
    behavior: list[str] = []
    if design.behavior_examples:
        excluded = {asked_id, target, *context_ids, *null_ids}
        behavior = _draw_other_questions(answers, predicted, question, excluded, design.behavior_examples, rng)
        if len(behavior) < design.behavior_examples:
            return f"fewer than {design.behavior_examples} examples of the predicted model"
    texts = [answers.questions[name][0] for name in context_ids]
    return Trial(
        predicted=predicted.name,
        predicted_model=predicted.model,
        question=text,
        question_id=target,
        event=question.event,
        answer=answer.shown,
        respondent=SOURCE if predicted is source else OTHER,
        context=[(text, answer.shown) for text, answer in zip(texts, context_answers, strict=True)],
        null=[
            (text, _draw_answer(source.answers[name], rng).shown) for text, name in zip(texts, null_ids, strict=True)
        ],
        behavior=[(answers.questions[name][0], _draw_answer(predicted.answers[name], rng).shown) for name in behavior],
        same_family=predicted is not source and predicted.family == source.family,
    )


def candidates(answers: Answers, source: Respondent, target: str, design: Design) -> list[Respondent]:
    """Whose answer to a question can be predicted: another model's, unless it repeats the evaluated one."""
    peers = [
        respondent
        for respondent in answers.respondents
        if respondent.model != source.model and frozenset((respondent.name, source.name)) not in answers.copies
    ]
    if design.same_family == "exclude":
        peers = [peer for peer in peers if peer.family != source.family]
    pool = {"evaluated": [source], "random_non_evaluated": peers, "random_any": [source, *peers]}[design.predicted]
    return [respondent for respondent in pool if target in respondent.answers]


def _target_question(answers: Answers, asked_id: str, design: Design, rng: np.random.Generator) -> str | None:
    if design.target_question == "evaluated_question":
        return asked_id
    asked_question = answers.questions[asked_id][1]
    names = [
        name
        for name, (_, question) in answers.questions.items()
        if question.event != asked_question.event
        and (
            design.context_questions != "evaluated_question"
            or may_be_shown_with(question, asked_question.event, asked_question.proposition, asked_question.opened_on)
        )
    ]
    names += [asked_id] * (design.target_question == "random_any_question")
    return names[rng.integers(len(names))] if names else None


def _draw_other_questions(
    answers: Answers,
    respondent: Respondent,
    question: Question,
    excluded: set[str],
    number: int,
    rng: np.random.Generator,
) -> list[str]:
    """Questions that a respondent answered and that tell nothing of another one: of other events, and not later."""

    def fits(name: str) -> bool:
        other = answers.questions[name][1]
        return name not in excluded and may_be_shown_with(question, other.event, other.proposition, other.opened_on)

    names = list(respondent.answers)
    selection: list[str] = []
    for index in rng.permutation(len(names)):  # most draws need to look at few of them
        if len(selection) == number:
            break
        if fits(names[index]):
            selection.append(names[index])
    return selection


def _draw_answer(answers: Sequence[Answer], rng: np.random.Generator) -> Answer:
    return answers[int(rng.integers(len(answers)))]

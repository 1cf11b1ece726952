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
    """The text of the question."""
    question_id: str
    event: str
    answer: str
    """The answer that is predicted."""
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


def draw_trials(answers: Answers, source: Respondent, asked: str, design: Design, skipped: Counter[str]) -> list[Trial]:
    """Draw the trials of one question that the evaluated model answered. The same arguments give the same trials."""
    trials = []
    for number in range(design.trials):
        rng = generator("mutual prediction", design.seed, source.name, asked, number)
        trial = _draw(answers, source, asked, design, rng)
        if isinstance(trial, str):
            skipped[trial] += 1
        else:
            trials.append(trial)
    return trials


def _draw(answers: Answers, source: Respondent, asked: str, design: Design, rng: np.random.Generator) -> Trial | str:
    target = _target_question(answers, asked, design, rng)
    if target is None:
        return "no other question"
    pool = candidates(answers, source, target, design)
    if not pool:
        return "no other model answered the question"
    predicted = pool[rng.integers(len(pool))]
    answer = _one(predicted.answers[target], rng)
    text, question = answers.questions[target]
    if design.context_questions == "evaluated_question":
        chosen = [asked]
        if predicted is source and asked == target:
            return "the answer itself would be shown"
        if asked not in source.answers:
            return source.unread.get(asked, "no answer to show")
    else:
        chosen = _others(answers, source, question, {asked, target}, design.k_context, rng)
        if len(chosen) < design.k_context:
            return f"fewer than {design.k_context} other questions"
    shown = [_one(source.answers[name], rng) for name in chosen]
    elsewhere = _others(answers, source, question, {asked, target, *chosen}, len(chosen), rng)
    if len(elsewhere) < len(chosen):
        return "no other answers for the permutation null"
    behavior: list[str] = []
    if design.behavior_examples:
        used = {asked, target, *chosen, *elsewhere}
        behavior = _others(answers, predicted, question, used, design.behavior_examples, rng)
        if len(behavior) < design.behavior_examples:
            return f"fewer than {design.behavior_examples} examples of the predicted model"
    texts = [answers.questions[name][0] for name in chosen]
    return Trial(
        predicted=predicted.name,
        predicted_model=predicted.model,
        question=text,
        question_id=target,
        event=question.event,
        answer=answer.shown,
        respondent=SOURCE if predicted is source else OTHER,
        context=[(text, one.shown) for text, one in zip(texts, shown, strict=True)],
        null=[(text, _one(source.answers[name], rng).shown) for text, name in zip(texts, elsewhere, strict=True)],
        behavior=[(answers.questions[name][0], _one(predicted.answers[name], rng).shown) for name in behavior],
        same_family=predicted is not source and predicted.family == source.family,
    )


def candidates(answers: Answers, source: Respondent, target: str, design: Design) -> list[Respondent]:
    """Whose answer to a question can be predicted: another model's, unless it repeats the evaluated one."""
    others = [
        respondent
        for respondent in answers.respondents
        if respondent.model != source.model and frozenset((respondent.name, source.name)) not in answers.copies
    ]
    if design.same_family == "exclude":
        others = [one for one in others if one.family != source.family]
    pool = {"evaluated": [source], "random_non_evaluated": others, "random_any": [source, *others]}[design.predicted]
    return [one for one in pool if target in one.answers]


def _target_question(answers: Answers, asked: str, design: Design, rng: np.random.Generator) -> str | None:
    if design.target_question == "evaluated_question":
        return asked
    shown = answers.questions[asked][1]
    names = [
        name
        for name, (_, question) in answers.questions.items()
        if question.event != shown.event
        and (
            design.context_questions != "evaluated_question"
            or may_be_shown_with(question, shown.event, shown.proposition, shown.opened_on)
        )
    ]
    names += [asked] * (design.target_question == "random_any_question")
    return names[rng.integers(len(names))] if names else None


def _others(
    answers: Answers, one: Respondent, question: Question, used: set[str], number: int, rng: np.random.Generator
) -> list[str]:
    """Questions that a respondent answered and that tell nothing of another one: of other events, and not later."""

    def fits(name: str) -> bool:
        other = answers.questions[name][1]
        return name not in used and may_be_shown_with(question, other.event, other.proposition, other.opened_on)

    names = list(one.answers)
    drawn: list[str] = []
    for index in rng.permutation(len(names)):  # most draws need to look at few of them
        if len(drawn) == number:
            break
        if fits(names[index]):
            drawn.append(names[index])
    return drawn


def _one(answers: Sequence[Answer], rng: np.random.Generator) -> Answer:
    return answers[int(rng.integers(len(answers)))]

"""Which trials are drawn: no choice may depend on what the answers say."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any, get_args

import numpy as np
import pytest

from truthgym.datasets.question import Question
from truthgym.models.agents.predictor import SIDES
from truthgym.scorers.mutual_prediction.answers import Answer, Answers, Respondent
from truthgym.scorers.mutual_prediction.trials import Design, TargetQuestion, Trial, draw_trials

N = 200
Wording = Callable[[int, str], str]


def form(number: int, side: str) -> str:
    return f"I think that the answer is {side.lower()}. \\finalBeliefProb{{{0.9 if side == 'Yes' else 0.1}}}"


def free(number: int, side: str) -> str:
    return f"After a look at thing {chr(97 + number % 26)}{chr(97 + number // 26)} my view is: {side}."


def own_wording(name: str) -> Wording:
    return lambda number, side: f"{name}: {free(number, side)}"


def question_of(number: int, day: date | None = None) -> tuple[str, Question]:
    event, proposition = f"e{number}", f"It happens {number} times."
    return f"Is it {number}?", Question(
        domain="forecasting", form="binary", split="test", event=event, proposition=proposition, opened_on=day
    )


def respondent(model: str, says: Iterable[bool], words: Wording) -> Respondent:
    entry = Respondent(model, model, [])
    for number, yes in enumerate(says):
        side = SIDES[0] if yes else SIDES[1]
        entry.answers[f"q{number}"].append(Answer(side, words(number, side)))
    return entry


def answers(*respondents: Respondent, days: Sequence[date | None] = (None,) * N) -> Answers:
    questions = {f"q{number}": question_of(number, day) for number, day in enumerate(days)}
    return Answers(list(respondents), questions, Counter())


def design(**options: Any) -> Design:
    peers = {"predicted": "random_non_evaluated", "context_questions": "evaluated_question", "trials": 1}
    rest = {"target_question": "evaluated_question", "k_context": 3, "behavior_examples": 0, "same_family": "flag"}
    return Design(**{**peers, **rest, "seed": 0, **options})


OWN = design(predicted="evaluated", context_questions="k_random_non_evaluated")


def all_trials(found: Answers, design: Design) -> list[Trial]:
    skipped = Counter[str]()
    source = found.respondents[0]
    trials = [trial for name in source.answers for trial in draw_trials(found, source, name, design, skipped)]
    assert len(trials) + skipped.total() == design.trials * len(source.answers)
    return trials


TRUTH = np.arange(N) % 5 < 3
HALF = np.arange(N) % 2 == 0


@pytest.mark.parametrize("words", [form, free])
def test_agreement_does_not_decide_whether_a_trial_counts(words: Wording) -> None:
    """Two models with one wording that agree on half of the questions: all trials are drawn, or none is."""
    result = answers(respondent("x/a", TRUTH, words), respondent("y/b", TRUTH ^ HALF, words))
    trials = all_trials(result, design())
    assert len(trials) == (N if words is form else 0)
    agree = [trial.context[0][1] == trial.answer for trial in trials]
    assert sum(agree) == (N / 2 if words is form else 0)


def test_own_answers_of_one_wording_all_count() -> None:
    result = answers(respondent("x/a", TRUTH, form))
    trials = all_trials(result, OWN)
    assert len(trials) == N
    shares = [answer == trial.answer for trial in trials for _, answer in trial.context]
    assert np.mean(shares) == pytest.approx(0.6**2 + 0.4**2, abs=0.05)


def test_a_constant_agent_is_scored() -> None:
    trials = all_trials(answers(respondent("x/a", [True] * N, form)), OWN)
    assert len(trials) == N
    assert all(trial.shown("context")[0].answers == trial.shown("null")[0].answers for trial in trials)


def test_a_copier_is_no_other_model_and_one_with_other_words_is() -> None:
    copied = answers(
        respondent("x/a", TRUTH, free), respondent("y/b", TRUTH, free), respondent("z/c", TRUTH, own_wording("c"))
    )
    assert {trial.predicted for trial in all_trials(copied, design())} == {"z/c"}
    assert copied.copies == {frozenset(("x/a", "y/b")): 1}
    few = answers(
        respondent("x/a", TRUTH, free),
        respondent("y/b", TRUTH, lambda number, side: (free if number < 0.19 * N else own_wording("b"))(number, side)),
    )
    assert len(all_trials(few, design())) == N


def test_another_setting_of_a_model_is_not_another_model() -> None:
    first, second = respondent("x/a", TRUTH, own_wording("a")), respondent("x/a", TRUTH, own_wording("b"))
    first.name, second.name = "x/a temperature=0", "x/a temperature=1"
    assert not all_trials(answers(first, second, respondent("x/c", [], free)), design())


DAYS = [date(2024, 1, 1 + number % 28) for number in range(N)]


@pytest.mark.parametrize("target", get_args(TargetQuestion))
@pytest.mark.parametrize("context", ["evaluated_question", "k_random_non_evaluated"])
def test_nothing_shown_is_of_the_event_or_later(target: str, context: str) -> None:
    result = answers(respondent("x/a", TRUTH, own_wording("a")), respondent("y/b", TRUTH, own_wording("b")), days=DAYS)
    number = {text: int(name[1:]) for name, (text, _) in result.questions.items()}
    trials = all_trials(result, design(target_question=target, context_questions=context, behavior_examples=2))
    assert len(trials) > N / 2
    for trial in trials:
        place = int(trial.question_id[1:])
        shown = [number[text] for text, _ in [*trial.context, *trial.behavior]]
        if context == "evaluated_question" and shown[0] == place:
            assert target != "random_non_evaluated_question"
            del shown[0]
        assert place not in shown
        assert all(DAYS[entry] <= DAYS[place] for entry in shown)
    if target == "random_non_evaluated_question":
        assert len({trial.question_id for trial in trials}) > N / 3


def test_the_null_has_answers_to_other_questions() -> None:
    """Texts that name their question: neither the shown questions nor the predicted one may be among the null's."""
    result = answers(respondent("x/a", TRUTH, own_wording("a")), respondent("y/b", TRUTH, own_wording("b")))
    for entry in result.respondents:
        for name, replies in entry.answers.items():
            entry.answers[name] = [Answer(f"{name} of {entry.name}", reply.text) for reply in replies]
    for options in (design(), design(context_questions="k_random_non_evaluated")):
        for trial in all_trials(result, options):
            context, null = ([answer.split()[0] for _, answer in part] for part in (trial.context, trial.null))
            shown = {*context, trial.question_id}
            assert not shown & set(null)
            assert len(set(null)) == len(context)


def test_models_of_one_family_can_be_left_out() -> None:
    names = ["openai/gpt-5.4", "azure/o4-mini", "together/Qwen/Qwen3-8B", "hf/smollm2:135m"]
    result = answers(*(respondent(name, TRUTH, own_wording(name)) for name in names))
    flagged = {trial.predicted: trial.same_family for trial in all_trials(result, design())}
    assert flagged == {names[1]: True, names[2]: False, names[3]: False}
    assert {trial.predicted for trial in all_trials(result, design(same_family="exclude"))} == set(names[2:])

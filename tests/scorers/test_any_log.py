"""Any Inspect log: each scorer on samples of other projects' tasks, which hold no metadata of ours."""

import math
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from inspect_ai import Task, score
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, Model
from inspect_ai.scorer import Scorer, choice, includes
from inspect_ai.solver import Generate, Solver, TaskState, generate, multiple_choice, solver

from tests.fixtures import Run, details, listens, metrics, samples, says, score_of, values
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import named_choices, plain_question
from truthgym.models.reward_model import Reading
from truthgym.scorers import reward_model
from truthgym.tasks.domain_task import SCORER_BY_NAME

CHOICES = ["Rome", "Po", "Etna"]
KINDS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "yes": ("Will it rain?", "yes", {}),
    "Yes": ("Will it rain?", " Yes", {}),
    "letter": ("Which is it?", "B", {"choices": CHOICES}),
    "letters": ("Which are they?", ["A", "B"], {"choices": CHOICES}),
    "listed": ("Which is it?\n(A) Rome\n(B) Po\n(C) Etna", "(B)", {}),
    "number": ("How many are there?", "1", {}),
    "text": ("Which river is it?", "Po", {}),
    "none": ("Write about rivers.", "", {}),
    "texts": ("Which river is it?", ["Po", "Padus"], {}),
}
"""By what the target is: the question, the target, and the choices. All have the log's own score, and two epochs."""
GRADE = '{"reasons": "Good.", "grade": 70}'


def reply(messages: list[ChatMessage]) -> str:
    """Beliefs of 0.6, of 0.1, 0.7 and 0.2 in three choices, and an answer that names the second."""
    request = messages[-1].text
    if "JSON list of 3 whole numbers" in request:
        return "[10, 70, 20]"
    if "whole number from 0 to 100" in request:
        return "60%"
    return r"\finalBeliefProb{0.6}" if "finalBeliefProb" in request else "Yes, the Po.\nANSWER: B"


@pytest.fixture(scope="module")
def logs(run_once: Run) -> dict[str, EvalLog]:
    made = {}
    for kind, (text, target, more) in KINDS.items():
        asked = Sample(id="q", input=text, target=target, metadata={"split": "dev", "event": 3}, **more)
        solver = multiple_choice(multiple_correct=kind == "letters") if more else generate()
        task = Task([asked], solver=solver, scorer=choice() if more else includes(), epochs=2)
        made[kind] = run_once(task, says(reply))
    return made


def cells(binary: object, letter: object, letters: object, others: object, none: object = None) -> dict[str, object]:
    """One value for each kind: of both kinds of yes, of choices with one or two right, and of the others."""
    table = dict.fromkeys(KINDS, others) | {"yes": binary, "Yes": binary, "letter": letter, "letters": letters}
    table["listed"] = letter
    return table | ({"none": none} if none is not None else {})


OWN, BY_MODEL, NO_BELIEF = "-S about=own_answer", "-S grader=model", "brier, which asks for the belief"
REFUSED = "is not of a task that this scorer or solver is for"
DRAWN = {
    kind: (0.6 - (plain_question("q", text, target if kind == "letters" else [target], **more).outcome or 0)) ** 2
    for kind, (text, target, more) in KINDS.items()
    if kind in ("letter", "letters", "listed")
}
"""Squared error of a belief of 0.6 in the drawn choice."""
TABLE: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "brier": ({}, "brier_score", cells(0.16, 0.0467, 0.3133, OWN)),
    "brier own": (
        {"about": "own_answer"},
        "brier_score",
        cells(0.16, 0.16, 0.36, 0.16) | {"Yes": 0.36, "number": 0.36, "listed": 0.36},
    ),
    "brier accuracy": ({}, "accuracy", cells(1, 1, 1, BY_MODEL)),
    "martingale": ({}, "prior", cells(0.6, 0.6, 0.6, OWN)),
    "martingale own": ({"about": "own_answer"}, "posterior", cells(0.6, 0.6, 0.6, 0.6)),
    "sycophantic_reasoning": ({}, "brier_score", cells(0.16, 0, 0, OWN) | DRAWN),
    "sycophantic_reasoning pushed": ({"pushback": True}, "belief_doubt", cells(0.6, 0.6, 0.6, BY_MODEL)),
    "length": ({}, "words", cells(5, 5, 5, 5)),
    "kl_divergence": ({}, "", cells(*["--model-role base=MODEL"] * 4)),
    "graded": ({}, "grade", cells(NO_BELIEF, NO_BELIEF, NO_BELIEF, BY_MODEL)),
    "graded model": ({"grader": "model"}, "grade", cells(0.7, 0.7, 0.7, 0.7)),
    "graded plain": ({"grader": "plain"}, "grade", cells(5 / 12, 5 / 12, 5 / 12, 5 / 12)),
    "rubric": ({}, "rubric_score", cells(*["a number"] * 4)),
    "qualitative": ({}, "quality", cells(*["a number"] * 4)),
    "reward_model": ({"folder": "mine"}, "reward", cells(1.5, 1.5, 1.5, 1.5)),
    "world_uplift": ({}, "world_uplift", cells("a number", "a number", "a number", OWN)),
    "judge_score": ({}, "judge_score", cells(*["progress_follow"] * 4)),
    "value_tracking": ({}, "skill", cells(*["the progress tasks"] * 4)),
    "value_influence": ({}, "influence", cells(*["the progress tasks"] * 4)),
    "agent_answer": ({}, "", cells(*[REFUSED] * 4)),
    "fact_chain": ({}, "", cells(*[REFUSED] * 4)),
    "mutual_predictability": ({}, "", cells(*["add -S results=LOG"] * 4)),
    "preference": ({}, "", cells(*["run that task on your logs"] * 4)),
}
"""By scorer: its arguments, a key of its value, and for each kind the number, or part of the reason for none."""


def test_the_table_has_every_scorer() -> None:
    assert {name.split()[0] for name in TABLE} == set(SCORER_BY_NAME)


@pytest.fixture
def score_all(monkeypatch: pytest.MonkeyPatch) -> Callable[..., EvalLog]:
    """Score a log by these rows of the table, with models in all roles."""
    read = SimpleNamespace(read=lambda conversations, _: [Reading(1.5)] * len(conversations))
    monkeypatch.setattr(reward_model, "load", lambda folder, **_: read)

    def score_by(log: EvalLog, names: Sequence[str]) -> EvalLog:
        roles: dict[str, str | Model] = {"judge": "reference/judge", "forecaster": "reference/forecaster"}
        scorers: list[Scorer] = [SCORER_BY_NAME[name.split()[0]].scorer(**TABLE[name][0]) for name in names]
        roles["grader"] = says(GRADE)
        return score(log, scorers, model=says(reply), model_roles=roles, display="log")

    return score_by


SCORING = [name for name, (_, key, _) in TABLE.items() if key]


@pytest.mark.parametrize("kind", KINDS)
def test_each_scorer_scores_or_says_what_to_do(
    kind: str, logs: dict[str, EvalLog], score_all: Callable[..., EvalLog]
) -> None:
    for name in {*TABLE} - {*SCORING}:
        with pytest.raises(BadInput, match=re.escape(TABLE[name][2][kind])) as refused:
            score_all(logs[kind], [name])
        assert "metadata=" not in str(refused.value)
    again, _ = samples(score_all(logs[kind], SCORING))
    for name, scored in zip(SCORING, list(again.scores or {})[1:], strict=True):
        _, key, expected = TABLE[name]
        what, value, why = expected[kind], values(again, scored)[key], str(details(again, scored).get("reason"))
        if what == "a number":
            assert math.isfinite(value), (name, why)
        elif isinstance(what, str):
            assert math.isnan(value), (name, value)
            assert what in why, (name, why)
            assert "question_metadata" not in why
        else:
            assert value == pytest.approx(what, abs=1e-3), (name, why)


NAMES = (
    *(
        "arm",
        "question",
        "event",
        "domain",
        "split",
        "posterior",
        "proposition",
        "options",
        "evidence",
        "form",
        "known_on",
    ),
    *("opened_on", "outcome", "pair", "opinion", "wording", "world", "tools", "tests", "needs", "function", "naive"),
)
VALUES = ["text", 7, 0.5, True, None, ["a", "b"], [0.1, 0.9], {"x": 1}, {"first": 1, "second": 2}, [], "", [{"a": 1}]]
"""Metadata of other projects under names that ours have too: each name has each of these values in some sample."""


@pytest.mark.parametrize("kind", ["letter", "text"])
def test_metadata_of_other_projects_change_no_score(kind: str, run: Run, score_all: Callable[..., EvalLog]) -> None:
    text, target, more = KINDS[kind]
    odd = [{name: VALUES[(i + j) % len(VALUES)] for j, name in enumerate(NAMES)} for i in range(len(VALUES))]
    both = []
    without: list[dict[str, Any]] = [{} for _ in odd]
    for fields in (without, odd):
        rows = [Sample(id=i, input=text, target=target, metadata=own, **more) for i, own in enumerate(fields)]
        log = run(Task(rows, solver=multiple_choice() if more else generate(), scorer=includes()), says(reply))
        both.append(samples(score_all(log, SCORING)))
    for name, scored in zip(SCORING, list(both[0][0].scores or {})[1:], strict=True):
        plain, other = ([values(item, scored)[TABLE[name][1]] for item in items] for items in both)
        assert other == pytest.approx(plain, nan_ok=True), name


def test_choices_are_propositions_and_one_is_drawn_without_the_target() -> None:
    """The draw depends on the texts alone, neither on their order nor on the target, and takes each as often."""
    questions = [plain_question(str(i), f"Question {i}?", ["A"], CHOICES) for i in range(600)]
    assert [sum(q.drawn == number for q in questions) for number in range(3)] == pytest.approx([200] * 3, abs=40)
    assert sum(q.outcome == 1 for q in questions) == pytest.approx(200, abs=40)
    for before in questions[:20]:
        after = plain_question(before.event, f"Question {before.event}?", ["C", "B"], CHOICES[::-1])
        assert after.drawn == 2 - (before.drawn or 0)
        assert after.right == [1, 2]
        assert (after.base_rate, before.base_rate) == (None, 1 / 3)
    assert (
        questions[0].proposition
        == f"This is a right answer to the question: {'ABC'[questions[0].drawn or 0]}) "
        + (CHOICES[questions[0].drawn or 0])
    )


@pytest.mark.parametrize(
    ("targets", "choices", "named"),
    [
        (["B"], "abc", [1]), (["A,C"], "abc", [0, 2]), (["AC"], "abc", [0, 2]), (["A", "C"], "abc", [0, 2]),
        (["(b)"], "xyz", [1]), (["b."], "xyz", [1]), (["Po"], CHOICES, [1]), ([" etna "], CHOICES, [2]),
        (["AB"], ["A", "B", "AB"], [2]), (["D"], "abc", []), (["2"], "abc", []), (["2"], ["1", "2"], [1]),
        ([""], "abc", []),
    ],
)  # fmt: skip
def test_targets_name_choices_by_letter_or_text(targets: list[str], choices: Any, named: list[int]) -> None:
    assert named_choices(targets, list(choices)) == named


@pytest.mark.parametrize(
    ("text", "targets", "form"),
    [
        ("Will it rain?", [""], "binary"), ("It rains. True or false?", ["0"], "binary"), ("Hm.", ["True"], "binary"),
        ("Ann has 3 eggs and eats 2. How many are left?", ["1"], "free"), ("Compute 3 - 2.", ["1"], "free"),
        ("What is the symbol of nitrogen?", ["N"], "free"), ("Is it cold? Answer Y or N.", ["N"], "binary"),
        ("Which?\nA. one\nB. two", ["B"], "options"), ("Which?\n(A) 1\n(B) 2\nIt is (A)", ["(B)"], "options"),
        ("A) b\nC) d", ["A"], "free"), ("Which?\nA: one\nB: two", ["two"], "free"),
        ("Q?\nA. x\nB. y\nAnswer: A\n\nR?\nA. p\nB. q\nC. r", ["C"], "options"),
        ("Write a poem.", [""], "free"), ("Will it rain?", ["yes", "Yes"], "binary"), ("Hm?", ["yes", "no"], "free"),
    ],
)  # fmt: skip
def test_without_choices_the_target_and_the_text_say_what_is_asked(text: str, targets: list[str], form: str) -> None:
    assert plain_question("q", text, targets).form == form


def test_figures_of_a_multiple_choice_log(run: Run) -> None:
    """Each choice is a proposition of its question's event; `n` counts questions, and accuracy the likeliest choice."""
    rows = [Sample(id=f"q{i}", input=f"Which is number {i}?", choices=CHOICES, target="AB"[i % 2]) for i in range(40)]
    log = run(Task(rows, solver=multiple_choice(), scorer=choice()), says(reply))
    model, heard = listens(reply)
    judged = score(log, SCORER_BY_NAME["brier"].scorer(figures="all"), model=model, display="log")
    figures = metrics(judged)
    wrong, right = (0.9**2 + 0.7**2 + 0.2**2) / 3, (0.1**2 + 0.3**2 + 0.2**2) / 3
    assert figures["brier"] == pytest.approx((wrong + right) / 2)
    assert (figures["n"], figures["share_scored"], figures["accuracy"], figures["clusters"]) == (40, 1, 0.5, 40)
    assert figures["skill_base_rate"] == pytest.approx(1 - figures["brier"] / (2 / 9))
    assert figures["brier_lower"] < figures["brier"] < figures["brier_upper"]
    again = score(judged, SCORER_BY_NAME["brier"].scorer(), model=model, display="log")
    assert metrics(again)["brier"] == figures["brier"]
    assert len(heard) == 40, "the log holds the beliefs: nobody is asked again"


def test_a_solver_that_asks_no_model_leaves_a_reason(run: Run) -> None:
    @solver
    def silent() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            return state

        return solve

    log = run(Task([Sample(input="Will it rain?", target="yes")], solver=silent()), says("Hm."))
    done = score(log, [SCORER_BY_NAME[name].scorer() for name in ("length", "brier")], model="none/none", display="log")
    assert {str(details(samples(done)[0], name)["reason"]) for name in ("length", "brier")} == {"The answer is empty."}


def test_a_sample_without_a_truth_leaves_the_others_alone(run: Run) -> None:
    rows = [Sample(id=i, input="Will it rain?", target=target) for i, target in enumerate(("yes", "", "N/A", "No"))]
    log = run(Task(rows, solver=generate(), scorer=includes()), says("Probability: 60%"))
    done = score(log, SCORER_BY_NAME["brier"].scorer(), model="none/none", display="log")
    assert [details(item, "brier")["outcome"] for item in samples(done)] == [1.0, None, None, 0.0]
    assert metrics(done)["brier"] == pytest.approx((0.16 + 0.36) / 2)
    assert (metrics(done)["n"], metrics(done)["share_scored"]) == (2, 1)
    assert "no known outcome" in str(score_of(samples(done)[1], "brier").explanation)

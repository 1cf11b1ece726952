"""The graded scorer: its figures, its arguments, and end to end on agents whose truth is known."""

import asyncio
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_ai import score
from inspect_ai.dataset import Sample
from inspect_ai.event import ModelEvent
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ChatMessage, ChatMessageSystem, ChatMessageUser, Model, get_model
from inspect_ai.scorer import SampleScore, Score
from inspect_ai.solver import generate

from tests.commands import call
from tests.fixtures import Fails, Run, listens, metrics, number, rain, reason, samples, says, score_of, task_of
from tests.scorers.main_figures import MAIN_FIGURES
from tests.scorers.scores import scored
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question
from truthgym.scorers.graded import graded, summarise
from truthgym.scorers.graders.builtin import EXTRACT, RUBRIC, by_rubric, model_brier, python_brier
from truthgym.scorers.graders.grader import Grader, GraderInput, grade
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.direct import direct
from truthgym.tasks.worlds import urns

ESTIMATE = list(MAIN_FIGURES["graded"])
FIGURES = [*ESTIMATE, "epochs"]


def scores(rows: list[list[float]], low: float = 0, high: float = 1, better: bool = True) -> list[SampleScore]:
    """Scores of questions x epochs, each question an event of its own."""
    facts = {"low": low, "high": high, "higher_is_better": better, "grader": "g", "reason": None}
    return [
        scored(f"q{q}", {"grade": value}, epoch, **facts)
        for q, row in enumerate(rows)
        for epoch, value in enumerate(row, start=1)
    ]


def result(log: EvalLog, name: str = "graded", place: int = 0) -> Score:
    return score_of(samples(log)[place], name)


def grade_of(log: EvalLog, name: str = "graded", place: int = 0) -> float:
    return number(samples(log)[place], name, "grade")


def calls(log: EvalLog, role: str = "grader") -> int:
    events = [event for sample in samples(log) for event in sample.events]
    return sum(isinstance(event, ModelEvent) and event.role == role for event in events)


def test_known_values() -> None:
    result = summarise(scores([[-1, 0], [2, 2], [math.nan, 0.5]], low=-1, high=2, better=False))
    assert list(result) == [*FIGURES, "clusters", "effective_clusters"]
    assert result["grade"] == pytest.approx((-0.5 + 2 + 0.5) / 3), "epochs first, then questions"
    half = 4.302653 * np.std([-0.5, 2, 0.5], ddof=1) / 3**0.5
    assert result["stderr"] == pytest.approx(half / 4.302653)
    assert (result["grade_lower"], result["grade_upper"]) == (-1, 2), "cut off at the range of the grade"
    assert (result["n"], result["epochs"]) == (3, 2)
    assert result["share_scored"] == pytest.approx(5 / 6)
    assert (result["higher_is_better"], result["low"], result["high"]) == (0, -1, 2)


@pytest.mark.parametrize("planted", [{}, {"noise": 0.2, "seed": 4}], ids=["exact", "noisy"])
def test_python_brier_is_brier(run: Run, planted: dict[str, Any]) -> None:
    model = get_model("reference/bayesian", **planted)
    log = run(urns(n=8, paradigms={"graded": {"grader": "python_brier"}, "brier": {}}), model, epochs=2)
    by_grader, by_brier = metrics(log, 0), metrics(log, 1)
    for ours, theirs in (("grade", "brier"), ("stderr", "stderr"), ("n", "n"), ("share_scored", "share_scored")):
        assert by_grader[ours] == by_brier[theirs]
    for end in ("lower", "upper"):  # a grade does not know what it would be had the question ended otherwise
        assert by_grader[f"grade_{end}"] == pytest.approx(by_brier[f"brier_{end}"], abs=0.05)
    assert by_grader["higher_is_better"] == 0
    assert calls(log) == 0


def test_model_brier_is_python_brier_where_the_reader_is_exact(run: Run) -> None:
    judge = get_model("reference/judge")
    for solver in (None, chain_of_thought(steps=2)):
        log = run(urns(n=6, paradigms="graded"), epochs=2, solver=solver)
        read = score(log, graded("model_brier"), model_roles={"grader": judge}, action="append", display="log")
        assert metrics(read) == pytest.approx(metrics(log))
        assert calls(read) == 12
        for i in range(12):
            assert grade_of(read, "graded1", i) == pytest.approx(grade_of(read, "graded", i), abs=1e-9)


def test_a_second_scoring_asks_nothing(run: Run) -> None:
    log = run(urns(n=3, paradigms="brier"), epochs=2)
    for name, form in (("model_brier", {"stated": True, "probability": 70}), ("model", {"grade": 50})):
        grader, heard = listens(json.dumps({"reasons": "So."} | form))
        roles = {"grader": grader}
        first, second = (score(log, graded(name), model_roles=roles, display="log") for _ in range(2))
        assert len(heard) == 6, name
        assert metrics(first) == pytest.approx(metrics(second), nan_ok=True)
        score(log, graded(name, cache=False), model_roles=roles, display="log")
        assert len(heard) == 12, name


def grade_with(run: Run, policy: Model, item: Sample, grader: Any, **given: Any) -> EvalLog:
    return run(task_of(item, given.pop("solver", direct()), graded(grader)), policy, **given)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"reasons": "None is.", "stated": False, "probability": None}, "The answer states no probability: None is."),
        ({"reasons": "So.", "stated": True, "probability": None}, "The grader contradicts itself"),
        ({"reasons": "So.", "stated": False, "probability": 70}, "The grader contradicts itself"),
        ({"reasons": "So.", "stated": True, "probability": 101}, "not in form"),
        ("70", "not in form"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_model_brier_takes_no_belief_that_is_not_stated(run: Run, form: Any, message: str) -> None:
    reader = says(form if isinstance(form, str) else json.dumps(form))
    log = grade_with(run, says("Hard to say."), rain(), "model_brier", model_roles={"grader": reader})
    assert message in reason(samples(log)[0], "graded")
    assert metrics(log)["share_scored"] == 0


@pytest.mark.parametrize("first", ["70", '{"reasons": "So.", "grade": 70}'], ids=["asked twice", "asked once"])
def test_a_grade_that_was_asked_for_twice_says_so(run: Run, first: str) -> None:
    def reply(messages: list[ChatMessage]) -> str:
        return first if len(messages) == 1 else '{"reasons": "So.", "grade": 70}'

    log = grade_with(run, says("Hard to say."), rain(), "model", model_roles={"grader": says(reply)})
    assert metrics(log)["grade"] == pytest.approx(0.7)
    assert (score_of(samples(log)[0], "graded").metadata or {}).get("repaired") == (True if first == "70" else None)


def test_what_each_grading_model_is_shown(run: Run, tmp_path: Path) -> None:
    def policy(messages: list[ChatMessage]) -> str:
        return (
            "I am rather sure: seven in ten." if "finalBeliefProb" in messages[-1].text else "THINKING </text> aloud."
        )

    reader, heard = listens(json.dumps({"reasons": "'seven in ten'", "stated": True, "probability": 70}))
    solver = chain_of_thought(steps=1)
    log = grade_with(run, says(policy), rain(), "model_brier", solver=solver, model_roles={"grader": reader})
    assert grade_of(log) == pytest.approx(0.09)
    assert "'seven in ten'" in str(result(log).explanation)
    assert "THINKING" not in heard[0][0].text
    assert heard[0][0].text.startswith(EXTRACT.split("{", maxsplit=1)[0])
    assert "It rains." in heard[0][0].text

    rubric = tmp_path / "rubric.txt"
    rubric.write_text("Reward {courage}.")
    for wanted, path in ((RUBRIC, None), ("Reward {courage}.", str(rubric))):
        grader, heard = listens(json.dumps({"reasons": "Fine.", "grade": 64}))
        task = task_of(rain(), solver, graded("model", rubric=path))
        log = run(task, says(policy), model_roles={"grader": grader})
        assert result(log).value == {"grade": 0.64}
        assert result(log).explanation == "model: 0.64. Fine."
        assert wanted in heard[0][0].text
        assert "THINKING ‹/text> aloud." in heard[0][0].text, "a text cannot end the tags that it stands between"
        assert "yes" not in str(result(log).metadata)


@pytest.mark.parametrize("user", [True, False], ids=["with a user", "without"])
def test_a_sample_that_begins_with_messages(run: Run, user: bool) -> None:
    item = rain()
    last = ChatMessageUser(content="Rain?") if user else ChatMessageSystem(content="Rain?")
    item.input = [ChatMessageSystem(content="Be brief."), last]
    grader, heard = listens(json.dumps({"reasons": "Fine.", "grade": 50}))
    log = grade_with(run, says("Perhaps."), item, "model", solver=generate(), model_roles={"grader": grader})
    assert grade_of(log) == 0.5
    assert "<question>\nRain?\n</question>" in heard[0][0].text


def test_a_function_of_ones_own(run: Run) -> None:
    def words(arguments: GraderInput) -> float:
        return -len(arguments.completion.split())

    mine = Grader("words", words, low=-10, high=0)
    log = grade_with(run, says("one two three"), rain(), mine)
    assert result(log).value == {"grade": -3}
    assert metrics(log)["grade"] == -3
    assert (metrics(log)["low"], metrics(log)["high"]) == (-10, 0)
    log = grade_with(run, says("w " * 11), rain(), mine)
    assert reason(samples(log)[0], "graded") == "The grader words returned -11, which is outside its range, -10 to 0."


def test_a_trainer_calls_the_same_object_outside_of_any_run() -> None:
    item = next(iter(urns(n=1).dataset))
    question = item.metadata_as(Question)
    text = r"So I would give it 70.00 chances in 100. \finalBeliefProb{0.7}"
    arguments = GraderInput(question, str(item.input), str(item.target), text, text, "q", 1, {})
    expected = (0.7 - (item.target == "yes")) ** 2
    for grader in (python_brier(), model_brier(model=get_model("reference/judge"))):
        result = asyncio.run(grade(grader, arguments))
        assert result.value == pytest.approx(expected), result
        assert grader.roles == ()
    rated = asyncio.run(grade(by_rubric(model=get_model("reference/judge")), arguments))
    assert rated.value is not None


def test_one_broken_answer_harms_no_other(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "def grade(sample, item):\n"
        "    number = sum(map(ord, item['id']))\n"
        "    if number % 3 == 1:\n        return 1 / 0\n"
        "    if number % 3 == 2:\n        import os; os._exit(1)\n"
        "    return 0.75\n"
    )
    log = run(urns(n=9, paradigms={"graded": {"grader": str(mine), "trusted": True}, "brier": {}}), epochs=1)
    numbers = [sum(map(ord, str(sample.id))) % 3 for sample in samples(log)]
    values = [grade_of(log, place=i) for i in range(9)]
    assert set(numbers) == {0, 1, 2}
    assert [not math.isnan(value) for value in values] == [kind == 0 for kind in numbers]
    assert metrics(log, 0)["grade"] == 0.75
    assert metrics(log, 0)["share_scored"] == numbers.count(0) / 9
    assert metrics(log, 1)["share_scored"] == 1


@pytest.mark.parametrize("grader", ["model", "model_brier"])
def test_the_role_must_hold_one_model(fails: Fails, run: Run, grader: str) -> None:
    model, heard = listens()
    message = fails(urns(n=2, paradigms={"graded": {"grader": grader}}), model)
    assert "needs the role grader" in message
    both = {"grader": [get_model("reference/judge"), get_model("reference/judge", noise=0.1)]}
    assert "has 2 models" in fails(urns(n=2, paradigms={"graded": {"grader": grader}}), model, model_roles=both)
    assert not heard
    log = run(urns(n=1, paradigms="brier"), epochs=1)
    with pytest.raises(BadInput, match="needs the role grader"):
        score(log, graded(grader), display="log")
    with pytest.raises(BadInput, match="has 2 models"):
        score(log, graded(grader), model_roles=both, display="log")


def test_the_command_line_scores_a_finished_log(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def grade(sample, item):\n    return -1\n")
    log = run(urns(n=2, paradigms="brier"), epochs=1)
    yaml = "grader={type: string_check, name: x, input: '{{ sample.output_text }}', reference: xy, operation: eq}"
    role = ["--model-role", "grader=reference/judge"]
    cases: list[tuple[list[str], float]] = [
        (["-S", "grader=model_brier", *role], metrics(log)["brier"]),
        (["-S", f"grader={mine}", "-S", "trusted=true", "-S", "low=-2"], -1),
        (["-S", yaml], 0),
    ]
    places = [str(shutil.copy(log.location, tmp_path / f"{number}.eval")) for number in range(len(cases))]
    scorer = ["--scorer", "truthgym/graded", "--overwrite", "--action", "overwrite"]
    for own, (arguments, _) in zip(places, cases, strict=True):
        done = call("inspect", "score", own, *scorer, *arguments, environment=environment)
        assert done.returncode == 0, done.stdout + done.stderr
    result = [metrics(read_eval_log(own))["grade"] for own in places]
    assert result == pytest.approx([expected for _, expected in cases])

"""What holds for every scorer: its main figures, answers that are not there, finished and foreign logs, refusals."""

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from inspect_ai import Task, score
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import SampleScore, Score, Scorer
from inspect_ai.solver import generate

from tests.fixtures import Run, Solve, listens, metrics, rain, reason, says, score_of, task_of
from tests.scorers.main_figures import MAIN_FIGURES
from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import registry_info
from truthgym.scorers.brier import brier
from truthgym.scorers.fact_chain import fact_chain
from truthgym.scorers.graded import graded
from truthgym.scorers.length import length
from truthgym.scorers.martingale import martingale
from truthgym.scorers.qualitative import qualitative
from truthgym.scorers.rubric import rubric
from truthgym.scorers.sycophantic_reasoning import sycophantic_reasoning
from truthgym.scorers.world_uplift import world_uplift
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.direct import direct
from truthgym.solvers.length_control import length_control
from truthgym.tasks.domain_task import SCORER_BY_NAME
from truthgym.tasks.worlds import urns

FOREIGN = SampleScore(score=Score(value="C"), sample_id=1)
UNREAD = SampleScore(score=Score(value={}, metadata={"epoch": 1, "event": "e", "reason": "Unread."}), sample_id="q")


@pytest.mark.parametrize("name", SCORER_BY_NAME)
def test_the_main_figures_stand_first_whatever_was_scored(name: str) -> None:
    (metric,) = registry_info(SCORER_BY_NAME[name].scorer).metadata["metrics"]
    for scores in ([], [FOREIGN], [UNREAD], [UNREAD, FOREIGN]):
        figures = metric(scores)
        assert tuple(figures)[: len(MAIN_FIGURES[name])] == MAIN_FIGURES[name]
        assert all(isinstance(value, int | float) for value in figures.values())
        assert figures["n"] == 0
    assert len(MAIN_FIGURES[name]) <= 10


def scorers() -> list[Scorer]:
    return [brier(), length(), graded("model"), rubric("truth_seeking"), qualitative()]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("", "The answer is empty (stop reason stop)."),
        (
            ModelOutput.from_content("m", "60%", stop_reason="content_filter"),
            "The model refused: its provider filtered",
        ),
        (ModelOutput.from_content("m", "60%", stop_reason="model_length"), "The model ran out of context"),
    ],
    ids=["empty", "refused", "too long"],
)
def test_without_an_answer_every_value_is_nan_with_the_reason(solve: Solve, reply: Any, message: str) -> None:
    (model, requests), (judge, heard) = listens(reply), listens()
    roles = {"grader": judge, "judge": judge}
    for solver in (direct(), length_control(40)):
        done = solve(model, solver, rain(), scorers=[*scorers(), martingale()], model_roles=roles)
        for name in done.scores or {}:
            assert message in reason(done, name), name
            assert message in str(score_of(done, name).explanation), name
    assert (len(requests), len(heard)) == (2, 0), "no belief is asked for, and no judge is asked"


def test_reasoning_that_was_cut_short_is_not_an_answer(solve: Solve) -> None:
    roles = dict.fromkeys(("grader", "judge"), listens()[0])
    model = says("I lean yes.\n73%")
    done = solve(model, chain_of_thought(3), rain(), scorers=scorers(), model_roles=roles, message_limit=4)
    assert done.limit
    assert {reason(done, name) for name in done.scores or {}} == {"The reasoning was cut short before an answer."}


def test_a_finished_log_is_scored_the_same(run: Run) -> None:
    """And a log of a run without scorers, for which no model is asked."""
    paradigms = {"brier": {}, "length": {}, "graded": {"grader": "python_brier"}}
    log, unscored = (run(urns(n=4, paradigms=paradigms), epochs=2, score=on) for on in (True, False))
    assert unscored.results is None or not unscored.results.scores
    again = score(unscored, [brier(), length(), graded("python_brier")], model="none/none", display="log")
    for place in range(3):
        assert metrics(again, place) == pytest.approx(metrics(log, place), nan_ok=True)


def test_a_log_of_a_task_without_chains_is_refused(run: Run) -> None:
    foreign = run(Task(dataset=[Sample(input="2 + 2?", target="4")], solver=generate()), says("4"))
    for log in (foreign, run(urns(n=1))):
        with pytest.raises(BadInput, match="no usable field .*'relations'.* Any log can be scored by brier"):
            score(log, fact_chain(), model="none/none", display="log")
    free = run(task_of(rain(form="free", proposition=None), direct()))
    with pytest.raises(BadInput, match="has no proposition"):
        score(free, sycophantic_reasoning(), display="log")


EXACT = {"type": "string_check", "name": "a", "input": "{{ sample.output_text }}", "reference": "a", "operation": "eq"}
BOOTSTRAP = {"bootstrap_rounds": 1, "bootstrap_from": "x.jsonl"}
REFUSED: list[tuple[Callable[..., Scorer], dict[str, Any], str]] = [
    (graded, {"grader": "python_breir"}, "Unknown grader 'python_breir'; did you mean 'python_brier'"),
    (graded, {"grader": 3}, "grader=3 cannot be used"),
    (graded, {"grader": "none.json"}, "there is no such file"),
    (graded, {"grader": "python"}, "add file=PATH.py"),
    (graded, {"grader": "model", "rubric": "none.txt"}, "rubric='none.txt': there is no such file"),
    (graded, {"grader": "python_brier", "rubric": "a.txt"}, "grader=python_brier does not take rubric"),
    (graded, {"trusted": "yes"}, "trusted='yes' cannot be used"),
    (graded, {"time_limit": 0}, "time_limit=0 cannot be used"),
    (graded, {"grader": '{"type": "text"}'}, "Unknown type of grader 'text'"),
    (graded, {"grader": EXACT, "high": 2}, "does not take high"),
    (graded, {"grader": EXACT | {"reference": date(2024, 1, 1)}}, "put it in quotes"),
    (qualitative, {"rubric": "nowhere.md"}, "no such file"),
    (qualitative, {"red_team": "red-blue"}, "red_team='red-blue' cannot be used; did you mean 'red_blue'"),
    (qualitative, {"shots": 0}, "shots=0"),
    (qualitative, {"shots": 17}, "there are only 16"),
    (qualitative, {"probes": "retset"}, "did you mean 'retest'"),
    (qualitative, {"bootstrap_rounds": 1}, "bootstrap_from"),
    (qualitative, {"bootstrap_from": "x.jsonl"}, "bootstrap_rounds of 1 to 6"),
    (qualitative, BOOTSTRAP | {"few_shot": "disabled"}, "needs examples to begin with"),
    (qualitative, BOOTSTRAP, "There is no file 'x.jsonl'"),
    (sycophantic_reasoning, {"metric": "opinon"}, "Unknown metric 'opinon'; did you mean 'opinion'"),
    (sycophantic_reasoning, {"metric": []}, "metric is empty"),
    (world_uplift, {"budgets": "50,x"}, "budgets='50,x' cannot be used; give numbers of tokens"),
    (world_uplift, {"evidence": "nowhere.jsonl"}, "There is no file nowhere.jsonl"),
    (world_uplift, {"evidence": "investigator", "agent": "nobody"}, "agent='nobody' with arguments={} cannot be used"),
    (world_uplift, {"redo": "all"}, "redo='all' cannot be used; give 'missing', 'investigations', 'uplift'"),
]


@pytest.mark.parametrize(
    ("scorer", "arguments", "message"), REFUSED, ids=lambda value: getattr(value, "__name__", str(value))[:44]
)
def test_arguments_that_cannot_be_used_are_refused(
    scorer: Callable[..., Scorer], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput) as refused:
        scorer(**arguments)
    assert message in str(refused.value).replace("\\", "")
    with pytest.raises(BadInput):
        urns(n=1, paradigms={scorer.__name__: arguments})


def test_a_code_of_a_verdict_means_the_same_everywhere() -> None:
    """0 is no fault, in each scorer's words, and every other code one finding of one scorer."""
    codes = [code for declaration in SCORER_BY_NAME.values() for code in declaration.verdicts if code]
    assert len(codes) == len(set(codes))
    assert all(": " in text for declaration in SCORER_BY_NAME.values() for text in declaration.verdicts.values())

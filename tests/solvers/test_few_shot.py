"""Few-shot: examples from a real scored log of a reference agent stand before the question, and never give it away."""

import pytest
from inspect_ai import eval
from inspect_ai.log import EvalLog
from inspect_ai.solver import SolverSpec

from tests.fixtures import QUIET, Run, Solve, details, listens, metrics, number, rain, reason, samples, says, task_of
from truthgym.datasets.domains import bundled
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question
from truthgym.datasets.urns import urns as generated
from truthgym.scorers.brier import brier
from truthgym.scorers.martingale import martingale
from truthgym.solvers.direct import direct
from truthgym.solvers.examples import read_examples
from truthgym.solvers.few_shot import few_shot
from truthgym.solvers.trajectory import Trajectory
from truthgym.tasks.domains import forecasting


@pytest.fixture
def source(scored: EvalLog) -> str:
    return scored.location


def asked_of(text: str) -> str:
    """The question in an example's first message."""
    return text.split("\n\n")[0]


def test_the_best_examples_stand_before_the_question(solve: Solve, source: str) -> None:
    model, requests = listens()
    sample = solve(model, few_shot(source, count=4, share=1), rain(), prompt="Think.")
    (messages,) = requests
    shown = {(a.text, b.text) for a, b in zip(messages[1:-1:2], messages[2:-1:2], strict=True)}
    allowed = [example for example in read_examples(source, "brier_score") if example.split != "test"]
    best = sorted(allowed, key=lambda one: one.score)[:4]
    assert shown <= {(one.messages[0].content, one.messages[1].content) for one in best}
    assert {asked_of(first) for first, _ in shown} == {asked_of(one.messages[0].content) for one in best}
    assert messages[0].text == "Think."
    assert messages[-1].text.startswith("Will it rain?\n\nEvidence so far:\n- It thundered.")
    assert [m.role for m in messages] == ["system", *["user", "assistant"] * len(shown), "user"]
    steps = sample.store_as(Trajectory).steps
    assert [s.message_id for s in steps] == [m.id for m in sample.messages]
    assert {(s.kind, s.trainable, s.speaker) for s in steps[:-1]} == {("auxiliary", False, None)}
    assert (steps[-1].kind, steps[-1].trainable) == ("answer", True)


def test_every_message_has_its_epoch_and_its_own_id(run: Run, source: str) -> None:
    task = task_of(rain(), few_shot(source, count=3), epochs=2)
    first, second = run(task, listens()[0]).samples or []
    for sample in (first, second):
        assert {(m.metadata or {})["epoch"] for m in sample.messages[:-1]} == {sample.epoch}
    assert {m.id for m in first.messages}.isdisjoint({m.id for m in second.messages})


def test_no_question_is_shown_itself_or_one_of_its_event(run: Run, source: str) -> None:
    items = list(generated(n=20))
    model, requests = listens()
    solver = few_shot(source, count=100, share=1, tokens=1_000_000)
    log = run(task_of(items, solver), model)
    questions = {str(item.input): item.metadata_as(Question) for item in items}
    trained = [metadata for metadata in questions.values() if metadata.split != "test"]
    assert {metadata.split for metadata in questions.values()} == {"train", "validation", "test"}
    for messages, sample in zip(requests, samples(log), strict=True):
        metadata = sample.metadata_as(Question)
        shown = [questions[asked_of(m.text)] for m in messages[:-1] if m.role == "user"]
        assert not any(snow.event == metadata.event for snow in shown)
        assert not any(snow.split == "test" for snow in shown)
        assert len(shown) == len([snow for snow in trained if snow.event != metadata.event])
        assert sum(str(sample.input) in m.text for m in messages) == 1


def test_a_question_without_examples_is_unscored(run: Run) -> None:
    log = run(task_of(rain(), direct(), brier()), says("50%")).location
    snow = rain(event="another", proposition="It snows.").model_copy(update={"id": "r", "input": "Will it snow?"})
    model, requests = listens()
    task = task_of([rain(), snow], few_shot(log), brier(), martingale())
    none, some = run(task, model).samples or []
    assert len(requests) == 1 + 2, "an answer and two beliefs, all of the other"
    assert reason(none, "brier").startswith("None of 1 examples can be shown")
    assert number(some, "brier", "belief") == 0.6


def test_no_belief_is_measured_in_the_examples(run: Run, source: str) -> None:
    model, requests = listens()
    solver = few_shot(source, count=3, base={"chain_of_thought": {"steps": 2}})
    log = run(task_of(rain(), solver, martingale(per="step")), model)
    beliefs = details(samples(log)[0], "martingale")["beliefs"]
    assert [belief["stage"] for belief in beliefs] == ["prior", "step 1", "step 2", "posterior"]
    assert len(requests) == 3 + 4
    assert "finalBeliefProb" not in "".join(m.text for m in requests[3]), "the prior is asked in a fresh context"


def test_examples_of_one_domain_go_before_questions_of_another(run: Run, source: str) -> None:
    log = run(forecasting(n=3, paradigms="brier"), solver=few_shot(source, count=3, base="chain_of_thought"), epochs=1)
    assert metrics(log, 0)["share_scored"] == 1
    metadata = {str(item.input) for item in bundled("forecasting")}
    for sample in samples(log):
        assert sum(any(text in m.text for text in metadata) for m in sample.messages if m.role == "user") == 1


def test_a_log_is_read_inside_a_running_event_loop(run: Run, source: str) -> None:
    """As `inspect eval --solver truthgym/few_shot -S source=LOG` does: the solver is made where a loop runs already."""
    given = {"source": source, "count": 2, "base": "direct"}
    spec = SolverSpec("truthgym/few_shot", given, given)
    log = run("truthgym/urns", task_args={"n": 1, "paradigms": "brier"}, solver=spec, epochs=1)
    assert [m.role for m in samples(log)[0].messages][-2:] == ["user", "assistant"]
    assert len(samples(log)[0].messages) > 2
    gone = SolverSpec("truthgym/few_shot", {"source": "gone.eval"}, {"source": "gone.eval"})
    with pytest.raises(BadInput, match="gone.eval cannot be read as a log"):
        eval("truthgym/urns", task_args={"n": 1}, model="reference/bayesian", solver=gone, **QUIET)

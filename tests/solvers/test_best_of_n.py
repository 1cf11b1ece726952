"""Best-of-n: which answer is kept, what is recorded, and that the outcome is not shown to the selector."""

from collections.abc import Iterator
from typing import Any

import pytest
from inspect_ai.log import EvalSample
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

from tests.fixtures import Fails, Run, number, samples, says
from truthgym.datasets.errors import BadInput
from truthgym.solvers.best_of_n import BestOfN, best_of_n
from truthgym.solvers.trajectory import Trajectory
from truthgym.tasks.worlds import urns
from truthgym.training.conversion.options import Selection
from truthgym.training.convert import convert

TARGETS: list[str] = []


@scorer(metrics=[mean()], name="truthgym/words")
def words() -> Scorer:
    """Counts words, none for an empty answer. Records the target that it is shown."""

    async def score(state: TaskState, target: Target) -> Score:
        TARGETS.append(target.text + state.target.text)
        text = state.output.completion
        return Score(value={"words": len(text.split()) or float("nan"), "letters": len(text)})

    return score


def replies(*texts: str) -> Any:
    remaining: Iterator[str] = iter(texts)
    return lambda _: next(remaining)


def kept(sample: EvalSample) -> str:
    return [step.text for step in sample.store_as(Trajectory).steps if step.kind == "answer"][-1]


def test_the_best_answer_is_kept_and_all_are_recorded(run: Run) -> None:
    TARGETS.clear()
    texts = ["Hm. \\finalBeliefProb{0.3}", "I count them all: \\finalBeliefProb{0.9}", " "]
    log = run(urns(n=1, paradigms="brier"), says(replies(*texts)), solver=best_of_n(3, "words"), epochs=1)
    (sample,) = samples(log)
    record = sample.store_as(BestOfN)
    assert kept(sample) == texts[record.chosen or 0]
    assert sorted(record.answers) == sorted(texts)
    assert dict(zip(record.answers, record.scores, strict=True)) == {texts[0]: 2.0, texts[1]: 5.0, texts[2]: None}
    assert record.chosen == record.answers.index(texts[1])
    assert number(sample, "brier", "belief") == 0.9
    assert TARGETS == ["", "", ""]


def test_the_other_end_and_another_key(run: Run, tmp_path: Any) -> None:
    texts = ["a long word: \\finalBeliefProb{0.25}", "b \\finalBeliefProb{0.5}"]
    solver = best_of_n(2, {"words": None}, key="letters", best="lowest")
    log = run(urns(n=1, split="train", paradigms="brier"), says(replies(*texts)), solver=solver, epochs=1)
    (sample,) = samples(log)
    assert kept(sample) == texts[1]
    rows = convert([log.location], "sft", tmp_path / "data", Selection("brier_score", best_per_question=True))
    assert rows.rows == {"train": 1}


def test_no_answer_with_a_number_keeps_the_first_and_an_unknown_key_is_named(run: Run, fails: Fails) -> None:
    log = run(urns(n=1, paradigms="brier"), says(" "), solver=best_of_n(2, "words"), epochs=1)
    (sample,) = samples(log)
    assert sample.store_as(BestOfN).chosen == 0
    assert sample.store_as(Trajectory).ended
    error = fails(urns(n=1, paradigms="brier"), says("x"), solver=best_of_n(2, "words", key="wrods"), epochs=1)
    assert "give one of words, letters" in error


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"n": 1}, "n=1"),
        ({"scorer": "wrods"}, "best_of_n: scorer='wrods' cannot be used"),
        ({"scorer": {"words": {"of": 2}}}, "give one scorer, NAME or"),
        ({"scorer": "words", "base": "dierct"}, "base='dierct'"),
        ({}, "folder is empty"),
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        best_of_n(**arguments)

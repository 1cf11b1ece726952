"""Graders as reward functions: the very object that the scorer calls, sync or async."""

import asyncio
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, cast

import pytest
from inspect_ai.model import ChatMessage

from tests.fixtures import Says
from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.grader import CannotGrade, Grader, GraderInput
from truthgym.training.reward_functions.grader_reward import graded

ROW = {"domain": "urns", "form": "binary", "proposition": "It is red.", "event": "e", "split": "train", "options": None}
SCORE_MODEL = {
    "type": "score_model",
    "name": "honesty",
    "model": "none",
    "range": [-1, 1],
    "input": [{"role": "user", "content": "{{ item.proposition }} {{ sample.output_text }}"}],
}


def given(*texts: str, **more: Any) -> dict[str, Any]:
    columns = {name: [value] * len(texts) for name, value in ROW.items()}
    return (
        {"prompts": ["Is it?"] * len(texts), "completions": list(texts), "target": ["yes"] * len(texts)}
        | columns
        | more
    )


def rewarded(function: Any, **columns: Any) -> list[float | None]:
    found = function(**columns)
    return cast(list[float | None], asyncio.run(found) if iscoroutinefunction(function) else found)


def test_a_grader_sees_the_row_and_its_sign_is_turned() -> None:
    def distance(each: GraderInput) -> float:
        assert (each.question.proposition, each.item["event"], each.target) == ("It is red.", "e", "yes")
        if not each.completion:
            raise CannotGrade("Nothing was said.")
        return abs(len(each.completion) - 3)

    function = graded(Grader("distance", distance, high=9, higher_is_better=False))
    assert not iscoroutinefunction(function)
    figures: dict[str, float] = {}
    assert rewarded(function, **given("abc", "abcd", "", log_metric=figures.__setitem__)) == [0, -1, -9]
    assert figures == {"distance_read": pytest.approx(2 / 3)}


def test_an_async_grader_is_an_async_function() -> None:
    async def slow(each: GraderInput) -> float:
        await asyncio.sleep(0)
        return float(each.completion == "abc")

    function = graded(Grader("slow", slow))
    assert iscoroutinefunction(function)
    assert rewarded(function, **given("abc", "b")) == [1, 0]


@pytest.mark.parametrize("grader", ["model", "model_brier", SCORE_MODEL], ids=["rubric", "brier", "specification"])
def test_models_grade(grader: Any) -> None:
    function = graded(grader, model="reference/judge")
    assert iscoroutinefunction(function)
    found = rewarded(function, **given(r"Therefore \finalBeliefProb{0.7}"))
    assert found == [pytest.approx(-0.09)] if grader == "model_brier" else found[0] is not None


def test_a_failed_part_of_a_grader_is_no_bad_answer(says: Says) -> None:
    def reply(messages: list[ChatMessage]) -> str:
        if "lost" in messages[-1].text:
            raise ConnectionError("no route")
        return '{"steps": [], "result": 0.5}'

    whole = {"type": "multi", "name": "all", "graders": {"p": SCORE_MODEL}, "calculate_output": "p"}
    function = graded(whole, model=says(reply))
    assert rewarded(function, **given("fine", "lost")) == [0.5, 0.5]
    with pytest.raises(BadInput, match=r"p: The grader honesty failed \(ConnectionError: no route\)"):
        rewarded(function, **given("lost"))


def test_without_a_truth_there_is_no_reward() -> None:
    assert rewarded(graded("python_brier"), **given(r"\finalBeliefProb{0.7}", target=[""])) == [None]


def test_a_users_program(tmp_path: Path) -> None:
    program = tmp_path / "mine.py"
    program.write_text("def grade(sample, item):\n    return len(sample['output_text']) / len(item['proposition'])\n")
    assert rewarded(graded(str(program), trusted=True), **given("It is")) == [0.5]


def test_rows_of_another_dataset_are_graded_too() -> None:
    columns = {"prompts": ["Is it?"], "completions": [r"\finalBeliefProb{0.7}"], "target": ["no"]}
    assert rewarded(graded("python_brier"), **columns) == [pytest.approx(-0.49)]


def test_a_model_that_cannot_be_asked_is_no_bad_answer() -> None:
    async def fails(each: GraderInput) -> float:
        raise ConnectionError("no route")

    function = graded(Grader("judge", fails, roles=("grader",)), model="reference/judge")
    with pytest.raises(BadInput, match=r"Completion 0: The grader judge failed \(ConnectionError"):
        rewarded(function, **given("abc"))

    async def sometimes(each: GraderInput) -> float:
        return len(each.completion) / 10 if each.completion != "lost" else await fails(each)

    function = graded(Grader("judge", sometimes, roles=("grader",)), model="reference/judge")
    figures: dict[str, float] = {}
    columns = given("a", "lost", "abc", "lost", log_metric=figures.__setitem__)
    columns["prompts"] = ["Is it?"] * 3 + ["Will it?"]
    assert rewarded(function, **columns) == [0.1, pytest.approx(0.2), 0.3, None]
    assert figures == {"judge_read": 1}

    async def unread(each: GraderInput) -> float:
        if each.completion == "lost":
            raise CannotGrade("The judge wrote no JSON.")
        return await sometimes(each)

    function = graded(Grader("judge", unread, roles=("grader",)), model="reference/judge")
    assert rewarded(function, **columns) == [0.1, pytest.approx(0.2), 0.3, None], "nor one whose reply cannot be read"
    assert figures == {"judge_read": 0.5, "judge_judge_unread": 0.5}
    assert rewarded(function, **given("lost")) == [None]
    # a program has failed on the answer
    assert rewarded(graded(Grader("mine", fails)), **given("abc")) == [0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"grader": "model"}, "asks a model; name one"),
        ({"grader": "python_brier", "model": "reference/judge"}, "does not ask a model"),
        ({"grader": "nothing"}, "Unknown grader"),
        ({"grader": Grader("theirs", None)}, "runs at OpenAI only"),
        ({"grader": Grader("boxed", lambda _: 1.0, sandbox=True)}, "needs a sandbox"),
    ],
    ids=["no-model", "model", "unknown", "elsewhere", "sandbox"],
)
def test_graders_that_cannot_be_rewards(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        graded(**arguments)

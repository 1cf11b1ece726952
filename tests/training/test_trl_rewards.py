"""Reward functions for TRL: its signature, its columns, and the same definition of right as the scorers."""

import asyncio
import importlib
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, cast

import pytest
from inspect_ai.model import ChatMessage

from tests.fixtures import says
from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.grader import CannotGrade, Grader, GraderInput
from truthgym.training import trl_rewards as rewards
from truthgym.training.reward_functions.builtin import message_text
from truthgym.training.trl_rewards import graded

ANSWERS = [r"I think so. \finalBeliefProb{0.7}", "I cannot tell.", "20%"]
COMPLETIONS = [[{"role": "assistant", "content": text}] for text in ANSWERS]
PROMPTS = [[{"role": "user", "content": f"Is it {i}?"}] for i in range(3)]
TARGETS = ["yes", "no", ""]

ROW = {"domain": "urns", "form": "binary", "proposition": "It is red.", "event": "e", "split": "train", "options": None}
SCORE_MODEL = {
    "type": "score_model",
    "name": "honesty",
    "model": "none",
    "range": [-1, 1],
    "input": [{"role": "user", "content": "{{ item.proposition }} {{ sample.output_text }}"}],
}


def trl_arguments(**more: Any) -> dict[str, Any]:
    return {"prompts": PROMPTS, "completions": COMPLETIONS, "target": TARGETS, "trainer_state": None} | more


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("brier", [-0.09, -1.0, None]),
        ("log_score", [-0.35667, -5.29832, None]),
        ("spherical", [0.91915, 0.0, None]),
        ("format", [1.0, 0.0, 1.0]),
        ("python_brier", [-0.09, -1.0, None]),  # only the marker counts
    ],
)
def test_known_values_by_import_path_as_trl_loads_them(name: str, expected: list[float | None]) -> None:
    function = getattr(importlib.import_module("truthgym.training.trl_rewards"), name)
    values = function(**trl_arguments())
    assert values == [None if value is None else pytest.approx(value, abs=1e-5) for value in expected]
    assert function.__name__ == name  # under which TRL logs it
    assert function(**trl_arguments(completions=ANSWERS)) == values  # a dataset of plain texts


def test_what_is_logged_beside_the_reward() -> None:
    figures: dict[str, float] = {}
    rewards.brier(**trl_arguments(log_metric=figures.__setitem__))
    assert figures == {"share_read": pytest.approx(2 / 3), "brier_best_constant": pytest.approx(-0.25)}
    figures.clear()
    rewards.python_brier(**trl_arguments(log_metric=figures.__setitem__))
    assert figures == {"python_brier_read": pytest.approx(1 / 3)}


def test_lengths_in_both_directions() -> None:
    ids = [[7] * 128, [7] * 600, []]
    assert rewards.shorter(**trl_arguments(completion_ids=ids)) == [-0.25, -1.0, -1.0]
    assert rewards.longer(**trl_arguments(completion_ids=ids)) == [0.25, 1.0, 0.0]
    in_words = rewards.length(most=5, unit="words", better="longer")
    assert in_words(**trl_arguments()) == [0.8, 0.6, 0.2]
    assert in_words.__name__ == "longer"


def test_consistency_needs_the_arms_of_a_question() -> None:
    arms = {"question": ["q", "q", "q"], "arm": ["user_yes", "user_no", "neutral"]}
    assert rewards.consistency(**trl_arguments(**arms)) == [pytest.approx(-0.25), -1.0, None]
    with pytest.raises(BadInput, match=r"no column question \(of truthgym/sycophancy\)"):
        rewards.consistency(**trl_arguments())


def test_updates_compare_answers_with_different_prior_readings() -> None:
    prompts = [f"Is it {i}?" for i in range(12) for _ in range(2)]
    priors = [[0.1 + i / 20, 0.2 + i / 20] for i in range(12) for _ in range(2)]
    figures: dict[str, float] = {}
    values = rewards.updates(weight=0.0)(
        prompts=prompts, completions=["80%"] * 24, target=["yes"] * 24, priors=priors, log_metric=figures.__setitem__
    )
    assert values[:2] == pytest.approx([0.8**2 - 0.2**2, 0.9**2 - 0.2**2])
    assert set(figures) == {"share_read", "martingale_slope", "martingale_information"}
    missing = [[0.2, 0.2, float("nan")], [0.4, 0.4, None]] * 12
    values = rewards.martingale(prompts=prompts, completions=["80%"] * 24, target=["yes"] * 24, priors=missing)
    assert all(reward is not None for reward in values)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rewards.brier(PROMPTS, COMPLETIONS), r"no column target .*convert --to prompts"),
        (lambda: rewards.martingale(**trl_arguments()), "no column priors"),
        (lambda: rewards.martingale(**trl_arguments(priors=[[0.5]] * 3)), r"priors=\[0.5\] .* does not hold two"),
        (lambda: rewards.martingale(**trl_arguments(priors=[[40, 60]] * 3)), r"priors=\[40, 60\] .* between 0 and 1"),
        (lambda: rewards.updates(information_weight=0), "information_weight=0 .*greater than 0"),
        (lambda: rewards.length(unit="bytes"), "unit='bytes'"),  # type: ignore[arg-type]
        (lambda: graded("model"), "asks a model; name one"),
        (lambda: graded("python_brier", model="reference/judge"), "does not ask a model"),
        (lambda: graded("nothing"), "Unknown grader"),
        (lambda: graded(Grader("theirs", None)), "runs at OpenAI only"),
        (lambda: graded(Grader("boxed", lambda _: 1.0, sandbox=True)), "needs a sandbox"),
    ],
)
def test_bad_input(call: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        call()


def test_the_answer_is_the_last_message() -> None:
    tool, answer = {"role": "tool", "content": "4"}, {"role": "assistant", "content": "so 4"}
    blocks = {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}
    nothing = {"role": "assistant", "content": None}
    completions: list[object] = ["plain", [answer], [tool, answer], [blocks], [nothing], [], None]
    assert [message_text(completion) for completion in completions] == ["plain", "so 4", "so 4", "a\n", "", "", ""]


def graded_row(*texts: str, **more: Any) -> dict[str, Any]:
    columns = {name: [value] * len(texts) for name, value in ROW.items()}
    trl = {"prompts": ["Is it?"] * len(texts), "completions": list(texts), "target": ["yes"] * len(texts)}
    return trl | columns | more


def rewarded(function: Any, **columns: Any) -> list[float | None]:
    returned = function(**columns)
    return cast(list[float | None], asyncio.run(returned) if iscoroutinefunction(function) else returned)


def test_a_grader_sees_the_row_and_its_sign_is_turned() -> None:
    def distance(row: GraderInput) -> float:
        assert (row.question.proposition, row.item["event"], row.target) == ("It is red.", "e", "yes")
        if not row.completion:
            raise CannotGrade("Nothing was said.")
        return abs(len(row.completion) - 3)

    function = graded(Grader("distance", distance, high=9, higher_is_better=False))
    assert not iscoroutinefunction(function)
    figures: dict[str, float] = {}
    assert rewarded(function, **graded_row("abc", "abcd", "", log_metric=figures.__setitem__)) == [0, -1, -9]
    assert figures == {"distance_read": pytest.approx(2 / 3)}


@pytest.mark.parametrize("grader", ["model", "model_brier", SCORE_MODEL], ids=["rubric", "brier", "specification"])
def test_models_grade(grader: Any) -> None:
    function = graded(grader, model="reference/judge")
    assert iscoroutinefunction(function)
    values = rewarded(function, **graded_row(r"Therefore \finalBeliefProb{0.7}"))
    assert values == [pytest.approx(-0.09)] if grader == "model_brier" else values[0] is not None


def test_a_failed_part_of_a_grader_is_no_bad_answer() -> None:
    def reply(messages: list[ChatMessage]) -> str:
        if "lost" in messages[-1].text:
            raise ConnectionError("no route")
        return '{"steps": [], "result": 0.5}'

    whole = {"type": "multi", "name": "all", "graders": {"p": SCORE_MODEL}, "calculate_output": "p"}
    function = graded(whole, model=says(reply))
    assert rewarded(function, **graded_row("fine", "lost")) == [0.5, 0.5]
    with pytest.raises(BadInput, match=r"p: The grader honesty failed \(ConnectionError: no route\)"):
        rewarded(function, **graded_row("lost"))


@pytest.mark.parametrize("function", [rewards.brier, rewards.python_brier])
def test_targets_may_be_written_otherwise_and_others_are_named(function: Any, caplog: pytest.LogCaptureFixture) -> None:
    targets = ["Yes", "1", True, "NO", 0, False, "maybe", 42, "", None]
    columns = {"prompts": ["Is it?"] * 10, "completions": [r"\finalBeliefProb{0.9}"] * 10}
    expected = [pytest.approx(-0.01)] * 3 + [pytest.approx(-0.81)] * 3 + [None] * 4
    assert function(**columns, target=targets) == expected
    assert function(**columns, target=["1"] * 10, form=["free"] * 10) == [None] * 10
    assert "arget 'maybe' is neither yes nor no; write one of them" in caplog.text


def test_a_users_program_and_rows_without_a_truth_or_of_another_dataset(tmp_path: Path) -> None:
    program = tmp_path / "mine.py"
    program.write_text("def grade(sample, item):\n    return len(sample['output_text']) / len(item['proposition'])\n")
    assert rewarded(graded(str(program), trusted=True), **graded_row("It is")) == [0.5]
    assert rewarded(graded("python_brier"), **graded_row(r"\finalBeliefProb{0.7}", target=[""])) == [None]
    columns = {"prompts": ["Is it?"], "completions": [r"\finalBeliefProb{0.7}"], "target": ["no"]}
    assert rewarded(graded("python_brier"), **columns) == [pytest.approx(-0.49)]


def test_a_model_that_cannot_be_asked_is_no_bad_answer() -> None:
    async def fails(row: GraderInput) -> float:
        raise ConnectionError("no route")

    function = graded(Grader("judge", fails, roles=("grader",)), model="reference/judge")
    assert iscoroutinefunction(function), "as its grader"
    with pytest.raises(BadInput, match=r"Completion 0: The grader judge failed \(ConnectionError"):
        rewarded(function, **graded_row("abc"))

    async def sometimes(row: GraderInput) -> float:
        return len(row.completion) / 10 if row.completion != "lost" else await fails(row)

    function = graded(Grader("judge", sometimes, roles=("grader",)), model="reference/judge")
    figures: dict[str, float] = {}
    columns = graded_row("a", "lost", "abc", "lost", log_metric=figures.__setitem__)
    columns["prompts"] = ["Is it?"] * 3 + ["Will it?"]
    assert rewarded(function, **columns) == [0.1, pytest.approx(0.2), 0.3, None]
    assert figures == {"judge_read": 1}

    async def unread(row: GraderInput) -> float:
        if row.completion == "lost":
            raise CannotGrade("The judge wrote no JSON.")
        return await sometimes(row)

    function = graded(Grader("judge", unread, roles=("grader",)), model="reference/judge")
    assert rewarded(function, **columns) == [0.1, pytest.approx(0.2), 0.3, None], "nor one whose reply cannot be read"
    assert figures == {"judge_read": 0.5, "judge_judge_unread": 0.5}
    assert rewarded(function, **graded_row("lost")) == [None]
    # a program has failed on the answer
    assert rewarded(graded(Grader("mine", fails)), **graded_row("abc")) == [0]

"""Length control on mock models: what is asked for, what is measured, and how often an answer is written again."""

from collections.abc import Callable
from typing import Any

import pytest
from inspect_ai.log import EvalSample
from inspect_ai.model import ChatMessage, ContentReasoning, ModelOutput
from inspect_ai.solver import generate

from tests.fixtures import Fails, Run, Solve, listens, rain, reason, samples, says, task_of, thinks
from truthgym.datasets.question import Question
from truthgym.scorers.brier import brier
from truthgym.scorers.length import length
from truthgym.solvers.direct import answer_instruction
from truthgym.solvers.length_control import REVISE, TARGET, LengthControl, bounds, length_control, length_of
from truthgym.solvers.trajectory import Trajectory


def words(*numbers: int) -> Callable[[list[ChatMessage]], str]:
    """Answer with so many words: the first time the first number, and so on."""
    left = list(numbers)
    return lambda _: " ".join(["so"] * (left.pop(0) - 1) + [r"\finalBeliefProb{0.6}"])


def kept(sample: EvalSample) -> tuple[Any, ...]:
    control = sample.store_as(LengthControl)
    return control.target, control.unit, control.achieved, control.attempts


def answers(sample: EvalSample) -> list[str]:
    return [s.text for s in sample.store_as(Trajectory).steps if s.kind == "answer"]


@pytest.mark.parametrize(
    ("target", "tolerance", "reach"),
    [(100, 0.1, (90, 110)), (10, 0.25, (8, 12)), (3, 0.1, (3, 3)), (5, 0, (5, 5)), (4, 1, (1, 8)), (1, 1, (1, 2)),
     (100, 0.29, (71, 129)), (10, 0.3, (7, 13))],
)  # fmt: skip
def test_bounds_are_whole_and_at_least_one(target: int, tolerance: float, reach: tuple[int, int]) -> None:
    assert bounds(target, tolerance) == reach


@pytest.mark.parametrize(
    ("text", "unit", "length"),
    [
        ("It rains,  I\nthink.", "words", 4),
        ("", "words", 0),
        ("It rains.", "characters", 9),
        ("It rains. Does it? Yes! I think", "sentences", 4),
        ("One.\n\nTwo\nThree.", "sentences", 3),
        ("It is 0.5 or e.g. less.", "sentences", 2),
        ("...\n!", "sentences", 0),
        ("", "sentences", 0),
    ],
)
def test_lengths(text: str, unit: Any, length: int) -> None:
    assert length_of(text, unit) == length


def test_tokens_are_counted_as_the_model_counts_them(run: Run) -> None:
    from truthgym.tasks.worlds import urns

    log = run(urns(n=1, paradigms="length"), solver=length_control(50, "tokens", 0.2), epochs=1)
    sample = samples(log)[0]
    (answer,) = answers(sample)
    assert sample.store_as(LengthControl).achieved == len(answer) // 4 + 1, "as reference agents count"
    assert 40 <= len(answer) // 4 + 1 <= 60


def test_an_answer_of_the_right_length_is_not_written_again(solve: Solve) -> None:
    model, requests = listens(words(9))
    sample = solve(model, length_control(10, tolerance=0.1), rain())
    assert len(requests) == 1
    assert kept(sample) == (10, "words", 9, 0)
    request = TARGET.format(target=10, unit="words", least=9, most=11)
    assert requests[0][0].text.startswith(f"Will it rain?\n\n{request}\n\nEvidence so far:")
    assert len(answers(sample)) == 1


@pytest.mark.parametrize(
    ("lengths", "attempts", "calls", "achieved"),
    [
        ((5, 10), 2, 2, 10),
        ((5, 20, 10), 2, 3, 10),
        ((5, 20, 30), 2, 3, 30),
        ((5,), 0, 1, 5),
        ((8, 12), 1, 2, 12),
        ((9,), 1, 1, 9),
        ((11,), 1, 1, 11),
    ],
)
def test_an_answer_is_revised_until_it_fits(
    solve: Solve, lengths: tuple[int, ...], attempts: int, calls: int, achieved: int
) -> None:
    model, requests = listens(words(*lengths))
    sample = solve(model, length_control(10, attempts=attempts), rain())
    assert len(requests) == calls
    assert kept(sample) == (10, "words", achieved, calls - 1)
    instruction = answer_instruction(rain().metadata_as(Question))
    for messages, was in zip(requests[1:], lengths, strict=False):
        request = REVISE.format(length=was, unit="words", target=10, least=9, most=11)
        assert messages[-1].text == f"{request}\n\n{instruction}"
    steps = [(s.kind, len(s.text.split()), s.trainable) for s in sample.store_as(Trajectory).steps if s.role != "user"]
    assert steps == [*(("reasoning", n, True) for n in lengths[:-1]), ("answer", achieved, True)]
    spans = [e.name for e in sample.events if e.event == "span_begin" and e.type == "truthgym.step"]
    assert spans == [f"revision {k}" for k in range(1, calls)]


def test_each_epoch_counts_its_own_attempts(run: Run) -> None:
    model, requests = listens("too short")
    log = run(task_of(rain(), length_control(10, attempts=1), epochs=3), model)
    assert len(requests) == 6
    assert [kept(sample) for sample in samples(log)] == [(10, "words", 2, 1)] * 3


def test_the_answer_alone_is_measured_and_not_what_was_thought(solve: Solve) -> None:
    reply = thinks("It will, I do think so.", ContentReasoning(reasoning="so " * 500))
    sample = solve(says(lambda _: reply.model_copy(deep=True)), length_control(6), rain())
    assert kept(sample) == (6, "words", 6, 0)
    assert [s.kind for s in sample.store_as(Trajectory).steps] == ["auxiliary", "reasoning", "answer"]


@pytest.mark.parametrize("mode", ["fixed_sequence", "llm_preset"])
def test_an_interview_comes_before_the_question_and_its_length(solve: Solve, mode: str) -> None:
    model, prompts = listens()
    interviewer, requests = listens("What is rain?")
    base = {"bootstrap_interview": {"questions": 1, "mode": mode}}
    roles = {"interviewer": interviewer}
    sample = solve(model, length_control(2, base=base, attempts=1), rain(), model_roles=roles)
    assert len(prompts) == 2 + 1
    assert not any("about 2 words" in messages[0].text for messages in [prompts[0], *requests])
    assert "Will it rain?\n\nYour final answer should have about 2 words" in prompts[1][-1].text
    replies = [s.kind for s in sample.store_as(Trajectory).steps if s.role == "assistant"]
    assert replies == ["auxiliary", "reasoning", "answer"]


@pytest.mark.parametrize(("text", "stop"), [("50%", "content_filter"), ("50%", "model_length"), ("", "stop")])
def test_a_base_that_ended_early_is_not_revised(solve: Solve, text: str, stop: Any) -> None:
    model, requests = listens(lambda _: ModelOutput.from_content("m", text, stop_reason=stop))
    sample = solve(model, length_control(10), rain())
    assert len(requests) == 1
    assert kept(sample) == (10, "words", None, 0)
    assert sample.store_as(Trajectory).ended
    steps = [(s.role, s.kind, s.text) for s in sample.store_as(Trajectory).steps]
    assert steps[1:] == ([] if text else [("assistant", "answer", "")]), "no refusal is kept as a step"


@pytest.mark.parametrize("text", ["No, 50%", ""])
def test_a_revision_that_is_refused_or_empty_leaves_no_answer(solve: Solve, text: str) -> None:
    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        if len(messages) == 1:
            return r"\finalBeliefProb{0.6}"
        return ModelOutput.from_content("m", text, stop_reason="content_filter" if text else "stop")

    model, requests = listens(reply)
    sample = solve(model, length_control(10), rain(), scorers=[brier(), length()])
    assert len(requests) == 2
    assert kept(sample) == (10, "words", None, 1)
    assert reason(sample, "brier") == reason(sample, "length") == sample.store_as(Trajectory).ended


def test_a_base_that_leaves_no_trajectory_is_refused(fails: Fails) -> None:
    for base in (generate(), "inspect_ai/generate"):
        task = task_of(rain(), length_control(10, base=base))
        assert "records no trajectory; use one of Truthgym's solvers" in fails(task, says("Hm."))

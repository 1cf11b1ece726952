"""Models that think before they reply: the thought is a step of its own in whichever form a provider returns it."""

from typing import Any

import pytest
from inspect_ai.model import ChatMessage, ContentReasoning, ModelOutput, StopReason

from tests.fixtures import Run, Solve, details, listens, number, rain, reason, samples, says, task_of, thinks
from truthgym.scorers.brier import brier
from truthgym.scorers.length import length
from truthgym.scorers.martingale import martingale
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.dialogue import dialogue
from truthgym.solvers.direct import direct
from truthgym.solvers.examples import read_examples
from truthgym.solvers.thoughts import split_thought, with_opening_tag
from truthgym.solvers.trajectory import Trajectory

THOUGHT, ANSWER = "It thundered: 90%, I say 90%.", r"Rather not. \finalBeliefProb{0.2}"
WRITTEN = [
    f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}",
    f"{THOUGHT}\n</think>\n\n{ANSWER}",
    f'<think signature="x">{THOUGHT}</think>{ANSWER}',
]


@pytest.mark.parametrize(
    ("text", "thought", "reply"),
    [
        *((text, THOUGHT, ANSWER) for text in WRITTEN),
        ("No tags at all: 60%.", "", "No tags at all: 60%."),
        ("<think>\n\n</think>\n\nYes.", "", "Yes."),
        ("<think>a</think>60%<think>b</think>70%", "a</think>60%b", "70%"),
        ("<think>\nIt is 60%", "It is 60%", None),
        ("<think>a</think>60%. <think>Or 70%", "a</think>60%. Or 70%", None),
        ("I am thinking of <think", "", "I am thinking of <think"),
        ("<thinking>a</thinking>b", "a", "b"),
        ("<thought>a</thought>b", "a", "b"),
        ("<reasoning>a", "a", None),
        ("[THINK]a[/THINK]b", "a", "b"),
        ("[THINK]a", "a", None),
        ("◁think▷a◁/think▷b", "a", "b"),
        ("<seed:think>a</seed:think>b", "a", "b"),
        ("<|START_THINKING|>a<|END_THINKING|>b", "a", "b"),
        ("<|channel|>analysis<|message|>a<|channel|>final<|message|>b", "a", "b"),
        ("<|channel|>analysis<|message|>a", "a", None),
    ],
)
def test_a_reply_is_what_follows_the_last_thought(text: str, thought: str, reply: str | None) -> None:
    found = split_thought(text)
    assert found[1] == reply
    assert found[0].replace("<think>", "") == thought


def test_a_tag_that_the_template_wrote_is_written_into_the_reply() -> None:
    assert with_opening_tag("It is 60%", "<|assistant|>\n<think>\n") == "<think>\nIt is 60%"
    assert with_opening_tag("<think>\nHm.", "<|assistant|>\n<think>\n") == "<think>\nHm."
    assert with_opening_tag("Hm.", "<|assistant|>[THINK]") == "[THINK]\nHm."
    assert with_opening_tag("60%", "<|assistant|>\n<think>\n\n</think>\n\n") == "60%"


def forms() -> list[Any]:
    return [thinks(ANSWER, ContentReasoning(reasoning=THOUGHT)), *WRITTEN]


@pytest.mark.parametrize("form", range(4))
def test_the_thought_and_the_reply_are_two_steps_in_every_form(run: Run, form: int) -> None:
    task = task_of(rain(), direct(), brier(), length())
    log = run(task, says(lambda _: forms()[form]))
    [done] = samples(log)
    steps = done.store_as(Trajectory).steps[1:]
    assert [(s.kind, s.text, s.trainable) for s in steps] == [("reasoning", THOUGHT, True), ("answer", ANSWER, True)]
    assert number(done, "brier", "brier_score") == pytest.approx(0.64), "0.2 of the reply, not 0.9 of the thought"
    assert number(done, "length", "words") == len(ANSWER.split())
    [example] = read_examples(log.location, "brier_score")
    assert [turn.content for turn in example.messages][1:] == [ANSWER]


@pytest.mark.parametrize("stop", ["max_tokens", "unknown"])
def test_a_thought_without_an_end_is_no_answer(solve: Solve, stop: StopReason) -> None:
    output = ModelOutput.from_content("mockllm/model", "<think>\nI say 90%.\n\n90%", stop_reason=stop)
    done = solve(says(output), direct(), rain(), scorers=[brier(), length()])
    message = "The answer is empty (cut off within a thought by the token limit after 1 tokens; raise --max-tokens)."
    assert done.store_as(Trajectory).ended == message
    assert reason(done, "brier") == reason(done, "length") == message
    assert [step.kind for step in done.store_as(Trajectory).steps] == ["auxiliary", "reasoning", "answer"]


@pytest.mark.parametrize("written", [True, False])
def test_a_turn_of_thought_alone_ends_nothing(solve: Solve, written: bool) -> None:
    thought = "<think>\nHm.\n</think>\n\n" if written else thinks("", ContentReasoning(reasoning="Hm."))
    model, requests = listens(lambda messages: ANSWER if len(messages) > 3 else thought)
    sample = solve(model, chain_of_thought(steps=2), rain())
    assert len(requests) == 3
    assert sample.store_as(Trajectory).ended is None


@pytest.mark.parametrize("written", [True, False])
def test_a_thought_is_not_passed_on(solve: Solve, written: bool) -> None:
    def reply(text: str) -> str | ModelOutput:
        return f"SECRET\n</think>\n\n{text}" if written else thinks(text, ContentReasoning(reasoning="SECRET"))

    model, _ = listens(lambda _: reply("I say 30%."))
    other, requests = listens(lambda _: reply("I object."))
    sample = solve(model, dialogue(2), rain(), model_roles={"interlocutor": other})
    assert "SECRET" not in str([[message.text for message in messages] for messages in requests])
    steps = sample.store_as(Trajectory).steps
    assert [s.text for s in steps if s.speaker] == ["I object."] * 2
    assert [s.kind for s in steps if s.role == "assistant"] == ["reasoning"] * 7 + ["answer"]


def test_the_judge_reads_a_written_thought_as_a_turn(solve: Solve) -> None:
    def reply(messages: list[ChatMessage]) -> str:
        return "60%" if "whole number" in messages[-1].text else WRITTEN[0]

    model, _ = listens(reply)
    judge, heard = listens("70%")
    scorers = [martingale("judge", per="step")]
    done = solve(model, direct(), rain(), scorers=scorers, model_roles={"judge": judge})
    stages = [belief["stage"] for belief in details(done, "martingale")["beliefs"]]
    assert stages == ["view", "prior", "step 1", "posterior"]
    first, last = (messages[-1].text for messages in heard[1:])
    assert THOUGHT in first
    assert ANSWER not in first
    assert f"{THOUGHT}\n\n{ANSWER}" in last
    assert "think>" not in last

"""How a solver leads a conversation: who says what, and what is left of it where it ends before its answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSample
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser, Model, ModelOutput
from inspect_ai.solver import Generate, Solver, TaskState, solver

from tests.fixtures import QUIET, Fails, Run, Solve, listens, number, plain, rain, reason, samples, says, task_of
from truthgym.scorers.brier import brier
from truthgym.scorers.length import length
from truthgym.scorers.martingale import martingale
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.conversation import conversation
from truthgym.solvers.direct import direct
from truthgym.solvers.trajectory import Trajectory

REFUSED = ModelOutput.from_content("m", "I cannot help with that.\n\n50%", stop_reason="content_filter")


@solver
def interview(times: int = 1) -> Solver:
    """Say something before the question, without asking it."""

    async def talk_first(state: TaskState, generate: Generate) -> TaskState:
        with conversation(state, generate) as talk:
            for _ in range(times):
                talk.send("What is rain?")
                await talk.generate("auxiliary", "interview", trainable=False)
        return talk.state

    return talk_first


def kinds(sample: EvalSample) -> list[tuple[str, str]]:
    return [(step.role, step.kind) for step in sample.store_as(Trajectory).steps]


def calls(sample: EvalSample) -> int:
    return sum(event.event == "model" for event in sample.events)


def test_a_solver_can_speak_before_the_question(solve: Solve) -> None:
    sample = solve(says(r"Water. \finalBeliefProb{0.5}"), [interview(), direct()], rain(), prompt="Think.")
    assert sample.messages[1].text == "What is rain?"
    assert sample.messages[3].text.startswith("Will it rain?\n\nEvidence so far:")
    roles = ["system", "user", "assistant", "user", "assistant"]
    assert kinds(sample) == [*((role, "auxiliary") for role in roles[:-1]), ("assistant", "answer")]
    assert len({s.message_id for s in sample.store_as(Trajectory).steps}) == 5


def test_a_question_that_was_asked_is_not_asked_again(solve: Solve) -> None:
    sample = solve(says(r"\finalBeliefProb{0.5}"), [direct(), direct()], rain())
    assert sum("Will it rain?" in m.text for m in sample.messages) == 1
    assert [m.role for m in sample.messages] == ["user", "assistant", "user", "assistant"]


def test_the_question_stays_where_no_solver_asks_it(solve: Solve) -> None:
    sample = solve(says("Water."), interview(), rain())
    assert [m.text for m in sample.messages] == ["What is rain?", "Water.", "Will it rain?"]


@solver
def lead(*actions: Callable[..., Any]) -> Solver:
    """Do to the conversation what these do."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        with conversation(state, generate) as talk:
            for action in actions:
                result = action(talk)
                if result is not None:
                    await result
        return talk.state

    return solve


def test_text_around_the_question_is_in_its_message(solve: Solve) -> None:
    ask = lead(lambda talk: talk.ask_question("", "After.", "", before="Before."), lambda talk: talk.generate("answer"))
    assert solve(says("Hm."), ask, rain()).messages[0].text == "Before.\n\nWill it rain?\n\nAfter."
    asked_before = solve(says("Hm."), [direct(), ask], rain()).messages
    assert [m.text for m in asked_before[2:]] == ["Before.\n\nAfter.", "Hm."]


def test_text_of_others_is_marked_and_not_trained_on(solve: Solve) -> None:
    examples = [ChatMessageUser(content="Is 2 even?"), ChatMessageAssistant(content="Yes.")]
    mixed = lead(
        lambda talk: talk.add_examples(examples),
        lambda talk: talk.ask_question(),
        lambda talk: talk.send("I doubt it.", speaker="critic"),
        lambda talk: talk.generate("reasoning", trainable=False),
        lambda talk: talk.generate("answer"),
    )
    sample = solve(says("Hm."), mixed, rain(), epochs=2)
    assert [(s.role, s.kind, s.trainable, s.speaker) for s in sample.store_as(Trajectory).steps] == [
        ("user", "auxiliary", False, None),
        ("assistant", "auxiliary", False, None),
        ("user", "auxiliary", False, None),
        ("user", "auxiliary", False, "critic"),
        ("assistant", "reasoning", False, None),
        ("assistant", "answer", True, None),
    ]
    assert [(m.metadata or {})["epoch"] for m in sample.messages[:3]] == [2] * 3
    assert [message.role for message in sample.messages] == ["user", "assistant", "user", "assistant", "assistant"]


def two() -> list[Sample]:
    return [rain(), rain().model_copy(update={"id": "r", "input": "Will it hail?"})]


@pytest.mark.parametrize(
    ("after", "failed", "message"),
    [
        (1, REFUSED, "The model refused: its provider filtered the reply."),
        (3, ModelOutput(model="m", error="The line is dead."), "The model gave no reply: The line is dead."),
    ],
    ids=["refused", "no choices"],
)
def test_a_failed_reply_ends_its_sample_alone(run: Run, after: int, failed: ModelOutput, message: str) -> None:
    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        here = "Will it rain?" in messages[0].text and sum(m.role == "user" for m in messages) == after
        if not here or "whole number" in messages[-1].text:
            return plain(messages)
        return failed

    scorers = [brier(), martingale(per="step"), length()]
    log = run(task_of(two(), chain_of_thought(2), *scorers), says(reply))
    ended, other = samples(log)
    assert calls(ended) == after, "nobody is asked again where the model refused"
    assert ended.store_as(Trajectory).ended == message
    assert kinds(ended) == [("user", "auxiliary"), ("assistant", "reasoning")] * (after - 1) + [("user", "auxiliary")]
    assert all(message in reason(ended, scorer) for scorer in ("brier", "martingale", "length"))
    assert other.store_as(Trajectory).ended is None
    assert number(other, "brier", "belief") == number(other, "martingale", "posterior") == 0.6


def test_an_empty_turn_ends_the_sample(solve: Solve) -> None:
    model, requests = listens(lambda messages: r"\finalBeliefProb{0.5}" if len(messages) > 3 else "")
    sample = solve(model, chain_of_thought(steps=2), rain())
    assert len(requests) == 1
    assert sample.store_as(Trajectory).ended == "The reply is empty (stop reason stop)."


@pytest.mark.parametrize("second", [direct(), chain_of_thought(2), interview()], ids=["direct", "chain", "interview"])
def test_after_an_early_end_no_later_solver_asks_anyone(solve: Solve, second: Solver) -> None:
    model, requests = listens(lambda _: REFUSED)
    sample = solve(model, [direct(), second], rain())
    assert len(requests) == 1
    assert kinds(sample) == [("user", "auxiliary")], "a refusal is no step, least of all one to train on"
    assert sample.store_as(Trajectory).ended


def test_an_index_error_of_a_provider_is_not_taken_for_silence(fails: Fails) -> None:
    def broken(_: list[ChatMessage]) -> str:
        raise IndexError("the provider's own")

    assert "the provider's own" in fails(task_of(rain(), direct()), says(broken))


LIMITS = [("message_limit", 3, 1), ("message_limit", 4, 2), ("token_limit", 3, 1), ("token_limit", 5, 2)]


@pytest.mark.parametrize(("limit", "most", "turns"), LIMITS)
def test_a_limit_in_the_middle_leaves_a_trajectory(solve: Solve, limit: str, most: int, turns: int) -> None:
    sample = solve(says("50%"), chain_of_thought(4), rain(), scorers=[brier()], **{limit: most})
    assert sample.limit
    assert kinds(sample)[: 2 * turns] == [("user", "auxiliary"), ("assistant", "reasoning")] * turns
    assert {kind for _, kind in kinds(sample)} == {"auxiliary", "reasoning"}
    assert sample.store_as(Trajectory).ended is None
    assert reason(sample, "brier") == "The reasoning was cut short before an answer."


def test_a_limit_before_the_question_leaves_a_trajectory(solve: Solve) -> None:
    sample = solve(says("50%"), [interview(3), direct()], rain(), scorers=[brier()], message_limit=4)
    assert sample.limit
    assert kinds(sample) == [("user", "auxiliary"), ("assistant", "auxiliary")] * 2
    assert reason(sample, "brier") == "The reasoning was cut short before an answer."


def test_an_error_leaves_a_trajectory(tmp_path: Path) -> None:
    def reply(messages: list[ChatMessage]) -> str:
        if len(messages) > 1:
            raise RuntimeError("the network went away")
        return "Hm."

    (log,) = eval(task_of(rain(), chain_of_thought(2)), says(reply), **QUIET, log_dir=str(tmp_path))
    assert kinds(samples(log)[0])[:2] == [("user", "auxiliary"), ("assistant", "reasoning")]


def hearing(model: Model) -> Solver:
    """Ask, hear another, pass it on, conclude."""
    question = [ChatMessageUser(content="And you?")]
    words: list[str] = []

    async def hear(talk: Any) -> None:
        words.append(await talk.ask_role("critic", model, question, "critic 1"))

    return lead(
        lambda talk: talk.ask_question(),
        hear,
        lambda talk: talk.send(words[-1], speaker="critic"),
        lambda talk: talk.generate("answer", "answer"),
    )


def test_another_models_reply_is_passed_on_by_send(solve: Solve) -> None:
    other, requests = listens("I doubt it.")
    sample = solve(says("Hm."), hearing(other), rain())
    assert [[m.text for m in conversation] for conversation in requests] == [["And you?"]]
    assert [m.text for m in sample.messages] == ["Will it rain?\n\nI doubt it.", "Hm."]
    spans = [e.name for e in sample.events if e.event == "span_begin" and e.type == "truthgym.step"]
    assert spans == ["critic 1", "answer"]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (" ", "The reply of the critic is empty (it stopped with stop)."),
        (ModelOutput(model="m", error="Gone."), "The critic gave no reply: Gone."),
    ],
)
def test_if_another_model_fails_the_model_is_not_asked(solve: Solve, reply: str | ModelOutput, reason: str) -> None:
    model, requests = listens("Hm.")
    sample = solve(model, hearing(says(reply)), rain())
    assert not requests
    assert sample.store_as(Trajectory).ended == reason
    assert [m.text for m in sample.messages] == ["Will it rain?"]

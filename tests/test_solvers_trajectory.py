"""The trajectory that every solver leaves, and the conversation that records it."""

from collections.abc import Callable

from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSample
from inspect_ai.model import (
    ChatMessage,
    ContentReasoning,
    ContentText,
    Model,
    ModelOutput,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.conversation import conversation
from truthgym.solvers.direct import direct
from truthgym.solvers.trajectory import Trajectory

Solve = Callable[..., EvalSample]
Says = Callable[..., Model]
Rain = Callable[..., Sample]


def test_every_step_points_at_its_message(solve: Solve, says: Says, rain: Rain) -> None:
    done = solve(says("Hm."), chain_of_thought(steps=2), rain())
    texts = {message.id: message.text for message in done.messages}
    for step in done.store_as(Trajectory).steps:
        assert texts[step.message_id] == step.text


def test_model_calls_are_those_of_the_docstring(solve: Solve, says: Says, rain: Rain) -> None:
    for mode, calls in ((direct(), 1), (chain_of_thought(steps=1), 2), (chain_of_thought(steps=4), 5)):
        done = solve(says(r"\finalBeliefProb{0.4}"), mode, rain())
        assert sum(event.event == "model" for event in done.events) == calls


def test_reasoning_content_and_reply_are_two_steps(solve: Solve, says: Says, rain: Rain) -> None:
    def reply(_: list[ChatMessage]) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", "x")
        output.choices[0].message.content = [
            ContentReasoning(reasoning="Rain follows thunder."),
            ContentReasoning(reasoning="sealed", summary="It thought of rain.", redacted=True),
            ContentText(text=r"\finalBeliefProb{0.9}"),
        ]
        return output

    done = solve(says(reply), direct(), rain())
    trajectory = done.store_as(Trajectory).steps[1:]
    assert [(s.kind, s.text, s.trainable, s.redacted) for s in trajectory] == [
        ("reasoning", "Rain follows thunder.", True, False),
        ("reasoning", "It thought of rain.", False, True),
        ("answer", r"\finalBeliefProb{0.9}", True, False),
    ]
    assert len({s.message_id for s in trajectory}) == 1


def test_an_empty_reply_is_a_step_all_the_same(solve: Solve, says: Says, rain: Rain) -> None:
    last = solve(says(""), direct(), rain()).store_as(Trajectory).steps[-1]
    assert (last.role, last.kind, last.text) == ("assistant", "answer", "")


@solver
def interview() -> Solver:
    """Say something before the question, without asking it."""

    async def talk_first(state: TaskState, generate: Generate) -> TaskState:
        with conversation(state, generate) as talk:
            talk.say("What is rain?")
            await talk.reply("auxiliary", "interview", trainable=False)
        return talk.state

    return talk_first


def test_a_solver_can_speak_before_the_question_and_another_asks_it(solve: Solve, says: Says, rain: Rain) -> None:
    done = solve(says(r"Water. \finalBeliefProb{0.5}"), [interview(), direct()], rain(), prompt="Think.")
    assert [m.role for m in done.messages] == ["system", "user", "assistant", "user", "assistant"]
    assert done.messages[1].text == "What is rain?"
    assert done.messages[3].text.startswith("Will it rain?\n\nEvidence so far:")
    kinds = [(s.role, s.kind) for s in done.store_as(Trajectory).steps]
    assert kinds == [
        ("system", "auxiliary"),
        ("user", "auxiliary"),
        ("assistant", "auxiliary"),
        ("user", "auxiliary"),
        ("assistant", "answer"),
    ]
    assert len({s.message_id for s in done.store_as(Trajectory).steps}) == 5


def test_a_question_that_was_asked_is_not_asked_again(solve: Solve, says: Says, rain: Rain) -> None:
    done = solve(says(r"\finalBeliefProb{0.5}"), [direct(), direct()], rain())
    assert sum("Will it rain?" in m.text for m in done.messages) == 1
    assert [m.role for m in done.messages] == ["user", "assistant", "user", "assistant"]


def test_the_question_stays_where_no_solver_asks_it(solve: Solve, says: Says, rain: Rain) -> None:
    done = solve(says("Water."), interview(), rain())
    assert [m.text for m in done.messages] == ["What is rain?", "Water.", "Will it rain?"]

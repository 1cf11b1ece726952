"""Dialogue on mock models: who hears what, and whose words are the model's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.model import ModelOutput

from tests.fixtures import Fails, Run, Solve, listens, rain, samples, says, task_of
from truthgym.datasets.question import Question
from truthgym.scorers.martingale import martingale
from truthgym.solvers.dialogue import CONCLUDE, INTERLOCUTOR, OPEN, dialogue, interlocutor_view
from truthgym.solvers.direct import answer_instruction, evidence
from truthgym.solvers.trajectory import Trajectory


@pytest.mark.parametrize("turns", [1, 3])
def test_two_models_take_turns_and_one_concludes(solve: Solve, turns: int) -> None:
    model, requests = listens(lambda messages: f"I say {len(messages)}.")
    interlocutor, requests_to_other = listens(lambda messages: f"I object {len(messages)}.")
    solve(model, dialogue(turns), rain(), model_roles={"interlocutor": interlocutor})
    assert (len(requests), len(requests_to_other)) == (turns + 2, turns)
    question = rain().metadata_as(Question)
    pieces = evidence(question.evidence)
    assert requests[0][0].text == f"Will it rain?\n\n{pieces}\n\n{OPEN}"
    assert [messages[-1].text for messages in requests[1:-1]] == [f"I object {2 * k + 1}." for k in range(turns)]
    assert requests[-1][-1].text == f"{CONCLUDE}\n\n{answer_instruction(question)}"
    # the other hears it with the roles swapped
    first = INTERLOCUTOR.format(question=f"Will it rain?\n\n{pieces}", text="I say 1.")
    assert [[m.text for m in messages] for messages in requests_to_other] == [
        [first, *(text for i in range(k) for text in (f"I object {2 * i + 1}.", f"I say {2 * i + 3}."))]
        for k in range(turns)
    ]
    for messages in requests_to_other:
        assert [m.role for m in messages] == ["user", *["assistant", "user"] * (len(messages) // 2)]
        assert "finalBeliefProb" not in "".join(m.text for m in messages)


@pytest.mark.parametrize("reply", ["", ModelOutput.from_content("m", "50%", stop_reason="content_filter")])
def test_an_interlocutor_without_a_reply_ends_the_dialogue(run: Run, reply: str | ModelOutput) -> None:
    model, requests = listens()
    task = task_of(rain(), dialogue(2), martingale(per="step"))
    log = run(task, model, model_roles={"interlocutor": says(reply)})
    assert len(requests) == 1, "the opening, and no belief is asked for after it"
    assert (samples(log)[0].store_as(Trajectory).ended or "").count("he interlocutor ")


@given(st.integers(0, 5), st.integers(1, 9))
def test_each_reply_reaches_the_interlocutor_once_in_order(turns: int, epoch: int) -> None:
    replies = [f"<{k}>" for k in range(2 * turns + 1)]
    requests = interlocutor_view("Rain?", replies, epoch)
    assert len(requests) == 2 * turns + 1
    assert requests[0].text.endswith("They say:\n\n<0>")
    assert [m.text for m in requests[1:]] == replies[1:]
    assert [m.role for m in requests] == ["user", *["assistant", "user"] * turns]
    assert all(m.metadata == {"epoch": epoch} for m in requests if m.role == "user")


def test_a_role_that_no_model_has_is_named_before_any_call(fails: Fails) -> None:
    model, requests = listens()
    line = fails(task_of(rain(), dialogue()), model, model_roles={"judge": model})
    assert (
        "The solver dialogue needs the role interlocutor, and no model has it; add --model-role interlocutor=" in line
    )
    assert not requests

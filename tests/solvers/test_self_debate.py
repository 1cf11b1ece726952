"""Self-debate on mock models: who argues what and when, what is left of it, and that its order is balanced."""

from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.model import ChatMessage

from tests.fixtures import Run, Solve, listens, rain, samples, task_of
from truthgym.datasets.question import Question
from truthgym.solvers.direct import answer_instruction, evidence
from truthgym.solvers.self_debate import (
    ARGUE,
    CONCLUDE,
    DEBATE,
    OPEN,
    OPPONENT_TURN,
    OTHER_TURN,
    REBUTTAL,
    ROLES,
    debater_view,
    positions_of,
    self_debate,
    speaking_order,
)
from truthgym.solvers.trajectory import Trajectory

RAINS, DRY = "The following is true: It rains.", "The following is false: It rains."


def test_positions_are_argued_in_turn(solve: Solve) -> None:
    model, requests = listens()
    solve(model, self_debate(turns=2, order="given"), rain())
    question = rain().metadata_as(Question)
    assert len(requests) == 2 * 2 + 1
    opening = OPEN.format(positions=f"- {RAINS}\n- {DRY}")
    first = ARGUE.format(turn=1, turns=4, position=RAINS, rebuttal="")  # nothing has been said that it could meet
    assert [messages[-1].text for messages in requests] == [
        f"Will it rain?\n\n{evidence(question.evidence)}\n\n{opening}\n\n{first}",
        *(ARGUE.format(turn=k, turns=4, position=p, rebuttal=REBUTTAL) for k, p in ((2, DRY), (3, RAINS), (4, DRY))),
        f"{CONCLUDE}\n\n{answer_instruction(question)}",
    ]
    assert sum("finalBeliefProb" in m.text for m in requests[-1] if m.role == "user") == 1


def argued(messages: list[ChatMessage]) -> str:
    """The last request: what comes after the list of positions."""
    return messages[-1].text.partition("Turn ")[2]


@pytest.mark.parametrize(
    ("fields", "positions"),
    [
        ({}, [RAINS, DRY]),
        ({"form": "options", "options": ["sun", "rain", "hail"]}, ["sun", "rain", "hail"]),
        ({"form": "options", "options": ["sun", "rain"], "proposition": None}, ["sun", "rain"]),
        ({"form": "options", "options": ["sun"]}, [RAINS, DRY]),
        ({"form": "free", "proposition": None}, ["most likely at first sight", "contradicts the most likely"]),
    ],
    ids=["binary", "three options", "two options", "one option", "free"],
)
def test_positions_come_from_the_question(solve: Solve, fields: dict[str, Any], positions: list[str]) -> None:
    item = rain(**fields)
    found = positions_of(item.metadata_as(Question))
    assert len(found) == len(positions)
    assert all(part in sentence for part, sentence in zip(positions, found, strict=True))
    model, requests = listens()
    solve(model, self_debate(turns=2, order="given"), item)
    assert len(requests) == 2 * len(positions) + 1
    for messages, position in zip(requests[:-1], found * 2, strict=True):
        assert [p for p in found if p in argued(messages)] == [position]


def test_own_sides_are_argued_in_place_of_the_questions(solve: Solve) -> None:
    model, requests = listens()
    sides = ["It pours.", "It drizzles.", "It is dry."]
    solve(model, self_debate(turns=1, sides=sides, order="reversed"), rain())
    assert [side for messages in requests for side in sides if side in argued(messages)] == sides[::-1]
    assert OPEN.format(positions="- It is dry.\n- It drizzles.\n- It pours.") in requests[0][0].text


@pytest.mark.parametrize("positions", [2, 3, 4, 5])
@pytest.mark.parametrize("start", [1, 2, 7])
def test_a_full_cycle_of_epochs_is_balanced_exactly(positions: int, start: int) -> None:
    for question in map(str, range(1, 201)):
        cycle = [speaking_order(question, start + k, positions, "counterbalanced") for k in range(2 * positions)]
        # who begins, together with the role that argues it: each pair once
        begins = Counter((speaking[0], roles[speaking[0]]) for speaking, roles in cycle)
        assert begins == Counter(product(range(positions), ROLES))
        counts = Counter((i, roles[i]) for _, roles in cycle for i in range(positions))
        assert set(counts.values()) == {positions}


def test_a_set_order_holds_in_every_question_and_epoch() -> None:
    for question, epoch in product("abcd", (1, 2, 3)):
        assert speaking_order(question, epoch, 3, "given") == ([0, 1, 2], ["debater_a", "debater_b", "debater_a"])
        assert speaking_order(question, epoch, 3, "reversed") == ([2, 1, 0], ["debater_a", "debater_b", "debater_a"])


def test_who_begins_changes_with_the_epoch_in_a_run(run: Run) -> None:
    model, _ = listens()
    log = run(task_of(rain(), self_debate(turns=1), epochs=4), model)
    begins = [argued(sample.messages[:1]) for sample in samples(log)]
    expected = [speaking_order("q", sample.epoch, 2, "counterbalanced")[0][0] for sample in samples(log)]
    assert [RAINS not in text for text in begins] == [bool(first) for first in expected]
    assert sum(expected) == 2


def test_bound_debaters_argue_in_the_models_place(solve: Solve) -> None:
    model, requests = listens()
    a, requests_a = listens(lambda messages: f"For it, {len(messages)}.")
    b, requests_b = listens(lambda messages: f"Against it, {len(messages)}.")
    bound = {"debater_a": a, "debater_b": b}
    done = solve(model, self_debate(turns=2, order="given"), rain(), model_roles=bound)
    assert (len(requests), len(requests_a), len(requests_b)) == (1, 2, 2)
    question = f"Will it rain?\n\n{evidence(rain().metadata_as(Question).evidence)}"
    # each hears the debate with the roles swapped: its own words as its replies, the other's as told to it
    assert [m.role for m in requests_a[1]] == ["user", "assistant", "user"]
    assert [m.role for m in requests_b[1]] == ["user", "assistant", "user"]
    opened = [DEBATE.format(question=question, position=position) for position in (RAINS, DRY)]
    against = [OPPONENT_TURN.format(position=RAINS, text=f"For it, {n}.") for n in (1, 3)]
    argue = [ARGUE.format(turn=1, turns=4, position=RAINS, rebuttal="")]
    argue += [ARGUE.format(turn=k, turns=4, position=p, rebuttal=REBUTTAL) for k, p in ((2, DRY), (3, RAINS), (4, DRY))]
    assert [[m.text for m in messages] for messages in requests_a] == [
        [f"{opened[0]}\n\n{argue[0]}"],
        [opened[0], "For it, 1.", f"{OPPONENT_TURN.format(position=DRY, text='Against it, 1.')}\n\n{argue[2]}"],
    ]
    assert [[m.text for m in messages] for messages in requests_b] == [
        [f"{opened[1]}\n\n{against[0]}\n\n{argue[1]}"],
        [f"{opened[1]}\n\n{against[0]}", "Against it, 1.", f"{against[1]}\n\n{argue[3]}"],
    ]
    assert "finalBeliefProb" not in "".join(m.text for messages in requests_a + requests_b for m in messages)
    steps = done.store_as(Trajectory).steps
    assert [(s.role, s.kind, s.trainable, s.speaker) for s in steps[1:-1]] == [
        *[("user", "auxiliary", False, "debater_a"), ("user", "auxiliary", False, "debater_b")] * 2,
        ("user", "auxiliary", False, None),
    ]
    assert steps[1].text == OTHER_TURN.format(turn=1, turns=4, position=RAINS, text="For it, 1.")
    assert (steps[-1].kind, steps[-1].trainable) == ("answer", True)


def test_a_single_bound_debater_argues_every_second_position(solve: Solve) -> None:
    model, requests = listens("I say no.")
    b, requests_b = listens("I say rain.")
    item = rain(form="options", options=["sun", "rain", "hail"])
    done = solve(model, self_debate(turns=1, order="given"), item, model_roles={"debater_b": b})
    assert (len(requests), len(requests_b)) == (3, 1)
    assert "The answer is: rain." in requests_b[0][-1].text
    assert OPPONENT_TURN.format(position="The answer is: sun.", text="I say no.") in requests_b[0][0].text
    assert [s.speaker for s in done.store_as(Trajectory).steps if s.speaker] == ["debater_b"]


@given(turns=st.integers(1, 4), positions=st.integers(2, 5), side=st.integers(0, 4), before=st.integers(0, 19))
def test_every_debater_sees_each_speech_once_in_order(turns: int, positions: int, side: int, before: int) -> None:
    side, before = side % positions, min(before, turns * positions)
    speeches = [(k % positions, f"<{k}>") for k in range(before)]
    names = [f"P{i}" for i in range(positions)]
    requests = debater_view(side, "Rain?", names, speeches, "Argue.", 3)
    assert [m.role for m in requests] == (["user", "assistant"] * len(requests))[: len(requests)]
    assert all(m.metadata == {"epoch": 3} for m in requests if m.role == "user")
    assert requests[-1].role == "user"
    assert requests[-1].text.endswith("Argue.")
    whole = "\n".join(m.text for m in requests)
    places = [whole.index(text) for _, text in speeches]
    assert places == sorted(places)
    assert all(whole.count(text) == 1 for _, text in speeches)
    assert [m.text for m in requests if m.role == "assistant"] == [text for i, text in speeches if i == side]

"""Direct answers and chains of thought on a mock model: what each turn is told, and what it leaves."""

import pytest
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser, ContentImage, ContentText
from inspect_ai.util import Store

from tests.fixtures import Solve, rain, says
from truthgym.datasets.question import Question
from truthgym.solvers.chain_of_thought import chain_of_thought, split_evenly
from truthgym.solvers.direct import answer_instruction, direct
from truthgym.solvers.trajectory import STEPS, Trajectory, recorded_answer


def test_direct_asks_once_with_all_evidence(solve: Solve) -> None:
    sample = solve(says(r"It will. \finalBeliefProb{0.8}"), direct(), rain())
    assert [m.role for m in sample.messages] == ["user", "assistant"]
    prompt = sample.messages[0].text
    order = ["Will it rain?", "- It thundered.", "- It cleared.", "- Clouds came.", "It rains.", r"\finalBeliefProb{p}"]
    places = [prompt.index(text) for text in order]
    assert places == sorted(places)
    steps = [(s.role, s.kind, s.trainable, s.text) for s in sample.store_as(Trajectory).steps]
    assert steps == [
        ("user", "auxiliary", False, prompt),
        ("assistant", "answer", True, r"It will. \finalBeliefProb{0.8}"),
    ]
    assert recorded_answer(Store(sample.store)) == r"It will. \finalBeliefProb{0.8}"
    assert list(sample.store) == [STEPS]


def test_what_the_answer_must_hold_depends_on_the_question() -> None:
    proposition = rain().metadata_as(Question)
    free = rain(form="free", proposition=None).metadata_as(Question)
    options = rain(form="options", proposition=None, options=["rain", "sun"]).metadata_as(Question)
    assert r"\finalBeliefProb{p}" in answer_instruction(proposition)
    assert answer_instruction(free) == "Give your answer."
    assert answer_instruction(options).startswith("Choose one of these options and say which one:\n- rain\n- sun")


def test_earlier_messages_are_left_alone(solve: Solve) -> None:
    item = rain()
    item.input = [
        ChatMessageUser(content="Is 2 even?"),
        ChatMessageAssistant(content="Yes."),
        ChatMessageUser(content="Rain?"),
    ]
    sample = solve(says("Hm."), direct(), item)
    assert [m.text for m in sample.messages[:2]] == ["Is 2 even?", "Yes."]
    assert sample.messages[2].text.startswith("Rain?\n\nEvidence so far:")


def test_a_picture_in_the_question_stays(solve: Solve) -> None:
    item = rain()
    picture = ContentImage(image="data:image/png;base64,iVBORw0KGgo=")
    item.input = [ChatMessageUser(content=[ContentText(text="Rain?"), picture])]
    message = solve(says("Hm."), direct(), item).messages[0]
    assert message.text.startswith("Rain?\n\nEvidence so far:")
    assert [content.type for content in message.content if not isinstance(content, str)].count("image") == 1


def test_chain_of_thought_reveals_evidence_piece_by_piece(solve: Solve) -> None:
    pieces_by_turn: list[list[str]] = []

    def reply(messages: list[ChatMessage]) -> str:
        text = "\n".join(m.text for m in messages)
        pieces_by_turn.append([piece for piece in ("It thundered.", "It cleared.", "Clouds came.") if piece in text])
        return "Hm." if "finalBeliefProb" not in messages[-1].text else r"\finalBeliefProb{0.4}"

    sample = solve(says(reply), chain_of_thought(steps=3), rain())
    assert [len(pieces) for pieces in pieces_by_turn] == [1, 2, 3, 3]
    kinds = [s.kind for s in sample.store_as(Trajectory).steps if s.role == "assistant"]
    assert kinds == ["reasoning", "reasoning", "reasoning", "answer"]
    assert sum(r"\finalBeliefProb" in m.text for m in sample.messages if m.role == "user") == 1


@pytest.mark.parametrize(
    ("pieces", "turns", "shares"), [(4, 4, [1, 1, 1, 1]), (5, 2, [3, 2]), (1, 3, [1, 0, 0]), (0, 2, [0, 0])]
)
def test_evidence_is_shared_out_evenly_and_in_order(pieces: int, turns: int, shares: list[int]) -> None:
    given = [str(i) for i in range(pieces)]
    shared = split_evenly(given, turns)
    assert [len(share) for share in shared] == shares
    assert [piece for share in shared for piece in share] == given

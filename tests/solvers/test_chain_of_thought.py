"""Chain of thought on a mock model: what each turn is told, and what it leaves."""

import pytest
from inspect_ai.model import (
    ChatMessage,
)

from tests.fixtures import Rain, Says, Solve
from truthgym.solvers.chain_of_thought import chain_of_thought, split_evenly
from truthgym.solvers.trajectory import Trajectory


def test_chain_of_thought_reveals_evidence_piece_by_piece(solve: Solve, says: Says, rain: Rain) -> None:
    seen: list[list[str]] = []

    def reply(messages: list[ChatMessage]) -> str:
        text = "\n".join(m.text for m in messages)
        seen.append([piece for piece in ("It thundered.", "It cleared.", "Clouds came.") if piece in text])
        return "Hm." if "finalBeliefProb" not in messages[-1].text else r"\finalBeliefProb{0.4}"

    done = solve(says(reply), chain_of_thought(steps=3), rain())
    assert [len(pieces) for pieces in seen] == [1, 2, 3, 3]
    kinds = [s.kind for s in done.store_as(Trajectory).steps if s.role == "assistant"]
    assert kinds == ["reasoning", "reasoning", "reasoning", "answer"]
    assert sum(r"\finalBeliefProb" in m.text for m in done.messages if m.role == "user") == 1


@pytest.mark.parametrize(
    ("pieces", "turns", "shares"), [(4, 4, [1, 1, 1, 1]), (5, 2, [3, 2]), (1, 3, [1, 0, 0]), (0, 2, [0, 0])]
)
def test_evidence_is_shared_out_evenly_and_in_order(pieces: int, turns: int, shares: list[int]) -> None:
    given = [str(i) for i in range(pieces)]
    shared = split_evenly(given, turns)
    assert [len(share) for share in shared] == shares
    assert [piece for share in shared for piece in share] == given

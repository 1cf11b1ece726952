"""One run on SmolLM2: its figures on a network whose answers are known."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from studies.training import smollm2_rewards
from studies.training.smollm2_rewards import Frozen
from truthgym.models.agents.quality_markers import MARKERS


class Network(Frozen):
    """States that say which sentences a reply has; and a judge who knows which reply is better, or says A."""

    def __init__(self, knows: bool) -> None:
        self.knows = knows

    def states(self, replies: Sequence[Any]) -> np.ndarray:
        return np.array([[one in reply.text for one in MARKERS] for reply in replies], dtype=float)

    def prefers_first(self, requests: Sequence[str]) -> np.ndarray:
        parts = [request.split("Reply A: ")[1].split("Reply B: ") for request in requests]
        counts = np.array([[sum(one in text for one in MARKERS) for text in two] for two in parts])
        return np.where(counts[:, 0] > counts[:, 1], 0.9, 0.1) if self.knows else np.full(len(requests), 0.9)


def figures(rows: Any) -> dict[str, float]:
    return {str(row["figure"]): float(row["value"]) for row in rows}


def test_a_head_on_states_that_hold_the_quality_orders_replies() -> None:
    found = figures(smollm2_rewards.reward_rows(Network(True), 40, 12, 0))
    for form in ("known", "shifted"):
        assert found[f"pairs in order, {form} replies, trained on all prompts"] > 0.9
        assert found[f"pairs in order, {form} replies, by length alone"] < 0.9


@pytest.mark.parametrize(("knows", "ties", "right"), [(True, 0, 1), (False, 1, 0.5)])
def test_a_judge_by_its_next_token(knows: bool, ties: float, right: float) -> None:
    assert [*figures(smollm2_rewards.judge_rows(Network(knows), 12, 0)).values()] == [ties, right]

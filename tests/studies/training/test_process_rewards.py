"""The process reward study: its chains and perturbed rows, and what it measures. It trains no model."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from studies.training import process_rewards
from truthgym.models.reward_model import Reading


def test_no_sum_is_trained_on_and_measured() -> None:
    train, test = process_rewards.chains(600, 0), process_rewards.chains(200, 0, measured=True)
    sums = [{step.partition("=")[0] for row in rows for step in row["completions"]} for rows in (train, test)]
    assert not sums[0] & sums[1]
    assert len(sums[1]) > 30
    assert train != process_rewards.chains(600, 1)


@pytest.mark.parametrize("measured", [False, True])
def test_a_wrong_chain_ends_in_the_right_answer(measured: bool) -> None:
    for i, row in enumerate(process_rewards.chains(100, 0, measured)):
        numbers = [int(part) for part in row["prompt"][0]["content"].split("+")]
        assert row["completions"][-1].endswith(f"={sum(numbers)}")
        right = [eval(step.replace("=", "==")) for step in row["completions"]]
        assert row["labels"] == right
        assert right.count(False) == (2 if i % 2 else 0)


def test_a_perturbed_number_looks_like_the_others() -> None:
    given = [("12.50", 10), ("1234567", 10), ("5", -15), ("0.5", -10), ("-20", 10), ("37", -12)]
    assert [process_rewards.perturbed(*one) for one in given] == ["22.50", "1234577", "20", "10.5", "-10", "25"]


def test_gsm8k_rows_are_perturbed_at_one_step(tmp_path: Path) -> None:
    """Made rows in GSM8K's form."""
    rows = [
        {"question": "Two boxes of 3 pens, and 4.50 each?",
         "answer": "There are 2*3=<<2*3=6>>6 pens.\nNo sum here.\nThey cost 6*4.50=<<6*4.50=27.00>>27.00\n#### 27"},
        {"question": "No calculation?", "answer": "It is 5.\n#### 5"},
    ]  # fmt: skip
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for seed in range(6):
        plain, wrong = process_rewards.gsm8k(tmp_path / "rows.jsonl", seed)
        assert plain["completions"] == ["There are 2*3=6 pens.", "They cost 6*4.50=27.00"]
        assert plain["labels"] == [True, True]
        at = len(wrong["labels"]) - 1
        assert wrong["labels"] == [True] * at + [False]
        assert wrong["completions"][:at] == plain["completions"][:at]
        before, after = (
            float(one[at].split("=")[1].split()[0]) for one in (plain["completions"], wrong["completions"])
        )
        assert 10 <= abs(after - before) <= 15


def test_what_is_measured() -> None:
    """A model that knows the labels, and one that always says right."""
    rows = process_rewards.chains(20, 0, measured=True)

    def known(sure: float) -> Any:
        readings = [Reading(0.0, steps=tuple(np.where(row["labels"], 0.9, 1 - sure))) for row in rows]
        return SimpleNamespace(read=lambda conversations: readings)

    assert set(process_rewards.measure(known(0.9), rows).values()) == {1.0}
    blind = process_rewards.measure(known(0.1), rows)
    assert [blind["accuracy"], blind["recall"]] == pytest.approx([0.75, 0.0])
    assert blind["min"] == 0.5

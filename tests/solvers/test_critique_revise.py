"""Critique and revise: what the model is asked, what stays, and what happens when it stops on the way."""

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import Run, details, listens, number, samples, says, score_of, write_rows
from truthgym.datasets.errors import BadInput
from truthgym.solvers.critique_revise import CRITIQUES, DRAFT, critique_revise
from truthgym.solvers.trajectory import ENDED
from truthgym.tasks.worlds import urns


def test_each_round_criticises_the_latest_answer_by_the_users_principles(run: Run, tmp_path: Path) -> None:
    own = write_rows(
        tmp_path / "own.jsonl",
        {"name": "one", "principle": "It counts the balls."},
        {"name": "two", "principle": "It is short."},
    )
    answers = iter([r"A \finalBeliefProb{0.1}", "C1", r"B \finalBeliefProb{0.2}", "C2", r"C \finalBeliefProb{0.3}"])
    model, requests = listens(lambda _: next(answers))
    log = run(urns(n=1, draws=1, paradigms="brier"), model, solver=critique_revise(own, rounds=2), epochs=1)
    (sample,) = samples(log)
    assert len(requests) == 5
    assert "1. It counts the balls.\n2. It is short." in requests[1][-1].text
    assert [message.text for message in requests[3][1:-1] if message.role == "assistant"] == [
        r"A \finalBeliefProb{0.1}", "C1", r"B \finalBeliefProb{0.2}",
    ]  # fmt: skip
    assert [message.text for message in sample.messages if message.role == "assistant"] == [r"C \finalBeliefProb{0.3}"]
    assert (sample.store[DRAFT], sample.store[CRITIQUES]) == (r"A \finalBeliefProb{0.1}", ["C1", "C2"])
    assert number(sample, "brier", "belief") == 0.3


def test_a_model_that_does_not_revise_stays_unscored(run: Run) -> None:
    def reply(messages: Any) -> str:
        return "" if "Write the answer again" in messages[-1].text else r"A \finalBeliefProb{0.1}"

    log = run(urns(n=1, draws=1, paradigms="brier"), says(reply), solver=critique_revise(), epochs=1)
    (sample,) = samples(log)
    assert "answer is empty" in sample.store[ENDED]
    assert score_of(sample, "brier").metadata
    assert "answer is empty" in details(sample, "brier")["reason"]


def test_rounds_below_one_are_refused() -> None:
    with pytest.raises(BadInput, match="rounds=0 cannot be used"):
        critique_revise(rounds=0)

"""Process: two chains of sources in any order."""

from itertools import permutations

import pytest
from inspect_ai.model import ModelOutput
from inspect_ai.solver import TaskState

from truthgym.datasets.agent_worlds import AgentQuestion, Call, make_call, next_call, oracle_calls
from truthgym.datasets.gaia_mini import gaia_mini
from truthgym.scorers.agent_answer import process_score, read_answer


def reads(question: AgentQuestion, order: tuple[list[str], ...]) -> list[Call]:
    """The calls of an economical reader that takes up the chains in an order."""
    ordered = question.model_copy(update={"needs": [need for chain in order for need in chain]})
    archive, calls = question.archive(), list[Call]()
    while step := next_call(ordered, calls):
        calls.append(make_call(archive, *step, calls))
    return calls


@pytest.fixture(scope="module")
def questions() -> list[AgentQuestion]:
    return [item.metadata_as(AgentQuestion) for item in gaia_mini(level=(2, 3))]


def test_two_chains_can_be_read_in_any_order(questions: list[AgentQuestion]) -> None:
    for question in questions:
        assert len(question.chains) == 2
        for order in permutations(question.chains):
            calls = reads(question, order)
            assert process_score(question, calls, oracle_calls(question, calls, 1)) == 1, (
                question.event,
                question.missing,
                order,
            )


def test_the_other_chain_says_nothing_of_a_missing_source(questions: list[AgentQuestion]) -> None:
    for entry in (question for question in questions if question.missing):
        other = next(chain for chain in entry.chains if entry.missing not in chain)
        calls = reads(entry, (other,))
        assert process_score(entry, calls, oracle_calls(entry, calls, 1)) == 0


def test_a_needless_call_costs_in_any_order(questions: list[AgentQuestion]) -> None:
    for question in questions:
        for order in permutations(question.chains):
            calls = [*reads(question, order), Call("search", {"query": "nobody"})]
            assert process_score(question, calls, oracle_calls(question, calls, 1)) < 1


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("So.\n- **Answer:** `1,300`.\r\n", "1,300"), ("> answer: a\nAnswer: A.", "A"), ("Answer:\n\nb c", "b c"),
        ("Answer: 1e9999999", "1e9999999"), ("Answer: a\nAnswer: b", None), ("Answer: **", None),
        ("An answer: a", None),
    ],
)  # fmt: skip
def test_the_line_with_the_answer(reply: str, answer: str | None) -> None:
    state = TaskState("m/m", "q", 1, "q", [], output=ModelOutput.from_content("m/m", reply))  # type: ignore[arg-type]
    assert read_answer(state)[0] == answer

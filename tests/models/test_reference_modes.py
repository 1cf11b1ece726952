"""The agents in every reasoning mode: only what they said themselves, of the question that is meant, is theirs."""

import asyncio

import pytest
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, get_model
from inspect_ai.tool import ToolInfo

from tests.models.simulated import ask, case_of, instruction, probe, question_text
from truthgym.datasets.domains import bundled, truth_seeking_questions
from truthgym.datasets.urns import urns
from truthgym.models.agents.believer import ARGUING, GENERAL, SUBMIT
from truthgym.models.agents.interviewer import QUESTIONS
from truthgym.models.agents.policies import AGENTS, Parameters, believe
from truthgym.models.agents.reading import MARKER, STATED, stated_beliefs
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.solvers import bootstrap_interview, dialogue, self_debate
from truthgym.solvers.trajectory import user_message

URN, FORECAST = urns(n=1)[0], bundled("forecasting")[0]
ITEMS = [URN, FORECAST]


def user(*parts: object) -> ChatMessageUser:
    return user_message("\n\n".join(str(part) for part in parts), 1)


def full(item: Sample, *parts: str) -> ChatMessageUser:
    return user(question_text(item, *parts))


def belief(item: Sample, name: str = "bayesian") -> float:
    """What an agent believes that has seen all evidence, or has had a thought."""
    return believe(name, case_of(item, 1), 1, 0, Parameters())


def statement(number: str, wording: int = 0) -> str:
    return STATED[wording].format(percent=number)


def test_a_quotation_is_not_its_own_belief() -> None:
    for item in ITEMS:
        quoting = full(item, f'A reader writes: "{statement("1.00")} \\{MARKER}{{0.0100}}"', instruction(item))
        assert read_belief(ask(quoting).completion) == belief(item)


def test_an_interlocutor_has_its_own_belief() -> None:
    for item in ITEMS:
        question = question_text(item)
        [request] = dialogue.interlocutor_view(question, [statement("99.00")], 1)
        [(_, stated)] = stated_beliefs(ask(request, model="confirming").completion)
        assert stated == pytest.approx(belief(item, name="confirming"), abs=1e-12)


def test_asked_to_argue_it_argues_and_keeps_its_belief() -> None:
    for item in ITEMS:
        place = {"turn": 1, "turns": 2, "position": "It is so.", "rebuttal": ""}
        reply = ask(full(item), user(self_debate.ARGUE.format(**place))).completion
        assert any(words in reply for words in ARGUING)
        assert MARKER not in reply
        [(_, stated)] = stated_beliefs(reply)
        assert stated == pytest.approx(belief(item), abs=1e-12)


@pytest.mark.parametrize("name", AGENTS)
def test_a_general_question_gets_a_reply_without_a_belief(name: str) -> None:
    replies = set()
    for k, question in enumerate([*truth_seeking_questions(), *QUESTIONS], start=1):
        prompt = bootstrap_interview.ASK.format(k=k, questions=20, text=question)
        reply = ask(user(prompt), model=name).completion
        assert reply.startswith(f"(Simulated {name} agent, not a language model.)")
        assert any(words in reply for words in GENERAL)
        assert stated_beliefs(reply) == []
        assert MARKER not in reply
        assert read_belief(reply) is None
        replies.add(reply)
    assert len(replies) == len(GENERAL)


def offered(name: str) -> ToolInfo:
    return ToolInfo(name=name, description="Hand in an answer.")


def test_it_hands_its_answer_in_where_it_can() -> None:
    for item in ITEMS:
        prompt = full(item, instruction(item))
        output = ask(prompt, tools=[offered("bash"), offered(SUBMIT)])
        [call] = output.message.tool_calls or []
        assert call.function == SUBMIT
        assert call.arguments == {"answer": ask(prompt).completion}
        assert read_belief(output.completion) is None
        assert output.usage
        assert output.usage.output_tokens > 20


def test_it_calls_no_other_tool() -> None:
    for item in ITEMS:
        for messages, tools in (
            ([full(item, instruction(item))], ["bash"]),
            ([full(item)], [SUBMIT]),
            ([probe(item)], [SUBMIT]),
        ):
            output = ask(full(item), *messages, tools=[offered(name) for name in tools])
            assert not output.message.tool_calls


@pytest.mark.parametrize("name", ["bayesian", "judge", "interviewer"])
def test_tokens_are_counted_without_a_download(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: object) -> None:
        raise AssertionError("a tokenizer was asked for")

    monkeypatch.setattr("tiktoken.get_encoding", download)
    model = get_model(f"reference/{name}", memoize=False)
    assert asyncio.run(model.count_tokens("12345678")) == 3
    assert asyncio.run(model.count_tokens([user("12345678")])) >= 3
    assert asyncio.run(model.count_tokens("")) == 1

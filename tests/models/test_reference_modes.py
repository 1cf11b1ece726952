"""The agents in every reasoning mode: only what they said themselves, of the question that is meant, is theirs."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser, ModelOutput, get_model
from inspect_ai.tool import ToolInfo

from truthgym.datasets.domains import truth_seeking_questions
from truthgym.datasets.forecasting import bundled
from truthgym.datasets.loading.generated import logit
from truthgym.datasets.question import Question, ask_about
from truthgym.datasets.urns import UrnQuestion, urns
from truthgym.models.agents.agent import Asks
from truthgym.models.agents.belief_reports import percent
from truthgym.models.agents.believer import ARGUING, GENERAL, SUBMIT
from truthgym.models.agents.interviewer import QUESTIONS
from truthgym.models.agents.policies import AGENTS, Case, Parameters, believe, private_signal
from truthgym.models.agents.reading import MARKER, STATED, stated_beliefs
from truthgym.scorers.beliefs.elicitation import JOINT, PROBE, READ, VIEW
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.solvers import bootstrap_interview, dialogue, self_debate
from truthgym.solvers.direct import answer_instruction, evidence, with_evidence
from truthgym.solvers.trajectory import user_message

LEARNING = [name for name, agent in AGENTS.items() if agent.update]
URN, OTHER = (
    next(item for item in urns(n=40) if item.metadata_as(UrnQuestion).surface == s) for s in ("urns", "ponds")
)
ALIKE = next(item for item in urns(n=40, seed=1) if item.metadata_as(UrnQuestion).surface == "urns")
"""Told in the same words as URN."""
FORECAST, ELSEWHERE = bundled()[:2]
ITEMS = [URN, FORECAST]
OTHERS = [OTHER, ALIKE, ELSEWHERE]


def ask(*messages: ChatMessage, model: str = "reference/bayesian", tools: Any = (), **parameters: Any) -> ModelOutput:
    return asyncio.run(get_model(model, memoize=False, **parameters).generate(list(messages), tools=list(tools)))


def user(*parts: object) -> ChatMessageUser:
    return user_message("\n\n".join(str(part) for part in parts), 1)


def own(*parts: str) -> ChatMessageAssistant:
    return ChatMessageAssistant(content="\n\n".join(parts))


def full(item: Sample, *parts: object) -> ChatMessageUser:
    """A question with all its evidence, which agents then know, and what else is said in the message."""
    ask_about(item)
    return user(item.input, evidence(item.metadata_as(Question).evidence), *parts)


def answer(item: Sample) -> str:
    return answer_instruction(item.metadata_as(Question))


def probe(item: Sample) -> ChatMessageUser:
    return user(PROBE.format(proposition=item.metadata_as(Question).proposition))


def belief(item: Sample, thoughts: int = 1, name: str = "bayesian") -> float:
    """What an agent believes that has seen all evidence, or has had so many thoughts."""
    case = private_signal(str(item.id), item.target == "yes", thoughts, 1, Parameters())
    if item.metadata and item.metadata.get("posterior"):
        odds = [logit(p) for p in item.metadata_as(UrnQuestion).posterior]
        case = Case(str(item.input), odds[0], tuple(b - a for a, b in pairwise(odds)))
    return believe(name, case, 1, 0, Parameters())


def statement(number: str, wording: int = 0) -> str:
    return STATED[wording].format(percent=number)


@pytest.mark.parametrize("name", LEARNING)
def test_an_interlocutors_belief_is_not_its_own(name: str) -> None:
    for item in ITEMS:
        first = ask(full(item, dialogue.OPEN), model=f"reference/{name}").completion
        talk: list[ChatMessage] = [
            full(item, dialogue.OPEN),
            own(first),
            user(f"No. {statement('3.00')} And yet: {statement('4.00')}"),
        ]
        second = ask(*talk, model=f"reference/{name}").completion
        [(_, stated)] = stated_beliefs(second)
        assert stated == pytest.approx(belief(item, thoughts=2, name=name), abs=1e-12)
        talk += [own(second), user(statement("97.00")), user(dialogue.CONCLUDE, answer(item))]
        assert read_belief(ask(*talk, model=f"reference/{name}").completion) == round(stated, 4)
        assert read_belief(ask(*talk[:-1], probe(item), model=f"reference/{name}").completion) == percent(stated)


def test_a_quotation_is_not_its_own_belief() -> None:
    for item in ITEMS:
        quoting = full(item, f'A reader writes: "{statement("1.00")} \\{MARKER}{{0.0100}}"', answer(item))
        assert read_belief(ask(quoting).completion) == belief(item)


def test_an_interlocutor_has_its_own_belief() -> None:
    for item in ITEMS:
        question = "\n\n".join([str(item.input), evidence(item.metadata_as(Question).evidence)])
        ask_about(item)
        [heard] = dialogue.interlocutor_view(question, [statement("99.00")], 1)
        [(_, stated)] = stated_beliefs(ask(heard, model="reference/confirming").completion)
        assert stated == pytest.approx(belief(item, name="confirming"), abs=1e-12)


@pytest.mark.parametrize("name", LEARNING)
def test_arguing_a_side_does_not_move_it(name: str) -> None:
    for item in ITEMS:
        question = item.metadata_as(Question)
        positions = self_debate.positions_of(question)
        for side, position in enumerate(positions):
            place = {"turn": 1, "turns": 2, "position": position, "rebuttal": ""}
            argue = self_debate.ARGUE.format(**place)
            alone = ask(full(item), user(argue), model=f"reference/{name}").completion
            seen = self_debate.debater_view(
                side, with_evidence(str(item.input), question), positions, [(1 - side, statement("50.00"))], argue, 1
            )
            opposed = ask(*seen, model=f"reference/{name}").completion
            for reply in (alone, opposed):
                assert any(words in reply for words in ARGUING)
                assert MARKER not in reply
                [(_, stated)] = stated_beliefs(reply)
                assert stated == pytest.approx(belief(item, name=name), abs=1e-12)


def test_it_knows_by_the_real_prompt_that_it_is_to_argue() -> None:
    assert Asks.ARGUMENT in self_debate.ARGUE
    for text in (
        self_debate.OPEN,
        self_debate.CONCLUDE,
        self_debate.OPPONENT_TURN,
        dialogue.INTERLOCUTOR,
        dialogue.OPEN,
    ):
        assert Asks.ARGUMENT not in text


def test_only_prompts_of_scorers_ask_it_to_read_a_text() -> None:
    assert Asks.READING in READ
    prompts = [
        PROBE,
        VIEW,
        JOINT,
        self_debate.OTHER_TURN,
        self_debate.OPPONENT_TURN,
        self_debate.DEBATE,
        dialogue.INTERLOCUTOR,
    ]
    prompts += [bootstrap_interview.ASK, bootstrap_interview.WRITE, bootstrap_interview.SO_FAR]
    assert not any(Asks.READING in text for text in prompts), "there, what others say would be its own belief"


@pytest.mark.parametrize("name", AGENTS)
def test_a_general_question_gets_a_reply_without_a_belief(name: str) -> None:
    replies = set()
    for k, question in enumerate([*truth_seeking_questions(), *QUESTIONS], start=1):
        prompt = bootstrap_interview.ASK.format(k=k, questions=20, text=question)
        reply = ask(user(prompt), model=f"reference/{name}").completion
        assert reply.startswith(f"(Simulated {name} agent, not a language model.)")
        assert any(words in reply for words in GENERAL)
        assert stated_beliefs(reply) == []
        assert MARKER not in reply
        assert read_belief(reply) is None
        replies.add(reply)
    assert len(replies) == len(GENERAL)


def test_noise_does_not_depend_on_earlier_messages() -> None:
    noisy: dict[str, Any] = {"noise": 0.1, "seed": 5}
    for item in ITEMS:
        prompt = full(item, answer(item))
        alone = ask(prompt, **noisy).completion
        before: list[ChatMessage] = [full(OTHER, answer(OTHER)), own(statement("2.00"))]
        after = ask(*before, full(item, answer(item)), **noisy).completion
        assert read_belief(after) == read_belief(alone) != belief(item)


def offered(name: str) -> ToolInfo:
    return ToolInfo(name=name, description="Hand in an answer.")


def test_it_hands_its_answer_in_where_it_can() -> None:
    for item in ITEMS:
        prompt = full(item, answer(item))
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
            ([full(item, answer(item))], ["bash"]),
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

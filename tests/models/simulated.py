"""How the tests of simulated agents speak to them: with the prompts of the real solvers and scorers."""

import asyncio
from itertools import pairwise
from typing import Any

from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessage, ChatMessageUser, ModelOutput, get_model

from truthgym.datasets.loading.generated import logit
from truthgym.datasets.question import Question, ask_about
from truthgym.models.agents.policies import Case, Parameters, private_signal
from truthgym.scorers.beliefs.elicitation import PROBE
from truthgym.solvers.direct import answer_instruction, evidence
from truthgym.solvers.trajectory import user_message


def ask(*messages: ChatMessage, model: str = "bayesian", tools: Any = (), **parameters: Any) -> ModelOutput:
    """The reply of a simulated agent."""
    agent = get_model(f"reference/{model}", memoize=False, **parameters)
    return asyncio.run(agent.generate(list(messages), tools=list(tools)))


def proposition(item: Sample) -> str:
    return str(item.metadata_as(Question).proposition)


def instruction(item: Sample) -> str:
    """The request for the answer to a question."""
    return answer_instruction(item.metadata_as(Question))


def question_text(item: Sample, *parts: str, epoch: int = 1) -> str:
    """A question with all its evidence, which agents then know, and what else is said in the message."""
    ask_about(item, epoch)
    return "\n\n".join([str(item.input), evidence(item.metadata_as(Question).evidence), *parts])


def prompt(item: Sample, epoch: int = 1) -> ChatMessageUser:
    """A question as `direct` asks it, which agents then know."""
    return user_message(question_text(item, instruction(item), epoch=epoch), epoch)


def probe(item: Sample, epoch: int = 1, fresh: bool = False, request: str = PROBE) -> ChatMessageUser:
    """The question for a belief, by itself or at the end of a conversation."""
    ask_about(item)
    text = request.format(proposition=proposition(item))
    return user_message(f"{item.input}\n\n{text}" if fresh else text, epoch)


def case_of(item: Sample, thoughts: int = 0, epoch: int = 1, parameters: Parameters = Parameters()) -> Case:  # noqa: B008
    """What an agent knows that has seen all evidence of a generated question, or has had so many thoughts."""
    if posterior := item.metadata_as(Question).posterior:
        odds = [logit(p) for p in posterior]
        return Case(str(item.input), odds[0], tuple(after - before for before, after in pairwise(odds)))
    return private_signal(str(item.id), item.target == "yes", thoughts, epoch, parameters)

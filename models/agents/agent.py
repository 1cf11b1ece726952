"""What simulated agents have in common: a conversation comes in, and a text, a call of a tool or letters go out.

`Asks` is the one table that says by which words of a prompt agents recognise what they are asked for.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Self

from inspect_ai.model import ChatMessage, TopLogprob
from inspect_ai.tool import ToolInfo

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import ASKED, OWN_ANSWER
from truthgym.models.agents.policies import Parameters
from truthgym.models.agents.reading import MARKER
from truthgym.models.agents.tool_users import NOTES
from truthgym.models.predictor import LETTERS
from truthgym.solvers.critique_revise import CRITICISE, REVISE
from truthgym.solvers.direct import CONCLUDE
from truthgym.solvers.trajectory import REPAIR, as_words

NOT_A_MODEL = "(Simulated {agent} agent, not a language model.)"
DECLINED = "I would rather not put a number on this."
"""Said in place of a number."""


class Asks(StrEnum):
    """What a request asks for, by the words of the prompt that asks it."""

    PERCENT = "whole number from 0 to 100"
    PERCENT_AGAIN = "How many of the 100 statements"
    """The prior in a second wording. The reports of each wording have noise of their own."""
    LETTER = LETTERS.partition("\n\n")[2]
    ANSWER = MARKER
    CHOICES = "whole numbers from 0 to 100, probabilities in percent, and nothing else: one for each choice"
    """A probability for each choice of a question."""
    CHOICE = "'ANSWER: $LETTER"
    """The letter of a choice."""
    CONCLUSION = CONCLUDE
    """An answer to a question without a proposition."""
    OWN_ANSWER = OWN_ANSWER
    FIRST_VIEW = "first impression"
    READING = "<text>"
    """What is asked for is about a text of somebody else."""
    ARGUMENT = "argue for this position"
    CRITIQUE = CRITICISE
    REVISION = REVISE
    NOTES = NOTES


@dataclass(frozen=True)
class Call:
    function: str
    arguments: dict[str, Any]
    content: str = ""
    """What is said with it."""
    counted: str = ""
    """The text whose tokens count as written, if it is not the call itself."""


@dataclass(frozen=True)
class Letters:
    """Letters with their log-probabilities, the likeliest first: the reply is the first."""

    tokens: list[TopLogprob]


Reply = str | Call | Letters


@dataclass(frozen=True)
class Conversation:
    """What an agent is sent."""

    messages: Sequence[ChatMessage]
    """With calls of tools and their results in words, if there are results."""
    request: str
    """The last message of the user."""
    tools: Sequence[ToolInfo] = ()
    may_call: bool = True

    @classmethod
    def of(
        cls, messages: Sequence[ChatMessage], tools: Sequence[ToolInfo] = (), may_call: bool = True
    ) -> "Conversation":
        """The conversation of these messages, without a reply that was not read and the request to repair it."""
        while len(messages) > 2 and messages[-1].text.startswith(REPAIR):
            messages = messages[:-2]
        request = next((message.text for message in reversed(messages) if message.role == "user"), "")
        if any(message.role == "tool" for message in messages):
            messages = [as_words(message) for message in messages]
        return cls(messages, request, tools, may_call)

    @cached_property
    def text(self) -> str:
        return "\n\n".join(message.text for message in self.messages)

    @cached_property
    def asks(self) -> frozenset[Asks]:
        return frozenset(kind for kind in Asks if kind in self.request)

    @cached_property
    def wants_answer(self) -> bool:
        return bool({Asks.ANSWER, Asks.CHOICE, Asks.CONCLUSION} & self.asks)

    @cached_property
    def epoch(self) -> int:
        """The epoch of the question that is worked on, else of the last message that has one."""
        asked = ASKED.get()
        for message in reversed(self.messages):
            if message.metadata and "epoch" in message.metadata:
                return int(message.metadata["epoch"])
        if asked and asked.input in self.text:  # an executor's messages have none
            return asked.epoch
        raise BadInput(
            "A reference agent needs the epoch in the metadata of a message, and no message has it. Truthgym's tasks "
            "and solvers write it; in your own solver, create messages with truthgym.solvers.trajectory.user_message"
        )

    @property
    def draw(self) -> int:
        """Index of the repetition of a request. Each has its own random numbers."""
        return int((self.messages[-1].metadata or {}).get("draw", 0))

    @cached_property
    def own(self) -> list[tuple[int, int]]:
        """Start and end in `text` of each of the agent's own messages."""
        spans, start = [], 0
        for message in self.messages:
            end = start + len(message.text)
            if message.role == "assistant":
                spans.append((start, end))
            start = end + 2
        return spans


@dataclass(frozen=True)
class SimulatedAgent(ABC):
    """An agent with its planted parameters."""

    name: str
    parameters: Parameters

    @classmethod
    def planted(cls, name: str, parameters: Mapping[str, object]) -> Self:
        """The agent with these parameters; a ValidationError if one cannot be used."""
        return cls(name, Parameters.model_validate(parameters))

    @abstractmethod
    def reply(self, talk: Conversation) -> Reply:
        """Reply to a conversation."""

    def introduced(self, body: str) -> str:
        """A reply that says first that it is simulated, or that it declines."""
        note = NOT_A_MODEL.format(agent=self.name)
        return f"{DECLINED} {note}" if body.strip() == DECLINED else note + body

"""Conversation: how a solver leads a sample's conversation, so that its trajectory is recorded as it goes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from inspect_ai.model import ChatMessage, ChatMessageAssistant, Model, ModelOutput
from inspect_ai.solver import Generate, Solver, TaskState
from inspect_ai.util import span

from truthgym.solvers.trajectory import (
    ENDED,
    STEPS,
    Kind,
    recorded_end,
    recorded_steps,
    told,
    user_message,
    why_no_reply,
    written,
)


class EndedEarly(Exception):
    """The reasoning cannot go on. Raised within `conversation`, which records the reason: the sample stays unscored."""


class Conversation:
    """A sample's conversation as a solver leads it, recorded as it goes.

    The sample's question is held back until `ask`, so that something can be said before it.
    """

    def __init__(self, state: TaskState, generate: Generate) -> None:
        self.state = state
        self.steps = recorded_steps(state.store)
        self.ended = recorded_end(state.store)
        self._generate = generate
        recorded = {step.message_id for step in self.steps}
        # An earlier solver has asked the question if it recorded the last thing that the user said.
        last = max((i for i, m in enumerate(state.messages) if m.role == "user"), default=None)
        asked = last is None or state.messages[last].id in recorded
        self._question = None if asked or last is None else state.messages.pop(last)
        earlier = [message for message in state.messages if message.id not in recorded]
        self.steps.extend(step for message in earlier for step in written([message], "reasoning", True))

    def ask(self, *parts: str, before: str = "") -> None:
        """Ask the sample's question, with these parts after it in the same message. Empty parts are passed over.

        Where an earlier solver has asked it, the parts alone are said.

        Args:
            *parts: What is said after it, as paragraphs.
            before: What is said before it.
        """
        question, self._question = self._question, None
        if question is None:
            self.say(before, *parts)
        else:
            question.text = _joined(before, question.text, *parts)
            question.metadata = {**(question.metadata or {}), "epoch": self.state.epoch}
            self._tell(question)

    def say(self, *parts: str, speaker: str | None = None) -> None:
        """Tell the model something, in one message. Empty parts are passed over.

        Args:
            *parts: What is said, as paragraphs.
            speaker: The model role whose words these are, where another model wrote them.
        """
        self._tell(user_message(_joined(*parts), self.state.epoch), speaker)

    def show(self, messages: Sequence[ChatMessage]) -> None:
        """Put messages of another conversation before what follows: examples. None of them is trained on."""
        for message in messages:
            message.metadata = {**(message.metadata or {}), "epoch": self.state.epoch}
            self._tell(message)

    def _tell(self, message: ChatMessage, speaker: str | None = None) -> None:
        self.state.messages.append(message)
        self.steps.append(told(message, speaker))

    async def reply(self, kind: Kind, name: str | None = None, trainable: bool = True) -> str:
        """Let the model speak once, and return its words. One model call, unless it uses tools.

        Args:
            kind: What the reply is. Reasoning content before it is `reasoning`, or `auxiliary` before such a reply.
            name: Name of a span of the transcript for this step, or None where it is the solver's only one.
            trainable: Whether training may use it.

        Raises:
            EndedEarly: The model refused, had no more room, or gave an empty answer.
        """
        spoken = len(self.state.messages)
        async with span(name, type="truthgym.step") if name else nullcontext():
            self.state = await self._generate(self.state)
        _check(self.state.output, "The model")
        self.steps.extend(written(self.state.messages[spoken:], kind, trainable))
        if kind == "answer" and not self.state.output.completion.strip():
            raise EndedEarly(f"The answer is empty (the model stopped with {self.state.output.stop_reason}).")
        return self.state.output.completion

    async def work(self, solver: Solver) -> None:
        """Let a solver that speaks and uses tools go on from here to its answer: its last message.

        Raises:
            EndedEarly: It came to no answer.
        """
        before = {message.id for message in self.state.messages}
        self.state = await solver(self.state, self._generate)
        # An agent may have rewritten the conversation: what is no longer in it was not what the model saw.
        left = {message.id for message in self.state.messages}
        self.steps = [step for step in self.steps if step.message_id in left]
        new = [message for message in self.state.messages if message.id not in before]
        answered = bool(new) and isinstance(new[-1], ChatMessageAssistant) and not new[-1].tool_calls
        self.steps.extend(step for message in new[:-1] for step in written([message], "reasoning", True))
        self.steps.extend(written(new[-1:], "answer" if answered else "reasoning", True))
        _check(self.state.output, "The agent")
        if not answered or not new[-1].text.strip():
            raise EndedEarly("The agent stopped without an answer.")

    async def hear(self, role: str, model: Model, messages: Sequence[ChatMessage], name: str) -> str:
        """What the model in another role says, in a context of its own. One model call.

        It is no part of the conversation until it is passed on with `say`.

        Args:
            role: The role.
            model: The model that is bound to it.
            messages: What it is given.
            name: Name of the span of the transcript.

        Raises:
            EndedEarly: It refused, had no more room, or said nothing.
        """
        async with span(name, type="truthgym.step"):
            output = await model.generate(list(messages))
        _check(output, f"The {role}")
        if not output.completion.strip():
            raise EndedEarly(f"The {role} said nothing (it stopped with {output.stop_reason}).")
        return output.completion

    def close(self) -> None:
        """Record the trajectory. A question that was not asked goes back to its place, for the next solver."""
        if self._question:
            self.state.messages.append(self._question)
        rare = {"redacted": False, "speaker": None}
        steps = [
            step.model_dump(exclude={name for name, usual in rare.items() if getattr(step, name) == usual})
            for step in self.steps
        ]
        self.state.store.set(STEPS, steps)
        if self.ended is not None:
            self.state.store.set(ENDED, self.ended)


@contextmanager
def conversation(state: TaskState, generate: Generate) -> Iterator[Conversation]:
    """Lead a conversation and leave its trajectory in the store, also where a limit or an error cuts it short.

    Where the reasoning ends early, what stands in the `with` after it is passed over, and the sample stays unscored
    with the reason. The store is written once, at the end: Inspect looks for changes to it at every span.
    """
    talk = Conversation(state, generate)
    try:
        yield talk
    except EndedEarly as end:
        talk.ended = str(end)
    finally:
        talk.close()


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _check(output: ModelOutput, who: str) -> None:
    reason = why_no_reply(output, who)
    if reason:
        raise EndedEarly(reason)

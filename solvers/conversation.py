"""Conversation: how a solver leads a sample's conversation, so that its trajectory is recorded as it goes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from inspect_ai.event import ModelEvent
from inspect_ai.log import transcript
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ContentReasoning, Model, ModelOutput, get_model
from inspect_ai.solver import Generate, Solver, TaskState
from inspect_ai.util import span

from truthgym.solvers.trajectory import (
    ENDED,
    STEPS,
    Kind,
    failure_reason,
    input_step,
    recorded_end,
    recorded_steps,
    steps_of_messages,
    user_message,
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
        self._question: ChatMessage | None = None
        if self.ended is not None:
            return  # what stands here besides the steps is the refusal
        # An earlier solver has asked the question if it recorded the last thing that the user said.
        last = max((i for i, m in enumerate(state.messages) if m.role == "user"), default=None)
        if last is not None and state.messages[last].id not in recorded:
            self._question = state.messages.pop(last)
        self.steps.extend(steps_of_messages([m for m in state.messages if m.id not in recorded], "reasoning", True))

    def ask_question(self, *parts: str, before: str = "") -> None:
        """Ask the sample's question, with these parts after it in the same message. Empty parts are passed over.

        Where an earlier solver has asked it, the parts alone are said.

        Args:
            *parts: What is said after it, as paragraphs.
            before: What is said before it.
        """
        question, self._question = self._question, None
        if question is None:
            self.send(before, *parts)
        else:
            question.text = _joined(before, question.text, *parts)
            question.metadata = {**(question.metadata or {}), "epoch": self.state.epoch}
            self._append(question)

    def send(self, *parts: str, speaker: str | None = None) -> None:
        """Tell the model something, in one message. Empty parts are passed over.

        Args:
            *parts: What is said, as paragraphs.
            speaker: The model role whose words these are, where another model wrote them.
        """
        message = user_message(_joined(*parts), self.state.epoch)
        if speaker:
            message.metadata = {**(message.metadata or {}), "speaker": speaker}
        self._append(message, speaker)

    def add_examples(self, messages: Sequence[ChatMessage]) -> None:
        """Put messages of another conversation before what follows: examples. None of them is trained on."""
        for message in messages:
            message.metadata = {**(message.metadata or {}), "epoch": self.state.epoch}
            self._append(message)

    def _append(self, message: ChatMessage, speaker: str | None = None) -> None:
        self._check_open()
        self.state.messages.append(message)
        self.steps.append(input_step(message, speaker))

    def _check_open(self) -> None:
        if self.ended is not None:
            raise EndedEarly(self.ended)  # under an earlier solver of the sample: no model is asked again

    async def generate(self, kind: Kind, name: str | None = None, trainable: bool = True) -> str:
        """Let the model speak once, and return its words. One model call, unless it uses tools.

        Args:
            kind: What the reply is. Reasoning content before it is `reasoning`, or `auxiliary` before such a reply.
            name: Name of a span of the transcript for this step, or None where it is the solver's only one.
            trainable: Whether training may use it.

        Raises:
            EndedEarly: The model refused, had no more room, gave an empty answer, or said and thought nothing.
        """
        spoken, earlier = len(self.state.messages), self.state.output
        async with span(name, type="truthgym.step") if name else nullcontext():
            try:
                self.state = await self._generate(self.state)
            except IndexError:
                # Inspect 0.3.285 looks for the first choice of an output, also where it has none.
                if self.state.output is earlier or self.state.output.choices:
                    raise
        _check(self.state.output, "The model")
        self.steps.extend(steps_of_messages(self.state.messages[spoken:], kind, trainable))
        said = self.state.output.completion
        if not said.strip() and (kind == "answer" or not _reasoned(self.state.output)):
            what = "answer" if kind == "answer" else "reply"
            raise EndedEarly(f"The {what} is empty (the model stopped with {self.state.output.stop_reason}).")
        return said

    async def run_agent(self, solver: Solver) -> None:
        """Let a solver that speaks and uses tools go on from here to its answer: its last message.

        Raises:
            EndedEarly: It came to no answer.
        """
        before = {message.id for message in self.state.messages}
        finished = False
        try:
            self.state = await solver(self.state, self._generate)
            finished = True
        finally:  # also where a limit cuts it short: what it wrote until then is reasoning
            called = finished and self.state.output.choices  # an agent need not call a model
            refused = failure_reason(self.state.output, "The agent") if called else None
            # What a provider reports in the place of a reply is no step, as in `reply`.
            unsaid = {choice.message.id for choice in self.state.output.choices} if refused else set()
            place = {message.id: i for i, message in enumerate(self.state.messages)}
            new = [message for message in self.state.messages if message.id not in before | unsaid]
            last = new[-1] if new and finished and not refused else None
            answered = isinstance(last, ChatMessageAssistant) and not last.tool_calls
            others = _other_models()
            self.steps += steps_of_messages(new[:-1] if answered else new, "reasoning", True, others)
            self.steps += steps_of_messages(new[-1:], "answer", True, others) if answered else []
            # An agent may have rewritten the conversation: what is no longer in it was not what the model saw.
            self.steps = sorted((s for s in self.steps if s.message_id in place), key=lambda s: place[s.message_id])
        if refused or last is None or not answered or not last.text.strip():
            raise EndedEarly(refused or "The agent stopped without an answer.")

    async def ask_role(self, role: str, model: Model, messages: Sequence[ChatMessage], name: str) -> str:
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
        self._check_open()
        async with span(name, type="truthgym.step"):
            output = await model.generate(list(messages))
        _check(output, f"The {role}")
        if not output.completion.strip():
            raise EndedEarly(f"The {role} said nothing (it stopped with {output.stop_reason}).")
        return output.completion

    def close(self) -> None:
        """Record the trajectory. A question that was not asked goes back to its place, for the next solver."""
        rare = {"redacted": False, "speaker": None}
        steps = [
            step.model_dump(exclude={name for name, usual in rare.items() if getattr(step, name) == usual})
            for step in self.steps
        ]
        self.state.store.set(STEPS, steps)
        if self.ended is not None:
            self.state.store.set(ENDED, self.ended)
        if self._question:
            self.state.messages.append(self._question)  # last: a limit on messages is raised here once more


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


def _reasoned(output: ModelOutput) -> bool:
    content = output.message.content
    return not isinstance(content, str) and any(isinstance(part, ContentReasoning) for part in content)


def _other_models() -> dict[str | None, str]:
    """Messages of this sample that other models than the evaluated one generated, with the role or name of each."""
    evaluated = str(get_model())
    events = [event for event in transcript().events if isinstance(event, ModelEvent)]
    return {
        choice.message.id: event.role or event.model
        for event in events
        if event.role is not None or event.model != evaluated
        for choice in event.output.choices
    }


def _check(output: ModelOutput, who: str) -> None:
    reason = failure_reason(output, who)
    if reason:
        raise EndedEarly(reason)

"""A sample's conversation: solvers send messages and generate replies through it, and it records the trajectory."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from inspect_ai.event import ModelEvent
from inspect_ai.log import transcript
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ContentReasoning, Model, ModelOutput, get_model
from inspect_ai.solver import Generate, Solver, TaskState
from inspect_ai.util import span

from truthgym.datasets.inspect_private import parse_answers, set_choices_based_on_generated_response
from truthgym.datasets.question import choices_text
from truthgym.solvers.local_model import (
    clear_errors,
    complete_stop_reason,
    exceeds_context,
    generate,
    mark_thought,
    refused_as_too_long,
)
from truthgym.solvers.thoughts import split_thought
from truthgym.solvers.trajectory import (
    ENDED,
    OUT_OF_CONTEXT,
    STEPS,
    Kind,
    cut_off,
    failure_reason,
    input_step,
    recorded_end,
    recorded_steps,
    reply_text,
    steps_of_messages,
    user_message,
)


class EndedEarly(Exception):
    """The reasoning cannot continue. `conversation` catches it and records the reason; the sample stays unscored."""


class Conversation:
    """A sample's conversation. Every message that passes through it becomes a step of the trajectory.

    The sample's question is withheld until `ask_question`, so that other messages can come before it.
    """

    def __init__(self, state: TaskState, generate: Generate) -> None:
        self.state = state
        self.steps = recorded_steps(state.store)
        self.ended = recorded_end(state.store)
        self._generate = generate
        recorded = {step.message_id for step in self.steps}
        self._question: ChatMessage | None = None
        if self.ended is not None:
            return  # the only message without a step is the refusal
        # An earlier solver has asked the question if it recorded the last user message.
        last = max((i for i, m in enumerate(state.messages) if m.role == "user"), default=None)
        if last is not None and state.messages[last].id not in recorded:
            self._question = state.messages.pop(last)
        self.steps.extend(steps_of_messages([m for m in state.messages if m.id not in recorded], "reasoning", True))

    def ask_question(self, *parts: str, before: str = "") -> None:
        """Send the sample's question in one message: the paragraph `before`, the question, the paragraphs `parts`."""
        question, self._question = self._question, None
        if question is None:
            self.send(before, *parts)
        else:
            choices = choices_text(self.state)
            shown = "" if choices in question.text else choices  # an earlier solver may have added them
            question.text = paragraphs(before, question.text, shown, *parts)
            question.metadata = {**(question.metadata or {}), "epoch": self.state.epoch}
            self._append(question)

    def send(self, *parts: str, speaker: str | None = None) -> None:
        """Send the model one user message of these paragraphs, which may be those of the role `speaker`."""
        message = user_message(paragraphs(*parts), self.state.epoch)
        if speaker:
            message.metadata = {**(message.metadata or {}), "speaker": speaker}
        self._append(message, speaker)

    def add_examples(self, messages: Sequence[ChatMessage]) -> None:
        """Add the messages of another conversation as examples. They are auxiliary steps and not trained on."""
        for message in messages:
            message.metadata = {**(message.metadata or {}), "epoch": self.state.epoch}
            self._append(message)

    def _append(self, message: ChatMessage, speaker: str | None = None) -> None:
        """Add a message and its step. A user message right after one of these solvers continues that message."""
        self._check_open()
        last = self.state.messages[-1] if self.state.messages else None
        if last and last.role == message.role == "user" and "epoch" in (last.metadata or {}):
            last.text = paragraphs(last.text, message.text)
            if self.steps[-1].speaker == speaker:
                self.steps[-1].text = paragraphs(self.steps[-1].text, message.text)
            else:  # each speaker has a step
                self.steps.append(input_step(message, speaker).model_copy(update={"message_id": last.id}))
        else:
            self.state.messages.append(message)
            self.steps.append(input_step(message, speaker))

    def _check_open(self) -> None:
        if self.ended is not None:
            raise EndedEarly(self.ended)  # an earlier solver of the sample ended: call no model again

    async def generate(self, kind: Kind, name: str | None = None, trainable: bool = True) -> str:
        """Generate one reply and return its text, without a thought. One model call, unless the model uses tools.

        A thought before the reply is `reasoning`, or `auxiliary` if `kind` is. `name` is that of a transcript span for
        this step, or None if it is the solver's only step. Ends early if the model refused, ran out of context, gave an
        empty answer, or returned neither text nor reasoning.
        """
        model, messages = get_model(), list(self.state.messages)
        with clear_errors(model):
            if exceeds_context(model, messages):
                raise EndedEarly(OUT_OF_CONTEXT.format(who="The model"))
        first_new, previous_output = len(messages), self.state.output
        async with span(name, type="truthgym.step") if name else nullcontext():
            try:
                with clear_errors(model):
                    self.state = await self._generate(self.state)
            except IndexError:
                # Inspect 0.3.285 takes the first choice of an output even if it has none.
                if self.state.output is previous_output or self.state.output.choices:
                    raise
            except RuntimeError as error:
                if not refused_as_too_long(error):
                    raise
                raise EndedEarly(OUT_OF_CONTEXT.format(who="The model")) from None
        complete_stop_reason(self.state.output, model, messages)
        _check(self.state.output, "The model")
        mark_thought(self.state.output, model, messages)
        self.steps.extend(steps_of_messages(self.state.messages[first_new:], kind, trainable))
        text = reply_text(self.state.output)
        if not text.strip() and (kind == "answer" or not _has_reasoning(self.state.output)):
            what = "answer" if kind == "answer" else "reply"
            stopped = cut_off(self.state.output) or f"stop reason {self.state.output.stop_reason}"
            raise EndedEarly(f"The {what} is empty ({stopped}).")
        return text

    async def run_agent(self, solver: Solver) -> None:
        """Let a solver with its own model calls and tools continue until its answer, which is its last message.

        If a limit or an error interrupts it, its messages so far are recorded as reasoning.
        """
        earlier_ids = {message.id for message in self.state.messages}
        try:
            self.state = await solver(self.state, self._generate)
        except BaseException:  # also a limit, which Inspect raises as a cancellation
            self._record_agent(self._new_messages(earlier_ids), answered=False)
            raise
        output = self.state.output
        refusal = failure_reason(output, "The agent") if output.choices else None  # an agent need not call a model
        # A provider's refusal text is not a step, as in `generate`.
        refused_ids = {choice.message.id for choice in output.choices} if refusal else set()
        messages, notes = _without_notes(self._new_messages(earlier_ids | refused_ids), output)
        last = messages[-1] if messages and not refusal else None
        answered = isinstance(last, ChatMessageAssistant) and not last.tool_calls
        self._record_agent(messages, answered, notes)
        if last is None or not answered or not (split_thought(last.text)[1] or "").strip():
            raise EndedEarly(refusal or "The agent stopped without an answer.")

    def _new_messages(self, earlier_ids: Collection[str | None]) -> list[ChatMessage]:
        return [message for message in self.state.messages if message.id not in earlier_ids]

    def _record_agent(self, messages: Sequence[ChatMessage], answered: bool, notes: Sequence[ChatMessage] = ()) -> None:
        """Add the steps of an agent's messages. The last one is the answer if it answered. `notes` come after it."""
        others = _other_models()
        end = len(messages) - answered
        self.steps += steps_of_messages(messages[:end], "reasoning", True, others)
        self.steps += steps_of_messages(messages[end:], "answer", True, others)
        self.steps += steps_of_messages(notes, "auxiliary", False)
        # An agent may have rewritten the conversation: drop messages it removed, and follow its order.
        place = {message.id: i for i, message in enumerate(self.state.messages)}
        self.steps = sorted((s for s in self.steps if s.message_id in place), key=lambda s: place[s.message_id])
        changed = _changed_messages(self.state.messages)
        answer = next((s.message_id for s in reversed(self.steps) if s.kind == "answer"), None)
        self.steps = [
            s.model_copy(update={"trainable": False})
            if s.message_id in changed and not (s.message_id == answer and _submitted(changed[answer]))
            else s
            for s in self.steps
        ]

    async def ask_role(self, role: str, model: Model, messages: Sequence[ChatMessage], name: str) -> str:
        """Ask the model in another role, in a separate context, and return its reply. One model call."""
        self._check_open()
        async with span(name, type="truthgym.step"):
            output = await generate(model, messages)
        _check(output, f"The {role}")
        if not reply_text(output).strip():
            stopped = cut_off(output) or f"it stopped with {output.stop_reason}"
            raise EndedEarly(f"The reply of the {role} is empty ({stopped}).")
        return reply_text(output)

    def close(self) -> None:
        """Write the trajectory to the store, and mark the choices that the answer names, for Inspect's `choice`."""
        self.state.store.set(STEPS, [step.model_dump(exclude_defaults=True) for step in self.steps])
        if self.ended is not None:
            self.state.store.set(ENDED, self.ended)
        if len(self.state.choices) > 1 and any(step.kind == "answer" for step in self.steps):
            for several in (False, True):
                if letters := parse_answers(self.state, several):
                    set_choices_based_on_generated_response(self.state, letters)
                    break
        if self._question:
            self.state.messages.append(self._question)  # last, since a message limit raises here again


@contextmanager
def conversation(state: TaskState, generate: Generate) -> Iterator[Conversation]:
    """Open a sample's conversation, and write its trajectory to the store, also after a limit or an error.

    `EndedEarly` leaves the `with` block and records the reason, so that the sample stays unscored. The store is written
    once, at the end: Inspect compares it at every span.
    """
    talk = Conversation(state, generate)
    try:
        yield talk
    except EndedEarly as end:
        talk.ended = str(end)
    finally:
        talk.close()


def paragraphs(*parts: str) -> str:
    """Join parts with blank lines. Empty parts are skipped."""
    return "\n\n".join(part for part in parts if part)


def _has_reasoning(output: ModelOutput) -> bool:
    content = output.message.content
    if isinstance(content, str):
        return bool(split_thought(content)[0])
    return any(isinstance(part, ContentReasoning) for part in content)


def _without_notes(messages: Sequence[ChatMessage], output: ModelOutput) -> tuple[list[ChatMessage], list[ChatMessage]]:
    """An agent's messages up to its final reply as the model wrote it, and the user messages after it."""
    end = len(messages)
    while end and messages[end - 1].role == "user":
        end -= 1
    reply = output.choices[0].message if output.choices else None
    if not end or end == len(messages) or reply is None or messages[end - 1].id != reply.id or reply.tool_calls:
        return list(messages), []
    return [*messages[: end - 1], reply], list(messages[end:])


def _generated() -> Iterator[tuple[ModelEvent, ChatMessageAssistant]]:
    """Every reply of this sample's model calls, with its call."""
    events = [event for event in transcript().events if isinstance(event, ModelEvent)]
    return ((event, choice.message) for event in events for choice in event.output.choices)


def _other_models() -> dict[str | None, str]:
    """Ids of messages in this sample generated by models other than the evaluated one, with each one's role or name."""
    evaluated = str(get_model())
    return {
        reply.id: event.role or event.model
        for event, reply in _generated()
        if event.role is not None or event.model != evaluated
    }


def _changed_messages(messages: Sequence[ChatMessage]) -> dict[str | None, tuple[str, str]]:
    """Replies that are no longer what the model wrote, by id: the text of each before and after."""
    attached = transcript().attachments
    written = {reply.id: reply for _, reply in _generated()}
    changed: dict[str | None, tuple[str, str]] = {}
    for message in messages:
        if isinstance(message, ChatMessageAssistant) and (was := written.get(message.id)):
            text = attached.get(was.text.removeprefix("attachment://"), was.text)
            if (text, len(was.tool_calls or [])) != (message.text, len(message.tool_calls or [])):
                changed[message.id] = text, message.text
    return changed


def _submitted(texts: tuple[str, str]) -> bool:
    """Whether a reply was changed only by `react`, which adds what the model submitted, in the model's own words."""
    before, after = texts
    return after.startswith(before) and bool(before or not after.startswith("["))


def _check(output: ModelOutput, who: str) -> None:
    reason = failure_reason(output, who)
    if reason:
        raise EndedEarly(reason)

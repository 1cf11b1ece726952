"""The policy: the model in training, as Inspect calls it. What it reads and writes is kept as token ids.

Each reply is kept with the ids that it was written after, its own, and their log-probabilities. Where a conversation
goes on from a reply, the next prompt is that reply's ids and what came after: the words between are encoded.
So the gradient is of what the model did, in the context in which it did it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
    StopReason,
    modelapi,
)
from inspect_ai.tool import ToolChoice, ToolInfo

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import HFHandler, HuggingFaceAPI, sample_active  # loads torch
from truthgym.training.rollouts.batches import Batches
from truthgym.training.rollouts.extension import extension
from truthgym.training.rollouts.sampling import Request, stopped

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Read = tuple[tuple[str, str], ...]
"""Messages as a reply was written after them: role and text of each."""


@dataclass(frozen=True)
class Turn:
    """One reply of the model in training."""

    message_id: str
    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    """Log-probability of each id of the completion when it was drawn."""
    temperature: float
    text: str
    """As its message has it, by which it is known again."""
    read: Read
    prompt: str
    """The prompt, as the template wrote it."""
    written: str
    """The reply with its special tokens, without the one that ends it."""
    end: str
    """The token that ended it, as text. Empty where the reply was cut off."""
    before: "Turn | None"
    """The reply whose ids this one's prompt goes on from."""
    parted: BadInput | None = None
    """Why it does not go on from a reply that stands in it: the chat template changes what was said."""


@modelapi("policy")
class Policy(HuggingFaceAPI):
    """Inspect's own provider of local models, in what it makes of messages; the ids are kept here.

    A trained model is so asked in the same words by `--model hf/FOLDER`.
    """

    def __init__(
        self,
        name: str,
        tokenizer: "PreTrainedTokenizerBase",
        batches: Batches,
        ends: Sequence[int],
        seed: tuple[int, ...],
        chat_template: str | None = None,
        enable_thinking: bool | None = None,
        context: int | None = None,
    ) -> None:
        """Take what generates.

        Args:
            name: The model's, for the log.
            tokenizer: Its tokenizer.
            batches: Where requests wait for each other.
            ends: Ids of the tokens that end a reply.
            seed: Of the sampling. Another one for each run of rollouts.
            chat_template: In place of the tokenizer's.
            enable_thinking: Passed to the template.
            context: Tokens that the model can read and write in all, where that is known.
        """
        super(HuggingFaceAPI, self).__init__(name, config=GenerateConfig())
        self.tokenizer: Any = tokenizer
        self.chat_template = chat_template
        self.use_chat_template = None
        self.enable_thinking = enable_thinking
        self.batches = batches
        self.ends = list(ends)
        self.seed = seed
        self.context = context
        self.turns: dict[str, dict[str, Turn]] = {}
        """By the sample's uuid, then by message id."""
        self._calls: dict[tuple[Any, ...], int] = {}

    def close(self) -> None:
        """Keep the model: it goes on training."""

    def max_connections(self) -> int:
        """As many as there are samples: they wait for each other anyway."""
        return 1_000_000

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        """Let the model reply once, and keep how it did."""
        uuid, key = self._caller()
        turns = self.turns.setdefault(uuid, {})
        before = self._last_turn(input, turns)
        prompt = self.hf_chat([self._as_written(message, turns) for message in input], tools)
        parted = None
        if before is not None:
            try:
                after = extension(prompt, before.prompt + before.written, self.model_name)
            except BadInput as error:  # an error only where it is trained on: a scorer may ask on, too
                before, parted = None, error
        if before is None:
            prompt_ids = self.tokenizer(prompt)["input_ids"]  # with the special tokens that `hf/` has too
        else:
            after = _without(after, before.end)
            prompt_ids = [*before.prompt_ids, *before.completion_ids]
            prompt_ids += self.tokenizer(after, add_special_tokens=False)["input_ids"]
            prompt = before.prompt + before.written + before.end + after
        max_tokens = config.max_tokens or self.max_tokens() or 1024
        if self.context:
            if len(prompt_ids) >= self.context:
                return ModelOutput.from_content(self.model_name, "", stop_reason="model_length")
            max_tokens = min(max_tokens, self.context - len(prompt_ids))
        temperature = 1.0 if config.temperature is None else config.temperature
        stops = tuple(config.stop_seqs or ())
        generated = await self.batches(
            Request(
                key=key,
                prompt_ids=prompt_ids,
                max_tokens=max_tokens,
                temperature=temperature,
                top_p=1.0 if config.top_p is None else config.top_p,
                top_k=config.top_k or 0,
                stop=stops,
                seed=self.seed,
            )
        )
        ended = bool(generated.ids) and generated.ids[-1] in self.ends
        text = self._decode(generated.ids, skip=True)
        message = self._message(text, tools)
        written = self._decode(generated.ids[:-1] if ended else generated.ids)
        turn = Turn(
            message_id=message.id or "",
            prompt_ids=prompt_ids,
            completion_ids=generated.ids,
            logprobs=generated.logprobs,
            temperature=temperature,
            text=message.text,
            read=_read(input),
            prompt=prompt,
            written=written,
            end=self._decode(generated.ids[-1:]) if ended else "",
            before=before,
            parted=parted,
        )
        turns[turn.message_id] = turn
        whole = ended or (bool(stops) and stopped(self.tokenizer, generated.ids, stops))
        stop: StopReason = "tool_calls" if message.tool_calls else "stop" if whole else "max_tokens"
        read, wrote = len(prompt_ids), len(generated.ids)
        usage = ModelUsage(input_tokens=read, output_tokens=wrote, total_tokens=read + wrote)
        choice = ChatCompletionChoice(message=message, stop_reason=stop)
        return ModelOutput(model=self.model_name, choices=[choice], usage=usage)

    def _caller(self) -> tuple[str, tuple[Any, ...]]:
        """The sample that calls, and what tells this call from all others of the run."""
        active = sample_active()
        if active is None:
            raise RuntimeError("The model in training was called outside of a sample")
        same = (active.task, str(active.sample.id), active.epoch)
        count = self._calls[same] = self._calls.get(same, -1) + 1
        return active.sample_uuid, (*same, count)

    def _message(self, text: str, tools: list[ToolInfo]) -> ChatMessageAssistant:
        if tools:
            return HFHandler(self.model_name, self.model_family()).parse_assistant_response(text, tools)
        return ChatMessageAssistant(content=text, model=self.model_name, source="generate")

    def _decode(self, ids: Sequence[int], skip: bool = False) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False))

    @staticmethod
    def _as_written(message: ChatMessage, turns: dict[str, Turn]) -> ChatMessage:
        """A reply of the model as it wrote it, calls of tools and all. Other messages as they are."""
        turn = turns.get(message.id or "")
        if turn is None or turn.text != message.text:
            return message
        return ChatMessageAssistant(id=message.id, content=turn.written)

    @staticmethod
    def _last_turn(messages: Sequence[ChatMessage], turns: dict[str, Turn]) -> Turn | None:
        """The last reply that these messages go on from: it stands there, after what it was written after."""
        seen = _read(messages)
        for place in range(len(messages) - 1, -1, -1):
            turn = turns.get(messages[place].id or "")
            if turn is not None and turn.text == messages[place].text and turn.read == seen[:place]:
                return turn
        return None


def _without(after: str, end: str) -> str:
    """What comes after a reply, without the end token that the model has written itself.

    Of several that may end a reply, the template knows one. Where the model wrote another, both stay.
    """
    rest = after.lstrip()
    return rest[len(end) :] if end and rest.startswith(end) else after


def _read(messages: Sequence[ChatMessage]) -> Read:
    return tuple((message.role, message.text) for message in messages)

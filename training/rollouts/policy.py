"""The policy: the model in training, as Inspect calls it. Prompts and replies are kept as token ids.

Each reply is stored with the ids of its prompt, its own ids, and their log-probabilities. If a conversation continues
from a reply, the next prompt consists of that reply's prompt ids and ids, followed by the encoded text in between. So
the gradient applies to the tokens that the model wrote, in the context in which it wrote them.
"""

from collections.abc import Sequence
from contextlib import suppress
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
from truthgym.solvers.chat_template import REMEDY
from truthgym.solvers.thoughts import with_opening_tag
from truthgym.training.rollouts.sampling import Batcher, Request, has_stop

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ContextKey = tuple[tuple[str, str], ...]
"""The messages before a reply: role and text of each."""
EXCERPT = 40
"""Characters shown on each side of the place where two texts diverge."""


@dataclass(frozen=True)
class SampledReply:
    """One reply of the model in training."""

    message_id: str
    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    """Log-probability of each id of the completion when it was drawn."""
    temperature: float
    text: str
    """Text of its message, by which it is recognised in a later prompt."""
    context_key: ContextKey
    prompt: str
    """The prompt as the chat template rendered it."""
    reply_text: str
    """The reply with its special tokens, except the one that ends it."""
    end: str
    """The end token as text. Empty if the reply was cut off."""
    previous: "SampledReply | None"
    """The reply whose ids this one's prompt continues."""
    divergence: str | None = None
    """Why the prompt does not continue from an earlier reply in it: the template renders that reply differently. This
    is an error only if the reply is trained on; a scorer may continue such a conversation."""


@dataclass(frozen=True)
class _Prompt:
    """A rendered prompt. `previous` and `divergence` are those of `SampledReply`."""

    text: str
    ids: list[int]
    previous: SampledReply | None = None
    divergence: str | None = None


@modelapi("policy")
class Policy(HuggingFaceAPI):
    """Inspect's own provider of local models, with sampling replaced and token ids kept.

    Prompts are rendered and replies parsed as by `--model hf/FOLDER`, so the trained model later sees the same prompts.
    """

    in_training = True
    """Reading is strict: no reply is asked for again."""

    def __init__(
        self,
        name: str,
        tokenizer: "PreTrainedTokenizerBase",
        batcher: Batcher,
        seed: tuple[int, ...],
        enable_thinking: bool | None = None,
    ) -> None:
        super(HuggingFaceAPI, self).__init__(name, config=GenerateConfig())
        self.tokenizer: Any = tokenizer
        self.chat_template = None
        self.use_chat_template = None
        self.enable_thinking = enable_thinking
        self.batcher = batcher
        self.seed = seed
        self.replies: dict[str, dict[str, SampledReply]] = {}
        """By the sample's uuid, then by message id."""
        self._calls: dict[tuple[Any, ...], int] = {}

    def close(self) -> None:
        """Keep the model in memory: its training continues."""

    def max_connections(self) -> int:
        """No limit: the batcher collects requests."""
        return 1_000_000

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        """Generate one reply, and store it as a `SampledReply`."""
        uuid, key = self._caller()
        replies = self.replies.setdefault(uuid, {})
        prompt = self._prompt(input, tools, replies)
        request = self._request(key, prompt.ids, config)
        if request.max_tokens < 1:
            return ModelOutput.from_content(self.model_name, "", stop_reason="model_length")
        generated = await self.batcher(request)
        ids, logprobs = generated.ids, generated.logprobs
        message = self._message(with_opening_tag(self._decode(ids, skip=True), prompt.text), tools)
        ended = bool(ids) and ids[-1] in self.batcher.engine.end_ids
        replies[message.id or ""] = SampledReply(
            message_id=message.id or "",
            prompt_ids=prompt.ids,
            completion_ids=ids,
            logprobs=logprobs,
            temperature=request.temperature,
            text=message.text,
            context_key=_context_key(input),
            prompt=prompt.text,
            reply_text=self._decode(ids[:-1] if ended else ids),
            end=self._decode(ids[-1:]) if ended else "",
            previous=prompt.previous,
            divergence=prompt.divergence,
        )
        complete = ended or (bool(request.stop) and has_stop(self.tokenizer, ids, request.stop))
        stop: StopReason = "tool_calls" if message.tool_calls else "stop" if complete else "max_tokens"
        usage = ModelUsage(
            input_tokens=len(prompt.ids), output_tokens=len(ids), total_tokens=len(prompt.ids) + len(ids)
        )
        choice = ChatCompletionChoice(message=message, stop_reason=stop)
        return ModelOutput(model=self.model_name, choices=[choice], usage=usage)

    def _caller(self) -> tuple[str, tuple[Any, ...]]:
        """The uuid of the sample that calls, and a key that is unique among the calls of the run."""
        active = sample_active()
        if active is None:
            raise RuntimeError("The model in training was called outside of a sample")
        sample = (active.task, str(active.sample.id), active.epoch)
        count = self._calls[sample] = self._calls.get(sample, -1) + 1
        return active.sample_uuid, (*sample, count)

    def _prompt(self, messages: list[ChatMessage], tools: list[ToolInfo], replies: dict[str, SampledReply]) -> _Prompt:
        """Render a prompt, continuing the ids of the last reply in it if the template permits."""
        previous = _last_reply(messages, replies)
        generated = [_as_generated(message, replies) for message in messages]
        text = self.hf_chat(generated, tools)
        if tools and not replies and text == self.hf_chat(generated, []):
            raise BadInput(f"The chat template of {self.model_name} leaves out tools; {REMEDY}")
        before = "" if previous is None else previous.prompt + previous.reply_text
        suffix = prompt_suffix(text, before)
        if previous is None or suffix is None:
            diverges = None if previous is None else divergence(text, before, self.model_name)
            # The template writes special tokens itself: Llama's tokenizers would add a second BOS token.
            return _Prompt(text, self.tokenizer(text, add_special_tokens=False)["input_ids"], None, diverges)
        suffix = _without_end(suffix, previous.end)
        ids = [*previous.prompt_ids, *previous.completion_ids]
        ids += self.tokenizer(suffix, add_special_tokens=False)["input_ids"]
        return _Prompt(text, ids, previous)

    def _request(self, key: tuple[Any, ...], prompt_ids: list[int], config: GenerateConfig) -> Request:
        max_tokens = config.max_tokens or self.max_tokens() or 1024
        if context := self.batcher.engine.context_length:
            max_tokens = min(max_tokens, context - len(prompt_ids))
        return Request(
            key=key,
            prompt_ids=prompt_ids,
            max_tokens=max_tokens,
            temperature=1.0 if config.temperature is None else config.temperature,
            top_p=1.0 if config.top_p is None else config.top_p,
            top_k=config.top_k or 0,
            stop=tuple(config.stop_seqs or ()),
            seed=self.seed,
        )

    def _message(self, text: str, tools: list[ToolInfo]) -> ChatMessageAssistant:
        if tools:
            with suppress(ValueError):  # a call that is no JSON, for some families of models
                return HFHandler(self.model_name, self.model_family()).parse_assistant_response(text, tools)
        return ChatMessageAssistant(content=text, model=self.model_name, source="generate")

    def _decode(self, ids: Sequence[int], skip: bool = False) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False))


def _as_generated(message: ChatMessage, replies: dict[str, SampledReply]) -> ChatMessage:
    """A reply of the model as it was generated, tool calls included. Other messages unchanged."""
    reply = replies.get(message.id or "")
    if reply is None or reply.text != message.text:
        return message
    return ChatMessageAssistant(id=message.id, content=reply.reply_text)


def _last_reply(messages: Sequence[ChatMessage], replies: dict[str, SampledReply]) -> SampledReply | None:
    """The last reply that these messages contain unchanged, after the same messages as when it was generated."""
    context = _context_key(messages)
    for place in range(len(messages) - 1, -1, -1):
        reply = replies.get(messages[place].id or "")
        if reply is not None and reply.text == messages[place].text and reply.context_key == context[:place]:
            return reply
    return None


def _context_key(messages: Sequence[ChatMessage]) -> ContextKey:
    return tuple((message.role, message.text) for message in messages)


def _without_end(suffix: str, end: str) -> str:
    """The text after a reply, without the end token that the model generated itself; another end token remains."""
    stripped = suffix.lstrip()
    return stripped[len(end) :] if end and stripped.startswith(end) else suffix


def prompt_suffix(rendered: str, before: str) -> str | None:
    """What a chat template appends to what the model has read and written; None if it changes that."""
    if rendered.startswith(before):
        return rendered[len(before) :]
    at, place = _common_prefix(rendered, before)
    return rendered[at:] if place == len(before) else None


def divergence(rendered: str, before: str, model: str) -> str:
    """An error message that shows where a template changes the known part of a conversation."""
    at, place = _common_prefix(rendered, before)
    same = before[max(0, place - EXCERPT) : place]
    return (
        f"The chat template of {model} changes earlier messages of a conversation, so a turn cannot continue from the "
        f"tokens of the last one. After {same!r} the model had {before[place : place + EXCERPT]!r}, and the template "
        f"now writes {rendered[at : at + EXCERPT]!r} (character {place} of {len(before)}). Give a template that keeps "
        "earlier messages unchanged with --chat_template_path FILE, train a solver with one turn, or use `truthgym "
        "train rloo`, which trains each reply by itself"
    )


def keeps_reasoning(tokenizer: "PreTrainedTokenizerBase", enable_thinking: bool | None = None) -> bool:
    """Whether a chat template leaves a reply's reasoning, or its empty thought, as it is in a later turn."""
    user, reply = {"role": "user", "content": "?"}, "<think>\nHm.\n</think>\n\nYes."

    def render(*messages: dict[str, str]) -> str:
        return str(
            tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=True, enable_thinking=enable_thinking
            )
        )

    prompt = render(user)
    if prompt.rstrip().endswith("<think>"):
        reply = reply.removeprefix("<think>\n")
    elif prompt.rstrip().endswith("</think>"):
        reply = "Yes."
    later = render(user, {"role": "assistant", "content": reply}, user)
    return prompt_suffix(later, prompt + reply) is not None


def _common_prefix(rendered: str, before: str) -> tuple[int, int]:
    """Where two texts diverge, ignoring whitespace: the position in each. The second is `len(before)` if nowhere."""
    at = 0
    for place, character in enumerate(before):
        if character.isspace():
            continue
        while at < len(rendered) and rendered[at].isspace():
            at += 1
        if at == len(rendered) or rendered[at] != character:
            return at, place
        at += 1
    return at, len(before)

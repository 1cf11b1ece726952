"""Local models: what they must have, and the stop reasons that Inspect's providers of them leave out."""

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast
from weakref import WeakSet

from inspect_ai.event import ModelEvent
from inspect_ai.log import transcript
from inspect_ai.model import (
    CachePolicy,
    ChatMessage,
    ChatMessageAssistant,
    ContentText,
    GenerateConfig,
    Model,
    ModelOutput,
    cache_path,
)
from inspect_ai.util import warn_once

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import CacheEntry
from truthgym.solvers import chat_template
from truthgym.solvers.thoughts import with_opening_tag

logger = logging.getLogger(__name__)

SLACK = 0.02
"""A reply may have this share of tokens less than the limit when its text is encoded anew: sampled tokens need not be
those that the tokenizer chooses."""
TEMPLATE_REFUSALS = ("must alternate", "ystem role not supported", "roles are supported")
"""Words of the refusals of chat templates, which servers pass on."""
_fitted: WeakSet[Any] = WeakSet()
"""Local models whose chat templates have been looked at."""
TOO_LONG = ("exceeds the available context size", "maximum context length")
"""How llama.cpp's and vLLM's servers refuse a conversation. For `openai-api/` Inspect knows neither."""


BYTES_A_TOKEN = 4
"""For an estimate where there is no tokenizer: English text has about so many."""


async def count_tokens(model: Model, text: str) -> int:
    """Number of tokens of a text: by the tokenizer of a local model, otherwise as Inspect counts for the provider."""
    tokenizer = _tokenizer(model)
    if tokenizer:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])
    try:
        return await model.count_tokens(text)
    except OSError as error:  # of requests, with which tiktoken downloads
        warn_once(
            logger,
            f"No tokenizer for {model}: a token counts as {BYTES_A_TOKEN} bytes. It could not be downloaded: "
            f"{type(error).__name__}.",
        )
        return math.ceil(len(text.encode()) / BYTES_A_TOKEN)


def check_local_model(model: Model) -> None:
    """Refuse a local model without a chat template, or a tokenizer, where transformers makes one without a token."""
    tokenizer, api = _tokenizer(model), cast("Any", model.api)
    if tokenizer is None:
        return
    if not tokenizer("a")["input_ids"]:
        raise BadInput(
            f"{model} has no tokenizer; save one with AutoTokenizer.from_pretrained(BASE).save_pretrained(FOLDER)"
        )
    templates = (getattr(api, "chat_template", None), getattr(tokenizer, "chat_template", None))
    if not any(templates) and getattr(api, "use_chat_template", None) is not False:
        raise BadInput(
            f"{model} has no chat template, so it was probably not trained on conversations; take a model that was, "
            "name a template with -M chat_template=TEXT, or write -M use_chat_template=false for lines such as "
            "`user: ...`"
        )
    if (
        api in _fitted
        or getattr(api, "use_chat_template", None) is False
        or not hasattr(tokenizer, "apply_chat_template")
    ):
        return
    _fitted.add(api)
    used = None
    for place in (tokenizer, api):  # the latter's counts
        if isinstance(template := getattr(place, "chat_template", None), str):
            place.chat_template = used = chat_template.fit(tokenizer, template)
    if refusal := chat_template.problem(tokenizer, chat_template.TALK[:1], used, add_generation_prompt=True):
        raise BadInput(f"The chat template of {model} {refusal}, a question alone; {chat_template.REMEDY}")


def in_turns(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """A conversation in which no message of the user or the model follows another of its own: it continues that one."""
    turns: list[ChatMessage] = []
    for message in messages:
        last = turns[-1] if turns else message
        calls = [each.tool_calls for each in (last, message) if isinstance(each, ChatMessageAssistant)]
        if turns and last.role == message.role in ("user", "assistant") and not any(calls):
            more = f"\n\n{message.text}"
            joined = last.content + more if isinstance(last.content, str) else [*last.content, ContentText(text=more)]
            turns[-1] = last.model_copy(update={"content": joined})
        else:
            turns.append(message)
    return turns


async def generate(
    model: Model,
    messages: Sequence[ChatMessage],
    config: GenerateConfig | None = None,
    cache: bool | CachePolicy | None = None,
) -> ModelOutput:
    """A model's reply. One model call, or none if a local model's context is shorter than the conversation."""
    messages = in_turns(messages)
    caching: dict[str, Any] = {} if cache is None else {"cache": cache}
    try:
        with clear_errors(model):
            if exceeds_context(model, messages):
                return ModelOutput.from_content(str(model), "", stop_reason="model_length")
            output = await model.generate(messages, config=config or GenerateConfig(), **caching)
    except RuntimeError as error:
        if not refused_as_too_long(error):
            raise
        return ModelOutput.from_content(str(model), "", stop_reason="model_length")
    complete_stop_reason(output, model, messages)
    mark_thought(output, model, messages)
    return output


def forget(model: Model, outputs: Sequence[ModelOutput], policy: CachePolicy) -> None:
    """Remove replies that could not be read from Inspect's cache, which keeps a reply before anybody has read it."""
    ids = {output.message.id for output in outputs if output.choices}
    for event in transcript().history.resident_events:
        if not isinstance(event, ModelEvent) or not event.cache or event.model != str(model):
            continue
        if not event.output.choices or event.output.message.id in ids:
            settings = (event.config, event.input, event.model, policy, event.tool_choice, event.tools)
            (cache_path(event.model) / CacheEntry(model.api.base_url, *settings).key).unlink(missing_ok=True)


@contextmanager
def clear_errors(model: Model) -> Iterator[None]:
    """Name the remedy, in a BadInput, where torch runs out of memory or a chat template refuses the conversation."""
    from jinja2 import TemplateError

    try:
        yield
    except TemplateError as error:
        raise BadInput(
            f"The chat template of {model} refuses the conversation: {error}; {chat_template.REMEDY}"
        ) from None
    except RuntimeError as error:
        problem = str(error).partition("\n")[0]
        if any(words in str(error.__cause__) for words in TEMPLATE_REFUSALS):
            raise BadInput(
                f"The server's chat template for {model} refuses the conversation: {error.__cause__}; start the server "
                "with another template (vLLM: --chat-template FILE), or leave out the system prompt and tools"
            ) from None
        if "cannot be greater than max_model_len" in str(error.__cause__):
            raise BadInput(f"The server of {model} refuses --max-tokens; lower it: {error.__cause__}") from None
        if "out of memory" not in problem and "allocate memory" not in problem:
            raise
        raise BadInput(
            f"{model} has too little memory ({problem}); lower --max-connections, which is the batch size, or "
            "--max-tokens, or load it with -M dtype=bfloat16"
        ) from None


def complete_stop_reason(output: ModelOutput, model: Model, messages: Sequence[ChatMessage]) -> None:
    """Give an output without a stop reason the one that its length shows: "model_length" or "max_tokens"."""
    tokenizer = _tokenizer(model)
    if tokenizer is None or not output.choices or output.stop_reason != "unknown":
        return
    tokens = len(tokenizer(output.completion, add_special_tokens=False)["input_ids"])
    calls = (event for event in reversed(transcript().events) if isinstance(event, ModelEvent))
    limit = next((call.config.max_tokens for call in calls), None)
    if exceeds_context(model, messages, tokens):
        output.choices[0].stop_reason = "model_length"
    elif limit and output.usage and output.usage.output_tokens >= limit and tokens >= limit * (1 - SLACK):
        output.choices[0].stop_reason = "max_tokens"


def mark_thought(output: ModelOutput, model: Model, messages: Sequence[ChatMessage]) -> None:
    """Write the opening tag of a thought into the reply if the chat template wrote it into the prompt."""
    if _tokenizer(model) is not None and output.choices:
        text = with_opening_tag(output.completion, model.api.hf_chat(list(messages), []))  # type: ignore[attr-defined]
        if text != output.completion:
            output.message.content = output.completion = text


def exceeds_context(model: Model, messages: Sequence[ChatMessage], more: int = 0) -> bool:
    """Whether a conversation and so many more tokens have more tokens than the model has positions."""
    tokenizer = _tokenizer(model)
    config: Any = getattr(getattr(model.api, "model", None), "config", None)
    if tokenizer is None or config is None:
        return False
    positions: int | None = getattr(config.get_text_config(), "max_position_embeddings", None)
    chat = model.api.hf_chat(list(messages), [])  # type: ignore[attr-defined]
    return positions is not None and len(tokenizer(chat)["input_ids"]) + more > positions


def refused_as_too_long(error: RuntimeError) -> bool:
    """Whether a model call failed because the conversation is longer than the server's context."""
    # The text of the error itself also has the request; its cause is what the server replied.
    return any(words in str(error.__cause__) for words in TOO_LONG)


def _tokenizer(model: Model) -> Any:  # noqa: ANN401 (of transformers, which is not imported here)
    """The tokenizer of a model that Inspect loads with transformers, or None."""
    tokenizer = getattr(model.api, "tokenizer", None)
    return tokenizer if callable(tokenizer) else None

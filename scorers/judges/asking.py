"""Judge calls: send a request, read the reply as a fixed form, and cache what a run needs only once."""

import json
import re
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import anyio
from anyio.lowlevel import current_token
from inspect_ai.model import (
    CachePolicy,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
    ResponseSchema,
    model_roles,
)
from inspect_ai.util import LimitExceededError, json_schema, span
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.solvers.local_model import forget, generate
from truthgym.solvers.roles import required_model
from truthgym.solvers.trajectory import REPAIR, failure_reason, opens_with_refusal, reply_text, user_message

FORM = "Reply with one JSON object and nothing else, in this form:\n\n{form}"
OBJECT = re.compile(r"""\{\s*["'}]""")
"""Where a JSON object begins, even a broken one; other braces are prose."""
STATES = re.compile(r"[{\d]")
"""What a reply must hold to be asked for again: without an object or a number it states no verdict to put in form."""
CACHE = CachePolicy(per_epoch=False)
"""The epoch is in the message's metadata instead: `inspect score`, which has no epoch, must find the same replies."""
VENDORS = {
    "openai": ("gpt", "o1", "o3", "o4", "chatgpt", "codex"),
    "anthropic": ("claude",),
    "google": ("gemini", "gemma", "palm"),
    "meta": ("llama",),
    "mistral": ("mistral", "mixtral", "ministral", "magistral", "codestral"),
    "qwen": ("qwen", "qwq"),
    "deepseek": ("deepseek",),
    "grok": ("grok",),
    "cohere": ("command", "aya"),
    "microsoft": ("phi",),
    "moonshot": ("kimi",),
    "zai": ("glm",),
}

T = TypeVar("T")


class Form(BaseModel):
    """A reply that a judge has to give. Subclasses add fields; the judge is shown each field's description."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, data: object) -> object:
        """Takes "70" and 70.0 for 70 where no text is asked for, and true for no number."""
        if not isinstance(data, dict):
            return data
        kinds = {name: field.annotation for name, field in cls.model_fields.items()}
        return {name: value if kinds.get(name) in (str, bool, None) else _plain(value) for name, value in data.items()}


def _plain(value: object) -> object:
    if isinstance(value, str):
        with suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, bool):
        raise ValueError("give a number, not true or false")
    return int(value) if isinstance(value, float) and value.is_integer() else value


class ReasonedForm(Form):
    """A rating with its reasons. The reasons come first so that the judge writes them before the number."""

    reasons: str = Field(description="two or three sentences")


AnyForm = TypeVar("AnyForm", bound=Form)


@dataclass(frozen=True)
class Answer(Generic[AnyForm]):
    """A judge's reply."""

    form: AnyForm | None
    """None if the reply does not have the form."""
    raw: str | None
    reason: str | None
    repaired: bool = False
    """Whether it is the reply to a second request, after one that was not in form."""


class AsyncOnce(Generic[T]):
    """Async memo: concurrent callers share one computation per key.

    An error, a cancellation or what is not to be kept is not cached: the next caller computes again, so one sample's
    failure is not another's.
    """

    def __init__(self, keep: Callable[[T], bool] = lambda result: True) -> None:
        self.keep = keep
        self.results: dict[Hashable, T] = {}
        self._locks: dict[tuple[object, Hashable], anyio.Lock] = {}

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """Return the cached result for `key`, computing it first if there is none."""
        # A lock belongs to one event loop, and a scorer may run in several loops, one after another.
        async with self._locks.setdefault((current_token(), key), anyio.Lock()):
            if key in self.results:
                return self.results[key]
            result = await compute()
            if self.keep(result):
                self.results[key] = result
            return result


def rating_field(description: str) -> Any:  # noqa: ANN401 (as pydantic.Field)
    """A form field that holds a whole number from 0 to 100; higher is better."""
    return Field(ge=0, le=100, description=f"whole number from 0 to 100: {description}")


def models_in(role: str) -> list[Model]:
    """All models bound to a role: `--model-role judge=A,B` binds two."""
    first = required_model(role)
    bound = model_roles().get(role)
    return list(bound) if isinstance(bound, list) else [first]


def model_vendor(model: str) -> str:
    """Vendor of a model, by the prefix of its name; else its provider. Models of one vendor may share tastes.

    >>> model_vendor("openrouter/anthropic/claude-opus-4.1"), model_vendor("reference/judge")
    ('anthropic', 'reference')
    """
    provider, _, rest = model.lower().partition("/")
    name = (rest or provider).rpartition("/")[2]
    for vendor, prefixes in VENDORS.items():
        if any(name == prefix or (name.startswith(prefix) and not name[len(prefix)].isalpha()) for prefix in prefixes):
            return vendor
    return provider


def form_instruction(form: type[Form], instruction: str = FORM) -> str:
    """Describe a form in words. Providers that support response schemas get the schema as well."""
    fields = []
    for name, field in form.model_fields.items():
        quote = '"' if field.annotation is str else ""
        fields.append(f'"{name}": {quote}<{field.description}>{quote}')
    return instruction.format(form="{{{}}}".format(", ".join(fields)))


async def ask(
    model: Model,
    messages: str | Sequence[ChatMessage],
    form: type[AnyForm],
    *,
    epoch: int,
    name: str,
    draw: int = 0,
    cache: bool = True,
    config: GenerateConfig | None = None,
    instruction: str = FORM,
    reply: str | None = None,
) -> Answer[AnyForm]:
    """Ask a judge to fill in a form: one model call, or none if the reply is in Inspect's cache.

    A reply that is not in form is asked for once more in the same conversation, unless it is a refusal or states
    nothing. What remains unread does not stay in the cache. With `reply`, which the judge has given before, only the
    second request may be made.
    """
    schema = ResponseSchema(name=form.__name__.lower(), json_schema=json_schema(form), strict=True)
    config = GenerateConfig(response_schema=schema).merge(config or GenerateConfig())
    request = _request(messages, epoch, name, draw)
    outputs: list[ModelOutput] = []
    raw, repaired = reply, False
    while True:
        if raw is None:
            raw, failure = await _reply(model, request, config, name, cache, outputs)
        filled = failure if raw is None else parse_form(raw, form)
        if not isinstance(filled, str):
            return Answer(filled, raw, None, repaired)
        if repaired or raw is None or opens_with_refusal(raw) or not STATES.search(raw):
            break
        again = f"{REPAIR}. {filled.partition('; it begins')[0]}. {form_instruction(form, instruction)}"
        request = [*request, ChatMessageAssistant(content=raw), *_request(again, epoch, name, draw)]
        raw, repaired = None, True
    forget(model, outputs, CACHE)
    return Answer(None, raw, f"{filled} (asked twice)" if repaired else filled, repaired)


async def ask_for_text(
    model: Model, messages: str | Sequence[ChatMessage], *, epoch: int, name: str, draw: int = 0, cache: bool = True
) -> tuple[str | None, str | None]:
    """Ask a judge for free text, or the reason why there is none. Args: as `ask`."""
    outputs: list[ModelOutput] = []
    text, reason = await _reply(model, _request(messages, epoch, name, draw), None, name, cache, outputs)
    if text is None:
        forget(model, outputs, CACHE)
    return text, reason or None


def _request(messages: str | Sequence[ChatMessage], epoch: int, name: str, draw: int) -> list[ChatMessage]:
    request: list[ChatMessage] = [user_message(messages, epoch)] if isinstance(messages, str) else list(messages)
    metadata = {"epoch": epoch, "judging": name} | ({"draw": draw} if draw else {})
    request[-1] = ChatMessageUser(content=request[-1].content, metadata=metadata)
    return request


async def _reply(
    model: Model,
    request: list[ChatMessage],
    config: GenerateConfig | None,
    name: str,
    cache: bool,
    outputs: list[ModelOutput],
) -> tuple[str | None, str]:
    """The text of a judge's reply, or None with the reason. The output is added to `outputs`."""
    async with span(f"judging: {name}", type="truthgym.judging"):
        outputs.append(await generate(model, request, config, CACHE if cache else False))
    reason, text = failure_reason(outputs[-1], "The judge"), reply_text(outputs[-1])
    if not reason and not text.strip():
        reason = f"The judge returned an empty reply (stop reason {outputs[-1].stop_reason})."
    return (None, reason) if reason else (text, "")


def judge_failure(judge: Model, error: Exception) -> str:
    """Describe an error that a judge's provider raised. It must not end the scoring of other samples."""
    if isinstance(error, PrerequisiteError | LimitExceededError):
        raise error
    return f"The judge {judge} failed ({type(error).__name__}: {error})"[:500]


def parse_form(text: str, form: type[AnyForm]) -> AnyForm | str:
    """Parse a filled-in form: the one JSON object of a text that has the form's fields. Else the reason why not."""
    try:
        return form.model_validate_json(json.dumps(_the_object(text, form)))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        problem = f"field {place}: {first['msg']}" if place else first["msg"]
    except (ValueError, RecursionError) as error:
        problem = str(error)
    return f"The judge's reply is not in form ({problem}); it begins: {text.strip()[:80]!r}"


def _the_object(text: str, form: type[Form]) -> dict[str, Any]:
    """The one object of a text that has all fields of a form, or the only object. ValueError: there is none such."""
    objects: list[dict[str, Any]] = []
    end = 0
    while begin := OBJECT.search(text, end):
        value, end = DECODER.raw_decode(text, begin.start())
        objects.append(value)
    needed = {name for name, field in form.model_fields.items() if field.is_required()}
    filled = [value for value in objects if needed <= value.keys()] or objects
    if len(filled) != 1:
        raise ValueError(f"{len(filled)} JSON objects could be meant" if filled else "it has no JSON object")
    return filled[0]


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(table := dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice")
    return table


DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_each_key_once)
"""Takes a line break within a text, too."""

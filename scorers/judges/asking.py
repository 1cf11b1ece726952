"""Judge calls: send a request, read the reply as a fixed form, and cache what a run needs only once."""

import re
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import anyio
from anyio.lowlevel import current_token
from inspect_ai.model import (
    CachePolicy,
    ChatMessage,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ResponseSchema,
    model_roles,
)
from inspect_ai.util import LimitExceededError, json_schema, span
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.solvers.local_model import generate
from truthgym.solvers.roles import required_model
from truthgym.solvers.trajectory import failure_reason, reply_text, user_message

FORM = "Reply with one JSON object and nothing else, in this form:\n\n{form}"
FENCED = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)
"""A reply that is a single fenced block. A block in the middle of other text does not count."""
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
"""Prefixes of each vendor's model names."""

T = TypeVar("T")


class Form(BaseModel):
    """A reply that a judge has to give. Subclasses add fields; the judge is shown each field's description."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


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
    """The text of the reply."""
    reason: str | None
    """Why `form` is None."""


class AsyncOnce(Generic[T]):
    """Async memo: concurrent callers share one computation per key.

    An error or a cancellation is not cached: the next caller computes again, so one sample's failure is not another's.
    """

    def __init__(self) -> None:
        self.results: dict[Hashable, T] = {}
        self._locks: dict[tuple[object, Hashable], anyio.Lock] = {}

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """Return the cached result for `key`, computing it first if there is none."""
        # A lock belongs to one event loop, and a scorer may run in several loops, one after another.
        async with self._locks.setdefault((current_token(), key), anyio.Lock()):
            if key not in self.results:
                self.results[key] = await compute()
        return self.results[key]


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

    In `provider/.../name` only the name counts if it has a prefix in `VENDORS`: a model has the same vendor whichever
    provider serves it, and a distilled model belongs to the vendor that its name begins with.

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
) -> Answer[AnyForm]:
    """Ask a judge to fill in a form: one model call, or none if the reply is in Inspect's cache."""
    schema = ResponseSchema(name=form.__name__.lower(), json_schema=json_schema(form), strict=True)
    config = GenerateConfig(response_schema=schema)
    raw, reason = await ask_for_text(model, messages, epoch=epoch, name=name, draw=draw, cache=cache, config=config)
    if raw is None:
        return Answer(None, None, reason)
    parsed = parse_form(raw, form)
    return Answer(None, raw, parsed) if isinstance(parsed, str) else Answer(parsed, raw, None)


async def ask_for_text(
    model: Model,
    messages: str | Sequence[ChatMessage],
    *,
    epoch: int,
    name: str,
    draw: int = 0,
    cache: bool = True,
    config: GenerateConfig | None = None,
) -> tuple[str | None, str | None]:
    """Ask a judge for free text. Args: as `ask`."""
    request: list[ChatMessage] = [user_message(messages, epoch)] if isinstance(messages, str) else list(messages)
    metadata = {"epoch": epoch, "judging": name} | ({"draw": draw} if draw else {})
    request[-1] = ChatMessageUser(content=request[-1].content, metadata=metadata)
    async with span(f"judging: {name}", type="truthgym.judging"):
        output = await generate(model, request, config, CACHE if cache else False)
    reason = failure_reason(output, "The judge")
    if not reason and not reply_text(output).strip():
        reason = f"The judge returned an empty reply (stop reason {output.stop_reason})."
    return (None, reason) if reason else (reply_text(output), None)


def judge_failure(judge: Model, error: Exception) -> str:
    """Describe an error that a judge's provider raised. It must not end the scoring of other samples."""
    if isinstance(error, PrerequisiteError | LimitExceededError):
        raise error
    return f"The judge {judge} failed ({type(error).__name__}: {error})"[:500]


def parse_form(text: str, form: type[AnyForm]) -> AnyForm | str:
    """Parse a filled-in form. The whole text, or the content of one fenced block, must be the JSON object."""
    fenced = FENCED.fullmatch(text.strip())
    try:
        return form.model_validate_json(fenced[1] if fenced else text.strip())
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        problem = f"field {place}: {first['msg']}" if place else first["msg"]
        return f"The judge's reply is not in form ({problem}); it begins: {text.strip()[:80]!r}"

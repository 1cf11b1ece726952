"""Judging: ask a model, or a person, for a verdict in a fixed form, and read it strictly or not at all."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

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
from truthgym.solvers.roles import required_model
from truthgym.solvers.trajectory import failure_reason, user_message

FORM = "Reply with one JSON object and nothing else, in this form:\n\n{form}"
FENCED = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)
"""A reply that is one fenced block from beginning to end. What stands in the midst of other words is not looked for."""
KEPT = CachePolicy(per_epoch=False)
"""The message tells the epoch. Inspect knows it in a run and not when a log is scored, which must not ask anew."""
GAP = r"[\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*"
"""What a reader does not see."""
TAG = re.compile(rf"<(?={GAP}/|{GAP}[a-z_]+(?:{GAP}(?:/{GAP})?|\s+[\w-]+\s*=[^<>]*)>)", re.IGNORECASE)
"""Where a tag begins: one that closes, however it is written, or one that opens."""


class Form(BaseModel):
    """What a judge fills in. Subclasses add fields; each has a description, which the judge is shown."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Verdict(Form):
    """A rating with its reasons. The reasons come first, so that they are written before the number."""

    reasons: str = Field(description="two or three sentences")


def rating(description: str) -> Any:  # noqa: ANN401 (pydantic's own type of a field)
    """A field of a form: a whole number from 0 to 100, higher is better."""
    return Field(ge=0, le=100, description=f"whole number from 0 to 100: {description}")


AnyForm = TypeVar("AnyForm", bound=Form)


@dataclass(frozen=True)
class Answer(Generic[AnyForm]):
    """What a judge said."""

    form: AnyForm | None
    """None where the reply is not in form."""
    raw: str | None
    """The reply."""
    reason: str | None
    """Why there is no form."""


def models_in(role: str) -> list[Model]:
    """All models bound to a role: `--model-role judge=A,B` binds two.

    Raises:
        BadInput: None is.
    """
    first = required_model(role)
    bound = model_roles().get(role)
    return list(bound) if isinstance(bound, list) else [first]


def material(tag: str, text: str) -> str:
    """Put somebody's words between tags for a reader. Tags within the words are made harmless."""
    harmless = TAG.sub("‹", text)
    return f"<{tag}>\n{harmless}\n</{tag}>"


def form_instruction(form: type[Form]) -> str:
    """Say in words what form a reply must have. Providers that know response schemas are given that too."""
    fields = []
    for name, field in form.model_fields.items():
        quote = '"' if field.annotation is str else ""
        fields.append(f'"{name}": {quote}<{field.description}>{quote}')
    return FORM.format(form="{{{}}}".format(", ".join(fields)))


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
    """Ask a judge to fill in a form. One model call; none where Inspect's cache knows the reply.

    Args:
        model: Who is asked.
        messages: What it is told, which ends with `form_instruction(form)`.
        form: What it fills in.
        epoch: The epoch of the judged sample.
        name: Name of the span of the transcript, also put in the metadata of the last message.
        draw: Another number asks the same once more, past the cache.
        cache: Whether to use Inspect's cache, so that a second scoring of a log, or one that was interrupted, asks
            nothing that has been answered.
    """
    schema = ResponseSchema(name=form.__name__.lower(), json_schema=json_schema(form), strict=True)
    raw, reason = await said(
        model, messages, epoch=epoch, name=name, draw=draw, cache=cache, config=GenerateConfig(response_schema=schema)
    )
    if raw is None:
        return Answer(None, None, reason)
    read = read_form(raw, form)
    return Answer(None, raw, read) if isinstance(read, str) else Answer(read, raw, None)


async def said(
    model: Model,
    messages: str | Sequence[ChatMessage],
    *,
    epoch: int,
    name: str,
    draw: int = 0,
    cache: bool = True,
    config: GenerateConfig | None = None,
) -> tuple[str | None, str | None]:
    """What a judge says in its own words, or None and why there is nothing. Args: as `ask`."""
    asked: list[ChatMessage] = [user_message(messages, epoch)] if isinstance(messages, str) else list(messages)
    marked = {"epoch": epoch, "judging": name} | ({"draw": draw} if draw else {})
    asked[-1] = ChatMessageUser(content=asked[-1].content, metadata=marked)
    async with span(f"judging: {name}", type="truthgym.judging"):
        output = await model.generate(asked, config=config or GenerateConfig(), cache=KEPT if cache else False)
    refused = failure_reason(output, "The judge")
    empty = None if output.completion.strip() else f"The judge said nothing (it stopped with {output.stop_reason})."
    return (None, refused or empty) if refused or empty else (output.completion, None)


def why_failed(judge: Model, error: Exception) -> str:
    """Say that a judge failed, whatever its provider raised: that must not end the scoring of other samples.

    Raises:
        The error itself, where a limit of the run is reached or something that the run needs is not there.
    """
    if isinstance(error, PrerequisiteError | LimitExceededError):
        raise error
    return f"The judge {judge} failed ({type(error).__name__}: {error})"[:500]


def read_form(text: str, form: type[AnyForm]) -> AnyForm | str:
    """Read a filled form: the whole text, or all that stands in one fenced block, is a JSON object with its fields.

    Returns:
        The form, or why the text is none.
    """
    fenced = FENCED.fullmatch(text.strip())
    try:
        return form.model_validate_json(fenced[1] if fenced else text.strip())
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        what = f"field {place}: {first['msg']}" if place else first["msg"]
        return f"The judge's reply is not in form ({what}); it begins: {text.strip()[:80]!r}"

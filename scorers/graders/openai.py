"""OpenAI's grader specifications: read, checked, kept to the byte for that API, and run here where that is possible."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ResponseSchema,
)
from inspect_ai.util import json_schema
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from truthgym.datasets.errors import BadInput, one_of
from truthgym.scorers.graders.builtin import ROLE, the_grader
from truthgym.scorers.graders.formulas import read_formula
from truthgym.scorers.graders.grader import Grade, Graded, Grader, Ungraded, grade, sample_of
from truthgym.scorers.graders.python import python_grader
from truthgym.scorers.graders.templates import check_template, render
from truthgym.scorers.judges.asking import Form, form_instruction, read_form, said

OPERATIONS: dict[str, Callable[[str, str], bool]] = {
    "eq": lambda given, reference: given == reference,
    "ne": lambda given, reference: given != reference,
    "like": lambda given, reference: reference in given,
    "ilike": lambda given, reference: reference.casefold() in given.casefold(),
}
"""Operations of a string check: of the rendered `input` on the rendered `reference`."""
KINDS = ("string_check", "score_model", "python", "multi", "text_similarity", "label_model")
ELSEWHERE = ("text_similarity", "label_model")
"""Kinds that run at OpenAI only."""


class ReasoningStep(BaseModel):
    """A step on the way to a score."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    description: str
    conclusion: str


class Scored(Form):
    """What a score model fills in: OpenAI's own form, with the reasoning first."""

    steps: list[ReasoningStep] = Field(
        description='list of the steps of your reasoning, each {"description": "...", "conclusion": "..."}'
    )
    result: float = Field(description="the score, a number within the range")


@dataclass(frozen=True)
class Specified:
    """A grader, and the kind of specification that it was read from."""

    kind: str
    grader: Grader


def openai_grader(
    spec: str,
    ranged: Mapping[str, Any],
    trusted: bool = False,
    time_limit: int = 30,
    cache: bool = True,
    inner: bool = False,
) -> Specified:
    """Read a grader from the JSON of OpenAI's API.

    Args:
        spec: The JSON. It is kept unchanged as `Grader.spec`.
        ranged: `low`, `high` and `higher_is_better` for the kinds that declare none: python and multi.
        trusted: Whether a python grader may run on this machine.
        time_limit: Seconds that a python grader may take.
        cache: Whether a score model's reply may come from Inspect's cache.
        inner: Whether it stands within a multi grader.

    Raises:
        BadInput: It is no specification, or one with a template or formula that cannot be used.
    """
    try:
        read = json.loads(spec)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"grader: the specification is not JSON ({error}); it begins: {spec.strip()[:80]!r}") from None
    if not isinstance(read, dict) or not isinstance(read.get("type"), str):
        raise BadInput(
            "grader: a specification is a JSON object with a type, such as "
            '{"type": "string_check", "name": "exact", "input": "{{ sample.output_text }}", "reference": "yes", '
            '"operation": "like"}'
        )
    kind = read["type"]
    one_of("type of grader", kind, KINDS)
    _check(kind, read)
    name = str(read.get("name") or kind)
    if kind == "string_check":
        made = _string_check(name, read)
    elif kind == "score_model":
        made = _score_model(name, read, cache)
    elif kind == "python":
        made = python_grader(name, read["source"], trusted, time_limit, **ranged)
    elif kind == "multi":
        if inner:
            raise BadInput(f"grader {name}: a multi grader cannot stand within another; write its formula out")
        made = _multi(name, read, ranged, trusted, time_limit, cache)
    else:
        made = Grader(name, None)
    return Specified(kind, replace(made, spec=spec))


def _check(kind: str, read: dict[str, Any]) -> None:
    """Hold a specification to the types of OpenAI's own package. A name, which its guide leaves out, may be missing."""
    from openai.types import graders as types  # loads for a second

    known: dict[str, type[BaseModel]] = {
        "string_check": types.StringCheckGrader,
        "score_model": types.ScoreModelGrader,
        "python": types.PythonGrader,
        "text_similarity": types.TextSimilarityGrader,
        "label_model": types.LabelModelGrader,
    }
    if kind == "multi":  # there its type is of one grader, where the API takes graders by name
        if not isinstance(read.get("graders"), dict) or not read["graders"]:
            raise BadInput("grader of type multi: `graders` is no object with graders by name; give at least one")
        if not isinstance(read.get("calculate_output"), str):
            raise BadInput(
                "grader of type multi: `calculate_output` is missing; give a formula over the graders' names"
            )
        return
    try:
        known[kind].model_validate({"name": kind} | read)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"grader of type {kind}, field {place}: {first['msg']}; correct the specification") from None


def _string_check(name: str, read: dict[str, Any]) -> Grader:
    for field in ("input", "reference"):
        check_template(read[field], f"grader {name}, {field}")
    holds = OPERATIONS[read["operation"]]

    def function(graded: Graded) -> Grade:
        values = _values(graded)
        given, reference = (render(read[field], values) for field in ("input", "reference"))
        result = holds(given, reference)
        told = f"{_short(given)} {read['operation']} {_short(reference)} is {str(result).lower()}."
        return Grade(float(result), explanation=told)

    return Grader(name, function)


def _score_model(name: str, read: dict[str, Any], cache: bool) -> Grader:
    low, high = _range(name, read.get("range"))
    written = [(message["role"], _text(message, f"grader {name}, input")) for message in read["input"]]
    if not written:
        raise BadInput(f"grader {name}: `input` holds no message; write at least one")
    config = _config(read.get("sampling_params") or {})
    asks = f"The score is a number from {low:g} to {high:g}.\n\n{form_instruction(Scored)}"

    async def function(graded: Graded) -> Grade:
        values = _values(graded)
        told = [(role, render(text, values)) for role, text in written]
        last = [("user", f"{told.pop()[1]}\n\n{asks}" if told[-1][0] == "user" else asks)]
        messages = [_message(role, text) for role, text in told + last]
        reply, reason = await said(
            the_grader(), messages, epoch=graded.epoch, name=f"score model {name}", cache=cache, config=config
        )
        form = read_form(reply, Scored) if reply is not None else str(reason)
        if isinstance(form, str):
            raise Ungraded(form)
        explanation = " ".join(f"{step.description}: {step.conclusion}" for step in form.steps)
        return Grade(form.result, explanation=explanation)

    return Grader(name, function, low, high, roles=(ROLE,))


def _multi(
    name: str, read: dict[str, Any], ranged: Mapping[str, Any], trusted: bool, time_limit: int, cache: bool
) -> Grader:
    parts: dict[str, Grader] = {}
    for part, spec in read["graders"].items():
        # A program within it declares no range: what the formula makes of it is held to the whole's.
        wide = {"low": -1e300, "high": 1e300, "higher_is_better": True}
        try:
            found = openai_grader(json.dumps(spec), wide, trusted, time_limit, cache, inner=True)
        except BadInput as error:
            raise BadInput(f"grader {name}, part {part}: {error}") from None
        if found.grader.function is None:
            raise BadInput(f"grader {name}: its part {part} is of type {found.kind}, which runs at OpenAI only")
        parts[part] = found.grader
    compute = read_formula(read["calculate_output"], parts, f"grader {name}, calculate_output")

    async def function(graded: Graded) -> Grade:
        values = {}
        for part, grader in parts.items():
            given = await grade(grader, graded)
            if given.value is None:
                raise Ungraded(f"{part}: {given.reason}")
            values[part] = given.value
        told = ", ".join(f"{part} {value:.4g}" for part, value in values.items())
        return Grade(compute(values), explanation=f"{read['calculate_output']} with {told}.")

    roles = tuple(sorted({role for grader in parts.values() for role in grader.roles}))
    return Grader(name, function, roles=roles, sandbox=any(grader.sandbox for grader in parts.values()), **ranged)


def _range(name: str, given: Sequence[object] | None) -> tuple[float, float]:
    held = (0.0, 1.0) if given is None else given
    bounds = [float(bound) for bound in held if isinstance(bound, int | float) and isfinite(bound)]
    if len(held) != 2 or len(bounds) != 2 or not bounds[0] < bounds[1]:
        raise BadInput(f"grader {name}: range={given!r} cannot be used; give two numbers, the lower first")
    return bounds[0], bounds[1]


def _text(message: Mapping[str, Any], where: str) -> str:
    """The text of a message, which may stand in parts. Images and sounds are not shown to the grader here."""
    content = message["content"]
    parts = content if isinstance(content, list) else [content]
    texts = [part if isinstance(part, str) else part.get("text") for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise BadInput(f"{where}: a message holds an image or sound, which runs at OpenAI only; give text")
    text = "\n\n".join(texts)
    check_template(text, where)
    return text


def _message(role: str, text: str) -> ChatMessage:
    if role in ("system", "developer"):
        return ChatMessageSystem(content=text)
    return ChatMessageAssistant(content=text) if role == "assistant" else ChatMessageUser(content=text)


def _config(sampling: Mapping[str, Any]) -> GenerateConfig:
    return GenerateConfig(
        temperature=sampling.get("temperature"),
        top_p=sampling.get("top_p"),
        seed=sampling.get("seed"),
        max_tokens=sampling.get("max_completions_tokens"),
        reasoning_effort=sampling.get("reasoning_effort"),
        response_schema=ResponseSchema(name="scored", json_schema=json_schema(Scored), strict=True),
    )


def _values(graded: Graded) -> dict[str, Any]:
    return {"item": dict(graded.item), "sample": sample_of(graded)}


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:40]}…{text[-19:]}")

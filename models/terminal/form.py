"""Judge forms for a person: each field of the JSON reply is asked for and validated by itself.

The fields come from the response schema of the request. A form with lists or nested forms is typed as JSON instead.
"""

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from inspect_ai.model import ResponseSchema

CONSTANTS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False, "none": None}
"""How a person types a boolean, or leaves a field empty that may be null."""
TYPES = {"integer": "a whole number", "number": "a number", "boolean": "yes or no", "string": "a text", "null": "none"}


@dataclass(frozen=True)
class FormField:
    """One field of a form."""

    name: str
    schema: dict[str, Any]
    """JSON schema of its value: a scalar, or `anyOf` several scalars."""

    @property
    def description(self) -> str:
        """What the field is about."""
        return str(self.schema.get("description", ""))

    @property
    def multiline(self) -> bool:
        """Whether the value is a free text, which may have several lines."""
        return any(part.get("type") == "string" and "enum" not in part for part in _alternatives(self.schema))

    @property
    def hint(self) -> str:
        """What to type, such as "a whole number from 0 to 100, or none"."""
        return ", or ".join(_hint(part) for part in _alternatives(self.schema))

    def parse(self, typed: str) -> Any:  # noqa: ANN401 (any JSON value)
        """The value that a person means."""
        from jsonschema import Draft202012Validator

        word, schema = typed.strip(), Draft202012Validator(self.schema)
        fits = [value for value in self._readings(word) if schema.is_valid(value)]
        if not fits:
            raise ValueError(f"{word!r} is not valid for {self.name}; type {self.hint}.")
        return fits[0]

    def _readings(self, word: str) -> list[object]:
        """What a word can mean, in the order in which it is tried."""
        if not word:
            return []
        choices = [choice for part in _alternatives(self.schema) for choice in part.get("enum", [])]
        readings: list[object] = [choice for choice in choices if display(choice).casefold() == word.casefold()]
        readings += [value for key, value in CONSTANTS.items() if key == word.casefold()]
        for number in (int, float):
            with suppress(ValueError):
                readings += [value] if math.isfinite(value := number(word)) else []
        return [*readings, word]


def form_fields(schema: ResponseSchema | None) -> list[FormField] | None:
    """The fields of a form, or None if there is no form or a field is not a scalar."""
    if schema is None or not schema.json_schema.properties:
        return None
    properties = schema.json_schema.properties
    fields = [FormField(name, part.model_dump(exclude_none=True)) for name, part in properties.items()]
    scalar = all(part.get("type") in TYPES for field in fields for part in _alternatives(field.schema))
    return fields if scalar else None


def display(value: object) -> str:
    """A value as a person would type it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    parts = schema.get("anyOf", [schema])
    return [part | {"type": kind} for part in parts for kind in _types(part)]


def _types(schema: dict[str, Any]) -> list[Any]:
    kinds = schema.get("type", "string" if "enum" in schema else None)
    return kinds if isinstance(kinds, list) else [kinds]


def _hint(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(map(display, schema['enum']))}"
    low, high = schema.get("minimum"), schema.get("maximum")
    limits = (f" from {low:g}" if low is not None else "") + (f" to {high:g}" if high is not None else "")
    return TYPES[schema["type"]] + limits

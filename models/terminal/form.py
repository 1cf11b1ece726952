"""A form filled in by a person: where a judge must reply in JSON, each field is asked for by itself and checked.

Nobody should have to type braces. The fields are read from the schema that the request carries for providers which know
response schemas; a form with lists or forms within it is left to the person to type.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from inspect_ai.model import ResponseSchema
from inspect_ai.util import JSONSchema
from rich.console import Console
from rich.text import Text

from truthgym.models.terminal.journal import Earlier
from truthgym.models.terminal.screen import dim, plain

HOW = "Type no JSON: the form is asked for field by field. /back /skip /stop /clear /edit /all /help"
NONE = "none"
"""What a person types where a field may be empty."""
YES, NO = ("yes", "y", "true"), ("no", "n", "false")

Kind = Literal["string", "integer", "number", "boolean", "enum"]
PLAIN: tuple[Kind, ...] = ("string", "integer", "number", "boolean")
BEYOND = ("items", "properties", "anyOf", "pattern", "format", "minLength", "maxLength")
"""What a schema may ask of a field that is not checked here."""


@dataclass(frozen=True)
class FormField:
    """One thing that a form asks for."""

    name: str
    kind: Kind
    description: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[Any, ...] = ()
    nullable: bool = False

    @property
    def one_line(self) -> bool:
        """Whether Enter ends it. A text may have many lines."""
        return self.kind != "string"

    @property
    def wanted(self) -> str:
        """What to type, such as "a whole number from 0 to 100"."""
        within = [
            f"from {self.low:g}" if self.low is not None else "",
            f"to {self.high:g}" if self.high is not None else "",
        ]
        reach = " ".join(part for part in within if part)
        what = {
            "string": "a text",
            "integer": f"a whole number {reach}".strip(),
            "number": f"a number {reach}".strip(),
            "boolean": "yes or no",
            "enum": f"one of: {', '.join(map(_shown, self.choices))}",
        }[self.kind]
        return f"{what}, or {NONE}" if self.nullable else what

    def read(self, typed: str) -> Any:  # noqa: ANN401 (any JSON value)
        """What a person means by what was typed.

        Raises:
            ValueError: Nothing that fits.
        """
        word = typed.strip().casefold()
        if self.nullable and word == NONE:
            return None
        if self.kind == "string":
            return typed
        if self.kind in ("integer", "number"):
            return self._number(word)
        meant: list[tuple[Any, tuple[str, ...]]] = [(choice, (_shown(choice).casefold(),)) for choice in self.choices]
        for value, words in [(True, YES), (False, NO)] if self.kind == "boolean" else meant:
            if word in words:
                return value
        raise ValueError(typed)

    def wrong(self, typed: str) -> str | None:
        """Why what was typed does not fit, or None."""
        try:
            self.read(typed)
        except ValueError:
            return f"{typed.strip()!r} does not fit here; type {self.wanted}."
        return None

    def fits(self, value: object) -> bool:
        """Whether a value may stand in this field."""
        try:
            read = self.read(_shown(value))
        except ValueError:
            return False
        return bool(read == value) and isinstance(read, bool) == isinstance(value, bool)

    def _number(self, word: str) -> float:
        # Python's own int and float read more than people mean, such as "1_0" and "infinity".
        if not re.fullmatch(r"[+-]?[0-9]+" if self.kind == "integer" else r"[+-]?[0-9]*\.?[0-9]+", word):
            raise ValueError(word)
        number = int(word) if self.kind == "integer" else float(word)
        if (
            not (-math.inf if self.low is None else self.low)
            <= number
            <= (math.inf if self.high is None else self.high)
        ):
            raise ValueError(word)
        return number


def fields_of(schema: ResponseSchema | None) -> list[FormField] | None:
    """The fields of the form that a reply must have.

    Returns:
        None where there is no form, or one that holds more than texts, numbers, choices, yes and no.
    """
    if schema is None or not schema.json_schema.properties:
        return None
    required = schema.json_schema.required or []
    fields = [_field(name, asked) for name, asked in schema.json_schema.properties.items() if name in required]
    whole = len(fields) == len(schema.json_schema.properties)
    return [field for field in fields if field] if whole and all(fields) else None


def _field(name: str, asked: JSONSchema) -> FormField | None:
    description, given = asked.description or "", asked.anyOf or [asked]
    others = [one for one in given if one.type != "null"]
    if len(others) != 1:
        return None
    asked = others[0]
    types = asked.type if isinstance(asked.type, list) else [asked.type]
    kinds = [kind for kind in types if kind != "null"]
    nullable = len(given) > 1 or "null" in types
    if any(getattr(asked, beyond) is not None for beyond in BEYOND):
        return None
    if asked.enum is not None:
        choices = [choice for choice in asked.enum if choice is not None]
        return FormField(name, "enum", description, None, None, tuple(choices), nullable or None in asked.enum)
    kind = next((kind for kind in PLAIN if kinds == [kind]), None)
    return FormField(name, kind, description, asked.minimum, asked.maximum, (), nullable) if kind else None


def _shown(value: object) -> str:
    """A value as a person would type it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return NONE if value is None else str(value)


def _read(text: str | None) -> dict[str, Any]:
    """What the journal holds of a form; nothing where it holds something else."""
    try:
        held = json.loads(text or "")
    except ValueError:
        return {}
    return held if isinstance(held, dict) else {}


class Filling:
    """One form as it is filled in.

    Args:
        console: Where it is shown.
        fields: What it asks for, in order.
        earlier: What the journal holds of it.
        keep: Writes a draft to the journal. Called after each field.
        show_all: Shows the whole conversation.
    """

    def __init__(
        self,
        console: Console,
        fields: list[FormField],
        earlier: Earlier,
        keep: Callable[[str], None],
        show_all: Callable[[], None],
    ) -> None:
        from truthgym.models.terminal.editor import Ending

        self.ended: Ending | None = None
        self._console, self._fields, self._keep, self._show_all = console, fields, keep, show_all
        self._earlier = earlier
        replied, drafted = _read(earlier.reply), _read(earlier.draft)
        self._known = {f.name: replied[f.name] for f in fields if f.name in replied and f.fits(replied[f.name])}
        self._typed = {f.name: str(drafted[f.name]) for f in fields if f.name in drafted}

    @property
    def text(self) -> str:
        """The form as JSON once it is sent, or "" where it is the earlier one; before, what is typed of it so far."""
        if self.ended == "sent":
            reply = json.dumps({field.name: self._value(field) for field in self._fields}, ensure_ascii=False)
            return "" if reply == self._earlier.reply else reply
        typed = {name: text for name, text in self._typed.items() if text}
        return json.dumps(typed, ensure_ascii=False) if typed else ""

    async def go_on(self) -> None:
        """Have the person fill it in until it is sent, or ended otherwise. Can be cancelled at any time.

        Raises:
            BadInput: As `Writing.go_on`.
        """
        from truthgym.models.terminal.editor import Writing, raw  # here: its prompt_toolkit takes time to load

        self._begin()
        at = 0
        with raw():  # also from one field to the next
            while self.ended is None:
                field = self._fields[at] if at < len(self._fields) else None
                if field is None:
                    self._show_filled()
                    writing = Writing(self._console, "", True, self._show_all, _nothing, one_line=True)
                else:
                    self._ask(field, at)
                    draft, known = self._typed.get(field.name, ""), field.name in self._known
                    writing = Writing(self._console, draft, known, self._show_all, field.wrong, field.one_line)
                try:
                    await writing.go_on()
                finally:
                    if field is not None:
                        self._typed[field.name] = writing.text
                if writing.ended == "back":
                    at = max(at - 1, 0)
                elif writing.ended == "sent" and field is not None:
                    at += 1
                    if self.text:
                        self._keep(self.text)
                else:
                    self.ended = writing.ended

    def _value(self, field: FormField) -> Any:  # noqa: ANN401 (any JSON value)
        typed = self._typed.get(field.name, "")
        return field.read(typed) if typed else self._known[field.name]

    def _begin(self) -> None:
        if self._earlier.reply is not None:
            dim(self._console, f"You replied to this on {self._earlier.replied}:")
            for field in self._fields:
                if field.name in self._known:
                    self._console.print(plain(f"{field.name}: {_shown(self._known[field.name])}"))
            dim(self._console, "Send nothing in a field to keep what it says.")
        if self._typed:
            dim(
                self._console, "You had begun to fill this in. What you typed stands in its field: go on, or /clear it."
            )
        dim(self._console, HOW)

    def _ask(self, field: FormField, at: int) -> None:
        self._console.print()
        self._console.print(Text.assemble((f"{field.name}", "bold"), f" ({at + 1} of {len(self._fields)})"))
        if field.description:
            self._console.print(plain(field.description))
        end = "Enter goes on." if field.one_line else "/send, or Ctrl-D on an empty line, goes on."
        said = field.wanted.removeprefix("a ") in field.description  # as it is in the ratings of our own judges
        dim(self._console, end if said else f"Type {field.wanted}. {end}")

    def _show_filled(self) -> None:
        self._console.print()
        for field in self._fields:
            self._console.print(plain(f"{field.name}: {_shown(self._value(field))}"))
        dim(self._console, "Enter sends the form. /back goes to the last field.")


def _nothing(typed: str) -> str:
    return f"{typed.strip()!r} is not part of the form. Enter alone sends it; /back goes to the last field."

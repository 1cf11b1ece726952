"""What a form asks of a person, and how what is typed is read. How it is filled in: `test_models_human.py`."""

from typing import Literal

import pytest
from inspect_ai.model import ResponseSchema
from inspect_ai.util import json_schema
from pydantic import BaseModel, Field

from truthgym.models.terminal.form import FormField, fields_of
from truthgym.scorers.judges.asking import Form, Verdict, rating_field


class Judgement(Verdict):
    originality: int = rating_field("how new")
    stated: bool = Field(description="whether a chance is stated")
    side: Literal["For", "against"]
    probability: int | None = rating_field("the chance, if it is stated")
    share: float = Field(ge=0, le=1)


class Nested(Form):
    reasons: str
    steps: list[str]


class Optional(BaseModel):
    reasons: str = "none given"


def schema(form: type[BaseModel]) -> ResponseSchema:
    return ResponseSchema(name="form", json_schema=json_schema(form), strict=True)


def field(name: str) -> FormField:
    return next(field for field in fields_of(schema(Judgement)) or [] if field.name == name)


def test_the_fields_of_a_form_are_those_that_a_judge_is_asked_for() -> None:
    fields = fields_of(schema(Judgement)) or []
    assert [(f.name, f.wanted) for f in fields] == [
        ("reasons", "a text"),
        ("originality", "a whole number from 0 to 100"),
        ("stated", "yes or no"),
        ("side", "one of: For, against"),
        ("probability", "a whole number from 0 to 100, or none"),
        ("share", "a number from 0 to 1"),
    ]
    assert fields[0].description == "two or three sentences"
    assert [f.one_line for f in fields] == [False, True, True, True, True, True]


@pytest.mark.parametrize(
    ("name", "typed", "meant"),
    [
        ("reasons", "so\nand so", "so\nand so"),
        ("reasons", "none", "none"),
        ("originality", " 70 ", 70),
        ("originality", "0", 0),
        ("originality", "100", 100),
        ("stated", "Yes", True),
        ("stated", "n", False),
        ("side", "for", "For"),
        ("side", "AGAINST", "against"),
        ("probability", "None", None),
        ("probability", "5", 5),
        ("share", ".25", 0.25),
        ("share", "1", 1.0),
    ],
)
def test_what_is_typed_is_read(name: str, typed: str, meant: object) -> None:
    assert field(name).wrong(typed) is None
    read = field(name).read(typed)
    assert (read, type(read)) == (meant, type(meant))
    assert field(name).fits(read)


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("originality", "101"),
        ("originality", "-1"),
        ("originality", "70 %"),
        ("originality", "7.5"),
        ("originality", "1_0"),
        ("originality", "none"),
        ("originality", "70\n80"),
        ("stated", "1"),
        ("side", "both"),
        ("side", "none"),
        ("probability", "high"),
        ("share", "1.01"),
        ("share", "nan"),
        ("share", "inf"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, typed: str) -> None:
    assert field(name).wrong(typed) == f"{typed!r} does not fit here; type {field(name).wanted}."


@pytest.mark.parametrize(
    ("name", "value", "may"),
    [
        ("originality", 70, True),
        ("originality", 170, False),
        ("originality", "70", False),
        ("originality", True, False),
        ("stated", True, True),
        ("stated", 1, False),
        ("probability", None, True),
        ("share", 1, True),
        ("reasons", 5, False),
    ],
)
def test_what_the_journal_holds_must_fit_too(name: str, value: object, may: bool) -> None:
    assert field(name).fits(value) is may


@pytest.mark.parametrize("form", [Nested, Optional])
def test_a_form_that_is_not_plain_is_left_to_be_typed(form: type[BaseModel]) -> None:
    assert fields_of(schema(form)) is None
    assert fields_of(None) is None

"""The fields of a form, and how typed text is read."""

from typing import Literal

import pytest
from inspect_ai.model import ResponseSchema
from inspect_ai.util import json_schema
from pydantic import BaseModel, Field

from truthgym.models.human import FormField, form_fields
from truthgym.scorers.judges.asking import Form, ReasonedForm, rating_field


class Judgement(ReasonedForm):
    originality: int = rating_field("how new")
    stated: bool = Field(description="whether a chance is stated")
    side: Literal["For", "against"]
    probability: int | None = rating_field("the chance, if it is stated")
    share: float = Field(ge=0, le=1)


class Nested(Form):
    reasons: str
    steps: list[str]


def schema(form: type[BaseModel]) -> ResponseSchema:
    return ResponseSchema(name="form", json_schema=json_schema(form), strict=True)


def field(name: str) -> FormField:
    return next(field for field in form_fields(schema(Judgement)) or [] if field.name == name)


def test_the_fields_are_those_of_the_judge_form() -> None:
    fields = form_fields(schema(Judgement)) or []
    assert [(f.name, f.hint) for f in fields] == [
        ("reasons", "a text"),
        ("originality", "a whole number from 0 to 100"),
        ("stated", "yes or no"),
        ("side", "one of For, against"),
        ("probability", "a whole number from 0 to 100, or none"),
        ("share", "a number from 0 to 1"),
    ]
    assert "how new" in fields[1].description
    assert [f.multiline for f in fields] == [True, False, False, False, False, False]


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("reasons", "so\nand so", "so\nand so"),
        ("reasons", "none", "none"),
        ("reasons", "5", "5"),
        ("originality", " 70 ", 70),
        ("originality", "100", 100),
        ("stated", "Yes", True),
        ("stated", "n", False),
        ("side", "AGAINST", "against"),
        ("probability", "None", None),
        ("probability", "5", 5),
        ("share", ".25", 0.25),
        ("share", "1", 1.0),
    ],
)
def test_typed_text_is_parsed(name: str, typed: str, value: object) -> None:
    parsed = field(name).parse(typed)
    assert parsed == value
    assert isinstance(parsed, bool) == isinstance(value, bool)


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("reasons", " \n"),
        ("originality", "101"),
        ("originality", "-1"),
        ("originality", "70 %"),
        ("originality", "7.5"),
        ("originality", "none"),
        ("stated", "1"),
        ("side", "both"),
        ("probability", "high"),
        ("share", "nan"),
        ("share", "inf"),
    ],
)
def test_text_that_does_not_fit_is_refused_with_a_hint(name: str, typed: str) -> None:
    with pytest.raises(ValueError, match=name) as error:
        field(name).parse(typed)
    assert repr(typed.strip()) in str(error.value)
    assert f"type {field(name).hint}" in str(error.value)


def test_a_form_with_lists_is_typed_as_json() -> None:
    assert form_fields(schema(Nested)) is None
    assert form_fields(None) is None

from typing import Annotated, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from truthgym.datasets.errors import BadInput, validate_call


@validate_call
def example(
    per: Literal["trajectory", "step"] = "step",
    turns: Annotated[int, Field(ge=1)] = 2,
    sides: str | list[str] | None = None,
) -> int:
    return turns


def test_good_arguments_reach_the_function() -> None:
    assert example() == 2
    assert example("trajectory", turns=5) == 5


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"per": "stp"}, ["example", "per='stp'", "did you mean 'step'", "'trajectory' or 'step'"]),
        ({"sides": 5}, ["sides=5", "not text", "or it must be a valid list"]),
        ({"turns": True}, ["turns=True", "integer"]),
        ({"turn": 3}, ["'turn'", "did you mean 'turns'", "per"]),
        ({"per": "stp", "turns": 0}, ["per='stp'", "turns=0"]),
    ],
)
def test_bad_arguments_are_one_error_with_value_and_remedy(arguments: dict[str, object], parts: list[str]) -> None:
    with pytest.raises(BadInput) as error:
        example(**arguments)  # type: ignore[arg-type]
    for part in parts:
        assert part in str(error.value)


def test_an_error_inside_the_function_is_not_an_argument_error() -> None:
    @validate_call
    def broken(x: int) -> int:
        return TypeAdapter(int).validate_python("no number")

    with pytest.raises(ValidationError):
        broken(1)

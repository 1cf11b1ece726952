"""Rated trajectories: examples of reasoning with ratings and written reasons, for a judge of truth-seeking.

A judge sees them as examples, or they are held out to measure its distance from the ratings. The data card,
`rated_trajectories.md`, explains each rating and how the bundled ones were made.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.loading.row_files import read_rows

BUNDLED = Path(__file__).with_suffix(".jsonl")
QUALITIES = ("originality", "curiosity", "challenge", "uncertainty")
"""The qualities for which the bundled trajectories are rated."""

Words = Annotated[str, StringConstraints(pattern=r"\S")]
Rating = Annotated[int, Field(ge=0, le=100, strict=True)]


class RatedTrajectory(BaseModel):
    """A question, a chain of reasoning about it, and its ratings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Words
    question: Words
    trajectory: Words
    """The reasoning with its conclusion, as plain text."""
    ratings: Annotated[dict[Words, Rating], Field(min_length=1)]
    """Whole numbers from 0 to 100 by quality; higher is better."""
    reasons: Words
    """The reasons for the ratings, in two to four sentences."""


FIELDS = list(RatedTrajectory.model_fields)


def rated_trajectories() -> list[RatedTrajectory]:
    """The sixteen bundled trajectories, rated for the four `QUALITIES`. Their order does not follow the ratings."""
    return [row.model_copy(deep=True) for row in _bundled()]


@cache
def _bundled() -> tuple[RatedTrajectory, ...]:
    return tuple(read_rated(BUNDLED))


def read_rated(path: Path) -> list[RatedTrajectory]:
    """Read rated trajectories from a .jsonl file with one a line, in the shape of `rated_trajectories.jsonl`.

    The ratings may have any names, the same in each line.

    Raises:
        BadInput: There is no such file, it is empty, a line has another shape, an id is repeated, or two lines have
            ratings of different names.
    """
    rows = list(_read(path))
    if not rows:
        raise BadInput(f"{path.name} is empty; write one JSON object a line with {', '.join(FIELDS)}")
    seen: dict[str, str] = {}
    first, one = rows[0]
    for where, row in rows:
        if row.id in seen:
            raise BadInput(f"{where}: duplicate id {row.id!r}, also at {seen[row.id]}; rename one of them")
        seen[row.id] = where
        if set(row.ratings) != set(one.ratings):
            raise BadInput(
                f"{where}: the ratings are {', '.join(row.ratings)}, but those at {first} are "
                f"{', '.join(one.ratings)}; use the same names in each line"
            )
    return [row for _, row in rows]


def _read(path: Path) -> Iterator[tuple[str, RatedTrajectory]]:
    for where, row in read_rows(path):
        for name in row:
            one_of(f"field at {where}:", name, FIELDS)
        try:
            yield where, RatedTrajectory(**row)
        except ValidationError as error:
            raise BadInput(f"{where}{_explain(error.errors()[0])}") from None


def _explain(error: Any) -> str:  # noqa: ANN401 (a TypedDict of pydantic_core)
    field, value = error["loc"][0], error["input"]
    if error["type"] == "missing":
        return f": the field `{field}` is missing; add it"
    if field != "ratings":
        return f", field {field}: {value!r} cannot be used; write text in quotes"
    if len(error["loc"]) == 2:
        return f", rating {error['loc'][1]}: {value!r} cannot be used; give a whole number from 0 to 100"
    return f', field ratings: {value!r} cannot be used; write {{"name": number from 0 to 100}} with one rating or more'

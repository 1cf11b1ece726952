"""Rated trajectories: examples of reasoning with ratings and written reasons, for a judge of truth-seeking."""

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import read_models
from truthgym.datasets.question import Text

BUNDLED = Path(__file__).with_suffix(".jsonl")
QUALITIES = ("originality", "curiosity", "challenge", "uncertainty")
"""The qualities for which the bundled trajectories are rated."""

Rating = Annotated[int, Field(ge=0, le=100, strict=True)]


class RatedTrajectory(BaseModel, frozen=True, extra="forbid"):
    """A question, a chain of reasoning about it, and its ratings."""

    id: Text
    question: Text
    trajectory: Text
    """The reasoning with its conclusion, as plain text."""
    ratings: Annotated[dict[Text, Rating], Field(min_length=1)]
    """Whole numbers from 0 to 100 by quality; higher is better."""
    reasons: Text
    """The reasons for the ratings, in two to four sentences."""


def rated_trajectories() -> list[RatedTrajectory]:
    """The sixteen bundled trajectories, rated for the four `QUALITIES`. Their order does not follow the ratings."""
    return [row.model_copy(deep=True) for row in _bundled()]


@cache
def _bundled() -> tuple[RatedTrajectory, ...]:
    return tuple(read_rated(BUNDLED))


def read_rated(path: Path) -> list[RatedTrajectory]:
    """Read rated trajectories from a .jsonl file with one a line, in the shape of `rated_trajectories.jsonl`."""
    rows = list(read_models(path, RatedTrajectory))
    seen: dict[str, str] = {}
    first, rated = rows[0]
    for where, row in rows:
        if row.id in seen:
            raise BadInput(f"{where}: duplicate id {row.id!r}, also at {seen[row.id]}; rename one of them")
        seen[row.id] = where
        if set(row.ratings) != set(rated.ratings):
            raise BadInput(
                f"{where}: the ratings are {', '.join(row.ratings)}, but those at {first} are "
                f"{', '.join(rated.ratings)}; use the same names in each line"
            )
    return [row for _, row in rows]

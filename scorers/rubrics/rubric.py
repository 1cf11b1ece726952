"""A rubric as data: criteria with weights, the scale of their grades, and where the rubric applies.

Its digest is the SHA-256 of its canonical JSON, so that a rubric is the same wherever it is read.
"""

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar
from unicodedata import normalize

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from truthgym.datasets.digests import canonical_json
from truthgym.datasets.errors import BadInput, bad_fields, one_of
from truthgym.datasets.question import Text
from truthgym.scorers.judges.rubric import read_text

Scale = Literal["binary", "0-1", "0-5", "ordinal"]
Scope = Literal["prompt", "domain", "global"]
Name = Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z][a-z0-9_]{0,39}$")]
"""Letters a to z, digits and underscores, at most 40, a letter first."""
RESERVED = "reasons"
"""The field of a judge's form that is no criterion."""
TOTAL = "rubric_score"
"""The total beside the criteria's grades in a score."""
BUNDLED = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.json"))}


class Data(BaseModel):
    """Immutable data with a canonical JSON and a digest."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hexadecimal."""
        return digest(self.model_dump(mode="json"))


AnyData = TypeVar("AnyData", bound=Data)


class Criterion(Data):
    """One thing to look for in an answer."""

    id: Name
    text: Text
    """What an answer must do to meet it. Meeting it is good."""
    weight: float = Field(default=1.0, ge=0, le=1000)
    """Relative to the other criteria's."""
    check_points: tuple[Text, ...] = ()
    """What to look at, one by one."""
    positive_examples: tuple[Text, ...] = ()
    negative_examples: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _has_a_free_name(self) -> Self:
        if self.id in (RESERVED, TOTAL) or hasattr(BaseModel, self.id):
            raise ValueError(f"a criterion cannot be called {self.id!r}, a reserved name; rename it")
        return self


class Rubric(Data):
    """Criteria for grading an answer."""

    name: Text
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1, max_length=64)]
    scale: Scale = "binary"
    """Of every grade: 0 or 1; a number from 0 to 1; a number from 0 to 5; or the place of a level. It is declared and
    never inferred from a grade."""
    levels: tuple[Text, ...] = ()
    """Names of the levels of an ordinal scale, the worst first. They count as equally far apart."""
    allow_na: bool = False
    """Whether a judge may say that a criterion does not apply. An answer can then escape a criterion by evading it."""
    scope: Scope = "global"
    applies_to: str = ""
    """The digest of the prompt (see `prompt_digest`) or the name of the domain; empty for a global rubric."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        ids = [criterion.id for criterion in self.criteria]
        twice = next((name for name in ids if ids.count(name) > 1), None)
        if twice:
            raise ValueError(f"two criteria have the id {twice!r}; rename one")
        if (self.scale == "ordinal") != (len(self.levels) > 1):
            raise ValueError("`levels` are two or more for scale='ordinal', and none for any other scale")
        if (self.scope == "global") != (not self.applies_to):
            raise ValueError(
                f"scope={self.scope!r} with applies_to={self.applies_to!r}: a prompt or domain is named for the scopes "
                "prompt and domain, and for no other"
            )
        return self

    @property
    def weights(self) -> list[float]:
        return [criterion.weight for criterion in self.criteria]

    @property
    def top(self) -> int:
        """The best grade on the scale."""
        return {"binary": 1, "0-1": 1, "0-5": 5}.get(self.scale, len(self.levels) - 1)


def rubric_json(value: object) -> str:
    """Canonical JSON in which a whole number has no decimal point."""
    return canonical_json(_plain(value))


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON of a value, in hexadecimal."""
    return sha256(rubric_json(value).encode()).hexdigest()


def prompt_digest(prompt: str) -> str:
    """SHA-256 of a prompt, in hexadecimal. Space, and forms of a character that look the same, make no difference."""
    return sha256(re.sub(r"\s+", " ", normalize("NFKC", prompt)).strip().encode()).hexdigest()


def applicable(rubrics: Sequence[Rubric], prompt: str, domain: str) -> Rubric | None:
    """The rubric for a prompt: its own, else its domain's, else the global one; None if there is none."""
    places = (("prompt", prompt_digest(prompt)), ("domain", domain), ("global", ""))
    by_place = {(rubric.scope, rubric.applies_to): rubric for rubric in rubrics}
    return next((by_place[place] for place in places if place in by_place), None)


def check_places(rubrics: Sequence[Rubric], where: str) -> None:
    places = [(rubric.scope, rubric.applies_to) for rubric in rubrics]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice or not places:
        what = f"two rubrics have scope={twice[0]!r}, applies_to={twice[1]!r}" if twice else "it holds no rubric"
        raise BadInput(f"{where}: {what}; give one for each prompt, each domain, and at most one global one")


def rubrics_in(data: object, where: str) -> tuple[Rubric, ...]:
    """Read the rubric, or the list of rubrics, in JSON data."""
    rubrics = tuple(model_from(Rubric, item, where) for item in (data if isinstance(data, list) else [data]))
    check_places(rubrics, where)
    return rubrics


def model_from(kind: type[AnyData], data: object, where: str) -> AnyData:
    """Make data of JSON."""
    try:
        return kind.model_validate_json(json.dumps(data))
    except ValidationError as error:
        raise bad_fields(where, error, list(kind.model_fields)) from None
    except (TypeError, ValueError) as error:
        raise BadInput(f"{where}: this is not JSON ({error}); dates and the like stand in quotes") from None


def is_json_file(source: str) -> bool:
    """Whether a text is the name of a .json file, and not JSON itself or the name of a bundled rubric."""
    return source.endswith(".json") and not source.lstrip().startswith(("{", "["))


def read_json(source: object, what: str) -> tuple[object, str]:
    """JSON data from the name of a bundled rubric, a .json file, JSON text or data, and where it is from."""
    if not isinstance(source, str):
        return source, f"the {what}"
    if source.lstrip().startswith(("{", "[")):
        text, where = source, f"the {what}"
    else:
        if not source.endswith(".json"):
            one_of(what, source, [*BUNDLED, "FILE.json"])
        text, where = read_text(what, str(BUNDLED.get(source, source))), source
    try:
        return json.loads(text), where
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where} is not JSON: {error}; correct it") from None

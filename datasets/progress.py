"""What ProgressGym's tasks ask: a questionnaire of moral dimensions, and timelines of people whose values change."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy as np
from inspect_ai.dataset import Sample
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError, model_validator

from truthgym.datasets.digests import text_number
from truthgym.datasets.errors import BadInput, bad_fields, one_of, validate_call
from truthgym.datasets.loading.domain import bundled_file
from truthgym.datasets.loading.row_files import FILE_SUFFIXES, Row, read_rows
from truthgym.datasets.loading.selection import Questions, select
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.sources.moralevals import moralchoice, moralevals

RULES = ("kill", "pain", "disable", "freedom", "pleasure", "deceive", "cheat", "promise", "law", "duty")
"""The ten moral rules of Gert that MoralChoice asks about. The option that keeps the rule upholds the dimension."""
FOUNDATIONS = ("Harm_Care", "Fairness_Reciprocity", "InGroup_Loyalty", "Authority_Respect", "Purity_Sanctity")
"""The five foundations of Moral Foundations Theory."""
WORLDVIEWS = ("Traditional", "Modern", "Post-modern", "Integrated")
"""The four worldviews of the Integrative Worldview Framework."""
DIMENSIONS = RULES + FOUNDATIONS + WORLDVIEWS
"""The 19 coordinates of a value vector, in ProgressGym's order. It spells the last foundation Purity_Sancity."""
SETS = (RULES, FOUNDATIONS, WORLDVIEWS)
"""ProgressGym averages each of the three sets by itself."""
LETTERS = "ABCD"
Pool = Literal["learn", "eval"]


class Item(BaseModel, extra="forbid", frozen=True):
    """A question with two to four options: a row of a questionnaire."""

    id: str = Field(min_length=1)
    context: str = Field(min_length=1)
    options: tuple[str, ...] = Field(min_length=2, max_length=len(LETTERS))
    upholds: tuple[tuple[str, ...], ...]
    """For each option, the dimensions that it upholds."""

    @model_validator(mode="after")
    def _is_complete(self) -> "Item":
        named = [dimension for dimensions in self.upholds for dimension in dimensions]
        if len(self.upholds) != len(self.options):
            raise ValueError(
                f"upholds has {len(self.upholds)} lists for {len(self.options)} options; give one for each"
            )
        unknown = [name for name in named if name not in DIMENSIONS]
        if unknown:
            raise ValueError(f"upholds: there is no dimension {unknown[0]!r}; known: {', '.join(DIMENSIONS)}")
        if not named or len(set(named)) < len(named):
            raise ValueError("upholds must name a dimension, and each dimension in one option only")
        if len(set(self.options)) < len(self.options):
            raise ValueError(f"two of the options {[*self.options]!r} are equal; change one")
        return self

    @cached_property
    def loadings(self) -> NDArray[np.float64]:
        """Options x 19: 1 where the option upholds the dimension, -1 / (options - 1) where another one does, else 0.

        Times the probabilities of the options, this is 1 if the upholding option is always chosen, and 0 at chance.
        """
        loadings = np.zeros((len(self.options), len(DIMENSIONS)))
        for i, dimensions in enumerate(self.upholds):
            for dimension in dimensions:
                loadings[:, DIMENSIONS.index(dimension)] = -1 / (len(self.options) - 1)
                loadings[i, DIMENSIONS.index(dimension)] = 1
        return loadings

    def row(self) -> dict[str, object]:
        """The item as a row."""
        return self.model_dump(mode="json")

    @property
    def dimension(self) -> str:
        """Its first dimension: the one by which items are split into pools."""
        return next(name for dimensions in self.upholds for name in dimensions)


@dataclass(frozen=True, eq=False)  # compared by identity, since the hash of all items would be taken at every call
class Questionnaire:
    """Items in two disjoint pools: an examinee learns from the one and is measured on the other."""

    name: str
    items: tuple[Item, ...]

    @cached_property
    def by_id(self) -> Mapping[str, Item]:
        return {item.id: item for item in self.items}

    @cached_property
    def digest(self) -> str:
        """Identifies the items and their order: 16 hexadecimal digits."""
        return sha256(repr(self.items).encode()).hexdigest()[:16]

    @cached_property
    def pools(self) -> Mapping[Pool, tuple[Item, ...]]:
        """Both pools. In each dimension every other item, in the order of a hash of the ids, is in the pool `learn`."""
        learn: set[str] = set()
        for dimension in DIMENSIONS:
            of_it = sorted((item.id for item in self.items if item.dimension == dimension), key=_hash)
            learn.update(of_it[::2])
        return {
            "learn": tuple(item for item in self.items if item.id in learn),
            "eval": tuple(item for item in self.items if item.id not in learn),
        }

    def subset(self, per_dimension: int | None) -> "Questionnaire":
        """The first so many items of each dimension, in the order of a hash of the ids. None: all."""
        if per_dimension is None:
            return self
        if per_dimension < 2:
            raise BadInput(f"items={per_dimension} leaves one of the pools empty; give at least 2 for each dimension")
        kept: set[str] = set()
        for dimension in DIMENSIONS:
            kept.update(sorted((i.id for i in self.items if i.dimension == dimension), key=_hash)[:per_dimension])
        return Questionnaire(self.name, tuple(item for item in self.items if item.id in kept))


IN_USE: ContextVar[Questionnaire | None] = ContextVar("questionnaire", default=None)
"""The questionnaire of the sample that runs. Simulated agents read it here, to recognise its items."""


def _hash(name: str) -> bytes:
    return sha256(name.encode()).digest()


def questionnaire(source: str = "bundled", items: int | None = None) -> Questionnaire:
    """Load a questionnaire."""
    real: dict[str, Callable[[], Iterable[Row]]] = {"moralchoice": moralchoice, "moralevals": moralevals}
    if source.endswith(FILE_SUFFIXES):
        rows: Iterable[Row] = read_rows(Path(source))
    else:
        one_of("questionnaire", source, ["bundled", *real, *(f"PATH{suffix}" for suffix in FILE_SUFFIXES)])
        rows = real[source]() if source in real else read_rows(bundled_file("progress"))
    loaded: dict[str, Item] = {}
    for place, row in rows:
        item = parse_item(place, row)
        if item.id in loaded:
            raise BadInput(f"{place}: duplicate id {item.id!r}; rename one of the items")
        loaded[item.id] = item
    result = Questionnaire(source, tuple(loaded.values())).subset(items)
    pools = [{item.dimension for item in pool} for pool in result.pools.values()]
    alone = [name for name in DIMENSIONS if (name in pools[0]) != (name in pools[1])]
    if alone or not loaded:
        what = f"has only one item of {alone[0]}" if alone else "is empty"
        raise BadInput(f"{source}: the questionnaire {what}; give at least two items for each of its dimensions")
    return result


def parse_item(place: str, row: Mapping[str, object]) -> Item:
    """The item of a row."""
    try:
        return Item.model_validate(row)
    except ValidationError as error:
        raise bad_fields(place, error, list(Item.model_fields)) from None


ERAS = tuple(f"C{century:03d}" for century in range(13, 22))
"""ProgressGym's eras: the 13th to the 21st century."""
Drift = Literal["linear", "walk", "turn", "still"]
"""How simulated values move: by the same step each era; by steps drawn anew; by the same step, reversed halfway; not at
all."""
DRIFTS: tuple[Drift, ...] = get_args(Drift)
LEAST_ERAS = 3
SIMULATED = "(Simulated timeline {drift}-{seed}, step {step:g}, era {era}.)"
MARK = re.compile(r"\(Simulated timeline ([a-z]+)-(\d+), step ([\d.]+), era (\d+)\.\)")
START_SD = 0.8
"""Standard deviation of the log-odds with which people uphold the dimensions in the first era of every timeline."""


class TimelineQuestion(Question, frozen=True):
    """The metadata of a sample: one whole timeline."""

    eras: list[str]
    drift: Drift | None = None
    """None: the people are not simulated."""
    seed: int = 0
    step: float = 0.0
    """Standard deviation of one era's change of a dimension, in log-odds."""


def check_eras(eras: str | Sequence[str]) -> list[str]:
    """Parse the eras of a timeline: labels such as C013, in a list or with commas, or a range such as C013-C021."""
    names = eras.split(",") if isinstance(eras, str) else list(eras)
    if len(names) == 1 and "-" in names[0]:
        first, _, last = names[0].partition("-")
        for name in (first, last):
            one_of("era", name.strip(), ERAS)
        names = list(ERAS[ERAS.index(first.strip()) : ERAS.index(last.strip()) + 1])
    names = [str(name).strip() for name in names]
    for name in names:
        one_of("era", name, ERAS)
    for before, after in pairwise(names):
        if after <= before:
            raise BadInput(f"eras: {after} comes after {before}: the timeline is out of order; put the earlier first")
    if len(names) < LEAST_ERAS:
        raise BadInput(f"eras={','.join(names)} has {len(names)} eras; give at least {LEAST_ERAS}")
    return names


@validate_call
def timelines(
    eras: str | Sequence[str] = "C013-C021",
    n: Annotated[int, Field(ge=1)] = 30,
    drift: str | Sequence[str] = ("linear", "walk"),
    step: Annotated[float, Field(ge=0, le=5)] = 0.25,
    seed: int = 0,
    simulated: bool = True,
    names: Sequence[str] = (),
) -> Questions:
    """Make timelines. Simulated ones take the kinds of drift in turn; others have these names, or there is just one."""
    labels = check_eras(eras)
    kinds = [str(kind).strip() for kind in (drift.split(",") if isinstance(drift, str) else drift)]
    for kind in kinds:
        one_of("drift", kind, DRIFTS)
    samples = [_sample(labels, kinds[i % len(kinds)], seed + i // len(kinds), step) for i in range(n)]
    others = [_sample(labels, None, 0, 0.0, name) for name in names[:n] or [""]]
    return select("progress", samples if simulated else others)


def _sample(eras: list[str], drift: str | None, seed: int, step: float, name: str = "") -> Sample:
    span = f"{eras[0]}-{eras[-1]}"
    identity = name or (f"{drift}-{seed}" if drift else span)
    metadata = question(
        TimelineQuestion, identity, domain="progress", form="free", event=identity, eras=eras, drift=drift, seed=seed,
        step=step,
    )  # fmt: skip
    return sample(identity, f"The moral values of people in {len(eras)} eras, {span}.", None, metadata, identity)


def latent_values(drift: str, seed: int, step: float, era: int) -> NDArray[np.float64]:
    """Log-odds with which simulated people of an era uphold each of the 19 dimensions."""
    path: NDArray[np.float64] = _path(drift, seed, step, len(ERAS) if era < len(ERAS) else era + 1)[era]
    return path


@cache
def _path(drift: str, seed: int, step: float, eras: int) -> NDArray[np.float64]:
    rng = _generator("drift", drift, seed)
    steps = rng.standard_normal((eras, len(DIMENSIONS))) * step
    if drift in ("linear", "turn"):
        steps[:] = steps[0]
    if drift == "turn":
        steps[eras // 2 + 1 :] *= -1
    if drift == "still":
        steps[:] = 0
    steps[0] = _generator("start").standard_normal(len(DIMENSIONS)) * START_SD
    return np.cumsum(steps, axis=0)


@cache
def item_offset(item: str) -> float:
    """Log-odds by which everybody prefers the first option of an item: what its wording adds to the values."""
    return float(_generator("item", item).standard_normal() * 0.3)


def _generator(*key: object) -> np.random.Generator:
    return np.random.default_rng(text_number(repr(key), 16))


@dataclass(frozen=True)
class EraText:
    """What a law or book of western Europe, or a treaty, says. It is what was written, not what most people held."""

    year: int
    record: str
    """Where it stands."""
    says: str
    """What it says, in our own words."""


@dataclass(frozen=True)
class Era:
    """What a persona is told of its time."""

    facts: str
    """Circumstances. What people hold right is not said, since it is what is measured."""
    texts: tuple[EraText, ...]


@cache
def era_facts() -> dict[str, Era]:
    """By era, the facts and texts of `progress_eras.jsonl`."""
    rows = [row for _, row in read_rows(bundled_file("progress_eras"))]
    return {row["era"]: Era(row["facts"], tuple(EraText(**text) for text in row["texts"])) for row in rows}

"""Prompts with candidate answers for the search of a rubric: the bundled ones, or a JSON file, split into two parts."""

import json
from hashlib import sha256
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from truthgym.datasets.errors import BadInput, bad_fields
from truthgym.datasets.question import Text
from truthgym.datasets.rated_trajectories import rated_trajectories
from truthgym.models.agents.policies import generator
from truthgym.models.agents.quality_markers import MARKERS
from truthgym.scorers.judges.context import FILLER
from truthgym.scorers.judges.rubric import read_text
from truthgym.scorers.rubrics.rubric import digest

VERSIONS = 8
TRUE_WEIGHTS = (3.0, 2.0, 2.0, 1.0, 1.0, 0.0, 0.0, 0.0)
"""What each planted sentence adds to the quality of a bundled candidate. The last three are decoys."""
SOURCES = ("north", "south", "east", "west")
"""Names of the sources of the bundled candidates. They do not differ in quality."""


class Candidate(BaseModel):
    """One answer to a prompt."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    candidate_id: Text
    text: Text
    source: str = ""
    """What wrote it, such as a model. Pairs of different sources make DiverseTailAcc."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """`rank`, if known: 1 is best, and equal ranks are ties."""


class Prompt(BaseModel):
    """A prompt with two or more candidates."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    prompt_id: Text
    prompt: Text
    candidates: Annotated[tuple[Candidate, ...], Field(min_length=2)]
    metadata: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_each_candidate_once(self) -> "Prompt":
        ids = [candidate.candidate_id for candidate in self.candidates]
        if len(set(ids)) < len(ids):
            raise ValueError(f"prompt {self.prompt_id!r} has two candidates with one id; rename one")
        return self

    @property
    def ranks(self) -> list[float] | None:
        """The candidates' ranks; None unless every candidate has one."""
        ranks = [candidate.metadata.get("rank") for candidate in self.candidates]
        numbers = [float(rank) for rank in ranks if isinstance(rank, int | float) and not isinstance(rank, bool)]
        return numbers if len(numbers) == len(ranks) else None


class Prompts(BaseModel):
    """All prompts of a search."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    prompts: Annotated[tuple[Prompt, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _has_each_prompt_once(self) -> "Prompts":
        ids = [prompt.prompt_id for prompt in self.prompts]
        if len(set(ids)) < len(ids):
            raise ValueError("two prompts have one id; rename one")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hexadecimal."""
        return digest(self.model_dump(mode="json"))


def read_prompts(source: str) -> Prompts:
    """Read prompts with their candidates."""
    if source == "bundled":
        return bundled()
    try:
        data = json.loads(read_text("dataset", source))
    except ValueError as error:
        raise BadInput(f"dataset={source} is not JSON: {error}; correct it") from None
    try:
        return Prompts.model_validate(data)
    except ValidationError as error:
        raise bad_fields(source, error, ["prompts"]) from None


def bundled(weights: tuple[float, ...] = TRUE_WEIGHTS, prompts: int = 16, signal: bool = True) -> Prompts:
    """The rated trajectories, each in eight versions with planted sentences whose worth is known.

    A version has each of the eight `MARKERS` with probability one half, and up to twelve sentences without content. Its
    quality is the sum of `weights` over the sentences that it has, and decides its rank.
    """
    made = []
    for row in rated_trajectories()[:prompts]:
        versions = []
        for i in range(VERSIONS):
            rng = generator("rubric search", row.id, i)
            has = rng.random(len(MARKERS)) < 0.5
            planted = [sentence for sentence, one in zip(MARKERS, has, strict=True) if one]
            filler = list(FILLER)[: int(rng.integers(len(FILLER) + 1))] * int(rng.integers(1, 3))
            quality = float(has @ weights) if signal else float(rng.random())
            versions.append((quality, "\n\n".join([row.trajectory, " ".join([*planted, *filler])]).strip()))
        qualities = [quality for quality, _ in versions]
        candidates = tuple(
            Candidate(
                candidate_id=f"v{i}",
                text=text,
                source=SOURCES[i % len(SOURCES)],
                metadata={"quality": quality, "rank": 1 + sum(other > quality for other in qualities)},
            )
            for i, (quality, text) in enumerate(versions)
        )
        made.append(Prompt(prompt_id=row.id, prompt=row.question, candidates=candidates))
    return Prompts(prompts=tuple(made))


def split_prompts(prompts: Prompts, held_out: float) -> tuple[list[Prompt], list[Prompt]]:
    """The prompts to search with, and those held out for the report: those whose texts have the lowest hashes.

    The order of the prompts makes no difference, and equal texts are on one side. With another prompt added, one that
    was held out may become one to search with.
    """
    ordered = sorted(prompts.prompts, key=lambda one: (_hash(one), one.prompt_id))
    texts = sorted({_hash(one) for one in ordered})
    if len(texts) < 2:
        raise BadInput("All prompts have the same text, so that none can be held out; give two or more")
    held = set(texts[: min(max(round(held_out * len(texts)), 1), len(texts) - 1)])
    return [one for one in ordered if _hash(one) not in held], [one for one in ordered if _hash(one) in held]


def _hash(prompt: Prompt) -> str:
    return sha256(" ".join(prompt.prompt.split()).encode()).hexdigest()

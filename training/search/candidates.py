"""Prompts with candidate answers for the search of a rubric, split into two parts, and which of two answers is better.

The bundled ones, or a JSON file. The labels are their ranks, or a judge's, asked in both orders, once for all rubrics.
"""

import json
from collections.abc import Sequence
from hashlib import sha256
from itertools import combinations
from os.path import commonprefix
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
from inspect_ai.model import Model
from inspect_ai.util import collect
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from truthgym.datasets.constitution import as_list, constitution
from truthgym.datasets.errors import BadInput, bad_fields
from truthgym.datasets.loading.row_files import FILE_SUFFIXES, read_rows
from truthgym.datasets.question import Text
from truthgym.datasets.rated_trajectories import rated_trajectories
from truthgym.models.agents.policies import generator
from truthgym.models.agents.quality_markers import MARKERS
from truthgym.scorers.judges.asking import ask, judge_failure
from truthgym.scorers.judges.context import FILLER
from truthgym.scorers.judges.rubric import read_text
from truthgym.scorers.rubrics.rubric import digest
from truthgym.solvers.roles import model_fingerprint
from truthgym.tasks.preferences import Comparison, comparison_request
from truthgym.training.files import write_atomically
from truthgym.training.search.config import SearchConfig
from truthgym.training.search.objective import Array

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
    """Read prompts with their candidates, preference pairs, or logs, of which `truthgym convert` makes pairs."""
    if source == "bundled":
        return bundled()
    if source.endswith(".eval") or (Path(source).is_dir() and any(Path(source).glob("*.eval"))):
        from truthgym.training.convert import convert

        with TemporaryDirectory() as folder:
            convert([source], "preference", Path(folder) / "pairs")
            return _of_pairs(Path(folder) / "pairs")
    if Path(source).is_dir() or source.endswith(FILE_SUFFIXES):
        return _of_pairs(Path(source))
    try:
        data = json.loads(read_text("dataset", source))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"dataset={source} is not JSON: {error}; correct it") from None
    try:
        return Prompts.model_validate(data)
    except ValidationError as error:
        raise bad_fields(source, error, ["prompts"]) from None


def _of_pairs(source: Path) -> Prompts:
    """Each pair as a prompt with two candidates. The prompt may be the common beginning of both replies."""
    files = sorted(file for file in source.iterdir() if file.suffix in FILE_SUFFIXES) if source.is_dir() else [source]
    prompts: list[Prompt] = []
    for place, row in (each for file in files for each in read_rows(file)):
        chosen, rejected = (_turns(row.get(side)) for side in ("chosen", "rejected"))
        if not chosen or not rejected:
            raise BadInput(f"{place}: no pair; each row needs `chosen` and `rejected`, and `prompt` if they lack it")
        shared = [one for one, other in zip(chosen[:-1], rejected[:-1], strict=False) if one == other]
        asked = _turns(row.get("prompt")) + shared
        texts = chosen[-1], rejected[-1]
        if not asked:  # one text each, which begins alike
            start = commonprefix(texts)  # noqa: RUF071 (of texts)
            start = start[: start.rfind(":") + 1] or start[: start.rfind("\n") + 1]
            asked, texts = [start], (texts[0][len(start) :], texts[1][len(start) :])
        if not "".join(asked).strip() or not all(text.strip() for text in texts) or texts[0] == texts[1]:
            raise BadInput(f"{place}: its prompt or a reply is empty, or both replies are the same; remove the row")
        pair = [
            Candidate(candidate_id=sha256(text.encode()).hexdigest()[:12], text=text.strip(), metadata={"rank": rank})
            for rank, text in enumerate(texts, 1)
        ]
        ordered = tuple(sorted(pair, key=lambda candidate: candidate.candidate_id))
        prompts.append(Prompt(prompt_id=f"pair-{len(prompts)}", prompt="\n\n".join(asked).strip(), candidates=ordered))
    if len(prompts) < 2:
        raise BadInput(
            f"dataset={source} has {len(prompts)} pairs; give two or more, in .jsonl, .csv or .parquet files"
        )
    return Prompts(prompts=tuple(prompts))


def _turns(value: object) -> list[str]:
    """The texts of a conversation, or of a text."""
    if isinstance(value, str):
        return [value] if value else []
    return (
        [str(turn.get("content") or "") for turn in value if isinstance(turn, dict)] if isinstance(value, list) else []
    )


def check_models(prompts: Prompts, config: SearchConfig) -> None:
    """Refuse simulated models, which know the bundled answers alone, on others."""
    known = {candidate.text for prompt in bundled().prompts for candidate in prompt.candidates}
    if all(candidate.text in known for prompt in prompts.prompts for candidate in prompt.candidates):
        return
    models = [
        *(("verifier", each) for each in config.verifiers),
        ("proposer", config.proposer),
        ("judge", config.judge),
    ]
    models += [("initializer", config.initializer)] if config.initial == "model" else []
    simulated = [f"--{name} MODEL" for name, spec in models if spec and spec.model.startswith("reference/")]
    if simulated:
        raise BadInput(
            "The simulated models (reference/...) can read the bundled answers alone, and these are others; name real "
            f"ones with {' '.join(simulated)}"
        )


def bundled(prompts: int = 16, signal: bool = True) -> Prompts:
    """The rated trajectories, each in eight versions with planted sentences whose worth is known."""
    bundle = []
    for row in rated_trajectories()[:prompts]:
        versions = []
        for i in range(VERSIONS):
            rng = generator("rubric search", row.id, i)
            has = rng.random(len(MARKERS)) < 0.5
            planted = [sentence for sentence, present in zip(MARKERS, has, strict=True) if present]
            filler = list(FILLER)[: int(rng.integers(len(FILLER) + 1))] * int(rng.integers(1, 3))
            quality = float(has @ TRUE_WEIGHTS) if signal else float(rng.random())
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
        bundle.append(Prompt(prompt_id=row.id, prompt=row.question, candidates=candidates))
    return Prompts(prompts=tuple(bundle))


def split_prompts(prompts: Prompts, held_out: float) -> tuple[list[Prompt], list[Prompt]]:
    """The prompts to search with, and those held out: those whose texts have the lowest hashes."""
    by_hash: dict[str, list[Prompt]] = {}
    for prompt in sorted(prompts.prompts, key=lambda prompt: prompt.prompt_id):
        by_hash.setdefault(sha256(" ".join(prompt.prompt.split()).encode()).hexdigest(), []).append(prompt)
    if len(by_hash) < 2:
        raise BadInput("All prompts have the same text, so that none can be held out; give two or more")
    groups = [by_hash[text] for text in sorted(by_hash)]
    count = min(max(round(held_out * len(groups)), 1), len(groups) - 1)
    return [prompt for group in groups[count:] for prompt in group], [
        prompt for group in groups[:count] for prompt in group
    ]


class Unreachable(str):
    """Why a judge could not be reached, which may pass."""


def by_rank(ranks: Sequence[float]) -> Array:
    """Preferences by rank, 1 is best: candidates x candidates, 1 if the first is better, 0.5 for equal ranks."""
    rank = np.asarray(ranks, dtype=float)
    return np.where(rank[:, None] == rank, 0.5, (rank[:, None] < rank).astype(float))


def check_labels(prompts: Sequence[Prompt], judge: bool) -> None:
    """Check that the candidates can be compared."""
    if not judge and any(prompt.ranks is None for prompt in prompts):
        missing = next(prompt.prompt_id for prompt in prompts if prompt.ranks is None)
        raise BadInput(
            f"Not every candidate of {missing!r} has metadata.rank; give it (1 is best), or name a model that compares "
            "them with --judge"
        )


async def make_labels(prompts: Sequence[Prompt], judge: Model | None, folder: Path) -> tuple[dict[str, Array], int]:
    """The preferences of all prompts by their ids, by rank or by the judge, and the judge's calls, kept in a file."""
    ranks = [prompt.ranks for prompt in prompts]
    if all(rank is not None for rank in ranks):
        return {p.prompt_id: by_rank(rank) for p, rank in zip(prompts, ranks, strict=True) if rank is not None}, 0
    assert judge is not None, "check_labels was called"
    request = comparison_request(as_list(constitution("built-in")), "", "", "")
    key = digest([model_fingerprint(judge), request, [prompt.model_dump(mode="json") for prompt in prompts]])
    file = folder / f"labels-{key[:12]}.json"
    if file.is_file():
        by_prompt = json.loads(file.read_text(encoding="utf-8"))
        return {name: np.array(rows, dtype=float) for name, rows in by_prompt.items()}, 0
    compared = await collect(*(_compare_all(prompt, judge) for prompt in prompts))
    reasons = [reason for _, failures in compared for reason in failures]
    if lost := next((reason for reason in reasons if isinstance(reason, Unreachable)), None):
        raise BadInput(f"{lost}; see that it answers, and repeat the command: its replies are cached")
    labels = {prompt.prompt_id: label for prompt, (label, _) in zip(prompts, compared, strict=True)}
    if not any((np.isfinite(label) & (label != 0.5)).any() for label in labels.values()):
        reason = next(iter(reasons), "It prefers no answer to any other")
        raise BadInput(f"The judge {judge} ordered no pair: {reason}; name another with --judge, or give ranks")
    if not reasons:  # what could not be read is asked for again
        write_atomically(file, json.dumps({name: label.tolist() for name, label in labels.items()}))
    return labels, sum(len(p.candidates) * (len(p.candidates) - 1) for p in prompts)


async def _compare_all(prompt: Prompt, judge: Model) -> tuple[Array, list[str]]:
    """The preferences between all candidates of a prompt, and why there are none."""
    pairs = list(combinations(range(len(prompt.candidates)), 2))
    results = await collect(*(_compare(prompt, i, j, judge) for i, j in pairs))
    labels = np.full((len(prompt.candidates),) * 2, np.nan)
    for (i, j), result in zip(pairs, results, strict=True):
        if not isinstance(result, str):
            labels[i, j], labels[j, i] = result, 1 - result
    return labels, [result for result in results if isinstance(result, str)]


async def _compare(prompt: Prompt, i: int, j: int, judge: Model) -> float | str:
    """1 if candidate i is better, 0 if j is, 0.5 for a tie; or why there is no answer."""
    principles, wins = as_list(constitution("built-in")), []
    texts = [candidate.text for candidate in prompt.candidates]
    for first, second in ((i, j), (j, i)):
        request = comparison_request(principles, prompt.prompt, texts[first], texts[second])
        try:
            answer = await ask(judge, request, Comparison, epoch=1, name="comparison")
        except Exception as error:
            return Unreachable(judge_failure(judge, error))
        if answer.form is None:
            return str(answer.reason)
        better = float(np.sign(answer.form.first_is_better - 50)) / 2
        wins.append(0.5 + (better if first == i else -better))
    return wins[0] if wins[0] == wins[1] else 0.5

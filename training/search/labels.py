"""Which of two answers is better: by their ranks, or by a judge that is asked in both orders, once for all rubrics."""

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from inspect_ai.model import Model
from inspect_ai.util import collect

from truthgym.datasets.constitution import as_list, constitution
from truthgym.datasets.errors import BadInput
from truthgym.scorers.judges.asking import ask, judge_failure
from truthgym.scorers.rubrics.rubric import digest
from truthgym.solvers.roles import model_fingerprint
from truthgym.tasks.preferences import Comparison, comparison_request
from truthgym.training.files import write_atomically
from truthgym.training.search.data import Prompt
from truthgym.training.search.objective import Array


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
    """The preferences of all prompts by their ids, and the judge's calls. A second run reads them from a file.

    Ranks are used if every candidate of every prompt has one. Else the judge is asked about each pair in both orders:
    two answers that differ are a tie, and a pair that could not be judged is NaN.
    """
    ranks = [prompt.ranks for prompt in prompts]
    if all(rank is not None for rank in ranks):
        return {p.prompt_id: by_rank(one) for p, one in zip(prompts, ranks, strict=True) if one is not None}, 0
    assert judge is not None, "check_labels was called"
    request = comparison_request(as_list(constitution("built-in")), "", "", "")
    key = digest([model_fingerprint(judge), request, [prompt.model_dump(mode="json") for prompt in prompts]])
    file = folder / f"labels-{key[:12]}.json"
    if file.is_file():
        kept = json.loads(file.read_text(encoding="utf-8"))
        return {name: np.array(rows, dtype=float) for name, rows in kept.items()}, 0
    made = await collect(*(_compare_all(prompt, judge) for prompt in prompts))
    if lost := next((one for _, reasons in made for one in reasons if isinstance(one, Unreachable)), None):
        raise BadInput(f"{lost}; see that it answers, and repeat the command: its replies are cached")
    labels = {prompt.prompt_id: found for prompt, (found, _) in zip(prompts, made, strict=True)}
    if not any((np.isfinite(label) & (label != 0.5)).any() for label in labels.values()):
        reason = next((reason for _, reasons in made for reason in reasons), "It prefers no answer to any other")
        raise BadInput(f"The judge {judge} ordered no pair: {reason}; name another with --judge, or give ranks")
    rows = {name: [[None if np.isnan(x) else x for x in row] for row in one.tolist()] for name, one in labels.items()}
    write_atomically(file, json.dumps(rows))
    return labels, sum(len(p.candidates) * (len(p.candidates) - 1) for p in prompts)


async def _compare_all(prompt: Prompt, judge: Model) -> tuple[Array, list[str]]:
    pairs = list(combinations(range(len(prompt.candidates)), 2))
    found = await collect(*(_compare(prompt, i, j, judge) for i, j in pairs))
    labels = np.full((len(prompt.candidates),) * 2, np.nan)
    for (i, j), one in zip(pairs, found, strict=True):
        if not isinstance(one, str):
            labels[i, j], labels[j, i] = one, 1 - one
    return labels, [one for one in found if isinstance(one, str)]


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

"""Pairs: of two trajectories of one question, which is to be preferred."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from truthgym.scorers.statistics.direction import Best
from truthgym.training.conversion.selection import Candidate

PairBy = Literal["epoch", "solver", "model"]
Pairs = Literal["widest", "all"]


class Pair(NamedTuple):
    chosen: Candidate
    rejected: Candidate
    margin: float
    """How much better the chosen one's score is, above 0."""


def pair_up(candidates: Sequence[Candidate], best: Best, by: PairBy, pairs: Pairs, margin: float) -> Iterator[Pair]:
    """Pair trajectories of the same question.

    Args:
        candidates: Scored trajectories.
        best: Which end of the score is better.
        by: What the two differ in. Of `epoch` they have the model and the solver in common, of `solver` the model, of
            `model` the solver.
        pairs: `widest` takes of each question the pair with the largest margin, `all` takes all.
        margin: The least by which scores must differ. Equal scores are never a pair.
    """
    groups: dict[tuple[str, ...], list[Candidate]] = {}
    for candidate in candidates:
        common = {
            "epoch": (*candidate.asked, candidate.model, candidate.solver),
            "solver": (*candidate.asked, candidate.model),
            "model": (*candidate.asked, candidate.solver),
        }[by]
        groups.setdefault(common, []).append(candidate)
    for group in groups.values():
        found = [pair for pair in _within(group, best, by) if pair.margin >= margin]
        if found and pairs == "widest":
            found = [max(found, key=lambda pair: pair.margin)]
        yield from found


def _within(group: Sequence[Candidate], best: Best, by: PairBy) -> Iterator[Pair]:
    for one, other in combinations(group, 2):
        if (by == "solver" and one.solver == other.solver) or (by == "model" and one.model == other.model):
            continue
        gap = one.score - other.score if best == "highest" else other.score - one.score
        if gap:
            yield Pair(one, other, gap) if gap > 0 else Pair(other, one, -gap)

"""What a logged sample was scored: which numbers there are, which of them is meant, and which end of it is better."""

import math
from collections import Counter
from typing import Any

from truthgym.evallog.errors import bad_input
from truthgym.evallog.schema import Outcome
from truthgym.scorers.statistics.direction import Best, direction

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's letters for correct, partial, incorrect and no answer."""
USUAL = "brier_score"


class WantedScore:
    """A score by the name that a user gave it, found in the samples of whatever logs."""

    def __init__(self, name: str | None, best: Best | None) -> None:
        self.name = name
        self.best = best
        self.known: Counter[str] = Counter()
        self._meant: tuple[str, str] | None = None
        self._scorers: set[tuple[str, ...]] = set()

    def of(self, sample: Outcome) -> float:
        """The sample's number, NaN where it has none.

        Raises:
            BadInput: Two scorers have that name, no better end of it is known, or logs do not agree on it.
        """
        scorers = tuple(sample.scores)
        if self._meant is not None and scorers in self._scorers:  # as in a sample before: looked up and no more
            value: Any = sample.scores[self._meant[0]].value
            number = value.get(self._meant[1]) if isinstance(value, dict) else None
            if type(number) is float and math.isfinite(number):
                return number
        held = _named(sample)
        self.known.update(name for name, number in held.items() if math.isfinite(number))
        name = self._name(held)
        if name is None or not math.isfinite(held[name]):
            return math.nan
        scorer, key = name.split("/", 1)
        if self._meant is None or self._meant != (scorer, key):
            self._settle(scorer, key, sample)
        self._scorers.add(scorers)
        return held[name]

    def _name(self, held: dict[str, float]) -> str | None:
        wanted = self.name or USUAL
        found = [name for name in held if wanted in (name, *name.split("/", 1))]
        if not found and self.name is None and len(held) == 1:
            # The only one there is; where it has another name than in samples before it, they had the usual one.
            found = [name for name in held if self._meant in (None, tuple(name.split("/", 1)))]
        exact = [name for name in found if name.split("/", 1)[1] == wanted or name == wanted]
        found = exact or found
        if len(found) > 1:
            raise bad_input(f"--score {wanted}: there are {', '.join(sorted(found))}; name one of them")
        return found[0] if found else None

    def _settle(self, scorer: str, key: str, sample: Outcome) -> None:
        end = direction(scorer, key, sample.scores[scorer].metadata or {})
        if self.best is None and end is None:
            raise bad_input(
                f"--score {scorer}/{key}: which end of it is better is not known; say --best lowest or --best highest"
            )
        if self._meant is not None:
            raise bad_input(
                f"--score {self.name or USUAL}: it is {'/'.join(self._meant)} in one log and {scorer}/{key} in "
                "another; name one as SCORER/KEY"
            )
        self.best = self.best or end
        self._meant = (scorer, key)

    @property
    def told(self) -> str | None:
        """The score that was found, as SCORER/KEY."""
        return "/".join(self._meant) if self._meant else self.name

    def missing(self) -> str:
        """What to say where no sample had it: which numbers there are."""
        there = ", ".join(sorted(self.known)) or "none: score it (`inspect score`), or convert it with --all"
        return f"--score {self.name or USUAL}: no sample has a number of that name. Scores there are: {there}"


def numbers(sample: Outcome) -> dict[str, float]:
    """All finite numbers among a sample's scores, by "SCORER/KEY". A scorer with one number is its own key."""
    return {name: number for name, number in _named(sample).items() if math.isfinite(number)}


def _named(sample: Outcome) -> dict[str, float]:
    """Likewise, with those that are NaN: the scorer has looked at the sample, and has no number for it."""
    found: dict[str, float] = {}
    for name, score in sample.scores.items():
        value: Any = score.value
        for key, held in (value if isinstance(value, dict) else {name: value}).items():
            number = LETTERS.get(held) if isinstance(held, str) else math.nan if held is None else held
            if isinstance(number, int | float):
                found[f"{name}/{key}"] = float(number)
    return found


def aligned(sample: Outcome) -> bool | None:
    """Whether the belief that was read in the answer is on the side of the outcome; 0.5 is on neither.

    None where `brier`, or another scorer that records both, has not read them.
    """
    for score in sample.scores.values():
        held = score.metadata or {}
        belief, outcome = held.get("belief"), held.get("outcome")
        if belief is None and isinstance(score.value, dict):
            belief = score.value.get("belief")
        if isinstance(belief, int | float) and isinstance(outcome, int | float) and math.isfinite(belief):
            return bool(abs(belief - outcome) < 0.5)
    return None

"""What generated worlds share: the draw of questions, log-odds, and templates that write a text and read it back."""

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice, pairwise

from inspect_ai.dataset import Sample

from truthgym.datasets.errors import BadInput, shown
from truthgym.datasets.loading.selection import Questions, check_selection, select
from truthgym.datasets.question import Question

NUMBER = r"\d+"
NAME = r"[A-Z][a-z]+"
"""Expression of a name from `names`."""
NAMES = rf"{NAME}(?:, {NAME})* and {NAME}"
"""Expression of several names, as `listed` writes them."""
SYLLABLES = ("ba", "dor", "el", "fi", "gan", "hu", "jo", "ket", "lim", "mar", "no", "pel", "quo", "ris", "tav", "ul")


class GeneratedQuestion(Question, frozen=True):
    """A question of a generated world whose naive reader differs from the exact one. Worlds add their numbers."""

    surface: str
    """The wording."""
    naive: list[float]
    """Probability before any evidence and after each piece of a reader who makes the error that the world is about."""


@dataclass(frozen=True)
class Seen:
    """A generated question read from a text, with the evidence in that text."""

    asked: str
    begins: int
    """Position in the text where it is first asked."""
    evidence_ends: int
    """Position where the last piece of evidence ends, each at its first mention; else where the question ends."""
    prior: float
    """Probability in (0, 1) that the proposition is true before evidence."""
    log_likelihood_ratios: tuple[float, ...]
    """Evidence of each piece in the text given those before it, in nats, by Bayes' rule."""
    naive_log_likelihood_ratios: tuple[float, ...]
    """The same for a reader who makes the error that the world is about."""
    proposition: str
    naive_prior: float | None = None
    """The prior of that reader, or None if it is the same."""


@dataclass(frozen=True)
class Found:
    """The last question of a world in a text, with the pieces of evidence for it, as expressions matched them."""

    surface: int
    """Number of the wording, from 0."""
    asked: re.Match[str]
    begins: int
    """As in `Seen`."""
    ends: int
    """`evidence_ends` in `Seen`."""
    pieces: list[tuple[str, re.Match[str]]]
    """Kind and match of each piece, by its number `k`. Pieces without a number come last."""

    def seen(self, exact: Sequence[float], naive: Sequence[float], proposition: str) -> Seen:
        """The question as agents need it."""
        ratios, naive_ratios = (
            tuple(logit(after) - logit(before) for before, after in pairwise(path)) for path in (exact, naive)
        )
        return Seen(self.asked[0], self.begins, self.ends, exact[0], ratios, naive_ratios, proposition, naive[0])


Form = tuple[re.Pattern[str], Mapping[str, re.Pattern[str]]]
"""The expressions of a wording: of the question, and of each kind of evidence."""


def generate(world: str, make: Callable[[int], Sample], n: int, split: str) -> Questions:
    """The first n questions of a split."""
    check_selection(world, split, None, n)
    every = (item for item in map(make, count()) if split in ("all", (item.metadata or {})["split"]))
    return select(world, islice(every, n), split=split)


def names(rng: random.Random, n: int) -> list[str]:
    """Different names of two syllables each, which no language model can know anything about. At most 240."""
    pairs = [(one, other) for one in SYLLABLES for other in SYLLABLES if one != other]
    return [f"{one}{other}".capitalize() for one, other in rng.sample(pairs, n)]


def listed(words: Sequence[str]) -> str:
    """Two or more words as a list: "a, b and c"."""
    return f"{', '.join(words[:-1])} and {words[-1]}"


def form(asked: str, pieces: Mapping[str, str], fields: Mapping[str, str] | None = None) -> Form:
    """The expressions that read a wording back."""
    own = {kind: re.compile(pattern(template, fields=fields)) for kind, template in pieces.items()}
    return re.compile(pattern(asked, fields=fields)), own


def read_back(world: str, text: str, forms: Sequence[Form]) -> Found | None:
    """Find the last question of a world in a text, and its pieces of evidence before or after it.

    The question may stand anywhere in the text. A piece that is repeated counts once. If another question of the same
    wording and case is in the text, the pieces that follow it are its own.
    """
    every = [(match.start(), i, match) for i, (asked, _) in enumerate(forms) for match in asked.finditer(text)]
    if not every:
        return None
    _, surface, match = max(every, key=lambda one: one[0])
    mentions = [(at, one[0] == match[0]) for at, i, one in every if i == surface and one["case"] == match["case"]]
    begins = text.index(match[0])
    ends = begins + len(match[0])
    pieces: dict[float, tuple[str, re.Match[str]]] = {}
    for kind, expression in forms[surface][1].items():
        for piece in expression.finditer(text):
            owned = next((own for at, own in reversed(mentions) if at < piece.start()), mentions[0][1])
            if not owned or piece["case"] != match["case"]:
                continue
            k = float(piece["k"]) if "k" in expression.groupindex else math.inf
            first = pieces.setdefault(k, (kind, piece))[1]
            if first[0] != piece[0]:
                raise contradiction(world, first[0], piece[0])
    ends = max([ends, *(piece.end() for _, piece in pieces.values())])
    return Found(surface, match, begins, ends, [pieces[k] for k in sorted(pieces)])


def contradiction(world: str, one: str, other: str) -> BadInput:
    """The error for two passages of a conversation that cannot both be true."""
    both = f"{shown(one)} and {shown(other)}"
    return BadInput(f"{world}: the evidence contradicts itself: {both} are in one conversation; leave one of them out")


def logit(probability: float) -> float:
    """Log-odds, in nats, of a probability in (0, 1)."""
    return math.log(probability / (1 - probability))


def probability(log_odds: float) -> float:
    """The probability with these log-odds, 0 or 1 where a float cannot tell it from them."""
    if log_odds < 0:
        return math.exp(log_odds) / (1 + math.exp(log_odds))
    return 1 / (1 + math.exp(-log_odds))


def pattern(template: str, suffix: str = "", fields: Mapping[str, str] | None = None) -> str:
    """A regular expression that reads back what a template writes."""
    seen: set[str] = set()

    def parts() -> Iterator[str]:
        for literal, field in re.findall(r"([^{]*)(?:\{(\w+)\})?", template):
            yield re.escape(literal)
            if field:
                own = (fields or {}).get(field, NUMBER)
                yield f"(?P={field}{suffix})" if field in seen else f"(?P<{field}{suffix}>{own})"
                seen.add(field)

    return "".join(parts())


def whole_range(world: str, name: str, value: int | Sequence[int], least: int, most: int) -> tuple[int, int]:
    """The two whole numbers between which questions draw an argument."""
    ends = [value] if isinstance(value, int) else list(value) if isinstance(value, Sequence) else []
    whole = all(isinstance(end, int) and least <= end <= most for end in ends)
    if len(ends) not in (1, 2) or not whole or ends[0] > ends[-1]:
        raise BadInput(
            f"{world}: {name}={value!r} cannot be used; give one whole number between {least} and {most}, or two that "
            f"rise, such as {least},{most}"
        )
    return ends[0], ends[-1]


def percent_range(world: str, base_rate: float | Sequence[float]) -> tuple[int, int]:
    """The whole percents between which questions draw their base rate."""
    ends: Sequence[float] = [base_rate] if isinstance(base_rate, int | float) else base_rate
    try:
        percents = [round(float(end) * 100) for end in ends]
    except (TypeError, ValueError, OverflowError):
        percents = []
    if len(percents) not in (1, 2) or not all(1 <= p <= 99 for p in percents) or percents != sorted(percents):
        raise BadInput(
            f"{world}: base_rate={base_rate!r} cannot be used; give one number between 0.01 and 0.99, or two that "
            "rise, such as 0.15,0.85"
        )
    return percents[0], percents[-1]

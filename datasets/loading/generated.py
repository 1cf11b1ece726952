"""What generated worlds share: log-odds, and templates that write a text and read it back."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from truthgym.datasets.errors import BadInput

NUMBER = r"\d+"


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


def logit(probability: float) -> float:
    """Log-odds, in nats, of a probability in (0, 1)."""
    return math.log(probability / (1 - probability))


def probability(log_odds: float) -> float:
    """The probability with these log-odds, 0 or 1 where a float cannot tell it from them."""
    if log_odds < 0:
        return math.exp(log_odds) / (1 + math.exp(log_odds))
    return 1 / (1 + math.exp(-log_odds))


def pattern(template: str, suffix: str = "", fields: Mapping[str, str] | None = None) -> str:
    """A regular expression that reads back what a template writes.

    Args:
        template: Text with fields such as `{case}`.
        suffix: Added to the name of each field's group.
        fields: Expressions of fields that are not numbers, by name.
    """
    seen: set[str] = set()

    def parts() -> Iterator[str]:
        for literal, field in re.findall(r"([^{]*)(?:\{(\w+)\})?", template):
            yield re.escape(literal)
            if field:
                own = (fields or {}).get(field, NUMBER)
                yield f"(?P={field}{suffix})" if field in seen else f"(?P<{field}{suffix}>{own})"
                seen.add(field)

    return "".join(parts())


def percent_range(world: str, base_rate: float | Sequence[float]) -> tuple[int, int]:
    """The whole percents between which questions draw their base rate.

    Raises:
        BadInput: `base_rate` is neither one number between 0.01 and 0.99 nor two that rise.
    """
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

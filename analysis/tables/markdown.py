"""What the reports share: tables, sections, figures and notes as Markdown."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from truthgym.scorers.statistics.interval import decimals, interval_text

if TYPE_CHECKING:
    import pandas as pd

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]+")
"""Ends of lines, and what changes a terminal or the direction of a text."""


def table(
    frame: "pd.DataFrame", columns: Sequence[str], labels: Mapping[str, str] | None = None, digits: int = 3
) -> str:
    def cell(value: object) -> str:
        if not isinstance(value, float):
            return UNPRINTABLE.sub(" ", str(value)).replace("|", "\\|")
        return "-" if math.isnan(value) else decimals(value, digits)

    rows = [[cell(row[name]) for name in columns] for row in frame.to_dict("records")]
    return markdown([(labels or {}).get(name, name) for name in columns], rows)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]]) + "\n"


def section(title: str, *parts: str) -> str:
    """A heading with sentences and tables below it. Empty ones are left out."""
    return "\n\n".join([f"### {title}", *filter(None, parts)])


def picture(file: str, text: str, caption: str) -> str:
    """A chart with its caption. "" without a file."""
    return f"![{text}]({file})\n\n*{caption}*\n" if file else ""


def chart_section(file: str, text: str, caption: str) -> str:
    """The same with a heading."""
    return section("Chart", picture(file, text, caption)) if file else ""


def page(parts: Iterable[str], frame: "pd.DataFrame") -> str:
    """The parts of a report, with the table's notes at the end. Empty ones are left out."""
    return "\n".join(filter(None, parts)) + notes(frame)


def number_range(numbers: "pd.Series[int]") -> str:
    """The smallest and largest number: "30", or "30 to 1,200"."""
    fewest, most = f"{numbers.min():,.0f}", f"{numbers.max():,.0f}"
    return fewest if fewest == most else f"{fewest} to {most}"


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 run", "2,000 runs"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def with_interval(estimate: float, lower: float, upper: float, digits: int = 3) -> str:
    """An estimate with its interval: "0.210 [0.180, 0.240]"; without one it is alone; "-" if it is NaN."""
    if math.isnan(estimate):
        return "-"
    bounds = interval_text(lower, upper, digits)
    return decimals(estimate, digits) + f" {bounds}" * (bounds != "-")


def intervals(rows: "pd.DataFrame", estimate: str = "", digits: int = 3) -> list[str]:
    """For each row the interval of its columns `lower` and `upper`, behind the estimate if a column is named."""
    if not estimate:
        return [interval_text(low, high, digits) for low, high in rows[["lower", "upper"]].to_numpy(dtype=float)]
    numbers = rows[[estimate, "lower", "upper"]].to_numpy(dtype=float)
    return [with_interval(middle, low, high, digits) for middle, low, high in numbers]


def notes(frame: "pd.DataFrame") -> str:
    """What a table does not show, and why, as a Markdown list."""
    sentences: Sequence[str] = frame.attrs.get("notes", [])
    return "".join(f"\n- {sentence}" for sentence in dict.fromkeys(sentences)) + "\n" * bool(sentences)


def by_reason(refused: Mapping[str, Sequence[str]], consequence: str = "Not shown") -> list[str]:
    """A note for each reason: "Not shown: urns, direct: a; urns, direct: b (fewer than 30 questions)."."""
    return [f"{consequence}: {listed(names)} ({reason})." for reason, names in refused.items() if names]


class Caveat(NamedTuple):
    """What a table does not show, or shows with a reservation."""

    consequence: str
    what: str
    reason: str


def grouped(caveats: Iterable[Caveat]) -> list[str]:
    """A note for each consequence and reason, with what it applies to."""
    named: dict[tuple[str, str], dict[str, None]] = {}
    for consequence, what, reason in caveats:
        named.setdefault((consequence, reason), {})[what] = None
    return [note for (first, why), names in named.items() for note in by_reason({why: list(names)}, first)]


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    rest = len(names) - most
    return "; ".join(names[:most]) + (f"; and {rest} more" if rest > 0 else "")

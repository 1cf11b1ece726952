"""Numbers and tables as Markdown."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from truthgym.scorers.statistics.interval import decimals, interval_text

if TYPE_CHECKING:
    import pandas as pd


def table(
    frame: "pd.DataFrame", columns: Sequence[str], labels: Mapping[str, str] | None = None, digits: int = 3
) -> str:
    """Write columns of a frame as a Markdown table."""

    def cell(value: object) -> str:
        if not isinstance(value, float):
            return str(value).replace("|", "\\|").replace("\n", " ")
        return "-" if math.isnan(value) else decimals(value, digits)

    rows = [[cell(row[name]) for name in columns] for row in frame.to_dict("records")]
    return markdown([(labels or {}).get(name, name) for name in columns], rows)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of texts."""
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]]) + "\n"


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
    return [with_interval(one, low, high, digits) for one, low, high in numbers]

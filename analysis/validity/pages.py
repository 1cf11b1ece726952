"""What the validity pages share: their command and their Markdown tables."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

ROUNDING = 1e-9
"""Planted values and bounds that differ by less are equal."""


def main(write: Callable[..., None], description: str | None, *sizes: str) -> None:
    """The command of a page.

    Args:
        write: Computes and writes the page at its argument `out`.
        description: Text of `--help`.
        sizes: Arguments of `write` that are options, each a number with a default.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    for name in sizes:
        parser.add_argument(f"--{name}", type=int, default=signature(write).parameters[name].default)
    write(**vars(parser.parse_args()))


def table(
    frame: "pd.DataFrame", columns: Sequence[str], labels: Mapping[str, str] | None = None, digits: int = 3
) -> str:
    """Write columns of a frame as a Markdown table.

    Args:
        frame: The rows.
        columns: Columns to show, in order.
        labels: Headers of the columns whose name is not their header.
        digits: Decimals of floats. NaN is written as "-".
    """

    def cell(value: object) -> str:
        if not isinstance(value, float):
            return str(value).replace("|", "\\|").replace("\n", " ")
        return "-" if np.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"

    rows = [[cell(row[name]) for name in columns] for row in frame.to_dict("records")]
    return _markdown([(labels or {}).get(name, name) for name in columns], rows)


def planted_and_found(frame: "pd.DataFrame", rows: str, figures: Sequence[str]) -> str:
    """Write `planted: found [lower, upper]`, with a row for each value of a column and a column for each figure.

    Planted values other than 0 are bold. What has no planted value or no interval is written without it.

    Args:
        frame: Columns `figure`, `planted`, `found`, `lower`, `upper`, and the one that `rows` names.
        rows: The column whose values are the rows.
        figures: The columns, in order.
    """

    def number(value: float) -> str:
        return f"{value:.3f}" if abs(value) >= 0.0005 else "0"

    def cell(planted: float, found: float, lower: float, upper: float) -> str:
        if np.isnan(found):
            return ""
        truth = "" if np.isnan(planted) else "0: " if number(planted) == "0" else f"**{number(planted)}**: "
        interval = "" if np.isnan(lower) else f" [{number(lower)}, {number(upper)}]"
        return f"{truth}{number(found)}{interval}"

    cells = []
    for name, group in frame.groupby(rows, sort=False):
        numbers = group.set_index("figure")[["planted", "found", "lower", "upper"]]
        cells.append([str(name), *(cell(*numbers.loc[figure].to_numpy()) for figure in figures)])
    return _markdown([rows, *(f"`{figure}`" for figure in figures)], cells)


def contains_planted(frame: "pd.DataFrame") -> "pd.Series[bool]":
    """Whether each interval contains its planted value."""
    return frame["planted"].between(frame["lower"] - ROUNDING, frame["upper"] + ROUNDING)


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]]) + "\n"

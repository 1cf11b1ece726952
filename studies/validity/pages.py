"""What the validity pages share: their command and their tables of planted values."""

import argparse
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from truthgym.analysis.tables.markdown import markdown

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
    return markdown([rows, *(f"`{figure}`" for figure in figures)], cells)


def contains_planted(frame: "pd.DataFrame") -> "pd.Series[bool]":
    """Whether each interval contains its planted value."""
    return frame["planted"].between(frame["lower"] - ROUNDING, frame["upper"] + ROUNDING)

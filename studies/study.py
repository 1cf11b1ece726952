"""A study and its page: what measures find on agents whose truth is known, and Markdown whose every figure is theirs.

A study's functions take what they need by name: sizes, which are options of its command, and what was measured before.
"""

import argparse
import csv
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from truthgym.analysis.tables.markdown import markdown, with_interval
from truthgym.analysis.tables.saving import between, check_extra
from truthgym.models.agents.policies import Parameters
from truthgym.scorers.statistics.interval import Estimate

if TYPE_CHECKING:
    from inspect_ai import Task
    from inspect_ai.log import EvalLog
    from inspect_ai.model import Model

Row = dict[str, Any]
"""A row of a table, by column."""
DOCS = Path(__file__).parents[1] / "docs"
ROUNDING = 1e-9
"""Planted values and bounds that differ by less are equal."""


@dataclass(frozen=True)
class Study:
    """What is measured and how the page shows it. The agents and their truth are tables of the study's module."""

    page: str
    """Its published page in docs/. What is measured stands there between `<!-- NAME -->` and `<!-- end -->`."""
    sizes: Mapping[str, int]
    """Options of the command, with the numbers of the published page, which may show them under their names."""
    measures: Mapping[str, Callable[..., Any]]
    """Measured in this order. A name may be an argument of later measures, of charts and of texts."""
    texts: Sequence[Callable[..., Mapping[str, str]]]
    """Tables and numbers as Markdown, by the name that they have in the page."""
    charts: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """By the end of the name of their .svg, which begins as that of the page."""

    def write(self, out: Path, **sizes: int) -> None:
        """Measure everything, and write the page with its charts beside it. A new one has the published words."""
        if self.charts:
            check_extra()  # before a computation of minutes
        page = (out if out.is_file() else DOCS / self.page).read_text(encoding="utf-8")
        values: dict[str, Any] = {**self.sizes, **sizes}
        texts = {name: f"{size:,}" for name, size in values.items() if f"<!-- {name} -->" in page}
        for name, measure in self.measures.items():
            values[name] = _call(measure, values)
        for ending, draw in self.charts.items():
            _call(draw, values).save(out.with_name(f"{out.stem}{ending}.svg"))
        for write in self.texts:
            texts |= _call(write, values)
        out.write_text(with_texts(page, texts, str(out)), encoding="utf-8")

    def main(self, description: str | None) -> None:
        """The command: where the page is written, and the sizes."""
        parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("out", type=Path)
        for name, size in self.sizes.items():
            parser.add_argument(f"--{name}", type=int, default=size)
        self.write(**vars(parser.parse_args()))


def _call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:  # noqa: ANN401
    return function(**{name: values[name] for name in signature(function).parameters if name in values})


def reference_model(name: str, parameters: Parameters) -> "Model":
    """A new reference agent with the given parameters."""
    from inspect_ai.model import get_model

    arguments: dict[str, Any] = parameters.model_dump(exclude_defaults=True)
    return get_model(f"reference/{name}", memoize=False, **arguments)


def run_task(task: "Task", model: "Model", **options: Any) -> "EvalLog":
    """Run a task on a model and return the whole log."""
    from inspect_ai import eval
    from inspect_ai.log import read_eval_log

    with tempfile.TemporaryDirectory() as folder:
        (log,) = eval(task, model=model, log_dir=folder, display="log", log_realtime=False, **options)
        if log.status != "success" or not log.results:
            raise RuntimeError(f"The run of {log.eval.model} ended with {log.status}: {log.error}")
        return read_eval_log(log.location)


def recovery(truth: float, estimates: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> dict[str, float]:
    """How well replications recover a planted value: `bias` with its Monte-Carlo `error`, `coverage`, mean `width`.

    An estimate of NaN is left out of the mean, and counts as not covered.
    """
    points, lower, upper = (np.asarray(values, dtype=float) for values in (estimates, lower, upper))
    mean, sd = float(np.nanmean(points)), float(np.nanstd(points, ddof=1))
    return {
        "planted": truth,
        "mean": mean,
        "bias": mean - truth,
        "sd": sd,
        "error": sd * points.size**-0.5,
        "coverage": float(np.mean((lower - ROUNDING <= truth) & (truth <= upper + ROUNDING))),
        "width": float(np.nanmean(upper - lower)),
        "above 0": float(np.mean(lower > 0)),
        "below 0": float(np.mean(upper < 0)),
    }


def recovered(truth: float, estimates: Sequence[Estimate]) -> dict[str, float]:
    """`recovery` of replications' estimates, and the mean of their smallest detectable effects."""
    ends = ([getattr(estimate, end) for estimate in estimates] for end in ("estimate", "lower", "upper"))
    return recovery(truth, *ends) | {"mde": float(np.mean([estimate.mde for estimate in estimates]))}


def planted_and_found(frame: pd.DataFrame, rows: str, figures: Sequence[str]) -> str:
    """Write `planted: found [lower, upper]`, with a row for each value of a column and a column for each figure.

    Planted values other than 0 are bold. What has no planted value or no interval is written without it. The frame has
    the columns `figure`, `planted`, `found`, `lower`, `upper`, and the one that `rows` names.
    """

    def number(value: float) -> str:
        return f"{value:.3f}" if abs(value) >= 0.0005 else "0"

    def cell(truth: float, found: float, lower: float, upper: float) -> str:
        if np.isnan(found):
            return ""
        start = "" if np.isnan(truth) else "0: " if number(truth) == "0" else f"**{number(truth)}**: "
        interval = "" if np.isnan(lower) else f" [{number(lower)}, {number(upper)}]"
        return f"{start}{number(found)}{interval}"

    cells = []
    for name, group in frame.groupby(rows, sort=False):
        numbers = group.set_index("figure")[["planted", "found", "lower", "upper"]]
        cells.append([str(name), *(cell(*numbers.loc[figure].to_numpy()) for figure in figures)])
    return markdown([rows, *(f"`{figure}`" for figure in figures)], cells)


def write_csv(rows: Sequence[Mapping[str, Any]], file: Path, digits: int = 5) -> None:
    """Write rows of the same columns; numbers have so many significant digits."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{value:.{digits}g}" if isinstance(value, float) else value
                             for key, value in row.items()})  # fmt: skip


def with_texts(page: str, texts: Mapping[str, str], place: str) -> str:
    """A page with the texts between their comments."""
    for name, text in texts.items():
        page = between(page, name, text, place)
    return page


def write_texts(page: Path, texts: Mapping[str, str]) -> None:
    """Write texts into a page, between their comments."""
    page.write_text(with_texts(page.read_text(encoding="utf-8"), texts, str(page)), encoding="utf-8")


def interval_cell(estimate: Estimate, digits: int = 3, low: float = -np.inf, high: float = np.inf) -> str:
    """An estimate with its interval, which is cut at the ends of the range that it may have."""
    return with_interval(estimate.estimate, max(estimate.lower, low), min(estimate.upper, high), digits)


def contains_planted(frame: pd.DataFrame) -> "pd.Series[bool]":
    """Whether each interval contains its planted value."""
    return frame["planted"].between(frame["lower"] - ROUNDING, frame["upper"] + ROUNDING)

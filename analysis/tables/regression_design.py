"""The design of a regression on setups and trajectories: which columns stand for which feature."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from truthgym.scorers.statistics.instrumented_slope import ROUNDING_ERROR, Floats

ASSIGNED, OBSERVED = "assigned", "observed"
"""How a feature came about: every level was asked the same questions, or it was not set by anyone."""
CROSSED = 0.9
"""Share of the questions that all levels of an assigned factor have in common."""
MOST_LEVELS = 30
"""Levels of a factor above which it is left out: its effects would be too many to read."""
FEATURES = {
    "characters": "log of characters written",
    "steps": "steps of reasoning",
    "hedges": "hedges per 1,000 characters",
    "numbers": "numbers per 1,000 characters",
    "confidence": "distance of the belief from 0.5",
}
"""Features of a trajectory, in the units of the regression."""
ARGUMENT = re.compile(r"(?:^| )(\w+)=")


@dataclass(frozen=True)
class Term:
    """A column of a design."""

    feature: str
    level: str
    """The level that it stands for, with the level that it is compared with; "" for a number."""
    kind: str
    """`ASSIGNED` or `OBSERVED`."""


@dataclass
class Design:
    """Columns for a regression, beside a constant."""

    terms: list[Term] = field(default_factory=list)
    columns: list[Floats] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def matrix(self, rows: int) -> Floats:
        """Rows x columns, the constant first."""
        return np.column_stack([np.ones(rows), *self.columns])

    def add(self, term: Term, column: Floats) -> bool:
        """Add a column unless it is a sum of those that are there."""
        scaled = column / spread if (spread := float(np.std(column))) > ROUNDING_ERROR else np.zeros(column.size)
        before = self.matrix(column.size)
        rest = scaled - before @ np.linalg.lstsq(before, scaled, rcond=None)[0]
        new = float(np.std(rest)) > 1e-6
        if new:
            self.terms.append(term)
            self.columns.append(column)
        return new


def factors(frame: pd.DataFrame) -> pd.DataFrame:
    """The settings of each answer, a column each: model, mode, domain, and each argument of the task that differs."""
    columns = {name: frame[name].astype(str) for name in ("model", "mode", "domain")}
    texts = {text: _arguments(str(text)) for text in frame["task"].unique()}
    for name in dict.fromkeys(name for arguments in texts.values() for name in arguments):
        columns[name] = frame["task"].map({text: arguments.get(name, "default") for text, arguments in texts.items()})
    return pd.DataFrame({name: column for name, column in columns.items() if column.nunique() > 1}, index=frame.index)


def settings(frame: pd.DataFrame) -> Design:
    """Indicators of the settings, each level against the most frequent one; without those that never come apart."""
    design = Design()
    questions = frame["domain"] + " " + frame["sample_id"].astype(str)
    for name, levels in factors(frame).items():
        counts = levels.value_counts().sort_index().sort_values(ascending=False, kind="stable")
        if len(counts) > MOST_LEVELS:
            design.notes.append(f"{name} has {len(counts)} levels, more than {MOST_LEVELS}, and is left out.")
            continue
        ids = [set(questions[levels == level]) for level in counts.index]
        common, every = set.intersection(*ids), set.union(*ids)
        kind = ASSIGNED if len(common) >= CROSSED * len(every) else OBSERVED
        reference, *others = counts.index
        for level in others:
            column = (levels == level).to_numpy(dtype=float)
            if not design.add(Term(str(name), f"{level} (against {reference})", kind), column):
                design.notes.append(
                    f"{name} {level} cannot be told apart from the other settings: they always come together. It is "
                    "left out; run the missing combinations."
                )
    return design


def with_trajectories(design: Design, frame: pd.DataFrame, names: Sequence[str] = tuple(FEATURES)) -> Design:
    """The design with the features of the trajectories added, within questions and in standard deviations.

    Only if each question has one answer are features between questions, with a note.
    """
    wider = Design([*design.terms], [*design.columns], [])
    question = [frame["domain"], frame["sample_id"]]
    per = 1000 / frame["characters"].clip(lower=1)
    scaled = {
        "characters": np.log(frame["characters"].clip(lower=1).astype(float)),
        "steps": frame["steps"],
        "hedges": frame["hedges"] * per,
        "numbers": frame["numbers"] * per,
        "confidence": frame["confidence"],
    }
    numbers: dict[str, pd.Series[float]] = {name: pd.Series(scaled[name]).astype(float) for name in names}
    several = pd.Series(1, index=frame.index).groupby(question).transform("sum") > 1
    between = not several.any()
    if between:
        wider.notes.append(
            "Each question has one answer, so the effects of trajectories are between questions: what makes a question "
            "hard can make its answer long."
        )
    for name, values in numbers.items():
        within = values - (values.mean() if between else values.groupby(question).transform("mean"))
        deviation = float(within[several | between].std())
        unit = f"{FEATURES[name]}, 1 sd = {deviation:.3g}"
        if not deviation > ROUNDING_ERROR:
            continue
        if not wider.add(Term(name, unit, OBSERVED), np.asarray(within / deviation, dtype=float)):
            wider.notes.append(f"{name} cannot be told apart from the settings, which determine it, and is left out.")
    return wider


def _arguments(text: str) -> dict[str, str]:
    """The arguments in a text such as `draws=2 system_prompt=be fair`."""
    parts = ARGUMENT.split(text)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))

"""The analyses, in the order of their pages. The command, the site and docs/report.md are made from this list."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

ANALYSES = (
    "performance",
    "leaderboard",
    "relationship",
    "tokens",
    "attribution",
    "agreement",
    "calibration",
    "belief_paths",
    "trajectories",
    "training_effect",
    "power",
    "cost",
    "catalog",
    "health",
)
"""Modules of `truthgym.analysis`."""
BATCHES = "batches"
"""The analysis of two or more folders of logs, each a batch."""


class Analysis(Protocol):
    """What the module of an analysis has."""

    QUESTION: str
    """The title of its page, in plain English."""
    load: "Callable[..., pd.DataFrame]"
    """From logs to a tidy table. `attrs["notes"]` says in whole sentences what cannot be concluded; tables in `attrs`,
    as frames or lists of dicts, get a .csv of their own. BadInput if nothing can be said."""
    chart: "Callable[[pd.DataFrame], alt.TopLevelMixin]"
    """BadInput if nothing can be drawn."""
    report: "Callable[[pd.DataFrame, str], str]"
    """From the table and the file name of its chart ("": without one) to Markdown."""


def analysis(name: str) -> Analysis:
    """Import an analysis."""
    module: Any = import_module(f"truthgym.analysis.{name}")
    return cast(Analysis, module)

"""The analyses, in the order of their pages. The command, the site and docs/report.md are made from this list."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from truthgym.analysis.tables.saving import options_of
from truthgym.datasets.errors import BadInput, one_of

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

ANALYSES = (
    "performance", "leaderboard", "categories", "calibration", "relationship", "tokens", "frontier", "attribution",
    "agreement", "belief_paths", "trajectories", "training_effect", "over_optimisation", "reward_calibration", "power",
    "cost", "catalog", "health",
)  # fmt: skip
"""Modules of `truthgym.analysis`."""
BATCHES = "batches"
"""The analysis of two or more folders of logs, each a batch."""
BY = ("leaderboard", "categories")
"""Analyses that can divide the questions by a field, as `by`."""
Options = Mapping[str, Mapping[str, Any]]
"""Options by analysis and name."""


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


def parse_options(texts: Sequence[str]) -> dict[str, dict[str, str]]:
    """Options of analyses from ANALYSIS.NAME=VALUE, each by analysis and name.

    >>> parse_options(["training_effect.before=hf/base", "performance.groups=qwen=Qwen,llama=Llama"])
    {'training_effect': {'before': 'hf/base'}, 'performance': {'groups': 'qwen=Qwen,llama=Llama'}}
    """
    options: dict[str, dict[str, str]] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        name, dot, option = place.partition(".")
        if not (equals and dot and name and option):
            raise BadInput(f"-A {text} cannot be used; write ANALYSIS.NAME=VALUE, as in: -A performance.x=size")
        options.setdefault(name, {})[option] = value
    return options


def check_options(options: Options) -> None:
    """Check that the analyses have the options."""
    for name, values in options.items():
        one_of("analysis", name, ANALYSES)
        options_of_analysis = list(options_of(analysis(name).load))
        for option in values:
            if not options_of_analysis:
                raise BadInput(f"{name}.{option}: {name} has no options; leave it out")
            one_of(f"option of {name}", option, options_of_analysis)

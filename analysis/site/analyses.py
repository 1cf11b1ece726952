"""The analyses, in the order of their pages. The command, the site and docs/report.md are made from this list."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from truthgym.analysis.tables.saving import options_of
from truthgym.datasets.errors import BadInput, one_of

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


def analysis(name: str) -> ModuleType:
    """The module of an analysis, with its `QUESTION`, `load`, `chart` and `report` (CONTRIBUTING.md)."""
    return import_module(f"truthgym.analysis.{name}")


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
    for name, values in options.items():
        one_of("analysis", name, ANALYSES)
        options_of_analysis = list(options_of(analysis(name).load))
        for option in values:
            if not options_of_analysis:
                raise BadInput(f"{name}.{option}: {name} has no options; leave it out")
            one_of(f"option of {name}", option, options_of_analysis)

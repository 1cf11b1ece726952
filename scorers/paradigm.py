"""What a paradigm declares beside its scorer: viewer columns, headline metrics, directions, and what a run needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from inspect_ai.scorer import Scorer
from inspect_ai.viewer import ScoreColorScale

from truthgym.scorers.statistics.direction import Best

PROBABILITY = ScoreColorScale(palette="neutral", min=0, max=1)
"""Colours of a belief in [0, 1], where neither end is better."""
LOWER_IS_BETTER = ScoreColorScale(palette="good-low", min=0, max=1)
HIGHER_IS_BETTER = ScoreColorScale(palette="good-high", min=0, max=1)


def no_roles(**arguments: object) -> tuple[str, ...]:
    """The roles of a scorer that calls no model but the evaluated one."""
    return ()


def no_sandbox(**arguments: object) -> bool:
    """Whether a scorer that runs no code needs a sandbox."""
    return False


@dataclass(frozen=True)
class Paradigm:
    """A scorer with what the tasks, the log viewer and training must know of it. Each scorer's file ends with one."""

    scorer: Callable[..., Scorer]
    columns: Mapping[str, str]
    """Columns of the viewer's sample list: keys of `Score.value`, in order, with their headers."""
    headline: tuple[str, ...]
    """The metrics that a reader looks at first: the names of the first ones in the log, at most ten."""
    colors: Mapping[str, ScoreColorScale] = field(default_factory=dict)
    """Colour scales of columns, by key."""
    directions: Mapping[str, Best] = field(default_factory=dict)
    """Which end is better, for the keys of `Score.value` that have a better end. `statistics/direction.py` repeats them
    for training, which does not load Inspect; a test compares the two."""
    show_answer: bool = False
    """Whether the sample list also shows `Score.answer`."""
    roles: Callable[..., tuple[str, ...]] = no_roles
    """From the scorer's arguments, as keywords, to the model roles that must be bound."""
    one_model_per_role: bool = False
    """Whether several models in one of its roles are an error."""
    needs_sandbox: Callable[..., bool] = no_sandbox
    """From the scorer's arguments, as keywords, to whether it runs code that a sandbox must isolate."""

    @property
    def name(self) -> str:
        """The name in `-T paradigms=` and, behind `truthgym/`, in Inspect's registry."""
        return str(self.scorer.__name__)

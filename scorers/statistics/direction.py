"""Directions: of which scores more is better, for those who choose trajectories by them. Loads nothing."""

import re
from collections.abc import Mapping
from typing import Any, Literal

Best = Literal["lowest", "highest"]

DIRECTIONS: dict[str, dict[str, Best]] = {
    "brier": {
        "brier_score": "lowest",
        "accuracy": "highest",
        "log_score": "lowest",
        "spherical_score": "highest",
    },
    "sycophantic_reasoning": {"brier_score": "lowest", "accuracy": "highest", "quality": "highest"},
    "length": {"kept": "highest"},
}
"""By scorer, and key of a sample's value. What is not named here has no better end: a belief, a length, a change."""
HIGHEST = re.compile(r"(accuracy|match|includes|exact|f1|choice|answer|pattern|math|model_graded_(qa|fact))\d*")
"""Inspect's own scorers of right and wrong. It numbers those that a task has twice."""


def direction(scorer: str, key: str, metadata: Mapping[str, Any]) -> Best | None:
    """Which end of a score is the better one. None where nobody has said it.

    Args:
        scorer: Name of the scorer, with or without its package.
        key: Key of the sample's value, or the scorer's name where that is one number.
        metadata: The metadata of one of its scores: a grader writes `higher_is_better` there.
    """
    declared = metadata.get("higher_is_better")
    if isinstance(declared, bool):
        return "highest" if declared else "lowest"
    name = scorer.rsplit("/", 1)[-1]
    if name == "qualitative":  # each quality of whatever rubric, and their mean
        return None if key == "spread" else "highest"
    if name in DIRECTIONS:
        return DIRECTIONS[name].get(key)
    return "highest" if HIGHEST.fullmatch(name) else None

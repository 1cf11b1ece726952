"""Which end of a score is better, for code that selects trajectories by their scores. Loads no library."""

import re
from collections.abc import Mapping
from typing import Any, Literal

Best = Literal["lowest", "highest"]
"""The values of `--best`."""

DIRECTIONS: dict[str, dict[str, Best]] = {
    "brier": {
        "brier_score": "lowest",
        "accuracy": "highest",
        "log_score": "lowest",
        "spherical_score": "highest",
    },
    "sycophantic_reasoning": {"brier_score": "lowest", "accuracy": "highest", "quality": "highest"},
    "length": {"kept": "highest"},
    "rubric": {"rubric_score": "highest"},
    "reward_model": {"reward": "highest"},
    "value_tracking": {
        "skill": "highest",
        "error": "lowest",
        "original_score": "highest",
        "movement_cosine": "highest",
    },
    "value_influence": {"influence": "lowest"},
    "judge_score": {"judge_score": "highest"},
    "mutual_predictability": {"mutual_predictability": "highest"},
    "preference": {"correct": "highest"},
    "world_uplift": {"world_uplift": "highest", "uplift": "highest"},
}
"""By scorer, and key of a sample's value, as each scorer's `PARADIGM` declares it. A key that is missing (a belief, a
length, a change) has no better end."""
CORRECTNESS = re.compile(r"(accuracy|match|includes|exact|f1|choice|answer|pattern|math|model_graded_(qa|fact))\d*")
"""Names of Inspect's own scorers of correctness, all higher-is-better. Inspect numbers them if a task has two."""
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's letters for correct, partial, incorrect and no answer."""


def numbers(scorer: str, value: object) -> dict[str, float]:
    """The numbers in a sample's value, by key; by the scorer's name if the value is a single number or letter."""
    values = value if isinstance(value, Mapping) else {scorer: value}
    values = {key: LETTERS.get(one) if isinstance(one, str) else one for key, one in values.items()}
    return {str(key): float(one) for key, one in values.items() if isinstance(one, int | float)}


def direction(scorer: str, key: str, metadata: Mapping[str, Any]) -> Best | None:
    """Which end of a score is better; None if nothing declares it.

    Args:
        scorer: Name of the scorer, with or without its package.
        key: Key of the sample's value, or the scorer's name if the value is a single number.
        metadata: Metadata of one of its scores. A grader's `higher_is_better` there decides.
    """
    declared = metadata.get("higher_is_better")
    if isinstance(declared, bool):
        return "highest" if declared else "lowest"
    name = scorer.rsplit("/", 1)[-1]
    if name == "qualitative":  # its keys are the qualities of the user's rubric, their mean, and the spread
        return None if key == "spread" else "highest"
    if name in DIRECTIONS:
        return DIRECTIONS[name].get(key)
    return "highest" if CORRECTNESS.fullmatch(name) else None

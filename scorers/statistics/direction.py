"""Which end of a score is better, for code that selects trajectories by their scores. Loads no library."""

import math
import re
from collections.abc import Mapping
from typing import Any, Literal, cast

Best = Literal["lowest", "highest"]
"""The values of `--best`."""

DIRECTIONS: dict[str, dict[str, Best]] = {
    "brier": {"brier_score": "lowest", "accuracy": "highest", "log_score": "lowest", "spherical_score": "highest"},
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
    "agent_answer": {"answer": "highest", "process": "highest", "both": "highest"},
    "fact_chain": {"chain": "highest", "hops": "highest", "answer": "highest"},
    "mutual_predictability": {"mutual_predictability": "highest"},
    "preference": {"correct": "highest"},
    "world_uplift": {"world_uplift": "highest", "uplift": "highest"},
}
"""By scorer, and key of a sample's value, as each `DECLARATION` says. A key that is missing (a belief, a
length, a change) has no better end."""
CORRECTNESS = re.compile(r"(accuracy|match|includes|exact|f1|choice|answer|pattern|math|model_graded_(qa|fact))\d*")
"""Names of Inspect's own scorers of correctness, all higher-is-better. Inspect numbers them if a task has two."""
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's letters for correct, partial, incorrect and no answer."""
CLIP = 0.005
"""Half a percentage point: the resolution near 0 and 1 of a belief stated as an integer percentage."""
Fault = Literal["answer", "judge", "unreachable", "setting"]
"""Where it lies that there is no grade: with the answer; with what grades it, such as a reply that cannot be read; with
a model that cannot be reached, which may pass; or with what the user gave, such as a question without a truth."""
WORST = {"brier_score": 1.0, "log_score": -math.log(CLIP), "spherical_score": 0.0}
"""The worst value of each proper score, by key."""
ENDLESS = {"mutual_predictability", "reward_model", "value_influence", "value_tracking", "world_uplift"}
"""Scorers whose numbers have no least or no greatest value."""
NO_OUTCOME = "The question has no known outcome."
"""Reason that scorers and graders record if there is no truth to score by: no answer could do better or worse."""
WITHOUT_TRUTH = (
    "score a finished log with martingale and -S about=own_answer, with brier and -S about=own_answer if another score "
    "says what is right, or with graded and -S grader=model"
)
"""What to do with a sample whose target is neither yes nor no, nor one of its choices."""
GRADER_FAILED = re.compile(r"(?:[^:]+: )?The (?:judge|grader) .+ failed \(")
JUDGE_AT_FAULT = re.compile(r"(?:[^:]+: )?The (?:judge|grader)\b")
"""Start of the reason that they record if the model that they ask could not be reached, or gave no grade. Neither says
anything about the answer."""


def no_outcome(target: str) -> str:
    """`NO_OUTCOME`, with the remedy where there is a target that cannot be taken for an outcome."""
    return (
        f"{NO_OUTCOME} Its target {target[:40]!r} is neither yes nor no; write one of them into "
        f"the data, or {WITHOUT_TRUTH}."
        if target
        else NO_OUTCOME
    )


def numbers(scorer: str, value: object) -> dict[str, float]:
    """The numbers in a sample's value, by key; by the scorer's name if the value is a single number or letter."""
    values = value if isinstance(value, Mapping) else {scorer: value}
    values = {key: LETTERS.get(number) if isinstance(number, str) else number for key, number in values.items()}
    return {str(key): float(number) for key, number in values.items() if isinstance(number, int | float)}


def direction(scorer: str, key: str, metadata: Mapping[str, Any]) -> Best | None:
    """Which end of a score is better; None if nothing declares it."""
    declared = metadata.get("higher_is_better")
    if isinstance(declared, bool):
        return "highest" if declared else "lowest"
    name = scorer.rsplit("/", 1)[-1]
    if name == "qualitative":  # its keys are the qualities of the user's rubric, their mean, and the spread
        return None if key == "spread" else "highest"
    if name in DIRECTIONS:
        return DIRECTIONS[name].get(key)
    return "highest" if CORRECTNESS.fullmatch(name) else None


def worst(scorer: str, key: str, best: Best, metadata: Mapping[str, Any]) -> float | None:
    """The worst number that a scorer can give, which an answer that cannot be read earns. None if it has none."""
    low, high = metadata.get("low"), metadata.get("high")
    if isinstance(low, int | float) and isinstance(high, int | float):
        return float(low if best == "highest" else high)
    name = scorer.rsplit("/", 1)[-1]
    if name in DIRECTIONS and key in WORST:
        return WORST[key]
    bounded = name in DIRECTIONS or name == "qualitative" or CORRECTNESS.fullmatch(name)
    if name == "reward_model" or not bounded:
        return None
    return 0.0 if best == "highest" else 1.0


def span(scorer: str, key: str, metadata: Mapping[str, Any]) -> tuple[float, float] | None:
    """The least and the greatest number that a score can be. None if it has no ends, or nothing declares them."""
    low, high = metadata.get("low"), metadata.get("high")
    if isinstance(low, int | float) and isinstance(high, int | float):
        return float(low), float(high)
    name = scorer.rsplit("/", 1)[-1]
    if key == "log_score" and name in DIRECTIONS:
        return -math.log(1 - CLIP), -math.log(CLIP)
    return (0.0, 1.0) if name not in ENDLESS and direction(scorer, key, metadata) else None


def fault_of(metadata: Mapping[str, Any]) -> Fault:
    """Where it lies that a score is NaN: its `fault`, or of scorers that record a `reason` only, how that begins."""
    if fault := metadata.get("fault"):
        return cast(Fault, fault)
    reason = str(metadata.get("reason") or "")
    if reason.startswith(NO_OUTCOME):
        return "setting"
    if GRADER_FAILED.match(reason):
        return "unreachable"
    return "judge" if JUDGE_AT_FAULT.match(reason) else "answer"

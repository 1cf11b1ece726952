"""A reward that is a number among the scores of any Inspect scorer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan
from typing import Any, Literal

from inspect_ai.scorer import value_to_float

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import binary_outcome
from truthgym.scorers.statistics.direction import DIRECTIONS, LETTERS, Best, direction, fault_of, worst
from truthgym.scorers.statistics.proper_scores import RULES
from truthgym.training.reward_functions.formulas import PROPER, PROPER_BY_KEY, Rewards, best_constant, share, signed
from truthgym.training.reward_functions.rollout import Rollout

DEFAULT_KEY = {
    "brier": "brier_score",
    "sycophantic_reasoning": "brier_score",
    "graded": "grade",
    "qualitative": "quality",
    "length": "kept",
    "rubric": "rubric_score",
    "reward_model": "reward",
}
"""The number of a scorer that is meant if the user names the scorer only."""
WORDS = ("yes", "no", "true", "false")
"""Text that Inspect converts to a number, besides digits and `LETTERS`; in any case. It converts all other text to 0,
which would be a grade that the scorer never gave."""


@dataclass(frozen=True)
class RolloutScore:
    """The score of one rollout. `value` is None if there is nothing to score."""

    value: float | None = None
    """NaN if the answer could not be parsed."""
    judge: Literal["read", "unread", "unreachable"] = "read"
    """Whether the scorer's own model could be reached, and its reply read. If not, `value` is None."""
    reason: str = ""
    """Why not."""

    @property
    def unparsed(self) -> bool:
        return self.value is not None and isnan(self.value)


@dataclass
class ScorerReward:
    """A scorer's number, negated if lower is better: a `Reward`."""

    name: str
    scorer: str
    key: str | None
    """None if the scorer's value is a single number, or the number in `DEFAULT_KEY`."""
    best: Best | None
    """Direction that the user gave; None for the one that the scorer declares."""
    figures: dict[str, float] = field(default_factory=dict, init=False)
    """Of the last batch, if it is above 0: the number of answers whose judge could not be reached, and the share, of
    those whose judge replied, whose judge's reply could not be read."""

    @property
    def proper(self) -> bool:
        """True for the proper scores of Truthgym's scorers, and for `graded`, whose grader may be one."""
        return self.scorer == "graded" or self._proper_score is not None

    @property
    def _proper_score(self) -> str | None:
        """Name of the built-in proper reward that this score equals."""
        key = self.key or DEFAULT_KEY.get(self.scorer, "")
        return PROPER_BY_KEY.get(key) if self.scorer in DIRECTIONS else None

    def __call__(self, rollouts: Sequence[Rollout]) -> Rewards:
        """One reward per rollout: None without a score, the lowest of the range if it crashed or is unparsed."""
        readings = [self.reading(rollout) for rollout in rollouts]
        failures = [reading.reason for reading in readings if reading.judge == "unreachable"]
        if failures and all(reading.value is None for reading in readings):
            raise BadInput(
                f"reward={self.name}: none of {len(rollouts)} answers could be graded. {failures[0]}; check that the "
                "model can be reached, and repeat the command: it resumes from the last checkpoint"
            )
        unread = [
            reading.judge == "unread" for reading in readings if reading.value is not None or reading.judge == "unread"
        ]
        figures = {"failed": float(len(failures)), "judge_unread": share(unread) if unread else 0.0}
        self.figures = {f"rewards/{self.name}/{key}": value for key, value in figures.items() if value}
        rewards = [
            reading.value
            if reading.value is None or reading.unparsed
            else signed(reading.value, self._direction(rollout))
            for rollout, reading in zip(rollouts, readings, strict=True)
        ]
        lowest = min((reward for reward in rewards if reward is not None and not isnan(reward)), default=None)
        scored = next((rollout for rollout in rollouts if self.scorer in rollout.scores), None)
        return [
            self._worst(scored if rollout.crashed else rollout, lowest) if reading.unparsed else reward
            for rollout, reading, reward in zip(rollouts, readings, rewards, strict=True)
        ]

    def baseline(self, rollouts: Sequence[Rollout]) -> float | None:
        """For proper scores only: other scores do not tell what the best constant answer is."""
        outcomes = [binary_outcome(rollout.target, rollout.metadata) for rollout in rollouts if not rollout.error]
        return best_constant(self._proper_score, outcomes) if self._proper_score else None

    def read(self, rollouts: Sequence[Rollout]) -> float:
        readings = [self.reading(rollout) for rollout in rollouts]
        return share([not reading.unparsed for reading in readings if reading.value is not None])

    def reading(self, rollout: Rollout) -> RolloutScore:
        """The number in a rollout's score, before its sign is turned. Errors as of a call."""
        score = rollout.scores.get(self.scorer)
        if score is None or rollout.error:
            return RolloutScore(float("nan") if rollout.crashed else None)
        value: Any = score.value
        key = self._key(rollout, value) if isinstance(value, Mapping) else None
        value = value if key is None else value[key]
        number = _number(value)
        if number is None:
            raise BadInput(
                f"reward={self.name}: {self.scorer} gave sample {rollout.sample_id} of {rollout.task} (epoch "
                f"{rollout.epoch}) the value {value!r:.80}, which is not a number; name a scorer that gives one"
            )
        if not isnan(number):
            return RolloutScore(number)
        metadata = score.metadata or {}
        reason, fault = metadata.get("reason", ""), fault_of(metadata)
        if reason and fault in ("judge", "unreachable"):
            return RolloutScore(judge="unread" if fault == "judge" else "unreachable", reason=str(reason))
        # Truthgym's scorers give a reason if an answer could not be parsed; without one there was nothing to measure.
        unknown = fault == "setting" or (key in RULES and metadata.get("outcome", "") is None)
        return RolloutScore(None if reason is None or unknown else number)

    def _key(self, rollout: Rollout, value: Mapping[str, Any]) -> str:
        key = self.key or DEFAULT_KEY.get(self.scorer)
        if key is None and len(value) == 1:
            return str(next(iter(value)))
        if key not in value:
            what = f"no {key}" if key else "several numbers"
            raise BadInput(
                f"reward={self.name}: {self.scorer} gave sample {rollout.sample_id} of {rollout.task} {what}; name one "
                f"of {', '.join(f'{self.scorer}/{name}' for name in value)}"
            )
        return str(key)

    def _direction(self, rollout: Rollout) -> Best:
        score = rollout.scores[self.scorer]
        key = self._key(rollout, score.value) if isinstance(score.value, Mapping) else self.scorer
        best = self.best or direction(self.scorer, key, score.metadata or {})
        if best is None:
            raise BadInput(
                f"reward={self.name}: {self.scorer}/{key} does not declare whether higher is better; use "
                f"{self.name}:highest or {self.name}:lowest"
            )
        return best

    def _worst(self, rollout: Rollout | None, lowest: float | None) -> float | None:
        """The lowest reward of the scorer's range, or of this batch if the range is unknown."""
        if rollout is None:
            return PROPER[self._proper_score].worst if self._proper_score else None
        best = self._direction(rollout)
        key = self.key or DEFAULT_KEY.get(self.scorer, self.scorer)
        value = worst(self.scorer, key, best, rollout.scores[self.scorer].metadata or {})
        return lowest if value is None else signed(value, best)


def _number(value: object) -> float | None:
    """A score's number as Inspect converts it: 1, 0.5 and 0 for its letters. None if it is not a number."""
    if value is None:
        return float("nan")
    if isinstance(value, str) and value not in LETTERS and value.lower() not in WORDS:
        try:
            number = float(value)
        except ValueError:
            return None
        return number if isfinite(number) else None
    if not isinstance(value, bool | int | float | str):
        return None
    number = value if isinstance(value, float) else value_to_float()(value)
    return number if isfinite(number) or isnan(number) else None

"""A reward that is a number among the scores of whatever Inspect scorer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan
from typing import Any

from inspect_ai.scorer import value_to_float

from truthgym.evallog.errors import bad_input
from truthgym.scorers.statistics.direction import CORRECTNESS, DIRECTIONS, Best, direction
from truthgym.scorers.statistics.proper_scores import RULES
from truthgym.training.reward_functions.formulas import (
    FAILED,
    KEYS,
    NO_OUTCOME,
    PROPER,
    Rewards,
    as_the_others,
    best_constant,
    outcome_of,
    share,
    signed,
)
from truthgym.training.reward_functions.rollout import Rollout

USUAL = {
    "brier": "brier_score",
    "sycophantic_reasoning": "brier_score",
    "graded": "grade",
    "qualitative": "quality",
    "length": "kept",
}
"""Which number of a scorer is meant where only the scorer is named."""
LETTERS = ("C", "P", "I", "N")
WORDS = ("yes", "no", "true", "false")
"""What Inspect takes for a number, besides numbers; words in whatever case. Of all else it makes a 0, a grade that
nobody gave."""


@dataclass
class NamedScore:
    """A scorer's number, its sign turned where less is better."""

    name: str
    scorer: str
    key: str | None
    """None where the scorer's value is one number, or one of `USUAL`."""
    best: Best | None
    """As the user said it; None is what the scorer says."""
    figures: dict[str, float] = field(default_factory=dict, init=False)
    """Of the last batch: how many answers a model could not be asked about, where there were any."""

    @property
    def proper(self) -> bool:
        """Proper scores of ours. So counts `graded`, whose grader may be one: its name alone does not tell."""
        key = self.key or USUAL.get(self.scorer, "")
        return self.scorer == "graded" or (self.scorer in DIRECTIONS and key in KEYS)

    def __call__(self, rollouts: Sequence[Rollout]) -> Rewards:
        """A run that failed or was not scored has no reward; an answer that cannot be read has the worst of the range.

        Where the scorer's own model could not be asked, see `reward_rules.as_the_others`.

        Raises:
            BadInput: A score that is no number, or whose better end nobody has said; a model that could not be asked
                about any answer.
        """
        told = [self._told(rollout) for rollout in rollouts]
        values = [value for value, _ in told]
        failures = [why for _, why in told if why]
        if failures and all(value is None for value in values):
            raise bad_input(
                f"reward={self.name}: not one of {len(rollouts)} answers could be graded. {failures[0]}; see that the "
                "model can be reached, and give the same command again: it goes on from the last checkpoint"
            )
        self.figures = {f"rewards/{self.name}/failed": float(len(failures))} if failures else {}
        rewards = [
            None if value is None else signed(value, self._end(r)) for r, value in zip(rollouts, values, strict=True)
        ]
        least = min((reward for reward in rewards if reward is not None and not isnan(reward)), default=None)
        rewards = [
            self._worst(r, least) if reward is not None and isnan(reward) else reward
            for r, reward in zip(rollouts, rewards, strict=True)
        ]
        questions = [(rollout.task, rollout.sample_id) for rollout in rollouts]
        return as_the_others(rewards, [why is not None for _, why in told], questions)

    def baseline(self, rollouts: Sequence[Rollout]) -> float | None:
        """Of proper scores of ours. What the best constant answer to another task is, its scores do not tell."""
        key = self.key or USUAL.get(self.scorer)
        known = {rule.key: name for name, rule in PROPER.items()}
        if self.scorer not in DIRECTIONS or key not in known:
            return None
        return best_constant(known[key], [outcome_of(r.target) for r in rollouts if not r.error])

    def read(self, rollouts: Sequence[Rollout]) -> float:
        values = [self._told(rollout)[0] for rollout in rollouts]
        return share([not isnan(value) for value in values if value is not None])

    def _told(self, rollout: Rollout) -> tuple[float | None, str | None]:
        """The number, and why a model could not be asked for it.

        NaN is an answer that could not be read; None stands where there is nothing to score, and where nobody could be
        asked.
        """
        score = rollout.scores.get(self.scorer)
        if score is None or rollout.error:
            return None, None
        held: Any = score.value
        key = self._key(rollout, held) if isinstance(held, Mapping) else None
        found = held if key is None else held[key]
        number = _number(found)
        if number is None:
            raise bad_input(
                f"reward={self.name}: {self.scorer} gave sample {rollout.sample_id} of {rollout.task} (epoch "
                f"{rollout.epoch}) the value {found!r:.80}, which is no number; name a scorer that gives one"
            )
        if not isnan(number):
            return number, None
        told = score.metadata or {}
        reason = told.get("reason", "")
        if FAILED.match(str(reason)):
            return None, str(reason)
        # Ours give the reason where an answer could not be read; without one there was nothing to measure.
        unknown = reason == NO_OUTCOME or (key in RULES and told.get("outcome", "") is None)
        return None if reason is None or unknown else number, None

    def _key(self, rollout: Rollout, held: Mapping[str, Any]) -> str:
        key = self.key or USUAL.get(self.scorer)
        if key is None and len(held) == 1:
            return str(next(iter(held)))
        if key not in held:
            what = f"no {key}" if key else "several numbers"
            raise bad_input(
                f"reward={self.name}: {self.scorer} gave sample {rollout.sample_id} of {rollout.task} {what}; name one "
                f"of {', '.join(f'{self.scorer}/{one}' for one in held)}"
            )
        return str(key)

    def _end(self, rollout: Rollout) -> Best:
        score = rollout.scores[self.scorer]
        key = self._key(rollout, score.value) if isinstance(score.value, Mapping) else self.scorer
        best = self.best or direction(self.scorer, key, score.metadata or {})
        if best is None:
            raise bad_input(
                f"reward={self.name}: which end of {self.scorer}/{key} is better is not known; write "
                f"{self.name}:highest or {self.name}:lowest"
            )
        return best

    def _worst(self, rollout: Rollout, least: float | None) -> float | None:
        """The least reward of the scorer's range; of this batch where the range is not known."""
        score, best = rollout.scores[self.scorer], self._end(rollout)
        told = score.metadata or {}
        low, high = told.get("low"), told.get("high")
        if isinstance(low, int | float) and isinstance(high, int | float):
            return signed(float(low if best == "highest" else high), best)
        key = self.key or USUAL.get(self.scorer, "")
        if self.scorer in DIRECTIONS and key in KEYS:
            return KEYS[key].worst
        if self.scorer in DIRECTIONS or self.scorer == "qualitative" or CORRECTNESS.fullmatch(self.scorer):
            return signed(0.0 if best == "highest" else 1.0, best)
        return least


def _number(held: object) -> float | None:
    """A score's number as Inspect reads it: 1, 0.5 and 0 for its letters. None where it is none."""
    if held is None:
        return float("nan")
    if isinstance(held, str) and held not in LETTERS and held.lower() not in WORDS:
        try:
            number = float(held)
        except ValueError:
            return None
        return number if isfinite(number) else None
    if not isinstance(held, bool | int | float | str):
        return None
    number = held if isinstance(held, float) else value_to_float()(held)
    return number if isfinite(number) or isnan(number) else None

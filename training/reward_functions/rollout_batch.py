"""Adapter from rollouts to the built-in rewards: the columns of a `Batch` from what Inspect's scorers recorded."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import binary_outcome
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.scorers.statistics.instrumented_slope import MIN_QUESTIONS
from truthgym.training.reward_functions.builtin import BUILTIN, STATED_BELIEF_SCORERS
from truthgym.training.reward_functions.formulas import Rewards, share
from truthgym.training.reward_functions.rollout import Rollout


class RolloutBatch:
    """A `Batch` of rollouts. Those with a failed model call are left out of every column."""

    def __init__(self, rollouts: Sequence[Rollout]) -> None:
        self.rollouts = [rollout for rollout in rollouts if not rollout.call_failed]
        self.figures: dict[str, float] = {}

    @cached_property
    def beliefs(self) -> list[float | None]:
        return [belief_of(rollout) for rollout in self.rollouts]

    @cached_property
    def outcomes(self) -> list[float | None]:
        return [binary_outcome(rollout.target) for rollout in self.rollouts]

    @property
    def lengths(self) -> list[int]:
        return [0 if r.crashed or not r.answer.strip() else r.tokens for r in self.rollouts]

    @property
    def groups(self) -> list[Hashable]:
        return [rollout.sample for rollout in self.rollouts]

    @property
    def questions(self) -> list[Hashable]:
        # The sample ids of a question's arms differ; the question in their metadata is the same.
        return [(r.task, str(r.metadata.get("question", r.sample_id))) for r in self.rollouts]

    @property
    def arms(self) -> list[str]:
        return [str(rollout.metadata.get("arm", "neutral")) for rollout in self.rollouts]

    @property
    def priors(self) -> list[float | None]:
        return [_recorded(rollout, "martingale", "prior") for rollout in self.rollouts]

    @property
    def posteriors(self) -> list[float | None]:
        return [_recorded(rollout, "martingale", "posterior") for rollout in self.rollouts]

    @property
    def information_weight(self) -> float | None:
        """The scorer's `information_weight` if that is above 0."""
        settings = [_metadata(rollout, "martingale").get("settings") or {} for rollout in self.rollouts]
        weights = [
            float(setting.get("information_weight", 0.0)) for setting in settings if isinstance(setting, Mapping)
        ]
        return max(weights, default=0.0) or None

    def log(self, name: str, value: float) -> None:
        if value == value:
            self.figures[name] = value


@dataclass
class BuiltinReward:
    """A built-in reward of rollouts: a `Reward`. A rollout with a failed model call gets None."""

    name: str
    """A key of `BUILTIN`."""
    figures: dict[str, float] = field(default_factory=dict, init=False)
    """Figures of the last batch, such as the martingale slope, as far as they are identified."""

    @property
    def proper(self) -> bool:
        return BUILTIN[self.name].proper

    def __call__(self, rollouts: Sequence[Rollout]) -> Rewards:
        """One reward per rollout.

        `martingale` gives None to a question with a single rollout or without a parsed prior. Validation asks each
        question once, and a single rollout cannot separate its prior from noise, so there it gives None to all.
        """
        if self.name == "martingale":
            _check_martingale(rollouts)
        batch = RolloutBatch(rollouts)
        rewards = iter(BUILTIN[self.name].rewards(batch))
        self.figures = batch.figures
        return [None if rollout.call_failed else next(rewards) for rollout in rollouts]

    def baseline(self, rollouts: Sequence[Rollout]) -> float | None:
        return BUILTIN[self.name].constant(RolloutBatch(rollouts))

    def read(self, rollouts: Sequence[Rollout]) -> float:
        if self.name != "martingale":
            return share_read(rollouts)
        batch = RolloutBatch(rollouts)
        return share([None not in beliefs for beliefs in zip(batch.priors, batch.posteriors, strict=True)])


def belief_of(rollout: Rollout) -> float | None:
    """The belief stated in the answer: as a scorer recorded it, otherwise parsed by the rules that scorers use."""
    if rollout.error:
        return None
    for scorer in STATED_BELIEF_SCORERS:
        if scorer in rollout.scores:
            return _recorded(rollout, scorer, "belief")
    return read_belief(rollout.answer, decimal=True)


def share_read(rollouts: Sequence[Rollout]) -> float:
    """Share of the rollouts with a belief that could be parsed; NaN if there are none."""
    return share([belief is not None for belief in RolloutBatch(rollouts).beliefs])


def _metadata(rollout: Rollout, scorer: str) -> Mapping[str, object]:
    score = rollout.scores.get(scorer)
    return (score.metadata if score else None) or {}


def _recorded(rollout: Rollout, scorer: str, key: str) -> float | None:
    """A number from a scorer's metadata, which hold it unrounded, otherwise from its value."""
    score = rollout.scores.get(scorer)
    value = score.value.get(key) if score and isinstance(score.value, Mapping) else None
    number = _metadata(rollout, scorer).get(key, value)
    return float(number) if isinstance(number, int | float) and number == number else None


def _check_martingale(rollouts: Sequence[Rollout]) -> None:
    questions = len({rollout.sample for rollout in rollouts})
    if questions < min(MIN_QUESTIONS, len(rollouts)):
        raise BadInput(
            f"reward=martingale: a batch of {questions} questions is too small to estimate a slope; train on at least "
            f"{MIN_QUESTIONS} at a time (--generation_batch_size divided by --num_generations)"
        )
    for rollout in rollouts:
        beliefs = _metadata(rollout, "martingale").get("beliefs")
        for belief in beliefs if isinstance(beliefs, list) and not rollout.error else []:
            if belief.get("stage") == "prior":
                if belief.get("saw_reasoning"):
                    raise BadInput(
                        f"reward=martingale: the prior of sample {rollout.sample_id} was elicited with the reasoning "
                        "in view, so it is not a prior; use elicitor=self or elicitor=judge"
                    )
                break

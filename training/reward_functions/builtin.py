"""The built-in rewards by name: one table, for rollouts and for TRL's text alike.

A reward reads a batch of answers as columns, one entry per answer, and only the columns that it needs. There are two
kinds of batches: `RolloutBatch`, of rollouts that Inspect has scored (`truthgym train grpo --reward NAME`), and
`TextBatch`, of the completions and columns that TRL passes to a reward function (`--reward_funcs
truthgym.training.trl_rewards.NAME`).
"""

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from inspect_ai.util import warn_once

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import arm_of, binary_outcome
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.scorers.statistics.instrumented_slope import MIN_QUESTIONS
from truthgym.training.reward_functions.formulas import (
    PROPER,
    Rewards,
    best_constant,
    consistency_rewards,
    length_rewards,
    proper_rewards,
    share,
)
from truthgym.training.reward_functions.martingale import INFORMATION_WEIGHT, WEIGHT, martingale_rewards
from truthgym.training.reward_functions.rollout import Rollout

logger = logging.getLogger(__name__)

STATED_BELIEF_SCORERS = ("brier", "sycophantic_reasoning")
"""Scorers that record the belief stated in the answer and the outcome."""
Columns = Mapping[str, object]
"""What TRL passes to a reward function by name: the dataset's columns as lists, `completion_ids`, `log_metric`."""


class RolloutBatch:
    """Rollouts as columns, from what Inspect's scorers recorded. Those with a failed model call are left out."""

    def __init__(self, rollouts: Sequence[Rollout]) -> None:
        self.rollouts = [rollout for rollout in rollouts if not rollout.call_failed]
        self.figures: dict[str, float] = {}

    @cached_property
    def beliefs(self) -> list[float | None]:
        """Probability of "yes" stated in each answer; None if it could not be parsed."""
        return [belief_of(rollout) for rollout in self.rollouts]

    @cached_property
    def outcomes(self) -> list[float | None]:
        """1 or 0; None if the truth is unknown."""
        return [binary_outcome(rollout.target, rollout.metadata) for rollout in self.rollouts]

    @property
    def lengths(self) -> list[int]:
        """Tokens that the model wrote; 0 for an empty answer."""
        return [0 if r.crashed or not r.answer.strip() else r.tokens for r in self.rollouts]

    @property
    def groups(self) -> list[Hashable]:
        """Identity of the prompt: the answers to one prompt are a group."""
        return [rollout.sample for rollout in self.rollouts]

    @property
    def questions(self) -> list[Hashable]:
        """Identity of the question. The sample ids of the arms of a sycophancy test differ, and this is the same."""
        return [(r.task, str(r.metadata.get("question", r.sample_id))) for r in self.rollouts]

    @property
    def arms(self) -> list[str]:
        """Arm of the sycophancy test."""
        return [arm_of(rollout.metadata) for rollout in self.rollouts]

    @property
    def priors(self) -> list[float | None]:
        """Belief before the reasoning."""
        return [_recorded(rollout, "martingale", "prior") for rollout in self.rollouts]

    @property
    def posteriors(self) -> list[float | None]:
        """Belief after the reasoning."""
        return [_recorded(rollout, "martingale", "posterior") for rollout in self.rollouts]

    @property
    def information_weight(self) -> float:
        """The scorer's `information_weight` if that is above 0, or the default."""
        settings: list[Any] = [_metadata(rollout, "martingale").get("settings") or {} for rollout in self.rollouts]
        return max((options.get("information_weight", 0.0) for options in settings), default=0.0) or INFORMATION_WEIGHT

    def log(self, name: str, value: float) -> None:
        """Keep a figure that is not NaN."""
        if value == value:
            self.figures[name] = value


@dataclass(frozen=True)
class TextBatch:
    """Completions as the columns of `RolloutBatch`. One that the dataset lacks is an error only if it is read."""

    prompts: Sequence[object]
    completions: Sequence[object]
    columns: Columns
    information_weight: float = INFORMATION_WEIGHT

    @cached_property
    def texts(self) -> list[str]:
        return [message_text(completion) for completion in self.completions]

    @cached_property
    def beliefs(self) -> list[float | None]:
        """Beliefs parsed by the rules that scorers use; the share that could be parsed is logged as `share_read`."""
        beliefs = [read_belief(text, decimal=True) for text in self.texts]
        self.log("share_read", share([belief is not None for belief in beliefs]))
        return beliefs

    @cached_property
    def outcomes(self) -> list[float | None]:
        targets = column(self.columns, "target", '"yes", "no", or empty if unknown')
        facts = {name: values for name in ("form", "options") if isinstance(values := self.columns.get(name), list)}
        rows = [{name: facts[name][i] for name in facts if facts[name][i]} for i in range(len(targets))]
        outcomes = [binary_outcome(*pair) for pair in zip(targets, rows, strict=True)]
        for target, row, outcome in zip(targets, rows, outcomes, strict=True):
            if outcome is None and target not in (None, "") and row.get("form", "binary") == "binary":
                warn_once(
                    logger,
                    f"No reward: the target {target!r} is neither yes nor no; write one of them, or leave it empty.",
                )
        return outcomes

    @property
    def lengths(self) -> list[int]:
        """Tokens that the model wrote; 0 for an empty answer, since an end token alone is not an answer."""
        ids = column(self.columns, "completion_ids", "passed by TRL's trainers")
        return [len(tokens) if text.split() else 0 for tokens, text in zip(ids, self.texts, strict=True)]

    @cached_property
    def groups(self) -> list[Hashable]:
        return [repr(prompt) for prompt in self.prompts]

    @property
    def questions(self) -> list[Hashable]:
        return column(self.columns, "question", "of truthgym/sycophancy")

    @property
    def arms(self) -> list[str]:
        return [str(arm) for arm in column(self.columns, "arm", "of truthgym/sycophancy")]

    @property
    def priors(self) -> list[float | None]:
        """One reading per completion, so that no two completions to a prompt share a reading's error."""
        rows = column(self.columns, "priors", "add it: two or more readings of the prior per prompt")
        readings = [_prior_readings(row, i) for i, row in enumerate(rows)]
        counts: dict[Hashable, int] = {}
        priors = []
        for group, row in zip(self.groups, readings, strict=True):
            number = counts[group] = counts.get(group, -1) + 1
            priors.append(row[number % len(row)])
        return priors

    @property
    def posteriors(self) -> list[float | None]:
        return self.beliefs

    def log(self, name: str, value: float) -> None:
        log(self.columns, name, value)


Batch = RolloutBatch | TextBatch


@dataclass(frozen=True)
class Builtin:
    """A built-in reward."""

    rewards: Callable[[Batch], Rewards]
    """One reward per answer, higher is better; None if there is none."""
    constant: Callable[[Batch], float | None] = lambda batch: None
    """Mean reward of the best constant answer; None if there is none."""
    proper: bool = False
    """Whether it is a proper score of a stated belief."""
    scorers: tuple[str, ...] = ()
    """Scorers of which an Inspect task must have at least one. Empty if the reward reads the answer alone."""


def _proper(name: str) -> Builtin:
    return Builtin(
        rewards=lambda batch: proper_rewards(name, batch.beliefs, batch.outcomes),
        constant=lambda batch: best_constant(name, batch.outcomes),
        proper=True,
        scorers=STATED_BELIEF_SCORERS,
    )


def martingale_reward(batch: Batch, weight: float = WEIGHT) -> Rewards:
    """The martingale reward of a batch, with its slope and information logged. See `martingale.martingale_rewards`."""
    result = martingale_rewards(
        batch.groups,
        batch.priors,
        batch.posteriors,
        batch.outcomes,
        weight=weight,
        information_weight=batch.information_weight,
    )
    batch.log("martingale_slope", result.slope)
    batch.log("martingale_information", result.information)
    return result.rewards


BUILTIN: dict[str, Builtin] = {
    **{name: _proper(name) for name in PROPER},
    "martingale": Builtin(
        martingale_reward,
        constant=lambda batch: 0.0,  # the same belief before and after: no movement and no information
        proper=True,  # its information term is a proper score of the posterior
        scorers=("martingale",),
    ),
    "consistency": Builtin(
        lambda batch: consistency_rewards(batch.beliefs, batch.questions, batch.arms),
        constant=lambda batch: 0.0,
        scorers=("sycophantic_reasoning",),
    ),
    "format": Builtin(
        lambda batch: [float(belief is not None) for belief in batch.beliefs], constant=lambda batch: 1.0
    ),
    "shorter": Builtin(lambda batch: length_rewards(batch.lengths)),
    "longer": Builtin(lambda batch: length_rewards(batch.lengths, longer=True)),
}
"""Every built-in reward by name: `--reward NAME`, and `truthgym.training.trl_rewards.NAME` for TRL."""

REQUIRED_SCORERS = {name: builtin.scorers for name, builtin in BUILTIN.items()}
"""By reward, the scorers of which a task must have at least one."""


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
        """One reward per rollout; of `martingale` None for a question with a single rollout, as in validation."""
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


def message_text(message: object) -> str:
    """The text of a completion or prompt as TRL passes it: a string, or messages of which the last one counts."""
    if isinstance(message, list):
        message = message[-1]["content"] if message else ""
    if isinstance(message, list):
        message = "\n".join(str(block.get("text") or "") for block in message)
    return message if isinstance(message, str) else ""


def column(columns: Columns, name: str, content: str) -> list[Any]:
    """A column of the dataset, one entry per completion."""
    values = columns.get(name)
    if not isinstance(values, list):
        raise BadInput(
            f"The dataset has no column {name} ({content}); train on the rows that `truthgym convert --to prompts` "
            "writes, or add the column"
        )
    return values


def log(columns: Columns, name: str, value: float) -> None:
    """Log a figure through TRL, if TRL passed `log_metric`. NaN is not logged."""
    log_metric = columns.get("log_metric")
    if callable(log_metric) and value == value:
        cast(Callable[[str, float], None], log_metric)(name, value)


def _metadata(rollout: Rollout, scorer: str) -> Mapping[str, object]:
    score = rollout.scores.get(scorer)
    return (score.metadata if score else None) or {}


def _recorded(rollout: Rollout, scorer: str, key: str) -> float | None:
    """A number from a scorer's metadata, which hold it unrounded, otherwise from its value."""
    score = rollout.scores.get(scorer)
    value = score.value.get(key) if score and isinstance(score.value, Mapping) else None
    number = _metadata(rollout, scorer).get(key, value)
    return float(number) if isinstance(number, int | float) and number == number else None


def _prior_readings(row: object, place: int) -> list[float | None]:
    """One row of the column `priors`. None for a missing reading."""
    readings = [None if value != value else value for value in row] if isinstance(row, list | tuple) else []
    if len(readings) < 2 or not all(value is None or _is_belief(value) for value in readings):
        raise BadInput(
            f"reward martingale: priors={row!r:.60} of completion {place} does not hold two readings; give a list of "
            "two or more beliefs between 0 and 1 per prompt"
        )
    return readings


def _is_belief(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _check_martingale(rollouts: Sequence[Rollout]) -> None:
    """Refuse a batch from which no slope can be estimated, or whose priors were elicited after the reasoning."""
    questions = len({rollout.sample for rollout in rollouts})
    if questions < min(MIN_QUESTIONS, len(rollouts)):
        raise BadInput(
            f"reward=martingale: a batch of {questions} questions is too small to estimate a slope; train on at least "
            f"{MIN_QUESTIONS} at a time (--generation_batch_size divided by --num_generations)"
        )
    for rollout in (rollout for rollout in rollouts if not rollout.error):
        beliefs: Any = _metadata(rollout, "martingale").get("beliefs") or []
        if next((belief.get("saw_reasoning") for belief in beliefs if belief.get("stage") == "prior"), False):
            raise BadInput(
                f"reward=martingale: the prior of sample {rollout.sample_id} was elicited with the reasoning in view, "
                "so it is not a prior; use elicitor=self or elicitor=judge"
            )

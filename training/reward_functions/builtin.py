"""Rewards of our own for rollouts that Inspect has scored."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from truthgym.evallog.errors import bad_input
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.scorers.statistics.slopes import LEAST_QUESTIONS
from truthgym.training.reward_functions.formulas import (
    PROPER,
    Rewards,
    best_constant,
    consistency_rewards,
    length_rewards,
    outcome_of,
    proper_rewards,
    share,
)
from truthgym.training.reward_functions.martingale import INFORMATION_WEIGHT, martingale_rewards
from truthgym.training.reward_functions.rollout import Rollout

STATING = ("brier", "sycophantic_reasoning")
"""Scorers that record the belief stated in the answer and the outcome."""
NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(PROPER, STATING),
    "martingale": ("martingale",),
    "consistency": ("sycophantic_reasoning",),
    **dict.fromkeys(("format", "shorter", "longer"), ()),
}
"""By reward, the scorers of which a task must have one. None are needed for those that look at the answer alone."""


@dataclass
class Stated:
    """A proper score of the belief stated in the answer. See `reward_rules.PROPER`."""

    name: str
    proper: bool = field(default=True, init=False)

    def __call__(self, rollouts: Sequence[Rollout]) -> Rewards:
        """A failed run has no reward; an answer that cannot be read has the worst of the range."""
        rewards = proper_rewards(self.name, [belief_of(r) for r in rollouts], outcomes(rollouts))
        return [None if r.error else reward for r, reward in zip(rollouts, rewards, strict=True)]

    def baseline(self, rollouts: Sequence[Rollout]) -> float | None:
        return best_constant(self.name, outcomes([r for r in rollouts if not r.error]))

    def read(self, rollouts: Sequence[Rollout]) -> float:
        return share_read(rollouts)


@dataclass
class OfAnswer:
    """A reward of the answer's form or length, or of its nearness to others. None for a failed run."""

    name: str
    function: Callable[[Sequence[Rollout]], Rewards]
    constant: float | None
    """What the best constant answer earns."""
    proper: bool = field(default=False, init=False)

    def __call__(self, rollouts: Sequence[Rollout]) -> Rewards:
        rewards = iter(self.function([rollout for rollout in rollouts if not rollout.error]))
        return [None if rollout.error else next(rewards) for rollout in rollouts]

    def baseline(self, rollouts: Sequence[Rollout]) -> float | None:
        return self.constant

    def read(self, rollouts: Sequence[Rollout]) -> float:
        return share_read(rollouts)


@dataclass
class Updates:
    """The martingale reward of the beliefs that the scorer `martingale` elicited. See `martingale_reward`."""

    name: str = "martingale"
    proper: bool = field(default=True, init=False)
    """Its information term is a proper score of the posterior."""
    figures: dict[str, float] = field(default_factory=dict, init=False)
    """Of the last batch: its slope and what was learned, as far as they are identified."""

    def __call__(self, rollouts: Sequence[Rollout]) -> Rewards:
        """One reward each; None for a failed run, one rollout alone, and a question without a prior that was read.

        So there is none at all in a validation, which asks each question once: one rollout does not tell its prior
        from noise. The information term's weight is the scorer's `information_weight`, where that is above 0.

        Raises:
            BadInput: Too few questions in a batch of training: there is no slope to be had. Priors that saw the
                reasoning.
        """
        asked = {(rollout.task, rollout.sample_id) for rollout in rollouts}
        if len(asked) < min(LEAST_QUESTIONS, len(rollouts)):
            raise bad_input(
                f"reward={self.name}: a batch of {len(asked)} questions holds no slope; train on "
                f"{LEAST_QUESTIONS} questions or more at a time (--generation_batch_size, divided by --num_generations)"
            )
        ran = [rollout for rollout in rollouts if not rollout.error]
        for rollout in ran:
            _check_prior(rollout)
        ends = [_ends(rollout) for rollout in ran]
        given = [_information_weight(rollout) for rollout in ran]
        found = martingale_rewards(
            [(rollout.task, rollout.sample_id) for rollout in ran],
            [prior for prior, _ in ends],
            [posterior for _, posterior in ends],
            outcomes(ran),
            information_weight=max(given, default=0.0) or INFORMATION_WEIGHT,
        )
        told = {"martingale_slope": found.slope, "martingale_information": found.information}
        self.figures = {name: figure for name, figure in told.items() if figure == figure}
        rewards = iter(found.rewards)
        return [None if rollout.error else next(rewards) for rollout in rollouts]

    def baseline(self, rollouts: Sequence[Rollout]) -> float | None:
        """0: who says the same before and after moves nothing and learns nothing."""
        return 0.0

    def read(self, rollouts: Sequence[Rollout]) -> float:
        return share([None not in _ends(rollout) for rollout in rollouts if not rollout.error])


def of_ours(name: str) -> "Stated | OfAnswer | Updates":
    """Make a reward by its name, a key of `NEEDS`."""
    if name in PROPER:
        return Stated(name)
    if name == "martingale":
        return Updates()
    made: dict[str, tuple[Callable[[Sequence[Rollout]], Rewards], float | None]] = {
        "format": (lambda ran: [float(belief_of(r) is not None) for r in ran], 1.0),
        "consistency": (_consistency, 0.0),
        "shorter": (lambda ran: length_rewards(_tokens(ran)), None),
        "longer": (lambda ran: length_rewards(_tokens(ran), longer=True), None),
    }
    return OfAnswer(name, *made[name])


def belief_of(rollout: Rollout) -> float | None:
    """The belief stated in the answer: as a scorer read it, else as it would."""
    for scorer in STATING:
        if scorer in rollout.scores:
            return _number(rollout, scorer, "belief")
    return read_belief(rollout.answer)


def share_read(rollouts: Sequence[Rollout]) -> float:
    """Share of the finished rollouts in which a belief could be read; NaN of none."""
    return share([belief_of(rollout) is not None for rollout in rollouts if not rollout.error])


def outcomes(rollouts: Sequence[Rollout]) -> list[float | None]:
    """1 or 0 for each; None where the truth is not known."""
    return [outcome_of(rollout.target) for rollout in rollouts]


def _consistency(rollouts: Sequence[Rollout]) -> Rewards:
    # Arms of a question differ in the sample's id.
    questions = [(r.task, str(r.metadata.get("question", r.sample_id))) for r in rollouts]
    arms = [str(r.metadata.get("arm", "neutral")) for r in rollouts]
    return consistency_rewards([belief_of(r) for r in rollouts], questions, arms)


def _tokens(rollouts: Sequence[Rollout]) -> list[int]:
    return [rollout.tokens if rollout.answer.strip() else 0 for rollout in rollouts]


def _number(rollout: Rollout, scorer: str, key: str) -> float | None:
    """What a scorer read. Its metadata hold it as it was read; its value may be rounded."""
    score = rollout.scores.get(scorer)
    if score is None:
        return None
    held = score.value.get(key) if isinstance(score.value, Mapping) else None
    read = (score.metadata or {}).get(key, held)
    return float(read) if isinstance(read, int | float) and read == read else None


def _ends(rollout: Rollout) -> tuple[float | None, float | None]:
    return _number(rollout, "martingale", "prior"), _number(rollout, "martingale", "posterior")


def _information_weight(rollout: Rollout) -> float:
    told = (rollout.scores["martingale"].metadata or {}) if "martingale" in rollout.scores else {}
    return float((told.get("settings") or {}).get("information_weight", 0.0))


def _check_prior(rollout: Rollout) -> None:
    beliefs = (rollout.scores["martingale"].metadata or {}).get("beliefs", []) if "martingale" in rollout.scores else []
    first: Mapping[str, object] = next((belief for belief in beliefs if belief.get("stage") == "prior"), {})
    if first.get("saw_reasoning"):
        raise bad_input(
            f"reward=martingale: the prior of sample {rollout.sample_id} was read where the reasoning could be seen, "
            "so it tells nothing of what was believed before; use elicitor=self or elicitor=judge"
        )

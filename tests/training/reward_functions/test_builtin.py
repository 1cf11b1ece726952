"""Built-in rewards of rollouts, read from what Truthgym's scorers recorded."""

from typing import Any

import numpy as np
import pytest
from inspect_ai.scorer import Score

from truthgym.datasets.errors import BadInput
from truthgym.training.reward_functions.builtin import BUILTIN, BuiltinReward, belief_of, share_read
from truthgym.training.reward_functions.martingale import martingale_rewards
from truthgym.training.reward_functions.rollout import Rollout


def rollout_of_brier(belief: float, target: str = "yes", **fields: Any) -> Rollout:
    value = {"belief": belief, "brier_score": 0.0}
    reason = None if belief == belief else "No single belief could be read."
    score = Score(value=value, metadata={"belief": belief if belief == belief else None, "reason": reason})
    return Rollout("urns", "1", 1, "Is it?", target, scores={"brier": score}, answer="Hm.", tokens=64, **fields)


def updated(number: int, epoch: int, prior: float, posterior: float, **fields: Any) -> Rollout:
    score = Score(value={"prior": prior, "posterior": posterior, "change": posterior - prior}, metadata=fields)
    return Rollout("urns", str(number), epoch, "Is it?", "yes", scores={"martingale": score})


def batch(**fields: Any) -> list[Rollout]:
    rng = np.random.default_rng(0)
    drawn = rng.uniform(0.1, 0.4, (12, 3))
    return [updated(q, e, drawn[q, e] + q / 24, 0.6, **fields) for q in range(12) for e in range(3)]


def test_a_proper_reward_of_what_was_read() -> None:
    crashed = rollout_of_brier(0.7, error="ValueError")
    lost = rollout_of_brier(0.7, error="ConnectError", call_failed=True)
    answered = [rollout_of_brier(belief, target) for belief, target in ((0.7, "yes"), (0.7, "no"), (np.nan, "yes"))]
    rollouts = [*answered, rollout_of_brier(0.7, ""), crashed, lost]
    brier = BuiltinReward("brier")
    assert brier(rollouts) == [pytest.approx(-0.09), pytest.approx(-0.49), -1.0, None, -1.0, None]
    assert brier.baseline(rollouts) == pytest.approx(-(3 / 4) * (1 / 4))
    assert brier.read(rollouts) == 0.6
    assert brier.proper


def test_a_belief_without_a_scorer_is_parsed_from_the_answer() -> None:
    unscored = Rollout("mine", "1", 1, "Is it?", "yes", answer=r"\finalBeliefProb{0.9}")
    assert belief_of(unscored) == 0.9
    # what a scorer could not read, as where the reasoning was cut short, is not read behind its back
    cut = Rollout(
        "mine", "1", 1, "Is it?", "yes", scores=rollout_of_brier(np.nan).scores, answer=r"\finalBeliefProb{0.9}"
    )
    assert belief_of(cut) is None
    assert share_read([unscored, cut]) == 0.5


def test_rewards_of_form_and_length() -> None:
    rollouts = [rollout_of_brier(0.7), rollout_of_brier(np.nan), rollout_of_brier(0.5, error="ValueError")]
    assert BuiltinReward("format")(rollouts) == [1.0, 0.0, 0.0]
    assert BuiltinReward("shorter")(rollouts) == [-0.125, -0.125, -1.0]
    assert BuiltinReward("longer")(rollouts) == [0.125, 0.125, 0.0]
    assert all(BuiltinReward(name)([]) == [] for name in BUILTIN), "of an empty batch"


def test_consistency_pairs_the_arms_of_a_question() -> None:
    arms = [("neutral", 0.4), ("user_yes", 0.9), ("third_yes", 0.6)]
    rollouts = [
        Rollout("s", f"q/{arm}", 1, "Is it?", "no", {"question": "q", "arm": arm}, answer=f"{100 * b:.0f}%")
        for arm, b in arms
    ]
    assert BuiltinReward("consistency")(rollouts) == [None, pytest.approx(-0.16), None]


def test_updates_are_those_of_the_martingale_score() -> None:
    rollouts = batch()
    reward = BuiltinReward("martingale")
    ends = [[float(str(r.scores["martingale"].as_dict()[end])) for r in rollouts] for end in ("prior", "posterior")]
    expected = martingale_rewards([r.sample_id for r in rollouts], ends[0], ends[1], [1.0] * 36)
    assert reward(rollouts) == expected.rewards
    assert reward.figures == {"martingale_slope": expected.slope, "martingale_information": expected.information}
    assert reward.baseline(rollouts) == 0
    assert reward.read(rollouts) == 1
    for questions in (4, 12):
        assert reward(rollouts[: 3 * questions : 3]) == [None] * questions, "one rollout of each"
        assert reward.figures == {}


def test_the_weight_of_information_is_the_scorers() -> None:
    once = BuiltinReward("martingale")(batch())
    thrice = BuiltinReward("martingale")(batch(settings={"information_weight": 3.0}))
    gains = np.array(thrice, dtype=float) - np.array(once, dtype=float)
    prior = np.array([r.scores["martingale"].as_dict()["prior"] for r in batch()], dtype=float).reshape(12, 3)
    others = ((1 - prior) ** 2).sum(axis=1, keepdims=True) - (1 - prior) ** 2
    assert gains == pytest.approx(2 * (others / 2 - 0.4**2).ravel())


@pytest.mark.parametrize(
    ("rollouts", "words"),
    [
        (batch()[:27], "batch of 9 questions is too small"),
        (batch(beliefs=[{"stage": "prior", "saw_reasoning": True}]), "prior of sample 0 was elicited"),
    ],
    ids=["questions", "saw-reasoning"],
)
def test_batches_that_hold_no_slope(rollouts: list[Rollout], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        BuiltinReward("martingale")(rollouts)

"""Choosing rewards by name, with options that keep them proper; what is trained for is what an evaluation measures."""

from types import SimpleNamespace
from typing import Any

import pytest
from inspect_ai.log import EvalLog

from tests.fixtures import Run
from truthgym.datasets.errors import BadInput
from truthgym.tasks.worlds import urns
from truthgym.training import trl_rewards as of_text
from truthgym.training.reward_functions.resolve import IMPROPER_OPTIONS, check_scaling, check_weights, resolve_rewards
from truthgym.training.reward_functions.rollout import Rollout

URNS = {"truthgym/urns": ["brier", "martingale"]}
TASKS = {"truthgym/urns": ["brier"], "truthgym/sycophancy": ["sycophantic_reasoning"]}
GRPO: dict[str, Any] = {"scale_rewards": "none", "multi_objective_aggregation": "sum_then_normalize"}
RLOO = {"normalize_advantages": False, "reward_clip_range": None}
IMPROPER: list[dict[str, Any]] = [
    *(GRPO | {"scale_rewards": scale} for scale in ("group", True, "batch")),
    GRPO | {"multi_objective_aggregation": "normalize_then_sum"},
    RLOO | {"normalize_advantages": True},
    RLOO | {"reward_clip_range": (-0.5, 0.0)},
]


@pytest.mark.parametrize(
    ("names", "scorers", "resolved"),
    [
        ([], URNS, ["brier"]),
        ([], {"a": ["match", "brier"], "b": ["brier"]}, ["brier"]),
        ([], {"gsm8k": ["match"]}, ["match"]),
        ([], {"a": ["match", "mine"], "b": ["match"]}, ["match"]),
        ([], {"a": ["graded"]}, ["graded"]),
        (["martingale", "format"], URNS, ["martingale", "format"]),
        (["brier/accuracy"], URNS, ["brier/accuracy"]),
        (["truthgym/brier/accuracy"], URNS, ["truthgym/brier/accuracy"]),
        (["martingale/change:highest"], URNS, ["martingale/change:highest"]),
        (["truthgym.training.trl_rewards.shorter"], URNS, ["truthgym.training.trl_rewards.shorter"]),
    ],
)
def test_rewards_by_name(names: list[str], scorers: dict[str, list[str]], resolved: list[str]) -> None:
    assert [reward.name for reward in resolve_rewards(names, scorers)] == resolved


@pytest.mark.parametrize(
    ("names", "scorers", "words"),
    [
        (["britney"], URNS, "reward=britney: unknown reward or scorer; known: .*brier, martingale"),
        (["brier"], {**URNS, "gsm8k": ["match"]}, "the task gsm8k has match; give it paradigms=brier"),
        (["consistency", "brier"], URNS, "train on truthgym/sycophancy"),
        (["match"], {"a": ["match"], "b": ["brier"]}, "the task b has no scorer match, but brier"),
        (["brier/belief"], URNS, "belief of brier has no direction.*name one of brier_score"),
        (["brier/belief:best"], URNS, "unknown direction 'best'; use brier/belief:lowest"),
        (["brier:highest"], URNS, "reward=brier:highest would reward being wrong: the lowest brier is best"),
        (["brier/spherical_score:lowest"], URNS, "the highest brier/spherical_score is best"),
        (["brier", "brier"], URNS, "name each reward once"),
        ([], {"a": ["mine"]}, "no scorer has a direction"),
        ([], {"a": ["match", "choice"]}, r"several scorers could be the reward \(choice, match\)"),
        (["consistency"], {"s": ["sycophantic_reasoning"]}, "consistency is maximised"),
        (["gone.py:f"], URNS, "cannot be loaded"),
    ],
)
def test_names_that_cannot_be_used(names: Any, scorers: dict[str, list[str]], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        resolve_rewards(names, scorers)


def rollouts_of(log: EvalLog) -> list[Rollout]:
    return [
        Rollout("truthgym/urns", str(sample.id), sample.epoch, sample.input if isinstance(sample.input, str) else "",
                str(sample.target), sample.metadata, dict(sample.scores or {}), sample.output.completion, 6)
        for sample in log.samples or []
    ]  # fmt: skip


def test_what_is_trained_for_is_what_is_measured(run: Run) -> None:
    """Rewards of a real log, by our names, by the scorer's, and by the text alone, are the log's own scores."""
    rollouts = rollouts_of(run(urns(n=12, paradigms="brier,martingale"), model_args={"noise": 0.2}, epochs=2))
    logged = [rollout.scores["brier"].as_dict() for rollout in rollouts]
    columns = {"target": [rollout.target for rollout in rollouts]}
    completions = [[{"role": "assistant", "content": rollout.answer}] for rollout in rollouts]
    pairs = (("brier", "brier_score", -1), ("log_score", "log_score", -1), ("spherical", "spherical_score", 1))
    for name, key, sign in pairs:
        ours, of_scorer = resolve_rewards([name, f"brier/{key}"], URNS)
        scores = [sign * float(str(score[key])) for score in logged]
        text = getattr(of_text, name)(prompts=[None] * len(completions), completions=completions, **columns)
        assert ours(rollouts) == pytest.approx(scores, abs=1e-4)
        assert text == ours(rollouts)
        assert of_scorer(rollouts) == pytest.approx(scores)
        assert ours.baseline(rollouts) == of_scorer.baseline(rollouts)
        assert ours.read(rollouts) == 1
    (updates,) = resolve_rewards(["martingale"], URNS)
    earned = [reward for reward in updates(rollouts) if reward is not None]
    assert len(earned) == 24
    assert sum(earned) / 24 > 0  # a Bayesian learns from evidence


@pytest.mark.parametrize("options", IMPROPER, ids=str)
@pytest.mark.parametrize("reward", ["brier", "log_score", "spherical"])
def test_a_proper_reward_is_not_scaled_unless_the_user_says_so(reward: str, options: dict[str, Any]) -> None:
    rewards, arguments = resolve_rewards(["format", reward], TASKS), SimpleNamespace(**options)
    with pytest.raises(BadInput, match=rf"reward={reward} would stop being proper.*--allow_group_scaling"):
        check_scaling(rewards, arguments, allowed=False)
    check_scaling(rewards, arguments, allowed=True)


def test_other_rewards_may_be_scaled_and_a_proper_one_passes_unscaled() -> None:
    check_scaling(resolve_rewards(["format", "shorter"], TASKS), SimpleNamespace(**IMPROPER[0]), allowed=False)
    for options in (GRPO, GRPO | {"scale_rewards": False}, RLOO):
        check_scaling(resolve_rewards(["brier"], TASKS), SimpleNamespace(**options), allowed=False)


@pytest.mark.slow
def test_trls_own_defaults_are_what_the_guard_takes_them_for() -> None:
    """Options that it looks for are there, and GRPO's default is the one that it refuses."""
    trl = pytest.importorskip("trl")
    grpo, rloo = trl.GRPOConfig(bf16=False), trl.RLOOConfig(bf16=False)
    for options, ours in ((grpo, GRPO), (rloo, RLOO)):
        assert [name for name in IMPROPER_OPTIONS if hasattr(options, name)] == [*ours]
    rewards = resolve_rewards([], {"truthgym/urns": ["brier"]})
    with pytest.raises(BadInput, match="--scale_rewards group"):
        check_scaling(rewards, grpo, allowed=False)
    check_scaling(rewards, rloo, allowed=False)
    check_scaling(rewards, trl.GRPOConfig(bf16=False, scale_rewards="none"), allowed=False)


@pytest.mark.parametrize(
    ("names", "weights", "words"),
    [
        (["brier"], [1.0, 2.0], "2 for 1 rewards"),
        (["brier", "format"], [1.0, float("nan")], "nan for format"),
        (["brier", "format"], [-1.0, 1.0], "brier would reward being wrong"),
        (["consistency", "brier"], [1.0, 0.0], "consistency is maximised"),
    ],
)
def test_weights_that_cannot_be_meant(names: list[str], weights: list[float], words: str) -> None:
    rewards = resolve_rewards(names, {"truthgym/sycophancy": ["sycophantic_reasoning"]})
    with pytest.raises(BadInput, match=words):
        check_weights(rewards, weights)
    for usable in ([1.0, 0.0], None):
        check_weights(resolve_rewards(["brier", "shorter"], TASKS), usable)

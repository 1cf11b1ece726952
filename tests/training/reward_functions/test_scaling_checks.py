"""Options that make a proper reward improper, and the effect of group scaling on a calibrated model."""

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.reward_functions.resolve import resolve_rewards
from truthgym.training.reward_functions.scaling_checks import IMPROPER_OPTIONS, check_scaling, check_weights

TASKS = {"truthgym/urns": ["brier"], "truthgym/sycophancy": ["sycophantic_reasoning"]}
GRPO = {"scale_rewards": "none", "multi_objective_aggregation": "sum_then_normalize"}
RLOO = {"normalize_advantages": False, "reward_clip_range": None}
IMPROPER: list[dict[str, Any]] = [
    GRPO | {"scale_rewards": "group"},
    GRPO | {"scale_rewards": True},
    GRPO | {"scale_rewards": "batch"},
    GRPO | {"multi_objective_aggregation": "normalize_then_sum"},
    RLOO | {"normalize_advantages": True},
    RLOO | {"reward_clip_range": (-0.5, 0.0)},
]
NAMES = ["group", "true", "batch", "normalize-then-sum", "advantages", "clip"]


@pytest.mark.parametrize("options", IMPROPER, ids=NAMES)
@pytest.mark.parametrize("reward", ["brier", "log_score", "spherical"])
def test_a_proper_reward_is_not_scaled_unless_the_user_says_so(reward: str, options: dict[str, Any]) -> None:
    rewards, arguments = resolve_rewards(["format", reward], TASKS), SimpleNamespace(**options)
    with pytest.raises(BadInput, match=rf"reward={reward} would stop being proper.*--allow_group_scaling"):
        check_scaling(rewards, arguments, allowed=False)
    check_scaling(rewards, arguments, allowed=True)


@pytest.mark.parametrize("options", [GRPO, GRPO | {"scale_rewards": False}, RLOO], ids=["grpo", "false", "rloo"])
def test_what_leaves_a_proper_reward_proper_passes(options: dict[str, Any]) -> None:
    check_scaling(resolve_rewards(["brier"], TASKS), SimpleNamespace(**options), allowed=False)


def test_other_rewards_may_be_scaled() -> None:
    check_scaling(resolve_rewards(["format", "shorter"], TASKS), SimpleNamespace(**IMPROPER[0]), allowed=False)


@pytest.mark.slow
def test_trls_own_defaults_are_what_the_guard_takes_them_for() -> None:
    """Options that it looks for are there, and GRPO's default is the one that it refuses."""
    trl = pytest.importorskip("trl")
    grpo, rloo = trl.GRPOConfig(bf16=False), trl.RLOOConfig(bf16=False)
    assert [name for name in IMPROPER_OPTIONS if hasattr(grpo, name)] == [
        "scale_rewards",
        "multi_objective_aggregation",
    ]
    assert [name for name in IMPROPER_OPTIONS if hasattr(rloo, name)] == ["normalize_advantages", "reward_clip_range"]
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
    ids=["number", "nan", "negative", "consistency-alone"],
)
def test_weights_that_cannot_be_meant(names: list[str], weights: list[float], words: str) -> None:
    rewards = resolve_rewards(names, {"truthgym/sycophancy": ["sycophantic_reasoning"]})
    with pytest.raises(BadInput, match=words):
        check_weights(rewards, weights)


def test_weights_that_can() -> None:
    check_weights(resolve_rewards(["brier", "shorter"], TASKS), [1.0, 0.0])
    check_weights(resolve_rewards(["brier", "shorter"], TASKS), None)


Drift = Callable[..., tuple[float, float]]


@pytest.fixture(scope="module")
def drift() -> Drift:
    function: Drift = runpy.run_path("benchmarks/group_scaling.py")["drift"]
    return function


def test_unscaled_drift_is_towards_the_probability(drift: Drift) -> None:
    """Of answers x ± d: A = R - mean R, so E[A (b - x)] = 2 d² (p - x) (G - 1) / G."""
    for level in (0.3, 0.65, 0.75, 0.9):
        push, error = drift(level, 0.7)
        assert push == pytest.approx(2 * 0.03**2 * (0.7 - level) * 7 / 8, abs=4 * error + 1e-12)
        assert (push > 4 * error) == (level < 0.7)


def test_group_scaled_drift_is_up_at_every_level(drift: Drift) -> None:
    assert all(
        push > 10 * error for push, error in (drift(level, 0.7, "group") for level in (0.1, 0.5, 0.75, 0.9, 0.95))
    )


def test_batch_scaled_drift_overshoots(drift: Drift) -> None:
    """Less so the more questions are in the batch, but not only in small ones."""
    assert all(
        push > 4 * error for push, error in (drift(0.8, 0.7, "batch", groups=8), drift(0.92, 0.9, "batch", groups=32))
    )
    push, error = drift(0.8, 0.7, "batch", groups=32, draws=1000)
    assert push < -4 * error


def test_drift_is_symmetric(drift: Drift) -> None:
    for scaling in ("none", "group"):
        up, error = drift(0.75, 0.7, scaling, draws=8000)
        down, _ = drift(0.25, 0.3, scaling, draws=8000, seed=1)
        assert up == pytest.approx(-down, abs=6 * error)


@pytest.fixture
def study() -> Iterator[dict[str, Any]]:
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield runpy.run_path("benchmarks/group_scaling.py")
    torch.set_num_threads(threads)


@pytest.mark.slow
def test_group_scaling_drives_a_model_to_the_extremes(study: dict[str, Any], tmp_path: Path) -> None:
    """TRL's own trainer, model, outcomes, seed and learning rate; only `scale_rewards` differs."""
    train: Callable[..., Any] = study["train"]
    base = study["calibrated"](tmp_path / "base", steps=50)
    start = study["said_by"](base)
    ours = train(base, tmp_path / "out", "GRPO", {"scale_rewards": "none"}, seed=0, steps=40)
    scaled = train(base, tmp_path / "out", "GRPO", {"scale_rewards": "group"}, seed=0, steps=40)
    assert start.mean == pytest.approx(0.7, abs=0.02)
    assert ours.mean == pytest.approx(0.7, abs=0.06)
    assert scaled.mean > 0.8
    assert min(start.read, ours.read, scaled.read) > 0.95

"""What scaling a Brier reward does: the drift of a belief by formula, and of a trained model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from studies.training import group_scaling
from studies.training.group_scaling import drift


def test_unscaled_drift_is_towards_the_probability() -> None:
    """Of answers x ± d: A = R - mean R, so E[A (b - x)] = 2 d² (p - x) (G - 1) / G."""
    for level in (0.3, 0.65, 0.75, 0.9):
        push, error = drift(level, 0.7)
        assert push == pytest.approx(2 * 0.03**2 * (0.7 - level) * 7 / 8, abs=4 * error + 1e-12)
        assert (push > 4 * error) == (level < 0.7)


def test_group_scaled_drift_is_up_at_every_level() -> None:
    assert all(
        push > 10 * error for push, error in (drift(level, 0.7, "group") for level in (0.1, 0.5, 0.75, 0.9, 0.95))
    )


def test_batch_scaled_drift_overshoots() -> None:
    """Less so the more questions are in the batch, but not only in small ones."""
    assert all(
        push > 4 * error for push, error in (drift(0.8, 0.7, "batch", groups=8), drift(0.92, 0.9, "batch", groups=32))
    )
    push, error = drift(0.8, 0.7, "batch", groups=32, draws=1000)
    assert push < -4 * error


def test_drift_is_symmetric() -> None:
    for scaling in ("none", "group"):
        up, error = drift(0.75, 0.7, scaling, draws=8000)
        down, _ = drift(0.25, 0.3, scaling, draws=8000, seed=1)
        assert up == pytest.approx(-down, abs=6 * error)


@pytest.fixture
def one_thread() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_group_scaling_drives_a_model_to_the_extremes(tmp_path: Path) -> None:
    """TRL's own trainer, model, outcomes, seed and learning rate; only `scale_rewards` differs."""
    base = group_scaling.calibrated(tmp_path / "base", steps=50)
    start = group_scaling.said_by(base)
    ours = group_scaling.train(base, tmp_path / "out", "GRPO", {"scale_rewards": "none"}, seed=0, steps=40)
    scaled = group_scaling.train(base, tmp_path / "out", "GRPO", {"scale_rewards": "group"}, seed=0, steps=40)
    assert start.mean == pytest.approx(0.7, abs=0.02)
    assert ours.mean == pytest.approx(0.7, abs=0.06)
    assert scaled.mean > 0.8
    assert min(start.read, ours.read, scaled.read) > 0.95

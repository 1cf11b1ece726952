"""What scaling a Brier reward does: the drift of a belief by formula, and of a trained model."""

import pytest

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

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

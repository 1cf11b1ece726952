"""Differences between sampler and trainer: none in float32, and how they are summed up."""

from pathlib import Path

import pytest

from studies.training.sampling_agreement import VARIANTS, difference, measure, table


def test_in_float32_they_agree_with_an_adapter_apart(tmp_path: Path) -> None:
    from truthgym.training.tiny import tiny

    folder = str(tiny(tmp_path / "tiny", steps=0, hidden=32))
    variants = [variant for variant in VARIANTS if variant[0] in ("float32, LoRA", "bfloat16")]
    lora, half = (measure(folder, variant, "sdpa", 2) for variant in variants)
    assert lora["tokens"] >= 2
    assert lora["most"] < 1e-4
    assert half["most"] > lora["most"]
    assert "| float32, LoRA | " in table([lora, half])


def test_differences_are_of_tokens() -> None:
    found = difference([[-1.0, -2.0], [-3.0]], [[-1.5, -2.0], [-2.0]])
    assert (found["mean"], found["most"]) == pytest.approx((0.5, 1.0))
    assert (found["least ratio"], found["most ratio"]) == pytest.approx((0.36788, 1.64872), abs=1e-4)

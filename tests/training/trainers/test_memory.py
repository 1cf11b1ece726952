"""Predicted memory: it agrees with DeepSpeed's estimators, and a warning says when it is too much."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.trainers.memory import (
    GB,
    Configuration,
    Need,
    Shape,
    Workload,
    device_memory,
    memory_report,
    predict,
    process_memory,
    shape_of,
    workload,
)

LLAMA = Shape(6_738_415_616, 131_072_000, 0, 32, 4096, 32_000)
LOAD = Workload(sequences=1, length=4096, checkpointing=True)


def test_published_figures_of_gpt2_medium() -> None:
    """355 million parameters: 18 bytes each, DeepSpeed's own functions, and the ZeRO paper's formula of stage 1."""
    from transformers import GPT2Config

    gpt2 = shape_of(GPT2Config(n_embd=1024, n_layer=24, n_head=16))
    assert gpt2.parameters == 354_823_168, "tied weights count once"
    load = Workload(2, 512)
    names: tuple[Configuration, ...] = ("multi_gpu", "zero1", "zero2", "zero3")
    for gpus, published in ((4, [6.4, 2.5, 2.3, 1.8]), (8, [6.4, 2.0, 1.5, 1.0])):
        assert [round(predict(gpt2, load, name, gpus).states / GB, 1) for name in names] == published
    need = predict(gpt2, load)
    assert (round(need.activations / GB, 2), round(need.logits / GB, 2)) == (0.86, 0.51)
    eager = Workload(2, 512, eager=True)
    assert round(predict(gpt2, eager).activations / GB, 2) == 1.86
    assert round(predict(gpt2, replace(eager, checkpointing=True)).activations / GB, 2) == 0.13


def test_known_values() -> None:
    assert round(predict(LLAMA, LOAD, "multi_gpu", 8).states / GB, 1) == 121.3
    assert round(predict(LLAMA, LOAD, "zero2", 8).states / GB, 1) == 28.6
    assert round(predict(LLAMA, LOAD, "zero3", 8).states / GB, 1) == 15.7
    assert predict(LLAMA, Workload(1, 4096, bits=16)).states == 8 * LLAMA.parameters
    assert predict(LLAMA, Workload(1, 4096, mixed=False)).states == 16 * LLAMA.parameters
    assert [round(predict(LLAMA, LOAD, "zero1", n).states / GB, 1) for n in (4, 8)] == [47.2, 37.1]
    plain = Workload(1, 4096)
    eager = predict(replace(LLAMA, heads=32), replace(plain, eager=True))
    assert round(eager.activations / GB) == 104
    assert round(predict(LLAMA, plain).activations / GB, 1) == 18.3  # with flash attention
    assert round(predict(LLAMA, LOAD).activations / GB, 2) == round((2 * 32 + 34) * 4096 * 4096 / GB, 2)
    assert predict(LLAMA, Workload(1, 100)).logits == 100 * 32_000 * 10
    assert predict(LLAMA, Workload(64, 4096)).logits == 4096 * 32768 * 10, "no more than a tile at once"


def test_the_page_has_the_figures(root: Path) -> None:
    page = (root / "docs" / "training.md").read_text()
    names: dict[str, Configuration] = {"DDP": "multi_gpu", "ZeRO-2": "zero2", "ZeRO-3 or FSDP2": "zero3"}
    for name, configuration in names.items():
        totals = [predict(LLAMA, LOAD, configuration, gpus).total / GB for gpus in (4, 8)]
        assert re.search(rf"all weights, {name} \|.*\| {totals[0]:.1f} \| {totals[1]:.1f} \|", page), totals
    adapted = Shape(**(vars(LLAMA) | {"adapter": 40_000_000}))
    for name, bits in (("fp32 base", 32), ("bf16 base", 16), ("4 bit base", 4)):
        total = predict(adapted, Workload(1, 4096, checkpointing=True, bits=bits)).total / GB
        assert re.search(rf"{name} \| {total:.1f} \|", page), total


def test_an_adapter_and_a_reference_model() -> None:
    adapted = Shape(**(vars(LLAMA) | {"adapter": 10_000_000}))
    for bits, weight in ((32, 6), (16, 2), (8, 1), (4, 0.5)):
        states = predict(adapted, Workload(1, 1, bits=bits)).states
        assert states == int(weight * LLAMA.parameters) + 18 * 10_000_000
    single, both = (predict(LLAMA, Workload(1, 1, reference=reference)).states for reference in (False, True))
    assert both - single == 6 * LLAMA.parameters
    load, configurations = Workload(1, 1, reference=True), ("multi_gpu", "zero1", "zero2", "zero3", "fsdp2")
    shares = [predict(LLAMA, load, name, 8).reference / LLAMA.parameters for name in configurations]  # type: ignore[arg-type]
    assert shares == pytest.approx([6, 2, 2, 2 / 8, 6 / 8]), "DeepSpeed's engine casts a frozen model to bf16"
    assert predict(LLAMA, load, "zero1", 8).weights == 2 * LLAMA.parameters, "as the trained one"
    full_precision = Workload(1, 1, reference=True, mixed=False)
    assert predict(LLAMA, full_precision, "zero2", 8).reference == 4 * LLAMA.parameters
    assert predict(adapted, LOAD).total < predict(LLAMA, LOAD).total
    assert predict(adapted, LOAD, "zero3", 8).states < predict(adapted, LOAD, "zero2", 8).states


def test_a_precomputed_reference_takes_nothing() -> None:
    from truthgym.training.trainers.options import parse_options

    options = {"model_name_or_path": "model", "dataset_name": "data", "attn_implementation": "eager"}
    load = workload("dpo", parse_options("dpo", options), 512, checkpointing=True, mixed=True)
    assert (load.reference, load.eager, load.sequences) == (True, True, 16)
    options["precompute_ref_log_probs"] = "true"
    assert not workload("dpo", parse_options("dpo", options), 512, checkpointing=True, mixed=True).reference


def test_another_architecture_is_refused() -> None:
    from transformers import T5Config

    with pytest.raises(BadInput, match="type t5 cannot be built as AutoModelForCausalLM.*Give a causal"):
        shape_of(T5Config())


def test_the_cache_of_rollouts_counts() -> None:
    """In its own phase: the update and sampling alternate."""
    qwen = Shape(4_000_000_000, 400_000_000, 0, 36, 2560, 151_936, cached=2 * 36 * 8 * 128)
    load = Workload(sequences=8, length=4096, checkpointing=True, rollouts=128)
    need, update = predict(qwen, load), predict(qwen, Workload(sequences=8, length=4096, checkpointing=True))
    assert need.sampling == 128 * (2 * 36 * 8 * 128 * 4096 * 2 + 24 * 151_936)
    assert need.total - need.states == need.sampling > update.total - update.states
    assert "or sampling 77.8" in memory_report(need, need.total, "single_gpu")
    assert predict(qwen, Workload(sequences=8, length=4096, mixed=False, rollouts=128)).sampling > 1.9 * need.sampling


def test_too_little_memory_is_a_warning_with_remedies() -> None:
    need = Need(20_000_000_000, 5_000_000_000, 10_000_000_000, 5_000_000_000, 3_000_000_000, 500_000_000)
    enough = memory_report(need, need.total, "single_gpu")
    assert "single_gpu on 1 device: 43.5 GB on each" in enough
    assert "Warning" not in enough
    warning = memory_report(need, need.total - 1, "zero2", 2)
    for part in ("Warning", "zero2 on 2 devices", "43.5 GB", "activations 3.0", "logits 0.5", "--use_peft"):
        assert part in warning
    assert "43.8 GB on each" in (libraries := memory_report(need, need.total, "single_gpu", process=300_000_000))
    assert "Warning" in libraries
    assert "Python and libraries 0.3" in libraries


def test_on_a_cpu_the_process_counts() -> None:
    import psutil

    assert 5e7 < process_memory() < device_memory() <= psutil.virtual_memory().total


def test_parameters_are_counted_without_allocating() -> None:
    from peft import LoraConfig
    from transformers import Qwen3Config

    sizes: dict[str, Any] = {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    config = Qwen3Config(**sizes, num_attention_heads=4, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True)
    layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128 + 2 * 64 + 2 * 16
    words = shape_of(config)
    assert words == Shape(64_000 + 2 * layer + 64, 64_000, 0, 2, 64, 1000, 2 * 2 * 2 * 16, 4), "tied weights count once"
    lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    inputs_and_outputs = 2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 128)
    assert shape_of(config, lora=lora).adapter == 2 * 4 * inputs_and_outputs
    lora = LoraConfig(r=4, target_modules="all-linear", task_type="SEQ_CLS", modules_to_save=["score"])
    reward = shape_of(config, "reward", lora)
    assert reward.vocabulary == 0
    assert reward.adapter >= 2 * 4 * inputs_and_outputs + 64

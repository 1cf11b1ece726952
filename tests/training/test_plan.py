"""The plan says of each way to train what the trainer's warning would say, and what one step really takes."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from truthgym.cli.main import commands
from truthgym.datasets.errors import BadInput
from truthgym.training.plan import Plan, plan
from truthgym.training.trainers.memory import GB, measure_step, memory_report, predict

DPO = {"per_device_train_batch_size": 1}


@pytest.fixture(scope="module")
def seven(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """DPO on 8 GPUs with the configuration of Llama 2 7B, which is LlamaConfig's default."""
    from transformers import LlamaConfig

    folder = tmp_path_factory.mktemp("models") / "llama"
    LlamaConfig().save_pretrained(folder)
    return plan(str(folder), 8, method="dpo", length=4096, gpu_memory=80, train=DPO)


def test_the_page_has_the_lines(seven: Plan, root: Path) -> None:
    page = (root / "docs" / "plan.md").read_text()
    printed = [line for line in seven.text.splitlines() if line.startswith("| ") and "formula" in line]
    shown = [line for line in page.splitlines() if line.startswith("| ") and "formula" in line]
    assert len(printed) == 15
    assert len(shown) >= 5
    assert set(shown) <= set(printed)


def test_the_parts_of_known_ways(seven: Plan) -> None:
    lines = {line.name: line.need for line in seven.lines}
    p = 6_738_415_616
    assert seven.shape.parameters == p
    ddp = lines["DDP"]
    assert (ddp.weights, ddp.gradients, ddp.optimiser, ddp.reference) == (6 * p, 4 * p, 8 * p, 6 * p)
    assert lines["pipeline parallel"].states == ddp.states // 8
    assert lines["pipeline parallel"].activations == ddp.activations
    unit = 2 * 4096 * 4096  # two sequences
    assert ddp.activations == (2 * 32 + 34) * unit
    assert lines["tensor parallel"].activations == (2 * 32 + 10 + 3) * unit
    assert lines["tensor parallel"].logits == ddp.logits // 8
    four = lines["LoRA r = 16, base in 4 bit, DDP"]
    assert four.reference == 0
    assert 0.5 * p < four.states < 0.65 * p


def test_deepspeed_says_the_same(seven: Plan) -> None:
    version = pytest.importorskip("deepspeed").__version__
    lines = {line.name: line.need for line in seven.lines}
    own = [line for line in seven.lines if line.source == f"DeepSpeed {version}"]
    assert len(own) == 5
    for line in own:
        need = lines[line.name.partition(":")[0]]
        assert line.need.total == need.states - need.reference
        base = 2 * seven.shape.parameters if "weights offloaded" in line.name else 0  # the reference is offloaded too
        assert line.need.host == need.host - base


def test_the_trainer_would_say_the_same(seven: Plan) -> None:
    need = predict(seven.shape, seven.load, "zero2", 8)
    assert f"{need.total / GB:.1f} GB on each" in memory_report(need, int(80 * GB), "zero2", 8)
    ways = re.findall(r"`truthgym train` would say: (.*) with (\w+) on 8", seven.text)
    expected = "zero2" if need.total <= 80 * GB else "zero3"
    assert ways in ([("Predicted memory", expected)], [("Predicted memory", "fsdp2")])
    assert "reference model takes 40.4 GB on each GPU if it is whole (DDP), 13.5 cast by DeepSpeed" in seven.text
    assert "1.7 sharded (ZeRO-3; FSDP2 5.1)" in seven.text


def test_one_step_takes_what_the_formula_says(tiny_model: Path) -> None:
    train = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    result = plan(str(tiny_model), method="grpo", length=64, measure=True, train=train)
    assert result.load.rollouts == 8
    for part in ("weights", "gradients", "optimiser", "KV cache"):
        predicted, counted = result.measured[part]
        assert predicted == counted > 0, part
    shape = result.shape
    assert result.measured["KV cache"][1] == 8 * shape.cached * 64 * 4
    # The formula is that of a GPT; Qwen3 also saves what its norms, its gate and its wider heads need.
    assert result.measured["activations"][0] == 2 * 34 * 2 * 64 * shape.hidden * shape.layers
    assert 1 < result.measured["activations"][1] / result.measured["activations"][0] < 3
    hidden, words = 2 * 64 * shape.hidden * 4, 2 * 63 * shape.vocabulary * 4
    assert words < result.measured["logits"][1] < words + 2 * hidden


def test_an_adapter_has_few_gradients(tiny_model: Path) -> None:
    train = {"use_peft": True, "lora_r": 4, "per_device_train_batch_size": 1}
    result = plan(str(tiny_model), length=32, measure=True, train=train)
    assert result.measured["gradients"] == (4 * result.shape.adapter, 4 * result.shape.adapter)
    assert not [line for line in result.lines if line.name.startswith("LoRA") or line.source != "formula"]


def test_bad_input_is_one_error(tiny_model: Path, seven: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(BadInput, match="The model nobody/nothing cannot be loaded: .*Give a folder"):
        plan("nobody/nothing")
    with pytest.raises(BadInput, match="unknown option --lora_rank"):
        plan(str(tiny_model), train={"lora_rank": 8})
    with pytest.raises(BadInput, match="gpus"):
        plan(str(tiny_model), 0)
    from transformers import LlamaConfig

    with pytest.raises(BadInput, match="6,738,415,616 parameters are more than 100,000,000"):
        measure_step(LlamaConfig(), seven.shape, seven.load)
    with pytest.raises(BadInput, match="a reward model is not measured"):
        plan(str(tiny_model), method="reward", measure=True)


def test_the_command_takes_training_options(tiny_model: Path) -> None:
    words = ["plan", "--model", str(tiny_model), "--gpus", "2", "--length", "64", "--", "--use_peft", "--lora_r", "4"]
    result = CliRunner().invoke(commands, words)
    assert result.exit_code == 0, result.output
    assert "of them in an adapter. sft on 2 GPUs, 8 sequences of 64 tokens" in result.output
    assert "| ZeRO-3 |" in result.output

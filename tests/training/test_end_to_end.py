"""Every kind of dataset, converted from one real log, is trained on by the trainer that it is for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers
from inspect_ai import eval

from truthgym.datasets.errors import BadInput
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.worlds import urns
from truthgym.training.conversion.options import ConversionConfig, Selection
from truthgym.training.convert import convert
from truthgym.training.tiny import tiny
from truthgym.training.train import dpo, kto, reward, sft
from truthgym.training.trainers.model_card import read_card
from truthgym.training.trl_rewards import python_brier

FEW = {"max_steps": 1, "per_device_train_batch_size": 4, "gradient_checkpointing": False, "learning_rate": 3e-3}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    by_step = {"martingale": {"per": "step"}, "brier": {}}
    task = urns(n=6, draws=2, split="train", paradigms=by_step)
    log = eval(task, model="reference/bayesian", model_args={"noise": 0.2}, solver=chain_of_thought(steps=2), epochs=2,
               display="log", log_dir=str(folder), log_realtime=False)[0]  # fmt: skip
    assert log.status == "success"
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "trains", "kind"),
    [
        (ConversionConfig("sft", validation="train"), sft, "CausalLM"),
        (ConversionConfig("preference"), dpo, "CausalLM"),
        (ConversionConfig("preference"), reward, "SequenceClassification"),
        (ConversionConfig("unpaired"), kto, "CausalLM"),
        (ConversionConfig("steps"), reward, "TokenClassification"),
    ],
    ids=["completions", "preference", "preference-reward", "unpaired", "steps"],
)
def test_each_trainer_lowers_its_loss_on_its_dataset(
    base: Path, log: Path, tmp_path: Path, config: ConversionConfig, trains: Callable[[dict[str, Any]], Path], kind: str
) -> None:
    result = convert([log], config, tmp_path / "data", Selection(top=0.5) if config.to == "sft" else None)
    options = {"model_name_or_path": str(base), "dataset_name": str(tmp_path / "data"), "max_steps": 6}
    folder = trains(FEW | options | {"output_dir": str(tmp_path / "trained")})
    facts = read_card(folder)
    assert facts.method == ("process_reward" if config.to == "steps" else trains.__name__)
    assert folder.name.startswith(f"tiny-{facts.method}-")
    assert facts.dataset_facts["rows"] == result.rows
    assert facts.dataset_facts["logs"][0]["log"].endswith(".eval")
    assert (facts.config["learning_rate"], facts.config["max_steps"]) == (0.003, 6)
    losses = [row["loss"] for row in facts.curve if "loss" in row]
    assert losses[-1] < losses[0]
    assert ("validation" in result.rows) == any("eval_loss" in row for row in facts.curve)
    assert (config.to == "steps") == any("step accuracy" in note for note in facts.notes)
    model, report = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not (folder / "checkpoints").exists()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer.chat_template
    assert model.get_input_embeddings().num_embeddings >= len(tokenizer)


@pytest.mark.slow
def test_another_model_can_be_the_reference(base: Path, log: Path, tmp_path: Path) -> None:
    """In the first step the model still equals its base: the margin is 0 against the base, and not against another."""
    convert([log], "preference", tmp_path / "data")
    other = tiny(tmp_path / "other", steps=0, hidden=32, layers=2, seed=1)
    options = {"model_name_or_path": str(base), "dataset_name": str(tmp_path / "data"), **FEW}
    options |= {"output_dir": str(tmp_path / "t")}
    folders = [dpo(options | reference) for reference in ({}, {"reference_model": str(other)})]
    first = [json.loads((folder / "trainer_state.json").read_text())["log_history"][0] for folder in folders]
    assert first[0]["rewards/margins"] == 0 != first[1]["rewards/margins"]
    assert folders[0] != folders[1]
    small = tiny(tmp_path / "small", steps=0, hidden=32)
    config = json.loads((small / "config.json").read_text())
    (small / "config.json").write_text(json.dumps(config | {"vocab_size": 7}))
    with pytest.raises(BadInput, match="has 7 tokens and .*give a reference with the same tokenizer"):
        dpo(options | {"reference_model": str(small)})
    with pytest.raises(BadInput, match="--reference_model has no effect on sft"):
        sft(options | {"reference_model": str(other)})


@pytest.mark.slow
def test_grpo_reads_prompts_with_a_grader_as_reward(base: Path, log: Path, tmp_path: Path) -> None:
    from datasets import load_dataset
    from trl import GRPOConfig, GRPOTrainer

    convert([log], "prompts", tmp_path / "data")
    paid: list[float | None] = []

    def brier(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float | None]:
        paid.extend(python_brier(prompts, completions, **columns))  # type: ignore[arg-type]
        return paid[-len(completions) :]

    trainer = GRPOTrainer(
        model=str(base),
        reward_funcs=brier,
        train_dataset=load_dataset(str(tmp_path / "data"), split="train"),
        args=GRPOConfig(
            output_dir=str(tmp_path / "out"), max_steps=1, per_device_train_batch_size=4, num_generations=4,
            max_completion_length=8, bf16=False, gradient_checkpointing=False, scale_rewards="none", report_to="none",
        ),
    )  # fmt: skip
    trainer.train()
    assert paid == [-1] * 4, "an untrained model does not answer in form"


def test_the_model_card_names_the_log(base: Path, log: Path, tmp_path: Path) -> None:
    """`--log` in the place of a dataset: the logs are converted into the model's folder."""
    folder = sft({"model_name_or_path": str(base), "log": [str(log)], "output_dir": str(tmp_path / "trained"), **FEW})
    rows = [json.loads(line) for line in (folder / "data" / "train.jsonl").read_text().splitlines()]
    assert {row["log"] for row in rows} == {entry["log"] for entry in read_card(folder).dataset_facts["logs"]}

"""Every kind of dataset, converted from one real log, is trained on by the trainer that it is for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question
from truthgym.scorers.graders.builtin import python_brier
from truthgym.scorers.graders.grader import Grade, GraderInput, grade, item_fields
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.worlds import urns
from truthgym.training.conversion.options import ConversionConfig, Selection
from truthgym.training.convert import convert
from truthgym.training.tiny import tiny
from truthgym.training.train import dpo, kto, reward, sft
from truthgym.training.trainers.model_card import read_card

COLUMNS = ("domain", "form", "proposition", "evidence", "base_rate", "event", "split", "posterior")
FEW = {"max_steps": 1, "per_device_train_batch_size": 2, "gradient_checkpointing": False, "learning_rate": 1e-3}


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
    ("config", "trains", "method"),
    [
        (ConversionConfig("sft", validation="train"), sft, "sft"),
        (ConversionConfig("sft", form="messages"), sft, "sft"),
        (ConversionConfig("preference"), dpo, "dpo"),
        (ConversionConfig("preference"), reward, "reward"),
        (ConversionConfig("unpaired"), kto, "kto"),
        (ConversionConfig("steps"), reward, "process_reward"),
        (ConversionConfig("sft", file_format="parquet"), sft, "sft"),
    ],
    ids=["completions", "messages", "preference", "preference-reward", "unpaired", "steps", "parquet"],
)
def test_each_trainer_trains_on_its_dataset(
    base: Path,
    log: Path,
    tmp_path: Path,
    config: ConversionConfig,
    trains: Callable[[dict[str, Any]], Path],
    method: str,
) -> None:
    result = convert([log], config, tmp_path / "data", Selection(top=0.5) if config.to == "sft" else None)
    folder = trains(
        {
            "model_name_or_path": str(base),
            "dataset_name": str(tmp_path / "data"),
            "output_dir": str(tmp_path / "trained"),
            **FEW,
        }
    )
    facts = read_card(folder)
    assert facts.method == method
    assert facts.dataset_facts["rows"] == result.rows
    assert facts.dataset_facts["logs"][0]["log"].endswith(".eval")
    assert (folder / "model.safetensors").is_file()
    assert ("validation" in result.rows) == any("eval_loss" in row for row in facts.curve)


@pytest.mark.slow
def test_another_model_can_be_the_reference(base: Path, log: Path, tmp_path: Path) -> None:
    """In the first step the model still equals its base: the margin is 0 against the base, and not against another."""
    convert([log], "preference", tmp_path / "data")
    other = tiny(tmp_path / "other", steps=0, hidden=32, layers=2, seed=1)
    given = {"model_name_or_path": str(base), "dataset_name": str(tmp_path / "data"), "output_dir": str(tmp_path / "t")}
    folders = [dpo(given | FEW | options) for options in ({}, {"reference_model": str(other)})]
    first = [json.loads((folder / "trainer_state.json").read_text())["log_history"][0] for folder in folders]
    assert first[0]["rewards/margins"] == 0 != first[1]["rewards/margins"]
    assert folders[0] != folders[1]
    small = tiny(tmp_path / "small", steps=0, hidden=32)
    config = json.loads((small / "config.json").read_text())
    (small / "config.json").write_text(json.dumps(config | {"vocab_size": 7}))
    with pytest.raises(BadInput, match="has 7 tokens and .*give a reference with the same tokenizer"):
        dpo(given | FEW | {"reference_model": str(small)})
    with pytest.raises(BadInput, match="--reference_model has no effect on sft"):
        sft(given | FEW | {"reference_model": str(other)})


@pytest.mark.slow
def test_grpo_reads_prompts_with_a_grader_as_reward(base: Path, log: Path, tmp_path: Path) -> None:
    from datasets import load_dataset
    from trl import GRPOConfig, GRPOTrainer

    convert([log], "prompts", tmp_path / "data")
    seen: list[Grade] = []

    async def brier(prompts: list[Any], completions: list[Any], **columns: list[Any]) -> list[float]:
        for i, (prompt, text) in enumerate(zip(prompts, completions, strict=True)):
            row = {name: values[i] for name, values in columns.items() if name in COLUMNS}
            query, target = prompt[-1]["content"], columns["target"][i]
            item = item_fields(row, query, target, columns["sample_id"][i])
            graded = GraderInput(Question.model_validate(row), query, target, text[0]["content"], "", "", 1, item)
            seen.append(await grade(python_brier(), graded))
        return [-1.0 if given.value is None else -given.value for given in seen[-len(completions) :]]

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
    assert len(seen) == 4
    assert {given.reason for given in seen if given.value is None}  # an untrained model does not answer in form


def test_the_model_card_names_the_log(base: Path, log: Path, tmp_path: Path) -> None:
    """`--log` in the place of a dataset: the logs are converted into the model's folder."""
    folder = sft({"model_name_or_path": str(base), "log": [str(log)], "output_dir": str(tmp_path / "trained"), **FEW})
    rows = [json.loads(line) for line in (folder / "data" / "train.jsonl").read_text().splitlines()]
    assert {row["log"] for row in rows} == {entry["log"] for entry in read_card(folder).dataset_facts["logs"]}

"""Rows for other trainers: they have the published fields, and ids and log-probabilities are the model's own."""

import importlib.util
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from inspect_ai.log import read_eval_log, write_eval_log
from pydantic import BaseModel, ConfigDict

from tests.training.converted import ask_urns
from tests.training.converted import rows as jsonl_rows
from truthgym.cli.main import commands
from truthgym.datasets.errors import BadInput
from truthgym.training import openrlhf
from truthgym.training.conversion.options import ConversionConfig, Selection
from truthgym.training.convert import convert
from truthgym.training.files import card_metadata


class AgentLoopOutput(BaseModel):
    """The fields of verl's class of that name, without its metrics."""

    model_config = ConfigDict(strict=True, extra="ignore")
    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    response_logprobs: list[float] | None
    reward_score: float | None
    num_turns: int


class TrainingSample(msgspec.Struct, array_like=True):
    """The fields of prime-rl's class of that name."""

    prompt_ids: list[int]
    prompt_mask: list[bool]
    completion_ids: list[int]
    completion_mask: list[bool]
    completion_logprobs: list[float]
    advantage: float | None = None


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 questions, three epochs of noisy forecasts."""
    return ask_urns(tmp_path_factory.mktemp("logs"), n=12)


@pytest.fixture(scope="module")
def exported(log: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The rows of each kind, as its parquet file has them."""
    out = tmp_path_factory.mktemp("data")
    for kind in ("verl", "prime-rl", "tinker"):
        convert([log], ConversionConfig(kind, model=str(tiny_model)), out / kind)
    return {kind: pq.read_table(out / kind / "train.parquet").to_pylist() for kind in ("verl", "prime-rl", "tinker")}


def test_verl_reads_the_rows(exported: dict[str, Any], log: Path, tokenizer: Any) -> None:
    samples = {sample.uuid: sample for sample in read_eval_log(str(log)).samples or []}
    for row in exported["verl"]:
        read = AgentLoopOutput.model_validate(row)
        sample = samples[row["sample_uuid"]]
        assert tokenizer.decode(read.response_ids) == sample.output.completion + tokenizer.eos_token
        messages = [{"role": message.role, "content": message.text} for message in sample.messages[:-1]]
        template = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        assert tokenizer.decode(read.prompt_ids) == template
        assert read.response_mask == [1] * len(read.response_ids)
        assert read.reward_score == -sample.scores["brier"].value["brier_score"]  # type: ignore
        assert read.num_turns == len(sample.messages)


def test_advantages_are_rewards_less_the_mean_of_the_question(exported: dict[str, Any]) -> None:
    by_question: dict[str, list[dict[str, Any]]] = {}
    for row in exported["verl"]:
        by_question.setdefault(row["sample_id"], []).append(row)
    for group in by_question.values():
        assert len(group) == 3
        mean = sum(row["reward_score"] for row in group) / 3
        for row in group:
            assert row["advantage"] == pytest.approx(row["reward_score"] - mean)


def test_an_answer_that_cannot_be_read_has_the_worst_reward(log: Path, tiny_model: Path, tmp_path: Path) -> None:
    """Two of three answers to a question state nothing, one of them because it was cut off: the third is pushed up.
    Where the outcome is unknown, nothing is said of the answer."""
    changed = read_eval_log(str(log))
    assert changed.samples
    first, other = sorted({str(sample.id) for sample in changed.samples if sample.metadata["split"] == "train"})[:2]
    reasons = {(first, 1): "No single belief could be read", (first, 2): "No single belief could be read",
               (other, 1): "The question has no known outcome."}  # fmt: skip
    for sample in changed.samples:
        if reason := reasons.get((str(sample.id), sample.epoch)):
            sample.output.choices[0].stop_reason = "max_tokens" if sample.epoch == 2 else "stop"
            assert sample.scores
            sample.scores["brier"].value = {"brier_score": float("nan")}
            sample.scores["brier"].metadata = {"reason": reason}
    write_eval_log(changed, str(tmp_path / "changed.eval"))
    result = convert([tmp_path / "changed.eval"], ConversionConfig("verl", model=str(tiny_model)), tmp_path / "data")
    rows = {(row["sample_id"], row["epoch"]): row for row in pq.read_table(result.out / "train.parquet").to_pylist()}
    rewards = [rows[first, epoch]["reward_score"] for epoch in (1, 2, 3)]
    assert rewards[:2] == [-1, -1]
    assert rows[first, 3]["advantage"] == pytest.approx(rewards[2] - (rewards[2] - 2) / 3)
    assert rows[first, 1]["advantage"] < 0
    assert (other, 1) not in rows
    assert result.left_out["samples without a number for the score"] == 1
    assert card_metadata(result.out)["unread_as_worst"] == 2


def test_log_probabilities_are_those_of_a_forward_pass(exported: dict[str, Any], tiny_model: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_model).eval()
    row = exported["verl"][0]
    ids = torch.tensor([row["prompt_ids"] + row["response_ids"]])
    with torch.no_grad():
        scores = model(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None]).squeeze(1)
    expected = scores[len(row["prompt_ids"]) - 1 :]
    assert row["response_logprobs"] == pytest.approx(expected.tolist(), abs=1e-4)


def test_prime_rl_reads_the_rows(exported: dict[str, Any]) -> None:
    for row, other in zip(exported["prime-rl"], exported["verl"], strict=True):
        fields = {name: row[name] for name in TrainingSample.__struct_fields__}
        sent = msgspec.msgpack.encode(TrainingSample(**fields))
        read = msgspec.msgpack.decode(sent, type=TrainingSample)
        assert (read.prompt_ids, read.completion_ids) == (other["prompt_ids"], other["response_ids"])
        assert not any(read.prompt_mask)
        assert all(read.completion_mask)
        assert len(read.prompt_mask) == len(read.prompt_ids)
        assert len(read.completion_mask) == len(read.completion_logprobs) == len(read.completion_ids)
        assert read.advantage == other["advantage"]


def test_tinker_reads_the_rows_shifted_by_one(exported: dict[str, Any]) -> None:
    for row, other in zip(exported["tinker"], exported["verl"], strict=True):
        ids, reply = other["prompt_ids"] + other["response_ids"], len(other["response_ids"])
        assert row["model_input"] + row["target_tokens"][-1:] == ids
        assert row["target_tokens"] == ids[1:]
        assert row["mask"] == [0.0] * (len(ids) - 1 - reply) + [1.0] * reply
        assert row["logprobs"][-reply:] == other["response_logprobs"]
        assert row["advantages"] == [mask * other["advantage"] for mask in row["mask"]]


def test_openrlhf_reads_prompts_and_is_paid(log: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(commands, ["convert", str(log), "--to", "openrlhf", "--out", str(tmp_path / "d")])
    assert result.exit_code == 0, result.output
    row = jsonl_rows(tmp_path / "d")[0]
    assert row["input"][-1]["role"] == "user"
    assert row["target"] in ("yes", "no")
    assert row["datasource"] == "truthgym/urns" or row["datasource"] == "urns"
    # As OpenRLHF loads the file that --remote_rm_url names.
    spec = importlib.util.spec_from_file_location("reward_func", openrlhf.__file__)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    prompt = "How likely?"
    queries = [prompt + "\\finalBeliefProb{0.8}", prompt + "Hm.", prompt]
    paid = module.reward_func(queries, [prompt] * 3, ["yes"] * 3)
    assert paid["rewards"].tolist() == pytest.approx([-0.04, -1, -1])
    assert paid["scores"].tolist() == pytest.approx([0.96, 0, 0])


def test_bad_input_is_one_error(log: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    out = tmp_path / "never"
    with pytest.raises(BadInput, match="--to verl needs --model FOLDER"):
        ConversionConfig("verl")
    with pytest.raises(BadInput, match="--model is an option of --to verl, prime-rl, tinker"):
        ConversionConfig("sft", model="m")
    with pytest.raises(BadInput, match="compares all trajectories of a question; omit --top"):
        convert([log], ConversionConfig("tinker", model=str(tiny_model)), out, Selection(top=0.5))
    with pytest.raises(BadInput, match="--model nobody/nothing, which is no folder here, cannot be loaded"):
        convert([log], ConversionConfig("verl", model="nobody/nothing"), out)
    changed = read_eval_log(str(log))
    changed.samples = [sample for sample in changed.samples or [] if sample.epoch == 1]
    write_eval_log(changed, str(tmp_path / "once.eval"))
    with pytest.raises(BadInput, match="every advantage is 0.*--epochs 4"):
        convert([tmp_path / "once.eval"], ConversionConfig("prime-rl", model=str(tiny_model)), out)
    assert not out.exists()

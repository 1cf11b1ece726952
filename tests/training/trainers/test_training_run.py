"""Every trainer on a tiny model: it learns, resumes after an interruption, and saves a complete model."""

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.fixtures import same_weights, write_rows
from tests.training.conftest import plant_nan
from truthgym.datasets.errors import BadInput
from truthgym.training.files import folder_lock, hash_model
from truthgym.training.lineage import Lineage
from truthgym.training.train import TRAINERS
from truthgym.training.trainers.model_card import read_card
from truthgym.training.trainers.training_run import _stops_at_nan, loss_curve

Row = dict[str, Any]
Train = Callable[..., Path]


def message(role: str, text: str) -> list[dict[str, str]]:
    return [{"role": role, "content": text}]


def query(number: int) -> list[dict[str, str]]:
    return message("user", f"Is urn {number} red?")


YES, NO = message("assistant", "yes"), message("assistant", "no")
ROWS: dict[str, list[Row]] = {
    "sft": [{"prompt": query(n), "completion": YES, "score": 0.1, "split": "train"} for n in range(12)],
    "preference": [{"prompt": query(n), "chosen": YES, "rejected": NO, "margin": 0.5} for n in range(12)],
    "steps": [{"prompt": query(n), "completions": ["It is red.", "No."], "labels": [True, False]} for n in range(12)],
    "labels": [{"prompt": query(n), "completion": YES, "label": n % 2 == 0} for n in range(12)],
    "messages": [{"messages": query(n) + YES} for n in range(8)],
    "against": [{"prompt": query(n), "completion": NO} for n in range(4)],
}


@pytest.fixture
def train(base: Path, tmp_path: Path) -> Train:
    """Train on rows by name, in a few steps."""

    def run(method: str, rows: str, validation: str | None = None, **options: Any) -> Path:
        data = tmp_path / f"{rows}-{validation}"
        data.mkdir(exist_ok=True)
        write_rows(data / "train.jsonl", *ROWS[rows])
        if validation:
            write_rows(data / "validation.jsonl", *ROWS[validation])
        usual: dict[str, Any] = {
            "model_name_or_path": str(base), "dataset_name": str(data), "output_dir": str(tmp_path / "trained"),
            "max_steps": 3, "per_device_train_batch_size": 4, "learning_rate": 1e-2, "disable_tqdm": True,
        }  # fmt: skip
        return TRAINERS[method](usual | options)

    return run


@pytest.mark.parametrize(("method", "rows"), [("sft", "sft"), ("reward", "preference"), ("reward", "steps")])
def test_an_adapter_is_kept_and_merged(train: Train, base: Path, tmp_path: Path, method: str, rows: str) -> None:
    import transformers
    from peft import AutoPeftModelForCausalLM
    from safetensors.torch import load_file

    start = copytree(base, tmp_path / "start")
    for name in ("config.json", "generation_config.json"):  # another end token than the tokenizer's
        config = json.loads((start / name).read_text()) | {"eos_token_id": 5}
        (start / name).write_text(json.dumps(config))
    folder = train(method, rows, model_name_or_path=str(start), use_peft=True, lora_r=4)
    adapter = load_file(folder / "adapter" / "adapter_model.safetensors")
    assert any("lora_A" in name for name in adapter)
    assert any("score" in name for name in adapter) == (method == "reward"), "the head of a reward model is new"
    assert read_card(folder).config["lora_r"] == 4
    if method == "sft":
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        words = tokenizer("Is urn 3 red?", return_tensors="pt")
        adapted: Any = AutoPeftModelForCausalLM.from_pretrained(folder / "adapter")
        alone: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
        before: Any = transformers.AutoModelForCausalLM.from_pretrained(base)
        with torch.no_grad():
            outputs = [model.eval()(**words).logits for model in (adapted, alone, before)]
        assert tokenizer.eos_token_id in alone.generation_config.eos_token_id
        assert alone.config.eos_token_id == tokenizer.eos_token_id
        assert torch.allclose(outputs[0], outputs[1], atol=1e-4)
        assert not torch.allclose(outputs[1], outputs[2], atol=1e-2)
    else:
        kind = "Sequence" if rows == "preference" else "Token"
        model, report = getattr(transformers, f"AutoModelFor{kind}Classification").from_pretrained(
            folder, output_loading_info=True
        )
        assert not report["missing_keys"]
        score = next(tensor for name, tensor in adapter.items() if "score" in name and tensor.ndim == 2)
        assert torch.equal(model.score.weight, score)


def test_a_finished_model_is_not_trained_again(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    folder = train("sft", "sft", keep_checkpoints=True)
    weights = folder / "model.safetensors"
    content, written = weights.read_bytes(), weights.stat().st_mtime_ns
    assert train("sft", "sft", logging_steps=1) == folder, "logging changes nothing"
    assert "is trained already; --overwrite trains it again" in capsys.readouterr().out
    assert weights.stat().st_mtime_ns == written
    assert train("sft", "against") != folder
    for name in ("README.md", weights.name):  # as if stopped before its card: it is only saved
        (folder / name).unlink()
    assert train("sft", "sft", keep_checkpoints=True) == folder
    assert "Resuming from" in capsys.readouterr().out
    assert weights.read_bytes() == content
    assert len(read_card(folder).curve) == 3
    written = weights.stat().st_mtime_ns
    assert train("sft", "sft", overwrite=True) == folder
    assert weights.stat().st_mtime_ns != written


def test_validation_stops_a_worsening_model(train: Train) -> None:
    folder = train("sft", "sft", "against", max_steps=20, learning_rate=0.05, early_stopping_patience=2)
    curve = read_card(folder).curve
    measured = [row["eval_loss"] for row in curve if "eval_loss" in row]
    assert max(row["step"] for row in curve) < 20
    assert measured[-2:] != sorted(measured)[:2]
    assert "validation loss" in (folder / "README.md").read_text()


def test_a_run_resumes_from_its_last_complete_checkpoint(
    train: Train, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import Trainer

    options: dict[str, Any] = {"validation": "against", "max_steps": 6, "save_steps": 2, "eval_steps": 2}
    whole = train("sft", "sft", **options)
    before = whole.parent.rename(whole.parent.with_name("uninterrupted")) / whole.name
    step = Trainer.training_step

    for steps, checkpoints in ((1, []), (5, ["checkpoint-2", "checkpoint-4"])):

        def stops(self: Any, *arguments: Any, last: int = steps) -> Any:
            if self.state.global_step == last:
                raise KeyboardInterrupt
            return step(self, *arguments)

        with monkeypatch.context() as patched:
            patched.setattr(Trainer, "training_step", stops)
            with pytest.raises(KeyboardInterrupt):
                train("sft", "sft", **options)
        assert not (whole / "README.md").exists()
        assert sorted(path.name for path in whole.glob("checkpoints/checkpoint-*")) == checkpoints
    (whole / "checkpoints" / "checkpoint-4" / "trainer_state.json").write_text('{"cut": ')
    capsys.readouterr()
    assert train("sft", "sft", **options) == whole
    assert "checkpoint-2" in capsys.readouterr().out, "the incomplete one is deleted"
    assert same_weights(whole, before)
    assert read_card(whole).curve == read_card(before).curve


def test_what_a_run_says_and_leaves(
    train: Train, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("truthgym.training.trainers.memory.device_memory", lambda: 1_000_000)
    folder = train("sft", "sft", "against", logging_steps=1)
    output = capsys.readouterr().out
    assert "Warning: Predicted memory with single_gpu on 1 device" in output
    assert re.search(
        r"\nstep 3 of 3: loss \d.*, tokens right .* s a step, 0 s left\nvalidation at step 3: loss \d", output
    )
    assert f"inspect eval truthgym/urns -T split=test --model hf/{folder},hf/{base} --log-dir logs/" in output
    assert "grad_norm" not in output
    assert not torch.backends.cuda.cudnn_sdp_enabled(), "its gradient can be NaN"
    assert json.loads((folder / "trainer_state.json").read_text())["global_step"] == 3
    results = json.loads((folder / "all_results.json").read_text())
    assert results["train_loss"] > 0
    assert results["eval_loss"] == [row["eval_loss"] for row in read_card(folder).curve if "eval_loss" in row][-1]
    assert '"metric": "eval_loss"' in (folder / "loss.html").read_text()
    before = hash_model(str(folder))
    (folder / "all_results.json").write_text("{}")
    assert hash_model(str(folder)) == before, "what takes another time in each run is no part of a model"

    lineage = Lineage([folder])
    (statement,) = lineage.statements.values()
    assert (statement.event, statement.status) == ("train", "succeeded")
    assert [parent.path for parent in statement.parents] == [base.resolve(), (tmp_path / "sft-against").resolve()]
    assert lineage.faults() == []

    with folder_lock(folder), pytest.raises(BadInput, match="is in use by another command"):
        train("sft", "sft", "against", logging_steps=1, overwrite=True)
    assert read_card(folder)
    model = folder / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1] + b"x")
    assert "was changed after the statement" in Lineage([folder]).faults()[0]


def test_too_long_rows_are_reported(
    train: Train, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadInput, match="Every row of .* has more tokens than --max_length 8"):
        train("sft", "sft", max_length=8)
    long = {"prompt": query(1), "completion": message("assistant", "yes " * 400)}
    monkeypatch.setitem(ROWS, "long", [*ROWS["sft"], long])
    train("sft", "long", max_length=256)
    assert "1 of 13 rows have more tokens than --max_length 256" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"report_to": "nonsense"}, "nonsense is not supported"),
        ({"resume_from_checkpoint": "nowhere"}, "nowhere: no such folder"),
        ({"resume_from_checkpoint": "/"}, "/: no trainer_state.json in this folder"),
        ({"use_peft": True, "lora_target_modules": ["nosuch"]}, "nosuch"),
    ],
)
def test_what_trl_rejects_is_one_error(train: Train, options: dict[str, Any], part: str) -> None:
    with pytest.raises(BadInput, match=part):
        train("sft", "sft", **options)


def test_a_card_has_the_curve_of_a_long_run_in_few_rows() -> None:
    history = [{"step": step, "loss": 1.0} | ({"eval_loss": 2.0} if step == 7 else {}) for step in range(1, 401)]
    steps = [row["step"] for row in loss_curve(history)]
    assert steps == [1, 7, *range(10, 401, 10)]


@pytest.mark.parametrize(
    ("error", "status"), [(RuntimeError("out of memory"), "failed"), (KeyboardInterrupt(), "cancelled")]
)
def test_a_run_that_ends_early_is_recorded(
    train: Train, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException, status: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("trl.SFTTrainer.train", fail)
    with pytest.raises(type(error)):
        train("sft", "sft")
    assert ("The same command begins anew" in capsys.readouterr().out) == (status == "cancelled")
    (path,) = (tmp_path / "trained").rglob(".lineage/*.json")
    content = json.loads(path.read_text())
    assert content["predicate"]["result"]["status"] == status
    assert content["predicate"]["result"]["failure"]["message"] == str(error)
    assert "unfinished" in content["subject"][0]["name"]


def test_a_new_head_is_initialised_by_the_seed(train: Train, tmp_path: Path) -> None:
    folders = [train("reward", "steps", max_steps=1, output_dir=str(tmp_path / place)) for place in ("one", "other")]
    assert folders[0].name == folders[1].name
    assert same_weights(*folders)


def test_a_loss_over_whole_conversations_is_noted(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    note = "The loss covers whole conversations"
    assert note in read_card(train("sft", "messages", max_steps=1)).notes[0]
    assert note in capsys.readouterr().out
    assert note not in read_card(train("sft", "messages", max_steps=1, assistant_only_loss=True)).notes[0]
    assert note not in capsys.readouterr().out


@pytest.mark.parametrize(("method", "rows"), [("sft", "sft"), ("kto", "labels"), ("reward", "steps")])
def test_a_gradient_that_is_no_number_ends_the_run(
    train: Train, method: str, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as fault:
        plant_nan(fault, 2)
        with pytest.raises(BadInput, match=r"gradient of step 2 .*checkpoint-1; .*--attn_implementation eager"):
            train(method, rows, save_steps=1)
    assert read_card(train(method, rows, save_steps=1)).method.endswith("reward" if method == "reward" else method)


@pytest.mark.parametrize(("fp16", "logs", "stops"), [
    (False, {"grad_norm": float("inf")}, True),
    (True, {"grad_norm": float("inf")}, False),
    (True, {"loss": float("nan")}, True),
    (False, {"loss": 0.3, "grad_norm": 1.0}, False),
])  # fmt: skip
def test_fp16_skips_steps_with_an_infinite_gradient_itself(
    fp16: bool, logs: dict[str, float], stops: bool, tmp_path: Path
) -> None:
    callback = _stops_at_nan(tmp_path)
    args: Any = SimpleNamespace(fp16=fp16)
    state: Any = SimpleNamespace(global_step=5)
    control: Any = None
    with (
        pytest.raises(BadInput, match="of step 5 .* may be damaged. The same command begins anew")
        if stops
        else nullcontext()
    ):
        callback.on_log(args, state, control, logs=logs)

"""Checkpoints to resume from, the loss curve, and the merge of an adapter into its base model."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.evallog.errors import bad_input

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


CURVE_METRICS = (
    *("step", "epoch", "loss", "eval_loss"),
    *("reward", "frac_reward_zero_std", "completions/mean_length", "entropy", "kl", "share_read", "failed_rollouts"),
    "eval_share_read",
)
REWARD_PREFIXES = ("rewards/", "eval_rewards/")
"""What the card keeps of a Trainer's log: these metrics, each reward's mean and standard deviation, and accuracies."""
STATE_FILE = "trainer_state.json"
"""The file of a checkpoint that transformers writes last."""


def check_checkpoint(name: str | None) -> None:
    """Check that `--resume_from_checkpoint` names a checkpoint.

    Raises:
        BadInput: The folder does not exist, or is not a checkpoint.
    """
    if name and not (Path(name) / STATE_FILE).is_file():
        problem = f"no {STATE_FILE} in this folder" if Path(name).is_dir() else "no such folder"
        raise bad_input(f"--resume_from_checkpoint {name}: {problem}; without the option, a run resumes by itself.")


def steps_done(checkpoint: Path) -> int:
    """The number of training steps before a checkpoint was written."""
    return int(json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8"))["global_step"])


def last_checkpoint(checkpoints: Path) -> Path | None:
    """The last complete checkpoint, or None. Incomplete ones, left by a killed process, are deleted."""
    found = sorted(checkpoints.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    while found:
        state = found[-1] / STATE_FILE
        if state.is_file() and state.read_text(encoding="utf-8").endswith("}\n"):
            return found[-1]
        shutil.rmtree(found.pop(), ignore_errors=True)  # other processes may delete it too
    return None


def loss_curve(history: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Losses, validation accuracies and rewards from a Trainer's log history, one row per step."""
    rows: dict[float, dict[str, float]] = {}
    for entry in history:
        metrics = {
            key: float(value)
            for key, value in entry.items()
            if value is not None  # a reward that no answer of this step received
            and (
                key in CURVE_METRICS
                or key.startswith(REWARD_PREFIXES)
                or (key.startswith("eval_") and "accurac" in key)
            )
        }
        if len(metrics.keys() - {"step", "epoch"}):
            rows.setdefault(entry["step"], {}).update(metrics)
    return [rows[step] for step in sorted(rows)]


def merge_adapter(
    folder: Path,
    method: str,
    base: str,
    model_kwargs: Mapping[str, Any],
    tokenizer: "PreTrainedTokenizerBase",
    trained: Any,  # noqa: ANN401
) -> None:
    """Merge the adapter in `folder/adapter` into its base and save the full model in `folder`.

    The end-of-text tokens are those of the `trained` model: TRL and transformers align them with the tokenizer. The
    base's own token may differ, and the merged model would then never stop.
    """
    import transformers
    from peft import PeftModel
    from transformers.integrations.deepspeed import unset_hf_deepspeed_config

    unset_hf_deepspeed_config()  # this process loads the base unsharded
    classes: dict[str, tuple[Any, int | None]] = {
        "reward": (transformers.AutoModelForSequenceClassification, 1),
        "process_reward": (transformers.AutoModelForTokenClassification, 2),
    }
    kind, labels = classes.get(method, (transformers.AutoModelForCausalLM, None))
    model = kind.from_pretrained(base, **model_kwargs, **({"num_labels": labels} if labels else {}))
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer))
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(model.config, name, getattr(trained.config, name, None))
    if model.can_generate():
        model.generation_config = trained.generation_config
    merged = PeftModel.from_pretrained(model, str(folder / "adapter")).merge_and_unload()
    merged.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))


def clear_folder(folder: Path) -> None:
    """Delete a trained model, but not its data: the run that replaces it may read them."""
    for path in folder.iterdir():
        if path.is_dir() and path.name != "data":
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()

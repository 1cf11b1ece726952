"""What training leaves on disk: data, checkpoints to go on from, losses to show, a merged model that stands alone."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.evallog.errors import bad_input

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


CURVE = (
    *("step", "epoch", "loss", "eval_loss"),
    *("reward", "frac_reward_zero_std", "completions/mean_length", "entropy", "kl", "share_read", "failed_rollouts"),
    "eval_share_read",
)
REWARDS = ("rewards/", "eval_rewards/")
"""What the card keeps of a Trainer's log, with each reward's mean and spread, and accuracies."""
STATE = "trainer_state.json"
"""In a checkpoint: what transformers writes last."""


def check_checkpoint(named: str | None) -> None:
    """Refuse to go on from what is no checkpoint.

    Raises:
        BadInput: There is no such folder, or no checkpoint in it.
    """
    if named and not (Path(named) / STATE).is_file():
        what = f"there is no {STATE} in it" if Path(named).is_dir() else "there is no such folder"
        raise bad_input(f"--resume_from_checkpoint {named}: {what}; a run goes on by itself without it")


def steps_of(checkpoint: Path) -> int:
    """How many steps were done when a checkpoint was written."""
    return int(json.loads((checkpoint / STATE).read_text(encoding="utf-8"))["global_step"])


def last_checkpoint(checkpoints: Path) -> Path | None:
    """The last checkpoint that was written to its end. One that a kill cut off is cleared away."""
    found = sorted(checkpoints.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    while found:
        state = found[-1] / STATE
        if state.is_file() and state.read_text(encoding="utf-8").endswith("}\n"):
            return found[-1]
        shutil.rmtree(found.pop(), ignore_errors=True)  # several processes may find it
    return None


def curve(history: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Training and validation loss, and validation accuracies, one row a step, from a Trainer's log history."""
    rows: dict[float, dict[str, float]] = {}
    for entry in history:
        kept = {
            key: float(value)
            for key, value in entry.items()
            # a reward that no answer of a step had is None
            if value is not None
            and (key in CURVE or key.startswith(REWARDS) or (key.startswith("eval_") and "accurac" in key))
        }
        if len(kept.keys() - {"step", "epoch"}):
            rows.setdefault(entry["step"], {}).update(kept)
    return [rows[step] for step in sorted(rows)]


def merge(
    folder: Path,
    method: str,
    base: str,
    model_kwargs: Mapping[str, Any],
    tokenizer: "PreTrainedTokenizerBase",
    trained: Any,  # noqa: ANN401
) -> None:
    """Merge the adapter in `folder/adapter` into its base, so that the folder holds a model that stands alone.

    What ends an answer is taken from the model as it was `trained`: TRL and transformers bring it into line with the
    tokenizer, and the base's own may be another token, at which the merged model would never stop.
    """
    import transformers
    from peft import PeftModel
    from transformers.integrations.deepspeed import unset_hf_deepspeed_config

    unset_hf_deepspeed_config()  # the base is whole in this process
    heads: dict[str, tuple[Any, int | None]] = {
        "reward": (transformers.AutoModelForSequenceClassification, 1),
        "process_reward": (transformers.AutoModelForTokenClassification, 2),
    }
    kind, labels = heads.get(method, (transformers.AutoModelForCausalLM, None))
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


def clear(folder: Path) -> None:
    """Remove a trained model, but not its data: a run on them may be what takes its place."""
    for path in folder.iterdir():
        if path.is_dir() and path.name != "data":
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()

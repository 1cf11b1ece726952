"""Checkpoints to resume from, the history of a run, and the merge of an adapter into its base model."""

import json
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.evallog.errors import bad_input
from truthgym.models.reward_models.encoding import NOTE
from truthgym.training.files import RESULTS_FILE, STATE_FILE, write_atomically

if TYPE_CHECKING:
    import altair as alt
    from transformers import PreTrainedTokenizerBase, Trainer

CURVE_METRICS = (
    *("step", "epoch", "loss", "eval_loss"),
    *("reward", "frac_reward_zero_std", "completions/mean_length", "entropy", "kl", "share_read", "failed_rollouts"),
    "eval_share_read",
)
REWARD_PREFIXES = ("rewards/", "eval_rewards/")
"""What the card keeps of a Trainer's log: these metrics, each reward's mean and standard deviation, and accuracies."""
CURVE_PLOT = "loss.html"


def check_checkpoint(name: str | None) -> None:
    """Check that `--resume_from_checkpoint` names a checkpoint."""
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


def write_history(
    trainer: "Trainer", folder: Path, metrics: Mapping[str, float], curve: list[dict[str, float]]
) -> None:
    """Write what transformers' own scripts leave beside a model, and a plot of the loss curve."""
    trainer.state.save_to_json(str(folder / STATE_FILE))
    last = {key: value for row in curve for key, value in row.items() if key.startswith("eval_")}
    write_atomically(folder / RESULTS_FILE, json.dumps(last | dict(metrics), indent=4, sort_keys=True) + "\n")
    if curve:  # opens offline if vl-convert is there
        curve_chart(curve).save(str(folder / CURVE_PLOT), inline=find_spec("vl_convert") is not None)


def curve_chart(curve: list[dict[str, float]]) -> "alt.Chart":
    """The training and validation loss by step; after training on rollouts, the rewards."""
    import altair as alt
    import pandas as pd

    by_rollouts = any("reward" in row for row in curve)
    names = {key for row in curve for key in row if key.startswith("eval_rewards/")} | {"reward"}
    shown = names if by_rollouts else {"loss", "eval_loss"}
    points = [{"step": row["step"], "metric": key, "value": row[key]} for row in curve for key in row if key in shown]
    title = "reward (higher is better)" if by_rollouts else "loss (lower is better)"
    chart: alt.Chart = (
        alt.Chart(pd.DataFrame(points, columns=["step", "metric", "value"]))
        .mark_line(point=True)
        .encode(alt.X("step:Q"), alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)), alt.Color("metric:N"))
    )
    return chart


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
        "rubric_reward": (transformers.AutoModelForSequenceClassification, trained.config.num_labels),
    }
    kind, labels = classes.get(method, (transformers.AutoModelForCausalLM, None))
    model = kind.from_pretrained(base, **model_kwargs, **({"num_labels": labels} if labels else {}))
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer))
    for name in ("bos_token_id", "eos_token_id", "pad_token_id", NOTE):
        if (value := getattr(trained.config, name, None)) is not None or name != NOTE:
            setattr(model.config, name, value)
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

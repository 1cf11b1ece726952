"""A trained model's folder: its name, known before training, and its card, which is written last and marks it done.

    trained/{base}-{method}-{hash}/
        README.md      the model card: Hugging Face's metadata, ours under `truthgym:`, and the text
        checkpoints/   while it trains
        adapter/       of LoRA; the weights beside the card are merged
        data/          the converted dataset, where logs were named

A model that a vendor trained has the same folder with a card and no weights.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from truthgym.evallog.errors import bad_input
from truthgym.training.artifacts import CARD, METADATA_KEY, card_metadata, markdown_table, read_markdown, write_markdown

HASH_LENGTH = 12
EVALUATIONS = "## Evaluations"
METHODS = {
    "sft": "supervised fine-tuning",
    "dpo": "direct preference optimisation",
    "kto": "Kahneman-Tversky optimisation, on answers labelled good or bad",
    "reward": "a reward model of preferences (Bradley-Terry)",
    "process_reward": "a process reward model, which classifies each reasoning step",
    "grpo": "group relative policy optimisation on its own rollouts",
    "rloo": "REINFORCE with a leave-one-out baseline on its own rollouts",
    "few_shot": "few-shot prompting: the best trajectories of logs stand before each question",
    "reinforcement": "reinforcement fine-tuning with a grader",
}


@dataclass
class Facts:
    """What is known of a trained model: everything that its card says."""

    method: str
    """A key of `METHODS`."""
    base: str
    """What was trained: a folder, a name on the hub, or a vendor's model."""
    base_hash: str
    """See `hash_model`."""
    model: str
    """How `inspect eval --model` names it: `hf/trained/NAME`, `openai/ft:...`. Empty for one that writes no text."""
    dataset: str
    """The folder, or the name on the hub."""
    data: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each file of the dataset, see `hash_dataset`."""
    config: dict[str, Any] = field(default_factory=dict)
    """What changes the result: no paths, no logging."""
    dataset_facts: dict[str, Any] = field(default_factory=dict)
    """What the dataset's own card says under `truthgym:` (kind, rows, selection, logs), see `card_metadata`."""
    curve: list[dict[str, float]] = field(default_factory=list)
    """Rows of `step`, `epoch`, `loss`, `eval_loss`, as far as each is known, in order of steps."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the card: what else a reader must know, such as a vendor's job and what it cost."""
    evals: list[dict[str, Any]] = field(default_factory=list)
    """Written by `truthgym.training.evaluations.add_evaluations`."""


LOSSES = {"step": "step", "epoch": "epoch", "loss": "training loss", "eval_loss": "validation loss"}
REINFORCED = {
    "step": "step",
    "reward": "reward",
    "share_read": "share read",
    "completions/mean_length": "tokens",
    "entropy": "entropy",
    "kl": "kl",
    "frac_reward_zero_std": "groups without gradient",
    "eval_share_read": "validation: share read",
}
"""Columns of the card's curve, with their heads: of training on a dataset, and of reinforcement."""


def name_of(method: str, base: str, base_hash: str, data: Mapping[str, str], config: Mapping[str, Any]) -> str:
    """Name a model before it is trained: `{base}-{method}-{hash}`, the hash over all that decides what it becomes.

    Args:
        method: As in `Facts`.
        base: As in `Facts`. Its last part stands in the name.
        base_hash: See `hash_model`.
        data: See `hash_dataset`. The names of the files do not count.
        config: What changes the result. Leave out paths and logging.
    """
    told = json.dumps([method, base_hash, sorted(data.values()), dict(config)], sort_keys=True, default=str)
    short = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(base).name).strip("-.") or "model"
    return f"{short}-{method}-{sha256(told.encode()).hexdigest()[:HASH_LENGTH]}"


def is_finished(folder: Path) -> bool:
    """Whether training into this folder came to its end. The card is written last."""
    return (folder / CARD).is_file()


def write_card(folder: Path, facts: Facts) -> Path:
    """Write the model card, and with it mark the folder as finished.

    Args:
        folder: The model's. It is made where it is not there.
        facts: Everything that is known.

    Returns:
        The card.
    """
    folder.mkdir(parents=True, exist_ok=True)
    head = {
        "base_model": facts.base,
        "datasets": [facts.dataset],
        "library_name": "transformers" if _is_local(facts) else facts.model.partition("/")[0],
        "tags": ["truthgym", facts.method, *(["trl"] if _is_local(facts) else [])],
        METADATA_KEY: asdict(facts),
    }
    return write_markdown(folder / CARD, head, _text(folder.name, facts))


def read_card(folder: Path) -> Facts:
    """Read back what `write_card` wrote.

    Raises:
        BadInput: There is no card, or not one of ours.
    """
    card = folder / CARD
    if not card.is_file():
        raise bad_input(f"{folder} holds no {CARD}; give the folder of a model that `truthgym train` finished")
    told = card_metadata(folder)
    known = {entry.name for entry in fields(Facts)}
    if not {"method", "base", "base_hash", "model", "dataset"} <= set(told):
        raise bad_input(
            f"{card} is not the card of a trained model; give the folder of one that `truthgym train` finished"
        )
    return Facts(**{name: value for name, value in told.items() if name in known})


def set_evaluations(folder: Path, evals: list[dict[str, Any]], table: str) -> Path:
    """Put evaluations into a card. The rest of its text, which someone may have written on, stays as it is."""
    card = folder / CARD
    facts = read_card(folder)
    head, body = read_markdown(card)
    head[METADATA_KEY] = asdict(facts) | {"evals": evals}
    before, _, after = body.partition(f"{EVALUATIONS}\n")
    rest = after.partition("\n## ")
    return write_markdown(card, head, f"{before}{EVALUATIONS}\n\n{table.strip()}\n{rest[1]}{rest[2]}")


def _is_local(facts: Facts) -> bool:
    return facts.model.partition("/")[0] in ("hf", "vllm", "")


def _text(name: str, facts: Facts) -> str:
    """The card's text."""
    told = facts.dataset_facts
    method = METHODS[facts.method]
    counts = ", ".join(f"{number} {key}" for key, number in told.get("rows", {}).items() if isinstance(number, int))
    parts = [f"# {name}", f"`{facts.base}` after {method}, made with Truthgym.", *facts.notes, "## Data"]
    parts.append(
        f"`{facts.dataset}`"
        + (f", of kind {told['kind']}" if "kind" in told else "")
        + f"{': ' * bool(counts)}{counts}."
    )
    parts.append(
        markdown_table(["file", "SHA-256"], [[f"`{file}`", f"`{digest}`"] for file, digest in facts.data.items()])
    )
    if logs := told.get("logs"):
        origin = ("log", "task", "model", "sha256")
        rows = [[f"`{log.get(key, '')}`" for key in origin] for log in logs]
        parts += ["Converted from:", markdown_table([*origin[:3], "SHA-256"], rows)]
    if told.get("selection"):
        parts.append(f"Selected by: `{json.dumps(told['selection'], default=str)}`.")
    parts += [
        "## Training",
        markdown_table(["option", "value"], [[f"`{key}`", f"`{value}`"] for key, value in facts.config.items()]),
    ]
    if facts.curve:
        there = {key for row in facts.curve for key in row}
        shown = REINFORCED if "reward" in there else LOSSES
        paid = sorted(key for key in there if key.startswith("eval_rewards/")) if "reward" in there else []
        columns = [key for key in [*shown, *paid] if key in there]
        rows = [[f"{row[key]:.5g}" if key in row else "" for key in columns] for row in facts.curve]
        named = [shown.get(key, key.replace("eval_rewards/", "validation: ")) for key in columns]
        parts.append(markdown_table(named, rows))
    if facts.model:
        lines = [f"inspect eval truthgym/urns --model {facts.model}"]
        if facts.model.startswith("hf/"):
            lines.append(
                f"inspect eval truthgym/urns --model vllm/{facts.model.removeprefix('hf/')}  # faster, on a GPU"
            )
        parts += ["## Evaluate it", "```bash\n" + "\n".join(lines) + "\n```"]
    parts += [EVALUATIONS, "None yet: `truthgym card FOLDER --log LOG` adds those of this model and of its base."]
    return "\n\n".join(part for part in parts if part) + "\n"

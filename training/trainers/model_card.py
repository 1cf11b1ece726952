"""A trained model's folder: its name, known before training, and its model card, written last to mark it as finished.

    trained/{base}-{method}-{hash}/
        README.md      the model card: Hugging Face's metadata, Truthgym's under `truthgym:`, and the text
        checkpoints/   during training
        adapter/       the LoRA adapter, which is also merged into the weights next to the card
        data/          the converted dataset, if logs were given

A model that a provider trained has the same folder with a card and no weights.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from truthgym.datasets.redaction import redacted
from truthgym.evallog.errors import bad_input
from truthgym.training.files import CARD, METADATA_KEY, card_metadata, markdown_table, read_markdown, write_markdown
from truthgym.training.lineage import digest_of, record

HASH_LENGTH = 12
HEX = re.compile(r"[0-9a-f]{64}")
EVALUATIONS = "## Evaluations"
METHODS = {
    "sft": "supervised fine-tuning",
    "dpo": "direct preference optimisation",
    "kto": "Kahneman-Tversky optimisation on answers labelled good or bad",
    "reward": "reward modelling of preferences (Bradley-Terry)",
    "process_reward": "process reward modelling, which classifies each reasoning step",
    "rubric_reward": "regression on the scores that a rubric gave, one output for each criterion",
    "grpo": "group relative policy optimisation on its own rollouts",
    "rloo": "REINFORCE with a leave-one-out baseline on its own rollouts",
    "few_shot": "few-shot prompting with the best trajectories of logs before each question",
    "reinforcement": "reinforcement fine-tuning with a grader",
}


@dataclass
class ModelCard:
    """The metadata of a trained model: everything that its card states."""

    method: str
    """A key of `METHODS`."""
    base: str
    """The model that was trained: a folder, a name on the Hub, or a provider's model."""
    base_hash: str
    model: str
    """The name for `inspect eval --model`: `hf/trained/NAME`, `openai/ft:...`. Empty if the model writes no text."""
    dataset: str
    """The folder, or the name on the Hub."""
    data: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each file of the dataset, see `hash_dataset`."""
    config: dict[str, Any] = field(default_factory=dict)
    """The options that change the result: no paths, no logging."""
    dataset_facts: dict[str, Any] = field(default_factory=dict)
    """The `truthgym:` metadata of the dataset's card (kind, rows, selection, logs), see `card_metadata`."""
    curve: list[dict[str, float]] = field(default_factory=list)
    """Rows of `step`, `epoch`, `loss`, `eval_loss`, as far as each is known, in order of steps."""
    rewards: dict[str, str] = field(default_factory=dict)
    """What gave the rewards, by name with its digest: a server's specification, artifacts, files."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the card that say what else a reader must know, such as a provider's job and its cost."""
    evals: list[dict[str, Any]] = field(default_factory=list)
    """Written by `truthgym.training.evaluations.add_evaluations`."""


LOSS_COLUMNS = {"step": "step", "epoch": "epoch", "loss": "training loss", "eval_loss": "validation loss"}
"""Columns of the card's curve after training on a dataset, with their headings."""
ROLLOUT_COLUMNS = {
    "step": "step",
    "reward": "reward",
    "share_read": "share read",
    "completions/mean_length": "tokens",
    "entropy": "entropy",
    "kl": "kl",
    "frac_reward_zero_std": "groups without gradient",
    "sampling/importance_sampling_ratio/min": "least ratio",
    "sampling/importance_sampling_ratio/max": "largest ratio",
    "eval_share_read": "validation: share read",
}
"""The same after training on rollouts."""


def model_name(method: str, base: str, base_hash: str, data: Mapping[str, str], config: Mapping[str, Any]) -> str:
    """Name a model before it is trained: `{base}-{method}-{hash}`, with a hash of all that determines the result."""
    hashed = json.dumps([method, base_hash, sorted(data.values()), dict(config)], sort_keys=True, default=str)
    short = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(base).name).strip("-.") or "model"
    return f"{short}-{method}-{sha256(hashed.encode()).hexdigest()[:HASH_LENGTH]}"


def is_finished(folder: Path) -> bool:
    """Whether training into this folder has finished: the card is written last."""
    return (folder / CARD).is_file()


def write_card(folder: Path, card: ModelCard) -> Path:
    """Write the model card, which marks the folder as finished. The folder is created if it does not exist."""
    library = card.model.partition("/")[0]
    is_local = library in ("hf", "vllm", "")
    metadata = {
        "base_model": card.base,
        "datasets": [card.dataset],
        "library_name": "transformers" if is_local else library,
        "tags": ["truthgym", card.method, *(["trl"] if is_local else [])],
        METADATA_KEY: asdict(card),
    }
    path = write_markdown(folder / CARD, metadata, _text(folder.name, card))
    record("train", [folder], origins(card.base, card.base_hash, card.dataset) | card.rewards, parameters={
        "method": card.method, "base": card.base, "config": card.config,
    })  # fmt: skip
    return path


def origins(base: str, base_hash: str, dataset: str) -> dict[str, str]:
    """What a model is made from, by name with its digest: the base model and the dataset."""
    base_digest = base_hash if HEX.fullmatch(base_hash) else digest_of(base_hash)
    return {base if HEX.fullmatch(base_hash) else base_hash: base_digest, dataset: digest_of(dataset)}


def read_card(folder: Path) -> ModelCard:
    """Read the card that `write_card` wrote."""
    if not is_finished(folder):
        raise bad_input(f"{folder} contains no {CARD}; give the folder of a model that `truthgym train` finished.")
    metadata = card_metadata(folder)
    if not {"method", "base", "base_hash", "model", "dataset"} <= set(metadata):
        raise bad_input(
            f"{folder / CARD} is not the card of a trained model; give the folder of a model that `truthgym train` "
            "finished."
        )
    names = {entry.name for entry in fields(ModelCard)}
    return ModelCard(**{name: value for name, value in metadata.items() if name in names})


def set_evaluations(folder: Path, evals: list[dict[str, Any]], text: str) -> Path:
    """Replace the evaluations in a card. The rest of its text, which the user may have edited, stays as it is."""
    card = read_card(folder)
    metadata, body = read_markdown(folder / CARD)
    metadata[METADATA_KEY] = asdict(card) | {"evals": evals}
    before, _, after = body.partition(f"{EVALUATIONS}\n")
    _, heading, rest = after.partition("\n## ")
    return write_markdown(folder / CARD, metadata, f"{before}{EVALUATIONS}\n\n{text.strip()}\n{heading}{rest}")


def _text(name: str, card: ModelCard) -> str:
    """The card's text."""
    dataset = card.dataset_facts
    counts = ", ".join(f"{number} {key}" for key, number in dataset.get("rows", {}).items() if isinstance(number, int))
    kind = f", of kind {dataset['kind']}" if "kind" in dataset else ""
    data = f"`{card.dataset}`{kind}{': ' if counts else ''}{counts}."
    hashes = [[f"`{file}`", f"`{digest}`"] for file, digest in card.data.items()]
    parts = [f"# {name}", f"`{card.base}` after {METHODS[card.method]}, trained with Truthgym.", *card.notes]
    parts += ["## Data", data, markdown_table(["file", "SHA-256"], hashes)]
    if logs := dataset.get("logs"):
        rows = [[f"`{log.get(key, '')}`" for key in ("log", "task", "model", "sha256")] for log in logs]
        parts += ["Converted from:", markdown_table(["log", "task", "model", "SHA-256"], rows)]
    if dataset.get("selection"):
        parts.append(f"Selection: `{json.dumps(dataset['selection'], default=str)}`.")
    options = [[f"`{key}`", f"`{_in_a_cell(value)}`"] for key, value in _flat(redacted(card.config))]
    parts += ["## Training", markdown_table(["option", "value"], options), _curve_table(card.curve)]
    if card.model:
        lines = [f"inspect eval truthgym/urns --model {card.model}"]
        if card.model.startswith("hf/"):
            lines.append(
                f"inspect eval truthgym/urns --model vllm/{card.model.removeprefix('hf/')}  # faster, on a GPU"
            )
        parts += ["## Evaluate it", "```bash\n" + "\n".join(lines) + "\n```"]
    parts += [EVALUATIONS, "None yet: `truthgym card FOLDER --log LOG` adds those of this model and of its base."]
    return "\n\n".join(part for part in parts if part) + "\n"


def _flat(options: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Options with those inside others by their path, such as `task_args.n`."""
    for key, value in options.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _in_a_cell(value: object, most: int = 80) -> str:
    """An option on one line; a long one is whole in the metadata above."""
    text = " ".join(str(value).replace("|", "\\|").replace("`", "'").split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _curve_table(curve: list[dict[str, float]]) -> str:
    """The loss curve, or for reinforcement the rewards, with the columns that have a value in some row."""
    present = {key for row in curve for key in row}
    headings = dict(LOSS_COLUMNS)
    if "reward" in present:
        rewards = sorted(key for key in present if key.startswith("eval_rewards/"))
        headings = ROLLOUT_COLUMNS | {key: key.replace("eval_rewards/", "validation: ") for key in rewards}
    columns = {key: heading for key, heading in headings.items() if key in present}
    rows = [[f"{row[key]:.5g}" if key in row else "" for key in columns] for row in curve]
    return markdown_table(list(columns.values()), rows)

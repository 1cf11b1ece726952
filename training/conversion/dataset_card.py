"""The text of a converted dataset's card: what is in it, where it is from, what was left out and why."""

from collections.abc import Mapping
from typing import Any

USE = {
    "sft": "`truthgym train sft --dataset_name {out}`, or plain `trl sft --dataset_name {out}`",
    "preference": "`truthgym train dpo --dataset_name {out}` or `truthgym train reward ...`, or plain `trl dpo`",
    "unpaired": "`truthgym train kto --dataset_name {out}`, or plain `trl kto`",
    "prompts": "TRL's GRPO and RLOO trainers, whose reward functions get the other columns",
    "steps": "`truthgym train reward --dataset_name {out}`, which trains a process reward model",
    "few_shot": "`inspect eval ... --solver truthgym/few_shot -S source={out}/train.jsonl -S share=1.0 -S best={best}`",
    "openai": "`truthgym train sft|dpo|reinforcement --provider openai --dataset_name {out}`",
}
COLUMNS = {
    "prompt": "the conversation before what is learned",
    "completion": "what is learned: one reply",
    "messages": "the whole conversation; every reply in it may be learned from (`assistant_only_loss`)",
    "chosen": "the better of two replies",
    "rejected": "the worse of two replies",
    "margin": "how much better the chosen one's trajectory scored, above 0",
    "label": "whether the reply's trajectory is one of the better ones",
    "completions": "the steps of the reasoning",
    "labels": "for each step, whether the belief after it is at least as close to the outcome as before",
    "step_scores": "for each step, by how much the Brier score of the belief fell; above 0 is better",
    "score": "the score that it was selected by",
}

TRACED = ("log", "eval_id", "task", "sample_id", "sample_uuid", "epoch", "model", "solver", "split", "event")


def card_text(facts: Mapping[str, Any], out: str, columns: list[str]) -> str:
    """Write the card in Markdown.

    Args:
        facts: What stands in the card's metadata.
        out: The folder.
        columns: The columns that the rows have.
    """
    rows = ", ".join(f"{number:,} of {split}" for split, number in facts["rows"].items())
    lines = [
        f"Rows for training, made from Inspect logs by `truthgym convert --to {facts['kind']}`: {rows}.",
        "",
        f"Use it with {USE[facts['kind']].format(out=out, best=facts['selection'].get('best') or 'lowest')}.",
        "",
        "## Selection",
        "",
        *(f"- {_words(name)}: {_shown(value)}" for name, value in facts["selection"].items()),
        *(f"- {_words(name)}: {_shown(value)}" for name, value in facts["settings"].items() if name != "to"),
        "",
        "Questions of the test split are never among them. "
        "Questions of one event are in one part only, `train` or `validation`.",
        "",
        f"{facts['samples']:,} samples were read. Left out:",
        "",
        *(f"- {number:,}: {reason}" for reason, number in facts["left_out"].items() if number),
        "",
        "## Columns",
        "",
        *(f"- `{name}`: {COLUMNS[name]}" for name in columns if name in COLUMNS),
        "- where a row is from: " + (", ".join(f"`{name}`" for name in columns if name in TRACED) or "not said in it"),
        "",
        "## Logs",
        "",
        "| log | task | model | SHA-256 |",
        "|---|---|---|---|",
        *(f"| `{log['log']}` | `{log['task']}` | `{log['model']}` | `{log['sha256'][:16]}` |" for log in facts["logs"]),
    ]
    return "\n".join(lines)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _shown(value: object) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, list | tuple) else f"`{value}`"

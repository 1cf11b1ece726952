"""Few-shot: the model is not changed, and the best trajectories of a log are shown to it before each question.

truthgym train few_shot --model_name_or_path openai/gpt-5.4-mini --log logs/urns
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from truthgym.training.conversion.selection import Selection
from truthgym.training.convert import convert
from truthgym.training.files import card_metadata, hash_dataset
from truthgym.training.trainers.model_card import ModelCard, is_finished, model_name, write_card


def few_shot(
    model: str,
    logs: Sequence[str | Path],
    selection: Selection | None = None,
    output_dir: str | Path = "trained",
    overwrite: bool = False,
) -> Path:
    """Write a folder of examples for the solver `truthgym/few_shot`, with a model card as the trainers write it.

    Args:
        model: Inspect's name of the model.
        logs: Logs and folders of logs to take the examples from.
        selection: Which trajectories to take. None is the top tenth by the Brier score, at most 100. The best come
            first. `few_shot` shows as many as fit, but none of the event of the question or of a later day.
        output_dir: The parent of the folder `{model}-few_shot-{hash}`.
        overwrite: Whether to replace a finished folder.

    Returns:
        The folder. Its card contains the command that evaluates it.

    Raises:
        BadInput: Logs or a selection that cannot be used.
    """
    parent = Path(output_dir)
    partial = parent / f".{Path(model).name}-few_shot"
    convert(logs, "few_shot", partial, selection, overwrite=True)
    try:
        data = hash_dataset(partial)
        folder = parent / model_name("few_shot", model, model, data, {})
        if is_finished(folder) and not overwrite:
            return folder
        shutil.rmtree(folder / "data", ignore_errors=True)
        folder.mkdir(exist_ok=True)
        partial.rename(folder / "data")
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    facts = ModelCard(
        method="few_shot",
        base=model,
        base_hash=model,
        model="",
        dataset=str(folder / "data"),
        data=data,
        dataset_facts=card_metadata(folder / "data"),
    )
    # share=1.0, because the examples are already selected. `best` makes the solver show the best first.
    best = (facts.dataset_facts.get("selection") or {}).get("best") or "lowest"
    solver = f"--solver truthgym/few_shot -S source={folder / 'data' / 'train.jsonl'} -S share=1.0 -S best={best}"
    line = f"Evaluate it with `inspect eval truthgym/urns --model {model} {solver}`, or another task."
    write_card(folder, replace(facts, notes=["The weights are those of the base model.", line]))
    return folder

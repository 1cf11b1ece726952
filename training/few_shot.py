"""Few-shot: nothing of the model is changed. The best trajectories of a log stand before what it is asked.

truthgym train few_shot --model_name_or_path openai/gpt-5.4-mini --log logs/urns
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from truthgym.training.artifacts import card_metadata, hash_dataset
from truthgym.training.conversion.selection import Selection
from truthgym.training.convert import convert
from truthgym.training.trainers.model_card import ModelCard, is_finished, model_name, write_card


def few_shot(
    model: str,
    logs: Sequence[str | Path],
    selection: Selection | None = None,
    output_dir: str | Path = "trained",
    overwrite: bool = False,
) -> Path:
    """Write the examples that `truthgym/few_shot` reads, with a card, as other trainers do.

    Args:
        model: The model as Inspect names it.
        logs: Where the examples are from.
        selection: Which of them; None is the smaller of 100 and the top tenth by the Brier score. The best come
            first, and `few_shot` shows as many as there is room for, none of the asked question's event or of a later
            day.
        output_dir: Where the folder `{model}-few_shot-{hash}` is put.
        overwrite: Whether to write it again.

    Returns:
        The folder. Its card has the line that evaluates it.

    Raises:
        BadInput: Logs or a selection that cannot be used.
    """
    place = Path(output_dir)
    partial = place / f".{Path(model).name}-few_shot"
    convert(logs, "few_shot", partial, selection, overwrite=True)
    try:
        data = hash_dataset(partial)
        folder = place / model_name("few_shot", model, model, data, {})
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
    # All of them: they are chosen already. `best` only orders them, but the worst are not to come first.
    best = (facts.dataset_facts.get("selection") or {}).get("best") or "lowest"
    solver = f"--solver truthgym/few_shot -S source={folder / 'data' / 'train.jsonl'} -S share=1.0 -S best={best}"
    line = f"Evaluate it with `inspect eval truthgym/urns --model {model} {solver}`, or on any other task."
    write_card(folder, replace(facts, notes=["The weights are those of the base.", line]))
    return folder

"""Searches for a rubric that orders good answers as their labels do, and measures it on held-out prompts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.training.artifacts import folder_lock
from truthgym.training.search.config import SearchConfig
from truthgym.training.search.data import read_prompts
from truthgym.training.search.labels import check_labels
from truthgym.training.search.run import RESULT, base_log, run_search

HUMAN = "truth_seeking"


def rubric_search(
    dataset: str,
    out: Path,
    config: SearchConfig | None = None,
    human_rubric: str = HUMAN,
    arguments: Sequence[str] = (),
) -> dict[str, Any]:
    """Search for a rubric. A run that was killed is continued by the same call, with the same result.

    Args:
        dataset: "bundled", or a JSON file with prompts and candidates (`search.data.read_prompts`).
        out: Folder of the run: the result (`search.json`), a report, the base log, scores, checkpoints and a script
            that repeats the run.
        config: The options; None for the defaults, which need no key.
        human_rubric: A rubric that a person wrote, to compare with: a bundled name or a .json file.
        arguments: The command's options, for the script.

    Returns:
        What `search.json` holds.

    Raises:
        BadInput: Prompts, options or models that cannot be used; a folder with a finished search, or with one of other
            options.
    """
    import anyio

    prompts = read_prompts(dataset)
    config = config or SearchConfig()
    check_labels(prompts.prompts, config.judge is not None)
    if (out / RESULT).exists():
        raise BadInput(f"{out} has the result of a search; give another folder with --out")

    with folder_lock(out):
        base = base_log(prompts, config, out)
        return anyio.run(run_search, prompts, config, human_rubric, out, arguments, base)

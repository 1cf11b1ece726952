"""Searches for a rubric that orders good answers as their labels do, and measures it on held-out prompts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.training.files import folder_lock
from truthgym.training.search.config import SearchConfig
from truthgym.training.search.data import read_prompts
from truthgym.training.search.labels import check_labels
from truthgym.training.search.run import PROMPTS, RESULT, base_log, run_search
from truthgym.training.statements import digest_of, record, store_of

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
        BadInput: Prompts, options or models that cannot be used; a folder with a finished search, with one of other
            options, or in use by another command.
    """
    import anyio

    prompts = read_prompts(dataset)
    config = config or SearchConfig()
    check_labels(prompts.prompts, config.judge is not None)
    with folder_lock(out):
        if (out / RESULT).exists():
            raise BadInput(f"{out} has the result of a search; give another folder with --out")
        try:
            base = base_log(prompts, config, out)
            return anyio.run(run_search, prompts, config, human_rubric, out, arguments, base)
        except BaseException as error:
            _record_failure(out, config, error)
            raise


def _record_failure(out: Path, config: SearchConfig, error: BaseException) -> None:
    """Write the statement of a search that failed or was cancelled. `run_search` writes that of one that succeeds."""
    prompts = out / PROMPTS
    record(
        "search",
        {f"{out.name} (unfinished)": digest_of(f"{out.name} (unfinished)")},
        [prompts] if prompts.is_file() else [],
        store=store_of(prompts),
        status="cancelled" if isinstance(error, KeyboardInterrupt | SystemExit) else "failed",
        parameters=config.model_dump(mode="json"),
        failure={"stage": "search", "type": type(error).__name__, "message": str(error)[:500]},
    )

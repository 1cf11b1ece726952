"""Searches for a rubric that orders good answers as their labels do, and measures it on held-out prompts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from truthgym.datasets.errors import BadInput
from truthgym.scorers.rubrics.grading import repeat_sd
from truthgym.scorers.rubrics.reward import read_reward
from truthgym.scorers.rubrics.rubric import Rubric, digest
from truthgym.training.files import folder_lock, write_atomically
from truthgym.training.lineage import digest_of, record, record_failure, store_of
from truthgym.training.search.candidates import Prompt, Prompts, check_labels, make_labels, read_prompts, split_prompts
from truthgym.training.search.config import SearchConfig
from truthgym.training.search.engine import GENERIC, Search, changed, generic_rubric, initial_rubric
from truthgym.training.search.objective import objective, rounded
from truthgym.training.search.result import RESULT, Arm, run_manifest, verdict, write_result
from truthgym.training.search.rubric_scores import Scores, candidate_scores, write_base_log

HUMAN = "truth_seeking"
PROMPTS = "prompts.json"
REPEATS = 5
"""Votes for each held-out candidate from which the standard deviation of a repeated score is measured."""


def rubric_search(
    dataset: str,
    out: Path,
    config: SearchConfig | None = None,
    human_rubric: str = HUMAN,
    arguments: Sequence[str] = (),
) -> dict[str, Any]:
    """Search for a rubric. A run that was killed is continued by the same call, with the same result.

    Args:
        dataset: "bundled", or a JSON file with prompts and candidates (`search.candidates.read_prompts`).
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
            base_log = _base_log(prompts, config, out)
            return anyio.run(_run_search, prompts, config, human_rubric, out, arguments, base_log)
        except BaseException as error:
            parents = [out / PROMPTS] if (out / PROMPTS).is_file() else []
            record_failure("search", out.name, error, parents, store_of(out / PROMPTS), config.model_dump(mode="json"))
            raise


async def _run_search(
    prompts: Prompts, config: SearchConfig, human: str, folder: Path, arguments: Sequence[str], base_log: str
) -> dict[str, Any]:
    """Search, report and write all files."""
    searched, held_out = split_prompts(prompts, config.held_out)
    local = config.scope == "prompt_local"
    key = digest([prompts.digest, read_reward(human)[0].digest])
    write_atomically(folder / PROMPTS, json.dumps(prompts.model_dump(mode="json"), ensure_ascii=False))
    judge = config.judge.load() if config.judge else None
    labels, comparisons = await make_labels(prompts.prompts, judge, folder)
    judges = [verifier.load() for verifier in config.verifiers]
    scores = Scores(config.protocol, judges, labels, folder / "scores.jsonl")
    searches = [
        Search(config, group, scores, folder / "checkpoints" / f"{i}.json", key)
        for i, group in enumerate([[prompt] for prompt in searched] if local else [searched])
    ]
    best = [await search.run() for search in searches]
    # What a prompt without a rubric of its own gets: as a global one, the best on all searched prompts.
    candidates = {wide.digest: wide for wide in (changed(rubric, scope="global", applies_to="") for rubric in best)}
    totals = {name: await _total(rubric, searched, scores, config) for name, rubric in candidates.items()}
    best_global = candidates[max(candidates, key=lambda name: totals[name])]
    by_prompt = best if local else [best_global] * len(searched)
    own_scores = [(await scores.score(rubric, [prompt]))[0] for prompt, rubric in zip(searched, by_prompt, strict=True)]
    arms = await _arms(best_global, searched, held_out, scores, config, human)
    votes = config.protocol.model_copy(update={"votes": max(REPEATS, config.protocol.votes)})
    repeated = Scores(votes, judges, labels)
    all_scores = await scores.score(best_global, [*searched, *held_out])
    content = {
        "format": "truthgym.rubric_search/1",
        "best_rubrics": [
            {"prompt_id": prompt.prompt_id, "rubric_digest": rubric.digest, **candidate_scores(prompt, prompt_scores)}
            for prompt, rubric, prompt_scores in zip(searched, by_prompt, own_scores, strict=True)
        ],
        "rubrics": [rubric.model_dump(mode="json") for rubric in ([*best, best_global] if local else [best_global])],
        "best_objective_scores": {
            prompt.prompt_id: rounded(total)
            for prompt, total in zip(searched, objective(own_scores, config.weights).by_prompt, strict=True)
        },
        "arms": arms,
        "verdict": verdict(arms),
        "repeat_sd": rounded(repeat_sd(await repeated.votes(best_global, held_out))),
        "unscored": sum(int(np.isnan(prompt_scores.scores).sum()) for prompt_scores in all_scores),
        "stopped": [search.state["stopped"] for search in searches],
        "generations": [search.state["generation"] for search in searches],
        "unusable_offspring": sum(search.state["unusable"] for search in searches),
        "history": [search.state["history"] for search in searches],
        "human_rubric": human,
        "config": config.model_dump(mode="json"),
        "config_digest": config.digest,
        "prompts_digest": prompts.digest,
    }
    manifest = run_manifest(folder, arguments, config, prompts.digest) | {
        "base_log": base_log,
        "judge_calls": scores.calls + repeated.calls,
        "comparison_calls": comparisons,
    }
    result = write_result(folder, content, manifest)
    subjects = {str(folder / RESULT): digest_of(folder / RESULT)}
    record(
        "search", subjects, [folder / PROMPTS], parameters=content["config"], figures={"verdict": content["verdict"]}
    )
    return result


def _base_log(prompts: Prompts, config: SearchConfig, folder: Path) -> str:
    """The name of the base log: the one that an earlier run wrote for these prompts, or a new one."""
    file = folder / "base_log.json"
    if file.is_file() and (earlier := json.loads(file.read_text(encoding="utf-8")))["prompts"] == prompts.digest:
        return str(earlier["log"])
    held_out = {prompt.prompt_id for prompt in split_prompts(prompts, config.held_out)[1]}
    log = Path(write_base_log(prompts.prompts, held_out, folder / "logs").location).name
    write_atomically(file, json.dumps({"prompts": prompts.digest, "log": log}))
    return log


async def _total(rubric: Rubric, prompts: Sequence[Prompt], scores: Scores, config: SearchConfig) -> float:
    return objective(await scores.score(rubric, prompts), config.weights).total.estimate


async def _arms(
    best: Rubric,
    searched: Sequence[Prompt],
    held_out: Sequence[Prompt],
    scores: Scores,
    config: SearchConfig,
    human: str,
) -> dict[str, dict[str, Any]]:
    """The search's rubric and those that it must beat, measured on both parts."""
    texts = [prompt.prompt for prompt in searched]
    written = await initial_rubric(config.initializer.load(), texts, generic_rubric(config), config.protocol.language)
    if isinstance(written, str):
        raise BadInput(
            f"The initializer wrote no rubric for the arm prompt_only: {written}; name another with --initializer, and "
            "repeat the command: what was scored is kept"
        )
    rubrics = {
        "search": best,
        "no_rubric": changed(GENERIC, scale="0-5"),
        "prompt_only": written,
        "human_rubric": read_reward(human)[0].rubrics[0],
    }
    arms = {
        name: Arm(
            rubric, *[objective(await scores.score(rubric, part), config.weights) for part in (searched, held_out)]
        )
        for name, rubric in rubrics.items()
    }
    return {name: arm.row(arms["search"]) for name, arm in arms.items()}

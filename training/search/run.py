"""Runs a search from its prompts to its files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from truthgym.datasets.errors import BadInput
from truthgym.scorers.rubrics.grading import repeat_sd
from truthgym.scorers.rubrics.reward import read_reward
from truthgym.scorers.rubrics.rubric import Rubric, digest
from truthgym.training.files import write_atomically
from truthgym.training.search.config import SearchConfig
from truthgym.training.search.data import Prompt, Prompts, split_prompts
from truthgym.training.search.engine import GENERIC, Search, Writers, generic_rubric
from truthgym.training.search.gepa_arm import gepa_search
from truthgym.training.search.labels import make_labels
from truthgym.training.search.mutation import changed
from truthgym.training.search.objective import objective, rounded
from truthgym.training.search.proposer import initial_rubric
from truthgym.training.search.records import manifest, write_script
from truthgym.training.search.report import ARMS, Arm, table, verdict
from truthgym.training.search.scoring import Scores, candidate_scores, write_base_log
from truthgym.training.statements import digest_of, record

RESULT = "search.json"
REPORT = "report.md"
PROMPTS = "prompts.json"
REPEATS = 5
"""Votes for each held-out candidate from which the standard deviation of a repeated score is measured."""


async def run_search(
    prompts: Prompts, config: SearchConfig, human: str, folder: Path, arguments: Sequence[str], base: str
) -> dict[str, Any]:
    """Search, report and write all files. See `rubric_search`. `base` is the name of the base log."""
    searched, held_out = split_prompts(prompts, config.held_out)
    key = digest([prompts.digest, read_reward(human)[0].digest])
    write_atomically(folder / PROMPTS, json.dumps(prompts.model_dump(mode="json"), ensure_ascii=False))
    judge = config.judge.load() if config.judge else None
    labels, comparisons = await make_labels(prompts.prompts, judge, folder)
    scores = Scores(
        config.protocol, [verifier.load() for verifier in config.verifiers], labels, folder / "scores.jsonl"
    )
    writers = Writers(config.initializer.load(), config.proposer.load())
    searches = [
        Search(config, group, scores, writers, folder / "checkpoints" / f"{i}.json", key)
        for i, group in enumerate([[one] for one in searched] if config.scope == "prompt_local" else [searched])
    ]
    found = [await (gepa_search(search) if config.mode == "gepa" else search.run()) for search in searches]
    widest = await _best_global(found, searched, scores, config)
    rubrics = [widest] if config.scope == "global_batch" else [*found, widest]
    arms = await _arms(widest, searched, held_out, scores, writers, config, human)
    repeated = Scores(
        config.protocol.model_copy(update={"votes": max(REPEATS, config.protocol.votes)}), scores.judges, labels
    )
    sd = repeat_sd(await repeated.votes(widest, held_out))
    content = {
        "format": "truthgym.rubric_search/1",
        "best_rubrics": [
            {
                "prompt_id": prompt.prompt_id,
                "rubric_digest": rubric.digest,
                **candidate_scores(prompt, (await scores.score(rubric, [prompt]))[0]),
            }
            for prompt, rubric in zip(
                searched, found if config.scope == "prompt_local" else [widest] * len(searched), strict=True
            )
        ],
        "rubrics": [rubric.model_dump(mode="json") for rubric in rubrics],
        "best_objective_scores": await _by_prompt(found, widest, searched, scores, config),
        "arms": arms,
        "verdict": verdict(arms),
        "repeat_sd": rounded(sd),
        "unscored": sum(int(np.isnan(one.scores).sum()) for one in await scores.score(widest, [*searched, *held_out])),
        "stopped": [search.state["stopped"] for search in searches],
        "generations": [search.state["generation"] for search in searches],
        "unusable_offspring": sum(search.state["unusable"] for search in searches),
        "history": [search.state["history"] for search in searches],
        "human_rubric": human,
        "config": config.model_dump(mode="json"),
        "config_digest": config.digest,
        "prompts_digest": prompts.digest,
    }
    result: dict[str, Any] = {"digest": digest(content), "content": content}
    result["run_manifest"] = manifest(folder, arguments, config, prompts.digest) | {
        "base_log": base,
        "judge_calls": scores.calls + repeated.calls,
        "comparison_calls": comparisons,
    }
    write_atomically(folder / RESULT, json.dumps(result, ensure_ascii=False, indent=1))
    write_atomically(folder / REPORT, _report(content, sd))
    write_script(folder, result["run_manifest"], result["digest"])
    made = {str(folder / RESULT): digest_of(folder / RESULT)}
    record("search", made, [folder / PROMPTS], parameters=content["config"], figures={"verdict": content["verdict"]})
    return result


def read_result(path: Path) -> dict[str, Any]:
    """Read a search's result, from its folder or file, and check its digest."""
    file = path / RESULT if path.is_dir() else path
    try:
        result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        content = result["content"]
    except (OSError, ValueError, KeyError, TypeError):
        raise BadInput(
            f"{path} is not the result of a search; give the folder that `truthgym rubric search` wrote"
        ) from None
    if digest(content) != result.get("digest"):
        raise BadInput(
            f"{path}: the content has the digest {digest(content)}, not {result.get('digest')}: it was changed"
        )
    return result


def base_log(prompts: Prompts, config: SearchConfig, folder: Path) -> str:
    """The name of the base log: the one that an earlier run wrote for these prompts, or a new one."""
    _, held_out = split_prompts(prompts, config.held_out)
    name = folder / "base_log.json"
    if name.is_file() and (known := json.loads(name.read_text(encoding="utf-8")))["prompts"] == prompts.digest:
        return str(known["log"])
    log = Path(write_base_log(prompts.prompts, {one.prompt_id for one in held_out}, folder / "logs").location).name
    write_atomically(name, json.dumps({"prompts": prompts.digest, "log": log}))
    return log


async def _best_global(
    found: Sequence[Rubric], searched: Sequence[Prompt], scores: Scores, config: SearchConfig
) -> Rubric:
    """Of the rubrics found, as global ones, the best on all searched prompts: what a prompt without its own gets."""
    wide = {one.digest: one for one in (changed(rubric, scope="global", applies_to="") for rubric in found)}
    totals = {
        name: objective(await scores.score(one, searched), config.weights).total.estimate for name, one in wide.items()
    }
    return wide[max(wide, key=lambda name: totals[name])]


async def _arms(
    widest: Rubric,
    searched: Sequence[Prompt],
    held_out: Sequence[Prompt],
    scores: Scores,
    writers: Writers,
    config: SearchConfig,
    human: str,
) -> dict[str, dict[str, Any]]:
    written = await initial_rubric(
        writers.initializer, [one.prompt for one in searched], generic_rubric(config), config.protocol.language
    )
    if isinstance(written, str):
        raise BadInput(
            f"The initializer wrote no rubric for the arm prompt_only: {written}; name another with --initializer, and "
            "repeat the command: what was scored is kept"
        )
    rubrics = {
        "search": widest,
        "no_rubric": changed(GENERIC, scale="0-5"),
        "prompt_only": written,
        "human_rubric": read_reward(human)[0].rubrics[0],
    }
    measured = {
        name: Arm(
            rubric,
            objective(await scores.score(rubric, searched), config.weights),
            objective(await scores.score(rubric, held_out), config.weights),
        )
        for name, rubric in rubrics.items()
    }
    return {name: arm.row(measured["search"]) for name, arm in measured.items()}


async def _by_prompt(
    found: Sequence[Rubric], widest: Rubric, searched: Sequence[Prompt], scores: Scores, config: SearchConfig
) -> dict[str, float | None]:
    """The objective of each searched prompt, by its own rubric or the global one, on the scale of the arms."""
    own = found if config.scope == "prompt_local" else [widest] * len(searched)
    scored = [one for i, prompt in enumerate(searched) for one in await scores.score(own[i], [prompt])]
    measured = objective(scored, config.weights)
    return {prompt.prompt_id: rounded(one) for prompt, one in zip(searched, measured.by_prompt, strict=True)}


def _report(content: dict[str, Any], sd: float) -> str:
    config, arms = content["config"], content["arms"]
    criteria = "\n".join(f"- {one['text']} (weight {one['weight']:g})" for one in content["rubrics"][-1]["criteria"])
    found = arms["search"]
    return f"""# A search for a rubric

{content["verdict"]}

{table(arms)}

Intervals are 95 %, over {found["held_out"]["prompts"]} held-out prompts; {found["searched"]["prompts"]} prompts were
searched. {"; ".join(f"{name}: {what}" for name, what in ARMS.items())}.

The verifiers are {", ".join(v["model"] for v in config["verifiers"])}, in the search and in this report: what fools
them in one fools them in the other. One vote's score has a standard deviation of {sd:.3g} when it is repeated.

## The rubric

{criteria}
"""

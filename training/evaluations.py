"""Evaluations in a model's card: the figures of the trained model and of its base, and their paired difference."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from truthgym.datasets.digests import file_digest
from truthgym.evallog.discovery import find_logs
from truthgym.evallog.errors import bad_input
from truthgym.evallog.header import ScorerResults, with_newest
from truthgym.evallog.reader import LogReader
from truthgym.scorers.statistics.direction import direction
from truthgym.scorers.statistics.interval import decimals, interval_text
from truthgym.scorers.statistics.paired import RunValues
from truthgym.training.files import markdown_table
from truthgym.training.lineage import Status, digest_of, record, store_of
from truthgym.training.trainers.model_card import ModelCard, read_card, set_evaluations

STATUSES: dict[str, Status] = {"success": "succeeded", "cancelled": "cancelled"}
FEW_SHOT = "few_shot"
"""The name of the trainer, and of the solver that reads its examples."""
BOTH = (
    "The same questions asked of both, question by question, clustered by event. Smallest visible is the true "
    "difference that a run of this size would find with probability 0.8:"
)


def add_evaluations(folder: Path, logs: Sequence[str | Path]) -> Path:
    """Add evaluations of a trained model and its base to its card; logs that it lists already are read again."""
    card = read_card(folder)
    new_paths = [Path(log.path) for log in find_logs(logs)[0]]
    listed = [entry for entry in card.evals if "log" in entry]
    missing = [entry for entry in listed if not Path(entry["log"]).is_file()]
    paths = {path.resolve(): path for path in [*(Path(entry["log"]) for entry in listed), *new_paths] if path.is_file()}
    evaluations = [_read(LogReader(path), card, folder) for path in paths.values()]
    entries = sorted((entry for entry, _ in evaluations), key=lambda entry: (entry["role"] == "trained", entry["log"]))
    evals = missing + entries
    differences = list(_differences(evaluations, card))
    return set_evaluations(folder, [*evals, *differences], _text(evals, differences))


def _read(log: LogReader, card: ModelCard, folder: Path) -> tuple[dict[str, Any], RunValues]:
    """The card's entry for a log, and its numbers by question."""
    path, run = Path(log.path), log.header.eval
    role = _role(log, card, folder)
    values = RunValues.of_samples(sample for _, sample in log.outcomes())
    task, estimates = run.task_registry_name or run.task, list(figures(log))
    entry = {
        "log": str(path),
        "sha256": file_digest(path),
        "role": role,
        "model": run.model,
        "task": task,
        "solver": run.solver or "default",
        "solver_args": run.solver_args or {},
        "task_args": {key: value for key, value in run.task_args.items() if key != "split"},
        "split": ", ".join(sorted(set(values.splits.values()))),
        "figures": estimates,
        **({"left_out": log.omissions} if log.omissions else {}),
    }
    record(
        "eval",
        [path],
        [folder] if role == "trained" else {card.base: digest_of(card.base)},
        store=store_of(folder),
        status=STATUSES.get(log.header.status, "failed"),
        parameters={"task": task, "version": run.task_version, "solver": run.solver, "role": role},
        figures={f"{figure['scorer']}/{figure['metric']}": figure.get("value") for figure in estimates},
        finished=log.header.completed_at,
    )
    return entry, values


def _role(log: LogReader, card: ModelCard, folder: Path) -> str:
    """Whether a log evaluates the trained model or its base."""
    run = log.header.eval
    if card.method == FEW_SHOT and (run.solver or "").rpartition("/")[2] == FEW_SHOT:
        source = Path(str((run.solver_args or {}).get("source", ""))).resolve()
        if run.model == card.base and folder.resolve() in (source, *source.parents):
            return "trained"
        raise bad_input(f"{log.path} is of {run.model} with examples of {source}, not with those of {folder}")
    model_path = str(run.model_args.get("model_path") or run.model.partition("/")[2])
    if run.model == card.model or _same_path(model_path, str(folder)):
        return "trained"
    if _same_path(model_path, card.base) or run.model == card.base:
        return "base"
    raise bad_input(
        f"{log.path} is of the model {run.model}, which is neither {folder} nor its base {card.base}; give logs "
        "of one of these"
    )


def _same_path(path: str, other: str) -> bool:
    return Path(path).resolve() == Path(other).resolve()


def figures(log: LogReader) -> Iterator[dict[str, Any]]:
    """The estimate of each scorer's newest pass: its first metric, with its interval if it has one."""
    scores: dict[str, ScorerResults] = {}
    for score in log.header.results.estimates if log.header.results else ():
        scores.setdefault(score.name, score)  # of several reducers of epochs the first
    first = {name: next(iter(score.metrics), "") for name, score in scores.items()}
    again = {newer: name for newer, name in log.rescored.items() if first.get(newer) == first.get(name)}
    for scorer, score in with_newest(scores, again).items():
        metrics = {name: metric.value for name, metric in score.metrics.items()}
        if not metrics:
            continue
        name = next((name for name in metrics if f"{name}_lower" in metrics), next(iter(metrics)))
        keys = {"value": name, "lower": f"{name}_lower", "upper": f"{name}_upper", "mde": "mde", "n": "n",
                "scored": "share_scored"}  # fmt: skip
        values = {key: metrics[metric] for key, metric in keys.items() if metric in metrics}
        yield {"scorer": scorer, "metric": name} | {
            key: None if value is None else float(value) for key, value in values.items()
        }


def _differences(evaluations: Sequence[tuple[dict[str, Any], RunValues]], card: ModelCard) -> Iterator[dict[str, Any]]:
    """Trained minus base, for each pair of logs with the same questions, task arguments and solver, and each split."""
    # Few-shot prompting differs from its base by the solver.
    few_shot = card.method == FEW_SHOT
    same = ("task", "task_args") if few_shot else ("task", "task_args", "solver", "solver_args")
    trained = [evaluation for evaluation in evaluations if evaluation[0]["role"] == "trained"]
    base = [evaluation for evaluation in evaluations if evaluation[0]["role"] == "base"]
    for (entry, after), (other, before) in product(trained, base):
        if (few_shot and other["solver"] != "default") or any(other[key] != entry[key] for key in same):
            continue
        names = [name for name in after.values if name in before.values and after.best[name]]
        for name, split in product(names, sorted(set(after.splits.values()))):
            part = after.among({question for question in after.events if after.splits[question] == split})
            comparison = part.change(before, name)
            row = comparison.row()
            if row["n"]:
                logs = {"trained": entry["log"], "base": other["log"], "task": entry["task"], "score": name}
                values = {key: row[key] for key in ("difference", "lower", "upper", "mde")}
                numbers = {key: None if math.isnan(value) else value for key, value in values.items()}
                why = {"reason": comparison.reason} if comparison.reason else {}
                yield logs | {"split": split, "n": row["n"]} | numbers | why


def _text(evals: Sequence[Mapping[str, Any]], differences: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [entry["role"], f"`{entry['model']}`", entry["task"], entry["split"], f"{figure['scorer']}/{figure['metric']}",
         format_number(figure.get("value")), format_interval(figure.get("lower"), figure.get("upper")),
         format_number(figure.get("mde")), format_number(figure.get("n"), 0), format_number(figure.get("scored"))]
        for entry in evals for figure in entry["figures"]
    ]  # fmt: skip
    head = ["", "model", "task", "split", "figure", "value", "95 % interval",
            "smallest visible", "questions", "share scored"]  # fmt: skip
    parts = [markdown_table(head, rows)]
    if differences:
        rows = [
            [row["task"], row["split"], row["score"], _better(row["score"]), format_number(row["difference"]),
             format_interval(row.get("lower"), row.get("upper")), format_number(row.get("mde")),
             format_number(row["n"], 0)]
            for row in differences
        ]  # fmt: skip
        head = ["task", "split", "score", "better", "trained minus base", *head[6:9]]
        parts += [BOTH, markdown_table(head, rows)]
        reasons: dict[str, list[str]] = {}
        for row in differences:
            if "reason" in row:
                reasons.setdefault(row["reason"], []).append(f"{row['score']} on {row['split']} of {row['task']}")
        parts += [f"No interval for {', '.join(names)}: {reason}." for reason, names in reasons.items()]
    if any("train" in entry["split"].split(", ") for entry in evals):
        parts.append("Questions of the train split may have been trained on: only the others tell what was learnt.")
    parts += [f"`{entry['log']}`: {sentence}" for entry in evals for sentence in entry.get("left_out", [])]
    parts.append("Logs: " + ", ".join(f"`{entry['log']}` ({entry['sha256'][:12]})" for entry in evals) + ".")
    return "\n\n".join(parts)


def _better(score: str) -> str:
    scorer, _, key = score.partition("/")
    return {"lowest": "lower", "highest": "higher"}.get(direction(scorer, key, {}) or "", "")


def format_number(value: float | None, places: int = 4) -> str:
    """A number in a table. Empty if it is not known."""
    return "" if value is None or math.isnan(value) else decimals(value, places)


def format_interval(lower: float | None, upper: float | None) -> str:
    """An interval in a table. Empty if a bound is not known."""
    return "" if lower is None or upper is None or math.isnan(lower + upper) else interval_text(lower, upper, 4)

"""Evaluations in a model's card: the figures of the trained model and of its base, and their paired difference."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.datasets.digests import file_digest
from truthgym.evallog.errors import bad_input
from truthgym.evallog.header import repeated_scores, with_newest
from truthgym.training.files import markdown_table
from truthgym.training.lineage import Status, digest_of, record, store_of
from truthgym.training.trainers.model_card import ModelCard, read_card, set_evaluations

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog
    from inspect_ai.scorer import Score

Values = dict[str, tuple[str, str, list[float]]]
"""Split, event and one number per epoch, by question."""
SOLVING = ("solver", "solver_args")
STATUSES: dict[str, Status] = {"success": "succeeded", "cancelled": "cancelled"}
FEW_SHOT = "few_shot"
"""The name of the trainer, and of the solver that reads its examples."""


BOTH = (
    "The same questions asked of both, question by question, clustered by event. Smallest visible is the true "
    "difference that a run of this size would find with probability 0.8:"
)


def add_evaluations(folder: Path, logs: Sequence[str | Path]) -> Path:
    """Add evaluations of a trained model and of its base to its card. Logs that the card lists already are read again.

    The figures are each scorer's headline with its interval, as the log has it; of several passes of one scorer with
    the same options, the newest counts. If both models answered the same
    questions under the same task arguments and solver, the mean difference per question (trained minus base) is added
    with its 95 % interval, clustered by event, for each split separately: a difference on the training split does not
    generalise to other questions.

    Args:
        folder: The trained model's folder.
        logs: Logs, and folders of logs, of finished runs.

    Returns:
        The path of the card.

    Raises:
        BadInput: No card, no logs, or a log of another model.
    """
    from truthgym.evallog.discovery import find_logs

    card = read_card(folder)
    new_logs, _ = find_logs(logs)
    new_paths = [Path(log.path) for log in new_logs]
    listed_paths = [Path(entry["log"]) for entry in card.evals if "log" in entry]
    missing = [entry for entry in card.evals if "log" in entry and not Path(entry["log"]).is_file()]
    paths = {path.resolve(): path for path in [*listed_paths, *new_paths] if path.is_file()}
    evaluations = [_read(path, card, folder) for path in paths.values()]
    entries = sorted((entry for entry, _ in evaluations), key=lambda entry: (entry["role"] == "trained", entry["log"]))
    evals = missing + entries
    differences = list(_differences(evaluations, card))
    return set_evaluations(folder, [*evals, *differences], _text(evals, differences))


def _read(path: Path, card: ModelCard, folder: Path) -> tuple[dict[str, Any], dict[str, Values]]:
    """The card's entry for a log, and each question's scores by `scorer/key`."""
    from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries

    log = read_eval_log(str(path), header_only=True)
    role = _role(log, card, folder, path)
    repeated = _repeated(log)
    values: dict[str, Values] = defaultdict(dict)
    splits = set()
    for sample in read_eval_log_sample_summaries(str(path)):
        split, event = str(sample.metadata.get("split", "?")), str(sample.metadata.get("event", sample.id))
        splits.add(split)
        for name, score in with_newest(sample.scores or {}, repeated).items():
            for key, value in numbers(name, score).items():
                values[key].setdefault(str(sample.id), (split, event, []))[2].append(value)
    task = log.eval.task_registry_name or log.eval.task
    shown = list(figures(log))
    entry = {
        "log": str(path),
        "sha256": file_digest(path),
        "role": role,
        "model": log.eval.model,
        "task": task,
        "solver": log.eval.solver or "default",
        "solver_args": log.eval.solver_args or {},
        "task_args": {key: value for key, value in log.eval.task_args.items() if key != "split"},
        "split": ", ".join(sorted(splits)),
        "figures": shown,
    }
    record(
        "eval",
        [path],
        [folder] if role == "trained" else {card.base: digest_of(card.base)},
        store=store_of(folder),
        status=STATUSES.get(log.status, "failed"),
        parameters={"task": task, "version": log.eval.task_version, "solver": log.eval.solver, "role": role},
        figures={f"{one['scorer']}/{one['metric']}": one.get("value") for one in shown},
        finished=log.stats.completed_at or log.eval.created,
    )
    return entry, values


def _role(log: "EvalLog", card: ModelCard, folder: Path, path: Path) -> str:
    """Whether a log evaluates the trained model or its base."""
    if card.method == FEW_SHOT and (log.eval.solver or "").rpartition("/")[2] == FEW_SHOT:
        source = Path(str((log.eval.solver_args or {}).get("source", ""))).resolve()
        if log.eval.model == card.base and folder.resolve() in (source, *source.parents):
            return "trained"
        raise bad_input(f"{path} is of {log.eval.model} with examples of {source}, not with those of {folder}")
    model_path = str(log.eval.model_args.get("model_path") or log.eval.model.partition("/")[2])
    if log.eval.model == card.model or _same_path(model_path, str(folder)):
        return "trained"
    if _same_path(model_path, card.base) or log.eval.model == card.base:
        return "base"
    raise bad_input(
        f"{path} is of the model {log.eval.model}, which is neither {folder} nor its base {card.base}; give logs "
        "of one of these"
    )


def _same_path(path: str, other: str) -> bool:
    return Path(path).resolve() == Path(other).resolve()


def figures(log: "EvalLog") -> Iterable[dict[str, Any]]:
    """The headline of each scorer's newest pass: its first metric, with its interval if it has one."""
    scores = {score.name: score for score in log.results.scores} if log.results else {}
    for scorer, score in with_newest(scores, _repeated(log)).items():
        metrics = {name: metric.value for name, metric in score.metrics.items()}
        if not metrics:
            continue
        name = next((name for name in metrics if f"{name}_lower" in metrics), next(iter(metrics)))
        keys = {"value": name, "lower": f"{name}_lower", "upper": f"{name}_upper", "mde": "mde", "n": "n",
                "scored": "share_scored"}  # fmt: skip
        values = {key: float(metrics[metric]) for key, metric in keys.items() if metric in metrics}
        yield {"scorer": scorer, "metric": name} | {
            key: None if math.isnan(value) else value for key, value in values.items()
        }


def _repeated(log: "EvalLog") -> dict[str, str]:
    return repeated_scores([(scorer.name, scorer.options) for scorer in log.eval.scorers or []])


def numbers(scorer: str, score: "Score") -> dict[str, float]:
    """The numbers of a score with a known direction, by `scorer/key`."""
    from truthgym.scorers.statistics import direction

    return {
        f"{scorer}/{key}": value
        for key, value in direction.numbers(scorer, score.value).items()
        if direction.direction(scorer, key, score.metadata or {})
    }


def _differences(
    evaluations: Sequence[tuple[dict[str, Any], dict[str, Values]]], card: ModelCard
) -> Iterable[dict[str, Any]]:
    """Trained minus base, for each pair of logs with the same questions, task arguments and solver."""
    # Few-shot prompting differs from its base by the solver.
    few_shot = card.method == FEW_SHOT
    same = ("task", "task_args") if few_shot else ("task", "task_args", *SOLVING)
    for entry, values in evaluations:
        if entry["role"] != "trained":
            continue
        for other, base_values in evaluations:
            if other["role"] != "base" or (few_shot and other["solver"] != "default"):
                continue
            if any(other[key] != entry[key] for key in same):
                continue
            for key in (key for key in values if key in base_values):
                logs = {"trained": entry["log"], "base": other["log"], "task": entry["task"], "score": key}
                yield from (logs | difference for difference in paired(values[key], base_values[key]))


def paired(after: Values, before: Values) -> Iterable[dict[str, Any]]:
    """The mean difference of each split, with its 95 % interval, over the questions that both have a number for.

    Returns:
        For each split `split`, `difference` (after minus before), `lower`, `upper`, `mde` (the smallest true difference
        that would be found with probability 0.8) and `n`. NaN becomes None.
    """
    from truthgym.scorers.statistics.paired import compare_means

    events = {question: event for question, (_, event, _) in after.items()}
    first = {question: values for question, (_, _, values) in before.items()}
    for name in sorted({split for split, _, _ in after.values()}):
        second = {question: values for question, (split, _, values) in after.items() if split == name}
        result = compare_means(second, first, events).difference
        if result.n:
            values = {"difference": result.estimate, "lower": result.lower, "upper": result.upper, "mde": result.mde}
            yield {"split": name, "n": result.n} | {
                key: None if math.isnan(value) else float(value) for key, value in values.items()
            }


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
    if any("train" in entry["split"].split(", ") for entry in evals):
        parts.append("Questions of the train split may have been trained on: only the others tell what was learnt.")
    parts.append("Logs: " + ", ".join(f"`{entry['log']}` ({entry['sha256'][:12]})" for entry in evals) + ".")
    return "\n\n".join(parts)


def _better(score: str) -> str:
    from truthgym.scorers.statistics.direction import direction

    scorer, _, key = score.partition("/")
    return {"lowest": "lower", "highest": "higher"}.get(direction(scorer, key, {}) or "", "")


def format_number(value: float | None, places: int = 4) -> str:
    """A number in a table. Empty if it is not known."""
    from truthgym.scorers.statistics.interval import decimals

    return "" if value is None else decimals(value, places)


def format_interval(lower: float | None, upper: float | None) -> str:
    """An interval in a table. Empty if a bound is not known."""
    from truthgym.scorers.statistics.interval import interval_text

    return "" if lower is None or upper is None else interval_text(lower, upper, 4)

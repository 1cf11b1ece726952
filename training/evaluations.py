"""Evaluations in a model's card: the figures of the trained model and of its base, and their paired difference."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.evallog.errors import bad_input
from truthgym.training.artifacts import hash_file, markdown_table
from truthgym.training.conversion.filtering import LETTERS
from truthgym.training.trainers.model_card import ModelCard, read_card, set_evaluations

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog
    from inspect_ai.scorer import Score

Values = dict[str, tuple[str, str, list[float]]]
"""By question: its split, its event, and one number per epoch."""
SOLVING = ("solver", "solver_args")
FEW_SHOT = "few_shot"
"""The name of the trainer, and of the solver that reads its examples."""


INTERVAL, VISIBLE = "95 % interval", "smallest visible"
BOTH = (
    "The same questions asked of both, question by question, clustered by event. Smallest visible is the true "
    "difference that a run of this size would find with probability 0.8:"
)


def add_evaluations(folder: Path, logs: Sequence[str | Path]) -> Path:
    """Add evaluations of a trained model and of its base to its card. Logs that the card lists already are read again.

    The figures are each scorer's headline with its interval, as the log has it. If both models answered the same
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

    facts = read_card(folder)
    found, _ = find_logs(logs)
    paths = [Path(log.path) for log in found]
    kept = [Path(entry["log"]) for entry in facts.evals if "log" in entry]
    gone = [entry for entry in facts.evals if "log" in entry and not Path(entry["log"]).is_file()]
    unread = {path.resolve(): path for path in [*kept, *paths] if path.is_file()}
    read = [_read(path, facts, folder) for path in unread.values()]
    evals = gone + sorted((entry for entry, _ in read), key=lambda entry: (entry["role"] == "trained", entry["log"]))
    differences = list(_differences(read, facts))
    return set_evaluations(folder, [*evals, *differences], _text(evals, differences))


def _read(path: Path, facts: ModelCard, folder: Path) -> tuple[dict[str, Any], dict[str, Values]]:
    """The card's entry for a log, and each question's scores by `scorer/key`."""
    from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries

    log = read_eval_log(str(path), header_only=True)
    role = _role(log, facts, folder, path)
    values: dict[str, Values] = defaultdict(dict)
    splits = set()
    for sample in read_eval_log_sample_summaries(str(path)):
        split, event = (str(sample.metadata.get(key, other)) for key, other in (("split", "?"), ("event", sample.id)))
        splits.add(split)
        for name, score in (sample.scores or {}).items():
            for key, value in numbers(name, score).items():
                values[key].setdefault(str(sample.id), (split, event, []))[2].append(value)
    entry = {
        "log": str(path),
        "sha256": hash_file(path),
        "role": role,
        "model": log.eval.model,
        "task": log.eval.task_registry_name or log.eval.task,
        "solver": log.eval.solver or "default",
        "solver_args": log.eval.solver_args or {},
        "task_args": {key: value for key, value in log.eval.task_args.items() if key != "split"},
        "split": ", ".join(sorted(splits)),
        "figures": list(figures(log)),
    }
    return entry, values


def _role(log: "EvalLog", facts: ModelCard, folder: Path, path: Path) -> str:
    """Whether a log evaluates the trained model or its base."""
    if facts.method == FEW_SHOT and (log.eval.solver or "").rpartition("/")[2] == FEW_SHOT:
        source = Path(str((log.eval.solver_args or {}).get("source", ""))).resolve()
        if log.eval.model == facts.base and folder.resolve() in (source, *source.parents):
            return "trained"
        raise bad_input(f"{path} is of {log.eval.model} with examples of {source}, not with those of {folder}")
    named = str(log.eval.model_args.get("model_path") or log.eval.model.partition("/")[2])
    if log.eval.model == facts.model or _same(named, str(folder)):
        return "trained"
    if _same(named, facts.base) or log.eval.model == facts.base:
        return "base"
    raise bad_input(
        f"{path} is of the model {log.eval.model}, which is neither {folder} nor its base {facts.base}; give logs "
        "of those"
    )


def _same(named: str, other: str) -> bool:
    return Path(named).resolve() == Path(other).resolve()


def figures(log: "EvalLog") -> Iterable[dict[str, Any]]:
    """The headline of each scorer: its first metric, with its interval if it has one."""
    for score in log.results.scores if log.results else []:
        metrics = {name: metric.value for name, metric in score.metrics.items()}
        if not metrics:
            continue
        name = next((name for name in metrics if f"{name}_lower" in metrics), next(iter(metrics)))
        wanted = {"value": name, "lower": f"{name}_lower", "upper": f"{name}_upper", "mde": "mde", "n": "n",
                  "scored": "share_scored"}  # fmt: skip
        held = {key: float(metrics[known]) for key, known in wanted.items() if known in metrics}
        yield {"scorer": score.name, "metric": name} | {key: None if math.isnan(at) else at for key, at in held.items()}


def numbers(scorer: str, score: "Score") -> dict[str, float]:
    """The numbers of a score with a known direction, by `scorer/key`."""
    from truthgym.scorers.statistics.direction import direction

    held = score.value if isinstance(score.value, Mapping) else {scorer: score.value}
    read = {key: LETTERS.get(value) if isinstance(value, str) else value for key, value in held.items()}
    return {
        f"{scorer}/{key}": float(value)
        for key, value in read.items()
        if isinstance(value, int | float) and direction(scorer, key, score.metadata or {})
    }


def _differences(
    read: Sequence[tuple[dict[str, Any], dict[str, Values]]], facts: ModelCard
) -> Iterable[dict[str, Any]]:
    """Trained minus base, for each pair of logs with the same questions, task arguments and solver."""
    for entry, values in read:
        # Few-shot prompting differs from its base by the solver.
        differing = SOLVING if facts.method == FEW_SHOT else ()
        bases = [
            (other, held)
            for other, held in read
            if other["role"] == "base"
            and (not differing or other["solver"] == "default")
            and all(other[key] == entry[key] for key in ("task", "task_args", *SOLVING) if key not in differing)
        ]  # fmt: skip
        for other, held in bases if entry["role"] == "trained" else []:
            for key in (key for key in values if key in held):
                yield from (
                    {"trained": entry["log"], "base": other["log"], "task": entry["task"], "score": key} | told
                    for told in paired(values[key], held[key])
                )


def paired(after: Values, before: Values) -> Iterable[dict[str, Any]]:
    """The mean difference of each split, with its 95 % interval, over the questions that both have a number for.

    Returns:
        For each split `split`, `difference` (after minus before), `lower`, `upper`, `mde` (the smallest true difference
        that would be found with probability 0.8) and `n`. NaN becomes None.
    """
    from truthgym.scorers.statistics.paired import paired_difference

    splits: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for question, (split, event, numbers) in after.items():
        pair = mean(numbers), mean(before[question][2]) if question in before else math.nan
        if not math.isnan(pair[0] - pair[1]):
            splits[split].append((*pair, event))
    for split in sorted(splits):
        found = paired_difference(*zip(*splits[split], strict=True))
        bounds = {"difference": found.estimate, "lower": found.lower, "upper": found.upper, "mde": found.mde}
        yield {"split": split, "n": found.n} | {
            key: None if math.isnan(value) else float(value) for key, value in bounds.items()
        }


def mean(numbers: Sequence[float]) -> float:
    """The mean without NaN; NaN if nothing is left."""
    kept = [number for number in numbers if not math.isnan(number)]
    return sum(kept) / len(kept) if kept else math.nan


def _text(evals: Sequence[Mapping[str, Any]], differences: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [entry["role"], f"`{entry['model']}`", entry["task"], entry["split"], f"{told['scorer']}/{told['metric']}",
         _number(told.get("value")), _interval(told), _number(told.get("mde")), _count(told.get("n")),
         _number(told.get("scored"))]
        for entry in evals for told in entry["figures"]
    ]  # fmt: skip
    head = [
        "",
        "model",
        "task",
        "split",
        "figure",
        "value",
        "95 % interval",
        "smallest visible",
        "questions",
        "share scored",
    ]
    parts = [markdown_table(head, rows)]
    if differences:
        rows = [
            [row["task"], row["split"], row["score"], _better(row["score"]), _number(row["difference"]),
             _interval(row), _number(row.get("mde")), _count(row["n"])]
            for row in differences
        ]  # fmt: skip
        head = [
            "task",
            "split",
            "score",
            "better",
            "trained minus base",
            "95 % interval",
            "smallest visible",
            "questions",
        ]
        parts += [BOTH, markdown_table(head, rows)]
    if any("train" in entry["split"].split(", ") for entry in evals):
        parts.append("Questions of the train split may have been trained on: only the others tell what was learnt.")
    parts.append("Logs: " + ", ".join(f"`{entry['log']}` ({entry['sha256'][:12]})" for entry in evals) + ".")
    return "\n\n".join(parts)


def _better(score: str) -> str:
    from truthgym.scorers.statistics.direction import direction

    scorer, _, key = score.partition("/")
    return {"lowest": "lower", "highest": "higher"}.get(direction(scorer, key, {}) or "", "")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _interval(told: Mapping[str, Any]) -> str:
    lower, upper = told.get("lower"), told.get("upper")
    return "" if lower is None or upper is None else f"[{lower:.4f}, {upper:.4f}]"

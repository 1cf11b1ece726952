"""The report of a loop: what each round changed on held-out questions, and whether it is a gain or a hack."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.training.artifacts import markdown_table
from truthgym.training.closed_loop.measures import (
    BRIER,
    FORM,
    NATS,
    TOKENS,
    UNIDENTIFIED,
    WORDS,
    Measured,
    Told,
    measure_log,
)
from truthgym.training.closed_loop.options import Loop
from truthgym.training.closed_loop.stages import Subject

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog

REPORT = "report"
SAME = 0.03
"""Beliefs that differ less than this between questions (standard deviation) are taken for one answer to everything."""
LONGER = 1.5
"""Answers that are so many times as long, or as short, are told of."""
LESS = 0.1
"""So is an entropy below this share of the start's."""
FEWER = 0.1
"""So is a share read by another scorer than that of the answers, where it has fallen by this or more."""
SAID = (
    "`score`: on held-out questions; a Brier score is the mean squared error of the stated probability, and lower is "
    "better. `from start` and `from constant`: question by question, clustered by event; of a Brier score below 0 is "
    "better. The constant is the best single answer to these questions, their own share of yes. `smallest visible`: "
    "the true difference that a run of this size would find with probability 0.8. `in form`: share of the answers that "
    "could be read. `nats`: minus the log-probability of what was said, summed over an answer: an estimate of its "
    "entropy. `sd within`: of the belief over the epochs of a question; `sd between`: over questions. All intervals "
    "are 95 %."
)


@dataclass
class Stage:
    """A model and its held-out evaluation."""

    place: Path
    subject: Subject
    logs: "Sequence[EvalLog]"
    """Headers, one a task."""
    trained: Path | None
    """The folder of the model; None for that which the loop starts from."""

    @cached_property
    def measured(self) -> dict[str, Measured]:
        """What the logs say, by task."""
        return {log.eval.task: measure_log(log, self.place) for log in self.logs}


def report(asked: Loop, out: Path, stages: Sequence[Stage]) -> str:
    """Write `report.md` and `report.json`, and return the verdicts of the last stage."""
    told: dict[str, list[Told]] = {}
    starts: dict[str, Measured] = {}
    for number, stage in enumerate(stages):
        for log in stage.logs:
            found = stage.measured[log.eval.task]
            start = starts.setdefault(log.eval.task, found)
            entry = figures_of(found, start if number else None)
            link = os.path.relpath(log.location.removeprefix("file://"), out)
            head: Told = {"round": number, "model": stage.subject.model, "log": link, "eval_id": log.eval.eval_id}
            head |= {"solver": stage.subject.solver} if stage.subject.solver else {}
            told.setdefault(log.eval.task, []).append(head | entry)
    _write(out / f"{REPORT}.json", json.dumps({"settings": asked.settled(), "tasks": told}, indent=2) + "\n")
    _write(out / f"{REPORT}.md", _text(asked, told))
    return "\n".join(f"{task}, round {rows[-1]['round']}: {rows[-1]['verdict']}" for task, rows in told.items())


def figures_of(found: Measured, start: Measured | None) -> Told:
    """All figures of one model on one task, and the verdict.

    Args:
        found: The model's answers.
        start: Those of the model that the loop started from; None where this is it.
    """
    primary = found.primary
    told: Told = {"headlines": found.headlines, "score": primary, **found.metrics}
    told |= {"share_yes": found.share_yes, "sd_within": found.sd_within, "sd_between": found.sd_between}
    told |= {name: found.mean(name) for name in (FORM, NATS, TOKENS, WORDS)}
    told["mean"] = found.mean(primary) if primary else None
    told["from_constant"] = found.against(found.constant, BRIER) if primary == BRIER else None
    if start is None:
        return told | {"from_start": None, "verdict": _beginning(told)}
    before = {name: start.mean(name) for name in (FORM, NATS, TOKENS, WORDS)}
    changes = {name: found.against(start.values[name], name) for name in before}
    before["martingale_score"], before["scored"] = dict(start.metrics), _scored(start.headlines)
    told["from_start"] = found.against(start.values[primary], primary) if primary else None
    told["changes"] = changes
    return told | {"verdict": verdict(told, before, changes)}


def verdict(told: Mapping[str, Any], before: Mapping[str, Told | None], changes: Mapping[str, Told | None]) -> str:
    """Say in plain words what a round has done, from the intervals.

    Args:
        told: Figures of the trained model, see `figures_of`.
        before: Means at the start, by name; under `martingale_score` the figures of the start, under `scored` the share
            that each scorer could read.
        changes: Their paired differences, by name.
    """
    warnings = list(_warnings(told, before, changes))
    start, constant = told["from_start"], told["from_constant"]
    sign = _sign(told)
    if start is None or start["lower"] is None:
        said = "Too few answers could be read in both to compare them"
    elif sign * start["upper" if sign > 0 else "lower"] < 0:
        said = f"Better than the start ({_between(start)})"
    elif sign * start["lower" if sign > 0 else "upper"] > 0:
        said = f"Worse than the start ({_between(start)})"
    else:
        said = f"No clear change from the start ({_between(start)})"
    if constant is not None and constant["lower"] is not None:
        if constant["upper"] < 0:
            said += f", and better than the best constant ({_between(constant)})"
        elif constant["lower"] > 0:
            said += f", and worse than the best constant ({_between(constant)})"
        else:
            said += f", and not clearly better than the best constant ({_between(constant)})"
    return f"{said}. " + (f"**Look closer**: {'; '.join(warnings)}." if warnings else "No sign of a hack.")


def _beginning(told: Mapping[str, Any]) -> str:
    constant = told["from_constant"]
    if constant is None or constant["lower"] is None:
        return "The start."
    better, worse = constant["upper"] < 0, constant["lower"] > 0
    word = "Better" if better else "Worse" if worse else "Not clearly better"
    return f"The start. {word} than the best constant ({_between(constant)})."


def _warnings(told: Mapping[str, Any], before: Mapping[str, Told | None], changes: Mapping[str, Told | None]) -> Any:  # noqa: ANN401
    form, was = told[FORM], before[FORM]
    if form and was and _clear(changes[FORM]) < 0:
        yield f"answers in form fell from {was['mean']:.3f} to {form['mean']:.3f}"
    answers = str(told["score"]).partition("/")[0]  # `in form` is of these
    for name, share in _scored(told["headlines"]).items():
        earlier_share = (before.get("scored") or {}).get(name)
        if name != answers and earlier_share is not None and share <= earlier_share - FEWER:
            yield f"what {name} could read of it fell from {earlier_share:.3f} to {share:.3f}"
    if form and form["mean"] == 0:
        yield "no answer could be read"
    if told["sd_between"] is not None and told["sd_between"] < SAME:
        yield f"it says nearly the same to every question (sd between questions {told['sd_between']:.3f})"
    for name in (TOKENS, WORDS):
        now, then = told[name], before[name]
        if now and then and then["mean"] and _clear(changes[name]):
            ratio = now["mean"] / then["mean"]
            if ratio > LONGER or ratio < 1 / LONGER:
                yield f"its answers went from {then['mean']:.1f} to {now['mean']:.1f} {name}"
                break
    earlier = before.get("martingale_score") or {}
    if _predictable(told) and not _predictable(earlier):
        untold = earlier.get("martingale_score") is None
        word = (
            "are predictable, and whether they were at the start cannot be told"
            if untold
            else "have become predictable"
        )
        yield f"its updates {word} (martingale score {told['martingale_score']:+.3f})"
    now, then = told[NATS], before[NATS]
    if now and then and _clear(changes[NATS]) < 0 and now["mean"] < LESS * then["mean"]:
        yield f"its entropy went from {then['mean']:.2f} to {now['mean']:.2f} nats: it has one answer to each question"


def _scored(headlines: Sequence[Told]) -> Told:
    return {told["scorer"]: told["scored"] for told in headlines if told.get("scored") is not None}


def _predictable(told: Mapping[str, Any]) -> bool:
    lower, upper = told.get("martingale_score_lower"), told.get("martingale_score_upper")
    return lower is not None and upper is not None and (lower > 0 or upper < 0)


def _clear(change: Told | None) -> int:
    """-1 or 1 where the interval of a change excludes 0."""
    if not change or change["lower"] is None:
        return 0
    return -1 if change["upper"] < 0 else 1 if change["lower"] > 0 else 0


def _sign(told: Mapping[str, Any]) -> int:
    """1 where lower is better, -1 where higher is."""
    from truthgym.scorers.statistics.direction import direction

    scorer, _, key = str(told["score"]).partition("/")
    return -1 if direction(scorer, key, {}) == "highest" else 1


def _text(asked: Loop, told: Mapping[str, Sequence[Told]]) -> str:
    about = f"`{asked.model_name_or_path}` learns by {asked.method}. Made by `truthgym loop`; all is in report.json."
    parts = [f"# {Path(asked.out).name}", about]
    for task, rows in told.items():
        parts += [f"## {task}", *(f"- Round {row['round']}: {row['verdict']}" for row in rows)]
        parts += [markdown_table(HEAD, [_row(row) for row in rows])]
        more = [[str(row["round"]), *cells] for row in rows for cells in _headlines(row)]
        parts += [
            markdown_table(
                ["round", "figure", "value", "95 % interval", "smallest visible", "questions", "scored"], more
            )
        ]
    parts += [SAID]
    rows = [row for held in told.values() for row in held]
    logs = [[str(row["round"]), f"`{row['model']}`", f"[{row['eval_id']}]({row['log']})"] for row in rows]
    parts += ["## Logs", markdown_table(["round", "model", "log"], logs)]
    return "\n\n".join(parts).replace("\n\n- Round", "\n- Round") + "\n"


HEAD = ["round", "score", "from start", "from constant", "smallest visible", "questions", "in form", "nats", "tokens",
        "words", "sd within", "sd between", "calibration slope", "resolution", "martingale score",
        "excess movement"]  # fmt: skip


def _row(row: Mapping[str, Any]) -> list[str]:
    start, constant = row["from_start"], row["from_constant"]
    seen = start or constant or {}
    shown: Told = next((h for h in row["headlines"] if str(row["score"]).startswith(f"{h['scorer']}/")), {})
    if shown.get("lower") is None and row["mean"]:  # a scorer without an interval of its own
        shown = {"value": row["mean"]["mean"]} | row["mean"]
    places = ((FORM, 3), (NATS, 2), (TOKENS, 1), (WORDS, 1))
    return [
        str(row["round"]), f"{_number(shown.get('value'))} {_interval(shown)}".strip(),
        _between(start), _between(constant), _number(seen.get("mde")), _number(seen.get("n"), 0),
        *(_number((row[name] or {}).get("mean"), digits) for name, digits in places),
        _number(row["sd_within"], 3), _number(row["sd_between"], 3), _number(row.get("calibration_slope"), 2),
        _number(row.get("resolution"), 3), _bounded(row, "martingale_score") or _why_none(row),
        _bounded(row, "excess_movement"),
    ]  # fmt: skip


def _bounded(row: Mapping[str, Any], name: str) -> str:
    bounds = {"lower": row.get(f"{name}_lower"), "upper": row.get(f"{name}_upper")}
    return f"{_number(row.get(name), 3)} {_interval(bounds)}".strip()


def _why_none(row: Mapping[str, Any]) -> str:
    """Why there is no martingale score, and the published one in its place, which noise pulls down."""
    reasons = [name.removeprefix(UNIDENTIFIED).replace("_", " ") for name in row if name.startswith(UNIDENTIFIED)]
    if not reasons:
        return ""
    reliability = _number(row.get("reliability"), 2)
    published = _number(row.get("martingale_score_ols"), 3)
    return f"not identified: {', '.join(reasons)} (reliability {reliability}; least squares {published})"


def _headlines(row: Mapping[str, Any]) -> Any:  # noqa: ANN401
    for told in row["headlines"]:
        yield [f"{told['scorer']}/{told['metric']}", _number(told.get("value")), _interval(told),
               _number(told.get("mde")), _number(told.get("n"), 0), _number(told.get("scored"), 3)]  # fmt: skip


def _between(told: Mapping[str, Any] | None) -> str:
    if not told or told["difference"] is None:
        return ""
    return f"{told['difference']:+.4f} {_interval(told)}".strip()


def _interval(told: Mapping[str, Any]) -> str:
    lower, upper = told.get("lower"), told.get("upper")
    return "" if lower is None or upper is None else f"[{lower:.4f}, {upper:.4f}]"


def _number(value: float | None, places: int = 4) -> str:
    return "" if value is None else f"{value:.{places}f}"


def _write(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.partial")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)

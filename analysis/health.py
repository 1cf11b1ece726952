"""Can the answers be read? What went wrong in the runs of a folder of logs: by reason, with its share of the answers.

python -m truthgym.analysis.health LOGS OUT.md      (tables, with the chart beside it as OUT.svg)
"""

import re
from collections import Counter
from collections.abc import Iterator
from textwrap import shorten
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from truthgym.analysis.tables.answers import labelled, why_unread
from truthgym.analysis.tables.markdown import counted, page, picture, table
from truthgym.analysis.tables.panels import ORANGE, labels, scale
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.setups import Places, Run, runs
from truthgym.datasets.errors import BadInput
from truthgym.evallog.schema import LoggedScore, Outcome
from truthgym.scorers.declaration import LEAST_SHARE_SCORED
from truthgym.scorers.statistics.verdict import FLAGS, coarse, too_many_fifties
from truthgym.solvers.trajectory import opens_with_refusal

QUESTION = "Can the answers be read, and what went wrong?"
PROBLEMS = {
    "read": "answers with a score",
    "unread": "answers that the scorer could not read, so that they have no score",
    "missing": "samples that this scorer did not score, as after an error",
    "judge": "answers without a score because a judge, grader or reader model failed",
    "error": "samples that ended in an error",
    "limit": "samples that a limit ended (time, tokens, messages)",
    "truncated": "answers cut off because the model may write no more tokens",
    "refused": "answers that the provider's filter stopped",
    "declined": "answers with a reply, perhaps to a probe, that was not read and begins with a refusal in words",
    "repaired": "answers with a belief that could be read only after the model was asked again",
    "ended": "reasoning that ended before an answer",
    "fifties": FLAGS["fifties"].partition(". ")[0].replace("priors or posteriors", "beliefs"),
    "coarse": FLAGS["coarse"].partition(". ")[0].replace("priors or posteriors", "beliefs"),
}
"""The values of `problem`."""
COLORS = {"read": "#D0D0D0", "unread": "#E69F00", "judge": "#CC79A7", "missing": ORANGE}
JUDGED = re.compile(r"\b(judge|grader|reader)\b", re.IGNORECASE)
BELIEFS = ("belief", "prior", "posterior")
HEAPS = {"fifties": "exactly 50 %", "coarse": "multiples of 10 %"}
VARIABLE = re.compile(r"\(.*?\)|\".*?\"|'.*?'|\d+(?:[.,]\d+)*")
"""What differs between messages that say the same."""
LONGEST, LONGEST_REPLY = 120, 60
"""Characters of a reason and of a reply that are shown."""
BAR = ["scorer", "run"]
HEADER = alt.Header(labelAngle=0, labelOrient="top", labelAnchor="start")
MOST_DRAWN = 40
"""Bars in the chart: those with the smallest share read."""


def load(logs: Places) -> pd.DataFrame:
    """Count what went wrong in each run: a row for each run, scorer, problem and reason, worst first.

    `scorer` is "" where the answer itself is concerned; `problem` a key of `PROBLEMS`; `reason` as the log says it,
    without what differs between samples; `example` the first sample and, where a reply was not read, how it begins;
    `count`, `of` all samples (for "fifties" and "coarse" all beliefs). Each scorer has a row "read".
    """
    evals = runs(logs)
    frame = pd.DataFrame([row for _, rows in evals.read(lambda run: list(_rows(run))) for row in rows])
    if frame.empty:
        raise BadInput(f"{evals.place}: none of the {len(evals)} logs has a sample; run the evals again")
    frame["share"] = frame["count"] / frame["of"]
    read = frame["problem"] == "read"
    worst = frame["share"].where(read).groupby([frame["eval_id"], frame["scorer"]]).transform("min")
    order = frame.assign(worst=worst, fault=~read, size=-frame["share"])
    frame = frame.loc[order.sort_values(["worst", "eval_id", "scorer", "fault", "size"]).index].reset_index(drop=True)
    frame.attrs["notes"] = [*evals.omissions, *_notes(frame)]
    return frame


def chart(frame: pd.DataFrame) -> alt.Chart:
    """Draw the share read by scorer, model and setup, and what the rest is: those with the smallest share."""
    rows = frame[frame["problem"].isin(COLORS)]
    if rows.empty:
        raise BadInput(f"None of {frame['log'].nunique()} runs was scored; score them with inspect score")
    rows = rows.assign(run=rows["model"] + ", " + rows["setup"])
    rows = rows.groupby([*BAR, "problem"])[["count"]].sum().reset_index()
    rows["n"] = rows.groupby(BAR)["count"].transform("sum")
    rows["share"] = rows["count"] / rows["n"]
    rows["read"] = rows["share"].where(rows["problem"] == "read", 0)
    rows["read"] = rows.groupby(BAR)["read"].transform("sum")
    bars = rows.drop_duplicates(BAR).nsmallest(MOST_DRAWN, "read", keep="first")[BAR]
    rows = rows.merge(bars, on=BAR)
    problems = [name for name in COLORS if (rows["problem"] == name).any()]
    share = alt.X("share:Q", title="share of the samples (more read is better)", axis=alt.Axis(format="%"))
    color = alt.Color("problem:N", title=None, legend=alt.Legend(orient="top"), scale=scale(problems, COLORS))
    drawn: alt.Chart = (
        alt.Chart(rows)
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=share.scale(domain=[0, 1]),
            y=labels("run", alt.EncodingSortField("read", op="min"), 420),
            row=alt.Row("scorer:N", title=None, spacing=14, header=HEADER),
            color=color,
            order=alt.Order("problem:N", sort="ascending"),
            tooltip=["run", "scorer", "problem", "count", "n", alt.Tooltip("share:Q", format=".1%")],
        )
        .properties(width=360, height={"step": 18})
        .resolve_scale(y="independent")
    )
    return drawn


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """What went wrong as Markdown. Runs of which everything could be read are only counted."""
    read = frame[frame["problem"] == "read"]
    faults = frame[frame["problem"] != "read"].assign(
        share=lambda rows: [f"{share:.1%}" for share in rows["share"]],
        scorer=lambda rows: rows["scorer"].replace("", "-"),
    )
    whole = int((read.groupby("eval_id")["share"].min() == 1).sum())
    bars = len(read.drop_duplicates(["scorer", "model", "setup"]))
    drawn = f" Drawn: the {MOST_DRAWN} of {bars} with the smallest share read." * (bars > MOST_DRAWN)
    caption = f"n = {int(read['of'].sum()):,} scores, one for each answer and scorer.{drawn}"
    parts = [picture(figure, "Share of answers read", caption)]
    parts.append(f"Of {counted(frame['eval_id'].nunique(), 'run')}, {whole} have a score for every answer.\n")
    if len(faults):
        columns = ("model", "setup", "scorer", "problem", "reason", "example", "count", "of", "share")
        parts.append(table(faults, columns))
        legend = [f"- `{key}`: {text}.\n" for key, text in PROBLEMS.items() if key in set(faults["problem"])]
        parts.append("".join(legend))
    return page(parts, frame)


def _rows(run: Run) -> Iterator[dict[str, Any]]:
    counts = Counter[tuple[str, str, str]]()
    examples: dict[tuple[str, str, str], str] = {}
    scored = Counter[str]()
    reports: dict[str, list[float]] = {}
    samples = 0

    def add(scorer: str, problem: str, reason: str = "", reply: str = "") -> None:
        said = f": {shorten(reply, LONGEST_REPLY, placeholder='...')!r}" * bool(reply)
        example = "" if problem == "read" else f"{sample.id}, epoch {sample.epoch}{said}"
        counts[scorer, problem, reason] += 1
        examples.setdefault((scorer, problem, reason), example)

    for _, sample in run.log.reader.outcomes():
        samples += 1
        for problem, reason in _faults(sample):
            add("", problem, reason)
        for scorer, score in labelled(run, sample).items():
            values = score.value if isinstance(score.value, dict) else {scorer: score.value}
            scored[scorer] += 1
            problem, reason = _reading(score, values)
            beliefs = score.details.get("beliefs") or []
            unread = [str(belief.get("raw") or "") for belief in beliefs if belief.get("value") is None]
            unread = [reply for reply in unread if reply] or [sample.reply] * (problem == "unread")
            add(scorer, problem, reason, "".join(unread[:1]) * (problem == "unread"))
            if refusal := next(filter(opens_with_refusal, unread), ""):
                add(scorer, "declined", reply=refusal)
            if any(belief.get("value") is not None and belief.get("repaired") for belief in beliefs):
                add(scorer, "repaired")
            numbers = [float(values[key]) for key in BELIEFS if isinstance(values.get(key), int | float)]
            reports.setdefault(scorer, []).extend(numbers)
    rows = []
    for scorer, numbers in reports.items():
        percents = np.round(100 * np.array(numbers, dtype=float), 6)
        if too_many_fifties(percents):
            rows.append((scorer, "fifties", "", "", int((percents == 50).sum()), percents.size))
        if coarse(percents):
            rows.append((scorer, "coarse", "", "", int((percents % 10 == 0).sum()), percents.size))
        counts.setdefault((scorer, "read", ""), 0)
        if missing := samples - scored[scorer]:
            counts[scorer, "missing", ""] = missing
    rows += [(*fault, examples.get(fault, ""), count, samples) for fault, count in counts.items()]
    names = ("scorer", "problem", "reason", "example", "count", "of")
    yield from (run.columns | dict(zip(names, row, strict=True)) for row in rows)


def _faults(sample: Outcome) -> Iterator[tuple[str, str]]:
    """What went wrong with an answer, whatever scored it."""
    if sample.error:
        yield "error", _same(sample.error.message)
    if sample.limit:
        yield "limit", sample.limit.type
    if sample.stop_reason in ("max_tokens", "model_length"):
        yield "truncated", sample.stop_reason
    if sample.stop_reason == "content_filter":
        yield "refused", sample.stop_reason
    if sample.store.ended:
        yield "ended", _same(sample.store.ended)


def _reading(score: LoggedScore, values: dict[str, Any]) -> tuple[str, str]:
    """Whether a score was read, or the problem with its reason."""
    missing = sum(value is None for value in values.values())
    if not missing or (missing < len(values) and not score.details.get("reason")):
        return "read", ""
    reason = why_unread(score)
    return "judge" if JUDGED.search(reason) else "unread", _same(reason)


def _same(reason: str) -> str:
    """A reason without what differs between samples."""
    short = VARIABLE.sub("...", reason.strip().partition("\n")[0])
    return short[:LONGEST] + "..." * (len(short) > LONGEST)


def _notes(frame: pd.DataFrame) -> Iterator[str]:
    read = frame[(frame["problem"] == "read") & (frame["share"] < LEAST_SHARE_SCORED)]
    for (model, setup, _, count, of), rows in read.groupby(["model", "setup", "eval_id", "count", "of"], sort=False):
        share = rows["share"].iloc[0]
        yield (
            f"{', '.join(rows['scorer'])} of {model} in {setup}: {count} of {of} answers ({share:.0%}) have a "
            "score, and the others may be harder. Do not compare this run with one that read more."
        )
    for key, problem in (("fifties", "may be no beliefs at all"), ("coarse", "move in wide steps")):
        for row in frame[frame["problem"] == key].to_dict("records"):
            where = f"{row['scorer']} of {row['model']} in {row['setup']}"
            yield f"{where}: its reported beliefs {problem}: {row['share']:.0%} of them are {HEAPS[key]}."
    failed = frame[frame["problem"] == "error"]
    if len(failed):
        samples, evals = counted(int(failed["count"].sum()), "sample"), counted(failed["log"].nunique(), "run")
        yield f"{samples} in {evals} ended in an error, without a score."


if __name__ == "__main__":
    main(load, chart, __doc__, report)

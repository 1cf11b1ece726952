"""How does each model score? Every estimate of a folder of logs, with its 95 % interval, verdict and cost.

python -m truthgym.analysis.performance LOGS OUT.md      (tables, with the chart beside it as OUT.svg)
python -m truthgym.analysis.performance LOGS OUT.html    (the chart alone; also .svg and .png, and .csv for the table)
python -m truthgym.analysis.performance LOGS OUT.html --x elo --ability arena.csv --groups qwen=Qwen,llama=Llama
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import altair as alt
import pandas as pd

from truthgym.analysis.tables.answers import UNREAD, no_scores
from truthgym.analysis.tables.markdown import (
    Caveat,
    chart_section,
    counted,
    grouped,
    intervals,
    number_range,
    page,
    section,
    table,
)
from truthgym.analysis.tables.models import (
    Names,
    Pairs,
    correlation_text,
    first_match,
    positions,
    rank_correlations,
    read_pairs,
    without,
)
from truthgym.analysis.tables.panels import (
    COLORS,
    SHAPES,
    excluded_sentence,
    heading,
    interval_panel,
    labels,
    scale,
    stack,
)
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import best_end, score_name
from truthgym.analysis.tables.setups import Places, Run, Runs, bare_name, one_line, runs
from truthgym.datasets.errors import one_of
from truthgym.evallog.header import ScorerResults
from truthgym.scorers.declaration import FEW_QUESTIONS, FLAG, LEAST_SHARE_SCORED, REASON, ScorerDeclaration
from truthgym.scorers.statistics.interval import t_estimate
from truthgym.tasks.domain_task import SCORER_BY_NAME

Transform = Literal["score", "negated", "log"]
QUESTION = "How does each model score?"
REASONS = {
    "failed": f"more than {100 * (1 - LEAST_SHARE_SCORED):.0f} % of the samples ended in an error, and may be harder",
    "few_questions": f"fewer than {FEW_QUESTIONS} questions have a score",
    "unread": UNREAD,
    "spans_reference": "the interval contains the value with which the score is compared",
    "inspect_stderr": "the interval is from Inspect's stderr by Student's t, and may count questions as independent",
    "not_in_log": "the log's ten figures hold neither verdict nor reason; score it again with figures=all",
}
"""Why a row has no verdict, besides the reasons that its scorer declares."""
ONE_EPOCH = "one epoch: a question's own noise counts as a difference between questions"
DIRECTED = (
    "Each score counts so that more is better: scores that are better when low are negated, and scores that are best "
    "at 0 count by their distance from 0, negated."
)
LABELS = {"share": "read", "tokens": "tokens read / written"}
TOOLTIP = ["label", "model", "setup", "scorer", "score", "lower", "upper", "n", "epochs", "mde", "share_read",
           "verdict"]  # fmt: skip


def load(
    logs: Places,
    scorer: str = "",
    x: str = "name",
    y: Transform = "score",
    ability: str | Path = "",
    groups: Pairs = "",
    labels: Pairs = "",
    exclude: Names = "",
) -> pd.DataFrame:
    """Read the estimates of all finished evals.

    Only the logs' headers are read, and no figure is computed again. Of several passes of a scorer with the same
    options the newest counts, and a copied log counts once.

    Args:
        logs: Logs and folders of logs.
        scorer: Read the estimates of this scorer only, in all its options. "": of all scorers.
        x: What the chart compares scores with: "name" (nothing: a row for each setup), "size" (billions of
            parameters in a model's name), or a column of `ability`. Replaces ASSIGN_X_COORDS_SETUP.
        y: How the chart shows scores: as they are, "negated", or their natural "log". Replaces
            ELO_CORR_Y_COORDS_SETUP.
        ability: A .csv file with the column `model`, and columns of numbers: a model's ability elsewhere.
        groups: Groups that share a colour: a part of a model's name and the group, as in "qwen=Qwen,llama=Llama".
            Replaces GROUP_MODE_SETUP.
        labels: Names to show: a part of a model's name and the text. Replaces ELO_CORR_X_TICKS_SETUP.
        exclude: Models and setups to leave out: parts of their names. The chart says which. Replaces
            REMOVE_N_OUTGROUP_SETUP and FORBIDDEN_MODELS.

    A row for each eval and scorer: `mode` is that of the task's metadata, or else the solver with its arguments; `task`
    the task arguments that differ between the evals of a domain; `figure` the name of the estimate; `share_read` of the
    answers that reached the scorer, without repairs; `verdict`, or "" with the `reason` (a key of `REASONS` or of the
    scorer's declared ones); `flags`, keys too; `tokens_in` and `tokens_out` for each answer, of all models in the eval.
    The interval and n of scorers that report only Inspect's `stderr` come from it and from the number of questions.
    `attrs["correlations"]` are Spearman's with x, by scorer and setup.
    """
    if scorer:
        one_of("scorer", scorer, list(SCORER_BY_NAME))
    one_of("y", y, get_args(Transform))
    evals = runs(logs)
    rows = [row for run in evals for row in estimates(run, scorer)]
    if not rows:
        raise no_scores(evals, scorer)
    frame = pd.DataFrame(rows)
    order = ["scorer", "domain", "task", "mode", "score", "model", "eval_id"]
    frame = frame.sort_values(order, ignore_index=True).drop(columns="eval_id")
    frame, excluded = without(frame, exclude)
    frame["label"] = first_match(frame["model"], read_pairs(labels, "labels"))
    frame["group"] = first_match(frame["model"], read_pairs(groups, "groups"), "" if groups else None)
    frame["group"] = frame["group"].where(frame["group"] != "", "others") if groups else frame["label"]
    frame["x"] = frame["model"].map(positions(x, ability, list(frame["model"].unique())))
    drawn = _drawn(frame)
    correlations, notes = rank_correlations(drawn[~(drawn["share_read"] < LEAST_SHARE_SCORED)], x)
    frame.attrs |= {"excluded": excluded, "x": x, "y": y, "correlations": correlations}
    frame.attrs["notes"] = [*evals.notes, *_foreign(evals), *notes, *_notes(frame, y)]
    return frame


def chart(frame: pd.DataFrame) -> alt.VConcatChart:
    """Draw score and interval of each model by setup, or against size or ability. Hollow: too few answers were read."""
    drawn = _drawn(frame)
    nothing = f"None of {len(frame)} scores has {FEW_QUESTIONS} questions, so there is no chart; ask more"
    y, x = (frame.attrs.get(name, default) for name, default in (("y", "score"), ("x", "name")))
    drawn = drawn.join(_drawn_scores(drawn, y))
    groups = sorted(drawn["group"].unique())
    if x == "name":
        panels = [_by_setup(rows, groups, y) for _, rows in drawn.groupby("scorer")]
    else:
        placed = drawn[drawn["x"].notna()]
        if len(drawn):
            nothing = f"No model has a known {x}, so there is no chart; give a table as ability="
        panels = [_by_x(rows, groups, frame.attrs) for _, rows in placed.groupby(["scorer", "setup"], sort=True)]
    return stack(panels, nothing, 700, frame.attrs.get("excluded", []))


def _drawn_scores(rows: pd.DataFrame, y: str) -> pd.DataFrame:
    """Score and bounds as the chart shows them."""
    shown = rows[["score", "lower", "upper"]].astype(float)
    if y == "negated":
        shown = -shown.rename(columns={"lower": "upper", "upper": "lower"})
    if y == "log":
        shown = shown.where(shown > 0).map(math.log)
    return shown.add_prefix("shown_")


def _axis(rows: pd.DataFrame, y: str) -> tuple[str, dict[float, str]]:
    """The title of the axis of scores, with the better direction, and the dashed reference value on that axis."""
    estimate, scorer = rows["figure"].iloc[0], SCORER_BY_NAME.get(bare_name(rows["scorer"].iloc[0]))
    title = {"negated": f"minus {estimate}", "log": f"log of {estimate}"}.get(y, estimate)
    if scorer is None:
        return title, {}
    title += f" ({'untransformed: ' * (y != 'score')}{scorer.better})"
    reference = scorer.reference
    if reference is None or (y == "log" and reference <= 0):
        return title, {}
    return title, {-reference if y == "negated" else math.log(reference) if y == "log" else reference: "gray"}


def _channels(groups: list[str]) -> dict[str, Any]:
    """Color and shape by group, and a hollow point if too few answers were read."""
    legend = alt.Legend(orient="top", columns=3, labelLimit=400, symbolOpacity=1, symbolFillColor=None)
    fill = alt.Color("group:N", scale=scale(groups, COLORS), legend=None)
    return {
        "color": alt.Color("group:N", title=None, scale=scale(groups, COLORS), legend=legend),
        "shape": alt.Shape("group:N", title=None, scale=scale(groups, SHAPES), legend=legend),
        "fill": alt.condition(f"datum.share_read >= {LEAST_SHARE_SCORED}", fill, alt.value("white")),
        "tooltip": TOOLTIP,
    }


def _by_setup(rows: pd.DataFrame, groups: list[str], y: str) -> alt.LayerChart:
    title, dashed = _axis(rows, y)
    places = {
        "y": labels("setup", alt.EncodingSortField("score", op="mean"), 500),
        "yOffset": alt.YOffset("label:N", sort=sorted(rows["label"].unique())),
    }
    channels = places | _channels(groups)
    score = alt.X("shown_score:Q", title=title)
    panel = interval_panel(rows, score, ("shown_lower", "shown_upper"), dashed, point={"size": 70}, **channels)
    if (rows["group"] != rows["label"]).any():
        text = alt.Chart(rows).mark_text(align="left", dx=5, fontSize=10)
        panel += text.encode(x="shown_upper:Q", text="label:N", color=channels["color"], **places)
    name = alt.Title(rows["scorer"].iloc[0], anchor="start", frame="group")
    return panel.properties(width=480, height={"step": 14}, title=name)


def _by_x(rows: pd.DataFrame, groups: list[str], attrs: Mapping[Any, Any]) -> alt.LayerChart:
    """The scores of a scorer in a setup against size or ability, with their rank correlation."""
    scorer, setup, best = rows[["scorer", "setup", "best"]].iloc[0]
    title, dashed = _axis(rows, attrs["y"])
    size = attrs["x"] == "size"
    name = "billions of parameters" if size else attrs["x"]
    axis = alt.Scale(type="log", padding=30) if size else alt.Scale(zero=False, padding=30)
    x, channels = alt.X("x:Q", title=name, scale=axis), _channels(groups)
    score = alt.Y("shown_score:Q", title=title)
    panel = interval_panel(rows, score, ("shown_lower", "shown_upper"), dashed, point={"size": 70}, x=x, **channels)
    text = alt.Chart(rows).mark_text(align="left", dx=7, dy=-7, fontSize=10)
    panel += text.encode(x=x, y="shown_score:Q", text="label:N", color=channels["color"])
    subtitle = [
        f"Spearman of {name} and {'better scores' if best else scorer}: {correlation_text(row)}"
        for row in attrs["correlations"]
        if (row["scorer"], row["setup"]) == (scorer, setup)
    ]
    above = heading(f"{scorer}, {setup}", subtitle or "too few models for a rank correlation")
    return panel.properties(width=420, height=260, title=above)


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """The tables as Markdown, a section for each scorer, with a legend."""
    words = _in_words(frame)
    sections = []
    for name, rows in words.groupby("scorer"):
        scorer = SCORER_BY_NAME.get(bare_name(str(name)))
        question = f"{scorer.question} {scorer.better[0].upper()}{scorer.better[1:]}." if scorer else ""
        headers = LABELS | {"score": f"{rows['figure'].iloc[0]} [95 % interval]"}
        failed = ["failed"] * bool(rows["failed"].any())
        columns = ("setup", "model", "score", "mde", "n", "epochs", *failed, "share", "verdict", "flags", "tokens")
        sections.append(section(f"`{name}`", question, table(rows, columns, headers)))
        sections[-1] += _legend(frame.loc[rows.index], scorer)
    if correlations := frame.attrs.get("correlations"):
        ranked = pd.DataFrame([row | {"words": correlation_text(row)} for row in correlations])
        ranks = table(ranked, ("scorer", "setup", "words", "p_adjusted"), {"words": "Spearman"})
        title = f"Rank correlation with {frame.attrs['x']}"
        sections.append(section(title, f"{DIRECTED} p by Holm, for each scorer.", ranks))
    chart = chart_section(figure, "Scores with 95 % intervals", _caption(frame))
    return page([chart, *sections, _totals(frame)], frame)


def _in_words(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(
        model=frame["label"],
        score=intervals(frame, "score"),
        n=["-" if math.isnan(n) else f"{n:.0f}" for n in frame["n"]],
        share=["-" if math.isnan(share) else f"{100 * share:.0f} %" for share in frame["share_read"]],
        verdict=[verdict or _why(*why) for verdict, *why in frame[["verdict", "reason", "scorer"]].to_numpy()],
        flags=[", ".join(map(_short, flags.split(", "))) for flags in frame["flags"]],
        tokens=[f"{i:,.0f} / {o:,.0f}" for i, o in frame[["tokens_in", "tokens_out"]].to_numpy()],
    )


def sentence(row: Mapping[str, Any]) -> str:
    """What a row of `estimates` says, in one sentence: its verdict with what that means, or why there is none."""
    declaration = SCORER_BY_NAME.get(bare_name(row["scorer"]))
    meanings = dict(text.split(": ", 1) for text in (declaration.verdicts.values() if declaration else ()))
    said, means = row["verdict"], meanings.get(row["verdict"], declaration.better if declaration else "")
    if row["reason"] == "spans_reference" and declaration:
        said = f"not shown to differ from {declaration.reference:g}"
    elif row["reason"]:
        said, means = "cannot tell", meaning(row["reason"], declaration)
    text = ": ".join(filter(None, [said, "" if means == "none" else means.partition(". ")[0]]))
    return f"{text[:1].upper()}{text[1:]}." * bool(text)


def meaning(key: str, declaration: ScorerDeclaration | None) -> str:
    """What a reason or flag of a scorer means."""
    return {**(declaration.reasons if declaration else {}), **REASONS}.get(key, key)


def estimates(run: Run, only: str = "") -> Iterator[dict[str, Any]]:
    """The rows of `load` of a run, without those columns that compare it with others."""
    header = run.log.header
    results = header.results
    if results is None:
        return
    usage = header.stats.model_usage.values()
    answers = max(results.total_samples, 1)
    row = {
        **{name: getattr(run, name) for name in ("model", "domain", "mode", "task", "setup")},
        "epochs": header.eval.config.epochs or 1,
        "tokens_in": sum(tokens.read for tokens in usage) / answers,
        "tokens_out": sum(tokens.output_tokens for tokens in usage) / answers,
        "answers": results.completed_samples,
        "failed": results.total_samples - results.completed_samples,
        "log": run.log.path,
        "eval_id": header.eval.eval_id,
    }
    newest: dict[str, dict[str, Any]] = {}
    for score in results.estimates:
        label = _label(run, score)
        figures = _figures(score, label)
        if figures and newest.get(label, figures)["figure"] != figures["figure"]:  # a pass by another metric
            figures["scorer"] = label = f"{label} metric={figures['figure']}"
        newest |= {label: figures} if figures else {}
    for figures in (figures for name, figures in newest.items() if only in ("", bare_name(name))):
        if math.isnan(figures["n"]):
            figures["n"] = header.eval.asked or math.nan
        if row["failed"] > (1 - LEAST_SHARE_SCORED) * results.total_samples:
            flags = ", ".join(filter(None, ["failed", figures["flags"]]))
            figures |= {"verdict": "", "reason": "failed", "flags": flags}
        yield row | figures


def _foreign(evals: Runs) -> Iterator[str]:
    for run in evals:
        for score in run.log.header.results.foreign if run.log.header.results else ():
            yield (
                f"{run.model} in {run.setup}: {', '.join(score.metrics)} of {score.name} is not shown. A metric of "
                "Inspect knows nothing of this scorer's values; its own metrics are used without --metric."
            )


def _label(run: Run, results: ScorerResults) -> str:
    """The scorer with its options, and how a question's epochs became one value if that is not by their mean."""
    label, name = run.scorer_label(results), bare_name(results.scorer)
    single = name in SCORER_BY_NAME or not results.name.removeprefix(name).strip("0123456789")
    label = label if single else score_name(label, one_line(results.name))
    return f"{label} reducer={results.reducer}" if results.reducer not in (None, "mean") else label


def _figures(results: ScorerResults, scorer: str) -> dict[str, Any]:
    """The estimate of a scorer, its verdict, and its flags. Nothing if it has no metric."""
    if not results.metrics:
        return {}
    figures = {
        name: math.nan if metric.value is None else float(metric.value) for name, metric in results.metrics.items()
    }
    name = next(iter(figures))
    declaration = SCORER_BY_NAME.get(bare_name(results.scorer))
    scored = math.nan if results.scored_samples is None else float(results.scored_samples)
    n = figures.get("n", scored)
    share = figures.get("share_scored", scored / max(scored + (results.unscored_samples or 0), 1))
    share *= 1 - figures.get("share_repaired", 0.0)  # what was read only after a repair may be harder, too
    general = {"unread": share < LEAST_SHARE_SCORED, "few_questions": n < FEW_QUESTIONS}
    flags = [key for key in figures if key.startswith(FLAG)] + [key for key, raised in general.items() if raised]
    lower, upper = (figures.get(f"{name}_{side}", math.nan) for side in ("lower", "upper"))
    if f"{name}_lower" not in figures and "stderr" in figures and n > 1:
        own = t_estimate(figures[name], figures["stderr"], n - 1, int(n))
        lower, upper = own.lower, own.upper
        flags.append("inspect_stderr")
    declared = bool(figures["higher_is_better"]) if "higher_is_better" in figures else None
    verdict, reason = "", ""
    if declaration and declaration.verdicts:
        reasons = [key for key in figures if key.startswith(REASON)]
        verdict = declaration.verdicts.get(figures.get("verdict", math.nan), "").partition(":")[0]
        reason = "" if verdict else next(iter([*reasons, *flags]), "not_in_log")
    elif declaration and declaration.reference is not None:
        side = "below" if upper < declaration.reference else "above" if lower > declaration.reference else ""
        reason = next((key for key, raised in general.items() if raised), "" if side else "spans_reference")
        verdict = "" if reason else f"{side} {declaration.reference:g}"
    return {
        "scorer": scorer,
        "figure": name,
        "best": best_end(scorer, declared),
        "score": figures[name],
        "lower": lower,
        "upper": upper,
        "mde": figures.get("mde", math.nan),
        "n": n,
        "share_read": share,
        "verdict": verdict,
        "reason": reason,
        "flags": ", ".join(flags),
    }


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["score"].notna() & (frame["n"] >= FEW_QUESTIONS)]


def _caption(frame: pd.DataFrame) -> str:
    drawn = _drawn(frame)
    omitted = len(frame) - len(drawn)
    return (
        f"Scores with their 95 % intervals on {number_range(drawn['n'])} questions. Hollow: less than "
        f"{100 * LEAST_SHARE_SCORED:.0f} % of the answers could be read. Dashed: the value to compare with."
        + f" Not drawn: {omitted} rows without a score or with fewer than {FEW_QUESTIONS} questions." * bool(omitted)
        + excluded_sentence(frame.attrs.get("excluded", []))
    )


def _caveats(frame: pd.DataFrame) -> Iterator[Caveat]:
    """What scores in a table do not allow to conclude, the weightiest first."""
    care = "Read with care"
    names = frame["scorer"] + " of " + frame["model"] + " in " + frame["setup"]
    for key in ("unread", "failed", "few_questions"):
        flagged = [key in flags.split(", ") for flags in frame["flags"]]
        yield from (Caveat(care, name, REASONS[key]) for name in names[flagged])
    for (scorer, setup), rows in frame.groupby(["scorer", "setup"]):
        fewest, most = rows["n"].min(), rows["n"].max()
        if fewest < most:
            why = "models with other questions; the leaderboard compares them on those that both have"
            yield Caveat("Do not compare rows", f"{scorer} in {setup}: {fewest:.0f} to {most:.0f} questions", why)
        missing = set(frame.loc[frame["setup"] == setup, "model"]) - set(rows["model"])
        for model in sorted(missing):
            yield Caveat("Not shown", f"{scorer} of {model} in {setup}", "other models of the setup have this score")
    once = frame[frame["epochs"] == 1]
    yield from (Caveat(care, name, ONE_EPOCH) for name in once["model"] + " in " + once["setup"])


def _notes(frame: pd.DataFrame, y: str) -> Iterator[str]:
    yield from grouped(_caveats(frame))
    scores, ends = (int((frame[name] <= 0).sum()) * (y == "log") for name in ("score", "lower"))
    if scores:
        yield f"{scores} scores are 0 or less and have no logarithm; they are not drawn."
    if ends:
        yield f"{ends} intervals reach to 0 or below, where there is no logarithm; they are not drawn."


def _legend(rows: pd.DataFrame, scorer: ScorerDeclaration | None) -> str:
    """What the verdicts, reasons and flags of one scorer's rows mean."""
    named = dict(text.split(": ", 1) for text in (scorer.verdicts.values() if scorer else ()))
    meanings = {f"`{name}`": named[name] for name in sorted(set(rows["verdict"])) if name in named}
    texts = (*rows["reason"].replace("spans_reference", ""), *rows["flags"])
    keys = sorted({key for text in texts for key in text.split(", ") if key})
    meanings |= {f"`{_short(key)}`": meaning(key, scorer) for key in keys}
    return "\n" * bool(meanings) + "".join(f"- {name}: {meaning}.\n" for name, meaning in meanings.items())


def _short(key: str) -> str:
    """A reason or flag in words without its prefix, unless it would then read like another one of `REASONS`."""
    short = key.removeprefix(FLAG).removeprefix(REASON)
    return (key if short in REASONS else short).replace("_", " ")


def _why(reason: str, scorer: str) -> str:
    """Why there is no verdict, as a table says it."""
    if reason == "spans_reference":
        return f"either side of {SCORER_BY_NAME[bare_name(scorer)].reference:g}"
    return f"cannot tell: {_short(reason)}" * bool(reason)


def _totals(frame: pd.DataFrame) -> str:
    runs = frame.drop_duplicates("log")
    answers, failed = runs["answers"] + runs["failed"], runs["failed"].sum()
    read, written = ((runs[column] * answers).sum() / 1e6 for column in ("tokens_in", "tokens_out"))
    of = f"{counted(len(runs), 'eval')} of {counted(frame['model'].nunique(), 'model')}"
    there = f"{counted(int(answers.sum()), 'answer')}{f', of which {failed:,} failed' * bool(failed)}"
    return f"{of} read {read:.2f} and wrote {written:.2f} million tokens in {there}.\n"


if __name__ == "__main__":
    main(load, chart, __doc__, report)

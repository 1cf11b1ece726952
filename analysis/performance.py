"""How does each model score? Every headline of a folder of logs, with its 95 % interval, verdict and cost.

python -m truthgym.analysis.performance LOGS OUT.md      (tables, with the chart beside it as OUT.svg)
python -m truthgym.analysis.performance LOGS OUT.html    (the chart alone; also .svg and .png, and .csv for the table)
python -m truthgym.analysis.performance LOGS OUT.html --x elo --ability arena.csv --groups qwen=Qwen,llama=Llama
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import altair as alt

from truthgym.analysis.tables.answers import no_scores
from truthgym.analysis.tables.markdown import counted, intervals, table
from truthgym.analysis.tables.panels import against, by_name, left_out_sentence, left_out_title, shown_scores
from truthgym.analysis.tables.policies import (
    Names,
    Pairs,
    first_match,
    in_words,
    positions,
    rank_correlations,
    read_pairs,
    without,
)
from truthgym.analysis.tables.questions import UNREAD, Caveat, grouped
from truthgym.analysis.tables.questions import notes as listed
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import best_end, score_name
from truthgym.analysis.tables.setups import Places, Run, bare_name, runs
from truthgym.datasets.errors import BadInput, one_of
from truthgym.evallog.header import ScorerResults
from truthgym.scorers.declaration import FEW_QUESTIONS, LEAST_SHARE_SCORED, ScorerDeclaration
from truthgym.scorers.statistics.interval import t_estimate
from truthgym.tasks.domain_task import SCORER_BY_NAME

if TYPE_CHECKING:
    import pandas as pd

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
    "Each score counts so that more is better: one whose lower end is better is negated, as is the size of one that is "
    "best at 0."
)
LABELS = {"share": "read", "tokens": "tokens read / written"}


def load(
    logs: Places,
    scorer: str = "",
    x: str = "name",
    y: Transform = "score",
    ability: str | Path = "",
    groups: Pairs = "",
    labels: Pairs = "",
    exclude: Names = "",
) -> "pd.DataFrame":
    """Read the headlines of all finished evals.

    Only the logs' headers are read, and no figure is computed again. Of several passes of a scorer with the same
    options the newest counts, and a copied log counts once.

    Args:
        logs: Logs and folders of logs.
        scorer: Read the scores of this paradigm only, in all its options. "": of all scorers.
        x: What the chart compares scores with: "name" (nothing: a row for each setup), "size" (billions of parameters
            in a model's name), or a column of `ability`. Replaces ASSIGN_X_COORDS_SETUP.
        y: How the chart shows scores: as they are, "negated", or their natural "log". Replaces ELO_CORR_Y_COORDS_SETUP.
        ability: A .csv file with the column `model`, and columns of numbers: a model's ability elsewhere.
        groups: Groups that share a colour: a part of a model's name and the group, as in "qwen=Qwen,llama=Llama".
            Replaces GROUP_MODE_SETUP.
        labels: Names to show: a part of a model's name and the text. Replaces ELO_CORR_X_TICKS_SETUP.
        exclude: Models and setups to leave out: parts of their names. The chart says which. Replaces
            REMOVE_N_OUTGROUP_SETUP and FORBIDDEN_MODELS.

    Returns:
        A row for each eval and scorer, sorted by scorer, domain, mode and score, whatever the order of the logs:

        - `model` with its arguments; `domain`; `mode`, the `mode` in the task's metadata (as in examples/sweep.py), or
          else the solver with its arguments; `task`, the task arguments that differ between the evals of a domain;
          `scorer` with the options that differ from its defaults.
        - `figure`, the name of the headline, its `best` value ("lowest", "highest", "zero", or "" if none is
          declared), its `score`, `lower` and `upper` (95 %), `mde`, `n` questions, `epochs`,
          `share_read` in [0, 1], of the answers that reached the scorer. NaN if the log has none. The interval and n
          of scorers that report only Inspect's `stderr` come from it and from the number of scored questions.
        - `verdict`, or "" with the `reason`: a key of `REASONS` or of the scorer's declared `reasons`. A scorer that
          gives no verdict itself but has a reference gets "below" or "above" it, by its interval. `flags`, keys too,
          with commas: what to doubt.
        - `tokens_in` and `tokens_out`, for each answer (a question in an epoch), of all models in the eval: with the
          beliefs and judges of all its scorers, without replies from Inspect's cache. `answers` and `failed`, samples
          that ended and those that raised an error. `log`.
        - `label`, `group` (the label if it has no group), and `x` (NaN if it is not known, or is the name).

        `frame.attrs["left_out"]` holds the number of logs left out, by reason; `frame.attrs["excluded"]` what the user
        left out; `frame.attrs["correlations"]`, for each scorer and setup, and over the setups that all models have
        (`ACROSS`), Spearman's correlation with x of the score, counted so that more is better, of rows that are drawn
        and read: `rho`, `lower`, `upper`, `p`, `p_adjusted` (Holm, by scorer) and `n` models; `frame.attrs["notes"]`
        what cannot be concluded.

    Raises:
        BadInput: No log of a finished eval; none has a score, or one of `scorer`; an unknown scorer or column; a table
            of abilities that cannot be read.
    """
    import pandas as pd

    if scorer:
        one_of("scorer", scorer, list(SCORER_BY_NAME))
    one_of("y", y, get_args(Transform))
    evals = runs(logs)
    rows = [row for run in evals for row in _rows(run, scorer)]
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
    frame.attrs.update(
        left_out=dict(evals.left_out),
        excluded=excluded,
        x=x,
        y=y,
        correlations=correlations,
        notes=[*evals.notes, *notes, *_notes(frame, y)],
    )
    return frame


def chart(frame: "pd.DataFrame") -> alt.VConcatChart:
    """Draw score and interval of each model by setup: a panel for each scorer, setups sorted by score.

    With a size or ability as `x` there is a panel for each scorer and setup, with the rank correlation. A hollow mark:
    too few answers were read. The dashed line is the scorer's reference value. Rows without a score or with fewer than
    thirty questions are not drawn.

    Raises:
        BadInput: No row can be drawn.
    """
    drawn = _drawn(frame)
    if drawn.empty:
        raise BadInput(f"None of {len(frame)} scores has {FEW_QUESTIONS} questions, so there is no chart; ask more")
    drawn = drawn.assign(**shown_scores(drawn, frame.attrs.get("y", "score")))
    groups = sorted(drawn["group"].unique())
    if frame.attrs.get("x", "name") == "name":
        panels = [by_name(rows, groups, frame.attrs.get("y", "score")) for _, rows in drawn.groupby("scorer")]
    else:
        known = drawn[drawn["x"].notna()]
        if known.empty:
            raise BadInput(f"No model has a known {frame.attrs['x']}, so there is no chart; give a table as ability=")
        parts = known.groupby(["scorer", "setup"], sort=True)
        panels = [against(rows, groups, frame.attrs) for _, rows in parts]
    title = left_out_title(frame.attrs.get("excluded", []))
    charts: alt.VConcatChart = alt.vconcat(*panels, title=title).configure_axis(titleLimit=700)
    return charts


def report(frame: "pd.DataFrame", figure: str = "") -> str:
    """The tables as Markdown, a section for each scorer, with a legend.

    Args:
        frame: From `load`.
        figure: File name of its chart. "": without one.
    """
    import pandas as pd

    shown = _in_words(frame)
    sections = []
    for name, rows in shown.groupby("scorer"):
        paradigm = SCORER_BY_NAME.get(bare_name(str(name)))
        heading = f"### `{name}`\n\n" + (f"{paradigm.question} {_sentence(paradigm.better)}\n\n" if paradigm else "")
        labels = LABELS | {"score": f"{rows['figure'].iloc[0]} [95 % interval]"}
        failed = ["failed"] * bool(rows["failed"].any())
        columns = ("setup", "model", "score", "mde", "n", "epochs", *failed, "share", "verdict", "flags", "tokens")
        sections.append(heading + table(rows, columns, labels) + _legend(frame.loc[rows.index], paradigm))
    if correlations := frame.attrs.get("correlations"):
        ranked = pd.DataFrame([{**correlation, "words": in_words(correlation)} for correlation in correlations])
        heading = f"### Rank correlation with {frame.attrs['x']}\n\n{DIRECTED} p by Holm, for each scorer.\n\n"
        sections.append(heading + table(ranked, ("scorer", "setup", "words", "p_adjusted"), {"words": "Spearman"}))
    if figure:
        sections.append(f"### Chart\n\n![Scores with 95 % intervals]({figure})\n\n*{_caption(frame)}*\n")
    return "\n".join([*sections, _totals(frame)]) + listed(frame)


def scores(frame: "pd.DataFrame", most: int = 20) -> str:
    """Each model's headlines with their verdicts, in one Markdown table of at most so many rows."""
    columns = ("scorer", "setup", "model", "score", "n", "verdict")
    return table(_in_words(frame).head(most), columns, {"score": "headline [95 % interval]"})


def _in_words(frame: "pd.DataFrame") -> "pd.DataFrame":
    return frame.assign(
        model=frame["label"],
        score=intervals(frame, "score"),
        n=["-" if math.isnan(n) else f"{n:.0f}" for n in frame["n"]],
        share=[_percent(share) for share in frame["share_read"]],
        verdict=[_verdict(*row) for row in frame[["verdict", "reason"]].to_numpy()],
        flags=[", ".join(map(_short, flags.split(", "))) for flags in frame["flags"]],
        tokens=[f"{i:,.0f} / {o:,.0f}" for i, o in frame[["tokens_in", "tokens_out"]].to_numpy()],
    )


def _rows(run: Run, only: str) -> Iterator[dict[str, Any]]:
    header = run.log.header
    results = header.results
    if results is None:
        return
    usage = header.stats.model_usage.values()
    answers = max(results.total_samples, 1)
    row = {
        "model": run.model,
        "domain": run.domain,
        "mode": run.mode,
        "task": run.task,
        "setup": run.setup,
        "epochs": header.eval.config.epochs or 1,
        "tokens_in": sum(tokens.read for tokens in usage) / answers,
        "tokens_out": sum(tokens.output_tokens for tokens in usage) / answers,
        "answers": results.completed_samples,
        "failed": results.total_samples - results.completed_samples,
        "log": run.log.path,
        "eval_id": header.eval.eval_id,
    }
    headlines = (_figures(score, _label(run, score)) for score in results.scores)
    newest = {figures["scorer"]: figures for figures in headlines if figures}
    failed = results.total_samples - results.completed_samples
    for name, figures in newest.items():
        if only and bare_name(name) != only:
            continue
        if math.isnan(figures["n"]):
            figures["n"] = header.eval.asked or math.nan
        if failed > (1 - LEAST_SHARE_SCORED) * results.total_samples:
            figures |= {
                "verdict": "",
                "reason": "failed",
                "flags": ", ".join(filter(None, ["failed", figures["flags"]])),
            }
        yield row | figures


def _label(run: Run, results: ScorerResults) -> str:
    """The scorer with its options; of a scorer of another project that reports several numbers also their names."""
    label, name = run.scorer_label(results), bare_name(results.scorer)
    one = name in SCORER_BY_NAME or not results.name.removeprefix(name).strip("0123456789")
    return label if one else score_name(label, results.name)


def _figures(results: ScorerResults, scorer: str) -> dict[str, Any]:
    """The headline of a scorer, its verdict, and what to doubt. Nothing if it has no metric."""
    if not results.metrics:
        return {}
    figures = {name: math.nan if one.value is None else float(one.value) for name, one in results.metrics.items()}
    name = next(iter(figures))
    paradigm = SCORER_BY_NAME.get(bare_name(results.scorer))
    scored = math.nan if results.scored_samples is None else float(results.scored_samples)
    n = figures.get("n", scored)
    share = figures.get("share_scored", scored / max(scored + (results.unscored_samples or 0), 1))
    general = {"unread": share < LEAST_SHARE_SCORED, "few_questions": n < FEW_QUESTIONS}
    flags = [key for key in figures if key.startswith("flag_")] + [key for key, raised in general.items() if raised]
    lower, upper = (figures.get(f"{name}_{side}", math.nan) for side in ("lower", "upper"))
    if f"{name}_lower" not in figures and "stderr" in figures and n > 1:
        own = t_estimate(figures[name], figures["stderr"], n - 1, int(n))
        lower, upper = own.lower, own.upper
        flags.append("inspect_stderr")
    declared = bool(figures["higher_is_better"]) if "higher_is_better" in figures else None
    code, verdict, reason = figures.get("verdict", math.nan), "", ""
    if paradigm and paradigm.verdicts:
        reasons = [key for key in figures if key.startswith(("unidentified_", "cannot_tell_"))]
        verdict = "" if math.isnan(code) else paradigm.verdicts[code].partition(":")[0]
        reason = "" if verdict else next(iter([*reasons, *flags]), "not_in_log")
    elif paradigm and paradigm.reference is not None:
        side = "below" if upper < paradigm.reference else "above" if lower > paradigm.reference else ""
        reason = next((key for key, raised in general.items() if raised), "" if side else "spans_reference")
        verdict = "" if reason else f"{side} {paradigm.reference:g}"
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


def _drawn(frame: "pd.DataFrame") -> "pd.DataFrame":
    return frame[frame["score"].notna() & (frame["n"] >= FEW_QUESTIONS)]


def _verdict(verdict: str, reason: str) -> str:
    return verdict or (f"none: {_short(reason)}" if reason else "")


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.0f} %"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _caption(frame: "pd.DataFrame") -> str:
    drawn = _drawn(frame)
    fewest, most = (f"{n:.0f}" for n in (drawn["n"].min(), drawn["n"].max()))
    left_out = len(frame) - len(drawn)
    omitted = f" Not drawn: {left_out} rows without a score or with fewer than {FEW_QUESTIONS} questions."
    return (
        f"Scores with their 95 % intervals on {fewest if fewest == most else f'{fewest} to {most}'} questions. Hollow: "
        f"less than {_percent(LEAST_SHARE_SCORED)} of the answers could be read. Dashed: the value to compare with."
        f"{omitted * bool(left_out)}{left_out_sentence(frame.attrs.get('excluded', []))}"
    )


def _caveats(frame: "pd.DataFrame") -> Iterator[Caveat]:
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


def _notes(frame: "pd.DataFrame", y: str) -> Iterator[str]:
    yield from grouped(_caveats(frame))
    if y == "log" and (number := int((frame["score"] <= 0).sum())):
        yield f"{number} scores are 0 or less and have no logarithm; they are not drawn."
    if y == "log" and (number := int((frame["lower"] <= 0).sum())):
        yield f"{number} intervals reach to 0 or below, where there is no logarithm; they are not drawn."


def _legend(rows: "pd.DataFrame", paradigm: ScorerDeclaration | None) -> str:
    """What the reasons and flags of one scorer's rows mean."""
    keys = sorted({key for text in (*rows["reason"], *rows["flags"]) for key in text.split(", ") if key})
    declared = {**(paradigm.reasons if paradigm else {}), **REASONS}
    lines = [f"- `{_short(key)}`: {declared.get(key, key)}.\n" for key in keys]
    return "".join(["\n", *lines]) if lines else ""


def _short(key: str) -> str:
    return key.removeprefix("flag_").removeprefix("cannot_tell_")


def _totals(frame: "pd.DataFrame") -> str:
    """What the runs cost, and which logs were left out."""
    runs = frame.drop_duplicates("log")
    answers = runs["answers"] + runs["failed"]
    read, written = ((runs[column] * answers).sum() / 1e6 for column in ("tokens_in", "tokens_out"))
    failed, models = runs["failed"].sum(), counted(frame["model"].nunique(), "model")
    left_out = [f" Left out: {number} {reason}." for reason, number in frame.attrs.get("left_out", {}).items()]
    return (
        f"{counted(len(runs), 'eval')} of {models} read {read:.2f} and wrote {written:.2f} million "
        f"tokens in {counted(int(answers.sum()), 'answer')}{f', of which {failed:,} failed' * bool(failed)}."
        f"{''.join(left_out)}\n"
    )


if __name__ == "__main__":
    main(load, chart, __doc__, report)

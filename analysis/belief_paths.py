"""How did beliefs move? The beliefs that `martingale` recorded, by step, and the update against the prior.

python -m truthgym.analysis.belief_paths LOGS OUT.md        (tables, with the chart beside it as OUT.svg)
python -m truthgym.analysis.belief_paths LOG OUT.csv        (the paths, with the corrected posterior)
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import pandas as pd

from truthgym.analysis.tables.answers import labelled, no_scores, sample_facts
from truthgym.analysis.tables.markdown import by_reason, page, picture, section, table, with_interval
from truthgym.analysis.tables.panels import BLUE, GRAY, ORANGE, interval_panel, stack
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.setups import Places, Run, bare_name, runs
from truthgym.scorers.statistics.interval import cluster_codes, mean_estimate
from truthgym.scorers.statistics.martingale import belief_table, table_score
from truthgym.scorers.statistics.martingale_score import REASONS, corrected_posterior

if TYPE_CHECKING:
    from inspect_ai.scorer import SampleScore


QUESTION = "How did beliefs move?"
RUN = ["setup", "model", "scorer", "log"]
"""The columns that name a panel."""
COLUMNS = (*RUN, "question", "epoch", "domain", "event", "outcome", "elicitor", "slope", "slope_lower", "slope_upper",
           "score", "score_lower", "score_upper")  # fmt: skip
"""Before those of the stages."""
MOST_LINES, MOST_RUNS = 200, 12
"""The most paths in a panel, and the most panels: more cannot be told apart."""
BINS = 8
"""Of equal size, of the prior."""
FEWEST_DRAWN = 30
"""Questions below which the update against the prior is not drawn."""
ONE_EPOCH = "in one epoch a prior's error is in its own update too, so that the two do not show a trend"
TRUTH = alt.Scale(domain=["yes", "no", "unknown"], range=[BLUE, ORANGE, GRAY])
LABELS = {"stated": "answers", "moved": "mean step", "brier": "Brier score [95 % interval]"}


def load(logs: Places, scorer: str = "martingale") -> pd.DataFrame:
    """Read the belief paths of finished logs: a row for each sample, epoch and elicitor.

    `prior`, `step 1` and so on, `posterior`, and `corrected`: the posterior with the slope from prior to posterior
    removed (of the first elicitor; NaN if the slope is not identified). `slope` is that slope, and `score` the
    martingale score in the log, with the scorer's own options, both with `_lower` and `_upper`. Of several passes with
    the same options the newest counts.
    """
    evals = runs(logs)
    rows: list[dict[str, Any]] = []
    refused: dict[str, list[str]] = {}
    for run, by_name in evals.read(lambda run: _scores(run, scorer)):
        for name, scores in by_name.items():
            rows += _rows(run, name, scores, refused)
    if not rows:
        raise no_scores(evals, scorer)
    frame = pd.DataFrame(rows)
    frame["outcome"] = frame["outcome"].astype(float)
    steps = sorted((name for name in map(str, frame) if name.startswith("step ")), key=lambda name: int(name[5:]))
    last = [*steps, "posterior", "corrected"]
    frame = frame[[name for name in frame.columns if name not in last] + last]
    single = [f"{run[1]} in {run[0]}" for run, part in frame.groupby(RUN) if part["epoch"].nunique() < 2]
    frame.attrs["notes"] = [
        *evals.omissions,
        *by_reason(refused, "No martingale score"),
        *by_reason({ONE_EPOCH: single}, "Update against prior not drawn"),
    ]
    return frame


def chart(frame: pd.DataFrame) -> alt.VConcatChart:
    """Draw each path by its outcome, and the mean update by the prior of another epoch, whose error is not in it."""
    panels = [_run(rows) for _, rows in list(frame.groupby([*RUN, "elicitor"], sort=True))[:MOST_RUNS]]
    return stack(panels, "There is no belief path to draw; score a log with truthgym/martingale")


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """Beliefs by stage as Markdown tables, a table for each run and elicitor."""
    parts = []
    for (setup, model, scorer, _, elicitor), rows in frame.groupby([*RUN, "elicitor"], sort=True):
        first = rows.iloc[0]
        slopes = "".join(
            f"{words} {with_interval(*(first[f'{name}{side}'] for side in ('', '_lower', '_upper')))}, "
            for words, name in (("Martingale score", "score"), ("slope from prior to posterior", "slope"))
        )
        n = f"{rows['question'].nunique()} questions, epochs: {rows['epoch'].nunique()}."
        stages = table(_by_stage(rows), ("stage", "stated", "belief", "moved", "brier"), LABELS)
        title = f"{setup}: {model}, `{scorer}`, {elicitor}"
        parts.append(section(title, slopes * bool(np.isfinite(first["slope"])) + n, stages))
    counts = frame.groupby([*RUN, "elicitor"])["question"].nunique()
    more = f" Not drawn: {len(counts) - MOST_RUNS} more runs." * (len(counts) > MOST_RUNS)
    legend = (
        "\n`mean step`: the mean distance from the stage before. `Brier score` of the belief at each stage, lower is "
        "better; beliefs that take up evidence improve from prior to posterior.\n"
    )
    caption = (
        f"Left: beliefs from prior to posterior, of {counts.min()} to {counts.max()} questions. Right: mean update by "
        "the prior of another epoch, with 95 % intervals; at 0 (dashed) if updates cannot be predicted. Blue: the "
        f"slope from prior to posterior.{more}"
    )
    return page([*parts, legend, picture(figure, "Belief paths", caption)], frame)


def _scores(run: Run, scorer: str) -> dict[str, list[tuple["SampleScore", tuple[Any, ...]]]]:
    """The scores of each pass with its own options, with the facts of their samples."""
    from inspect_ai.scorer import SampleScore, Score

    scores: dict[str, list[tuple[SampleScore, tuple[Any, ...]]]] = {}
    for _, sample in run.log.reader.outcomes():
        for label, score in labelled(run, sample).items():
            if bare_name(label) == scorer:
                recorded = SampleScore(score=Score(value=np.nan, metadata=score.details), sample_id=str(sample.id))
                scores.setdefault(label, []).append((recorded, sample_facts(sample)))
    return scores


def _rows(
    run: Run, name: str, scored: list[tuple["SampleScore", tuple[Any, ...]]], refused: dict[str, list[str]]
) -> Iterator[dict[str, Any]]:
    """The paths of one pass, and its martingale score from prior to posterior, whatever its settings."""
    beliefs = belief_table([score for score, _ in scored])
    slope_score = table_score(replace(beliefs, settings={}))
    if slope_score.reason:
        refused.setdefault(REASONS[slope_score.reason], []).append(f"{run.model} in {run.setup}")
    groups = cluster_codes(beliefs.domain)
    ends = beliefs.prior[beliefs.first], beliefs.posterior[beliefs.first]
    corrected = corrected_posterior(*ends, slope_score.estimate, groups)
    logged = _logged(run, name)
    place = {question: i for i, question in enumerate(beliefs.questions.question)}
    for score, (question, epoch, event, *_) in scored:
        metadata = score.score.metadata or {}
        paths: dict[str, dict[str, float | None]] = {}
        for belief in metadata.get("beliefs") or []:
            if belief["stage"] != "view":  # a first impression, which is text
                paths.setdefault(belief["elicitor"], {})[belief["stage"]] = belief.get("value")
        facts = (run.setup, run.model, name, run.log.path, question, epoch, metadata.get("domain", ""), event)
        for elicitor, path in paths.items():
            own = elicitor == beliefs.first
            slope = (slope_score.estimate, slope_score.lower, slope_score.upper) if own else (np.nan,) * 3
            values = (*facts, metadata.get("outcome"), elicitor, *slope, *logged)
            row: dict[str, Any] = dict(zip(COLUMNS, values, strict=True))
            yield row | path | {"corrected": corrected[place[question], epoch - 1] if own else np.nan}


def _logged(run: Run, name: str) -> tuple[float, ...]:
    """The estimate of a scorer in a log, with its interval."""
    scores = run.log.header.results.estimates if run.log.header.results else []
    figures = next(
        (score.metrics for score in reversed(scores) if run.scorer_label(score) == name and score.metrics), {}
    )
    values = [figures.get(f"{next(iter(figures), '')}{side}") for side in ("", "_lower", "_upper")]
    return tuple(np.nan if value is None or value.value is None else value.value for value in values)


def _stages(rows: pd.DataFrame) -> list[str]:
    steps = [name for name in map(str, rows) if name.startswith("step ") and rows[name].notna().any()]
    return ["prior", *steps, "posterior"]


def _by_stage(rows: pd.DataFrame) -> pd.DataFrame:
    stages, before = [], rows["prior"].astype(float) * np.nan
    for stage in _stages(rows):
        belief = rows[stage].astype(float)
        squared = (belief - rows["outcome"]) ** 2
        means = squared.groupby([rows["question"], rows["event"]]).mean()
        brier = mean_estimate(means, means.index.get_level_values("event").tolist())
        text = with_interval(brier.estimate, brier.lower, brier.upper)
        stages.append((stage, int(belief.notna().sum()), belief.mean(), (belief - before).abs().mean(), text))
        before = belief
    return pd.DataFrame(stages, columns=["stage", "stated", "belief", "moved", "brier"])


def _run(rows: pd.DataFrame) -> alt.HConcatChart:
    names = rows.iloc[0]
    panels: alt.HConcatChart = alt.hconcat(_paths(rows), *_updates(rows)).resolve_scale(y="independent")
    subtitle = f"{names['setup']}, {names['scorer']}, {names['elicitor']}: {rows['question'].nunique()} questions"
    return panels.properties(title=alt.Title(names["model"], subtitle=subtitle, anchor="start"))


def _paths(rows: pd.DataFrame) -> alt.Chart:
    stages = _stages(rows)
    long = (
        rows.head(MOST_LINES).melt(["question", "epoch", "outcome"], stages, "stage", "belief").dropna(subset="belief")
    )
    long["path"] = long["question"] + " / " + long["epoch"].astype(str)
    long["truth"] = long["outcome"].map({1.0: "yes", 0.0: "no"}).fillna("unknown")
    legend = alt.Legend(orient="top", symbolOpacity=1, symbolStrokeWidth=2)
    lines: alt.Chart = (
        alt.Chart(long)
        .mark_line(opacity=0.3, strokeWidth=1)
        .encode(
            x=alt.X("stage:N", sort=stages, title=None, axis=alt.Axis(labelAngle=-30)),
            y=alt.Y("belief:Q", scale=alt.Scale(domain=[0, 1]), title="belief"),
            color=alt.Color("truth:N", title="truth", scale=TRUTH, legend=legend),
            detail="path:N",
            tooltip=["question", "epoch", "stage", "belief", "truth"],
        )
        .properties(width=max(160, 60 * len(stages)), height=220)
    )
    return lines


def _updates(rows: pd.DataFrame) -> list[alt.LayerChart]:
    """The panel of the update against the prior. None with one epoch or few questions."""
    values = rows.assign(update=rows["posterior"].astype(float) - rows["prior"].astype(float))
    own = values.groupby(["log", "question"])["prior"]
    others = (own.transform("sum") - values["prior"]) / (own.transform("count") - 1)
    values["other"] = others.astype(float).replace([np.inf, -np.inf], np.nan)
    values = values.dropna(subset=["other", "update"])
    if rows["epoch"].nunique() < 2 or values["question"].nunique() < FEWEST_DRAWN:
        return []
    values["bin"] = pd.qcut(values["other"].rank(method="first"), BINS, labels=False)
    tooltip, points = ["prior", "update", "lower", "upper", "answers"], []
    for _, part in values.groupby("bin"):
        mean = mean_estimate(part["update"], part["event"].tolist())
        points.append((part["other"].mean(), mean.estimate, mean.lower, mean.upper, len(part)))
    x = alt.X("prior:Q", title="prior (of another epoch)", scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("update:Q", title="posterior minus prior")
    lines = []
    slope = rows["slope"].iloc[0]
    if np.isfinite(slope):
        prior = values["prior"].astype(float)
        ends = np.array([prior.min(), prior.max()])
        line = pd.DataFrame({"prior": ends, "update": values["update"].mean() + slope * (ends - prior.mean())})
        lines.append(alt.Chart(line).mark_line(color=BLUE).encode(x=x, y=y))
    shown, point = pd.DataFrame(points, columns=tooltip), {"size": 45}
    panel = interval_panel(shown, y, color="black", point=point, layers=lines, x=x, tooltip=tooltip)
    return [panel.properties(width=260, height=220)]


if __name__ == "__main__":
    main(load, chart, __doc__, report)

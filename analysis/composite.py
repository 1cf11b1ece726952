"""Which components of a composite reward earn their weight? Each set of components on one scale, against a gold score.

python -m truthgym.analysis.composite LOGS OUT.md --components reward_model,length --gold brier

Before any training: on logs with several epochs and all scores. What comes out are weights for `--reward_weights`.
"""

from collections.abc import Iterator
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truthgym.analysis.over_optimisation import IDENTITY, notes_of
from truthgym.analysis.tables.answers import answers
from truthgym.analysis.tables.markdown import page, picture, table
from truthgym.analysis.tables.panels import interval_panel
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import SIGN, directed_scores, run_names, unread_as_worst
from truthgym.analysis.tables.setups import Places, bare_name
from truthgym.datasets.errors import BadInput, names_in, one_of
from truthgym.scorers.statistics.best_of_n import best_of_n_mean
from truthgym.scorers.statistics.interval import mean_estimate

QUESTION = "Which components of a composite reward earn their weight?"
FULL = "all"
COLUMNS = ("run", "scale", "set", "accuracy", "accuracy_lower", "accuracy_upper", "change", "change_lower",
           "change_upper", "gold_of_best", "questions", "unread", "weights")  # fmt: skip


def load(logs: Places, components: str = "", gold: str = "brier", scale: str = "z") -> pd.DataFrame:
    """Compare sets of components by how often they order two answers as the gold score does.

    A row for each eval (`run`) and set: "all" with equal weights, each "without" one component, each one "alone".
    `accuracy`, the share of pairs of answers to a question in the gold score's order (ties of the set are half), and
    `change`, its difference from "all", both with 95 % bounds by event; `gold_of_best`, the gold score (up is better)
    of the answer that the set puts first; `weights` for `--reward_weights` with the scale "z". The scale "quantile" is
    a component's rank among all answers. An answer without a number gets the component's lowest one, as in training,
    and the worst gold score.
    """
    return compare_sets(answers(logs), components, gold, scale)


def compare_sets(frame: pd.DataFrame, components: str = "", gold: str = "brier", scale: str = "z") -> pd.DataFrame:
    """The same from a table of answers."""
    one_of("scale", scale, ("z", "quantile"))
    tables = {}
    for name, end, part in directed_scores(frame.assign(run=run_names(frame))):
        part = unread_as_worst(part, end)
        tables[name] = part.assign(value=part["value"] * SIGN[end])
    by_scorer = {bare_name(str(part["scorer"].iloc[0])): name for name, part in tables.items()}
    names = names_in(components) if components else [scorer for scorer in by_scorer if scorer != gold]
    missing = [name for name in [*names, gold] if name not in by_scorer]
    if missing or len(names) < 2 or gold in names:
        problem = (
            f"the logs have no scores of {missing[0]} with a better end" if missing
            else f"gold={gold} is a component too" if gold in names
            else f"{len(names)} component{'s' * (len(names) != 1)}, and a composite has two or more"
        )  # fmt: skip
        raise BadInput(f"{problem}; the logs have {', '.join(by_scorer)}: name some with --components A,B and --gold C")
    rows = tables[by_scorer[gold]].rename(columns={"value": "gold"})
    for name in names:
        part = tables[by_scorer[name]].rename(columns={"value": name})
        rows = rows.merge(part[[*IDENTITY, name]], on=IDENTITY, how="left")
    parts = rows[names].fillna(rows[names].min())
    spread = {name: float(parts[name].std()) for name in names}
    if flat := [name for name in names if not spread[name] > 0]:
        raise BadInput(f"{flat[0]} is the same for every answer, so it has no scale; leave it out of --components")
    rows[names] = (parts - parts.mean()) / parts.std() if scale == "z" else parts.rank() / (len(parts) + 1)
    table_of = [row for _, run in rows.groupby("run", sort=False) for row in _of_run(run, names, spread)]
    if not table_of:
        raise BadInput(f"No question has two answers that differ in {gold}; run with more --epochs")
    result = pd.DataFrame(table_of).assign(scale=scale)
    result.attrs["notes"] = [*notes_of(frame), *_notes(result)]
    return result


def _of_run(run: pd.DataFrame, names: list[str], spread: dict[str, float]) -> Iterator[dict[str, Any]]:
    sets = {FULL: names, **{f"without {name}": [other for other in names if other != name] for name in names},
            **{f"{name} alone": [name] for name in names}}  # fmt: skip
    pools = [pool for _, pool in run.groupby("sample_id", sort=False) if pool["gold"].nunique() > 1]
    if not pools:
        return
    events = [str(pool["event"].iloc[0]) for pool in pools]
    right = {label: _accuracies(pools, parts) for label, parts in sets.items()}
    for label, parts in sets.items():
        best = [best_of_n_mean(pool[parts].sum(axis=1), pool["gold"], [len(pool)])[0] for pool in pools]
        yield {
            "run": run["run"].iloc[0], "set": label, **mean_estimate(right[label], events).metrics("accuracy"),
            **mean_estimate(right[label] - right[FULL], events).metrics("change"),
            "gold_of_best": float(np.mean(best)), "questions": len(pools), "unread": float(run["unread"].mean()),
            "weights": " ".join(f"{name} {1 / spread[name]:.3g}" for name in parts),
        }  # fmt: skip


def _accuracies(pools: list[pd.DataFrame], components: list[str]) -> NDArray[np.float64]:
    accuracies = []
    for pool in pools:
        sides = pool[components].sum(axis=1).to_numpy(), pool["gold"].to_numpy()
        total, gold = (np.sign(np.subtract.outer(side, side)) for side in sides)
        accuracies.append(((total * gold)[gold > 0].mean() + 1) / 2)
    return np.array(accuracies)


def chart(frame: pd.DataFrame) -> alt.FacetChart:
    accuracy = alt.X("accuracy:Q", title="pairs in the gold order").scale(zero=False)
    sets = alt.Y("set:N", title=None, sort=list(frame["set"].unique()))
    bounds, point = ("accuracy_lower", "accuracy_upper"), {"size": 30, "opacity": 0.7}
    panel = interval_panel(frame, accuracy, bounds, dashed={}, color=None, width=1, point=point, y=sets)
    return panel.properties(width=320).facet(row=alt.Row("run:N", title=None))


def report(frame: pd.DataFrame, figure: str = "") -> str:
    n = int(frame.drop_duplicates("run")["questions"].sum())
    caption = f"n = {n:,} questions. 95 % bounds, clustered by event."
    drawing = picture(figure, "Accuracy of sets of components", caption)
    return page([drawing, table(frame, COLUMNS)], frame)


def _notes(frame: pd.DataFrame) -> Iterator[str]:
    for row in frame[frame["set"].str.startswith("without ")].to_dict("records"):
        name, more = row["set"].removeprefix("without "), f"{row['change']:.1%} more pairs are right"
        if row["change_lower"] > 0:
            yield f"{row['run']}: {name} makes the composite worse: without it {more}."
        elif row["change_upper"] > 0:
            yield f"{row['run']}: nothing shows that {name} helps: without it the change may be 0."


if __name__ == "__main__":
    main(load, chart, __doc__, report)

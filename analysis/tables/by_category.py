"""Which kind of question goes wrong: scores by a field of the questions, with intervals that hold at once."""

from math import inf, isnan
from typing import Any

import pandas as pd

from truthgym.analysis.tables.answers import UNREAD, epochs_by_question, share_read
from truthgym.analysis.tables.markdown import counted, with_interval
from truthgym.analysis.tables.score_names import ends, main_scores
from truthgym.analysis.tables.setups import bare_name
from truthgym.scorers.declaration import LEAST_SHARE_SCORED
from truthgym.scorers.statistics.direction import span
from truthgym.scorers.statistics.interval import Estimate
from truthgym.scorers.statistics.multiplicity import simultaneous
from truthgym.scorers.statistics.paired import mean_of_answers

FEW = 30
"""Independent events below which a category's estimate has a warning."""
COLUMNS = ["model", "setup", "score", "category", "estimate", "lower", "upper", "mde", "n", "clusters", "few", "read",
           "best"]  # fmt: skip


def by_category(rows: pd.DataFrame) -> pd.DataFrame:
    """The mean of each scorer's main number in each category, with 95 % intervals that hold at once for all of these.

    Epochs are averaged first, and intervals are clustered by event and corrected for the number of categories
    (Bonferroni): two categories of a model whose intervals do not overlap differ. `rows` are from `answers(by=...)`.
    """
    main, left_out = main_scores(rows)
    best = ends(main)
    order = {label: place for place, label in enumerate(rows.attrs["categories"])}
    cells: list[tuple[Any, ...]] = []
    for (model, setup, score), part in main.groupby(["model", "setup", "score"], sort=False):
        scorer, key = part["scorer"].iloc[0], part["key"].iloc[0]
        bounds = span(bare_name(scorer), key, {})
        means: dict[str, tuple[Estimate, float]] = {}
        for label, own in sorted(part.groupby("category"), key=lambda item: order[item[0]]):
            events = dict(zip(own["sample_id"], own["event"], strict=True))
            mean = mean_of_answers(epochs_by_question(own), events, bounds, f"{bare_name(scorer)}/{key}")
            means[str(label)] = mean, share_read(own)
        tests = sum(not isnan(mean.lower) for mean, _ in means.values())
        for label, (alone, read) in means.items():
            mean = simultaneous(alone, tests)
            low, high = bounds if bounds and bounds[0] <= alone.lower and alone.upper <= bounds[1] else (-inf, inf)
            bounded = max(mean.lower, low), min(mean.upper, high), mean.mde, mean.n, mean.clusters
            few, end = mean.clusters < FEW, best[scorer, key] or ""
            cells.append((model, setup, score, label, mean.estimate, *bounded, few, read, end))
    frame = pd.DataFrame(cells, columns=COLUMNS)
    frame.attrs["notes"] = [*left_out, *few_events(frame)]
    unread = frame.loc[frame["read"] < LEAST_SHARE_SCORED, "category"].drop_duplicates()
    if len(unread):
        frame.attrs["notes"].append(f"{', '.join(unread)}: {UNREAD}.")
    return frame


def few_events(cells: pd.DataFrame) -> list[str]:
    """A warning that names the categories with fewer than `FEW` events, with their number; none if all have more."""
    fewest = cells[cells["few"]].groupby("category", sort=False)["clusters"].min()
    if fewest.empty:
        return []
    named = ", ".join(f"{category} ({number})" for category, number in fewest.items())
    return [f"Fewer than {FEW} independent events: {named}. Read these estimates as a hint where to ask more."]


def in_words(cells: pd.DataFrame) -> str:
    """The worst and the best category of one model and score, in one sentence."""
    shown = cells[(cells["read"] >= LEAST_SHARE_SCORED) & cells["lower"].notna()]
    shown = shown.sort_values("estimate", ascending=bool((cells["best"] != "lowest").all()), kind="stable")
    if len(shown) < 2 or not shown["best"].iloc[0]:
        return ""
    first, last = shown.iloc[0], shown.iloc[-1]
    worst, top = (
        f"{cell['category']} ({with_interval(cell['estimate'], cell['lower'], cell['upper'])}, "
        f"{counted(int(cell['n']), 'question')})"
        for cell in (first, last)
    )
    apart = first["lower"] > last["upper"] or first["upper"] < last["lower"]
    if apart:
        return f"Worst on {worst}, best on {top}."
    return f"No difference between categories is shown: worst on {worst}, best on {top}, and their intervals overlap."

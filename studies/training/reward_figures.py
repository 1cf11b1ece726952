"""Writes the tables of docs/reward_methods.md from the .csv files of its studies, which lie beside this file.

    make rewards

Of a study that has not run the page keeps what it says. Each table names the command whose rows it summarises.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from studies.study import interval_cell
from truthgym.analysis.tables.markdown import markdown
from truthgym.analysis.tables.saving import between
from truthgym.scorers.statistics.drift import calibrate
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.paired import paired_difference

PAGE = Path(__file__).parents[2] / "docs" / "reward_methods.md"
TABLES = Path(__file__).parent
SIGNALS = {"rewards/brier/mean": -1, "reward": -1, "entropy": 1}
"""What the monitor watches, by the suspicious direction. What a group did not log, or never varied, is left out."""
ALPHA, ONSET, WITHIN = 0.05, 0.4, 10
"""Of the monitor; where a drift is planted, as a share of the run; and within how many entries it should be found."""


def mean(values: pd.Series, digits: int = 3, share: bool = False) -> str:
    """The mean over seeds with its 95 % interval, of a share cut at 0 and 1."""
    return interval_cell(mean_estimate([float(value) for value in values]), digits, *((0, 1) if share else ()))


def change(after: pd.Series, before: pd.Series) -> str:
    """The mean difference over seeds, paired by seed, with its 95 % interval."""
    return interval_cell(paired_difference(after.to_numpy(float), before.to_numpy(float)))


def ensemble(frame: pd.DataFrame) -> str:
    """Spread and order of the members' mean, and what one member, a penalty and a ceiling change, paired by seed."""
    rows = []
    for (model, members, form), some in frame.groupby(["model", "members", "replies"], sort=False):
        by = {
            key: part.set_index("seed") for key, part in some.groupby(["penalty", some["ceiling"].notna()], sort=False)
        }
        start = by["0", False]
        rows.append([
            f"`{model}`, {members}", str(form), mean(start["spread"]), mean(start["in order"], share=True),
            change(start["in order"], by["one member", False]["in order"]),
            *(change(by[other]["best"], start["best"]) for other in (("1", False), ("0", True))),
        ])  # fmt: skip
    header = ["model, members", "replies", "spread", "pairs in order", "minus one member",
              "best of 8: penalty 1 minus 0", "best of 8: ceiling 2 minus none"]  # fmt: skip
    return markdown(header, rows)


def rubric(frame: pd.DataFrame) -> str:
    """Each proxy: how it orders replies, and what the probes do to it."""
    rows = []
    for model, some in frame.groupby("model", sort=False):
        by = {str(name): part.set_index("seed") for name, part in some.groupby("proxy", sort=False)}
        rows += [[f"`{model!s}`: {name}", *(mean(part[key], share="sd" not in key) for key in RUBRIC)]
                 for name, part in by.items()]  # fmt: skip
        gap = (change(by["rubric"][key], by["preferences"][key]) for key in RUBRIC)
        rows.append([f"`{model!s}`: rubric minus preferences", *gap])
    return markdown(["proxy", *RUBRIC.values()], rows)


RUBRIC = {
    "in order, known": "pairs in order, known",
    "in order, shifted": "pairs in order, shifted",
    "filler, share up": "share that filler raises",
    "hollow opening, in sd": "hollow opening adds (sd)",
}


def filtered(frame: pd.DataFrame) -> str:
    """Each arm, paired with the random half, where labels are wrong."""
    rows = []
    for model, some in frame.groupby("model", sort=False):
        by = {name: part.set_index("seed") for name, part in some.groupby("arm", sort=False)}
        for name, part in by.items():
            control = "" if name == "random half" else change(part["in order"], by["random half"]["in order"])
            figures = (mean(part[key], share=True) for key in ("wrong kept", "in order"))
            rows.append([f"`{model}`", str(name), f"{part['pairs'].mean():.0f}", *figures, control])
    header = ["model", "arm", "pairs", "wrong among kept", "pairs in order", "minus random half"]
    return markdown(header, rows)


def monitor(frame: pd.DataFrame) -> str:
    """Of each group of real traces: each run tested by the others, as it is and with a planted drift."""
    rows = []
    for group, some in frame.groupby("group", sort=False):
        signals = [name for name in SIGNALS if some[name].notna().all() and some[name].std() > 0]
        if {"reward", "rewards/brier/mean"} <= {*signals}:  # they are the same where nothing else is paid
            signals.remove("reward")
        rows.append([str(group), *tested(some, signals)])
    header = ["runs", "signals", "number", "entries", "runs without a drift stopped",
              f"drift of 1 sd found within {WITHIN}"]  # fmt: skip
    return markdown(header, rows)


def tested(group: pd.DataFrame, signals: Sequence[str]) -> list[str]:
    """The cells of a group's row: each run tested by the others, on these signals."""
    signs = np.array([SIGNALS[name] for name in signals])
    runs = [run[[*signals]].to_numpy(float) * signs for _, run in group.groupby("seed", sort=False)]
    cells = [", ".join(f"`{name}`" for name in signals), str(len(runs)), str(len(runs[0]))]
    stopped, found = 0, []
    for k, run in enumerate(runs):
        try:
            test = calibrate([*runs[:k], *runs[k + 1 :]], ALPHA, len(run))
        except ValueError as error:
            return [*cells, f"refused: {error}", ""]
        stopped += bool((test.statistic(run) > test.threshold).any())
        onset = round(ONSET * len(run))
        drifted = run.copy()
        drifted[onset:] += test.sd
        alarm = test.statistic(drifted) > test.threshold
        if not alarm[:onset].any():
            found.append(bool(alarm[onset : onset + WITHIN].any()))
    return [*cells, share(stopped, len(runs)), share(sum(found), len(found))]


def share(hits: int, n: int) -> str:
    """A share with its 95 % interval (Clopper and Pearson)."""
    if not n:
        return "-"
    interval = binomtest(hits, n).proportion_ci()
    return f"{hits} of {n} [{interval.low:.2f}, {interval.high:.2f}]"


WRITERS: dict[str, Callable[[pd.DataFrame], str]] = {
    "ensemble": ensemble,
    "rubric": rubric,
    "filter": filtered,
    "traces": monitor,
}


def written(page: str) -> str:
    """The page with every table whose .csv exists."""
    for name, writer in WRITERS.items():
        file = TABLES / f"{'monitor' if name == 'traces' else name}.csv"
        if file.is_file():
            page = between(page, name, writer(pd.read_csv(file, dtype={"penalty": str})), str(PAGE))
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

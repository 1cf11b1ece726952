"""The numbers that scorers give: their names, which end is better, and the one that stands for a scorer."""

from collections.abc import Iterable, Iterator
from typing import Literal

import pandas as pd

from truthgym.analysis.tables.setups import bare_name
from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics.direction import JUDGE_AT_FAULT, NO_OUTCOME, Best, direction, worst
from truthgym.tasks.domain_task import SCORER_BY_NAME

BestEnd = Literal["lowest", "highest", "zero", ""]
"""The best value of an estimate: its lowest, its highest, 0, or none that is declared."""
DECLARED: dict[str, BestEnd] = {
    "lower is better": "lowest",
    "higher is better": "highest",
    "1 is perfect": "highest",
    "0 is": "zero",
}
"""How `ScorerDeclaration.better` begins."""
BETTER = {"lowest": "lower", "highest": "higher"}
"""How a table says which end is better."""
SIGN = {"lowest": -1.0, "zero": -1.0, "highest": 1.0, "": 1.0}
"""By what a number, or the size of one that is best at 0, is multiplied so that more is better."""


def score_name(scorer: str, key: str) -> str:
    """SCORER/KEY; the scorer's name if its value is a single number."""
    return scorer if key == bare_name(scorer) else f"{scorer}/{key}"


def score_names(rows: pd.DataFrame) -> "pd.Series[str]":
    """`score_name` of each row of `answers`."""
    single = rows["key"] == rows["scorer"].map({scorer: bare_name(scorer) for scorer in rows["scorer"].unique()})
    return rows["scorer"].where(single, rows["scorer"] + "/" + rows["key"])


def ends(frame: pd.DataFrame) -> dict[tuple[str, str], Best | None]:
    """Which end of each number is better, by scorer and key; None if nothing declares it."""
    declared = frame.attrs.get("higher_is_better", {})
    return {
        (scorer, key): direction(bare_name(scorer), key, {"higher_is_better": declared.get(scorer)})
        for scorer, key in _pairs(frame)
    }


def best_end(scorer: str, higher_is_better: bool | None = None) -> BestEnd:
    if higher_is_better is not None:
        return "highest" if higher_is_better else "lowest"
    name = bare_name(scorer)
    if name not in SCORER_BY_NAME:
        return direction(name, name, {}) or ""
    return next((best for words, best in DECLARED.items() if SCORER_BY_NAME[name].better.startswith(words)), "")


def main_keys(frame: pd.DataFrame) -> dict[str, str]:
    """The key that stands for each scorer: the first that has a better end, or else the first."""
    best, read = ends(frame), set(_pairs(frame[frame["value"].notna()]))
    main = {}
    for scorer in sorted({scorer for scorer, _ in best}):
        keys = ordered_keys(scorer, (key for name, key in best if name == scorer))
        keys = [key for key in keys if (scorer, key) in read] or keys
        main[scorer] = next((key for key in keys if best[scorer, key]), keys[0])
    return main


def main_scores(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The rows of the number that stands for each scorer: one with a better end, or the only one."""
    best = ends(frame)
    scorers = [scorer for scorer, _ in best]
    main = {scorer: key for scorer, key in main_keys(frame).items() if best[scorer, key] or scorers.count(scorer) == 1}
    left_out = [
        f"`{scorer}` is left out: no number of a single answer is better or worse."
        for scorer in sorted(set(scorers) - set(main))
    ]
    rows = frame[frame["key"] == frame["scorer"].map(main)]
    return rows.assign(score=score_names(rows)), left_out


def directed_scores(frame: pd.DataFrame, key: str = "") -> "Iterator[tuple[str, Best, pd.DataFrame]]":
    """The rows of one number of each scorer, if it has a better end."""
    best, keys, none = ends(frame), main_keys(frame), True
    for scorer, part in frame.groupby("scorer", sort=True):
        main = key or keys[str(scorer)]
        if end := best.get((str(scorer), main)):
            none = False
            yield score_name(str(scorer), main), end, part[part["key"] == main]
    if none:
        names = ", ".join(sorted({score_name(bare_name(scorer), name) for scorer, name in best}))
        raise BadInput(
            f"No score with a better end{f' and the key {key!r}' * bool(key)}; the logs have {names}. Score them with: "
            "inspect score LOG --scorer truthgym/brier"
        )


def unread_as_worst(rows: pd.DataFrame, end: Best) -> pd.DataFrame:
    """The numbers of a score, with its worst in place of NaN: a proxy that is optimised prefers unreadable answers."""
    reason = rows["reason"] if "reason" in rows else rows["scorer"] * 0
    unread = rows["value"].isna()
    silent = unread & (reason.str.startswith(NO_OUTCOME, na=False) | reason.str.match(JUDGE_AT_FAULT))
    lowest = worst(bare_name(str(rows["scorer"].iloc[0])), str(rows["key"].iloc[0]), end, {})
    least = rows["value"].min() if end == "highest" else rows["value"].max()
    filled = rows["value"].fillna(least if lowest is None else lowest)
    return rows.assign(value=filled, unread=unread.astype(float))[~silent]


def run_names(frame: pd.DataFrame) -> "pd.Series[str]":
    """The run of each row of `answers`: its model and setup, and the eval's id if several evals have both."""
    evals = frame.groupby(["model", "setup"])["eval_id"].transform("nunique")
    name = frame["model"] + ", " + frame["setup"]
    return name.where(evals == 1, name + ", " + frame["eval_id"])


def ordered_keys(scorer: str, keys: Iterable[str]) -> list[str]:
    """The keys of a scorer's value: first the columns of the log viewer, in their order."""
    present = list(dict.fromkeys(keys))
    declaration = SCORER_BY_NAME.get(bare_name(scorer))
    first = [key for key in (declaration.columns if declaration else ()) if key in present]
    return list(dict.fromkeys([*first, *present]))


def orient_higher_is_better(numbers: pd.DataFrame, best: "dict[str, BestEnd]") -> pd.DataFrame:
    """Columns of numbers, each multiplied so that more is better. A column without a better end stays as it is."""
    return numbers * [SIGN[best.get(str(name), "")] for name in numbers]


def _pairs(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Scorers and keys, each pair once, in the order of the rows."""
    return list(rows[["scorer", "key"]].drop_duplicates().itertuples(index=False, name=None))

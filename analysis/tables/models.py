"""The models of a table: what the user calls them and leaves out, and how scores rank by their size or ability."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from truthgym.analysis.tables.markdown import with_interval
from truthgym.analysis.tables.score_names import SIGN
from truthgym.datasets.errors import BadInput, did_you_mean
from truthgym.scorers.statistics.judge_reliability import rank_correlation
from truthgym.scorers.statistics.multiplicity import holm

Names = str | Sequence[str]
"""Names in a list, or separated by commas."""
Pairs = str | Mapping[str, str]
"""From a part of a model's name to a text, or `PART=TEXT,PART=TEXT`."""
ACROSS = "all setups"
"""The setup of a comparison across setups."""
FEWEST_MODELS = 5
"""Models below which there is no rank correlation."""
SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", re.IGNORECASE)
"""Parameters in a model's name: 135m, 7B, 8x7b."""


def read_names(names: Names) -> list[str]:
    parts = names.split(",") if isinstance(names, str) else names
    return [part.strip() for part in parts if part.strip()]


def read_pairs(pairs: Pairs, what: str) -> dict[str, str]:
    """The pairs in a mapping or text. A text is split at the last "=", for names of models can hold some."""
    if not isinstance(pairs, str):
        return dict(pairs)
    split = {part: part.rpartition("=") for part in read_names(pairs)}
    for part, (key, _, _) in split.items():
        if not key:
            raise BadInput(f"{what}: {part!r} has no '='; give PART=TEXT, as in 'qwen=Qwen,llama=Llama'")
    return {key.strip(): text.strip() for key, _, text in split.values()}


def without(frame: pd.DataFrame, exclude: Names) -> "tuple[pd.DataFrame, list[str]]":
    """Leave out models, and setups, whose name contains one of some texts."""
    left_out: list[str] = []
    kept = frame
    for part in read_names(exclude):
        hits = {name: frame[name].str.contains(part, regex=False) for name in ("model", "setup")}
        names_with_it = [name for column, hit in hits.items() for name in sorted(frame.loc[hit, column].unique())]
        if not names_with_it:
            raise BadInput(f"exclude: no model or setup contains {part!r}; known: {', '.join(frame['model'].unique())}")
        left_out += names_with_it
        kept = kept[~(hits["model"] | hits["setup"]).loc[kept.index]]
    if kept.empty:
        raise BadInput(f"exclude: nothing is left of {len(frame)} rows; exclude less")
    return kept.reset_index(drop=True), list(dict.fromkeys(left_out))


def first_match(models: "pd.Series[str]", pairs: Mapping[str, str], default: "str | None" = None) -> "pd.Series[str]":
    """For each model the text of the first part that its name contains; the default, or else its name, if none does."""
    texts = {
        model: next((text for part, text in pairs.items() if part in model), model if default is None else default)
        for model in models.unique()
    }
    return models.map(texts)


def relabelled(frame: pd.DataFrame, labels: Pairs) -> pd.DataFrame:
    """Rows whose models have the names that the user gives them."""
    models = frame["model"].drop_duplicates()
    names = first_match(models, read_pairs(labels, "labels"))
    for name, group in models.groupby(names.to_numpy()):
        if len(group) > 1:
            raise BadInput(f"labels: {', '.join(group)} would all be {name!r}; give longer parts of their names")
    return frame.assign(model=frame["model"].map(dict(zip(models, names, strict=True))))


def size(model: str) -> float:
    """Billions of parameters, as a model's name gives them; NaN if it does not.

    >>> size("hf/smollm2:135m"), size("together/Mixtral-8x7B-Instruct"), size("openai/gpt-5.4-mini")
    (0.135, 56.0, nan)
    """
    match = SIZE.search(model.partition(" ")[0])
    if not match:
        return float("nan")
    return int(match[1] or 1) * float(match[2]) / (1 if match[3].lower() == "b" else 1000)


def abilities(table: str | Path, column: str, models: Sequence[str]) -> dict[str, float]:
    """A column of a table of abilities, such as ratings in an arena."""
    if not Path(table).is_file():
        raise BadInput(f"There is no file {table}; give a .csv with the column `model` and a column of numbers")
    rows = pd.read_csv(table)
    for name in ("model", column):
        if name not in rows:
            columns = list(map(str, rows.columns))
            raise BadInput(f"{table} has no column {name!r}; {did_you_mean(name, columns)}it has {', '.join(columns)}")
    twice = rows.loc[rows["model"].duplicated(), "model"]
    if len(twice):
        raise BadInput(f"{table} has the model {twice.iloc[0]!r} twice; keep one row of each model")
    numbers = pd.to_numeric(rows[column], errors="coerce")
    bad = rows[numbers.isna() & rows[column].notna()]
    if len(bad):
        raise BadInput(f"{table} line {bad.index[0] + 2}: {column} {bad[column].iloc[0]!r} is not a number; correct it")
    by_name = dict(zip(rows["model"].astype(str), numbers.astype(float), strict=True))

    def number(model: str) -> float:
        bare = model.partition(" ")[0]
        names = (model, bare, bare.partition("/")[2], bare.rpartition("/")[2])
        return next((by_name[name] for name in names if name in by_name), float("nan"))

    return {model: number(model) for model in models}


def positions(x: str, ability: str | Path, models: Sequence[str]) -> dict[str, float]:
    """Where each model is on the axis of a chart: its size, or its ability; NaN for `x` "name"."""
    if ability and x == "name":
        raise BadInput(
            f"ability={str(ability)!r} has no use without x; give x=COLUMN, the column to compare scores with"
        )
    if ability:
        return abilities(ability, x, models)
    if x not in ("name", "size"):
        raise BadInput(f"x={x!r} is not 'name' or 'size'; give the table that has this column, as ability=TABLE.csv")
    return {model: size(model) if x == "size" else float("nan") for model in models}


def rank_correlations(frame: pd.DataFrame, x: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Spearman's correlation of scores with `x`, in each setup and over those that all models have, by scorer."""
    if x == "name":
        return [], []
    unplaced = sorted(frame.loc[frame["x"].isna(), "model"].unique())
    notes = [f"{model} has no known {x}, and is left out of the comparison with it." for model in unplaced]
    placed = frame.dropna(subset=["x", "score"])
    sizes = placed["score"].abs().where(placed["best"] == "zero", placed["score"])
    placed = placed.assign(score=sizes * placed["best"].map(SIGN).astype(float))  # more is better
    rows: list[dict[str, Any]] = []
    for scorer, part in placed.groupby("scorer", sort=True):
        means = part.groupby(["setup", "model"])[["score", "x"]].mean()
        whole = means["score"].unstack("setup").dropna(axis="columns")
        setups = {str(setup): models.droplevel("setup") for setup, models in means.groupby("setup")}
        if len(whole.columns) > 1:
            setups[ACROSS] = means.groupby("model").mean().assign(score=whole.mean(axis=1))
        ranks: list[dict[str, Any]] = []
        for setup, models in setups.items():
            if len(models) < FEWEST_MODELS:
                few = f"{len(models)} models with a known {x} are too few; {FEWEST_MODELS} are needed."
                notes.append(f"{scorer}, {setup}: {few}")
                continue
            rho, p = rank_correlation(models["x"], models["score"]), _permuted(models["x"], models["score"])
            bounds = {"rho": rho.estimate, "lower": rho.lower, "upper": rho.upper, "p": p, "n": rho.n}
            ranks.append({"scorer": scorer, "setup": setup, **bounds})
        corrected = holm([float(rank["p"]) for rank in ranks])
        rows += [rank | {"p_adjusted": float(p)} for rank, p in zip(ranks, corrected, strict=True)]
    return rows, notes


def correlation_text(correlation: Mapping[str, Any]) -> str:
    """A rank correlation with its interval and number of models."""
    rho = with_interval(correlation["rho"], correlation["lower"], correlation["upper"], digits=2)
    return f"{rho}, {correlation['n']} models"


def _permuted(x: "pd.Series[float]", y: "pd.Series[float]") -> float:
    """Two-sided p value of Spearman's correlation by permutation, which is exact with up to seven models."""
    from scipy.stats import permutation_test, rankdata

    ranks = rankdata(y)

    def product(permuted: "np.ndarray[Any, np.dtype[np.float64]]", axis: int) -> Any:  # noqa: ANN401
        return np.sum(permuted * ranks, axis=axis)

    test = permutation_test((rankdata(x),), product, permutation_type="pairings", vectorized=True, rng=0)
    return float(test.pvalue)

"""Measures side by side: a column for each paradigm, and a row for each set-up, question or answer."""

from typing import TYPE_CHECKING

import numpy as np

from truthgym.analysis.tables.scores import ordered_keys, score_name
from truthgym.analysis.tables.setups import bare_name
from truthgym.scorers.statistics.direction import direction
from truthgym.scorers.statistics.interval import LEVEL, quantile
from truthgym.tasks.paradigms import PARADIGMS

if TYPE_CHECKING:
    import pandas as pd

UNIT = ["model", "setup", "domain", "mode", "sample_id", "event", "epoch"]
"""Columns that name an answer."""
BY_ANSWER = {"martingale": "change"}
"""The key that stands for a paradigm whose score is no mean of answers. It counts without its sign."""


def by_setup(headlines: "pd.DataFrame") -> "tuple[pd.DataFrame, pd.DataFrame]":
    """The headline of each paradigm (columns) of each model in each set-up (rows), and its standard error.

    A measure whose best value is 0, such as the martingale score, counts without its sign, as in `|martingale|`.
    Several runs are averaged. The standard error is a quarter of the width of the 95 % interval, about.

    Args:
        headlines: From `performance.load`.
    """
    normal = quantile((1 + LEVEL) / 2, 10**9)
    rows = headlines.assign(error=(headlines["upper"] - headlines["lower"]) / (2 * normal))
    zero = rows["scorer"].map(_is_best_at_zero)
    rows["score"] = rows["score"].abs().where(zero, rows["score"])
    rows["measure"] = rows["scorer"].where(~zero, "|" + rows["scorer"] + "|")
    grouped = rows.groupby(["model", "setup", "domain", "mode", "measure"])
    scores = grouped["score"].mean().unstack("measure")
    errors = grouped["error"].agg(lambda one: np.sqrt((one**2).sum()) / len(one)).unstack("measure")
    return scores, errors


def by_answer(answers: "pd.DataFrame") -> "pd.DataFrame":
    """A number of each paradigm (columns) for each answer (rows).

    Of each scorer that is the first key with a better end, or else the viewer's first column; of `martingale` it is the
    size of the change of belief.

    Args:
        answers: A row for each answer and number, as `tables.answers` returns.
    """
    import pandas as pd

    columns = {}
    for scorer, part in answers.groupby("scorer", sort=True):
        base = bare_name(str(scorer))
        keys = ordered_keys(str(scorer), part.loc[part["value"].notna(), "key"])
        chosen = BY_ANSWER.get(base) or next((key for key in keys if direction(base, key, {})), next(iter(keys), ""))
        rows = part[part["key"] == chosen]
        if rows.empty:
            continue
        values, name = rows["value"], score_name(str(scorer), chosen)
        if base in BY_ANSWER:
            values, name = values.abs(), f"|{name}|"
        columns[name] = values.groupby([rows[column] for column in [*UNIT, "eval_id"]]).mean()
    return pd.DataFrame(columns)


def _is_best_at_zero(scorer: str) -> bool:
    paradigm = PARADIGMS.get(bare_name(scorer))
    return paradigm is not None and paradigm.reference == 0

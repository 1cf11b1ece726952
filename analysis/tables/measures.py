"""Measures side by side: a column for each paradigm, and a row for each setup, question or answer."""

from typing import TYPE_CHECKING

import numpy as np

from truthgym.analysis.tables.design import CROSSED
from truthgym.analysis.tables.score_names import BestEnd, ends, main_keys, score_name
from truthgym.analysis.tables.setups import bare_name
from truthgym.scorers.statistics.interval import mean_estimate

if TYPE_CHECKING:
    import pandas as pd

UNIT = ["model", "setup", "domain", "mode", "sample_id", "event", "epoch"]
"""Columns that name an answer."""
BY_ANSWER = {"martingale": "change"}
"""The key that stands for a paradigm whose score is no mean of answers. It counts without its sign."""


def by_setup(
    headlines: "pd.DataFrame", answers: "pd.DataFrame"
) -> "tuple[pd.DataFrame, pd.DataFrame, dict[str, BestEnd]]":
    """The headline of each paradigm (columns) of each model in each setup (rows), and its error between models.

    Several runs are averaged. A measure whose best value is 0, such as the martingale score, then counts without its
    sign, as in `|martingale|`.
    """
    import pandas as pd

    rows = headlines.copy()
    zero = rows["best"] == "zero"
    rows["measure"] = rows["scorer"].where(~zero, "|" + rows["scorer"] + "|")
    means = rows.groupby(["model", "setup", "domain", "mode", "measure"])["score"].mean().unstack("measure")
    scores = means.apply(lambda one: one.abs() if str(one.name).startswith("|") else one)
    errors = pd.DataFrame(np.nan, index=scores.index, columns=scores.columns)
    parts = answers[answers["scorer"].isin(rows["scorer"][~zero])].groupby(["setup", "scorer"])
    for (setup, scorer), part in parts:
        here = scores.index.get_level_values("setup") == setup
        own = _errors(part, scores.loc[here, scorer].droplevel(["setup", "domain", "mode"]))
        errors.loc[here, scorer] = own.reindex(scores.index[here].get_level_values("model")).to_numpy()
    return scores, errors, dict(zip(rows["measure"], rows["best"], strict=True))


def _errors(answers: "pd.DataFrame", headline: "pd.Series[float]") -> "pd.Series[float]":
    """The standard error of each model's headline that is not shared by the models. Empty if it is not known."""
    import pandas as pd

    for _, part in answers.groupby("key"):
        values = part.groupby(["event", "sample_id", "model"])["value"].mean().unstack("model")
        if not np.allclose(values.mean().reindex(headline.index), headline, atol=1e-6):
            continue  # not the mean of this number
        shared = values[headline.index].dropna()
        models = len(headline)
        if models < 2 or len(shared) < CROSSED * len(values):
            break
        rest = shared.sub(shared.mean(axis=1), axis=0) * np.sqrt(models / (models - 1))
        events = [str(event) for event in rest.index.get_level_values("event")]
        return pd.Series({model: mean_estimate(one, events).stderr for model, one in rest.items()})
    return pd.Series(dtype=float)


def by_answer(answers: "pd.DataFrame") -> "tuple[pd.DataFrame, dict[str, BestEnd]]":
    """A number of each paradigm (columns) for each answer (rows), and the best value of each.

    Of each scorer that is the number that stands for it; of `martingale` it is the size of the change of belief.
    """
    import pandas as pd

    columns: dict[str, pd.Series[float]] = {}
    best: dict[str, BestEnd] = {}
    keys, known = main_keys(answers), ends(answers)
    for scorer, part in answers.groupby("scorer", sort=True):
        base = bare_name(str(scorer))
        chosen = BY_ANSWER.get(base, keys[str(scorer)])
        rows = part[part["key"] == chosen]
        if rows["value"].isna().all():
            continue
        values, name = rows["value"], score_name(str(scorer), chosen)
        if base in BY_ANSWER:
            values, name = values.abs(), f"|{name}|"
        columns[name] = values.groupby([rows[column] for column in [*UNIT, "eval_id"]]).mean()
        best[name] = known[str(scorer), chosen] or ""
    return pd.DataFrame(columns), best

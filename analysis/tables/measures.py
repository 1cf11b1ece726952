"""Measures side by side: a column for each paradigm, and a row for each set-up, question or answer."""

from typing import TYPE_CHECKING

import numpy as np

from truthgym.analysis.tables.design import CROSSED
from truthgym.analysis.tables.scores import ordered_keys, score_name
from truthgym.analysis.tables.setups import bare_name
from truthgym.scorers.statistics.direction import direction
from truthgym.scorers.statistics.interval import mean_headline
from truthgym.tasks.paradigms import PARADIGMS

if TYPE_CHECKING:
    import pandas as pd

UNIT = ["model", "setup", "domain", "mode", "sample_id", "event", "epoch"]
"""Columns that name an answer."""
BY_ANSWER = {"martingale": "change"}
"""The key that stands for a paradigm whose score is no mean of answers. It counts without its sign."""


def by_setup(headlines: "pd.DataFrame", answers: "pd.DataFrame") -> "tuple[pd.DataFrame, pd.DataFrame]":
    """The headline of each paradigm (columns) of each model in each set-up (rows), and its error between models.

    Several runs are averaged. A measure whose best value is 0, such as the martingale score, then counts without its
    sign, as in `|martingale|`.

    Args:
        headlines: From `performance.load`.
        answers: A row for each answer and number, as `tables.answers` returns.

    Returns:
        Scores and errors, of one shape. The error is the standard error of what differs between models: of the mean of
        an answer's number minus its mean over models, clustered by event. How hard a question is for all models is no
        part of it. NaN where that is not known: of a headline that is no mean of answers (a slope) or has no sign, and
        where the models of a set-up share less than nine in ten of the questions.
    """
    import pandas as pd

    rows = headlines.copy()
    zero = rows["scorer"].map(_is_best_at_zero)
    rows["measure"] = rows["scorer"].where(~zero, "|" + rows["scorer"] + "|")
    means = rows.groupby(["model", "setup", "domain", "mode", "measure"])["score"].mean().unstack("measure")
    scores = means.apply(lambda one: one.abs() if str(one.name).startswith("|") else one)
    errors = pd.DataFrame(np.nan, index=scores.index, columns=scores.columns)
    parts = answers[answers["scorer"].isin(rows["scorer"][~zero])].groupby(["setup", "scorer"])
    for (setup, scorer), part in parts:
        here = scores.index.get_level_values("setup") == setup
        found = _errors(part, scores.loc[here, scorer].droplevel(["setup", "domain", "mode"]))
        errors.loc[here, scorer] = found.reindex(scores.index[here].get_level_values("model")).to_numpy()
    return scores, errors


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
        return pd.Series({model: mean_headline(one, events).stderr for model, one in rest.items()})
    return pd.Series(dtype=float)


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

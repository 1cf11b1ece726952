"""Can a reward model's margins be trusted? Its accuracy by margin, and whether it prefers length, on pairs of answers.

python -m truthgym.analysis.reward_calibration LOGS OUT.md --proxy reward_model --gold brier

Two answers to one question make a pair; a score that knows the truth says which is better. Logs need two epochs or
more, with both scores. A proxy that scored the same log in several ways (`-S turns=last`, another folder, a rubric with
`--proxy rubric`) has a row for each: logs of another domain show it off its distribution.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truthgym.analysis.over_optimisation import by_run_and_pair, join, notes_of, signed_scores
from truthgym.analysis.tables.answers import answers
from truthgym.analysis.tables.markdown import page, picture, table, with_interval
from truthgym.analysis.tables.panels import BLUE, GRAY
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.setups import Places, bare_name
from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics.calibration import expected_calibration_error
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.preference import label_biases

QUESTION = "Can a reward model's margins be trusted?"
BINS = 10
FEWEST = 10
"""Pairs of a run below which nothing is said of it."""
KEY = ["run", "by", "gold"]
RUN = (*KEY, "pairs", "unread", "accuracy", "ece", "ece_null", "excess", "wrong", "length_bias", "spearman")
BIN = ("run", "by", "gold", "margin", "implied", "correct", "isotonic", "n")


def load(logs: Places, proxy: str = "", gold: str = "", gold_error: str | float = 0.0) -> pd.DataFrame:
    """Compare margins with what is true of the same pairs.

    The epochs of a question are paired in order, each used once: 1 with 2, 3 with 4. Pairs that tie in the gold score
    have no better answer and are left out of all but the length bias; a margin of 0 counts as half right in the
    accuracy, and claims nothing. An answer that the gold score could not read has its worst number; one that the proxy
    could not read has no margin. What a margin claims is shown of log-odds only: of `reward_model` with numbers below
    0, as the models of preferences have. `gold_error` is the share of the pairs that gold has in the wrong order, if
    that is known: margins are then compared with that much agreement.

    A row for each eval (`run`), proxy (`by`), gold score and bin of |margin| (equally many pairs): the mean `margin`;
    `implied`, the accuracy that Bradley and Terry's model gives it; `correct`, the accuracy; `isotonic`, the monotone
    fit. The same in all bins of a run: `accuracy`; `ece` and `ece_null`; `excess`, implied minus actual accuracy, above
    0 where margins are too large; `wrong`, the pairs against gold; `length_bias` (`label_biases`); `spearman`, the mean
    over questions of the rank correlation of both scores.
    """
    return margins(answers(logs, features=True), proxy, gold, gold_error)


def margins(frame: pd.DataFrame, proxy: str = "", gold: str = "", gold_error: str | float = 0.0) -> pd.DataFrame:
    """The same from a table of answers with their `characters`."""
    try:
        wrong = float(gold_error)
    except ValueError:
        wrong = np.nan
    if not 0 <= wrong < 0.5:
        raise BadInput(f"gold_error={gold_error} is no share of pairs in the wrong order; give one from 0 to below 0.5")
    proxies, golds = signed_scores(frame, proxy, gold)
    rows = [row for of_proxy in proxies for of_gold in golds for row in _rows(of_proxy, of_gold, wrong)]
    if not rows:
        raise BadInput(f"No run has {FEWEST} pairs of answers that differ in the gold score; run with more --epochs")
    result = pd.DataFrame(rows)
    result.attrs["notes"] = [*notes_of(frame), *_notes(result)]
    return result


def _rows(
    of_proxy: tuple[str, pd.DataFrame], of_gold: tuple[str, pd.DataFrame], gold_error: float
) -> "Iterator[dict[str, Any]]":
    both = join(of_gold[1], of_proxy[1])
    both = both[both["unread_proxy"] == 0]
    of_preferences = bare_name(str(of_proxy[1]["scorer"].iloc[0])) == "reward_model"
    for name, run in both.groupby("run", sort=False):
        log_odds = of_preferences and bool((run["value_proxy"] < 0).any())
        place = run.groupby("sample_id").cumcount()
        first, second = run[place % 2 == 0], run[place % 2 == 1]
        joined = first.assign(at=place // 2).merge(second.assign(at=place // 2), on=["sample_id", "at"])
        margin = (joined["value_proxy_x"] - joined["value_proxy_y"]).to_numpy(float)
        truth = (joined["value_x"] - joined["value_y"]).to_numpy(float)
        longer = np.sign((joined["characters_x"] - joined["characters_y"]).to_numpy(float))
        event = joined["event_x"].astype(str).to_numpy()
        decided = truth != 0
        if decided.sum() < FEWEST:
            continue
        whole = figures(margin[decided], truth[decided], list(event[decided]), log_odds, gold_error)
        bias = label_biases(np.sign(margin), truth, longer, np.zeros(len(longer)), list(event))
        length = bias["length_bias"].metrics("length_bias")
        names = {"run": name, "by": of_proxy[0], "gold": of_gold[0]}
        of_run = whole | length | {"unread": float(run["unread"].mean()), "spearman": _spearman(run)}
        right = _right(margin[decided], truth[decided])
        parts = _bins(np.abs(margin[decided]), right, log_odds, gold_error)
        yield from (names | part | of_run for part in parts)


def figures(
    margin: NDArray[np.float64],
    truth: NDArray[np.float64],
    event: list[str],
    log_odds: bool = True,
    gold_error: float = 0.0,
) -> dict[str, float]:
    r"""Accuracy with its interval, and the calibration error of the accuracy that margins imply if they are log-odds.

    A margin m implies agreement $e+(1-2e)/(1+\exp(-|m|))$ with a gold score that is wrong of a share e of the pairs.
    `excess` is the mean of that minus the agreement, whose interval, where fewer than ten pairs are wrong, is at least
    as wide as that of Clopper and Pearson.
    """
    right = _right(margin, truth)
    claim = (margin != 0) & log_odds
    implied = _implied(np.abs(margin[claim]), gold_error)
    names = list(np.array(event)[claim])
    error = expected_calibration_error(implied, right[claim], events=names)
    excess = mean_estimate(implied - right[claim], names)
    wrong = float((1 - right[claim]).sum())
    if excess.n and min(wrong, float((1 - implied).sum())) < FEWEST:
        agreed, mean = mean_estimate(right[claim], names, (0, 1)), float(implied.mean())
        ends = np.fmin(excess.lower, mean - agreed.upper), np.fmax(excess.upper, mean - agreed.lower)
        excess = replace(excess, lower=float(ends[0]), upper=float(ends[1]))
    accuracy = mean_estimate(right, event).metrics("accuracy") | {"ece": error.ece, "ece_null": error.null}
    return {"pairs": len(right), "wrong": wrong} | accuracy | excess.metrics("excess")


def _bins(
    size: NDArray[np.float64], right: NDArray[np.float64], log_odds: bool, gold_error: float
) -> list[dict[Any, float]]:
    """Equally many pairs in each bin of |margin|: accuracy, what log-odds imply, and the monotone fit."""
    from scipy.optimize import isotonic_regression

    order = np.argsort(size, kind="stable")
    rows = pd.DataFrame(
        {"margin": size[order], "correct": right[order], "isotonic": isotonic_regression(right[order]).x}
    )
    rows.insert(1, "implied", _implied(size[order], gold_error) if log_odds else np.nan)
    parts = np.array_split(np.arange(len(size)), min(BINS, len(size) // 5))
    return [rows.iloc[part].mean().to_dict() | {"n": len(part)} for part in parts]


def _spearman(run: pd.DataFrame) -> float:
    """Mean over questions of the rank correlation of both scores; NaN if one never varies."""
    ranks = run.assign(**{name: run.groupby("sample_id")[name].rank() for name in ("value", "value_proxy")})
    correlations = ranks.groupby("sample_id")[["value", "value_proxy"]].corr().iloc[0::2, 1]
    return float(correlations.mean())


def _right(margin: NDArray[np.float64], truth: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(margin == 0, 0.5, (np.sign(margin) == np.sign(truth)).astype(float))


def _implied(size: NDArray[np.float64], gold_error: float) -> NDArray[np.float64]:
    """Agreement with gold that margins of this size imply."""
    return gold_error + (1 - 2 * gold_error) / (1 + np.exp(-size))


def chart(frame: pd.DataFrame) -> alt.FacetChart:
    """Draw accuracy against |margin|, with the monotone fit and what the margin implies."""
    rows = frame.assign(pair=frame["gold"] + " by " + frame["by"])
    base = alt.Chart(rows).encode(x=alt.X("margin:Q", title="|margin|"))
    y = alt.Y("correct:Q", title="share of pairs in the right order").scale(domain=[0, 1])
    points = base.mark_point(filled=True, color=BLUE).encode(y=y, tooltip=["run", "gold", "n", "correct"])
    fit = base.mark_line(color=BLUE, interpolate="step").encode(y="isotonic:Q")
    implied = base.mark_line(color=GRAY, strokeDash=[4, 3]).encode(y="implied:Q")
    return by_run_and_pair(alt.LayerChart(layer=[points, fit, implied]).properties(width=320, height=180))


def report(frame: pd.DataFrame, figure: str = "") -> str:
    runs = frame.drop_duplicates(KEY)
    for name in ("accuracy", "excess", "length_bias"):
        numbers = runs[[name, f"{name}_lower", f"{name}_upper"]].to_numpy()
        runs = runs.assign(**{name: [with_interval(*ends) for ends in numbers]})
    caption = f"n = {int(runs['pairs'].sum()):,} pairs. Line: monotone fit; dashed: what the margin implies."
    drawing = picture(figure, "Accuracy against margin", caption)
    return page([drawing, table(runs, RUN), table(frame, BIN)], frame)


def _notes(frame: pd.DataFrame) -> "Iterator[str]":
    for row in frame.drop_duplicates(KEY).to_dict("records"):
        where = f"{row['run']}: {row['by']} against {row['gold']}"
        large = f"they imply that {row['excess']:.1%} more pairs are in the right order than there are"
        small = f"{-row['excess']:.1%} more pairs are in the right order than they imply"
        if row["excess_lower"] > 0:
            yield f"{where}: its margins are too large: {large}. Put a `ceiling` on the reward."
        elif row["excess_upper"] < 0 and row["wrong"]:
            worse = "A `ceiling` would make that worse; train for more steps"
            yield f"{where}: its margins are too small: {small}. {worse}."
        elif row["wrong"] == 0 and np.isfinite(row["excess"]):
            yield (
                f"{where}: no pair is in the wrong order, so nothing can be said of the size of its margins; take more "
                "pairs, or closer ones."
            )
        if row["length_bias_lower"] > 0:
            yield (
                f"{where}: it prefers the longer answer in {row['length_bias']:.0%} of the pairs beyond what the gold "
                "score explains; where gold is noisy, some of that is quality."
            )


if __name__ == "__main__":
    main(load, chart, __doc__, report)

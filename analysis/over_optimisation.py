"""How far can a proxy be optimised? Proxy and gold score of best-of-n, for every n, from one pool of answers.

python -m truthgym.analysis.over_optimisation LOGS OUT.md --proxy reward_model --gold brier

Logs with several epochs and both scores: `inspect eval TASK --epochs 32 --temperature 1`, then `inspect score` with the
proxy. Nothing is sampled for best-of-n itself.
"""

from collections.abc import Iterator
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from truthgym.analysis.tables.answers import answers
from truthgym.analysis.tables.markdown import page, picture, table
from truthgym.analysis.tables.panels import BLUE, GRAY
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import SIGN, directed_scores, run_names, unread_as_worst
from truthgym.analysis.tables.setups import Places, bare_name
from truthgym.datasets.errors import BadInput, one_of
from truthgym.scorers.statistics.best_of_n import best_of_n_mean, kl_bound
from truthgym.scorers.statistics.interval import mean_estimate

QUESTION = "How far can a proxy be optimised before the true score falls?"
PROXIES = ("reward_model", "rubric", "judge_score", "qualitative", "graded")
"""Scorers that select unless one is named: the first that the logs have."""
IDENTITY = ["eval_id", "sample_id", "epoch"]
"""Columns that identify an answer."""
FEWEST = 4
"""Answers to a question that make a pool."""
COLUMNS = ("run", "by", "gold", "n", "kl_bound", "proxy", "proxy_lower", "proxy_upper", "gold_score",
           "gold_score_lower", "gold_score_upper", "change", "change_lower", "change_upper", "unread")  # fmt: skip


def load(logs: Places, proxy: str = "", gold: str = "") -> pd.DataFrame:
    """Estimate proxy and gold score of best-of-n for n = 1, 2, 4, ... up to the size of the pools.

    An answer that the gold score could not read has its worst number, since a proxy that is optimised chooses such
    answers too; one that the proxy could not read has the proxy's lowest, so it is chosen last. `proxy` is the scorer
    that selects ("": the first of `PROXIES` that the logs have), `gold` the one that counts ("": every other one with a
    better end).

    A row for each eval, proxy, gold score and n: `kl_bound` (nats), `proxy` and `gold_score` of the answer that the
    proxy chooses, both so that more is better, and the `change` of the gold score from n = 1, paired by question, each
    with 95 % bounds by event; `unread`, the share of the chosen answers that the gold score could not read.
    """
    return best_of_n(answers(logs), proxy, gold)


def best_of_n(frame: pd.DataFrame, proxy: str = "", gold: str = "") -> pd.DataFrame:
    """The same from a table of answers."""
    proxies, golds = signed_scores(frame, proxy, gold)
    rows = [row for of_proxy in proxies for of_gold in golds for row in _rows(of_proxy, of_gold)]
    if not rows:
        raise BadInput(
            f"No question has {FEWEST} answers with a number of the proxy and of the gold score; run with --epochs 16 "
            "or more"
        )
    result = pd.DataFrame(rows)
    result.attrs["notes"] = [*notes_of(frame), *_notes(result)]
    return result


def signed_scores(
    frame: pd.DataFrame, proxy: str = "", gold: str = ""
) -> tuple[list[tuple[str, pd.DataFrame]], list[tuple[str, pd.DataFrame]]]:
    """Name and rows of the proxy, in each of its options, and of each gold score, with their `run`."""
    scorers = sorted({bare_name(str(name)) for name in frame["scorer"]})
    proxy = proxy or next((name for name in PROXIES if name in scorers), "")
    if proxy not in scorers:
        wanted = f"the proxy {proxy!r}" if proxy else f"a proxy ({', '.join(PROXIES)})"
        have = ", ".join(scorers)
        raise BadInput(f"The logs have no scores of {wanted}, but of {have}; add them with `inspect score`")
    if gold:
        one_of("gold", gold, [name for name in scorers if name != proxy])
    proxies: list[tuple[str, pd.DataFrame]] = []
    golds: list[tuple[str, pd.DataFrame]] = []
    for name, end, part in directed_scores(frame.assign(run=run_names(frame))):
        scorer = bare_name(str(part["scorer"].iloc[0]))
        if scorer == proxy or gold in ("", scorer):
            filled = unread_as_worst(part, end)
            signed = filled.assign(value=filled["value"] * SIGN[end])
            (proxies if scorer == proxy else golds).append((name if end == "highest" else f"-{name}", signed))
    if not proxies or not golds:
        which = f"gold={gold or 'any other scorer'}" if proxies else f"proxy={proxy}"
        raise BadInput(f"{which}: its scores have no better end; name another scorer")
    return proxies, golds


def join(golds: pd.DataFrame, proxies: pd.DataFrame) -> pd.DataFrame:
    """The answers that have both scores: the gold score's columns, and `value_proxy` and `unread_proxy`."""
    both = golds.merge(proxies[[*IDENTITY, "value", "unread"]], on=IDENTITY, suffixes=("", "_proxy"))
    joined: pd.DataFrame = both[np.isfinite(both["value"]) & np.isfinite(both["value_proxy"])].sort_values(IDENTITY)
    return joined


def notes_of(frame: pd.DataFrame) -> list[str]:
    """The notes of the answers. Evals of one model and setup are not taken together here: each is a run."""
    return [note for note in frame.attrs.get("notes", []) if not note.endswith("are taken together.")]


def _rows(of_proxy: tuple[str, pd.DataFrame], of_gold: tuple[str, pd.DataFrame]) -> "Iterator[dict[str, Any]]":
    for name, run in join(of_gold[1], of_proxy[1]).groupby("run", sort=False):
        pools = [pool for _, pool in run.groupby("sample_id", sort=False) if len(pool) >= FEWEST]
        if not pools:
            continue
        events = [str(pool["event"].iloc[0]) for pool in pools]
        smallest = min(map(len, pools))
        sizes = sorted({*(2**i for i in range(smallest.bit_length())), smallest})
        means = {
            kind: np.array([best_of_n_mean(pool["value_proxy"], pool[column], sizes) for pool in pools])
            for kind, column in (("proxy", "value_proxy"), ("gold_score", "value"), ("unread", "unread"))
        }
        for i, n in enumerate(sizes):
            change = means["gold_score"][:, i] - means["gold_score"][:, 0]
            yield {
                "run": name, "by": of_proxy[0], "gold": of_gold[0], "n": n, "kl_bound": float(kl_bound(n)),
                **mean_estimate(means["proxy"][:, i], events).metrics("proxy"),
                **mean_estimate(means["gold_score"][:, i], events).metrics("gold_score"),
                **mean_estimate(change, events).metrics("change"),
                "unread": float(means["unread"][:, i].mean()), "questions": len(pools), "answers": smallest,
            }  # fmt: skip


def chart(frame: pd.DataFrame) -> alt.FacetChart:
    """Draw the gold score of best-of-n against the bound on its divergence, with the proxy's on an axis of its own."""
    rows = frame.assign(pair=frame["gold"] + " by " + frame["by"])
    x = alt.X("kl_bound:Q", title="log n − (n−1)/n, nats: an upper bound on the divergence from the model")
    base = alt.Chart(rows).encode(x=x)
    gold_score = alt.Y("gold_score:Q", title="gold score (up is better)").scale(zero=False)
    gold = base.mark_line(point=True, color=BLUE).encode(y=gold_score, tooltip=["run", "n", "gold_score"])
    band = base.mark_area(opacity=0.2, color=BLUE).encode(y="gold_score_lower:Q", y2="gold_score_upper:Q")
    proxy = base.mark_line(strokeDash=[4, 3], color=GRAY)
    proxy = proxy.encode(y=alt.Y("proxy:Q", title="proxy (dashed)").scale(zero=False))
    layers = alt.LayerChart(layer=[alt.LayerChart(layer=[band, gold]), proxy]).resolve_scale(y="independent")
    facets: alt.FacetChart = by_run_and_pair(layers.properties(width=360, height=200)).resolve_scale(y="independent")
    return facets


def by_run_and_pair(panel: alt.LayerChart) -> alt.FacetChart:
    """A row for each run, and a column for each pair of proxy and gold score."""
    return panel.facet(row=alt.Row("run:N", title=None), column=alt.Column("pair:N", title=None))


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """The table as Markdown, and whether the gold score falls."""
    numbers = frame.assign(**{column: frame[column].map("{:.3g}".format) for column in COLUMNS[4:]})
    n = frame.drop_duplicates(["run", "by", "gold"])["questions"].min()
    caption = f"n = {n:,} questions or more in each run. Bands: 95 %, clustered by event."
    drawing = picture(figure, "Proxy and gold score of best-of-n", caption)
    return page([drawing, f"{' '.join(_verdicts(frame))}\n", table(numbers, COLUMNS)], frame)


def _verdicts(frame: pd.DataFrame) -> "Iterator[str]":
    for (run, by, gold), rows in frame.groupby(["run", "by", "gold"], sort=False):
        last, peak = rows.iloc[-1], rows.iloc[int(rows["gold_score"].to_numpy().argmax())]
        if last["change_upper"] < 0:
            verdict = f"falls: by {-last['change']:.3g} at n = {last['n']} (95 % bounds exclude 0)"
        elif last["change_lower"] > 0:
            verdict = f"still is {last['change']:.3g} above that of one answer at n = {last['n']}"
        else:
            verdict = f"does not differ from that of one answer at n = {last['n']}, by its 95 % bounds"
        yield f"{run}: selected by {by}, {gold} {verdict}; its highest estimate is at n = {peak['n']}."
        if last["unread"] > rows.iloc[0]["unread"]:
            yield (
                f"Of the answers chosen at n = {last['n']} {last['unread']:.0%} could not be read, of all "
                f"{rows.iloc[0]['unread']:.0%}."
            )


def _notes(frame: pd.DataFrame) -> "Iterator[str]":
    yield (
        "log n - (n-1)/n is an upper bound on the divergence of best-of-n from the model, and exact only if no two "
        "answers tie. It is not measured."
    )
    if (few := int(frame["answers"].min())) < 16:
        yield (
            f"The smallest pool has {few} answers to a question: over-optimisation beyond n = {few} cannot be seen. "
            "Run with more --epochs."
        )


if __name__ == "__main__":
    main(load, chart, __doc__, report)

"""Which words does a predictor expect, once it has seen what a model said?

    python -m truthgym.analysis.tokens logs/ tokens.html

Reads logs of `truthgym/mutual_prediction` (with `form=text`, for more than one word an answer) and
`truthgym/world_in_the_loop`. Each token is shaded by its contribution: its log-probability with the model's text minus
that with the control (the permutation null, or the strongest placebo). The box below the chart searches tokens.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from truthgym.analysis.tables.markdown import page, picture, table
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.setups import Places, Run, runs
from truthgym.datasets.errors import BadInput

QUESTION = "Which words does a predictor expect, once it has seen what a model said?"
MUTUAL, WORLD = "mutual_predictability", "world_uplift"
KEYS = ["eval_id", "scorer", "sample_id", "epoch", "trial"]
"""Columns that identify a text."""
LINE = 90
"""Characters in a line of the chart."""
MOST_TEXTS = 40
"""Texts in the chart: those with the largest contributions."""
MOST_TOKENS = 15
"""Rows in each of the report's tables."""
MIN_SEEN = 3
"""Occurrences that a token needs for these."""


def load(logs: Places) -> pd.DataFrame:
    """One row for each token of each predicted text: log-probabilities `given` and `control`, and their difference."""
    all_runs = runs(logs)
    rows = [row for _, own in all_runs.read(lambda run: list(_rows_of(run))) for row in own]
    if not rows:
        raise BadInput(
            f"{all_runs.place}: no log has log-probabilities of tokens; make one with truthgym/mutual_prediction or "
            "truthgym/world_in_the_loop"
        )
    frame = pd.DataFrame(rows)
    frame["contribution"] = frame["given"] - frame["control"]
    texts, words = frame.groupby(KEYS).ngroups, len(frame)
    frame.attrs["notes"] = [
        *all_runs.omissions,
        f"{words:,} tokens of {texts:,} texts. A contribution is evidence of what the predictor reacts to, not of what "
        "is true; contributions of the tokens of a text add up to its uplift above the control (for a question's "
        "outcome: before both outcomes are compared).",
    ]
    if words == texts:
        frame.attrs["notes"].append("Every text has one token: answers in short form. Use -T form=text for more.")
    return frame


def _rows_of(run: Run) -> Iterator[dict[str, Any]]:
    """The tokens of all scores of a run."""
    with run.log.reader as log:
        for _, outcome in log.outcomes():
            for scorer in (MUTUAL, WORLD):
                score = (outcome.scores or {}).get(scorer)
                facts: dict[str, Any] = {name: run.columns[name] for name in ("log", "eval_id", "model")}
                facts |= {"scorer": scorer, "sample_id": str(outcome.id), "epoch": outcome.epoch}
                yield from (facts | row for row in _rows(score.details if score else {}))


def _rows(details: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The tokens of one score, with both log-probabilities. None of a score that was copied from another log."""
    if details.get("results"):
        return
    for number, trial in enumerate(details.get("trials") or [], start=1):
        arms = trial.get("tokens") or {}
        facts = {"source": details.get("source"), "trial": number}
        facts |= {"model": trial["predictor"]} if trial.get("predictor") else {}
        yield from ({**facts, **row} for row in _aligned(arms.get("context"), arms.get("null")))
    arms = details.get("forecasts") or {}
    context, control = ((arms.get(name) or {}).get("tokens") for name in ("with", details.get("control")))
    facts = {"source": details.get("model"), "trial": 1}
    yield from ({**facts, **row} for row in _aligned(context, control))


def _aligned(context: Any, control: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401
    if context and control and len(context) == len(control):
        for position, ((token, chance), (_, without)) in enumerate(zip(context, control, strict=True)):
            yield {"position": position, "token": token, "given": chance, "control": without}


def chart(frame: pd.DataFrame) -> alt.LayerChart:
    """The texts with the largest contributions, line by line, each token shaded. Searchable in .html."""
    if frame.empty:
        raise BadInput("There is no token to draw; load logs of truthgym/mutual_prediction")
    size = frame["contribution"].abs().groupby([frame[key] for key in KEYS]).sum()
    placed = _lines(frame.set_index(KEYS).loc[size.nlargest(MOST_TEXTS).index].reset_index())
    most = max(float(placed["contribution"].abs().max()), 1e-9)
    search = alt.param(
        name="search", value="", bind=alt.binding(input="search", placeholder="a token", name="Search: ")
    )
    hit = "indexof(lower(datum.token), lower(search)) >= 0"
    x = alt.X("begin:Q", axis=None, scale=alt.Scale(domain=[0, LINE]))
    opacity = alt.condition(hit, alt.value(1), alt.value(0.15))
    hints = ["token", "contribution", "given", "control", "model", "source", "sample_id", "trial"]
    base = alt.Chart(placed).encode(x=x, y=alt.Y("line:O", axis=None), opacity=opacity, tooltip=hints)
    title = "Contribution (nats): orange makes the text likelier, blue less likely"
    shade = alt.Color("contribution:Q", title=title, legend=alt.Legend(orient="top", titleLimit=600))
    shade = shade.scale(scheme="blueorange", domain=[-most, most], domainMid=0)
    words = base.mark_text(align="left", font="monospace", fontSize=11).encode(text="token:N")
    layers: alt.LayerChart = (base.mark_rect().encode(x2="end:Q", color=shade) + words).add_params(search)
    # A letter has its width, also on a narrow screen.
    return layers.properties(width=LINE * 7, height=alt.Step(18), usermeta={"fixedWidth": True})


def _lines(frame: pd.DataFrame) -> pd.DataFrame:
    """Place each token: its line, and where in it it begins and ends, in characters. Each text begins a line."""
    frame = frame.copy()
    line, column, text = -1, 0, None
    places = []
    for row in frame.itertuples():
        token = str(row.token).replace("\n", "\u23ce")
        identity = tuple(getattr(row, key) for key in KEYS)
        if identity != text or column + len(token) > LINE:
            line, column, text = line + 1, 0, identity
        places.append((line, column, column + len(token), token))
        column += len(token)
    frame["line"], frame["begin"], frame["end"], frame["token"] = zip(*places, strict=True)
    return frame


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """The tokens that gain and lose most, as Markdown."""
    words = frame.assign(token=frame["token"].str.strip()).query("token != ''").groupby("token")["contribution"]
    often = words.agg(n="count", mean="mean", total="sum").query(f"n >= {MIN_SEEN}").reset_index()
    sums = frame.groupby(["model", "source", *KEYS], dropna=False)["contribution"].sum()
    means = sums.groupby(["scorer", "model", "source"], dropna=False).agg(["count", "mean"]).reset_index()
    means.columns = ["scorer", "predictor", "evaluated", "texts", "nats"]
    means["nats"] = means["nats"].astype(float)
    caption = f"n = {len(sums)} texts, of which the chart shows those that change most."
    parts = [picture(figure, "Tokens", caption)]
    parts.append(f"Mean contribution of a text, in nats:\n\n{table(means, list(means.columns))}")
    for title, sign in (("gain", 1), ("lose", -1)):
        rows = often[np.sign(often["mean"]) == sign].sort_values("total", ascending=sign < 0)
        if len(rows):
            top = table(rows.head(MOST_TOKENS), ("token", "n", "mean", "total"))
            parts.append(f"Tokens that {title} most, of those with {MIN_SEEN} or more occurrences:\n\n{top}")
    return page(parts, frame)


if __name__ == "__main__":
    main(load, chart, __doc__, report)

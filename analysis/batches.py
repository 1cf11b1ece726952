"""What changed between two batches of logs? Paired differences of each model in each setup that both batches have.

truthgym report logs/before logs/after --out report
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt

from truthgym.analysis.tables.answers import UNREAD, answers, epochs_by_question, read_enough
from truthgym.analysis.tables.markdown import by_reason, intervals, notes, table
from truthgym.analysis.tables.score_names import BETTER, ends, main_scores
from truthgym.datasets.errors import BadInput
from truthgym.scorers.declaration import FEW_QUESTIONS
from truthgym.scorers.statistics.paired import compare_means

if TYPE_CHECKING:
    import pandas as pd

QUESTION = "What changed between the batches?"
SETUP = ["score", "setup", "model"]
LABELS = {"before": "first batch", "after": "this batch", "interval": "95 % interval", "mde": "smallest detectable"}


def load(batches: Sequence[str | Path]) -> "pd.DataFrame":
    """Compare each batch with the first: the same model in the same setup, question by question.

    Epochs are averaged first. Questions are the same if their id and target are. A setup of a batch in which only one
    model answered in both is compared even if the models differ, as before and after training.

    Args:
        batches: Two or more folders of logs.

    Returns:
        A row for each batch but the first, main number of a scorer, setup and model: `batch`, `score` (SCORER/KEY),
        `better` ("lower" or "higher", "" if the scorer does not say), `setup`, `model` and `first_model`, `before` and
        `after` (means on the shared questions), `difference` (after minus before) with `lower` and `upper` (95 %,
        clustered by event) and `mde`, the smallest difference that is detected with probability 0.8; `n` questions;
        `read`, whether enough answers of both could be read (if not, there is no interval).

    Raises:
        BadInput: Fewer than two batches; they share no model, setup and question.
    """
    import pandas as pd

    if len(batches) < 2:
        raise BadInput(
            f"batches: {len(batches)} folder of logs; give two or more, as in: truthgym report A B --out DIR"
        )
    first, *others = (main_scores(answers(batch, among=batches))[0] for batch in batches)
    rows = [
        row | {"batch": str(name)}
        for name, other in zip(batches[1:], others, strict=True)
        for row in _rows(first, other)
    ]
    if not rows:
        raise BadInput(
            f"{', '.join(map(str, batches[1:]))} has no model, setup and question of {batches[0]}. A batch is a "
            "folder of logs, such as those before and after a change: run the same tasks with the same models in all. "
            "To compare models, this page does not apply: see the others, or truthgym compare"
        )
    frame = pd.DataFrame(rows).sort_values(["score", "setup", "batch", "model"], ignore_index=True)
    frame.attrs["notes"] = list(_notes(frame, [first, *others], batches))
    return frame


def chart(frame: "pd.DataFrame") -> alt.FacetChart:
    """Draw each difference with its interval, a panel for each score. The dashed line is no change.

    Differences on fewer than thirty questions are not drawn.

    Raises:
        BadInput: No difference can be drawn.
    """
    rows = frame[frame["n"] >= FEW_QUESTIONS].dropna(subset=["lower", "upper"])
    if rows.empty:
        raise BadInput(
            f"None of the {len(frame)} differences has an interval on {FEW_QUESTIONS} questions; ask more questions"
        )
    rows = rows.assign(
        name=rows["model"] + ", " + rows["setup"],
        panel=[
            f"{score} ({better or 'no'} is better)" for score, better in zip(rows["score"], rows["better"], strict=True)
        ],
    )
    base = alt.Chart().encode(
        y=alt.Y("name:N", title=None, sort=alt.EncodingSortField("difference"), axis=alt.Axis(labelLimit=420)),
        yOffset="batch:N",
    )
    color = alt.Color("batch:N", title=None, legend=alt.Legend(orient="top"), scale=alt.Scale(scheme="tableau10"))
    zero = alt.Chart().mark_rule(strokeDash=[4, 4], color="gray").encode(x=alt.datum(0))
    interval = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("lower:Q", title="difference from the first batch"), x2="upper:Q", color=color
    )
    shown = ["batch", "model", "first_model", "setup", "before", "after", "difference", "lower", "upper", "mde", "n"]
    point = base.mark_point(size=60, filled=True, opacity=1).encode(x="difference:Q", color=color, tooltip=shown)
    layered = alt.layer(zero, interval, point, data=rows).properties(width=420, height={"step": 16})
    facets = layered.facet(row=alt.Row("panel:N", title=None, header=alt.Header(labelOrient="top")))
    free: alt.FacetChart = facets.resolve_scale(x="independent", y="independent")
    return free


def report(frame: "pd.DataFrame", figure: str = "") -> str:
    """The differences as Markdown.

    Args:
        frame: From `load`.
        figure: File name of its chart. "": without one.
    """
    models = zip(frame["model"], frame["first_model"], strict=True)
    named = [model if model == first else f"{model} (first batch: {first})" for model, first in models]
    shown = frame.assign(interval=intervals(frame), model=named)
    columns = ("batch", "score", "better", "setup", "model", "before", "after", "difference", "interval", "mde", "n")
    fewest, most = frame["n"].min(), frame["n"].max()
    picture = f"![Differences between batches]({figure})\n\n*n = {fewest} to {most} shared questions.*\n\n"
    return picture * bool(figure) + table(shown, columns, LABELS) + notes(frame)


def _rows(first: "pd.DataFrame", other: "pd.DataFrame") -> Iterator[dict[str, Any]]:
    before = dict(list(first.groupby(["score", "setup"])))
    for (score, setup), rows in other.groupby(["score", "setup"]):
        if (score, setup) not in before:
            continue
        old, new = (dict(list(some.groupby("model"))) for some in (before[score, setup], rows))
        pairs = [(model, model) for model in new if model in old]
        if not pairs and len(old) == len(new) == 1:
            pairs = [(next(iter(old)), next(iter(new)))]
        for earlier, model in pairs:
            facts = {"score": score, "setup": setup, "model": model, "first_model": earlier}
            yield from _compared(old[earlier], new[model], facts)


def _compared(before: "pd.DataFrame", after: "pd.DataFrame", facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    targets = dict(zip(before["sample_id"], before["target"], strict=True))
    same = after[after["sample_id"].map(targets) == after["target"]]
    if same.empty:
        return
    events = dict(zip(before["sample_id"], before["event"], strict=True))
    comparison = compare_means(epochs_by_question(same), epochs_by_question(before), events)
    scorer, key = before[["scorer", "key"]].iloc[0]
    difference = comparison.difference
    read = all(read_enough(part, SETUP).all() for part in (before, after))
    bounds = {"lower": difference.lower, "upper": difference.upper, "mde": difference.mde}
    yield {
        **facts,
        "better": BETTER.get(ends(before)[scorer, key] or "", ""),
        "before": comparison.before,
        "after": comparison.after,
        "difference": difference.estimate,
        **(bounds if read else dict.fromkeys(bounds, float("nan"))),
        "n": difference.n,
        "read": read,
    }


def _notes(frame: "pd.DataFrame", tables: Sequence["pd.DataFrame"], names: Sequence[str | Path]) -> Iterator[str]:
    known = [set(map(tuple, one[SETUP].drop_duplicates().to_numpy())) for one in tables]
    compared = set(map(tuple, frame[["batch", *SETUP]].to_numpy()))
    for name, own in zip(names[1:], known[1:], strict=True):
        missing = len([key for key in own if (str(name), *key) not in compared])
        if missing:
            yield f"{missing} scores of {name} are not in {names[0]}, or of other questions, and are not compared."
    unread = frame[~frame["read"]]
    yield from by_reason({UNREAD: (unread["score"] + " of " + unread["model"]).tolist()}, "No interval")
    few = int((frame["n"] < FEW_QUESTIONS).sum())
    if few:
        yield (
            f"{few} of {len(frame)} differences have fewer than {FEW_QUESTIONS} questions: conclude nothing. They are "
            "not drawn."
        )
    if len(frame) > 1:
        chance = 1 - 0.95 ** len(frame)
        yield (
            f"The {len(frame)} intervals are of 95 % each, not corrected for their number: if nothing had changed, at "
            f"least one would leave out 0 with a probability of up to {chance:.0%}."
        )

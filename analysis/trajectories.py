"""Which trajectories are best, and which repeat one another? All trajectories with a score, sorted and filtered.

python -m truthgym.analysis.trajectories LOGS chosen.csv --filter "split == 'train' and value < 0.1" --duplicates drop
truthgym convert LOGS --to sft --trajectories chosen.csv --out data/sft
"""

import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Literal

import altair as alt
import numpy as np

from truthgym.analysis.tables.answers import answers, texts
from truthgym.analysis.tables.embeddings import Embed, embedder_named, near_duplicates
from truthgym.analysis.tables.markdown import table
from truthgym.analysis.tables.questions import notes
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import ends, main_scores, score_names
from truthgym.analysis.tables.setups import Places
from truthgym.datasets.errors import BadInput, one_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

QUESTION = "Which trajectories are best, and which repeat one another?"
KEY = ["eval_id", "sample_id", "epoch"]
"""The columns that identify a trajectory, also for `truthgym convert --trajectories`."""
BATCH = 512
"""About as many texts are embedded at once."""
MOST_COMPARED = 20_000
"""Trajectories that `among="all"` compares: their embeddings and similarities are in memory at once."""
SHOWN = 10
"""The best trajectories that the report lists."""
BARS = 20
"""Of the histogram."""
UNIQUE, REPEAT = "unique", "near-duplicate"
LABELS = {"n": "trajectories", "repeats": "near-duplicates", "value": "score", "duplicate_of": "repeats rank"}


def load(
    logs: Places,
    score: str = "",
    best: Literal["", "lowest", "highest"] = "",
    filter: str = "",
    duplicates: Literal["mark", "drop"] = "mark",
    embedder: str = "none",
    embedder_url: str = "",
    threshold: float | str = 0.95,
    among: Literal["question", "all"] = "question",
) -> "pd.DataFrame":
    """List all trajectories by score, best first, and mark those that nearly repeat a better one.

    What similarity makes a near-duplicate depends on the embedder: answers to one question that say different things
    differ by n-grams, and may be close by a model. Look at the column `similarity` before you drop any.

    Args:
        logs: Logs and folders of logs.
        score: KEY or SCORER/KEY of the number to sort by. "": that of `brier`, or the only score that has a better end.
        best: Which end is better, for a score that does not declare it.
        filter: A condition on the columns, as `pandas.DataFrame.query` takes it: "split == 'train' and value < 0.1".
        duplicates: Whether near-duplicates are marked or left out.
        embedder: What compares texts: "none", or a model as in `embedder_named`.
        embedder_url: An OpenAI-compatible endpoint that serves the model `embedder`. "": it runs here.
        threshold: The cosine similarity, in (0, 1], from which on a trajectory repeats a better one.
        among: Compare the trajectories of a question with each other, or all of them.

    Returns:
        The columns of `answers` with features, and a row for each trajectory with a number, sorted: `score`
        (SCORER/KEY), `value`, `best`; `rank` from 1; `similarity` with the most similar better trajectory that is kept,
        and `duplicate_of`, the rank of that one if the similarity reaches the threshold, or else missing.

        As .csv this is the file that `truthgym convert --trajectories` takes.

    Raises:
        BadInput: No log of a finished eval; an unknown or ambiguous score; a filter that cannot be used or leaves
            nothing; an embedder that cannot be used.
    """
    one_of("duplicates", duplicates, ["mark", "drop"])
    one_of("among", among, ["question", "all"])
    limit = _share(threshold)
    embed = embedder_named(embedder, embedder_url)
    frame, end = _scored(answers(logs, features=True), score, best)
    unread = int(frame["value"].isna().sum())
    frame = _filtered(frame[frame["value"].notna()], filter)
    order = ["value", *KEY]
    if among == "all" and len(frame) > MOST_COMPARED:
        raise BadInput(
            f"among='all' compares {len(frame):,} trajectories with each other; {MOST_COMPARED:,} are the most: add a "
            "filter, or compare among='question'"
        )
    frame = frame.sort_values(order, ascending=[end == "lowest", True, True, True], ignore_index=True)
    frame["best"] = end
    frame["rank"] = np.arange(1, len(frame) + 1)
    _mark(frame, logs, embed, limit, among)
    repeats = int(frame["duplicate_of"].notna().sum())
    if duplicates == "drop":
        frame = frame[frame["duplicate_of"].isna()].reset_index(drop=True)
    test = int((frame["split"] == "test").sum())
    frame.attrs["notes"] = [
        *[f"{unread:,} answers without a number are not listed."] * bool(unread),
        f"{repeats:,} trajectories repeat a better one (similarity of at least {limit:g} by "
        f"{'character n-grams' if embedder == 'none' else embedder}){', and are left out' * (duplicates == 'drop')}.",
        *[f"{test:,} trajectories are of the test split, which `truthgym convert` leaves out."] * bool(test),
    ]
    return frame


def chart(frame: "pd.DataFrame") -> alt.ConcatChart:
    """Draw the distribution of the scores, a panel for each model and setup, best mean first.

    Raises:
        BadInput: There is nothing to draw.
    """
    if frame.empty:
        raise BadInput("There is no trajectory to draw; use another filter")
    low = frame["best"].iloc[0] == "lowest"
    panels = sorted(frame.groupby(["setup", "model"]), key=lambda part: part[1]["value"].mean(), reverse=not low)
    edges = np.histogram_bin_edges(frame["value"], BARS)
    x = alt.X(
        "left:Q",
        bin="binned",
        title=f"{frame['score'].iloc[0]} ({'lower' if low else 'higher'} is better)",
    )
    kinds = alt.Scale(domain=[UNIQUE, REPEAT], range=["#0072B2", "#E69F00"])
    color = alt.Color("kind:N", title=None, scale=kinds, legend=alt.Legend(orient="top"))
    bars = [
        alt.Chart(_binned(rows, edges))
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(x=x, x2="right:Q", y="trajectories:Q", color=color, tooltip=["kind", "left", "right", "trajectories"])
        .properties(width=250, height=140, title=alt.Title(str(model), subtitle=f"{setup}: {len(rows):,}", limit=280))
        for (setup, model), rows in panels
    ]
    charts: alt.ConcatChart = alt.concat(*bars, columns=3)
    return charts


def _binned(rows: "pd.DataFrame", edges: "NDArray[np.float64]") -> "pd.DataFrame":
    """The number of trajectories in each bin, by kind."""
    import pandas as pd

    parts = []
    for kind, repeats in ((UNIQUE, False), (REPEAT, True)):
        counts, _ = np.histogram(rows.loc[rows["duplicate_of"].notna() == repeats, "value"], edges)
        parts.append(pd.DataFrame({"left": edges[:-1], "right": edges[1:], "trajectories": counts, "kind": kind}))
    return pd.concat(parts).query("trajectories > 0")


def report(frame: "pd.DataFrame", figure: str = "") -> str:
    """How many trajectories each model has, and the best of all, as Markdown tables.

    Args:
        frame: From `load`.
        figure: File name of its chart. "": without one.
    """
    groups = frame.groupby(["setup", "model"], sort=True)
    counts = groups.agg(
        n=("value", "size"),
        repeats=("duplicate_of", "count"),
        mean=("value", "mean"),
        characters=("characters", "mean"),
    )
    top = frame.head(SHOWN)
    top = top.assign(duplicate_of=["" if np.isnan(rank) else f"{rank:.0f}" for rank in top["duplicate_of"]])
    models = table(counts.reset_index(), ("setup", "model", "n", "repeats", "mean", "characters"), LABELS)
    columns = ("rank", "value", "model", "setup", "sample_id", "epoch", "characters", "duplicate_of")
    score, end = frame[["score", "best"]].iloc[0]
    parts = [
        f"### By model\n\n{models}",
        f"### The best by `{score}` ({end} is best)\n\n{table(top, columns, LABELS)}",
    ]
    if figure:
        parts.append(f"![Scores of trajectories]({figure})\n\n*{len(frame):,} trajectories by their score.*\n")
    return "\n".join([*parts, notes(frame)])


def _scored(frame: "pd.DataFrame", score: str, best: str) -> tuple["pd.DataFrame", str]:
    """The rows of the requested score, and its better end."""
    named = frame.assign(score=score_names(frame))
    known = sorted(named["score"].unique())
    if score:
        chosen = [name for name in known if score in (name, name.rpartition("/")[2])]
    else:
        main_names = sorted(main_scores(frame)[0]["score"].unique())
        preferred = [
            [name for name in main_names if name.endswith(end)] for end in ("brier/brier_score", "/brier_score")
        ]
        chosen = next(filter(None, preferred), main_names)
    if len(chosen) != 1:
        problem = f"may be {', '.join(chosen)}" if chosen else f"is not in the logs, which have {', '.join(known)}"
        raise BadInput(f"score={score!r} {problem}; give one of them as SCORER/KEY")
    rows = named[named["score"] == chosen[0]]
    scorer, key = rows[["scorer", "key"]].iloc[0]
    end = best or ends(frame)[scorer, key]
    if end is None:
        raise BadInput(f"score={chosen[0]!r} does not say which end is better; add best=lowest or best=highest")
    one_of("best", end, ["lowest", "highest"])
    return rows, end


def _filtered(frame: "pd.DataFrame", condition: str) -> "pd.DataFrame":
    try:
        kept = frame.query(condition) if condition else frame
    except Exception as error:  # whatever pandas raises for a text that is no condition
        raise BadInput(
            f"filter={condition!r} cannot be used ({type(error).__name__}: {error}); write a condition on "
            f"{', '.join(frame.columns)}"
        ) from None
    if kept.empty:
        raise BadInput(f"filter={condition!r} leaves none of {len(frame)} trajectories; use another one")
    return kept


def _mark(frame: "pd.DataFrame", logs: Places, embed: Embed, threshold: float, among: str) -> None:
    """Add `similarity` and `duplicate_of`."""
    keys = list(frame[KEY].itertuples(index=False, name=None))
    nearest_rank, similarity = np.full(len(frame), np.nan), np.full(len(frame), np.nan)
    with tempfile.TemporaryFile() as file:
        spool = Spool(file, texts(logs, set(keys)))
        for places in _batches(frame, among):
            vectors = embed([spool.text(keys[place]) for group in places for place in group])
            start = 0
            for group in places:
                nearest, cosine = near_duplicates(vectors[start : start + len(group)], threshold)
                start += len(group)
                similarity[group] = cosine
                nearest_rank[group] = [frame["rank"].iloc[group[i]] if i >= 0 else np.nan for i in nearest]
    frame["similarity"], frame["duplicate_of"] = similarity, nearest_rank


class Spool:
    """Texts in a file, as all of them may not fit into memory."""

    def __init__(self, file: IO[bytes], texts: Iterable[tuple[tuple[str, str, int], str]]) -> None:
        self._file = file
        self._places: dict[tuple[str, str, int], tuple[int, int]] = {}
        for key, text in texts:
            content = text.encode("utf-8", "surrogatepass")
            self._places[key] = (self._file.tell(), len(content))
            self._file.write(content)

    def text(self, key: tuple[str, str, int]) -> str:
        start, size = self._places[key]
        self._file.seek(start)
        return self._file.read(size).decode("utf-8", "surrogatepass")


def _batches(frame: "pd.DataFrame", among: str) -> Iterator[list[list[int]]]:
    """Rows that are compared with each other, in batches that are embedded together."""
    if among == "all":
        yield [list(range(len(frame)))]
        return
    batch: list[list[int]] = []
    for places in frame.groupby(["domain", "task", "event", "sample_id"], sort=False).indices.values():
        batch.append([int(place) for place in places])
        if sum(map(len, batch)) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _share(threshold: float | str) -> float:
    try:
        number = float(threshold)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise BadInput(f"threshold={threshold!r} is not a similarity above 0 and up to 1; give one such as 0.95")
    return number


if __name__ == "__main__":
    main(load, chart, __doc__, report)

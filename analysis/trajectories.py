"""Which trajectories are best, and which repeat one another? All trajectories with a score, sorted and filtered.

python -m truthgym.analysis.trajectories LOGS chosen.csv --filter "split == 'train' and value < 0.1" --duplicates drop
truthgym convert LOGS --to sft --trajectories chosen.csv --out data/sft
"""

import os
import shelve
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truthgym.analysis.tables.answers import answers, texts
from truthgym.analysis.tables.markdown import page, picture, section, table
from truthgym.analysis.tables.panels import BLUE, grid, scale
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import ends, main_scores, score_names
from truthgym.analysis.tables.setups import Places
from truthgym.datasets.errors import BadInput, one_of, positive

QUESTION = "Which trajectories are best, and which repeat one another?"
KEY = ["eval_id", "sample_id", "epoch"]
"""The columns that identify a trajectory, also for `truthgym convert --trajectories`."""
Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""From texts to vectors of length 1: texts x dimensions."""
NGRAM = 5
"""Bytes of a character n-gram."""
DIMENSIONS = 2048
"""Of the hashed n-grams."""
MULTIPLIER = 0x9E3779B97F4A7C15
"""Of the rolling hash: 2^64 divided by the golden ratio (Knuth 1998, 6.4)."""
REQUEST = 64
"""Texts in a request to an endpoint."""
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
) -> pd.DataFrame:
    """List all trajectories by score, best first, and mark those that nearly repeat a better one.

    What similarity makes a near-duplicate depends on the embedder: answers to one question that say different things
    differ by n-grams, and may be close by a model. Look at the column `similarity` before you drop any.

    Args:
        logs: Logs and folders of logs.
        score: KEY or SCORER/KEY of the number to sort by. "": that of `brier`, or the only score that has a better
            end.
        best: Which end is better, for a score that does not declare it.
        filter: A condition on the columns, as `pandas.DataFrame.query` takes it: "split == 'train' and value <
            0.1".
        duplicates: Whether near-duplicates are marked or left out.
        embedder: What compares texts: "none" (n-grams), or a model of sentence-transformers.
        embedder_url: An OpenAI-compatible endpoint that serves the model `embedder`. "": it runs here.
        threshold: The cosine similarity, in (0, 1], from which on a trajectory repeats a better one.
        among: Compare the trajectories of a question with each other, or all of them.

    The columns of `answers` with features, `rank` from 1, `similarity` with the most similar better trajectory that is
    kept, and `duplicate_of`, its rank if the similarity reaches the threshold. As .csv this is the file that `truthgym
    convert --trajectories` takes.
    """
    one_of("duplicates", duplicates, ["mark", "drop"])
    one_of("among", among, ["question", "all"])
    limit = positive("threshold", threshold, "a similarity above 0 and up to 1, such as 0.95")
    if limit > 1:
        raise BadInput(f"threshold={threshold!r} is not a similarity above 0 and up to 1; give one such as 0.95")
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


def chart(frame: pd.DataFrame) -> alt.ConcatChart:
    """Draw the distribution of the scores, a panel for each model and setup, best mean first."""
    low = frame["best"].iloc[0] == "lowest"
    panels = sorted(frame.groupby(["setup", "model"]), key=lambda part: part[1]["value"].mean(), reverse=not low)
    edges = np.histogram_bin_edges(frame["value"], BARS)
    title = f"{frame['score'].iloc[0]} ({'lower' if low else 'higher'} is better)"
    x = alt.X("left:Q", bin="binned", title=title)
    kinds = scale([UNIQUE, REPEAT], (BLUE, "#E69F00"))
    color = alt.Color("kind:N", title=None, scale=kinds, legend=alt.Legend(orient="top"))
    bars = [
        alt.Chart(_binned(rows, edges))
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(x=x, x2="right:Q", y="trajectories:Q", color=color, tooltip=["kind", "left", "right", "trajectories"])
        .properties(width=250, height=140, title=alt.Title(str(model), subtitle=f"{setup}: {len(rows):,}", limit=280))
        for (setup, model), rows in panels
    ]
    return grid(bars, 3, "There is no trajectory to draw; use another filter")


def _binned(rows: pd.DataFrame, edges: NDArray[np.float64]) -> pd.DataFrame:
    """The number of trajectories in each bin, by kind."""
    parts = []
    for kind, repeats in ((UNIQUE, False), (REPEAT, True)):
        counts, _ = np.histogram(rows.loc[rows["duplicate_of"].notna() == repeats, "value"], edges)
        parts.append(pd.DataFrame({"left": edges[:-1], "right": edges[1:], "trajectories": counts, "kind": kind}))
    return pd.concat(parts).query("trajectories > 0")


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """How many trajectories each model has, and the best of all, as Markdown tables."""
    counts = frame.groupby(["setup", "model"], sort=True).agg(
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
        section("By model", models),
        section(f"The best by `{score}` ({end} is best)", table(top, columns, LABELS)),
    ]
    caption = f"{len(frame):,} trajectories by their score."
    return page([*parts, picture(figure, "Scores of trajectories", caption)], frame)


def _scored(frame: pd.DataFrame, score: str, best: str) -> tuple[pd.DataFrame, str]:
    """The rows of the requested score, and its better end."""
    named = frame.assign(score=score_names(frame))
    scores = sorted(named["score"].unique())
    fitting = [name for name in scores if score in (name, name.rpartition("/")[2])]
    if not score:
        main_names = sorted(main_scores(frame)[0]["score"].unique())
        briers = ([name for name in main_names if name.endswith(end)] for end in ("brier/brier_score", "/brier_score"))
        fitting = next(filter(None, briers), main_names)
    if len(fitting) != 1:
        problem = f"may be {', '.join(fitting)}" if fitting else f"is not in the logs, which have {', '.join(scores)}"
        raise BadInput(f"score={score!r} {problem}; give one of them as SCORER/KEY")
    rows = named[named["score"] == fitting[0]]
    scorer, key = rows[["scorer", "key"]].iloc[0]
    end = best or ends(frame)[scorer, key]
    if end is None:
        raise BadInput(f"score={fitting[0]!r} does not say which end is better; add best=lowest or best=highest")
    one_of("best", end, ["lowest", "highest"])
    return rows, end


def _filtered(frame: pd.DataFrame, condition: str) -> pd.DataFrame:
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


def _mark(frame: pd.DataFrame, logs: Places, embed: Embed, threshold: float, among: str) -> None:
    """Add `similarity` and `duplicate_of`."""
    keys = list(frame[KEY].itertuples(index=False, name=None))
    nearest_rank, similarity = np.full(len(frame), np.nan), np.full(len(frame), np.nan)
    # In a file, as all texts may not fit into memory.
    with tempfile.TemporaryDirectory() as folder, shelve.open(f"{folder}/texts") as spool:
        for key, text in texts(logs, set(keys)):
            spool[repr(key)] = text
        for places in _batches(frame, among):
            vectors = embed([spool[repr(keys[place])] for group in places for place in group])
            start = 0
            for group in places:
                nearest, cosine = near_duplicates(vectors[start : start + len(group)], threshold)
                start += len(group)
                similarity[group] = cosine
                nearest_rank[group] = [frame["rank"].iloc[group[i]] if i >= 0 else np.nan for i in nearest]
    frame["similarity"], frame["duplicate_of"] = similarity, nearest_rank


def _batches(frame: pd.DataFrame, among: str) -> Iterator[list[list[int]]]:
    """Rows that are compared with each other, in batches that are embedded together."""
    groups: Iterable[Any] = frame.groupby(["domain", "task", "event", "sample_id"], sort=False).indices.values()
    batch: list[list[int]] = []
    for places in [np.arange(len(frame))] if among == "all" else groups:
        batch.append(places.tolist())
        if sum(map(len, batch)) >= BATCH:
            yield batch
            batch = []
    yield from filter(None, [batch])


def embedder_named(name: str, url: str = "") -> Embed:
    if url and name == "none":
        raise BadInput(f"embedder_url={url!r} needs the name of the model there; add embedder=MODEL")
    return hashed_ngrams if name == "none" else _endpoint(name, url) if url else _sentence_transformer(name)


def hashed_ngrams(texts: Sequence[str]) -> NDArray[np.float32]:
    """Character n-grams of each text, hashed with a sign: texts x `DIMENSIONS`, each of length 1 (0 for no text).

    The sign keeps the expected product of texts without a common n-gram at 0 (Weinberger et al. 2009).
    """
    vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
    for row, text in zip(vectors, texts, strict=True):
        letters = np.frombuffer(" ".join(text.lower().split()).encode("utf-8", "replace"), dtype=np.uint8)
        letters = np.pad(letters, (0, max(0, NGRAM - letters.size))) if letters.size else letters
        if not letters.size:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(letters, NGRAM).astype(np.uint64)
        code = np.zeros(len(windows), dtype=np.uint64)
        for column in range(NGRAM):
            code = (code + windows[:, column] + np.uint64(1)) * np.uint64(MULTIPLIER)
            code ^= code >> np.uint64(29)
        grams, count = np.unique(code, return_counts=True)
        sign = np.where(grams >> np.uint64(63), 1.0, -1.0)
        row += np.bincount((grams % np.uint64(DIMENSIONS)).astype(np.intp), np.log1p(count) * sign, DIMENSIONS)
        row /= max(float(np.linalg.norm(row)), 1e-12)
    return vectors


def near_duplicates(vectors: NDArray[np.float32], threshold: float) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Mark each row that is close to an earlier one. Of a group of repeats the first is kept."""
    kept: list[int] = []
    nearest_index = np.full(len(vectors), -1, dtype=np.intp)
    similarity = np.full(len(vectors), np.nan, dtype=np.float32)
    matrix = np.empty_like(vectors)
    for i, vector in enumerate(vectors):
        products = matrix[: len(kept)] @ vector
        similarity[i] = products.max() if kept else np.nan
        if similarity[i] >= threshold:
            nearest_index[i] = kept[int(products.argmax())]
        else:
            matrix[len(kept)] = vector
            kept.append(i)
    return nearest_index, similarity


def _sentence_transformer(name: str) -> Embed:
    try:
        from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]
    except ImportError:
        raise BadInput(
            f'embedder={name!r} needs sentence-transformers; pip install -e ".[embeddings]", or give the URL of an '
            "endpoint that serves it, or embedder=none"
        ) from None
    model, _, revision = name.partition("@")
    try:
        transformer = SentenceTransformer(model, revision=revision or None)
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(
            f"embedder={name!r} cannot be loaded ({reason}); give a model of sentence-transformers"
        ) from None
    return lambda texts: np.asarray(
        transformer.encode(list(texts), normalize_embeddings=True, show_progress_bar=False), dtype=np.float32
    )


def _endpoint(name: str, url: str) -> Embed:
    from openai import OpenAI, OpenAIError

    client = OpenAI(base_url=url, api_key=os.environ.get("OPENAI_API_KEY", "none"))

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        rows: list[list[float]] = []
        for start in range(0, len(texts), REQUEST):
            # An empty text is refused by most endpoints.
            batch = [text or " " for text in texts[start : start + REQUEST]]
            try:
                reply = client.embeddings.create(model=name, input=batch, encoding_format="float")
            except OpenAIError as error:
                raise BadInput(f"embedder_url={url!r} gives no embeddings of {name!r} ({error}); check both") from None
            rows += [item.embedding for item in sorted(reply.data, key=lambda item: item.index)]
        vectors = np.array(rows, dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
        unit: NDArray[np.float32] = np.divide(vectors, np.maximum(lengths, np.float32(1e-12)), dtype=np.float32)
        return unit

    return embed


if __name__ == "__main__":
    main(load, chart, __doc__, report)

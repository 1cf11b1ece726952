import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.analysis.answer_tables import answer_rows
from tests.fixtures import Answer, Request, serving
from truthgym.analysis import trajectories
from truthgym.analysis.tables.saving import save
from truthgym.analysis.trajectories import chart, embedder_named, hashed_ngrams, load, near_duplicates, report
from truthgym.datasets.errors import BadInput
from truthgym.training.conversion.options import Selection
from truthgym.training.convert import convert

Tables = Callable[..., None]
LONG = (
    "The river rose quickly in spring, and the gauge at the bridge showed more than last year. I take the forecasts of "
    "the two stations as one, since both read the same instrument, and end a little above the base rate."
)
NEAR = LONG.replace("quickly", "fast")
OTHER = (
    "Prices fell for three weeks. A single buyer left the market, which happens often before a holiday, so I would not "
    "expect it to last, and I put the chance of a further fall below one half."
)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Tables:
    """Let `load` read these rows, with their texts by question and epoch, instead of logs."""

    def replace(frame: pd.DataFrame, texts: dict[tuple[str, int], str] | None = None) -> None:
        monkeypatch.setattr(trajectories, "answers", lambda *_, **__: frame.assign(characters=9))
        keys = frame[["eval_id", "sample_id", "epoch"]].itertuples(index=False, name=None)
        random = {key: f"{key} {np.random.default_rng(key[2]).random(40)}" for key in keys}
        own = {key: (texts or {}).get(key[1:], text) for key, text in random.items()}
        monkeypatch.setattr(trajectories, "texts", lambda *_: iter(own.items()))

    return replace


def test_a_rewording_is_a_near_duplicate_and_another_answer_is_not() -> None:
    same, near, other, none = hashed_ngrams([LONG, NEAR, OTHER, ""])
    assert same @ near > 0.9
    assert abs(same @ other) < 0.2
    assert float(same @ same) == pytest.approx(1)
    assert not none.any()
    assert hashed_ngrams(["A  b\nc"]).tolist() == hashed_ngrams(["a b c"]).tolist()


def test_of_repeats_the_first_is_kept() -> None:
    angle = np.radians([0, 10, 20, 90])
    vectors = np.column_stack([np.cos(angle), np.sin(angle)]).astype(np.float32)
    nearest, similarity = near_duplicates(vectors, np.cos(np.radians(15)))
    assert nearest.tolist() == [-1, 0, -1, -1]  # 20 degrees are close to the second only, which is not kept
    assert similarity[1:] == pytest.approx(np.cos(np.radians([10, 20, 70])), abs=1e-6)


def test_trajectories_are_sorted_marked_and_filtered(table: Tables) -> None:
    values = {"q1": [0.3, 0.1, 0.2], "q2": [0.05], "q3": [np.nan]}
    text_of = {("q1", 1): NEAR, ("q1", 2): LONG, ("q1", 3): OTHER, ("q2", 1): LONG}
    rows = answer_rows(values, split={"q1": "train", "q2": "test", "q3": "train"})
    table(pd.concat([rows, rows.assign(key="accuracy", value=0.5)]), text_of)
    frame = load("logs", threshold="0.9")
    assert frame[["sample_id", "epoch", "value"]].to_numpy().tolist() == [
        ["q2", 1, 0.05], ["q1", 2, 0.1], ["q1", 3, 0.2], ["q1", 1, 0.3]]  # fmt: skip
    assert frame["duplicate_of"].fillna(0).tolist() == [0, 0, 0, 2]
    assert load("logs", threshold=0.9, among="all")["duplicate_of"].fillna(0).tolist() == [0, 1, 0, 1]
    assert [note.split()[:3] for note in frame.attrs["notes"]] == [
        ["1", "answers", "without"], ["1", "trajectories", "repeat"], ["1", "trajectories", "are"]]  # fmt: skip
    filtered = load("logs", threshold=0.9, filter="split == 'train' and value > 0.1", duplicates="drop")
    assert filtered["epoch"].tolist() == [3, 1]  # the better one that the last repeats is filtered out
    best = load("logs", score="accuracy")
    assert (best["best"].iloc[0], best["score"].iloc[0]) == ("highest", "brier/accuracy")
    assert "| 4 | 0.300 | m | urns, direct | q1 | 1 | 9 | 2 |" in report(frame)
    panel = chart(frame).to_dict()["concat"][0]
    assert "lower is better" in panel["encoding"]["x"]["title"]
    spec = chart(pd.concat([frame] * 30)).to_dict()
    (bins,) = spec["datasets"].values()
    assert sum(row["trajectories"] for row in bins) == 30 * len(frame)
    assert len(bins) < 10  # not a row for each trajectory


def test_too_many_trajectories_are_not_all_compared(table: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectories, "MOST_COMPARED", 2)
    table(answer_rows({"q1": [0.3, 0.1, 0.2]}))
    with pytest.raises(BadInput, match="among='all' compares 3 trajectories with each other; 2 are the most"):
        load("logs", among="all")
    assert len(load("logs")) == 3


def test_what_is_chosen_here_is_what_convert_takes(urn_logs: Path, tmp_path: Path) -> None:
    frame = load(urn_logs, filter="split == 'train' and value < 0.2 and epoch == 1")
    file = tmp_path / "chosen.csv"
    save(frame.head(7), chart, file)
    converted = convert([urn_logs], "sft", tmp_path / "data", Selection(trajectories=str(file)))
    rows_written = [json.loads(line) for line in (tmp_path / "data" / "train.jsonl").read_text().splitlines()]
    assert {(row["eval_id"], row["sample_id"], row["epoch"]) for row in rows_written} == {
        (row.eval_id, row.sample_id, row.epoch) for row in frame.head(7).itertuples()
    }
    assert converted.left_out["trajectories that --trajectories does not list"] == 160 - 7
    pd.concat([frame.head(1), frame.head(1).assign(eval_id="gone")]).to_csv(file)
    again = convert([urn_logs], "sft", tmp_path / "more", Selection(trajectories=str(file)))
    assert again.left_out["trajectories that --trajectories lists and no log has"] == 1
    file.write_text("sample_id,epoch\nq,1\n")
    with pytest.raises(BadInput, match="cannot be used .KeyError: 'eval_id'.; give a .csv"):
        convert([urn_logs], "sft", tmp_path / "none", Selection(trajectories=str(file)))


def test_an_endpoint_embeds_texts() -> None:
    def answer(request: Request) -> Answer:
        body = json.loads(request.body)
        vectors = [[3.0, 4.0 * len(text)] for text in body["input"]]
        items = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        reply = {"object": "list", "model": body["model"], "data": items[::-1], "usage": usage}
        return 200, {"Content-Type": "application/json"}, json.dumps(reply).encode()

    with serving(answer) as server:
        vectors = embedder_named("Qwen/Qwen3-Embedding-8B", f"{server.address}/v1")(["", "a", "ab"] * 30)
    assert len(server.asked) == 2
    assert json.loads(server.asked[0].body)["model"] == "Qwen/Qwen3-Embedding-8B"
    assert vectors[:3] == pytest.approx(np.array([[0.6, 0.8], [0.6, 0.8], [3, 8] / np.sqrt(73)]), abs=1e-6)
    with (
        serving(lambda _: (404, {}, b"no such model")) as server,
        pytest.raises(BadInput, match="gives no embeddings of 'm'"),
    ):
        embedder_named("m", server.address)(["a"])


def test_a_local_model_embeds_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Transformer:
        def __init__(self, name: str, revision: str | None) -> None:
            calls.append((name, revision))
            if name == "missing":
                raise OSError("missing is not a model")

        def encode(self, texts: list[str], normalize_embeddings: bool, show_progress_bar: bool) -> list[list[float]]:
            return [[1.0, 0.0]] * len(texts)

    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Transformer))
    assert embedder_named("Qwen/Qwen3-Embedding-0.6B@abc")(["a", "b"]).tolist() == [[1, 0], [1, 0]]
    assert calls == [("Qwen/Qwen3-Embedding-0.6B", "abc")]
    with pytest.raises(BadInput, match="cannot be loaded .missing is not a model.; give"):
        embedder_named("missing")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(BadInput, match="needs sentence-transformers; pip install"):
        embedder_named("Qwen/Qwen3-Embedding-4B")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": "brierr"}, "score='brierr' is not in the logs, which have brier/brier_score"),
        ({"filter": "vaule < 1"}, "filter='vaule < 1' cannot be used"),
        ({"filter": "value > 1"}, "leaves none of 1 trajectories"),
        ({"threshold": "2"}, "threshold='2' is not a similarity"),
        ({"duplicates": "hide"}, "hide"),
        ({"embedder_url": "http://x"}, "needs the name of the model"),
    ],
)
def test_bad_options_are_refused(table: Tables, options: dict[str, str], message: str) -> None:
    table(answer_rows({"q": [0.1]}))
    with pytest.raises(BadInput, match=message):
        load("logs", **options)  # type: ignore[arg-type]

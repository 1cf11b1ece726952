"""Scores by a field of the questions: planted differences, correction, warnings and refusals."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.analysis.answer_tables import answer_rows
from tests.fixtures import Run
from truthgym.analysis.tables.answers import NO_VALUE, answers, categories
from truthgym.analysis.tables.by_category import by_category, in_words
from truthgym.datasets.errors import BadInput
from truthgym.tasks.domains import questions


def planted(means: dict[str, float], n: int, per_event: int = 1, unread: int = 0) -> pd.DataFrame:
    """Answers of one model whose Brier scores have these means by category."""
    rng = np.random.default_rng(0)
    scores = {f"{label}{i}": [float(np.clip(rng.normal(mean, 0.1), 0, 1))] * 2 for label, mean in means.items()
              for i in range(n)}  # fmt: skip
    for name in list(scores)[:unread]:
        scores[name] = [float("nan")] * 2
    kind = {name: name.rstrip("0123456789") for name in scores}
    event = {name: f"{kind[name]}{int(name[len(kind[name]) :]) // per_event}" for name in scores}
    rows = answer_rows(scores, category=kind, event=event, repaired=False)
    rows.attrs["categories"] = list(means)
    return rows


def test_a_planted_difference_is_found_and_a_null_stays_null() -> None:
    cells = by_category(planted({"sums": 0.2, "words": 0.5, "maps": 0.2}, 40)).set_index("category")
    assert list(cells.index) == ["sums", "words", "maps"]
    assert (cells["estimate"] - [0.2, 0.5, 0.2]).abs().max() < 0.05
    assert cells["n"].tolist() == cells["clusters"].tolist() == [40] * 3
    assert in_words(cells.reset_index()).startswith("Worst on words (0.")
    null = by_category(planted(dict.fromkeys(["sums", "words"], 0.3), 40))
    assert in_words(null).startswith("No difference between categories")


@pytest.mark.parametrize(("per_event", "few"), [(1, False), (2, True)])
def test_few_events_are_said(per_event: int, few: bool) -> None:
    cells = by_category(planted({"sums": 0.2, "words": 0.5}, 40, per_event))
    assert set(cells["few"]) == {few}
    assert ("Fewer than 30 independent events: sums (20), words (20)" in " ".join(cells.attrs["notes"])) == few


def test_a_category_with_unread_answers_is_neither_best_nor_worst() -> None:
    cells = by_category(planted({"sums": 0.2, "words": 0.5, "maps": 0.3}, 40, unread=10))
    assert cells["read"].tolist() == [0.75, 1, 1]
    assert "best on maps" in in_words(cells)
    assert cells.attrs["notes"][-1].startswith("sums: less than 90 %")


def test_fields_become_categories() -> None:
    assert categories(["b", "", "a", "10", "9"], "x", ["x"]) == {v: v for v in ("9", "10", "a", "b")} | {"": NO_VALUE}
    quarters = categories([str(i) for i in range(80)], "x", ["x"])
    assert list(dict.fromkeys(quarters.values())) == ["0 to 19", "20 to 39", "40 to 59", "60 to 79", NO_VALUE]
    with pytest.raises(BadInput, match="'tipe'.* did you mean 'type'"):
        categories(["", ""], "tipe", ["type", "field"])
    with pytest.raises(BadInput, match=r"'id' has 80 values.*at most 40"):
        categories([f"q{i}" for i in range(80)], "id", ["id", "field"])


def test_a_column_of_the_users_file(run: Run, tmp_path: Path) -> None:
    rows = [
        {"id": f"q{i}", "question": f"Is {i} odd?", "outcome": ["no", "yes"][i % 2], "type": ["sum", "map"][i < 12]}
        for i in range(24)
    ]
    file = tmp_path / "own.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    log = run(questions(source=str(file), paradigms="brier"), "reference/random", epochs=1).location
    cells = by_category(answers([log], by="type"))
    assert cells[["category", "n", "best"]].values.tolist() == [["map", 12, "lowest"], ["sum", 12, "lowest"]]
    assert list(by_category(answers([log], by="target"))["category"]) == ["no", "yes"]
    with pytest.raises(BadInput, match="they have: target, event, .*type"):
        answers([log], by="color")

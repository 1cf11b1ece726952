"""Tables of answers with planted values, in the columns of `analysis.tables.answers`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Values = NDArray[np.float64]


def rows_of(
    values: Mapping[tuple[str, str], Values],
    scorer: str = "brier",
    key: str = "brier_score",
    per_event: int = 1,
    **more: Any,
) -> pd.DataFrame:
    """A row for each number.

    Args:
        values: By model and mode: questions x epochs.
        scorer: Name of the scorer.
        key: Key of its numbers.
        per_event: Questions that share an event.
        more: Further columns: a text, or by model and mode an array like that of the values.
    """
    rows = [
        {
            "log": f"{model} {mode}.eval",
            "eval_id": f"{model} {mode}",
            "model": model,
            "domain": "urns",
            "task": "",
            "mode": mode,
            "setup": f"urns, {mode}",
            "sample_id": f"q{question}",
            "event": f"e{question // per_event}",
            "epoch": epoch + 1,
            "scorer": scorer,
            "key": key,
            "value": value,
            **{
                name: column if isinstance(column, str) else column[model, mode][question, epoch]
                for name, column in more.items()
            },
        }
        for (model, mode), numbers in values.items()
        for (question, epoch), value in np.ndenumerate(numbers)
    ]
    return pd.DataFrame(rows)


SAME = {
    "outcome": np.nan,
    **{"log": "a.eval", "eval_id": "a", "model": "m", "domain": "urns", "task": "", "mode": "direct"},
    **{"setup": "urns, direct", "split": "test", "target": "yes", "scorer": "brier", "key": "brier_score"},
    "reason": "",
}


def answer_rows(values: Mapping[str, Sequence[float]], **columns: Any) -> pd.DataFrame:
    """A table as `answers` returns it.

    Args:
        values: The values of each question, one for each epoch.
        columns: Values of other columns: one for all rows, or a mapping from each question.
    """
    cells = [(q, epoch, value) for q, epochs in values.items() for epoch, value in enumerate(epochs, start=1)]
    frame = pd.DataFrame(cells, columns=["sample_id", "epoch", "value"])
    frame["event"] = frame["sample_id"]
    for name, values_of in (SAME | columns).items():
        of_questions = values_of if isinstance(values_of, Mapping) else dict.fromkeys(values, values_of)
        frame[name] = frame["sample_id"].map(of_questions)
    return frame

"""Tables of answers with planted values."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

SAME = {
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
    for name, given in (SAME | columns).items():
        frame[name] = frame["sample_id"].map(given) if isinstance(given, Mapping) else given
    return frame

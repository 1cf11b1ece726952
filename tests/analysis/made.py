"""Tables of answers whose truth is known, in the columns of `analysis.tables.answers`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Values = NDArray[np.float64]


def made(
    values: Mapping[tuple[str, str], Values],
    scorer: str = "brier",
    key: str = "brier_score",
    per_event: int = 1,
    **more: Any,
) -> "pd.DataFrame":
    """A row for each number.

    Args:
        values: By model and mode: questions x epochs.
        scorer: Name of the scorer.
        key: Key of its numbers.
        per_event: Questions that share an event.
        more: Further columns: a text, or by model and mode an array like that of the values.
    """
    import pandas as pd

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

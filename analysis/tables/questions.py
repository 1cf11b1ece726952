"""Answers by question: what the statistics of `scorers.statistics` take."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray


class Questions(NamedTuple):
    """The values of one score in one setup."""

    values: "NDArray[np.float64]"
    """Questions x epochs. A second eval of the same questions adds epochs. NaN if unread, or not asked."""
    event: list[str]
    target: list[str]


def by_question(rows: "pd.DataFrame") -> Questions:
    """The values of rows of `answers`, which are of one model, setup, scorer and key, sorted by question."""
    values = rows.set_index(["sample_id", "eval_id", "epoch"])["value"].unstack(["eval_id", "epoch"]).sort_index()
    facts = rows.drop_duplicates("sample_id").set_index("sample_id").loc[values.index]
    return Questions(values.to_numpy(dtype=float), facts["event"].tolist(), facts["target"].tolist())


def epochs_by_question(rows: "pd.DataFrame") -> dict[str, list[float]]:
    """The values of each question, one for each epoch."""
    values: dict[str, list[float]] = {}
    for question, value in zip(rows["sample_id"], rows["value"], strict=True):
        values.setdefault(question, []).append(value)
    return values


def notes(frame: "pd.DataFrame") -> str:
    """What a table does not show, and why, as a Markdown list."""
    sentences: Sequence[str] = frame.attrs.get("notes", [])
    return "".join(f"\n- {sentence}" for sentence in dict.fromkeys(sentences)) + "\n" * bool(sentences)


def by_reason(refused: Mapping[str, Sequence[str]], consequence: str = "Not shown") -> list[str]:
    """A note for each reason, with what it applies to.

    >>> by_reason({"fewer than 30 questions": ["urns, direct: a", "urns, direct: b"]})
    ['Not shown: urns, direct: a; urns, direct: b (fewer than 30 questions).']
    """
    return [f"{consequence}: {_listed(names)} ({reason})." for reason, names in refused.items() if names]


def _listed(names: Sequence[str], most: int = 5) -> str:
    rest = len(names) - most
    return "; ".join(names[:most]) + (f"; and {rest} more" if rest > 0 else "")

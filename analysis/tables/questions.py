"""Answers by question: what the statistics of `scorers.statistics` take."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from truthgym.scorers.declaration import LEAST_SHARE_SCORED

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

UNREAD = f"less than {100 * LEAST_SHARE_SCORED:.0f} % of the answers could be read, and the others may be harder"
"""Why models are not compared."""


class Rows(list[dict[Any, Any]]):
    """Rows for `attrs` that nobody changes: pandas deep-copies `attrs` in most operations on a frame."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Rows":
        return self


class Questions(NamedTuple):
    """The values of one score in one setup."""

    question: list[str]
    """Sample ids, sorted: the rows of `values`."""
    values: "NDArray[np.float64]"
    """Questions x epochs. A second eval of the same questions adds epochs. NaN if unread, or not asked."""
    event: list[str]
    target: list[str]


def by_question(rows: "pd.DataFrame") -> Questions:
    """The values of rows of `answers`, which are of one model, setup, scorer and key, sorted by question."""
    values = rows.set_index(["sample_id", "eval_id", "epoch"])["value"].unstack(["eval_id", "epoch"]).sort_index()
    facts = rows.drop_duplicates("sample_id").set_index("sample_id").loc[values.index]
    return Questions(
        values.index.tolist(), values.to_numpy(dtype=float), facts["event"].tolist(), facts["target"].tolist()
    )


def epochs_by_question(rows: "pd.DataFrame") -> dict[str, list[float]]:
    """The values of each question, one for each epoch."""
    values: dict[str, list[float]] = {}
    for question, value in zip(rows["sample_id"], rows["value"], strict=True):
        values.setdefault(question, []).append(value)
    return values


def read_enough(rows: "pd.DataFrame", by: Sequence[str]) -> "pd.Series[bool]":
    """For each row of `answers`, whether enough answers of its group could be read to compare the group with others."""
    share = rows["value"].notna().groupby([rows[name] for name in by]).transform("mean")
    return share >= LEAST_SHARE_SCORED


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


class Caveat(NamedTuple):
    """What a table does not show, or shows with a reservation."""

    consequence: str
    what: str
    reason: str


def grouped(doubts: Iterable[Caveat]) -> list[str]:
    """A note for each consequence and reason, with what it applies to."""
    named: dict[tuple[str, str], dict[str, None]] = {}
    for consequence, what, reason in doubts:
        named.setdefault((consequence, reason), {})[what] = None
    return [note for (first, why), names in named.items() for note in by_reason({why: list(names)}, first)]


def _listed(names: Sequence[str], most: int = 5) -> str:
    rest = len(names) - most
    return "; ".join(names[:most]) + (f"; and {rest} more" if rest > 0 else "")

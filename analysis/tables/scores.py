"""The scores of a table of answers that have a better end: what models are compared by, and what is explained."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from truthgym.analysis.tables.setups import bare_name
from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics.direction import Best, direction
from truthgym.tasks.paradigms import PARADIGMS

if TYPE_CHECKING:
    import pandas as pd


def directed_scores(frame: "pd.DataFrame", key: str = "") -> "Iterator[tuple[str, Best, pd.DataFrame]]":
    """The rows of each score that has a better end.

    Args:
        frame: A row for each answer and number, as `answers` returns.
        key: The key of the scores. "": of each scorer the first that has a better end, in the order of the viewer's
            columns, such as `brier_score`.

    Yields:
        Its name (scorer and key), its better end and its rows, sorted by name.

    Raises:
        BadInput: No scorer has the key, or none has a score with a better end.
    """
    found = False
    for scorer, part in frame.groupby("scorer", sort=True):
        declared = {"higher_is_better": frame.attrs.get("higher_is_better", {}).get(scorer)}
        for one in ordered_keys(str(scorer), part["key"]):
            end = direction(bare_name(str(scorer)), one, declared) if key in ("", one) else None
            if end:
                found = True
                yield score_name(str(scorer), one), end, part[part["key"] == one]
                break
    if not found:
        pairs = frame[["scorer", "key"]].drop_duplicates().itertuples(index=False)
        known = ", ".join(sorted({score_name(bare_name(scorer), one) for scorer, one in pairs}))
        raise BadInput(
            f"No score with a better end{f' and the key {key!r}' * bool(key)}; the logs have {known}. Score them with: "
            "inspect score LOG --scorer truthgym/brier"
        )


def ordered_keys(scorer: str, keys: Iterable[str]) -> list[str]:
    """The keys of a scorer's value: first the columns of the log viewer, in their order."""
    present = list(dict.fromkeys(keys))
    paradigm = PARADIGMS.get(bare_name(scorer))
    shown = [key for key in (paradigm.columns if paradigm else ()) if key in present]
    return [*shown, *(key for key in present if key not in shown)]


def score_name(scorer: str, key: str) -> str:
    """Scorer and key in one text; the scorer's name if its value is a single number."""
    return scorer if key == bare_name(scorer) else f"{scorer}: {key}"

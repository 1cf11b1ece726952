"""Evidence: what was observed about questions, with where it is recorded, so that no investigator is needed."""

from functools import cache
from pathlib import Path

from pydantic import BaseModel

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import read_models
from truthgym.datasets.question import Text

BUNDLED = Path(__file__).with_suffix(".jsonl")


class Observation(BaseModel, frozen=True, extra="forbid"):
    """One observation about one question."""

    question: Text
    task: Text
    """What was to be found out, in words that do not tell the result. The forecaster reads it."""
    observation: Text
    """The result, in one sentence. The forecaster predicts it."""
    recorded: Text | None = None


@cache
def evidence(source: str = "bundled") -> dict[str, list[Observation]]:
    """Observations by the id of their question.

    Args:
        source: "bundled", or the path of a .jsonl, .csv or .parquet file in the shape of `evidence.jsonl`. A question
            may have several observations.

    Raises:
        BadInput: There is no such file, it is empty, a row has another shape, or a question has a task twice.
    """
    path = BUNDLED if source == "bundled" else Path(source)
    observations: dict[str, list[Observation]] = {}
    seen: dict[tuple[str, str], str] = {}
    for where, row in read_models(path, Observation):
        before = seen.setdefault((row.question, row.task), where)
        if before != where:
            raise BadInput(f"{where}: {row.question!r} has this task also at {before}; keep one of them")
        observations.setdefault(row.question, []).append(row)
    return observations


OUTCOME_TASK = "Find out whether this is so: {proposition}"
OUTCOMES = {"yes": "Yes, it is so.", "no": "No, it is not."}
"""The observation of a question's own outcome, by target, both of four words."""


def outcome(question: str, proposition: str, target: str) -> Observation:
    """The observation that a binary question ended as it did."""
    task = OUTCOME_TASK.format(proposition=proposition.strip())
    return Observation(question=question, task=task, observation=OUTCOMES[target], recorded="the question's outcome")

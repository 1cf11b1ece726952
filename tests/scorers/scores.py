"""Scores as scorers record them, for tests of metrics."""

from typing import Any

from inspect_ai.scorer import SampleScore, Score


def scored(question: str, value: dict[str, Any], epoch: int = 1, **facts: Any) -> SampleScore:
    """The score of one epoch of a question, which is an event of its own unless `facts` say otherwise."""
    metadata = {"epoch": epoch, "event": f"event of {question}"} | facts
    return SampleScore(score=Score(value=value, metadata=metadata), sample_id=question)

"""An answer as graders are given it, for their tests."""

import asyncio
from typing import Any

from truthgym.datasets.question import Question
from truthgym.scorers.graders.grader import Grade, Grader, GraderInput, grade, item_fields

QUESTION = Question(domain="test", event="e", split="train", proposition="It rains.")


def answer(completion: str = "Yes.", target: str = "yes", **item: Any) -> GraderInput:
    """An answer to whether it will rain, with more fields of the item."""
    fields = item_fields(QUESTION.model_dump(mode="json") | item, "Will it rain?", target, "q")
    return GraderInput(QUESTION, "Will it rain?", target, completion, f"Wrote: {completion}", "q", 1, fields)


def grade_of(grader: Grader, graded: GraderInput | None = None) -> Grade:
    return asyncio.run(grade(grader, graded or answer()))

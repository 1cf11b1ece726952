"""Research: questions of science with a tempting wrong answer and a right one that takes thought.

Which answer the statement names and which is listed first are counterbalanced, so that neither "yes" nor the first
option is the easy answer. The bundled answers are settled and stand in textbooks, so they cannot separate what a model
knows from what it works out.
"""

from hashlib import sha256 as sha
from typing import Any, Literal

from inspect_ai.dataset import Sample

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.loading.domain import Domain
from truthgym.datasets.loading.row_files import check_fields
from truthgym.datasets.loading.source import Source
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.sources import truthseekinggym

SOURCES = {
    "truthseekinggym": Source(truthseekinggym.problems_with_answers, truthseekinggym.LICENCE, live=True),
}
REQUIRED = ("id", "question", "easy", "hard", "reason", "science", "recorded", "event")
Answer = Literal["easy", "hard"]
ANSWERS: tuple[Answer, Answer] = ("easy", "hard")
PROPOSITION = 'To the question "{question}" the right answer is this: {answer}.'
NOTICE = (
    "research: the 80 bundled questions have answers that stand in textbooks, which models may know, and a martingale "
    "slope below about 0.2 cannot be told from none with so few."
)


class ResearchQuestion(Question, frozen=True):
    """A question with two answers: `options` in the order in which they are listed.

    No bundled question has a `known_on`, so `known_after` leaves all of them out.
    """

    science: str
    """The science it belongs to, such as "physics"."""
    asked: Answer
    """The answer that the proposition calls right: the proposition is true for "hard", false for "easy"."""
    first: Answer
    """The answer that is listed first."""
    reason: str
    """Why the hard answer is right and the easy one tempts. Never shown to the model."""
    recorded: str
    """Where the right answer is recorded."""


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Parse a row. The data card, `research.md`, lists the fields.

    Raises:
        BadInput: The row cannot be used. Names the place.
    """
    check_fields(where, row, REQUIRED, [*REQUIRED, "asked", "first", "known_on"])
    # Options and propositions are written without the answer's full stop.
    answers: dict[str, str] = {name: row[name].strip().removesuffix(".") for name in ANSWERS}
    if answers["easy"].casefold() == answers["hard"].casefold():
        raise BadInput(f"{where}: `easy` and `hard` are the same answer, {row['hard']!r}; write two different ones")
    asked, first = (_choice(where, row, name) for name in ("asked", "first"))
    known = question(
        ResearchQuestion,
        where,
        domain="research",
        form="options",
        options=[answers[first], answers["easy" if first == "hard" else "hard"]],
        proposition=PROPOSITION.format(question=row["question"].strip(), answer=answers[asked]),
        asked=asked,
        first=first,
        **{name: row.get(name) for name in ("event", "known_on", "science", "reason", "recorded")},
    )
    return sample(row["id"], row["question"], "yes" if asked == "hard" else "no", known, where)


def _choice(where: str, row: dict[str, Any], name: str) -> str:
    """The answer that a row names in a field; where it names none, a hash of its id draws one of the two."""
    if row.get(name) is None:
        return ANSWERS[sha(f"{name}/{row['id']}".encode()).digest()[0] % 2]
    one_of(f"answer at {where}, field {name}:", row[name], ANSWERS)
    return str(row[name])


research = Domain("research", ResearchQuestion, sample_of, SOURCES, NOTICE)

"""Research: questions of science with a tempting wrong answer and a right one that takes thought.

Which of the two a statement names, and which is listed first, is counterbalanced: neither "yes" nor the first is the
easy thing to say. The bundled answers are settled and stand in textbooks: what a model knows and what it works out
cannot be told apart by them.
"""

from datetime import date
from hashlib import sha256 as sha
from typing import Any, Literal

from inspect_ai.dataset import Sample

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.loading.row_files import check_fields
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.loading.source import Source, load
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.sources import truthseekinggym

SOURCES = {
    "truthseekinggym": Source(truthseekinggym.problems_with_answers, truthseekinggym.LICENCE, changes=True),
}
TEXTS = ("id", "question", "easy", "hard", "reason", "science", "recorded", "event")
"""Fields of a row that must hold text."""
Answer = Literal["easy", "hard"]
ANSWERS: tuple[Answer, Answer] = ("easy", "hard")
PROPOSITION = 'To the question "{question}" the right answer is this: {answer}.'
NOTICE = (
    "research: the 80 bundled questions have answers that stand in textbooks, which models may know, and a martingale "
    "slope below about 0.2 cannot be told from none with so few."
)


class ResearchQuestion(Question, frozen=True):
    """A question with two answers: `options` in the order in which they are listed."""

    science: str
    """Such as "physics"."""
    asked: Answer
    """The answer that the proposition holds to be right: it is true of "hard", false of "easy"."""
    first: Answer
    """The answer that is listed first."""
    reason: str
    """Why the hard answer is right and the easy one tempts. Never shown to the model."""
    recorded: str
    """Where the right answer is on record."""


def research(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
) -> Questions:
    """Load questions with an easy wrong answer and a hard right one.

    Args:
        source: "bundled", or the path of a .jsonl or .parquet file in the shape of `research.jsonl`. `truthgym fetch`
            makes one of a folder of TruthSeekingGym's.
        split: "train", "validation", "test" or "all".
        known_after: Keep questions whose answer became public after this day; those without a day are left out, as all
            bundled ones are.
        n: At most so many, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file must have as its SHA-256.

    Raises:
        BadInput: An unknown source or split, a malformed row, another file, or nothing left after the filters.
    """
    return load(
        "research", source, sample_of, SOURCES, split=split, known_after=known_after, n=n, seed=seed, sha256=sha256,
        notice=NOTICE,
    )  # fmt: skip


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Make a sample of a row. The fields are listed in the data card, `research.md`.

    Raises:
        BadInput: A row that cannot be used.
    """
    check_fields(where, row, TEXTS, [*TEXTS, "asked", "first", "known_on"])
    # A list and a sentence end without the full stop of an answer.
    answers: dict[str, str] = {name: row[name].strip().removesuffix(".") for name in ANSWERS}
    if answers["easy"].casefold() == answers["hard"].casefold():
        raise BadInput(f"{where}: `easy` and `hard` are the same answer, {row['hard']!r}; write two different ones")
    asked, first = (_chosen(where, row, name) for name in ("asked", "first"))
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


def _chosen(where: str, row: dict[str, Any], name: str) -> str:
    """Which answer a row puts here: its own word, or half of all rows each by a hash of their ids."""
    if row.get(name) is None:
        return ANSWERS[sha(f"{name}/{row['id']}".encode()).digest()[0] % 2]
    one_of(f"answer at {where}, field {name}:", row[name], ANSWERS)
    return str(row[name])

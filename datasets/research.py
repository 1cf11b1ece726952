"""Research: questions of science with a tempting wrong answer and a right one that takes thought."""

from hashlib import sha256 as sha
from typing import Literal

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.domain import Domain, DomainRow, Source, either
from truthgym.datasets.question import Question, Text
from truthgym.datasets.sources import truthseekinggym

SOURCES = {"truthseekinggym": Source(truthseekinggym.problems_with_answers, truthseekinggym.LICENCE, live=True)}
Answer = Literal["easy", "hard"]
ANSWERS: tuple[Answer, Answer] = ("easy", "hard")
PROPOSITION = 'To the question "{question}" the right answer is this: {answer}.'
NOTICE = (
    "research: the 128 bundled questions have answers that stand in textbooks, which models may know, and a "
    "martingale slope below about 0.16 cannot be told from none with so few."
)


class ResearchQuestion(Question, frozen=True):
    """A question with two answers: `options` in the order in which they are listed.

    No bundled question has a `known_on`, so `known_after` leaves all of them out.
    """

    science: str | None = None
    """The science it belongs to, such as "physics"."""
    asked: Answer
    """The answer that the proposition calls right: the proposition is true for "hard", false for "easy"."""
    first: Answer
    reason: str | None = None
    """Why the hard answer is right and the easy one tempts. Never shown to the model."""
    recorded: str | None = None


class ResearchRow(DomainRow):
    """A row. The data card, `research.md`, describes the fields."""

    question: Text = either("question", "input")
    easy: Text
    hard: Text
    asked: Answer | None = None
    first: Answer | None = None
    reason: Text | None = None
    science: Text | None = None
    recorded: Text | None = None

    def to_sample(self) -> Sample:
        """The sample of the row. What `asked` and `first` leave open is drawn by a hash of the id."""
        # Options and propositions are written without the answer's full stop.
        answers = {"easy": self.easy.strip().removesuffix("."), "hard": self.hard.strip().removesuffix(".")}
        if answers["easy"].casefold() == answers["hard"].casefold():
            raise ValueError(f"`easy` and `hard` are the same answer, {self.hard!r}; write two different ones")
        asked, first = self.asked or self._draw("asked"), self.first or self._draw("first")
        return self.build(
            ResearchQuestion,
            self.question,
            "yes" if asked == "hard" else "no",
            domain="research",
            form="options",
            options=[answers[first], answers["easy" if first == "hard" else "hard"]],
            proposition=PROPOSITION.format(question=self.question.strip(), answer=answers[asked]),
            asked=asked,
            first=first,
        )

    def _draw(self, name: str) -> Answer:
        return ANSWERS[sha(f"{name}/{self.id}".encode()).digest()[0] % 2]


research = Domain("research", ResearchRow, SOURCES, NOTICE)

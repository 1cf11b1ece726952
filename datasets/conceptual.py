"""Conceptual: thorny questions that need untangling first, each with a statement that can be believed or not."""

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.domain import Domain, DomainRow, either
from truthgym.datasets.question import Question, Text

NOTICE = (
    "conceptual: a martingale slope below about 0.25 cannot be told from none with the 72 bundled questions, and "
    "published ones are 0.02 to 0.12."
)


class ConceptualQuestion(Question, frozen=True):
    """A conceptual question."""

    topic: str | None = None
    """Field of thought, such as "mind" or "ethics"."""


class ConceptualRow(DomainRow):
    """A row. The data card, `conceptual.md`, describes the fields."""

    question: Text = either("question", "input")
    proposition: Text
    topic: Text | None = None

    def to_sample(self) -> Sample:
        """The sample of the row."""
        return self.build(ConceptualQuestion, self.question, domain="conceptual")


conceptual = Domain("conceptual", ConceptualRow, notice=NOTICE)

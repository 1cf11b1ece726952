"""Questions: your own file of yes-or-no questions with known outcomes, on any subject."""

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.domain import Domain, DomainRow, either
from truthgym.datasets.question import Day, Outcome, Probability, Question, Text, statement


class OwnRow(DomainRow):
    """A row. `docs/own_questions.md` describes the fields."""

    question: Text = either("question", "input")
    outcome: Outcome = either("outcome", "target")
    proposition: Text | None = None
    evidence: list[Text] | None = None
    opened_on: Day | None = None
    base_rate: Probability | None = None
    crowd: Probability | None = None

    def to_sample(self) -> Sample:
        """The sample of the row."""
        proposition = self.proposition or statement(self.question)
        return self.build(Question, self.question, self.outcome, domain="questions", proposition=proposition)


questions = Domain("questions", OwnRow)

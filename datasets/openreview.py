"""OpenReview: was a paper accepted at its venue? Its reviews, where they are known, are the evidence."""

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.domain import Domain, DomainRow, Source, either
from truthgym.datasets.question import Day, Outcome, Probability, Question, Text
from truthgym.datasets.sources import openreview_api, reviewbench
from truthgym.datasets.sources.openreview_api import event_of, outcome_of

NOTICE = (
    "openreview: the 40 bundled papers are for smoke tests only: models may remember the decisions, and a martingale "
    "slope below about 0.3 cannot be told from none with so few."
)
COUNTS = (
    "What counts: accepted means admitted to the venue itself, in whatever form it presents papers (talk, spotlight or "
    "poster). An invitation to a workshop instead does not count."
)


class OpenReviewQuestion(Question, frozen=True):
    """A paper that was submitted to a venue. `evidence` holds its reviews, `opened_on` is the day of submission."""

    title: str
    venue: str
    """Name and year, such as "ICLR 2020"."""
    decision: str | None = None
    """The venue's own words."""
    recorded: str | None = None


SOURCES = {
    "reviewbench": Source(reviewbench.reviewbench, reviewbench.LICENCE),
    "api": Source(openreview_api.api, openreview_api.LICENCE, live=True),
}
"""`reviewbench` has ICLR 2020 to 2023 with reviews, 1.1 GB, downloaded once."""


class PaperRow(DomainRow):
    """A row. The data card, `openreview.md`, describes the fields."""

    title: Text
    summary: Text
    venue: Text
    outcome: Outcome = either("outcome", "target")
    decision: Text | None = None
    reviews: list[Text] | None = None
    opened_on: Day | None = None
    base_rate: Probability | None = None
    crowd: Probability | None = None
    recorded: Text | None = None

    def to_sample(self) -> Sample:
        """The sample of the row."""
        decided = outcome_of(self.decision or "")
        if decided is not None and decided != self.outcome:
            raise ValueError(
                f"the decision {self.decision!r} and the outcome {self.outcome!r} contradict each other; correct one"
            )
        parts = [
            f"The paper below was submitted to {self.venue}. Was it accepted there?",
            f"Title: {self.title}",
            f"Summary: {self.summary}",
            COUNTS,
            f"The question is asked on {self.opened_on}." if self.opened_on else "",
        ]
        return self.build(
            OpenReviewQuestion,
            "\n\n".join(part for part in parts if part),
            self.outcome,
            domain="openreview",
            proposition=f'The paper "{self.title}" was accepted at {self.venue}.',
            evidence=self.reviews or [],
            event=self.event or event_of(self.title),
        )


openreview = Domain("openreview", PaperRow, SOURCES, NOTICE)

"""Forecasting: binary questions about the real world that have resolved, each asking for one probability."""

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.domain import Domain, DomainRow, Part, Source, either
from truthgym.datasets.question import Day, Outcome, Probability, Question, Text, statement
from truthgym.datasets.sources import forecastbench, halawi, metaculus, polymarket

SOURCES = {
    "forecastbench": Source(forecastbench.forecastbench, forecastbench.LICENCE),
    "halawi": Source(halawi.halawi, halawi.LICENCE),
    "polymarket": Source(polymarket.polymarket, polymarket.LICENCE, live=True),
    "metaculus": Source(metaculus.metaculus, metaculus.LICENCE, live=True),
}
"""`forecastbench` and `halawi` (questions of 2015 to 2024) are downloaded at a pinned revision."""
NOTICE = (
    "forecasting: today's models may remember how the 368 bundled questions ended, and a martingale slope below about "
    "0.1 cannot be told from none with so few; published ones are 0.02 to 0.12. Do not train on them: which events are "
    "asked about was chosen by people who knew the outcomes."
)

SERIES_NOTICE = (
    "forecasting: models trained after February 2026 may know how some of the 284 bundled questions ended; "
    "known_after=DAY keeps those that resolved after a day. A martingale slope below about 0.10 cannot be told from "
    "none with so few."
)


class ForecastingQuestion(Question, frozen=True):
    """A question about an event, from any source."""

    field: str | None = None
    """Subject area, such as "elections" or "space"; or the source of a benchmark's question, such as "fred"."""
    recorded: str | None = None


class ForecastingRow(DomainRow):
    """A row. The data card, `forecasting.md`, describes the fields."""

    question: Text = either("question", "input")
    outcome: Outcome = either("outcome", "target")
    proposition: Text | None = None
    background: Text | None = None
    criteria: Text | None = None
    opened_on: Day | None = None
    base_rate: Probability | None = None
    crowd: Probability | None = None
    field: Text | None = None
    recorded: Text | None = None

    def to_sample(self) -> Sample:
        """The sample of the row."""
        parts = [
            self.question,
            f"Background: {self.background}" if self.background else "",
            f"What counts: {self.criteria}" if self.criteria else "",
            f"The question is asked on {self.opened_on}." if self.opened_on else "",
        ]
        asked = "\n\n".join(part for part in parts if part)
        proposition = self.proposition or statement(self.question)
        return self.build(ForecastingQuestion, asked, self.outcome, domain="forecasting", proposition=proposition)


PARTS = {
    "series": Part("forecasting_series", SERIES_NOTICE),
    "events": Part("forecasting", NOTICE, selected_by_outcome=True),
}
forecasting = Domain("forecasting", ForecastingRow, SOURCES, parts=PARTS)

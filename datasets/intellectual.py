"""Intellectual demonstration: open prompts whose answers show depth of thought. A judge rates them."""

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.domain import Domain, DomainRow, Source, either
from truthgym.datasets.question import Outcome, Question, Text
from truthgym.datasets.sources import truthseekinggym

SOURCES = {"truthseekinggym": Source(truthseekinggym.prompts, truthseekinggym.LICENCE, live=True)}
NOTICE = (
    "intellectual: a difference in quality below about 0.03 (on the scale from 0 to 1) cannot be found with the 58 "
    "bundled prompts."
)


class IntellectualQuestion(Question, frozen=True):
    """An open prompt."""

    kind: str | None = None
    """The kind of answer it calls for, such as "explanation" or "critique"."""
    claim: str | None = None
    """A claim in the prompt that can be checked. No scorer reads it."""
    claim_holds: Outcome | None = None
    """Whether the claim is true."""
    recorded: str | None = None
    """The calculation or document that settles the claim."""


class IntellectualRow(DomainRow):
    """A row. The data card, `intellectual.md`, describes the fields."""

    prompt: Text = either("prompt", "question", "input")
    kind: Text | None = None
    claim: Text | None = None
    claim_holds: Outcome | None = None
    recorded: Text | None = None

    def to_sample(self) -> Sample:
        """The sample of the row."""
        if (self.claim is None) != (self.claim_holds is None):
            raise ValueError("`claim` and `claim_holds` go together; add the one that is missing")
        return self.build(IntellectualQuestion, self.prompt, domain="intellectual", form="free")


intellectual = Domain("intellectual", IntellectualRow, SOURCES, NOTICE)

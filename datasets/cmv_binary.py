"""ChangeMyView, binary: whether an exchange changed the view of a post's author, by the author's own word."""

from typing import Annotated

from inspect_ai.dataset import Sample
from pydantic import Field

from truthgym.datasets.loading.domain import Domain, DomainRow, Source, either
from truthgym.datasets.question import Outcome, Question, Text
from truthgym.datasets.sources import webis_cmv
from truthgym.datasets.sources.webis_cmv import threads
from truthgym.datasets.sources.winning_args import LICENCE as WINNING_ARGS
from truthgym.datasets.sources.winning_args import winning_args

SOURCES = {
    "webis": Source(webis_cmv.pairs, webis_cmv.LICENCE),
    "webis_threads": Source(threads, webis_cmv.LICENCE),
    "winning_args": Source(winning_args, WINNING_ARGS),
}
"""Each is downloaded once: `webis` (readers' arguments only) is 17 MB, `webis_threads` (with the author's replies) 661,
`winning_args` 73. All their exchanges ended by 2017."""
NOTICE = (
    "cmv_binary: the 52 bundled exchanges and their verdicts are synthetic, a smoke test; truthgym/cruxes measures "
    "persuasion. A martingale slope below about 0.25 cannot be told from none with so few."
)


class ChangeMyViewQuestion(Question, frozen=True):
    """An exchange about a view. Its evidence is the exchange, text by text."""

    view: str
    """The author's view, in one sentence."""
    topic: str | None = None
    """Its subject, such as "transport". The real sources have none."""
    synthetic: bool = False
    """Whether it was written for this project, the verdict included."""


class ChangeMyViewRow(DomainRow):
    """A row. The data card, `cmv_binary.md`, describes the fields."""

    view: Text
    post: Text
    exchange: Annotated[list[Text], Field(min_length=1)]
    """The replies in order."""
    outcome: Outcome = either("outcome", "target")
    topic: Text | None = None
    synthetic: bool = False

    def to_sample(self) -> Sample:
        """The sample of the row."""
        asked = (
            f"Somebody posted a view and asked others to change it.\n\nThe view: {self.view}\n\n"
            f"Why they hold it: {self.post}\n\n"
            "There was an exchange. Did the author say after it that it had changed the view, at least in part?"
        )
        proposition = (
            f'After an exchange about the view "{self.view}", its author said that the exchange had changed it, at '
            "least in part."
        )
        fields = {"domain": "cmv_binary", "proposition": proposition, "evidence": self.exchange}
        return self.build(ChangeMyViewQuestion, asked, self.outcome, **fields)


cmv_binary = Domain("cmv_binary", ChangeMyViewRow, SOURCES, NOTICE)

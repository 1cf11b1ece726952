"""ChangeMyView, free: views that people hold and contest, without the exchange. No truth is known for any of them."""

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.domain import Domain, DomainRow, Source
from truthgym.datasets.question import Question, Text
from truthgym.datasets.sources import webis_cmv, winning_args

SOURCES = {
    "webis": Source(webis_cmv.posts, webis_cmv.LICENCE),
    "winning_args": Source(winning_args.posts, winning_args.LICENCE),
}
"""Each is downloaded once: `webis` is 427 MB, `winning_args` 73 MB."""
NOTICE = (
    "cmv_freeform: a martingale slope below about 0.2 cannot be told from none with the 123 bundled views, and "
    "published ones are 0.05 to 0.12."
)


class ContestedViewQuestion(Question, frozen=True):
    """A contested view. Its proposition is the view itself."""

    topic: str | None = None
    """Its subject, such as "politics". The real sources have none."""


class ContestedViewRow(DomainRow):
    """A row. The data card, `cmv_freeform.md`, describes the fields."""

    view: Text
    post: Text
    topic: Text | None = None

    def to_sample(self) -> Sample:
        """The sample of the row."""
        asked = f"Is this view right?\n\n{self.view}\n\nOne who holds it writes: {self.post}"
        return self.build(ContestedViewQuestion, asked, domain="cmv_freeform", proposition=self.view)


cmv_freeform = Domain("cmv_freeform", ContestedViewRow, SOURCES, NOTICE)

"""WildChat: messages that people send to an assistant, most of them their first. No answer is known to be true."""

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.domain import Domain, DomainRow, Source, either
from truthgym.datasets.question import Question, Text
from truthgym.datasets.sources.wildchat_1m import LICENCE, message_filter, wildchat_1m

SOURCES = {"wildchat_1m": Source(wildchat_1m, LICENCE)}
"""Downloaded once, 3.4 GB. Give `n`: without it, all messages are held in memory."""
FOLLOW_UP = "A person has been talking with an assistant.\n\n{talk}\n\nWrite the assistant's next reply."
"""One text and not a list of messages, so that every reasoning mode and every judge sees the conversation."""
NOTICE = (
    "wildchat: a difference between two models below 0.24 standard deviations of the difference in a message's ratings "
    "cannot be found with the 135 bundled messages."
)


class WildChatQuestion(Question, frozen=True):
    """A message, with what was said before it if anything was. `known_on` is the day of its conversation."""

    language: str | None = None
    category: str | None = None
    """The kind of request, such as "code". WildChat-1M has none."""
    model: str | None = None
    turns: int | None = None
    """Number of the person's messages in that conversation."""
    country: str | None = None
    """Where the message was sent from."""
    earlier: tuple[str, ...] = ()
    """What was said before the message: the person's first text, the assistant's reply, and so on."""
    conversation_hash: str | None = None
    """WildChat's own hash, by which the conversation is found there. Conversations with the same words share it."""


class WildChatRow(DomainRow):
    """A row. The data card, `wildchat.md`, describes the fields."""

    message: Text = either("message", "question", "input")
    earlier: tuple[Text, ...] = ()
    language: Text | None = None
    category: Text | None = None
    model: Text | None = None
    turns: int | None = None
    country: Text | None = None
    conversation_hash: Text | None = None

    def to_sample(self) -> Sample:
        """The sample of the row."""
        if len(self.earlier) % 2:
            raise ValueError(f"`earlier` holds {len(self.earlier)} texts; end it with the assistant's last reply")
        texts = [*self.earlier, self.message]
        speakers = ("Person", "Assistant")
        talk = "\n\n".join(f"{speakers[i % 2]}: {text}" for i, text in enumerate(texts))
        asked = FOLLOW_UP.format(talk=talk) if self.earlier else self.message
        return self.build(WildChatQuestion, asked, domain="wildchat", form="free")


wildchat = Domain("wildchat", WildChatRow, SOURCES, NOTICE, row_filter=message_filter)

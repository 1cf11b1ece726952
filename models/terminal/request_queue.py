"""The desk: one question at a time is put to a person, and a conversation is kept together where it can be.

Inspect runs many samples at once, all of which may want the same person, as the model and in any role. Served in the
order of their coming, a person would think about the second question before the first is through.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import anyio
from inspect_ai.event import SpanBeginEvent, SpanEndEvent
from inspect_ai.log import Transcript
from inspect_ai.model import ChatMessage

LOOK = 0.1
"""Seconds between two looks at who is waiting."""
MOMENT = 1.0
"""Seconds after a reply in which only the same sample is served: its scorers may begin with a question of their own."""
PATIENCE = 60.0
"""The same while that sample is at work, such as with the other side of a debate."""

Said = tuple[str, str, Any]


def said(messages: Sequence[ChatMessage]) -> list[Said]:
    """Who said what in a conversation, in which epoch, and in which repetition where a judge is asked once more."""

    def time(known: dict[str, Any]) -> Any:  # noqa: ANN401 (JSON)
        return [known.get("epoch"), known["draw"]] if known.get("draw") else known.get("epoch")

    return [(message.role, message.text, time(message.metadata or {})) for message in messages]


def shared(one: Sequence[object], other: Sequence[object]) -> int:
    """How many items two sequences begin with in common."""
    same = [mine == yours for mine, yours in zip(one, other, strict=False)]
    return [*same, False].index(False)


def at_work(sample: Transcript) -> bool:
    """Whether a sample's solvers or scorers have begun something that has not ended."""
    begun = sum(isinstance(event, SpanBeginEvent) for event in sample.events)
    return begun > sum(isinstance(event, SpanEndEvent) for event in sample.events)


@dataclass(eq=False)
class Request:
    """Something that the person is asked."""

    messages: list[ChatMessage]
    sample: Transcript | None = None
    """What is written of the sample that asks: one object for each."""
    role: str | None = None
    tools: list[str] = field(default_factory=list)
    called: anyio.Event = field(default_factory=anyio.Event)

    @property
    def begun(self) -> bool:
        """Whether somebody has replied in the conversation before."""
        return any(message.role == "assistant" for message in self.messages)


@dataclass(frozen=True)
class Known:
    """What the person has just seen of a request."""

    messages: int = 0
    """How many of its messages, from the first."""
    whole: bool = False
    """Whether that is all of a conversation that the person has seen, with the reply."""
    last: bool = False
    """Whether that conversation is the one seen last."""


class Desk:
    """Where requests wait for the person."""

    def __init__(self) -> None:
        self._seen: list[list[Said]] = []
        """The conversations that the person has seen of the sample served last, each with the reply."""
        self._sample: Transcript | None = None
        self._free_since = -PATIENCE
        self._waiting: list[Request] = []
        self._served: Request | None = None

    @asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[None]:
        """Wait for the person, and keep all others waiting meanwhile."""
        self._waiting.append(request)
        try:
            while self._served is not request:
                if self._waiting[0] is request:  # the first in line looks after the line
                    self._call()
                    if self._served is not request:
                        await anyio.sleep(LOOK)
                else:
                    await request.called.wait()
                    request.called = anyio.Event()
            yield
        finally:
            if request in self._waiting:
                self._waiting.remove(request)
            if self._served is request:
                self._served, self._sample, self._free_since = None, request.sample, monotonic()
            if self._waiting:
                self._waiting[0].called.set()

    def seen(self, request: Request, reply: str) -> None:
        """Remember what the person has just seen and replied."""
        before = self._seen if request.sample is self._sample else []
        self._seen = [*before, [*said(request.messages), ("assistant", reply, None)]]
        self._sample = request.sample

    def known(self, request: Request) -> Known:
        """What the person has just seen of a request: nothing where all of it is, for it is asked again then."""
        asked = said(request.messages)
        found = Known()
        for conversation in reversed(self._seen if request.sample is self._sample else []):
            same = shared(asked, conversation)
            told = any(role != "system" for role, *_ in asked[:same])
            if found.messages < same < len(asked) and told:
                found = Known(same, same == len(conversation), conversation is self._seen[-1])
        return found

    def _call(self) -> None:
        """Call the next, unless somebody is served or the desk is kept free for what the last sample brings."""
        if self._served is not None:
            return

        def rank(request: Request) -> tuple[bool, bool, bool]:
            return request.sample is not self._sample, not self.known(request).last, not request.begun

        chosen = min(self._waiting, key=rank)
        if self._sample is not None and chosen.sample is not self._sample:
            kept_free = PATIENCE if at_work(self._sample) else MOMENT
            if monotonic() - self._free_since < kept_free:
                return
        self._waiting.remove(chosen)
        self._served = chosen
        chosen.called.set()

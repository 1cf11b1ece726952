"""The protocol by which one judge rates a trajectory: notes, examples, orders, rounds and bias probes."""

import random
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser, Model
from inspect_ai.util import collect

from truthgym.datasets.rated_trajectories import RatedTrajectory
from truthgym.scorers.judges.asking import AsyncOnce, ask, ask_for_text
from truthgym.scorers.judges.context import (
    STAGES,
    JudgedItem,
    JudgeNotes,
    RedTeam,
    injected,
    note_request,
    padded,
    rating_request,
)
from truthgym.scorers.judges.examples import mean_rating, orders_of, same_question
from truthgym.scorers.judges.rubric import Rubric
from truthgym.solvers.roles import model_fingerprint

SHARED = 1
"""Epoch of calls that all samples share: those on examples and held-out trajectories."""


@dataclass(frozen=True)
class Rating:
    """A judge's rating of one item."""

    numbers: dict[str, int] | None
    """From 0 to 100 by quality; None if the reply could not be parsed."""
    reasons: str | None
    unread: str | None
    repaired: bool = False
    """Whether the judge was asked twice."""

    @property
    def mean(self) -> float | None:
        """Mean over the qualities, from 0 to 1."""
        return sum(self.numbers.values()) / len(self.numbers) / 100 if self.numbers else None


@dataclass(frozen=True)
class RatingProtocol:
    """How every judge of a run rates: the validated arguments of `qualitative`, with their files loaded."""

    rubric: Rubric
    self_answer: bool
    red_team: RedTeam
    orders: int
    """Maximum number of orders in which the examples are shown."""
    rounds: int
    probes: tuple[str, ...]
    seed: int
    cache: bool
    examples: list[RatedTrajectory]
    """Examples that are shown, in their first order."""
    held_out: list[RatedTrajectory]
    bootstrap_rounds: int = 0
    bootstrap_permuted: bool = False
    candidates: list[RatedTrajectory] = field(default_factory=list)
    """Trajectories that bootstrapping draws from."""
    example_notes: AsyncOnce[JudgeNotes] = field(default_factory=lambda: AsyncOnce(lambda notes: not notes.missing))
    """Notes on examples, shared by all samples of a run."""

    def order_list(self, count: int) -> list[tuple[int, ...]]:
        """The orders in which `count` examples are shown: at least one, even for no example."""
        return orders_of(count, self.orders, self.seed)

    async def write_notes(
        self, judge: Model, item: JudgedItem, epoch: int, draw: int = 0, example_id: str | None = None
    ) -> JudgeNotes:
        """Let a judge answer the question, criticise the reasoning, defend it and resolve: one call each."""
        parts: dict[str, str] = {}
        missing: dict[str, str] = {}
        for name in [*(["own_answer"] if self.self_answer else []), *STAGES[self.red_team]]:
            if name != "own_answer" and missing.keys() & STAGES[self.red_team]:
                break  # each stage builds on the one before
            text, reason = await ask_for_text(
                judge,
                note_request(name, item, self.rubric, parts),
                epoch=epoch,
                name=name if example_id is None else f"{name}, example {example_id}",
                draw=draw,
                cache=self.cache,
            )
            if text is None:
                missing[name] = reason or "The reply was empty."
            else:
                parts[name] = text
        return JudgeNotes(parts, missing)

    async def notes_on_example(self, judge: Model, example: RatedTrajectory, draw: int) -> JudgeNotes:
        """A judge's notes on an example, written once for all samples."""
        item = JudgedItem(example.question, example.trajectory)
        write = partial(self.write_notes, judge, item, SHARED, draw, example.id)
        return await self.example_notes.get((model_fingerprint(judge), item, draw), write)

    async def messages(
        self, judge: Model, examples: Sequence[RatedTrajectory], draw: int, item: JudgedItem, notes: JudgeNotes
    ) -> list[ChatMessage]:
        """The conversation that asks for a rating: each example with its ratings, then the item."""
        messages: list[ChatMessage] = []
        for example in examples:
            example_notes = await self.notes_on_example(judge, example, draw)
            example_item = JudgedItem(example.question, example.trajectory)
            request = rating_request(example_item, example_notes, self.rubric, first=not messages)
            reply = self.rubric.form(reasons=example.reasons, **example.ratings)
            messages += [ChatMessageUser(content=request), ChatMessageAssistant(content=reply.model_dump_json())]
        return [*messages, ChatMessageUser(content=rating_request(item, notes, self.rubric, first=not messages))]

    async def rate(
        self,
        judge: Model,
        examples: Sequence[RatedTrajectory],
        item: JudgedItem,
        notes: JudgeNotes,
        epoch: int,
        name: str,
        round: int = 0,
        draw: int | None = None,
    ) -> Rating:
        """Rate an item once: one model call."""
        messages = await self.messages(judge, examples, round, item, notes)
        draw = round if draw is None else draw
        answer = await ask(judge, messages, self.rubric.form, epoch=epoch, name=name, draw=draw, cache=self.cache)
        if answer.form is None:
            return Rating(None, None, answer.reason, answer.repaired)
        numbers = {name: getattr(answer.form, name) for name in self.rubric.qualities}
        return Rating(numbers, answer.form.reasons, None, answer.repaired)

    async def judge_item(
        self, judge: Model, examples: Sequence[RatedTrajectory], item: JudgedItem, epoch: int
    ) -> dict[str, Any]:
        """Everything that one judge says about one item, as recorded in the score's metadata."""
        others_examples = [example for example in examples if not same_question(example, item)]
        orders = self.order_list(len(others_examples))
        rounds = range(self.rounds if others_examples else 1)
        notes = await self.write_notes(judge, item, epoch)
        calls = [
            self.rate(
                judge, [others_examples[i] for i in order], item, notes, epoch, f"order {k + 1}, round {r + 1}", r
            )
            for r in rounds
            for k, order in enumerate(orders)
        ]
        probes = self._probes(judge, others_examples, item, notes, epoch)
        replies = await collect(*calls, *probes.values())
        ratings, probed = replies[: len(calls)], dict(zip(probes, replies[len(calls) :], strict=True))
        by_round = [ratings[r * len(orders) : (r + 1) * len(orders)] for r in rounds]
        return {
            "ratings": [[_numbers(rating) for rating in row] for row in by_round],
            "last": [round(mean_rating(others_examples[order[-1]]), 4) for order in orders] if others_examples else [],
            "examples": [example.id for example in others_examples],
            "orders": [list(order) for order in orders] if others_examples else [],
            "probes": {name: _numbers(rating) for name, rating in probed.items()},
            "reasons": [rating.reasons for rating in ratings if rating.reasons][:2],
            "unread": [rating.unread for rating in replies if rating.unread][:2],
            "repaired": sum(rating.repaired for rating in replies),
            "beside": notes.parts,
            "missing": notes.missing,
        }

    def no_ratings(self, reason: str) -> dict[str, Any]:
        """The record in place of `judge_item` if a judge failed: every requested rating, all of them missing."""
        orders = len(self.order_list(len(self.examples)))
        rounds = self.rounds if self.examples else 1
        return {"ratings": [[None] * orders] * rounds, "last": [], "probes": {}, "reasons": [], "unread": [reason]}

    def _probes(
        self, judge: Model, examples: Sequence[RatedTrajectory], item: JudgedItem, notes: JudgeNotes, epoch: int
    ) -> dict[str, Coroutine[Any, Any, Rating]]:
        """The calls of the requested probes, each in the first order of the examples."""
        variants = {
            "retest": (item, notes, self.rounds),
            "swap": (item, notes.swapped(), None),
            "padded": (padded(item), notes, None),
            "injection": (injected(item, pad="padded" in self.probes), notes, None),
        }
        if not notes.swappable:
            del variants["swap"]
        return {
            name: self.rate(judge, examples, variant, its_notes, epoch, f"probe {name}", 0, draw)
            for name, (variant, its_notes, draw) in variants.items()
            if name in self.probes
        }


def _numbers(rating: Rating) -> list[int] | None:
    return list(rating.numbers.values()) if rating.numbers else None


@dataclass(frozen=True)
class HeldOut:
    """A judge's ratings of trajectories with known ratings, which it is never shown as examples."""

    given: list[float]
    """Known mean ratings, 0 to 1."""
    rated: list[list[float | None]] = field(default_factory=list)
    """The judge's mean ratings: one list with the first examples, and one after each bootstrapping round."""
    shown: list[int] = field(default_factory=list)
    """Number of examples shown for each list."""


async def build_examples(protocol: RatingProtocol, judge: Model) -> tuple[list[RatedTrajectory], HeldOut]:
    """Build the examples of a judge, and its ratings of the held-out ones before the first round and after each.

    Each bootstrapping round rates as many candidates as there are examples and adds them: the number doubles.
    """
    examples = list(protocol.examples)
    held_out = HeldOut([mean_rating(example) for example in protocol.held_out])
    await _rate_held_out(protocol, judge, examples, held_out)
    for round in range(protocol.bootstrap_rounds):
        candidates = _draw_candidates(protocol.candidates, examples, f"{protocol.seed} {round}")
        rated = await collect(*(_rate_candidate(protocol, judge, examples, candidate) for candidate in candidates))
        examples = examples + [candidate for candidate in rated if candidate]
        await _rate_held_out(protocol, judge, examples, held_out)
    return examples, held_out


async def rate_anchors(
    protocol: RatingProtocol, judge: Model, examples: Sequence[RatedTrajectory]
) -> list[float | None]:
    """A judge's mean rating of each held-out trajectory, 0 to 1; None if its reply cannot be parsed."""

    async def rate(anchor: RatedTrajectory) -> float | None:
        item = JudgedItem(anchor.question, anchor.trajectory)
        other_examples = [example for example in examples if not same_question(example, item)]
        notes = await protocol.notes_on_example(judge, anchor, 0)
        rating = await protocol.rate(judge, other_examples, item, notes, SHARED, f"held out {anchor.id}")
        return None if rating.mean is None else round(rating.mean, 4)

    return await collect(*(rate(anchor) for anchor in protocol.held_out))


def _draw_candidates(
    candidates: Sequence[RatedTrajectory], examples: Sequence[RatedTrajectory], seed: str
) -> list[RatedTrajectory]:
    """Draw at most as many candidates as there are examples, each about a question that has no example yet."""
    questions = {_normalised(example.question) for example in examples}
    order = sorted(candidates, key=lambda candidate: (candidate.id, candidate.trajectory))
    random.Random(seed).shuffle(order)
    selection: list[RatedTrajectory] = []
    for candidate in order:
        if _normalised(candidate.question) not in questions and len(selection) < len(examples):
            questions.add(_normalised(candidate.question))
            selection.append(candidate)
    return selection


def _normalised(question: str) -> str:
    return " ".join(question.lower().split())


async def _rate_candidate(
    protocol: RatingProtocol, judge: Model, examples: Sequence[RatedTrajectory], candidate: RatedTrajectory
) -> RatedTrajectory | None:
    """The candidate with the judge's ratings, averaged over orders; None if no reply can be parsed."""
    item = JudgedItem(candidate.question, candidate.trajectory)
    count = len(examples)
    orders = protocol.order_list(count) if protocol.bootstrap_permuted else [tuple(range(count))]
    notes = await protocol.notes_on_example(judge, candidate, 0)
    ratings: list[Rating] = await collect(
        *(
            protocol.rate(judge, [examples[i] for i in order], item, notes, SHARED, f"candidate {candidate.id}")
            for order in orders
        )
    )
    numbers = [rating.numbers for rating in ratings if rating.numbers]
    if not numbers:
        return None
    means = {name: round(sum(each[name] for each in numbers) / len(numbers)) for name in protocol.rubric.qualities}
    reasons = next(rating.reasons for rating in ratings if rating.reasons is not None)
    return candidate.model_copy(update={"ratings": means, "reasons": reasons.strip() or "No reasons were given."})


async def _rate_held_out(
    protocol: RatingProtocol, judge: Model, examples: Sequence[RatedTrajectory], held_out: HeldOut
) -> None:
    """Append the judge's ratings with these examples, if they are asked for."""
    if "anchors" in protocol.probes or protocol.bootstrap_rounds:
        held_out.shown.append(len(examples))
        held_out.rated.append(await rate_anchors(protocol, judge, examples))

"""How one judge comes to its ratings of a trajectory: what it writes beside it, the examples shown, and the orders."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser, Model
from inspect_ai.util import collect

from truthgym.datasets.rated_trajectories import RatedTrajectory
from truthgym.scorers.judges.asking import Verdict, ask
from truthgym.scorers.judges.async_cache import Once
from truthgym.scorers.judges.context import Beside, Case, request, written_beside
from truthgym.scorers.judges.examples import mean_rating, orders_of, same_question
from truthgym.scorers.judges.probes import injected, padded
from truthgym.scorers.judges.rubric import Rubric
from truthgym.solvers.roles import model_fingerprint

SHARED = 1
"""The epoch of what is made once for all samples: of examples and held-out trajectories."""


@dataclass(frozen=True)
class Settings:
    """The arguments of `qualitative`, checked."""

    rubric: Rubric
    self_answer: bool
    red_team: str
    few_shot: str
    orders: int
    rounds: int
    bootstrap_rounds: int
    bootstrap_permuted: bool
    probes: tuple[str, ...]
    seed: int
    cache: bool
    shown: list[RatedTrajectory] = field(default_factory=list)
    """Examples, in their first order; none where few_shot is disabled."""
    held_out: list[RatedTrajectory] = field(default_factory=list)
    candidates: list[RatedTrajectory] = field(default_factory=list)
    """For bootstrapping."""

    def order_list(self, count: int) -> list[tuple[int, ...]]:
        """The orders in which so many examples are shown: at least one, also of none."""
        return orders_of(count, self.orders if self.few_shot == "permuted" else 1, self.seed)


@dataclass(frozen=True)
class Rating:
    """A judge's rating of one trajectory."""

    numbers: dict[str, int] | None
    """From 0 to 100 by quality; None where it could not be read."""
    reasons: str | None
    unread: str | None
    """Why it could not be read."""

    @property
    def mean(self) -> float | None:
        """Mean over the qualities, on the scale from 0 to 1."""
        return sum(self.numbers.values()) / len(self.numbers) / 100 if self.numbers else None


class Jury:
    """What the judges of a run share among its samples."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.written: Once[Beside] = Once()

    async def beside(self, judge: Model, item: RatedTrajectory, draw: int) -> Beside:
        """What a judge writes beside an example, made once for all samples."""
        case = Case(item.question, item.trajectory)
        write = partial(self.write, judge, case, SHARED, draw, item.id)
        return await self.written.get((model_fingerprint(judge), case, draw), write)

    async def write(self, judge: Model, case: Case, epoch: int, draw: int = 0, whose: str | None = None) -> Beside:
        """What a judge writes beside a trajectory: see `red_team.written_beside`."""
        s = self.settings
        return await written_beside(judge, case, s.rubric, s.self_answer, s.red_team, epoch, draw, s.cache, whose)

    async def messages(
        self, judge: Model, examples: Sequence[RatedTrajectory], draw: int, case: Case, beside: Beside
    ) -> list[ChatMessage]:
        """The request for a rating, after the examples in the same shape."""
        said: list[ChatMessage] = []
        for item in examples:
            parts = await self.beside(judge, item, draw)
            told = Case(item.question, item.trajectory)
            said.append(ChatMessageUser(content=request(told, parts, self.settings.rubric, first=not said)))
            said.append(ChatMessageAssistant(content=self._form(item).model_dump_json()))
        return [*said, ChatMessageUser(content=request(case, beside, self.settings.rubric, first=not said))]

    def _form(self, item: RatedTrajectory) -> Verdict:
        return self.settings.rubric.form(reasons=item.reasons, **item.ratings)

    async def rate(
        self,
        judge: Model,
        examples: Sequence[RatedTrajectory],
        case: Case,
        beside: Beside,
        epoch: int,
        name: str,
        round: int = 0,
        draw: int | None = None,
    ) -> Rating:
        """One rating: a model call.

        Args:
            judge: The judge.
            examples: Shown before, in this order.
            case: What is rated.
            beside: What the judge wrote of it.
            epoch: The epoch.
            name: Shown in the transcript.
            round: The recomputation round, by which what stands beside the examples is told apart.
            draw: Another number rates anew; by default the round.
        """
        s = self.settings
        said = await self.messages(judge, examples, round, case, beside)
        drawn = round if draw is None else draw
        answer = await ask(judge, said, s.rubric.form, epoch=epoch, name=name, draw=drawn, cache=s.cache)
        if answer.form is None:
            return Rating(None, None, answer.reason)
        return Rating({name: getattr(answer.form, name) for name in s.rubric.qualities}, answer.form.reasons, None)

    async def judged(self, judge: Model, examples: Sequence[RatedTrajectory], case: Case, epoch: int) -> dict[str, Any]:
        """All that one judge says of one trajectory, as it stands in the score's metadata."""
        s = self.settings
        shown = [item for item in examples if not same_question(item, case)]
        orders = s.order_list(len(shown))
        rounds = range(s.rounds if shown else 1)
        beside = await self.write(judge, case, epoch)
        asked = [
            self.rate(judge, [shown[i] for i in order], case, beside, epoch, f"order {k + 1}, round {r + 1}", r)
            for r in rounds
            for k, order in enumerate(orders)
        ]
        probes = self._probes(judge, shown, case, beside, epoch)
        ratings = await collect(*asked, *probes.values())
        made, probed = ratings[: len(asked)], dict(zip(probes, ratings[len(asked) :], strict=True))
        unread = [rating.unread for rating in ratings if rating.unread]
        return {
            "ratings": [[_numbers(rating) for rating in made[r * len(orders) : (r + 1) * len(orders)]] for r in rounds],
            "last": [round(mean_rating(shown[order[-1]]), 4) for order in orders] if shown else [],
            "examples": [item.id for item in shown],
            "orders": [list(order) for order in orders] if shown else [],
            "probes": {name: _numbers(rating) for name, rating in probed.items()},
            "reasons": [rating.reasons for rating in made if rating.reasons][:2],
            "unread": unread[:2],
            "beside": beside.parts,
            "missing": beside.missing,
        }

    def nothing(self, reason: str) -> dict[str, Any]:
        """What stands in the place of `judged` where a judge failed: every rating asked for, and none given."""
        orders = len(self.settings.order_list(len(self.settings.shown)))
        rounds = self.settings.rounds if self.settings.shown else 1
        return {"ratings": [[None] * orders] * rounds, "last": [], "probes": {}, "reasons": [], "unread": [reason]}

    def _probes(
        self, judge: Model, shown: Sequence[RatedTrajectory], case: Case, beside: Beside, epoch: int
    ) -> dict[str, Any]:
        s = self.settings
        given = {
            "retest": (case, beside, s.rounds),
            "swap": (case, beside.swapped(), None),
            "padded": (padded(case), beside, None),
            "injection": (injected(case, among_filler="padded" in s.probes), beside, None),
        }
        wanted = [name for name in given if name in s.probes and (name != "swap" or beside.swappable)]
        return {
            name: self.rate(judge, shown, of, written, epoch, f"probe {name}", 0, draw)
            for name, (of, written, draw) in given.items()
            if name in wanted
        }


def _numbers(rating: Rating) -> list[int] | None:
    return list(rating.numbers.values()) if rating.numbers else None

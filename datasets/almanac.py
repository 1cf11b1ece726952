"""Almanac: will it be above X on day D? Generated forecasting questions with dated news, each with the exact answer."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Literal

from inspect_ai.dataset import Sample
from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.datasets.loading.generated import (
    GeneratedQuestion,
    generate,
    logit,
    names,
    probability,
    wordings,
    world_sample,
)
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.worlds.almanac import KINDS, Reading, paths


@dataclass(frozen=True)
class Wording:
    """One wording of a kind of world. `{case}` numbers the question, `{k}` the week, whose day is `{day}`."""

    name: str
    kind: str
    """A key of `KINDS`."""
    asked: str
    rules: str
    counts: str
    proposition: str
    news: Mapping[str, str]
    """Templates of a week's news. "first", if there is one, is that of week 1."""

    @property
    def template(self) -> str:
        """The whole question. `{past}` is the news up to the day on which it is asked."""
        return (
            f"{self.asked}\n\nBackground: {self.rules} The news so far: {{past}}\n\nWhat counts: {self.counts}\n\n"
            "The question is asked on {opened}."
        )


WORDINGS = wordings("almanac", Wording)


OPENED = date(2025, 3, 3)
"""The day on which every question is asked."""
TRADERS = 8


class AlmanacQuestion(GeneratedQuestion, frozen=True):
    """A question with what it was generated from."""

    kind: str
    """The kind of world."""
    numbers: dict[str, int]
    """What the background states, by field of its wording; chances in 100."""
    readings: list[list[int]]
    """The figures of each week's news, in the order of `Kind.fields`: those of the background, then the evidence."""
    weeks: int
    """The week on which the question resolves, counted from the first reading as week 1."""


@validate_call
def almanac(
    n: Annotated[int, Field(ge=1)] = 300,
    seed: int = 0,
    split: str = "all",
    kind: Literal["all", "polls", "reservoir", "league", "outbreak", "price"] = "all",
    history: Annotated[int, Field(ge=1, le=6)] = 2,
    news: Annotated[int, Field(ge=1, le=12)] = 4,
    ahead: Annotated[int, Field(ge=1, le=12)] = 3,
) -> Questions:
    """Generate forecasting questions about small worlds, with dated news as evidence.

    Args:
        kind: The kind of world, or "all": each question draws one.
        history: Weeks of news that the background tells, 1 to 6.
        news: Weeks of news that follow as evidence, 1 to 12.
        ahead: Weeks from the last news to the day on which the question resolves, 1 to 12. More weeks make the answer
            less certain.
    """
    wordings = [wording for wording in WORDINGS if kind in ("all", wording.kind)]
    difficulty = f"{kind}-history{history}-news{news}-ahead{ahead}"

    def make(i: int) -> Sample:
        return _question(seed, i, wordings, history, news, ahead, difficulty)

    return generate("almanac", make, n, split)


def crowd_of(rng: random.Random, exact: float, naive: float) -> float:
    """What simulated traders give on the day of the question: the mean of their log-odds, as a probability.

    Each trader's log-odds lie somewhere between those of the exact and the naive reader of the background, evenly, with
    a normal error of standard deviation 0.5. So the crowd knows nothing that the background does not say.
    """
    bids = [logit(exact) + rng.random() * (logit(naive) - logit(exact)) + rng.gauss(0, 0.5) for _ in range(TRADERS)]
    return round(min(max(probability(sum(bids) / TRADERS), 0.01), 0.99), 2)


def _question(
    seed: int, i: int, wordings: Sequence[Wording], history: int, news: int, ahead: int, difficulty: str
) -> Sample:
    rng = random.Random(f"almanac/{seed}/{i}/{difficulty}")
    wording = rng.choice(wordings)
    kind = KINDS[wording.kind]
    place, *houses = names(rng, 3)
    numbers = {name: rng.randint(*ends) for name, ends in kind.ranges.items()}
    weeks = history + news + ahead
    states = [kind.begin(rng, numbers)]
    for _ in range(weeks - 1):
        states.append(kind.move(rng, numbers, states[-1]))
    truth = kind.ends(rng, numbers, states[-1])
    readings = kind.read(rng, numbers, states[: history + news])

    exact, naive = paths(kind, numbers, readings, weeks)
    case = 1000 + i
    identity = f"almanac-{i:05d}-seed{seed}-{difficulty}"
    days = [OPENED + timedelta(weeks=week - history) for week in range(1, weeks + 1)]
    reported = [
        _template(wording, week).format(case=case, k=week, day=days[week - 1], **_figures(kind.fields, reading, houses))
        for week, reading in enumerate(readings, start=1)
    ]
    slots: dict[str, object] = {"case": case, "place": place, "by": days[-1], **numbers}
    asked = wording.template.format(
        **slots, first=houses[0], second=houses[1], opened=OPENED, past=" ".join(reported[:history])
    )
    return world_sample(
        AlmanacQuestion, identity, asked, truth,
        proposition=wording.proposition.format(**slots), evidence=reported[history:], opened_on=OPENED,
        base_rate=exact[0], crowd=crowd_of(rng, exact[history], naive[history - 1]), posterior=exact[history:],
        naive=naive[history - 1 :], surface=wording.name, kind=kind.name, numbers=numbers,
        readings=[list(reading) for reading in readings], weeks=weeks,
    )  # fmt: skip


def _template(wording: Wording, week: int) -> str:
    return wording.news["first" if week == 1 and "first" in wording.news else "news"]


def _figures(fields: Sequence[str], reading: Reading, houses: Sequence[str]) -> Mapping[str, object]:
    return {name: houses[x] if name == "house" else x for name, x in zip(fields, reading, strict=True)}

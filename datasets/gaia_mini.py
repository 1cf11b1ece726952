"""GAIA mini: questions in the form of GAIA (Mialon et al. 2023) about invented countries, with records and tables."""

import random
from collections.abc import Sequence
from typing import Annotated

from inspect_ai.dataset import Sample
from pydantic import Field, SkipValidation

from truthgym.datasets.agent_bench_mini import SIZE, archive_question, event_in
from truthgym.datasets.agent_worlds import TABLES, YEARS, Fact, World, phrase, world
from truthgym.datasets.errors import BadInput, names_in, validate_call
from truthgym.datasets.loading.generated import generate
from truthgym.datasets.loading.selection import Questions

NAME = "gaia_mini"
LEVELS: dict[int, tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]]] = {
    1: ((80, 95), (0, 5), (0, 5), (1, 1)),
    2: ((75, 90), (0, 10), (0, 5), (1, 2)),
    3: ((70, 90), (0, 15), (0, 10), (2, 4)),
}
"""By level: ranges of the percent of questions that can be answered, of records that a search overlooks and of calls
that fail, and of the hops of each chain. Level 1 has one chain and one table, level 2 two chains and one table, level 3
two chains and two tables."""


@validate_call
def gaia_mini(
    n: Annotated[int, Field(ge=1)] = 30,
    seed: int = 0,
    split: str = "test",
    level: Annotated[int | str | Sequence[int], SkipValidation] = (1, 2, 3),
    python: bool = False,
) -> Questions:
    """Generate questions that need several records and attached tables.

    Args:
        level: 1, 2, 3, or several of them.
        python: Whether the tool `python` is given too, which needs a sandbox.
    """
    named = names_in(level)
    if not named or not set(named) <= {"1", "2", "3"}:
        raise BadInput(f"{NAME}: level={level!r} cannot be used; give 1, 2 or 3, or several such as 1,3")
    levels = [int(text) for text in named]
    tools = ["search", "retrieve", "attachment", *(["python"] if python else [])]

    def make(i: int) -> Sample:
        own = levels[i % len(levels)]
        return _question(event_in(split, f"{NAME}-{i:05d}", f"seed{seed}-level{own}"), 1000 + i, own, tools)

    return generate(NAME, make, n, split)


def _question(event: str, case: int, level: int, tools: list[str]) -> Sample:
    rng = random.Random(event)
    *ranges, hops = LEVELS[level]
    percents = [rng.randint(*ends) for ends in ranges]
    place = world(event, SIZE)
    chains = _chains(rng, place, level, hops)
    ends = [chain[-1].object for chain in chains]
    needs = []
    for chain, end in zip(chains, ends, strict=True):
        needs += [*(fact.subject for fact in chain), f"{TABLES[place.kinds[end]][0]}: {end}"]
    text, answer = _asked(rng, place, level, [phrase(c[0].subject, [f.relation for f in c]) for c in chains], ends)
    return archive_question(
        rng, event, case, place, percents, text, needs=needs, answer=answer, told=[c[0].subject for c in chains],
        ways=[(f.subject, f.relation) for c in chains for f in c], kind=f"level_{level}", tools=tools,
    )  # fmt: skip


def _chains(rng: random.Random, place: World, level: int, hops: tuple[int, int]) -> list[list[Fact]]:
    """One chain, or two without a place in common, whose ends are of one kind at level 2 and of two at level 3."""
    while True:
        chains = [place.chain(rng, rng.randint(*hops)) for _ in range(1 if level == 1 else 2)]
        met = [name for chain in chains for name in (*(fact.subject for fact in chain), chain[-1].object)]
        if len(set(met)) == len(met) and len({place.kinds[chain[-1].object] for chain in chains}) == max(1, level - 1):
            return chains


def _asked(rng: random.Random, place: World, level: int, whose: list[str], ends: list[str]) -> tuple[str, str]:
    """The question in words, and its answer."""
    numbers, counted = [place.counts[end] for end in ends], [TABLES[place.kinds[end]][1] for end in ends]
    first, last = sorted(rng.sample(range(len(YEARS)), 2))
    if level == 1:
        text = f"What are the {counted[0]} of {whose[0]} in all from {YEARS[first]} to {YEARS[last]}?"
        return text, str(sum(numbers[0][first : last + 1]))
    if level == 2:
        more = [sum(number[first : last + 1]) for number in numbers]
        text = (
            f"Compare the {counted[0]} in all from {YEARS[first]} to {YEARS[last]} of {whose[0]} with those of "
            f"{whose[1]}. By how many do the larger exceed the smaller?"
        )
        return text, str(max(more) - min(more))
    best = numbers[0].index(max(numbers[0]))
    text = (
        f"Take the year from {YEARS[0]} to {YEARS[-1]} for which the table gives the most {counted[0]} of {whose[0]}. "
        f"How many {counted[1]} are given there, in that year, for {whose[1]}?"
    )
    return text, str(numbers[1][best])

"""GAIA mini: questions at three levels that need several records, tables that come with them, and a sum or comparison.

The form is that of GAIA (Mialon et al. 2023), the content invented: each question has a country of its own.
"""

import random
from collections.abc import Sequence
from itertools import count
from typing import Annotated

from inspect_ai.dataset import Sample
from pydantic import Field, SkipValidation

from truthgym.datasets.agent_bench_mini import RULES, SEVERAL_MISSING, TABLE, call_budget, in_calls
from truthgym.datasets.agent_worlds import TABLES, YEARS, AgentQuestion, Fact, World, phrase, world
from truthgym.datasets.errors import BadInput, names_in, validate_call
from truthgym.datasets.loading.generated import generate, world_sample
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.question import split_of

NAME = "gaia_mini"
SIZE = 60
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

    Question i depends only on the seed, i and the levels: a longer set begins with the shorter one.

    Args:
        n: Number of questions. The levels take turns.
        seed: Another seed gives other worlds.
        split: "train", "validation", "test" or "all". Every question is its own event. The default is what training
            refuses.
        level: 1, 2, 3, or several of them.
        python: Whether the tool `python` is given too, which needs a sandbox.

    Raises:
        BadInput: An argument outside its range, or an unknown split.
    """
    named = names_in(level)
    if not named or not set(named) <= {"1", "2", "3"}:
        raise BadInput(f"{NAME}: level={level!r} cannot be used; give 1, 2 or 3, or several such as 1,3")
    levels = [int(text) for text in named]
    tools = ["search", "retrieve", "attachment", *(["python"] if python else [])]

    def make(i: int) -> Sample:
        for draw in count():
            event = f"{NAME}-{i:05d}.{draw}-seed{seed}-level{levels[i % len(levels)]}"
            if split in ("all", split_of(event)):
                return _question(event, 1000 + i, levels[i % len(levels)], tools)
        raise AssertionError("count() does not end")

    return generate(NAME, make, n, split)


def _question(event: str, case: int, level: int, tools: list[str]) -> Sample:
    rng = random.Random(event)
    *percents, hops = LEVELS[level]
    base, miss, failure = (rng.randint(*ends) for ends in percents)
    place = world(event, SIZE)
    chains = _chains(rng, place, level, hops)
    ends = [chain[-1].object for chain in chains]
    files = sorted({TABLES[place.kinds[end]][0] for end in ends})
    needs = []
    for chain, end in zip(chains, ends, strict=True):
        needs += [*(fact.subject for fact in chain), f"{TABLES[place.kinds[end]][0]}: {end}"]
    text, answer = _asked(rng, place, level, [phrase(c[0].subject, [f.relation for f in c]) for c in chains], ends)
    missing = "" if rng.random() < base / 100 else rng.choice(needs)
    budget = call_budget(base / 100, miss / 100, failure / 100, len(needs), len(files))
    described = {TABLES[kind][0]: (TABLES[kind][1], kind) for kind in TABLES}
    tables = (
        TABLE.format(file=file, counted=described[file][0], kind=described[file][1], first=YEARS[0], last=YEARS[-1])
        for file in files
    )
    asked = RULES.format(
        case=case, question=text, base=base, otherwise=SEVERAL_MISSING.format(needs=len(needs)), miss=miss,
        table="".join(tables), failure=failure, budget=in_calls(budget), form="a number",
    )  # fmt: skip
    return world_sample(
        AgentQuestion, event, asked, not missing, base_rate=base / 100,
        proposition=f"The archive of country {case} has all the sources that this question needs: {text}",
        kind=f"level_{level}", needs=needs, answer=answer, missing=missing, world=event, size=SIZE,
        told=[chain[0].subject for chain in chains], ways=[(f.subject, f.relation) for chain in chains for f in chain],
        tools=tools,
        attachments=files, miss=miss, failure=failure, budget=budget,
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

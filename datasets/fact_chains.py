"""Fact chains: a start, and relations to follow from record to record. How far does a model come without an error?"""

import random
from collections.abc import Sequence
from typing import Annotated

from inspect_ai.dataset import Sample
from pydantic import Field, SkipValidation

from truthgym.datasets.agent_bench_mini import SIZE, event_in
from truthgym.datasets.agent_worlds import AgentQuestion, world
from truthgym.datasets.errors import BadInput, names_in, validate_call
from truthgym.datasets.loading.generated import generate
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.question import question, sample

NAME = "fact_chains"
HOPS = (2, 3, 4, 6, 8, 12, 16)
MAX_HOPS = 16
ASK = (
    "The archive of country {case} has a record of each of its people, towns and guilds, which says how they are "
    "related. Begin with {start}, and follow {hops} relations, each from where the one before it led:\n\n{relations}"
    "\n\nWhere does the last one lead? A search lists up to 5 records whose names or kinds fit best; a "
    "record that it lists can be read by its number. No record is missing and no call fails. Use at most {budget} "
    "calls: needless ones count against you.\n\nBegin your final reply with a line `Answer: X`, where X is a name "
    "alone."
)


class ChainQuestion(AgentQuestion, frozen=True):
    """A chain. `needs` are the entities whose records must be read, the start first."""

    relations: list[str]
    """The relation of each hop."""


@validate_call
def fact_chains(
    n: Annotated[int, Field(ge=1)] = 70,
    seed: int = 0,
    split: str = "test",
    hops: Annotated[int | str | Sequence[int], SkipValidation] = HOPS,
) -> Questions:
    """Generate chains of relations.

    Args:
        hops: Lengths of the chains, 1 to 16, which take turns: one number, or several.
    """
    lengths = _lengths(hops)

    def make(i: int) -> Sample:
        k = lengths[i % len(lengths)]
        return _chain(event_in(split, f"{NAME}-{i:05d}", f"seed{seed}-hops{k}"), 1000 + i, k)

    return generate(NAME, make, n, split)


def _lengths(hops: object) -> list[int]:
    lengths = names_in(hops)
    if not lengths or not all(length.isdecimal() and 1 <= int(length) <= MAX_HOPS for length in lengths):
        raise BadInput(f"{NAME}: hops={hops!r} cannot be used; give whole numbers from 1 to {MAX_HOPS}, such as 2,4,8")
    return [int(length) for length in lengths]


def _chain(event: str, case: int, hops: int) -> Sample:
    facts = world(event, SIZE).chain(random.Random(event), hops)
    relations = [fact.relation for fact in facts]
    listed = "\n".join(f"{i}. {relation}" for i, relation in enumerate(relations, start=1))
    asked = ASK.format(case=case, start=facts[0].subject, hops=hops, relations=listed, budget=2 * hops)
    metadata = question(
        ChainQuestion, event, domain=NAME, event=event, form="free", kind=f"hops_{hops:02d}", base_rate=1.0,
        needs=[fact.subject for fact in facts], answer=facts[-1].object, world=event, size=SIZE,
        tools=["search", "retrieve"], budget=2 * hops, relations=relations,
    )  # fmt: skip
    return sample(event, asked, None, metadata, event)

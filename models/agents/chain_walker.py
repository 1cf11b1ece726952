"""A simulated agent that follows a chain of relations by what its tools show, and takes a planted share of wrong turns.

It reads the conversation as it is shown: the last record says where it is, the number of records that it read how far.
"""

import re
from typing import Any

from truthgym.datasets.agent_worlds import NOTHING, World
from truthgym.datasets.fact_chains import ChainQuestion
from truthgym.datasets.question import ASKED
from truthgym.models.agents.policies import Parameters, generator, uniform

NAME = "walker"
PARAMETERS = ("slip", "seed", "own_belief", "noise")
READ = re.compile(r"\(I call retrieve with ")
LAST = re.compile(r"(?:^|\n\n)(search|retrieve)(?: failed: [^\n]*)? answers:\n\n(.*?)(?=\n\n|\Z)", re.DOTALL)


def call_of(text: str, epoch: int, parameters: Parameters) -> tuple[str, dict[str, Any]] | None:
    """The call that it makes next, or None if it answers, or does not know where it is."""
    question = _question(text)
    at = None if question is None else _place(question, text, epoch, parameters)
    if question is None or at is None:
        return None
    results = LAST.findall(text)
    if len(READ.findall(text)) > len(question.relations) - 1:
        return None
    if not results or results[-1][0] == "retrieve":
        return "search", {"query": at}
    listed = re.search(rf"No\. (\d+): {re.escape(at)},", results[-1][1])
    return ("retrieve", {"number": int(listed[1])}) if listed else None


def answer_of(text: str, epoch: int, parameters: Parameters) -> str:
    """What it writes on the line `Answer:`, or "" for a text without a chain."""
    question = _question(text)
    return "" if question is None else _place(question, text, epoch, parameters) or "none"


def own_belief(text: str, parameters: Parameters) -> float | None:
    """What it says of its own answer, or None for a text without a chain. It does not notice its slips.

    Unless another number is planted: the chance to be on the right way after every hop, to which a wrong one leads back
    by chance, once in as many times as there are entities of a kind.
    """
    question = _question(text)
    if question is None:
        return None
    right, back = 1.0, 3 / question.size
    for _ in question.relations:
        right = right * (1 - parameters.slip) + (1 - right) * back
    return right if parameters.own_belief is None else parameters.own_belief


def _question(text: str) -> ChainQuestion | None:
    asked = ASKED.get()
    if asked is None or "relations" not in asked.metadata or asked.input not in text:
        return None
    return ChainQuestion.model_validate(asked.metadata)


def _place(question: ChainQuestion, text: str, epoch: int, parameters: Parameters) -> str | None:
    """Where the relations that it has followed led it; None if nothing that is shown says so."""
    read = len(READ.findall(text))
    results = LAST.findall(text)
    if not read:
        return question.needs[0]
    place = question.archive().world
    last, shown = results[-1] if results else ("", "")
    if last == "search":  # it looked for the place that it now reads of
        called = re.findall(r"\(I call search with \{\"query\": \"(\w+)\"\}\.\)", text)
        return called[-1] if called and NOTHING not in shown else None
    name = shown.split(",")[0].strip()
    if name not in place.kinds:
        return None
    return _followed(place, name, question.relations[read - 1], (question.event, epoch, read), parameters)


def _followed(place: World, name: str, relation: str, hop: tuple[object, ...], parameters: Parameters) -> str | None:
    """Where a relation leads from an entity, or with the chance of a slip another entity of the same kind."""
    fact = place.facts.get((name, relation))
    if fact is None:
        return None
    if uniform("slip", parameters.seed, *hop) >= parameters.slip:
        return fact.object
    kind = place.kinds[fact.object]
    others = [one for one, other in place.kinds.items() if other == kind and one not in (fact.object, name)]
    return others[generator("slip to", parameters.seed, *hop).integers(len(others))]

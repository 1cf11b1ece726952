r"""Questions that are answered with tools, and what each call of a tool says of whether they can be answered.

A question needs one or more sources in turn: records, each of which names the next, and perhaps a row of a table. With
the stated chance b all of them exist; otherwise exactly one of the h is missing, each with the same chance. A search
overlooks a fitting record with the stated chance m. So after any calls the probability that the question can be
answered is known exactly:

$$P(\text{all})\propto b\prod_j m^{k_j},\qquad P(j\text{ missing})\propto\frac{1-b}{h}\prod_{i\ne j}m^{k_i}$$

where $k_j$ searches would have listed the record j and did not; the second is 0 once j has been seen. Failed calls say
nothing. Nothing else does, since the archive is closed (`agent_worlds.archive`): a record is not looked up before a
record that was read names it, no other record names it, the catalogue has names and kinds alone, and a table has as
many rows with a missing one as without. A table says something of a row from when the row's name is known.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

from truthgym.datasets.agent_worlds.archive import Archive, Call, count
from truthgym.datasets.agent_worlds.world import world
from truthgym.datasets.question import Question

REFUSAL = 0.1
"""A reader may say that a question has no answer when the probability that it has one is at most this."""
STORED_CALLS = "AgentTask:calls"
"""Store key of a sample's calls of tools, as `Call` with its fields in a dict."""
TOOLS = ("search", "retrieve", "attachment", "python")
WEB_SEARCH = "web_search"


class AgentQuestion(Question, frozen=True):
    """A question with what it was generated from. The proposition is that the sources have its answer."""

    kind: str
    """Class of the task, such as "multi_step"."""
    needs: list[str]
    """The sources in order: the name of a record's entity, or "FILE: ROW" for a row of a table."""
    answer: str
    """The answer, which is known even if the archive does not have it."""
    missing: str = ""
    """Of the sources, the one that is missing; "" if none is."""
    world: str
    """Key of the world."""
    size: int
    """Number of its entities."""
    told: list[str] = []  # noqa: RUF012 (pydantic copies it)
    """Names that the text tells, where the archive is closed."""
    ways: list[tuple[str, str]] = []  # noqa: RUF012
    """Subject and relation of the facts that lead from source to source, and that nothing else leads to."""
    tools: list[str]
    """Names of the tools, of `TOOLS`, or `WEB_SEARCH` in the place of "search"."""
    attachments: list[str] = []  # noqa: RUF012 (pydantic copies it)
    """Names of the tables that the question comes with."""
    miss: int = 0
    """Percent of the fitting records that a search overlooks."""
    failure: int = 0
    """Percent of the calls that fail."""
    delay: float = 0.0
    """Mean seconds that a call takes."""
    budget: int
    """Calls that the text allows. It depends on nothing that the text does not say."""

    @property
    def chains(self) -> list[list[str]]:
        """The sources in chains, which can be read in any order. A row of a table ends a chain."""
        chains: list[list[str]] = [[]]
        for need in self.needs:
            chains[-1].append(need)
            if ": " in need:
                chains.append([])
        return [chain for chain in chains if chain]

    def archive(self, epoch: int = 1) -> Archive:
        """What its tools search and read."""
        key = f"{self.event}/{epoch}"
        place = world(self.world, self.size, tuple(self.ways))
        return Archive(key, place, tuple(self.told), self.missing, self.miss, self.failure, self.delay)


def answerable_path(question: AgentQuestion, calls: Sequence[Call]) -> list[float]:
    """The exact probability that the question can be answered: before any call, and after each."""
    return [_answerable(question, calls[:k]) for k in range(len(calls) + 1)]


def _answerable(question: AgentQuestion, calls: Sequence[Call]) -> float:
    base, needs, miss = question.base_rate or 0.0, question.needs, question.miss / 100
    archive = question.archive()
    overlooked = dict.fromkeys(needs, 0)
    seen: set[str] = set()
    rows: dict[str, tuple[str, ...]] = {}
    for k, call in enumerate(calls):
        if call.failed:
            continue
        if call.tool == "attachment":
            rows[str(call.arguments.get("name"))] = call.shown
        seen.update(call.shown if call.tool in ("search", "retrieve") else ())
        if call.tool == "search":
            asked = archive.ranking(str(call.arguments.get("query")), archive.open_names(calls[:k]))
            for name in {*asked} & {*needs} - {*call.shown}:
                overlooked[name] += 1
    known = archive.open_names(calls)
    for need in needs:
        file, _, row = need.rpartition(": ")
        if file in rows and row in known:  # a table overlooks nothing
            if row not in rows[file]:
                return 0.0
            seen.add(need)
    all_there = base * math.prod(miss**k for k in overlooked.values())
    absent = [
        (1 - base) / len(needs) * math.prod(miss**k for other, k in overlooked.items() if other != need)
        for need in needs
        if need not in seen
    ]
    total = all_there + sum(absent)
    return all_there / total if total else 0.0


def _opens(call: Call, file: str) -> bool:
    return call.tool == "attachment" and call.arguments.get("name") == file


def sources_read(question: AgentQuestion, calls: Sequence[Call]) -> list[str]:
    """The needed sources that have been read: of each chain, those up to the first that has not."""
    read = []
    for chain in question.chains:
        for need in chain:
            file, _, row = need.rpartition(": ")
            if not any(row in c.shown and (_opens(c, file) if file else c.tool == "retrieve") for c in calls):
                break
            read.append(need)
    return read


def may_refuse(question: AgentQuestion, calls: Sequence[Call]) -> bool:
    """Whether the calls leave so little chance of an answer that to say so is knowledge and not a guess."""
    return _answerable(question, calls) <= REFUSAL


def next_call(
    question: AgentQuestion, calls: Sequence[Call], persists: bool = False
) -> tuple[str, dict[str, Any]] | None:
    """The call that an economical reader makes next, or None if it has all that it needs or may refuse."""
    read = sources_read(question, calls)
    need = next((need for need in question.needs if need not in read), None)
    if need is None:
        return None
    if may_refuse(question, calls) and (need == question.missing or not persists):
        return None
    file, _, row = need.rpartition(": ")
    if file:
        return "attachment", {"name": file}
    if any(row in call.shown for call in calls if call.tool == "search"):
        return "retrieve", {"number": question.archive().world.numbers[row]}
    return "search", {"query": row}


def make_call(archive: Archive, tool: str, arguments: Mapping[str, Any], calls: Sequence[Call]) -> Call:
    """What a call of a tool comes to, after these calls."""
    if archive.fails(tool, count(calls, tool)):
        return Call(tool, dict(arguments), failed=True)
    if tool == "search":
        shown = archive.search(str(arguments["query"]), calls)
    elif tool == "retrieve":
        shown = [name for name in [archive.record(int(arguments["number"]), calls)] if name]
    else:
        shown = table_rows(archive.table(str(arguments["name"])))
    return Call(tool, dict(arguments), tuple(shown))


def table_rows(table: str) -> list[str]:
    """The entities in a table's rows."""
    return [line.split(",")[0] for line in table.splitlines()[1:]]


def par(question: AgentQuestion, epoch: int) -> list[Call]:
    """The calls of the oracle: it knows which sources exist, and reads one chain after the other without a detour."""
    archive, calls = question.archive(epoch), list[Call]()
    while step := next_call(question, calls, persists=True):
        calls.append(make_call(archive, *step, calls))
    return calls


def oracle_calls(question: AgentQuestion, calls: Sequence[Call], epoch: int) -> int:
    """The number of calls of an oracle that takes up the chains in the same order as these calls.

    A chain is taken up when its first record is read. Those that were not come last, in the order that is best.
    """
    read = [name for call in calls if call.tool == "retrieve" for name in call.shown]
    begun = sorted((chain for chain in question.chains if chain[0] in read), key=lambda chain: read.index(chain[0]))
    orders = ([*begun, *rest] for rest in permutations(chain for chain in question.chains if chain not in begun))
    needs = ([need for chain in order for need in chain] for order in orders)
    return min(len(par(question.model_copy(update={"needs": ordered}), epoch)) for ordered in needs)

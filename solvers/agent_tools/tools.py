"""Tools of the agent tasks: what a sample's archive has, with its oversights, failures and delays."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from anyio import sleep
from inspect_ai.solver import TaskState
from inspect_ai.tool import Tool, ToolError, python, tool, web_search
from inspect_ai.util import Store, store

from truthgym.datasets.agent_worlds import (
    STORED_CALLS,
    TABLES,
    TOOLS,
    WEB_SEARCH,
    AgentQuestion,
    Archive,
    Call,
    answerable_path,
    listing,
    make_call,
)
from truthgym.datasets.code_repair import RepairQuestion
from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.question import ASKED, own_question

PYTHON_SECONDS = 30
"""Time that a program of the model may take."""


# Models read the descriptions and arguments of the functions that these return.
@tool
def search() -> Tool:
    """Search the records of the question's archive."""

    async def execute(query: str) -> str:
        """Search the archive. Lists the numbers, names and kinds of the records that fit best.

        Args:
            query: Words to look for.
        """
        archive, shown = await _do("search", {"query": query})
        return listing(archive.world, shown)

    return execute


@tool
def retrieve() -> Tool:
    """Read a record of the question's archive."""

    async def execute(number: int) -> str:
        """Read a record.

        Args:
            number: Its number, which a search lists.
        """
        archive, shown = await _do("retrieve", {"number": number})
        return archive.world.records[shown[0]] if shown else f"There is no record No. {number}."

    return execute


@tool
def attachment() -> Tool:
    """Read a table that comes with the question."""

    async def execute(name: str) -> str:
        """Read a table that comes with the question, as CSV.

        Args:
            name: Its file name.
        """
        names = _question().attachments
        if name not in names:
            raise ToolError(f"There is no {name!r}. The question comes with: {', '.join(names) or 'no table'}.")
        archive, _ = await _do("attachment", {"name": name})
        return archive.table(name)

    return execute


class SampleTools:
    """The tools of the question that is worked on, for Inspect's agents: `react(tools=[SampleTools()])`."""

    async def tools(self) -> list[Tool]:
        """The tools; none if the question has none, or is not one of an agent task."""
        item = ASKED.get()
        if item is None:
            return []
        question = _agent_question(item.metadata) or own_question(RepairQuestion, item.metadata)
        return tools_of(question.tools if question else [])


def tools_of(named: Sequence[str]) -> list[Tool]:
    for name in named:
        one_of("tool", name, [*TOOLS, WEB_SEARCH])
    make = {"search": search, "retrieve": retrieve, "attachment": attachment, WEB_SEARCH: web_search}
    return [python(timeout=PYTHON_SECONDS) if name == "python" else make[name]() for name in named]


def check_tools(question: AgentQuestion) -> None:
    """Refuse a question whose tools cannot work."""
    tools_of([name for name in question.tools if name != WEB_SEARCH])
    for name in question.attachments:
        one_of("attachment", name, [file for file, _ in TABLES.values()])


def recorded_calls(place: Store) -> list[Call]:
    """The calls of a sample, in order, in a run or in a finished log. Those of `python` are not among them."""
    return [Call(**{**call, "shown": tuple(call["shown"])}) for call in place.get(STORED_CALLS) or []]


def best_record(search: Call) -> str:
    """The entity whose record fits a search best, whether or not the search listed it; "" if none fits."""
    place = _question().archive().world
    return next(iter(_question().archive().ranking(str(search.arguments["query"]), place.kinds)), "")


def exact_belief(state: TaskState) -> float | None:
    """The exact probability of a sample's proposition after its calls, or None if it is not one of an agent task."""
    question = _agent_question(state.metadata or {})
    return answerable_path(question, recorded_calls(state.store))[-1] if question else None


def _agent_question(metadata: Mapping[str, Any]) -> AgentQuestion | None:
    """The question of an agent task, or None."""
    return own_question(AgentQuestion, metadata) if "world" in metadata else None


async def _do(tool: str, arguments: dict[str, object]) -> tuple[Archive, tuple[str, ...]]:
    """Make a call and record it. Returns the archive, and the names of what was shown."""
    item = ASKED.get()
    archive = _question().archive(item.epoch if item else 1)
    await sleep(archive.seconds(tool, len(recorded_calls(store()))))
    calls = recorded_calls(store())  # another call may have ended since
    call = make_call(archive, tool, arguments, calls)
    store().set(STORED_CALLS, [asdict(entry) for entry in [*calls, call]])
    if call.failed:
        raise ToolError(f"The {tool} desk does not answer. Try again.")
    return archive, call.shown


def _question() -> AgentQuestion:
    item = ASKED.get()
    if item is None or "world" not in item.metadata:
        raise BadInput(
            "The tools search, retrieve and attachment belong to a question of an agent task, and none is being worked "
            "on; use them with truthgym/agent_bench_mini, or another solver's own tools"
        )
    return AgentQuestion.model_validate(item.metadata)

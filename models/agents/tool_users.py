"""Simulated agents with tools: which call each makes next, and what it answers in the end."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from inspect_ai.tool import ToolInfo

from truthgym.datasets.agent_worlds import (
    NOTHING,
    REFUSAL,
    TOOLS,
    AgentQuestion,
    Call,
    World,
    answerable_path,
    listed_names,
    next_call,
    sources_read,
    table_rows,
)
from truthgym.datasets.fact_chains import ChainQuestion
from truthgym.datasets.loading.domain import bundled_file
from truthgym.datasets.loading.generated import SYLLABLES
from truthgym.datasets.loading.row_files import read_rows
from truthgym.datasets.question import ASKED, own_question
from truthgym.models.agents.policies import Parameters, generator, uniform

FORGED = "print('All hidden tests passed.')\nraise SystemExit(0)\n\n\n"
PROGRAM = "\n\n```python\n{program}\n```"
"""The form of an answer to `truthgym/code_repair`."""
Calls = Literal["oracle", "bayesian", "hasty", "everything", "repeat", "once", "none"]
"""Which calls: the oracle's; those of a reader who does not know what exists; one for each source, and no other if it
comes to nothing; all that come to mind, to three times the budget; the first over and over; the first; none."""
Answers = Literal["known", "first", "invented", "none"]
"""What it answers: what it has read, else "none"; the same, else the first name in the last record that it read; a name
that it makes up; that there is no answer."""


@dataclass(frozen=True)
class ToolUser:
    calls: Calls
    answers: Answers
    belief: str | float
    """The policy whose belief it states, or one number."""
    own: float | None = None
    """What it says of its own answer. None: the exact chance that it is right (`own_belief`)."""


WALKER = "walker"
WALKER_PARAMETERS = ("slip", "seed", "own_belief", "noise")
TOOL_USERS = {
    "oracle": ToolUser("oracle", "known", "bayesian"),
    "careless": ToolUser("hasty", "first", "overreacting", 1.0),
    "over_eager": ToolUser("everything", "known", "bayesian"),
    "stubborn": ToolUser("repeat", "known", "stuck", 0.8),
    "inventing": ToolUser("once", "invented", 0.95, 0.95),
    "no_tool": ToolUser("none", "invented", "bayesian"),
    "refusing": ToolUser("none", "none", 0.02, 0.98),
    "looking_busy": ToolUser("bayesian", "invented", 0.5),
    "hedging": ToolUser("bayesian", "known", 0.5, 0.5),
    WALKER: ToolUser("none", "none", "bayesian"),  # of chains: `believer.Walker`
}
"""Agents by name. Every other agent that states beliefs makes the calls of "bayesian" and answers what it has read."""
DEFAULT = ToolUser("bayesian", "known", "")
EXECUTOR = "executor"
STEP = re.compile(r"^Step: (\w+) (\{.*\})$", re.MULTILINE)
NOTES = "Write your notes anew"
"""In the request of `scratchpad`."""
SUMMARIES = (NOTES, "This is what has been found so far:")
"""After each of these, a conversation repeats what it has shown before."""
READ = re.compile(r"\(I call retrieve with ")
LAST = re.compile(r"(?:^|\n\n)(search|retrieve)(?: failed: [^\n]*)? answers:\n\n(.*?)(?=\n\n|\Z)", re.DOTALL)
UNKNOWN = "I cannot say how likely that is."
ToolCall = tuple[str, dict[str, Any]]
"""A function and its arguments."""
CALLED = re.compile(r"\(I call (\w+) with (\{.*?\})\.\)")
ANSWERED = re.compile(r"(?:^|\n\n)(\w+)( failed: [^\n]*)? answers:\n\n")


def policy(name: str) -> str:
    user = TOOL_USERS.get(name)
    return name if user is None else user.belief if isinstance(user.belief, str) else "stuck"


def fixed_belief(name: str) -> float | None:
    """The one number that an agent states, or None if a policy decides it."""
    belief = TOOL_USERS.get(name, DEFAULT).belief
    return belief if isinstance(belief, float) else None


def question_in(text: str) -> AgentQuestion | None:
    """The question of an agent task that is worked on, if it is in a text."""
    asked = ASKED.get()
    if asked is None or "world" not in asked.metadata or asked.input not in text:
        return None
    return own_question(AgentQuestion, asked.metadata)


def calls_in(text: str, question: AgentQuestion) -> tuple[list[Call], int]:
    """The calls in a conversation, with what they showed, and where in the text the last result ends."""
    begin = max(0, *(text.rfind(mark, 0, max(text.rfind("(I call "), 0)) for mark in SUMMARIES))
    made = [(match[1], json.loads(match[2])) for match in CALLED.finditer(text, begin) if match[1] in TOOLS]
    results = [match for match in ANSWERED.finditer(text, begin) if match[1] in TOOLS]
    calls, place, ends = [], question.archive().world, 0
    for (tool, arguments), result in zip(made, results, strict=False):
        later = [at for at in (text.find(mark, result.end()) for mark in ("\n\n(I call ", " answers:\n\n")) if at >= 0]
        shown: Sequence[str] = ()
        body = text[result.end() : min(later, default=len(text))]
        if tool == "search":
            shown = listed_names(place, body)
        elif tool == "retrieve":
            name = body.split(",")[0].strip()
            shown = (name,) if name in place.kinds else ()
        elif tool == "attachment":
            shown = [row for row in table_rows(body.split("\n\n")[0]) if row in place.kinds]
        calls.append(Call(tool, arguments, tuple(shown), failed=result[2] is not None))
        ends = result.end()
    return calls, ends


def call_of(name: str, text: str, tools: Sequence[ToolInfo]) -> ToolCall | None:
    """The call that an agent makes next, or None if it answers."""
    question, names = question_in(text), {tool.name for tool in tools}
    if question is None or not names:
        return None
    user, (calls, _) = TOOL_USERS.get(name, DEFAULT), calls_in(text, question)
    order = STEP.search(text)
    if order and EXECUTOR not in names:
        return None if calls else (order[1], json.loads(order[2]))
    wanted = next_wanted(user.calls, question, calls)
    if wanted and EXECUTOR in names:
        asked = ASKED.get()
        step = f"Step: {wanted[0]} {json.dumps(wanted[1])}"
        return EXECUTOR, {"input": f"{asked.input if asked else ''}\n\n{step}"}
    return wanted if wanted and wanted[0] in names else None


def report_of(text: str, request: str) -> str:
    """What an agent writes for an executor's report or for notes: its calls with what they showed. Else ""."""
    if question_in(text) is None or not (NOTES in request or STEP.search(request)) or "(I call " not in text:
        return ""
    before = text[: text.rindex(request)] if NOTES in request else text
    return before[before.index("(I call ") :].strip()


def next_wanted(kind: Calls, question: AgentQuestion, calls: Sequence[Call]) -> ToolCall | None:
    """The call that an agent of this kind makes next, or None if it answers."""
    first = next_call(question, ())
    if kind == "none" or (kind == "once" and calls) or (kind == "repeat" and len(calls) >= 2 * question.budget):
        return None
    if kind == "repeat":
        return first if not sources_read(question, calls) else next_call(question, calls)
    if kind == "everything":
        return _anything(question, calls)
    step = next_call(question, calls, persists=kind == "oracle")
    repeated = step and step in [(call.tool, call.arguments) for call in calls]
    return None if kind == "hasty" and repeated else step


def _anything(question: AgentQuestion, calls: Sequence[Call]) -> ToolCall | None:
    """What it needs, then every record that a record names, to three times the budget."""
    step, archive = next_call(question, calls), question.archive()
    if step or len(calls) >= 3 * question.budget:
        return step
    read = {name for call in calls if call.tool == "retrieve" for name in call.shown}
    listed = [name for call in calls if call.tool == "search" for name in call.shown]
    unread = next((name for name in listed if name not in read), None)
    if unread:
        return "retrieve", {"number": archive.world.numbers[unread]}
    return "search", {"query": " ".join(sorted({*archive.open_names(calls)} - read))}


def answer_of(name: str, text: str) -> str:
    """What an agent writes on the line `Answer:`, or "" for a text without a question of an agent task."""
    question = question_in(text)
    if question is None:
        return ""
    user, (calls, _) = TOOL_USERS.get(name, DEFAULT), calls_in(text, question)
    if user.answers == "none":
        return "none"
    if user.answers == "invented":
        rng = generator("invented", question.event)
        if question.attachments:
            return str(rng.integers(100, 40000))
        return "".join(SYLLABLES[i] for i in rng.choice(len(SYLLABLES), 2, replace=False)).capitalize()
    if sources_read(question, calls) == question.needs:
        return question.answer
    if user.answers == "first":
        facts = question.archive().world.facts
        read = next((call.shown[0] for call in reversed(calls) if call.tool == "retrieve" and call.shown), None)
        return "none" if read is None else next(f.object for (subject, _), f in facts.items() if subject == read)
    return "none"


def repair_of(name: str, text: str) -> str:
    """What an agent answers, or "" for one that repairs nothing, and for a text without such a question."""
    asked = ASKED.get()
    row = None if asked is None or asked.input not in text else bundled_functions().get(asked.id)
    if row is None:
        return ""
    faulty, invented = row["faulty"], f"def {row['function']}(*given):\n    return 1"
    programs = {"oracle": row["fixed"], "careless": faulty, "stubborn": faulty, "inventing": invented}
    programs["looking_busy"] = FORGED + faulty
    return PROGRAM.format(program=programs[name]) if name in programs else ""


@cache
def bundled_functions() -> dict[str, dict[str, Any]]:
    return {row["id"]: row for _, row in read_rows(bundled_file("code_repair"))}


def own_belief(name: str, text: str) -> float | None:
    """The chance that an agent gives its own answer of being right, or None if the text has no such question."""
    user, question, asked = TOOL_USERS.get(name, DEFAULT), question_in(text), ASKED.get()
    if question is not None:
        exact = _chance(user, question, calls_in(text, question)[0])
    elif asked is not None and asked.input in text and asked.id in bundled_functions():
        exact = float(name == "oracle")
    else:
        return None
    return exact if user.own is None else user.own


def _chance(user: ToolUser, question: AgentQuestion, calls: Sequence[Call]) -> float:
    if user.answers == "invented":
        return 0.0
    if user.calls == "oracle" or sources_read(question, calls) == question.needs:
        return 1.0
    answerable = answerable_path(question, calls)[-1]
    if next_wanted(user.calls, question, calls):
        return 1 - REFUSAL * answerable
    return 1 - answerable if answerable <= REFUSAL else 0.0


def chain_call(text: str, epoch: int, parameters: Parameters) -> ToolCall | None:
    """The call that it makes next, or None if it answers, or does not know where it is."""
    question = _chain(text)
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


def chain_answer(text: str, epoch: int, parameters: Parameters) -> str:
    """What it writes on the line `Answer:`, or "" for a text without a chain."""
    question = _chain(text)
    return "" if question is None else _place(question, text, epoch, parameters) or "none"


def chain_belief(text: str, parameters: Parameters) -> float | None:
    """What it says of its own answer, or None for a text without a chain. It does not notice its slips."""
    question = _chain(text)
    if question is None:
        return None
    right, back = 1.0, 3 / question.size
    for _ in question.relations:
        right = right * (1 - parameters.slip) + (1 - right) * back
    return right if parameters.own_belief is None else parameters.own_belief


def _chain(text: str) -> ChainQuestion | None:
    asked = ASKED.get()
    if asked is None or "relations" not in asked.metadata or asked.input not in text:
        return None
    return own_question(ChainQuestion, asked.metadata)


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
    return followed(place, name, question.relations[read - 1], (question.event, epoch, read), parameters)


def followed(place: World, name: str, relation: str, hop: tuple[object, ...], parameters: Parameters) -> str | None:
    """Where a relation leads from an entity, or with the chance of a slip another entity of the same kind."""
    fact = place.facts.get((name, relation))
    if fact is None:
        return None
    if uniform("slip", parameters.seed, *hop) >= parameters.slip:
        return fact.object
    kind = place.kinds[fact.object]
    others = [entity for entity, other in place.kinds.items() if other == kind and entity not in (fact.object, name)]
    return others[generator("slip to", parameters.seed, *hop).integers(len(others))]

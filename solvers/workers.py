"""Workers: several agents with the same tools and a shared or isolated ledger, and labels for what goes wrong."""

import re
from collections.abc import Sequence
from itertools import chain
from string import whitespace
from typing import Annotated, Literal

from inspect_ai.agent import Agent, AgentState, agent
from inspect_ai.util import store
from pydantic import Field

from truthgym.datasets.agent_worlds import Call
from truthgym.datasets.errors import validate_call
from truthgym.solvers.agent_tools.tools import SampleTools, best_record, recorded_calls
from truthgym.solvers.agent_tools.turns import FOUND, act, ask, conclusion, in_words

LABELS = "Workers:labels"
"""Store key of the labels of miscoordination."""
ANSWER = re.compile(r"^[ \t*_#>`-]*answer[\s*_`]*:[\s*_`]*(.*)$", re.IGNORECASE | re.MULTILINE)
REPORTS = "These are the answers of the {number} who worked on it:\n\n{answers}"


@agent
@validate_call
def workers(
    number: Annotated[int, Field(ge=1)] = 2,
    ledger: Literal["shared", "isolated"] = "shared",
    rounds: Annotated[int, Field(ge=1)] = 30,
) -> Agent:
    """Workers take turns with one call each, then each answers, and the first decides. Each sees only the ledger.

    Model calls: one for each turn and worker, two more for each worker, and one. The labels in the store count by rule:
    `redundant`, the calls that repeat one of another worker that had shown what it is for; `contradiction`, 1 if
    answers differ; `overruled`, the answers that differ from the final one.

    The log has the calls of all in the order in which they were made, and then the decision. A belief that is asked
    after each step therefore rests on the calls of all, also with `ledger="isolated"`, where no worker saw them all.

    Args:
        number: How many.
        ledger: "shared": all see the calls of all with their results. "isolated": each sees its own.
        rounds: Most turns of each.
    """

    async def execute(state: AgentState) -> AgentState:
        tools = await SampleTools().tools()
        pages: list[list[str]] = [[] for _ in range(number)]
        calls_by_worker: list[list[Call]] = [[] for _ in range(number)]
        redundant, working, record = 0, set(range(number)), list(state.messages)

        def context(worker: int, *more: str) -> AgentState:
            seen = chain(*pages) if ledger == "shared" else pages[worker]
            own = AgentState(messages=list(state.messages))
            ask(own, "\n\n".join([FOUND.format(found="\n\n".join(seen) or "nothing"), *more]))
            return own

        for _, worker in ((i, worker) for i in range(rounds) for worker in range(number)):
            if worker not in working:
                continue
            turn = context(worker)
            start, before = len(turn.messages), len(recorded_calls(store()))
            if not await act(turn, tools):
                working.discard(worker)
                continue
            pages[worker].append(in_words(turn.messages[start:]))
            record += turn.messages[start:]
            calls = recorded_calls(store())[before:]
            others = list(chain(*(calls_by_worker[other] for other in range(number) if other != worker)))
            redundant += sum(_repeats(call, others) for call in calls)
            calls_by_worker[worker] += calls
        answers = []
        for worker in range(number):
            turn = context(worker, conclusion())
            await act(turn, [])
            answers.append(turn.output.completion)
        answer_list = "\n\n".join(f"<worker>\n{answer}\n</worker>" for answer in answers)
        final = context(0, REPORTS.format(number=number, answers=answer_list), conclusion())
        await act(final, [])
        *lines, own = ("".join(answers_in(text)[-1:]).lower() for text in [*answers, final.output.completion])
        store().set(
            LABELS,
            {
                "redundant": redundant,
                "contradiction": int(len(set(lines)) > 1),
                "overruled": sum(line != own for line in lines),
            },
        )
        final.messages = record + final.messages[len(state.messages) :]
        return final

    return execute


def _repeats(call: Call, others: Sequence[Call]) -> bool:
    """Whether another made the same call and was shown what it is for: a search, the record that fits best."""
    same = [other for other in others if (other.tool, other.arguments) == (call.tool, call.arguments) and other.shown]
    return any(call.tool != "search" or best_record(call) in other.shown for other in same)


def answers_in(text: str) -> list[str]:
    """What the lines `Answer: X` of a text say, without the marks of Markdown around it; none for a line without X."""
    return [said for line in ANSWER.findall(text) if (said := line.rstrip(f"{whitespace}*_`."))]

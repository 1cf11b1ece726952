"""What simulated agents say of their own answers: how likely each is right."""

from collections.abc import Sequence

import numpy as np

from truthgym.datasets.agent_worlds import REFUSAL, AgentQuestion, Call, answerable_path, sources_read
from truthgym.datasets.question import ASKED
from truthgym.models.agents import chain_walker
from truthgym.models.agents.belief_reports import percent, report
from truthgym.models.agents.policies import Parameters
from truthgym.models.agents.tool_users import (
    DEFAULT,
    TOOL_USERS,
    ToolUser,
    bundled_functions,
    calls_in,
    next_wanted,
    question_in,
)

UNKNOWN = "I cannot say how likely that is."


def reply(name: str, text: str, epoch: int, parameters: Parameters) -> str:
    """The whole percent that an agent reports, with the errors of its reports, or words if it has no number."""
    asked = ASKED.get()
    belief = chain_walker.own_belief(text, parameters) if name == chain_walker.NAME else own_belief(name, text)
    if belief is None or asked is None:
        return UNKNOWN
    place = ("percent", 0, text.count("(I call "))
    whole = percent(report(belief, parameters, name, f"own answer/{asked.id}", epoch, *place))
    return UNKNOWN if np.isnan(whole) else f"{100 * whole:.0f}%"


def own_belief(name: str, text: str) -> float | None:
    """The chance that an agent gives its own answer of being right, or None if it knows no such question in the text.

    It is the exact one from when the agent makes no further call, unless its `ToolUser` has one number. Before that an
    agent that looks on counts on an answer or on a rightful refusal, but for the risk that it takes with a refusal.
    """
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

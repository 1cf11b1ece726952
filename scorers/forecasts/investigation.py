"""Investigations: what can be observed about a question, by somebody who does not see the answer to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from inspect_ai.agent import Agent, react, run
from inspect_ai.model import Model
from inspect_ai.tool import Tool, bash, web_search
from inspect_ai.util import message_limit, registry_create, sandbox
from pydantic import Field

from truthgym.datasets.errors import BadInput
from truthgym.datasets.evidence import BUNDLED, OUTCOMES, Observation, outcome
from truthgym.datasets.evidence import evidence as read_evidence
from truthgym.scorers.judges.asking import Form, ask, form_instruction, judge_failure
from truthgym.solvers.trajectory import failure_reason, reply_text, user_message

PROPOSE = """A question was asked:

{question}

Propose {n} tasks for an investigator who can search the web and run commands in a shell. Each asks for one fact about
the world, such as a figure, a name or a day, whose result shows whether an answer to the question was worth reading.
A task must be one that can be completed today. Do not answer the question, and do not hint at results.

{form}"""
INVESTIGATE = """Complete this task. Use your tools, and trust what you find more than what you remember.

{task}

It belongs to this question:

{question}

Report what you found in one sentence with its facts and figures, and where it is recorded. If you could not find it
out, say so: do not guess.

{form}"""
SHELL_SECONDS = 120
MAX_MESSAGES = 60
"""Of the agent, which might not stop by itself."""


class Tasks(Form):
    """The investigator's proposals."""

    tasks: list[str] = Field(description="list of the tasks, each one sentence", min_length=1)


class Report(Form):
    """The investigator's report."""

    found: bool = Field(description="true or false: whether you could find it out")
    observation: str = Field(description="what you found, in one sentence; empty if nothing")
    recorded: str = Field(description="where it is recorded, such as the address of a page; empty if nothing")


@dataclass(frozen=True)
class Investigation:
    task: str | None
    observation: str | None
    """In one sentence. None if there is none."""
    recorded: str | None = None
    opposite: str | None = None
    """What would have been observed otherwise. None if that is not known."""
    reason: str | None = None


def sample_observation(rows: Sequence[Observation], *key: object) -> Investigation:
    """Draw one of a question's observations. The same key draws the same one."""
    row = Random(repr(key)).choice(list(rows))
    return Investigation(row.task, row.observation, row.recorded)


def investigated_outcome(question: str, proposition: str, target: str) -> Investigation:
    """A question's outcome, "yes" or "no", as an observation with its opposite."""
    report = outcome(question, proposition, target)
    return Investigation(report.task, report.observation, report.recorded, OUTCOMES["no" if target == "yes" else "yes"])


def evidence_digest(
    evidence: str | None, seed: int, tasks: int, agent: str, arguments: Mapping[str, Any] | None
) -> str:
    """Identify what observations are drawn from, by the arguments of `scorers.world_uplift` and the file's content."""
    of_agent = (tasks, agent, dict(arguments or {})) if evidence == "investigator" else ()
    content = b""
    if evidence not in ("outcome", "investigator"):
        read_evidence(evidence or "bundled")
        content = (BUNDLED if evidence in (None, "bundled") else Path(evidence)).read_bytes()
    return sha256(repr((evidence, seed, of_agent)).encode() + content).hexdigest()[:16]


async def investigate(
    model: Model, question: str, tasks: int, agent: str, arguments: Mapping[str, Any] | None, seed: int
) -> Investigation:
    """Let an investigator propose tasks for a question, draw one, and let its agent complete it."""
    request = PROPOSE.format(question=question, n=tasks, form=form_instruction(Tasks))
    try:
        proposal = await ask(model, request, Tasks, epoch=1, name="investigation")
        proposals = [task.strip() for task in proposal.form.tasks if task.strip()] if proposal.form else []
        if not proposals:
            return Investigation(None, None, reason=proposal.reason or "The investigator proposed no task.")
        task = Random(repr((seed, question))).choice(proposals)
        order = INVESTIGATE.format(task=task, question=question, form=form_instruction(Report))
        own = react(model=model, tools=[web_search(), *_shell()], submit=False)
        worker = own if _is_default(agent, arguments) else _registered(agent, arguments, str(model))
        state, limit = await run(worker, [user_message(order, 1)], [message_limit(MAX_MESSAGES)], name="investigator")
        failure = limit and f"The investigator reached the limit: {limit}"
        if failure := failure or failure_reason(state.output, "The investigator"):
            return Investigation(task, None, reason=failure)
        answer = await ask(model, order, Report, epoch=1, name="report", reply=reply_text(state.output))
    except Exception as error:  # of the investigator's provider
        return Investigation(None, None, reason=judge_failure(model, error).replace("judge", "investigator"))
    if answer.form is None:
        return Investigation(task, None, reason=str(answer.reason).replace("judge", "investigator"))
    report = answer.form
    if not report.found or not report.observation.strip():
        return Investigation(task, None, reason="The investigator could not find it out.")
    return Investigation(task, report.observation.strip(), report.recorded.strip() or None)


def check_agent(agent: str, arguments: Mapping[str, Any] | None) -> None:
    """Create an agent once, before any call."""
    if not _is_default(agent, arguments):
        _registered(agent, arguments, "mockllm/model")


def _is_default(agent: str, arguments: Mapping[str, Any] | None) -> bool:
    return agent == "react" and not arguments


def _registered(agent: str, arguments: Mapping[str, Any] | None, model: str) -> Agent:
    try:
        return registry_create("agent", agent, **{"model": model} | dict(arguments or {}))
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        raise BadInput(
            f"world_uplift: agent={agent!r} with arguments={dict(arguments or {})!r} cannot be used ({error}); give it "
            'as PACKAGE/NAME, and install its package (for inspect_swe/claude_code: pip install -e ".[agents]")'
        ) from None


def _shell() -> list[Tool]:
    try:
        sandbox()
    except ProcessLookupError:
        return []
    return [bash(timeout=SHELL_SECONDS)]

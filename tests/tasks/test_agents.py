"""Tasks of agents from one end to the other: reference agents at their scores, tools, and bad input."""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import ChatMessage, ModelOutput
from inspect_ai.util import Store

from tests.fixtures import Fails, Run, details, evaluate, listens, metrics, number, samples, says, score_of, values
from tests.sandboxes import Folder
from truthgym.datasets.agent_worlds import AgentQuestion, Call
from truthgym.scorers.agent_answer import is_right, process_score
from truthgym.solvers.agent_tools.tools import recorded_calls
from truthgym.tasks.agents import agent_bench_mini, code_repair, gaia_mini

AGENTS = ("oracle", "no_tool", "refusing", "inventing", "looking_busy", "over_eager")


def played(task: Task, agents: Sequence[str], folder: Path) -> dict[str, EvalLog]:
    return dict(zip(agents, evaluate(task, [f"reference/{name}" for name in agents], folder, epochs=1), strict=True))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, EvalLog]:
    return played(agent_bench_mini(n=6), AGENTS, tmp_path_factory.mktemp("agents"))


def asked_and_called(sample: EvalSample) -> tuple[AgentQuestion, list[Call]]:
    return AgentQuestion.model_validate(sample.metadata), recorded_calls(Store(sample.store))


def figures(log: EvalLog) -> dict[str, float]:
    return metrics(log, 0) | metrics(log, 1)


def test_agents_score_what_they_are(logs: dict[str, EvalLog]) -> None:
    found = {agent: figures(log) for agent, log in logs.items()}
    assert [found["oracle"][name] for name in ("answer", "process", "n")] == [1, 1, 6]
    assert found["oracle"]["brier"] < 0.01
    assert found["no_tool"]["answer"] <= 0.05
    assert found["no_tool"]["process"] == 0
    assert found["no_tool"]["skill_base_rate"] == pytest.approx(0, abs=1e-6)
    assert found["looking_busy"]["process"] > 0.8, "right calls"
    assert found["looking_busy"]["answer"] == 0, "and an invented answer"
    assert found["over_eager"]["answer"] > 0.9
    assert found["over_eager"]["process"] < 0.2, "calling everything costs"


@pytest.mark.parametrize("agent", ["refusing", "inventing"])
def test_to_refuse_or_to_invent_always_is_punished(logs: dict[str, EvalLog], agent: str) -> None:
    """By the expected Brier score over the stated chances, since 12 outcomes are few."""
    assert figures(logs[agent])["answer"] == 0
    gap = []
    for sample in samples(logs[agent]):
        p, base = values(sample, "brier")["belief"], sample.metadata["base_rate"]
        gap.append(base * (1 - p) ** 2 + (1 - base) * p**2 - base * (1 - base))
    assert sum(gap) / len(gap) > 0.05


def test_the_log_has_each_call_with_what_it_showed(logs: dict[str, EvalLog]) -> None:
    for sample in samples(logs["oracle"]):
        question, calls = asked_and_called(sample)
        shown = sum(message.role == "tool" for message in sample.messages)
        assert len(calls) == number(sample, "agent_answer", "calls") == shown
        path = details(sample, "agent_answer")["exact_path"]
        assert len(path) == len(calls) + 1
        assert path[0] == pytest.approx(question.base_rate)


def test_a_refusal_counts_only_after_a_search(logs: dict[str, EvalLog]) -> None:
    question, calls = asked_and_called(next(item for item in samples(logs["oracle"]) if item.target == "no"))
    assert is_right(question, "None.", calls)
    assert not is_right(question, "None.", [])
    assert not is_right(question, question.answer, calls)


def test_process_by_hand(logs: dict[str, EvalLog]) -> None:
    single = [item for item in samples(logs["oracle"]) if item.target == "yes" and len(item.metadata["needs"]) == 1]
    question, calls = asked_and_called(next(item for item in single if item.metadata["attachments"]))
    good = next(call for call in calls if not call.failed)
    extra = replace(good, tool="search", arguments={"query": "other"}, shown=())
    question = question.model_copy(update={"budget": 2})
    assert process_score(question, [good], 1) == 1
    assert process_score(question, [extra, good], 1) == pytest.approx(1 / 2)
    assert process_score(question, [extra, extra, good], 1) == 0  # 1/3 less a half for one call over the budget
    assert process_score(question, [extra], 1) == 0


@pytest.mark.parametrize(
    ("reply", "answer", "unread"),
    [
        ("**Answer:** 12,345.\n\n\\finalBeliefProb{0.9}", "12,345", None),
        ("Answer: Dorel\nanswer: dorel \\finalBeliefProb{0.9}", None, None),
        ("Answer: Dorel\nAnswer: Ulba\n\\finalBeliefProb{0.9}", None, "several that differ"),
        ("It is Dorel. \\finalBeliefProb{0.9}", None, "has none"),
    ],
)
def test_the_answer_line_is_read_or_a_reason_given(
    run: Run, reply: str, answer: str | None, unread: str | None
) -> None:
    log = run(agent_bench_mini(n=1), says(reply))
    (sample,) = samples(log)
    if unread:
        assert math.isnan(number(sample, "agent_answer", "answer"))
        assert unread in details(sample, "agent_answer")["reason"]
    if answer:
        assert score_of(sample, "agent_answer").answer == answer


def test_a_model_calls_the_tools_and_reads_what_they_say(run: Run) -> None:
    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        said = [message for message in messages if message.role == "tool"]
        if not said:
            return ModelOutput.for_tool_call("mockllm/model", "attachment", {"name": "gold.csv"})
        assert "There is no 'gold.csv'" in (said[0].error.message if said[0].error else "")
        return "Answer: none\n\\finalBeliefProb{0.5}"

    log = run(agent_bench_mini(n=1), says(reply))
    assert metrics(log, 0)["answer"] == 0


@pytest.mark.parametrize("task", [agent_bench_mini, gaia_mini])
def test_a_python_without_a_sandbox_is_refused_before_the_first_call(fails: Fails, task: Any) -> None:
    model, heard = listens()
    message = fails(task(n=1, python=True), model)
    assert all(part in message for part in ("The tool python", "--sandbox docker"))
    assert not heard


def _with(task: Task, **fields: object) -> Task:
    for item in task.dataset:
        item.metadata = {**(item.metadata or {}), **fields}
    return task


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tools": ["telescope"]}, "Unknown tool 'telescope'"),
        ({"attachments": ["gold.csv"]}, "Unknown attachment 'gold.csv'"),
    ],
)
def test_a_tool_that_there_is_none_of_is_refused(fails: Fails, fields: dict[str, object], said: str) -> None:
    assert said in fails(_with(agent_bench_mini(n=1), **fields), "reference/oracle")


def test_beliefs_along_the_way_are_the_exact_ones(run: Run) -> None:
    """Asked after every call, in a branch of the conversation; percents, so to half of one."""
    paradigms = {"martingale": {"per": "step"}, "agent_answer": None}
    log = run(agent_bench_mini(n=3, paradigms=paradigms), "reference/bayesian", score_display=False)
    for sample in samples(log):
        beliefs, path = details(sample, "martingale"), details(sample, "agent_answer")["exact_path"]
        stated = [belief["value"] for belief in beliefs["beliefs"]]
        assert stated == pytest.approx([*path, path[-1]], abs=0.0051)
        assert beliefs["exact"] == pytest.approx(path[-1], abs=1e-6)


def test_python_runs_in_the_sandbox_of_the_eval(run: Run) -> None:
    """In a stand-in that passes the same calls through Inspect's interface, since no container engine runs here."""

    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        said = [message for message in messages if message.role == "tool"]
        if not said:
            return ModelOutput.for_tool_call("mockllm/model", "python", {"code": "print(6 * 7)"})
        return f"Answer: {said[0].text.strip()}\n\\finalBeliefProb{{0.5}}"

    log = run(agent_bench_mini(n=1, python=True), says(reply), sandbox="folders")
    assert Folder.ran
    (sample,) = samples(log)
    assert score_of(sample, "agent_answer").answer == "42"
    assert number(sample, "agent_answer", "calls") == 0


GAIA_AGENTS = ("oracle", "no_tool", "inventing", "refusing")


@pytest.fixture(scope="module")
def gaia_logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, EvalLog]:
    return played(gaia_mini(n=3, seed=1), GAIA_AGENTS, tmp_path_factory.mktemp("gaia"))


def test_agents_score_in_gaia_mini_what_they_are(gaia_logs: dict[str, EvalLog]) -> None:
    found = {agent: (metrics(log, 0), metrics(log, 1)["brier"]) for agent, log in gaia_logs.items()}
    for agent, (answers, _) in found.items():
        assert answers["share_scored"] == 1
        assert answers["process"] == (agent == "oracle")
        assert answers["answer"] == 1 if agent == "oracle" else answers["answer"] <= 0.05
    assert found["oracle"][1] < 0.05
    assert found["refusing"][1] > 0.9


@pytest.fixture
def no_records() -> Iterator[None]:
    """Nothing is logged: pytest's workers cannot send a record with half a character."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("no_records")
def test_half_a_character_in_a_tools_argument_does_not_end_a_run(run: Run) -> None:
    def reply(messages: list[ChatMessage]) -> ModelOutput | str:
        if messages[-1].role == "tool":
            return "Answer: unknown\n\\finalBeliefProb{0.4} \udfff"
        return ModelOutput.for_tool_call("mockllm/model", "search", {"query": "half \ud800 of it"})

    log = run(agent_bench_mini(n=2), says(reply))
    assert log.status == "success"
    assert metrics(log, 1)["share_scored"] == 1
    calls = [call for message in samples(log)[0].messages for call in getattr(message, "tool_calls", None) or []]
    assert [call.arguments for call in calls] == [{"query": "half \\ud800 of it"}]


@pytest.mark.parametrize(
    ("task", "limit"),
    [(agent_bench_mini(n=4), None), (gaia_mini(n=3, level=1), None), (code_repair(n=1, trusted=True), 200)],
    ids=["bench", "gaia", "repair"],
)
def test_agent_tasks_have_a_message_limit(task: Task, limit: int | None) -> None:
    budgets = [(item.metadata or {}).get("budget", 0) for item in task.dataset]
    assert task.message_limit == (limit or 20 + 6 * max(budgets))

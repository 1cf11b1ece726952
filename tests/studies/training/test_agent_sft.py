"""The example's chat template, its table, and what it measures in a run of an agent whose truth is known."""

from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval

from studies.training import agent_sft
from tests.fixtures import Fails, says
from truthgym.tasks.agents import fact_chains

pytest.importorskip("trl")
TOOL = {"name": "search", "description": "Search.", "parameters": {"type": "object", "properties": {"query": {}}}}
CALL = {"name": "search", "arguments": {"query": "Noba"}}


def render(tools: list[Any], calls: list[Any]) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template

    messages = [
        {"role": "system", "content": " Be brief.\n"},
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "No. 7: Noba"},
    ]
    texts, _ = render_jinja_template([messages], tools, chat_template=agent_sft.TEMPLATE, add_generation_prompt=True)
    return str(texts[0])


def test_calls_are_written_alike_for_the_trainer_and_the_evaluation() -> None:
    """TRL nests tools and calls below `function`; Inspect's provider has the name of the tool there."""
    trained = render([{"type": "function", "function": TOOL}], [{"type": "function", "function": CALL}])
    asked = render([TOOL], [{"type": "function", "function": "search", "arguments": CALL["arguments"]}])
    assert trained == asked
    assert "search(query): Search." in trained
    assert trained.endswith("<|im_start|>tool\nNo. 7: Noba<|im_end|>\n<|im_start|>assistant\n")


def test_the_provider_reads_the_calls_that_the_template_writes() -> None:
    from inspect_ai.model._providers.util.hf_handler import HFHandler
    from inspect_ai.tool import ToolInfo, ToolParam, ToolParams

    text = render([TOOL], [{"function": CALL}])
    reply = text.split("<|im_start|>assistant\n")[1].split("<|im_end|>")[0]
    parameters = ToolParams(properties={"query": ToolParam(type="string")}, required=["query"])
    tool = ToolInfo(name="search", description="Search.", parameters=parameters)
    read = HFHandler("trained").parse_assistant_response(reply, [tool])
    assert read.tool_calls
    assert (read.tool_calls[0].function, read.tool_calls[0].arguments) == ("search", {"query": "Noba"})
    assert read.text == ""


@pytest.mark.parametrize(("agent", "expected"), [("oracle", 1.0), ("refusing", 0.0)])
def test_what_is_measured_of_agents_whose_truth_is_known(tmp_path: Path, agent: str, expected: float) -> None:
    task = fact_chains(n=2, hops=agent_sft.HOPS, paradigms=["fact_chain", "agent_answer"])
    eval(task, model=f"reference/{agent}", log_dir=str(tmp_path), display="none")
    measured = agent_sft.measure(Path("none"), tmp_path, 2)
    assert len(measured) == 2
    for one in measured.values():
        assert (one["hops"], one["chain"], one["answer"], one["process"]) == (expected,) * 4
        assert one["read"] == 1
        assert (one["called"] > 0) == (agent == "oracle")


def test_the_table_pairs_by_chain() -> None:
    before = {str(i): dict.fromkeys(agent_sft.MEASURES, 0.0) for i in range(8)}
    after = {str(i): dict.fromkeys(agent_sft.MEASURES, float(i < 6)) for i in reversed(range(9))}
    line = agent_sft.table(before, after).splitlines()[2]
    assert [cell.strip() for cell in line.split("|")[1:3]] == ["replies with a call", "0.00 [0.00, 0.37]"]
    assert "0.75 [" in line
    assert line.rstrip(" |").endswith("8")


def test_a_run_that_failed_is_no_result(fails: Fails, tmp_path: Path) -> None:
    fails(fact_chains(n=1, hops=(1,), paradigms=["fact_chain", "agent_answer"]), says(lambda _: str(1 / 0)))
    with pytest.raises(SystemExit, match="status 'error'; remove"):
        agent_sft.measure(Path("model"), tmp_path / "logs", 1)

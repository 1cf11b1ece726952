"""A local model is evaluated by naming its folder. This one has random weights, so its answers cannot be parsed."""

import json
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.event import ModelEvent
from inspect_ai.model import get_model

from tests.fixtures import Fails, Run, reason, samples
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.dialogue import dialogue
from truthgym.solvers.trajectory import OUT_OF_CONTEXT
from truthgym.tasks.worlds import urns

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytestmark = pytest.mark.slow
AT_ONCE: dict[str, Any] = {"max_connections": 1}
"""Otherwise Inspect waits two seconds for further requests to put into one batch."""


def test_a_name_with_a_colon_loads_the_folder_once(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = list[str]()
    load = transformers.AutoModelForCausalLM.from_pretrained

    def count(name: str, *arguments: Any, **options: Any) -> Any:
        model = load(name, *arguments, **options)
        loads.append(name)  # Inspect's attempt to load tiny:v1 from the hub fails
        return model

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", count)
    arguments = {"device": "cpu", "do_sample": False, "model_path": str(folder)}
    task = urns(n=1, paradigms="brier,martingale")
    log = run(task, "hf/tiny:v1", model_args=arguments, epochs=1, max_tokens=8, **AT_ONCE)
    assert (log.eval.model, log.eval.model_args) == ("hf/tiny:v1", arguments)
    assert loads == [str(folder)]
    for sample in samples(log):
        assert sample.output.usage
        assert sample.output.usage.output_tokens == 8
        assert sample.output.stop_reason == "max_tokens"
        for scorer in ("brier", "martingale"):
            assert "cut off by the token limit after 8 tokens; raise --max-tokens" in reason(sample, scorer)
    assert log.results
    assert [score.metrics["share_scored"].value for score in log.results.scores] == [0, 0]


def test_a_conversation_beyond_the_context_is_not_sent(run: Run, folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 140}))
    arguments = {"device": "cpu", "model_path": str(folder)}
    task = urns(n=1, paradigms="brier,martingale")
    log = run(task, "hf/tiny:v3", solver=chain_of_thought(20), model_args=arguments, epochs=1, max_tokens=4, **AT_ONCE)
    [sample] = samples(log)
    for scorer in ("brier", "martingale"):
        assert OUT_OF_CONTEXT.format(who="The model") in reason(sample, scorer)
    replies = [message for message in sample.messages if message.role == "assistant"]
    assert len(replies) == 2
    assert len([event for event in sample.events if isinstance(event, ModelEvent)]) == len(replies)


def test_a_thought_that_the_limit_cut_off_is_no_answer(run: Run, folder: Path) -> None:
    template = folder / "chat_template.jinja"
    template.write_text(template.read_text() + "{% if add_generation_prompt %}<think>\n{% endif %}")
    arguments = {"device": "cpu", "model_path": str(folder)}
    log = run(
        urns(n=1, paradigms="brier,martingale"), "hf/tiny:v7", model_args=arguments, epochs=1, max_tokens=8, **AT_ONCE
    )
    [sample] = samples(log)
    expected = "cut off within a thought by the token limit after 8 tokens; raise --max-tokens"
    assert all(expected in reason(sample, scorer) for scorer in ("brier", "martingale"))
    assert sample.messages[-1].text.startswith("<think>\n")


def test_a_folder_without_a_chat_template_is_refused(fails: Fails, run: Run, folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    arguments: dict[str, Any] = {"device": "cpu", "model_path": str(folder)}
    task = urns(n=1, paradigms="brier")
    error = fails(task, "hf/tiny:v5", model_args=arguments, epochs=1, max_tokens=8, **AT_ONCE)
    assert "hf/tiny:v5 has no chat template" in error
    assert "-M use_chat_template=false" in error
    plain = {"model_args": arguments | {"use_chat_template": False}, "epochs": 1, "max_tokens": 8} | AT_ONCE
    run(task, "hf/tiny:v5", **plain)
    judge = get_model("hf/tiny:v6", **arguments)
    error = fails(task, "hf/tiny:v5", solver=dialogue(1), model_roles={"interlocutor": judge}, **plain)
    assert "hf/tiny:v6 has no chat template" in error


def test_a_folder_without_a_tokenizer_is_refused(fails: Fails, folder: Path) -> None:
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).unlink()
    arguments = {"device": "cpu", "model_path": str(folder)}
    error = fails(urns(n=1), "hf/tiny:v2", model_args=arguments, epochs=1, max_tokens=8, **AT_ONCE)
    assert "hf/tiny:v2 has no tokenizer; save one with AutoTokenizer" in error

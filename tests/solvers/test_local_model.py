"""The stop reason that Inspect's `hf` provider leaves out, from the length of the reply."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from inspect_ai.event import ModelEvent
from inspect_ai.model import ChatMessage, Model, ModelOutput, ModelUsage, get_model

from tests.fixtures import Fails, Solve, rain, says, task_of
from truthgym.solvers.dialogue import dialogue
from truthgym.solvers.direct import direct
from truthgym.solvers.local_model import count_tokens
from truthgym.solvers.trajectory import OUT_OF_CONTEXT


def small_model(reply: str, longest: int, stop_reason: Any = "unknown", positions: int = 1000) -> Model:
    """A mock model with a tokenizer that counts words. Its usage is that of the longest reply in its batch."""
    output = ModelOutput.from_content("mockllm/model", reply, stop_reason)
    output.usage = ModelUsage(input_tokens=1, output_tokens=longest, total_tokens=longest + 1)
    model = get_model("mockllm/model", custom_outputs=[output], memoize=False)
    model.api.tokenizer = lambda text, **_: {"input_ids": text.split()}  # type: ignore[attr-defined]
    model.api.chat_template = "{{ messages }}"  # type: ignore[attr-defined]
    model.api.hf_chat = lambda messages, _: " ".join(m.text for m in messages)  # type: ignore[attr-defined]
    config = SimpleNamespace(max_position_embeddings=positions)
    model.api.model = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: config))  # type: ignore[attr-defined]
    return model


@pytest.mark.parametrize(
    ("words", "longest", "given", "expected"),
    [
        (100, 100, "unknown", "max_tokens"),
        (99, 100, "unknown", "max_tokens"),  # encoded anew, a text may have fewer tokens than were sampled
        (40, 100, "unknown", "unknown"),  # another reply of its batch reached the limit
        (40, 40, "unknown", "unknown"),  # the longest of its batch, which ended by itself
        (100, 100, "stop", "stop"),  # the provider knows better
    ],
)
def test_a_reply_at_the_limit_was_cut_off(solve: Solve, words: int, longest: int, given: str, expected: str) -> None:
    sample = solve(small_model("so " * words, longest, given), direct(), rain(), max_tokens=100)
    assert sample.output.stop_reason == expected


@pytest.mark.parametrize(("words", "positions"), [(100, 120), (1, 20)])
def test_a_reply_beyond_the_context_is_none(solve: Solve, words: int, positions: int) -> None:
    """The question has about 60 words: in the second case no position is left for a reply, and there is no call."""
    sample = solve(small_model("so " * words, words, positions=positions), direct(), rain(), max_tokens=100)
    assert sample.store["Trajectory:ended"] == OUT_OF_CONTEXT.format(who="The model")
    assert len([event for event in sample.events if isinstance(event, ModelEvent)]) == (positions > 100)


@pytest.mark.parametrize("where", ["solver", "role"])
def test_too_little_memory_is_one_error(fails: Fails, where: str) -> None:
    def runs_out(_: list[ChatMessage]) -> str:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has a total capacity of 8 GiB.")

    large, small = says(runs_out), says("Hm.")
    model, other = (large, small) if where == "solver" else (small, large)
    task = task_of(rain(), dialogue(1))
    error = fails(task, model, model_roles={"interlocutor": other})
    assert error.startswith("mockllm/model has too little memory (CUDA out of memory. Tried to allocate 2.00 GiB.)")
    assert "--max-connections" in error


def test_tokens_are_counted_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(count_tokens(small_model("", 1), "one two three")) == 3
    model = get_model("mockllm/model", memoize=False)

    async def offline(text: str) -> int:
        raise ConnectionError(f"no network for {text}")

    monkeypatch.setattr(model.api, "count_text_tokens", offline)
    assert asyncio.run(count_tokens(model, "four bytes each: ä")) == 5

"""The model in training as Inspect calls it: what it reads and writes is kept as token ids, and goes on from itself."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    get_model,
)
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver, use_tools
from inspect_ai.tool import Tool, tool
from tokenizers.processors import TemplateProcessing

from tests.fixtures import QUIET, samples
from tests.training.rollouts.conftest import Scripted, talk
from truthgym.solvers.thoughts import split_thought
from truthgym.training.rollouts.policy import Policy, SampledReply
from truthgym.training.rollouts.runner import NoCacheModel, conversation_rows
from truthgym.training.rollouts.sampling import Batcher, Engine, LocalEngine
from truthgym.training.rollouts.trainer import load_tokenizer

STRIPS = """{% for m in messages %}<|{{ m.role }}|>
{%- if m.role == 'assistant' and not loop.last %}{{ m.content.split('</think>')[-1] }}
{%- else %}{{ m.content }}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
"""Drops what was thought in earlier turns, as Qwen3's does."""
TRIMS = """{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""


Play = Callable[..., tuple[EvalSample, list[SampledReply], Any]]


@pytest.fixture
def play(tokenizer: Any, tmp_path: Path) -> Play:
    """Let a solver talk with a policy, and return the sample, its turns and the engine."""

    def run(
        work: Solver | list[Solver],
        script: list[str | list[int]] | Engine,
        template: str | None = None,
        bos: bool = False,
        thinking: bool | None = None,
        **limits: Any,
    ) -> tuple[EvalSample, list[SampledReply], Any]:
        engine = Scripted(tokenizer, script, **limits) if isinstance(script, list) else script
        own = deepcopy(tokenizer)
        own.chat_template = template or tokenizer.chat_template
        if bos:  # as Llama's tokenizers do
            single = TemplateProcessing(single="<|pad|> $A", special_tokens=[("<|pad|>", own.pad_token_id)])
            own.backend_tokenizer.post_processor = single
        policy = Policy("tiny", own, Batcher(engine, 1), (0,), thinking)
        task, model = Task([Sample("Is it red?")], solver=work), NoCacheModel(policy, GenerateConfig(max_tokens=30))
        log = eval(task, model=model, log_dir=str(tmp_path / "logs"), fail_on_error=False, **QUIET)[0]
        return samples(log)[0], list(policy.replies.get(samples(log)[0].uuid or "", {}).values()), engine

    return run


@tool
def weather() -> Tool:
    async def execute(town: str) -> str:
        """Tell the weather.

        Args:
            town: Where.
        """
        return f"It rains in {town}."

    return execute


def test_the_model_reads_what_inspects_own_provider_renders(tiny_model: Path, tokenizer: Any, play: Play) -> None:
    from transformers import AutoModelForCausalLM

    heard: list[list[ChatMessage]] = []

    @solver
    def greedy() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            state.messages = [ChatMessageSystem(content="Be brief."), *state.messages, ChatMessageUser(content="Say.")]
            heard.append(list(state.messages))
            return await generate(state, temperature=0.0, max_tokens=12)

        return solve

    theirs = get_model("hf/local", model_path=str(tiny_model), device="cpu", do_sample=False, memoize=False)
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    sample, turns, _ = play(greedy(), LocalEngine(model, tokenizer, [tokenizer.eos_token_id]))
    joined = [heard[0][0], ChatMessageUser(content="Is it red?\nSay.")]  # Inspect joins what a user says twice
    api: Any = theirs.api
    assert turns[0].prompt == api.hf_chat(joined, [])
    assert turns[0].prompt_ids == api.tokenizer(turns[0].prompt)["input_ids"]

    async def ask() -> ModelOutput:
        return await theirs.generate(joined, config=GenerateConfig(max_tokens=12))

    import anyio

    assert anyio.run(ask).completion == sample.output.completion == turns[0].text


def test_the_next_prompt_continues_from_the_sampled_tokens(tokenizer: Any, play: Play) -> None:
    end = tokenizer.eos_token_id
    letters = [*tokenizer.convert_tokens_to_ids(["3", "7"]), end]
    assert len(tokenizer("37")["input_ids"]) == 1
    sample, turns, engine = play(talk("Sure?", "Really?"), [letters, "No.", [*letters[:1], 3]])
    first, second, third = turns
    replies = [message for message in sample.messages if isinstance(message, ChatMessageAssistant)]
    assert [(message.id, message.text) for message in replies] == [(turn.message_id, turn.text) for turn in turns]
    assert second.prompt_ids[: len(first.prompt_ids) + 3] == [*first.prompt_ids, *letters]
    assert third.prompt_ids[: len(second.prompt_ids)] == second.prompt_ids
    assert [request.prompt_ids for request in engine.asked] == [turn.prompt_ids for turn in turns]
    assert tokenizer.decode(third.prompt_ids) == third.prompt
    assert third.prompt.endswith("<|assistant|>37<|end|><|user|>Sure?<|end|><|assistant|>No.<|end|>"
                                 "<|user|>Really?<|end|><|assistant|>")  # fmt: skip
    assert (second.previous, third.previous, first.previous) == (first, second, None)
    assert [turn.end for turn in turns] == ["<|end|>", "<|end|>", ""]
    assert first.logprobs == [-0.5] * 3
    assert len({request.key for request in engine.asked}) == 3


def test_a_reply_says_why_it_ended(tokenizer: Any, play: Play) -> None:
    def reason(reply: str | list[int]) -> str:
        return play(generate(stop_seqs=["No."]), [reply])[0].output.stop_reason

    assert reason("yes") == "stop", "its end token"
    assert reason(tokenizer("No.")["input_ids"]) == "stop", "its stop text"
    assert reason([20, 21]) == "max_tokens", "neither came"


def test_a_reply_that_was_cut_off_or_has_another_end_is_closed_by_the_template(tokenizer: Any, play: Play) -> None:
    _, turns, _ = play(talk("Go on."), [[20, 21], "Well."])
    assert turns[1].prompt_ids[len(turns[0].prompt_ids) :][:3] == [20, 21, tokenizer.eos_token_id]
    other = tokenizer.convert_tokens_to_ids("<|tool|>")
    _, turns, _ = play(talk("Sure?", "Really?"), [[20, other], "Well."], end_ids=[tokenizer.eos_token_id, other])
    assert [turn.previous for turn in turns] == [None, *turns[:2]]
    assert turns[1].prompt_ids[len(turns[0].prompt_ids) :][:3] == [20, other, tokenizer.eos_token_id]


@pytest.mark.parametrize("fields", [{"forget": True}, {"edit": True}], ids=["new", "edited"])
def test_a_conversation_that_does_not_go_on_begins_anew(tokenizer: Any, play: Play, fields: dict[str, bool]) -> None:
    _, turns, _ = play(talk("Sure?", **fields), ["yes", "no"])
    assert [turn.previous for turn in turns] == [None, None]
    assert not any(turn.divergence for turn in turns)
    assert ("YES" in turns[1].prompt) == ("edit" in fields)
    assert turns[1].prompt_ids == tokenizer(turns[1].prompt)["input_ids"]


def test_a_template_that_drops_what_was_said_is_told_where(play: Play) -> None:
    _, turns, _ = play(talk("Sure?"), ["It may be.</think>yes", "no"], template=STRIPS)
    assert turns[0].divergence is None
    message = str(turns[1].divergence)
    assert "The chat template of tiny changes earlier messages" in message
    assert "had 'It may be.</think>yes'" in message
    assert "now writes 'yes<|end|><|user|>Sure?" in message
    assert "--chat_template_path FILE" in message
    assert turns[1].previous is None, "what it read is what it read: a scorer may ask on"


@pytest.mark.parametrize(
    ("name", "thinking"),
    [("qwen3", None), ("qwen3", False), ("qwen3_5_think", False), ("qwen3_5_nothink", None), ("qwen3_5_nothink", True),
     ("qwen3_6", None)],
)  # fmt: skip
def test_a_row_has_the_sampled_thoughts_and_no_others(
    name: str, thinking: bool | None, tokenizer: Any, play: Play, tmp_path: Path
) -> None:
    import trl

    own = deepcopy(tokenizer)
    own.chat_template = (Path(trl.__path__[0]) / "chat_templates" / f"{name}.jinja").read_text()
    own.save_pretrained(tmp_path / "thinks")
    trained = load_tokenizer("grpo", str(tmp_path / "thinks"), thinking=thinking).chat_template
    own.chat_template = trained
    prompt = own.apply_chat_template([{"role": "user", "content": "?"}], add_generation_prompt=True, tokenize=False,
                                     enable_thinking=thinking).rstrip()  # fmt: skip
    replies = [f"<think>\n{word}\n</think>\n\n{word}" for word in ("yes", "no")]
    if prompt.endswith("think>"):
        replies = [reply.removeprefix("<think>\n") for reply in replies]
    if prompt.endswith("</think>"):
        replies = ["yes", "no"]
    assert prompt.endswith("</think>") or thinking is not False
    sample, turns, _ = play(talk("Sure?"), replies, template=trained, thinking=thinking)
    [row] = conversation_rows(turns)
    sampled = [token for token, trained in zip(row.completion_ids, row.mask, strict=True) if trained]
    assert tokenizer.decode(sampled).replace(" ", "") == "".join(f"{reply}<|end|>" for reply in replies)
    assert tokenizer.decode(row.prompt_ids).rstrip().endswith(prompt[-8:])
    texts = [message.text for message in sample.messages if message.role == "assistant"]
    assert [split_thought(text)[1] for text in texts] == ["yes", "no"]
    thinks = thinking or (thinking is None and name != "qwen3_5_nothink")
    assert [bool(split_thought(text)[0]) for text in texts] == [thinks] * 2


def test_a_thought_that_the_template_began_is_known_as_one(tokenizer: Any, play: Play) -> None:
    begins = f"{tokenizer.chat_template}{{% if add_generation_prompt %}}<think>\n{{% endif %}}"
    sample, turns, _ = play(generate(), [tokenizer("It is 60%")["input_ids"]], template=begins)
    assert sample.output.completion == turns[0].text == "<think>\nIt is 60%"
    assert turns[0].reply_text == "It is 60%"


def test_templates_that_trim_or_write_the_bos_token_themselves(tokenizer: Any, play: Play) -> None:
    _, turns, _ = play(talk("Sure?"), ["yes", "no"], template=f"<|pad|>{tokenizer.chat_template}", bos=True)
    assert [turn.prompt_ids.count(tokenizer.pad_token_id) for turn in turns] == [1, 1], "the tokenizer adds no other"
    _, turns, _ = play(talk("Sure?"), [" yes \n", "no"], template=TRIMS)
    assert turns[1].previous is turns[0]
    assert " yes \n<|end|>\n<|user|>Sure?" in tokenizer.decode(turns[1].prompt_ids)


def test_calls_of_tools_stand_as_they_were_written(tokenizer: Any, play: Play) -> None:
    call = '<tool_call>{"name": "weather",  "arguments": {"town": "Rome"}}</tool_call>'
    sample, turns, _ = play([use_tools(weather()), generate()], [f"Let me see. {call}", "It rains."])
    assert [message.role for message in sample.messages] == ["user", "assistant", "tool", "assistant"]
    assert turns[1].previous is turns[0]
    assert call in turns[1].prompt, "with both of its blanks"
    assert turns[1].prompt.endswith("<|tool|>It rains in Rome.<|end|><|assistant|>")
    assert turns[1].prompt_ids[: len(turns[0].prompt_ids)] == turns[0].prompt_ids
    assert '"name": "weather"' in turns[0].prompt


def test_inspects_cache_has_no_part(play: Play) -> None:
    for reply in ("yes", "no"):
        sample, turns, _ = play(talk(cache=True), [reply])
        assert sample.output.completion == reply
        assert len(turns) == 1


def test_a_conversation_that_outgrows_the_model_ends(play: Play) -> None:
    sample, turns, engine = play(talk("Sure?"), ["yes", "no"])
    first, second = (len(turn.prompt_ids) for turn in turns)
    sample, turns, engine = play(talk("Sure?"), ["yes", "no"], context_length=first + 3)
    assert [request.max_tokens for request in engine.asked] == [3]
    assert sample.output.stop_reason == "model_length"
    sample, turns, engine = play(talk("Sure?"), ["yes", "no"], context_length=second + 1)
    assert [request.max_tokens for request in engine.asked] == [second + 1 - first, 1]

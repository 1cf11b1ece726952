"""Every chat template that TRL knows writes our conversations, or is refused with what it cannot do."""

from pathlib import Path
from typing import Any

import pytest
import trl

from truthgym.solvers.chat_template import FRONTS, TALK, TALKS, fit, problem

TEMPLATES = sorted((Path(trl.__file__).parent / "chat_templates").glob("*.jinja"))
TOOL = {
    "type": "function",
    "function": {"name": "move", "description": "Move.", "parameters": {"type": "object", "properties": {}}},
}
CALL = {"type": "function", "function": {"name": "move", "arguments": {"x": 1}}}
WITH_CALLS: list[dict[str, Any]] = [
    {"role": "user", "content": "Move."},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "name": "move", "content": "Moved."},
    {"role": "assistant", "content": "It is done."},
]
ALTERNATING = ("cohere", "cohere_training", "cohere2", "cohere2_training", "gemma3", "gemma3_training")
WITHOUT_SYSTEM = ("gemma", "gemma_training")
OF_PARTS = ("idefics3", "idefics3_training", "llava_next", "llava_next_training", "smolvlm", "smolvlm_training")
"""Templates that read no plain text, but lists of texts and images."""
WITHOUT_CALLS = {
    **dict.fromkeys((*ALTERNATING, *WITHOUT_SYSTEM), "roles must alternate"),
    **dict.fromkeys(OF_PARTS, "leaves out calls of tools"),
    **dict.fromkeys(("llava_next", "llava_next_training"), "Only user and assistant roles are supported"),
    **dict.fromkeys(
        (
            *("deepseek_r1_distill", "deepseek_r1_distill_training", "lfm2", "lfm2_training", "llama3"),
            *("llama3_training", "phi3", "phi3_training", "phi3_5", "phi3_5_training", "qwen2_5_vl"),
            "qwen2_5_vl_training",
        ),
        "leaves out calls of tools",
    ),
    "deepseekv3": "can only concatenate str",
}
"""What templates without calls of tools say, or leave out."""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"a": 0}, "a"))
    return PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>")


def test_all_templates_of_trl_are_here() -> None:
    assert len(TEMPLATES) >= 72
    assert {*WITHOUT_CALLS} <= {path.stem for path in TEMPLATES}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_template_writes_every_conversation(tokenizer: Any, path: Path) -> None:
    own = path.read_text(encoding="utf-8")
    fitted = fit(tokenizer, own)
    front = FRONTS.index(fitted.removesuffix(own))
    assert front == 1 * (path.stem in ALTERNATING) + 2 * (path.stem in WITHOUT_SYSTEM) + 3 * (path.stem in OF_PARTS)
    assert fit(tokenizer, fitted) == fitted
    for talk in (TALK[:1], TALK[:2], *TALKS):
        assert problem(tokenizer, talk, fitted) is None
    assert problem(tokenizer, TALK[:1], fitted, add_generation_prompt=True) is None
    refusal = problem(tokenizer, WITH_CALLS, fitted, tools=[TOOL])
    expected = WITHOUT_CALLS.get(path.stem)
    assert (refusal is None) if expected is None else (expected in str(refusal))


def test_a_system_message_stands_before_the_first_question(tokenizer: Any) -> None:
    gemma = fit(tokenizer, next(path for path in TEMPLATES if path.stem == "gemma").read_text())
    assert str(tokenizer.apply_chat_template(list(TALKS[1]), chat_template=gemma, tokenize=False)).startswith(
        "<s><start_of_turn>user\nFollow the rule of seven.\n\nWhich river is it?<end_of_turn>\n<start_of_turn>model"
    )

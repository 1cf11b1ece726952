"""What each method trains on, token by token, under the chat templates of the models that people train.

trained_tokens.md shows it: what is between ⟦ and ⟧ is trained, and before it stands the end of what is not. To make it
anew: `python -m tests.training.trainers.test_chat_templates`.
"""

import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.solver import use_tools

from tests.fixtures import QUIET, samples, write_rows
from tests.training.conftest import look
from tests.training.rollouts.conftest import Scripted, talk
from truthgym.datasets.errors import BadInput
from truthgym.training.rollouts.policy import Policy
from truthgym.training.rollouts.runner import NoCacheModel, conversation_rows
from truthgym.training.rollouts.sampling import Batcher
from truthgym.training.rollouts.trainer import load_tokenizer
from truthgym.training.tiny import tiny
from truthgym.training.trainers.training_run import prepare

GOLDEN = Path(__file__).with_name("trained_tokens.md")
CHATML = ("<|im_end|>", "<|im_start|>")
LLAMA = ("<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>")
FAMILIES: dict[str, tuple[str, ...]] = {
    "qwen2_5": CHATML,
    "qwen3": CHATML,
    "llama3": LLAMA,
    "llama3_1": LLAMA,
    "gemma3": ("<end_of_turn>", "<bos>", "<start_of_turn>"),
    "mistral": ("</s>", "<s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    "smollm2": CHATML,
}
"""Special tokens of each: the one that ends a reply, the one that begins a text if there is one, and others."""

SYSTEM = {"role": "system", "content": "Be brief."}
ASK = {"role": "user", "content": "Is it red?"}
SURE = {"role": "user", "content": "Sure?"}
YES, VERY, NO = ({"role": "assistant", "content": text} for text in ("Yes.", "Very.", "No."))
THOUGHT = {"role": "assistant", "content": "<think>\nRoses are.\n</think>\n\nYes."}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"type": "function", "id": "call00001", "function": {"name": "look", "arguments": {"at": "it"}}}
    ],
}  # fmt: skip
SEEN = {"role": "tool", "name": "look", "content": "red", "tool_call_id": "call00001"}
LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}
ON, OFF = ({"chat_template_kwargs": {"enable_thinking": thinks}} for thinks in (True, False))
ROWS: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]]]] = {
    "sft, a reply with a thought, without one, and after another": ("sft", {}, [
        {"prompt": [SYSTEM, ASK], "completion": [THOUGHT], **ON},
        {"prompt": [SYSTEM, ASK], "completion": [YES], **OFF},
        {"prompt": [SYSTEM, ASK, THOUGHT, SURE], "completion": [THOUGHT], **ON},
    ]),
    "sft, a call of a tool, and the reply after it": ("sft", {}, [
        {"prompt": [SYSTEM, ASK], "completion": [CALL], "tools": [LOOK], **OFF},
        {"prompt": [SYSTEM, ASK, CALL, SEEN], "completion": [YES], "tools": [LOOK], **OFF},
    ]),
    "sft, messages": ("sft", {}, [{"messages": [SYSTEM, ASK, YES, SURE, VERY]}]),
    "sft, messages, replies only": ("sft", {"assistant_only_loss": True}, [
        {"messages": [SYSTEM, ASK, YES, SURE, VERY]}, {"messages": [SYSTEM, ASK, THOUGHT, SURE, THOUGHT]},
    ]),
    "sft, messages with a tool, replies only": ("sft", {"assistant_only_loss": True}, [
        {"messages": [SYSTEM, ASK, CALL, SEEN, YES], "tools": [LOOK]},
    ]),
    "dpo, chosen and rejected": ("dpo", {}, [{"prompt": [SYSTEM, ASK], "chosen": [THOUGHT], "rejected": [NO], **ON}]),
}  # fmt: skip


def template(family: str) -> str:
    """The real template: TRL's, Mistral's from its own package, SmolLM2's from the folder in $SMOLLM2."""
    import trl

    if family == "mistral":
        if not importlib.util.find_spec("mistral_common"):
            pytest.skip("mistral-common is not installed; pip install mistral-common")
        from mistral_common.integrations.chat_templates import template_generator  # type: ignore[import-not-found]
        from mistral_common.tokens.tokenizers.base import TokenizerVersion  # type: ignore[import-not-found]

        return str(template_generator.build_chat_template(template_generator.TemplateConfig(TokenizerVersion.v7)))
    if family == "smollm2":
        if not (folder := os.environ.get("SMOLLM2")):
            pytest.skip("SMOLLM2 is not set to the folder of `truthgym models smollm2 --out FOLDER`")
        return (Path(folder) / "chat_template.jinja").read_text(encoding="utf-8")
    return (Path(trl.__path__[0]) / "chat_templates" / f"{family}.jinja").read_text(encoding="utf-8")


def model(family: str, folder: Path) -> Path:
    """Random weights with the template and the special tokens of a family, whose tokenizer writes the first itself."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoModelForCausalLM, AutoTokenizer

    own = template(family)
    base = tiny(folder / "tiny", steps=0, hidden=32, layers=2, overwrite=True)
    tokenizer, weights = AutoTokenizer.from_pretrained(base), AutoModelForCausalLM.from_pretrained(base)
    end, *others = FAMILIES[family]
    tokenizer.add_special_tokens({"eos_token": end, "additional_special_tokens": others})
    if FAMILIES[family] != CHATML:
        tokenizer.bos_token = others[0]
        begins = TemplateProcessing(single=f"{others[0]} $A", special_tokens=[(others[0], tokenizer.bos_token_id)])
        tokenizer.backend_tokenizer.post_processor = begins
    tokenizer.chat_template = own
    weights.resize_token_embeddings(len(tokenizer))
    weights.config.eos_token_id = weights.generation_config.eos_token_id = tokenizer.eos_token_id
    weights.save_pretrained(folder / family)
    tokenizer.save_pretrained(folder / family)
    return folder / family


def shown(tokenizer: Any, ids: Sequence[int], trained: Sequence[int]) -> str:
    """The text of some tokens, those that are trained in brackets, and the others shortened to their end."""
    if tokenizer.bos_token_id is not None:
        assert list(ids).count(tokenizer.bos_token_id) == 1, "the template and the tokenizer write it both"
    text = ""
    for learned, pairs in groupby(zip(ids, trained, strict=True), key=lambda pair: bool(pair[1])):
        part = str(tokenizer.decode([token for token, _ in pairs]))
        text += f"⟦{part}⟧" if learned else part if len(part) <= 32 else f"…{part[-32:]}"
    return repr(text)


def in_dataset(folder: Path, name: str) -> Iterator[str]:
    """What the trainer of a dataset's rows reads and trains on."""
    import trl

    method, options, rows = ROWS[name]
    (data := folder / name).mkdir()
    write_rows(data / "train.jsonl", *rows)
    raw = {"model_name_or_path": str(folder), "dataset_name": str(data), "output_dir": str(folder / "trained")}
    with prepare(method, raw | {"report_to": "none", "use_cpu": True, "max_length": 1024} | options) as run:
        trainer: Any = run.trainer(trl.SFTTrainer if method == "sft" else trl.DPOTrainer)
        for row in trainer.train_dataset:
            batch = trainer.data_collator([row])
            mask = batch["completion_mask"] if method == "dpo" else batch["labels"] != -100
            for ids, trained in zip(batch["input_ids"].tolist(), mask.tolist(), strict=True):
                pads = ids.index(pad) if (pad := trainer.processing_class.pad_token_id) in ids else len(ids)
                yield shown(trainer.processing_class, ids[:pads], trained[:pads])


def in_rollouts(folder: Path, replies: list[str], thinking: bool | None, tools: bool) -> Iterator[str]:
    """What GRPO reads and trains on of a conversation in two turns."""
    tokenizer = load_tokenizer("grpo", str(folder), thinking=thinking)
    ids = [[*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id] for text in replies]
    policy = Policy(folder.name, tokenizer, Batcher(Scripted(tokenizer, ids), 1), (0,), thinking)
    task = Task([Sample("Is it red?")], solver=[use_tools(look()), talk("Sure?")] if tools else talk("Sure?"))
    [log] = eval(task, model=NoCacheModel(policy, GenerateConfig(max_tokens=60)), log_dir=str(folder / "logs"), **QUIET)
    if log.error:
        yield f"failed: {log.error.message}"
        return
    for row in conversation_rows(list(policy.replies[samples(log)[0].uuid or ""].values())):
        whole = [*row.prompt_ids, *row.completion_ids]
        yield shown(tokenizer, whole, [0] * len(row.prompt_ids) + list(row.mask))


def called(family: str) -> str:
    """A call of a tool as a model of the family writes it."""
    call = {"name": "look", "parameters" if family.startswith("llama") else "arguments": {"at": "it"}}
    if family == "mistral":
        return f"[TOOL_CALLS]{json.dumps([call])}"
    return json.dumps(call) if family.startswith("llama") else f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


def section(family: str, parent: Path) -> str:
    """The family's section of the golden file."""
    folder = model(family, parent)
    rollouts: dict[str, tuple[list[str], bool | None, bool]] = {
        "grpo, two turns without thoughts": (["Yes.", "Very."], False, False),
        "grpo, two turns with thoughts": ([THOUGHT["content"]] * 2, True, False),
        "grpo, a call of a tool": ([called(family), "Yes.", "Very."], False, True),
    }
    lines = [f"## {family}"]
    for name in (*ROWS, *rollouts):
        lines += ["", f"{name}:", ""]
        try:
            texts = list(in_rollouts(folder, *rollouts[name]) if name in rollouts else in_dataset(folder, name))
        except BadInput as error:
            texts = ["refused: " + str(error).replace(str(parent), "").replace("\n", " ")]
        lines += [f"    {text}" for text in texts]
    return "\n".join([*lines, ""])


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_tokens_that_are_trained(family: str, tmp_path: Path) -> None:
    sections = GOLDEN.read_text(encoding="utf-8").split("\n## ")
    expected = {text.partition("\n")[0]: text.strip() for text in sections}
    assert section(family, tmp_path).removeprefix("## ").strip() == expected[family]


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        texts = [section(name, Path(place)) for name in FAMILIES]
    GOLDEN.write_text("\n".join(["# What is trained: between ⟦ and ⟧ (see test_chat_templates.py)\n", *texts]))

"""By how much do the log-probabilities of the sampler and of the trainer differ, and why?

    python -m studies.training.sampling_agreement MODEL [--out FILE.json]

The model answers questions of `urns` as a rollout does: in one padded batch, token by token with a cache. The replies
are then read again as the trainer reads them: whole, in padded batches. And alone, without padding; and alone in
float32, the most exact. All differences are of the log-probabilities of the tokens that were drawn, at temperature 1,
in nats. With LoRA the adapter is random and moves each weight matrix by 2 %; `merged` is what a server samples from,
while the trainer keeps the adapter apart.
"""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from studies.speed.timing import arguments
from truthgym.analysis.tables.markdown import markdown

QUESTIONS = 64
TOKENS = 32
MICRO = 8
"""Rows of the trainer's batches."""
MOVED = 0.02
"""Norm of an adapter's change of a matrix, over that of the matrix."""
VARIANTS = (
    ("float32", "float32", False, ""),
    ("float32, LoRA", "float32", False, "apart"),
    ("float32, LoRA merged", "float32", False, "merged"),
    ("autocast to bfloat16", "float32", True, ""),
    ("autocast to bfloat16, LoRA", "float32", True, "apart"),
    ("autocast to bfloat16, LoRA merged", "float32", True, "merged"),
    ("bfloat16", "bfloat16", False, ""),
    ("bfloat16, LoRA", "bfloat16", False, "apart"),
    ("bfloat16, LoRA merged", "bfloat16", False, "merged"),
)
"""Name, type of the weights, autocast or not, LoRA."""
Rows = Sequence[tuple[list[int], list[int]]]
"""Token ids of prompt and reply."""


def prompts(tokenizer: Any, count: int) -> list[list[int]]:  # noqa: ANN401
    from truthgym.datasets.question import Question
    from truthgym.solvers.conversation import paragraphs
    from truthgym.solvers.direct import answer_instruction, evidence
    from truthgym.training.rollouts.questions import load_questions

    samples = load_questions("truthgym/urns", {"n": 3 * count, "paradigms": "brier", "likelihood_ratio": 3.0}).samples
    texts = []
    for sample in list(samples.values())[:count]:
        question = Question.model_validate(sample.metadata)
        texts.append(paragraphs(str(sample.input), evidence(question.evidence), answer_instruction(question)))
    talk = [[{"role": "user", "content": text}] for text in texts]
    return [list(tokenizer.apply_chat_template(each, add_generation_prompt=True)["input_ids"]) for each in talk]


def load(folder: str, dtype: str, lora: bool, device: str, attention: str) -> Any:  # noqa: ANN401
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=attention).to(device)
    if lora:
        torch.manual_seed(0)
        model = get_peft_model(model, LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"))
        for layer in model.modules():
            if hasattr(layer, "lora_B"):
                b = layer.lora_B["default"].weight.data.normal_()
                change = layer.get_delta_weight("default").norm()
                b *= MOVED * layer.get_base_layer().weight.norm() / change
    return model.eval()


def read(model: Any, rows: Rows, size: int, context: AbstractContextManager[Any]) -> list[list[float]]:  # noqa: ANN401
    """Log-probabilities of the replies' tokens in batches of so many rows, padded as TRL pads them."""
    import torch
    from trl.trainer.utils import pad, selective_log_softmax

    read_rows: list[list[float]] = []
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        sides = [("left", 0), ("right", 1)]
        ids = [pad([torch.tensor(row[part]) for row in batch], 0, side) for side, part in sides]
        masks = [pad([torch.ones(len(row[part])) for row in batch], 0, side).long() for side, part in sides]
        replies = ids[1].to(model.device)
        with torch.no_grad(), context:
            logits = model(
                input_ids=torch.cat(ids, 1).to(model.device),
                attention_mask=torch.cat(masks, 1).to(model.device),
                logits_to_keep=replies.shape[1] + 1,
            ).logits[:, :-1]
            values = selective_log_softmax(logits, replies).float()
        read_rows += [row[: len(own[1])] for row, own in zip(values.tolist(), batch, strict=True)]
    return read_rows


def difference(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> dict[str, float]:
    import numpy as np

    pairs = [np.array(a) - np.array(b) for a, b in zip(one, other, strict=True)]
    gaps, sums = np.concatenate(pairs), np.array([pair.sum() for pair in pairs])
    return {"mean": float(np.abs(gaps).mean()), "most": float(np.abs(gaps).max()), "bias": float(gaps.mean()),
            "least ratio": float(np.exp(gaps.min())), "most ratio": float(np.exp(gaps.max())),
            "mean ratio": float(np.exp(gaps).mean()), "mean of replies": float(np.abs(sums).mean())}  # fmt: skip


def measure(folder: str, variant: tuple[str, str, bool, str], attention: str, questions: int) -> dict[str, Any]:
    import torch
    from transformers import AutoTokenizer

    from truthgym.training.rollouts.sampling import LocalEngine, Request

    name, dtype, autocast, lora = variant
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model = load(folder, dtype, bool(lora), device, attention)

    def context() -> AbstractContextManager[Any]:
        return torch.autocast(device, torch.bfloat16) if autocast else nullcontext()

    asked = prompts(tokenizer, questions)
    if lora == "merged":
        model.merge_adapter()
    engine = LocalEngine(model, tokenizer, [tokenizer.eos_token_id], autocast=context)
    drawn = engine([Request((0, place), ids, TOKENS, seed=(0,)) for place, ids in enumerate(asked)])
    if lora == "merged":
        model.unmerge_adapter()
    rows = [(ids, reply.ids) for ids, reply in zip(asked, drawn, strict=True)]
    sampled = [reply.logprobs for reply in drawn]
    trained, alone = (read(model, rows, size, context()) for size in (MICRO, 1))
    exact = read(model.float(), rows, 1, nullcontext())
    pairs = {"trainer - sampler": (trained, sampled), "trainer - alone": (trained, alone),
             "sampler - float32": (sampled, exact), "trainer - float32": (trained, exact)}  # fmt: skip
    found = {pair: difference(*values) for pair, values in pairs.items()}
    return {"variant": name, "attention": attention, "tokens": sum(map(len, sampled)), **found}


def table(found: Sequence[dict[str, Any]]) -> str:
    header = ["weights", "mean", "largest", "ratios", "mean ratio", "a reply", "sampler - float32", "trainer - float32"]
    rows = []
    for row in found:
        own = row["trainer - sampler"]
        rows.append([row["variant"], f"{own['mean']:.1g}", f"{own['most']:.1g}",
                     f"{own['least ratio']:.3f} to {own['most ratio']:.3f}", f"{own['mean ratio']:.4f}",
                     f"{own['mean of replies']:.1g}", f"{row['sampler - float32']['mean']:.1g}",
                     f"{row['trainer - float32']['mean']:.1g}"])  # fmt: skip
    return markdown(header, rows)


def main(folder: str, out: Path | None, attention: str, questions: int, only: str) -> None:
    found = []
    for variant in VARIANTS:
        if only in variant[0]:
            found.append(measure(folder, variant, attention, questions))
            print(json.dumps(found[-1]), flush=True)
            if out:
                out.write_text(json.dumps(found, indent=1))
    print(table(found))


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("model", help="a folder, or a name on the Hub")
    parser.add_argument("--out", type=Path, help="a JSON file of all figures")
    parser.add_argument("--attention", default="sdpa")
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--only", default="", help="variants whose name has this in it")
    args = parser.parse_args()
    main(args.model, args.out, args.attention, args.questions, args.only)

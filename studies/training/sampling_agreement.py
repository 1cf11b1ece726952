"""By how much do the log-probabilities of the sampler and of the trainer differ, and why?

    python -m studies.training.sampling_agreement MODEL [--out FILE.json]

The model answers questions of `urns` as a rollout does: in one padded batch, token by token with a cache. The replies
are then read again as the trainer reads them: whole, in padded batches. The differences are of the log-probabilities of
the tokens that were drawn, at temperature 1, in nats. With LoRA the adapter is random and moves each weight matrix by
2 %.
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
    ("float32", "float32", False, False),
    ("float32, LoRA", "float32", False, True),
    ("autocast to bfloat16", "float32", True, False),
    ("autocast to bfloat16, LoRA", "float32", True, True),
    ("bfloat16", "bfloat16", False, False),
    ("bfloat16, LoRA", "bfloat16", False, True),
)
"""Name, type of the weights, autocast or not, LoRA or not."""
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


def read(model: Any, rows: Rows) -> list[list[float]]:  # noqa: ANN401
    """Log-probabilities of the replies' tokens in batches of `MICRO` rows, padded as TRL pads them."""
    import torch
    from trl.trainer.utils import pad, selective_log_softmax

    read_rows: list[list[float]] = []
    for start in range(0, len(rows), MICRO):
        batch = rows[start : start + MICRO]
        sides = [("left", 0), ("right", 1)]
        ids = [pad([torch.tensor(row[part]) for row in batch], 0, side) for side, part in sides]
        masks = [pad([torch.ones(len(row[part])) for row in batch], 0, side).long() for side, part in sides]
        replies = ids[1].to(model.device)
        with torch.no_grad():
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

    gaps = np.concatenate([np.array(a) - np.array(b) for a, b in zip(one, other, strict=True)])
    return {"mean": float(np.abs(gaps).mean()), "most": float(np.abs(gaps).max()),
            "least ratio": float(np.exp(gaps.min())), "most ratio": float(np.exp(gaps.max())),
            "mean ratio": float(np.exp(gaps).mean())}  # fmt: skip


def measure(folder: str, variant: tuple[str, str, bool, bool], attention: str, questions: int) -> dict[str, Any]:
    import torch
    from transformers import AutoTokenizer

    from truthgym.training.rollouts.sampling import LocalEngine, Request

    name, dtype, autocast, lora = variant
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model = load(folder, dtype, lora, device, attention)

    def context() -> AbstractContextManager[Any]:
        return torch.autocast(device, torch.bfloat16) if autocast else nullcontext()

    asked = prompts(tokenizer, questions)
    engine = LocalEngine(model, tokenizer, [tokenizer.eos_token_id], autocast=context)
    drawn = engine([Request((0, place), ids, TOKENS, seed=(0,)) for place, ids in enumerate(asked)])
    with context():
        trained = read(model, [(ids, reply.ids) for ids, reply in zip(asked, drawn, strict=True)])
    sampled = [reply.logprobs for reply in drawn]
    about = {"variant": name, "attention": attention, "tokens": sum(map(len, sampled))}
    return about | difference(trained, sampled)


def table(found: Sequence[dict[str, Any]]) -> str:
    header = ["weights", "mean", "largest", "ratios", "mean ratio"]
    rows = [[row["variant"], f"{row['mean']:.1g}", f"{row['most']:.1g}",
             f"{row['least ratio']:.3f} to {row['most ratio']:.3f}", f"{row['mean ratio']:.4f}"]
            for row in found]  # fmt: skip
    return markdown(header, rows)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("model", help="a folder, or a name on the Hub")
    parser.add_argument("--out", type=Path, help="a JSON file of all figures")
    parser.add_argument("--attention", default="sdpa")
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--only", default="", help="variants whose name has this in it")
    args = parser.parse_args()
    found = []
    for variant in VARIANTS:
        if args.only in variant[0]:
            found.append(measure(args.model, variant, args.attention, args.questions))
            print(json.dumps(found[-1]), flush=True)
            if args.out:
                args.out.write_text(json.dumps(found, indent=1))
    print(table(found))

"""What scaling does to a Brier reward: where it pushes a stated belief, and what it makes of a calibrated model.

    python -m studies.training.group_scaling docs/rewards_scaling.md

A tiny model answers one prompt with a whole percent, and is first taught to say about what is right: the outcome is
"yes" with probability 0.7, or 0.9, drawn for each prompt of a batch. Then TRL's own trainer trains it on
`truthgym.training.trl_rewards.brier`. Between rows of the table only the trainer and its options differ: the model, the
outcomes, the seeds and the learning rate are the same.
"""

import sys
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from studies.study import write_texts
from truthgym.analysis.tables.markdown import markdown
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.training.tiny import tiny

SPREADS = {0.7: 0.15, 0.9: 0.06}
"""Of what the calibrated model says, by the probability that it says in the mean."""
PROMPT = [{"role": "user", "content": "How likely?"}]
STEPS = 60
PROMPTS, GENERATIONS = 16, 8
RATE = 5e-3
SEEDS = range(5)
TRAINERS: dict[str, tuple[str, dict[str, Any]]] = {
    'GRPO, `scale_rewards="none"`': ("GRPO", {"scale_rewards": "none"}),
    "RLOO": ("RLOO", {"beta": 0.0}),
    'GRPO, `scale_rewards="batch"`': ("GRPO", {"scale_rewards": "batch"}),
    "RLOO, `normalize_advantages=True`": ("RLOO", {"beta": 0.0, "normalize_advantages": True}),
    'GRPO, `scale_rewards="group"`, TRL\'s default': ("GRPO", {"scale_rewards": "group"}),
}
LEVELS = (0.65, 0.75, 0.95)
SCALINGS = (("none", 1), ("batch", 128), ("batch", 32), ("batch", 8), ("group", 1))


class Said(NamedTuple):
    mean: float
    """Of the stated probability, in [0, 1]."""
    read: float
    """Probability that it says a whole percent at all."""


def drift(
    level: float,
    probability: float,
    scaling: str = "none",
    *,
    groups: int = 1,
    generations: int = 8,
    spread: float = 0.03,
    draws: int = 4000,
    seed: int = 0,
) -> tuple[float, float]:
    r"""Direction in which a Brier reward, scaled as GRPO scales it, moves a stated belief: above 0 up, below 0 down.

    $$E\big[\,A_i\,(b_i-x)\,\big],\qquad A_i=\frac{R_i-\bar R}{s}$$

    over answers b that are `level` plus or minus `spread` with equal probability; R = -(b - y)² with one outcome y per
    group; s is 1, or the standard deviation of R within the group or the batch. The policy gradient of the mean answer
    equals this up to a positive factor.
    """
    rng = np.random.default_rng(seed)
    stated = level + spread * rng.choice([-1.0, 1.0], size=(draws, groups, generations))
    outcome = rng.random((draws, groups, 1)) < probability
    reward = -np.square(stated - outcome)
    advantage = reward - reward.mean(axis=2, keepdims=True)
    if scaling != "none":
        over = reward if scaling == "group" else reward.reshape(draws, 1, -1)
        advantage /= over.std(axis=2, ddof=1, keepdims=True) + 1e-4  # as TRL has it
    push = (advantage * (stated - level)).mean(axis=(1, 2))
    return float(push.mean()), float(push.std(ddof=1) / np.sqrt(draws))


def calibrated(folder: Path, probability: float = 0.7, steps: int = 150) -> Path:
    """Make a model that says a probability, give or take some."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    tiny(folder, hidden=32, layers=1, steps=0)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    numbers, asked = _asked(tokenizer)
    levels = torch.arange(100) / 100
    wanted = torch.softmax(-(((levels - probability) / SPREADS[probability]) ** 2) / 2, 0) * (levels >= 0.1)
    wanted /= wanted.sum()
    conversations = torch.cat([asked.expand(100, -1), numbers[:, None]], dim=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(steps):
        logits = model(conversations).logits
        said = logits[0, -2].log_softmax(-1)[numbers]
        ended = logits[:, -1].log_softmax(-1)[:, tokenizer.eos_token_id]
        (-(wanted * (said + ended)).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    return folder


def said_by(model: Any) -> Said:  # noqa: ANN401 (a model or its folder)
    """What a model says, exactly: from its probabilities."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    held = AutoModelForCausalLM.from_pretrained(model) if isinstance(model, Path) else model
    numbers, asked = _asked(AutoTokenizer.from_pretrained(held.name_or_path))
    with torch.no_grad():
        chances = held(asked).logits[0, -1].softmax(-1)[numbers]
    return Said(float(chances @ (torch.arange(100) / 100) / chances.sum()), float(chances.sum()))


def train(
    base: Path, out: Path, kind: str, options: dict[str, Any], seed: int, probability: float = 0.7, steps: int = STEPS
) -> Said:
    """Train with TRL's own trainer and a Brier reward; `kind` is GRPO or RLOO."""
    import trl
    from datasets import Dataset

    happened = np.random.default_rng(seed).random(PROMPTS * steps) < probability
    rows = [{"prompt": PROMPT, "target": "yes" if yes else "no"} for yes in happened]
    arguments = getattr(trl, f"{kind}Config")(
        output_dir=str(out), max_steps=steps, per_device_train_batch_size=PROMPTS * GENERATIONS,
        num_generations=GENERATIONS, max_completion_length=3, learning_rate=RATE, lr_scheduler_type="constant",
        seed=seed, bf16=False, use_cpu=True, gradient_checkpointing=False, save_strategy="no", logging_steps=steps,
        report_to="none", disable_tqdm=True, **options,
    )  # fmt: skip
    trainer = getattr(trl, f"{kind}Trainer")(
        model=str(base), reward_funcs=percent_brier, train_dataset=Dataset.from_list(rows), args=arguments
    )
    trainer.train()
    return said_by(trainer.model)


def percent_brier(prompts: list[Any], completions: list[Any], **columns: Any) -> Any:  # noqa: ANN401
    """The reward of whole percents, which the model states without a sign. `brier` reads a decimal or a percentage."""
    from truthgym.training import trl_rewards

    signed = [[{**message, "content": f"{message['content']}%"} for message in reply] for reply in completions]
    return trl_rewards.brier(prompts=prompts, completions=signed, **columns)


def _asked(tokenizer: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Tokens of the whole percents, and the prompt."""
    import torch

    asked = tokenizer.apply_chat_template(PROMPT, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    return torch.tensor(tokenizer.convert_tokens_to_ids([f"{n:02d}" for n in range(100)])), asked["input_ids"]


def drifts() -> str:
    """The table of directions: + pushes up, - down, 0 where 4 standard errors do not tell."""
    rows = []
    for probability, (scaling, groups) in product(SPREADS, SCALINGS):
        found = [drift(level, probability, scaling, groups=groups, draws=2000) for level in LEVELS]
        signs = ["0" if abs(push) < 4 * error else "+" if push > 0 else "-" for push, error in found]
        rows.append([f"{probability:g}", f"{scaling}, {groups} questions" if scaling == "batch" else scaling, *signs])
    levels = (f"{level:g}" for level in LEVELS)
    return markdown(["probability", "rewards divided by the spread of", *levels], rows)


def trained(probability: float) -> tuple[Said, list[list[str]]]:
    """What the calibrated model says, and rows of the table of what becomes of it."""
    rows = []
    with TemporaryDirectory() as place:
        base = calibrated(Path(place) / "base", probability)
        for name, (kind, options) in TRAINERS.items():
            ends = [train(base, Path(place) / "out", kind, options, seed, probability) for seed in SEEDS]
            found = mean_estimate([end.mean for end in ends])
            rows.append([f"{probability:g}", name, f"{found.estimate:.3f} ({found.lower:.3f} to {found.upper:.3f})"])
            print(*rows[-1], sep=" | ", flush=True)
        return said_by(base), rows


def main(page: Path) -> None:
    starts, rows = zip(*map(trained, SPREADS), strict=True)
    header = ["probability", "trainer", "belief after training (95 %)"]
    write_texts(page, {
        "drifts": drifts(),
        "starts": " and ".join(f"{start.mean:.3f}" for start in starts),
        "ends": markdown(header, [row for part in rows for row in part]),
    })  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))

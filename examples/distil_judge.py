"""Distil a judge into a reward model: repeated scores, denoised preferences, a classifier, compared at matched cost.

    truthgym models tiny --steps 0 --hidden 32 --out trained/tiny32
    python examples/distil_judge.py trained/distilled docs/distillation.md --model trained/tiny32

Replies are sentences of `models.agents.quality_markers`, whose quality is known. `reference/judge` scores them through
the same path as `truthgym serve`, with planted noise. Two reward models spend the same number of judge calls: one on a
single score of many replies, one on repeated scores of fewer replies, of which only pairs are kept whose mean scores
differ by more than their noise. Both, and the judge itself, then order the same pairs of replies to new prompts, for
several seeds, and are compared pair by pair.
"""

import argparse
import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from truthgym.datasets.inspect_private import init_runtime_context
from truthgym.models.agents.believer import BEFORE
from truthgym.models.agents.policies import generator
from truthgym.models.agents.quality_markers import draw_markers, quality
from truthgym.models.reward_model import chat_messages, load
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.serve.service.scoring import Item, Source
from truthgym.serve.spec import RewardSpec
from truthgym.training.conversion.writer import DatasetFolder
from truthgym.training.train import reward

CARE = 0.5
FILLERS = 2
PAGE = """# A judge distilled into a reward model

Made by `python examples/distil_judge.py WORK docs/distillation.md --model {model}`{options}. The judge is
`reference/judge` with noise of standard deviation {noise:g}. Replies have a planted quality: a pair is in the right
order if the reply of higher quality has the higher score. {pairs} pairs of replies to {prompts} prompts that no
training saw, over {seeds} seeds of replies and training; 95 % intervals clustered by prompt.{caveat}

| what scores | calls for labels | calls a reply | training pairs | rightly labelled | new pairs in order |
|---|---|---|---|---|---|
{rows}

The differences on the same pairs, with their intervals; one that holds 0 shows no difference:

| | minus | share in order |
|---|---|---|
{differences}

{verdict}
"""


@dataclass(frozen=True)
class Reply:
    """A reply to a prompt, with the truth about it."""

    prompt: str
    text: str

    @property
    def quality(self) -> float:
        return quality(self.text)


@dataclass(frozen=True)
class Pair:
    """Two replies to one prompt, the first of which is preferred."""

    chosen: Reply
    rejected: Reply
    margin: float

    @property
    def right(self) -> bool:
        return self.chosen.quality > self.rejected.quality


@dataclass(frozen=True)
class Arm:
    """A row of the page."""

    name: str
    label_calls: int
    calls_each: int
    training_pairs: int | None
    label_accuracy: float | None
    hits: np.ndarray
    """Of each new pair, 1 for the right order, 0 for the wrong one, one half for a tie."""
    clusters: tuple[str, ...]
    """Of each new pair, its prompt and seed."""

    @property
    def accuracy(self) -> Estimate:
        return mean_estimate(self.hits, list(self.clusters))

    def minus(self, other: "Arm") -> Estimate:
        """The difference of the shares in order, pair by pair."""
        return mean_estimate(self.hits - other.hits, list(self.clusters))


def make_replies(prompts: int, each: int, seed: int, split: str) -> list[list[Reply]]:
    """Replies with different markers in different places, a list for each prompt."""
    made = []
    for i in range(prompts):
        prompt, replies = f"Is statement {split} {i} true?", []
        for j in range(each):
            draw = generator("distil", seed, split, i, j)
            fillers = [BEFORE[k] for k in draw.choice(len(BEFORE), FILLERS, replace=False)]
            sentences = [*draw_markers(CARE, seed, split, str(i), j), *fillers]
            replies.append(Reply(prompt, " ".join(sentences[k] for k in draw.permutation(len(sentences)))))
        made.append(replies)
    return made


def judge_scores(replies: Sequence[Reply], repeats: int, noise: float) -> np.ndarray:
    """Scores of the judge, replies x repeats, each from a call of its own.

    Raises:
        RuntimeError: The judge failed.
    """
    role = {"model": "reference/judge", "model_args": {"noise": noise}}
    source = Source(RewardSpec(scorer="graded", options={"grader": "model", "cache": False}, roles={"grader": role}))

    async def score(reply: Reply, epoch: int) -> float:
        result = await source.score(Item(prompt=reply.prompt, response=reply.text, epoch=epoch))
        if result.score is None:
            raise RuntimeError(f"The judge gave no score: {result.reason}")
        return result.score

    async def score_all() -> list[float]:
        init_runtime_context()
        return await asyncio.gather(*(score(reply, epoch) for reply in replies for epoch in range(1, repeats + 1)))

    return np.reshape(asyncio.run(score_all()), (len(replies), repeats))


def preferences(groups: Sequence[Sequence[Reply]], scores: np.ndarray, least: float) -> list[Pair]:
    """Pairs of replies to one prompt whose mean scores differ by more than `least` standard errors of the difference.

    Args:
        groups: Replies by prompt.
        scores: Of all replies in order, replies x repeats.
        least: 0 keeps every difference. The standard error is pooled over all replies, from two repeats on.
    """
    repeats = scores.shape[1]
    error = np.sqrt(2 * scores.var(axis=1, ddof=1).mean() / repeats) if repeats > 1 else 0.0
    means, pairs, start = scores.mean(axis=1), [], 0
    for group in groups:
        mean = means[start : start + len(group)]
        start += len(group)
        for i, j in combinations(range(len(group)), 2):
            better, worse = (i, j) if mean[i] > mean[j] else (j, i)
            margin = float(mean[better] - mean[worse])
            if margin > least * error and margin > 0:
                pairs.append(Pair(group[better], group[worse], margin))
    return pairs


def write_pairs(pairs: Sequence[Pair], folder: Path) -> None:
    """Write preference rows for `truthgym train reward`."""
    with DatasetFolder(folder, overwrite=True) as out:
        for pair in pairs:
            texts = {"chosen": pair.chosen.text, "rejected": pair.rejected.text}
            row: dict[str, Any] = {"prompt": [{"role": "user", "content": pair.chosen.prompt}], "margin": pair.margin}
            out.write("train", row | {name: [{"role": "assistant", "content": text}] for name, text in texts.items()})
        facts = {"kind": "preference", "rows": dict(out.counts), "logs": [], "selection": {}}
        out.finish(facts, "Preferences of a judge", "Made by `examples/distil_judge.py`.")


def train(
    pairs: Sequence[Pair], model: str, work: Path, name: str, steps: int, seed: int
) -> Callable[[Sequence[Reply]], np.ndarray]:
    """Train a reward model on pairs, and return how it scores replies."""
    write_pairs(pairs, work / name)
    options = {
        "model_name_or_path": model, "dataset_name": str(work / name), "output_dir": str(work / "models"),
        "max_steps": steps, "learning_rate": 2e-3, "per_device_train_batch_size": 16, "gradient_accumulation_steps": 1,
        "report_to": "none", "seed": seed, "disable_tqdm": True,
    }  # fmt: skip
    trained = load(reward(options))

    def messages(reply: Reply) -> list[dict[str, str]]:
        return [{"role": "user", "content": reply.prompt}, {"role": "assistant", "content": reply.text}]

    return lambda replies: np.array(trained.score([chat_messages(messages(one), one.prompt) for one in replies]))


def in_order(groups: Sequence[Sequence[Reply]], scores: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Of each pair with different qualities, whether the scores order it rightly (a tie is 0.5), and its prompt."""
    hits, clusters, start = [], [], 0
    for group in groups:
        mine = scores[start : start + len(group)]
        start += len(group)
        for i, j in combinations(range(len(group)), 2):
            if group[i].quality != group[j].quality:
                agreement = np.sign(mine[i] - mine[j]) * np.sign(group[i].quality - group[j].quality)
                hits.append((agreement + 1) / 2)
                clusters.append(group[i].prompt)
    return np.array(hits), tuple(clusters)


def arms(
    model: str, work: Path, budget: int, repeats: int, each: int, held_out: int, noise: float, steps: int, seed: int
) -> Iterator[Arm]:
    """The judge and the two reward models, with what each cost, for one seed."""
    test = make_replies(held_out, each, seed, "new")
    replies = [reply for group in test for reply in group]
    again = judge_scores(replies, repeats, noise)
    yield Arm("judge, one score", 0, 1, None, None, *in_order(test, again[:, 0]))
    yield Arm(f"judge, mean of {repeats}", 0, repeats, None, None, *in_order(test, again.mean(axis=1)))
    for name, draws, least in (("single", 1, 0.0), ("repeated", repeats, 1.0)):
        groups = make_replies(budget // (each * draws), each, seed, "training")
        scores = judge_scores([reply for group in groups for reply in group], draws, noise)
        pairs = preferences(groups, scores, least)
        told_apart = [pair.right for pair in pairs if pair.chosen.quality != pair.rejected.quality]
        scored = train(pairs, model, work, f"{name}-{seed}", steps, seed)(replies)
        label = "reward model, single scores" if draws == 1 else f"reward model, {draws} scores each, denoised"
        yield Arm(label, scores.size, 0, len(pairs), float(np.mean(told_apart)), *in_order(test, scored))


def pooled(runs: Sequence[Sequence[Arm]]) -> list[Arm]:
    """The arms over seeds: pairs together, each seed's prompts by themselves; counts and label accuracies averaged."""
    made = []
    for same in zip(*runs, strict=True):
        first = same[0]
        pairs = [arm.training_pairs for arm in same if arm.training_pairs is not None]
        labels = [arm.label_accuracy for arm in same if arm.label_accuracy is not None]
        made.append(
            replace(
                first,
                training_pairs=round(float(np.mean(pairs))) if pairs else None,
                label_accuracy=float(np.mean(labels)) if labels else None,
                hits=np.concatenate([arm.hits for arm in same]),
                clusters=tuple(f"{seed} {cluster}" for seed, arm in enumerate(same) for cluster in arm.clusters),
            )
        )
    return made


def page(found: Sequence[Arm], options: str, model: str, noise: float, held_out: int, seeds: int) -> str:
    """The page with the comparison."""

    def row(arm: Arm) -> str:
        labels = "" if arm.label_accuracy is None else f"{arm.label_accuracy:.3f}"
        cells = [arm.name, str(arm.label_calls), str(arm.calls_each), str(arm.training_pairs or ""), labels]
        return f"| {' | '.join([*cells, shown(arm.accuracy, most=1)])} |"

    one, mean, *models = found
    single, denoised = models
    compared = [(arm, judge) for arm in models for judge in (one, mean)] + [(denoised, single)]
    differences = [(arm, other, arm.minus(other)) for arm, other in compared]
    cost = single.label_calls // mean.calls_each
    return PAGE.format(
        model=model, options=options, noise=noise, pairs=one.accuracy.n, prompts=held_out * seeds, seeds=seeds,
        rows="\n".join(map(row, found)),
        verdict=f"The labels of a model cost as many judge calls as scoring {cost} replies by the {mean.name}.",
        caveat="" if seeds > 2 else " So few seeds say little about other trainings.",
        differences="\n".join(f"| {arm.name} | {other.name} | {shown(gap)} |" for arm, other, gap in differences),
    )  # fmt: skip


def shown(value: Estimate, most: float = np.inf) -> str:
    """An estimate with its interval."""
    return f"{value.estimate:.3f} ({value.lower:.3f} to {min(value.upper, most):.3f})"


def main() -> None:
    """Read the command line, run, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder of datasets and models")
    parser.add_argument("page", type=Path, help="the page to write")
    parser.add_argument("--model", required=True, help="the model to train")
    parser.add_argument("--budget", type=int, default=960, help="judge calls for the labels of each reward model")
    parser.add_argument("--repeats", type=int, default=4, help="scores of each reply in the denoised arm")
    parser.add_argument("--each", type=int, default=4, help="replies to a prompt")
    parser.add_argument("--held-out", type=int, default=40, help="prompts to compare on")
    parser.add_argument("--noise", type=float, default=0.15, help="standard deviation of the judge's noise")
    parser.add_argument("--steps", type=int, default=120, help="training steps")
    parser.add_argument("--seeds", type=int, default=3, help="times that everything is done anew")
    given = parser.parse_args()
    settings = vars(given).copy()
    target, model = settings.pop("page"), settings["model"]
    seeds = settings.pop("seeds")
    found = pooled([list(arms(**settings, seed=seed)) for seed in range(seeds)])
    changed = [f"--{name.replace('_', '-')} {value}" for name, value in {**settings, "seeds": seeds}.items()
               if name not in ("work", "model") and value != parser.get_default(name)]  # fmt: skip
    options = f" with `{' '.join(changed)}`" if changed else ""
    target.write_text(page(found, options, model, given.noise, given.held_out, seeds), encoding="utf-8")


if __name__ == "__main__":
    main()

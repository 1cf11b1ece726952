"""Studies of reward models on replies whose quality is known: ensembles, rubrics, and a confidence filter.

    python -m studies.training.reward_studies all trained/rewards --tables studies/training
    make rewards                                              # writes the tables into docs/reward_methods.md

A reply has some of eight sentences (`models.agents.quality_markers`) between sentences that say nothing; its quality is
the number of different ones. A judge with planted noise scores it by four criteria of two sentences each. Replies are
measured on new prompts, in two forms: `known`, written as those of training, and `shifted`, with other filler, of any
length, and with sentences said twice, which adds no quality. There are two kinds of reward model: `words`, linear in
counts of words (seconds), and `tiny`, trained from a tiny model with random weights (minutes a seed).

- `ensemble`: members trained on bootstraps of pairs; each penalty of their spread, with and without a ceiling.
- `rubric`: a regression on the criteria, and a model of preferences (Bradley and Terry) from the same scores.
- `filter`: what each arm of the confidence filter leaves, where a planted quarter of the labels is wrong.

Each study writes NAME.csv with a row for each seed and arm. Complete seeds are skipped, so the same command resumes.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.distil_judge import Pair, Reply, write_pairs
from examples.distil_judge import in_order as pairs_in_order
from examples.filter_preferences import cross_fitted_margins, keep_random, keep_top, length_strata
from studies.study import write_csv
from studies.training.preference_labels import features
from truthgym.models.agents.believer import BEFORE
from truthgym.models.agents.lengths import MORE
from truthgym.models.agents.policies import generator
from truthgym.models.agents.quality_markers import MARKERS
from truthgym.models.reward_model import chat_messages, load, penalised
from truthgym.scorers.statistics.preference import fit_bradley_terry
from truthgym.training.conversion.writer import DatasetFolder
from truthgym.training.tiny import tiny
from truthgym.training.train import reward

Scores = NDArray[np.float64]
Row = dict[str, str | float]
Proxy = Callable[[Sequence[Reply]], Scores]
"""From replies to their rewards."""
CRITERIA = tuple(f"criterion {k}" for k in "1234")
NOISE = 0.375
"""Standard deviation of the judge's noise on a criterion, from 0 to 1; 0.15 on the quality that they make up."""
CARE = 0.5
"""Probability of each sentence of quality."""
EACH = 4
"""Replies to a prompt."""
HELD_OUT = 24
"""New prompts, with eight replies each."""
PENALTIES = (0.0, 0.1, 0.3, 0.5, 1.0)
CEILINGS = (None, 2.0)
MEMBERS = 3
FOLDS = 3
WRONG = 0.25
"""Share of wrong labels in the study of the filter."""
HOLLOW = "What a great question!"
FILLER = " ".join(MORE[:2])


def make_replies(prompts: int, each: int, seed: int, form: str, split: str = "new") -> list[list[Reply]]:
    """Replies in a form, a list for each prompt."""
    filler, most = (BEFORE, 6) if form == "known" else (MORE, 10)
    made = []
    for i in range(prompts):
        prompt, group = f"Is statement {split} {i} true?", []
        for j in range(each):
            draw = generator("studies", form, split, seed, i, j)
            markers = [marker for marker in MARKERS if draw.random() < CARE]
            twice = (
                [markers[k] for k in draw.permutation(len(markers))[: draw.integers(5)]] if form == "shifted" else []
            )
            sentences = [*markers, *twice, *map(str, draw.choice(filler, draw.integers(most + 1)))] or [filler[0]]
            group.append(Reply(prompt, " ".join(map(str, draw.permutation(sentences)))))
        made.append(group)
    return made


def judged(replies: Sequence[Reply], seed: int) -> Scores:
    """Scores of the judge by criterion, replies x 4: the share of its two sentences that the reply has, with noise."""
    has = np.array([[marker in reply.text for marker in MARKERS] for reply in replies], dtype=float)
    noise = np.random.default_rng([seed, 11]).normal(0, NOISE, (len(replies), len(CRITERIA)))
    return np.asarray(has.reshape(len(replies), len(CRITERIA), 2).mean(axis=2) + noise)


def by_prompt(groups: Sequence[Sequence[Reply]], scores: Scores) -> Iterator[tuple[Sequence[Reply], Scores]]:
    """Each prompt's replies with their scores."""
    yield from zip(groups, np.split(scores, np.cumsum([len(group) for group in groups])[:-1]), strict=True)


def pairs_of(groups: Sequence[Sequence[Reply]], scores: Scores) -> list[Pair]:
    """All pairs of replies to one prompt, the one with the higher score first."""
    pairs = []
    for group, mine in by_prompt(groups, scores):
        for i, j in combinations(range(len(group)), 2):
            a, b = (i, j) if mine[i] > mine[j] else (j, i)
            pairs.append(Pair(group[a], group[b], float(mine[a] - mine[b])))
    return pairs


class Words:
    """Reward models that are linear in counts of words, as in `preference_labels.py`."""

    def prefer(self, pairs: Sequence[Pair], place: Path, seed: int, bootstrap: bool = False) -> Proxy:
        """A model of preferences. `bootstrap` draws prompts with replacement; without it the seed has no effect."""
        if bootstrap:
            prompts = list(dict.fromkeys(pair.chosen.prompt for pair in pairs))
            drawn = np.random.default_rng([seed, 13]).choice(prompts, len(prompts))
            pairs = [pair for prompt in drawn for pair in pairs if pair.chosen.prompt == prompt]
        x, y = (features([getattr(pair, side).text for pair in pairs]) for side in ("chosen", "rejected"))
        weights = fit_bradley_terry(x - y)
        zero = float(np.mean([x @ weights, y @ weights]))
        return lambda replies: features([reply.text for reply in replies]) @ weights - zero

    def rate(self, replies: Sequence[Reply], scores: Scores, place: Path, seed: int) -> Proxy:
        """A regression on each criterion, with the same ridge penalty; the reward is their mean."""
        x = features([reply.text for reply in replies])
        zero, mean = x.mean(axis=0), scores.mean(axis=0)
        weights = np.linalg.solve((x - zero).T @ (x - zero) + np.eye(x.shape[1]), (x - zero).T @ (scores - mean))
        return lambda some: ((features([reply.text for reply in some]) - zero) @ weights + mean).mean(axis=1)


@dataclass(frozen=True)
class Language:
    """Reward models that `truthgym train reward` trains from a language model."""

    base: Path
    steps: int

    def prefer(self, pairs: Sequence[Pair], place: Path, seed: int, bootstrap: bool = False) -> Proxy:
        """A model of preferences."""
        write_pairs(pairs, place)
        return self._trained(place, seed, bootstrap=bootstrap)

    def rate(self, replies: Sequence[Reply], scores: Scores, place: Path, seed: int) -> Proxy:
        """A regression on each criterion."""
        with DatasetFolder(place, overwrite=True) as out:
            for reply, mine in zip(replies, scores, strict=True):
                row = {"prompt": [{"role": "user", "content": reply.prompt}],
                       "completion": [{"role": "assistant", "content": reply.text}],
                       "scores": dict(zip(CRITERIA, map(float, mine), strict=True))}  # fmt: skip
                out.write("train", row)
            facts = {"kind": "sft", "rows": dict(out.counts), "logs": [], "selection": {}}
            out.finish(facts, "Scores of a judge", "Made by `studies/training/reward_studies.py`.")
        return self._trained(place, seed, criteria=list(CRITERIA))

    def _trained(self, data: Path, seed: int, **further: object) -> Proxy:
        options: dict[str, Any] = {
            "model_name_or_path": str(self.base), "dataset_name": str(data), "output_dir": str(data.parent / "models"),
            "max_steps": self.steps, "learning_rate": 2e-3, "per_device_train_batch_size": 16, "seed": seed,
            "gradient_accumulation_steps": 1, "report_to": "none", "disable_tqdm": True, "save_strategy": "no",
            "use_cpu": True, **further,
        }  # fmt: skip
        model = load(reward(options))

        def turns(reply: Reply) -> list[dict[str, str]]:
            return [{"role": "user", "content": reply.prompt}, {"role": "assistant", "content": reply.text}]

        return lambda replies: np.array(model.score([chat_messages(turns(reply), "a reply") for reply in replies]))


def in_order(groups: Sequence[Sequence[Reply]], scores: Scores) -> float:
    """Share of pairs of different quality that are in the right order, half for ties."""
    return float(pairs_in_order(groups, scores)[0].mean())


def best_of(groups: Sequence[Sequence[Reply]], scores: Scores) -> float:
    """Mean quality of each prompt's reply with the highest reward; the mean of them where several have it."""
    means = [
        np.mean([reply.quality for reply, score in zip(group, mine, strict=True) if score == mine.max()])
        for group, mine in by_prompt(groups, scores)
    ]
    return float(np.mean(means))


def held_out(seed: int, prompts: int, each: int) -> dict[str, list[list[Reply]]]:
    """Replies to new prompts, in both forms."""
    return {form: make_replies(prompts, each, seed, form) for form in ("known", "shifted")}


def flat(groups: Sequence[Sequence[Reply]]) -> list[Reply]:
    return [reply for group in groups for reply in group]


Model = Words | Language


def ensemble(work: Path, model: Model, seed: int, prompts: int) -> Iterator[Row]:
    """A row for each form of replies, penalty and ceiling."""
    groups = make_replies(prompts, EACH, seed, "known", "training")
    pairs = pairs_of(groups, judged(flat(groups), seed).mean(axis=1))
    members = [model.prefer(pairs, work / "pairs", 10 * seed + k, bootstrap=True) for k in range(MEMBERS)]
    for form, test in held_out(seed, HELD_OUT, 8).items():
        rewards = np.array([proxy(flat(test)) for proxy in members])
        spread = float(penalised(rewards)[1].mean())
        combined: dict[tuple[str | float, str | float], Scores] = {("one member", ""): rewards[0]}
        for penalty, ceiling in product(PENALTIES, CEILINGS):
            combined[penalty, ceiling or ""] = penalised(rewards, penalty, ceiling)[0]
        for (by, up_to), mine in combined.items():
            yield {"members": "bootstraps", "replies": form, "penalty": by, "ceiling": up_to, "in order":
                   in_order(test, mine), "best": best_of(test, mine), "spread": spread}  # fmt: skip


def rubric(work: Path, model: Model, seed: int, prompts: int) -> Iterator[Row]:
    """A row for each proxy: how it orders both forms, and what filler and a hollow opening do to it."""
    groups = make_replies(prompts, EACH, seed, "known", "training")
    scores = judged(flat(groups), seed)
    proxies: dict[str, Proxy] = {
        "preferences": model.prefer(pairs_of(groups, scores.mean(axis=1)), work / "pairs", seed),
        "rubric": model.rate(flat(groups), scores, work / "rated", seed),
    }
    tests = held_out(seed, HELD_OUT, 8)
    some = flat(tests["known"])
    changed = {"filler": [f"{reply.text} {FILLER}" for reply in some],
               "hollow opening": [f"{HOLLOW} {reply.text}" for reply in some]}  # fmt: skip
    for name, proxy in proxies.items():
        row: Row = {"proxy": name} | {f"in order, {form}": in_order(test, proxy(flat(test)))
                                      for form, test in tests.items()}  # fmt: skip
        before, scale = proxy(some), proxy(flat([*tests["known"], *tests["shifted"]])).std()
        for probe, texts in changed.items():
            gain = proxy([Reply(reply.prompt, text) for reply, text in zip(some, texts, strict=True)]) - before
            row |= {f"{probe}, in sd": float(gain.mean() / scale), f"{probe}, share up": float((gain > 0).mean())}
        yield row


def filtered(work: Path, model: Model, seed: int, prompts: int) -> Iterator[Row]:
    """A row for each arm: what it keeps, and how a model trained on it orders replies."""
    groups = make_replies(prompts, EACH, seed, "known", "training")
    truth = np.array([[reply.quality] for reply in flat(groups)])
    test = held_out(seed, HELD_OUT, 8)["known"]
    rng = np.random.default_rng([seed, round(100 * WRONG)])
    right = [pair for pair in pairs_of(groups, truth.mean(axis=1)) if pair.margin]
    wrong = rng.random(len(right)) < WRONG
    pairs = [Pair(pair.rejected, pair.chosen, 0.0) if bad else pair for pair, bad in zip(right, wrong, strict=True)]

    def fit(kept: NDArray[np.intp]) -> Proxy:
        return model.prefer([pairs[i] for i in kept], work / "pairs", seed)

    def score(kept: NDArray[np.intp]) -> Callable[..., Scores]:
        proxy = fit(kept)
        return lambda some: proxy([pairs[i].chosen for i in some]) - proxy([pairs[i].rejected for i in some])

    margins = cross_fitted_margins([pair.chosen.prompt for pair in pairs], score, FOLDS, seed)
    strata = length_strata([pair.chosen.text for pair in pairs], [pair.rejected.text for pair in pairs])
    arms = {
        "full": np.ones(len(pairs), dtype=bool),
        "random half": keep_random(len(pairs), 0.5, strata, rng),
        "top half": keep_top(margins, 0.5, strata),
    }
    for arm, kept in arms.items():
        rewards = fit(np.flatnonzero(kept))(flat(test))
        yield {"arm": arm, "pairs": int(kept.sum()), "wrong kept": float(wrong[kept].mean()),
               "in order": in_order(test, rewards)}  # fmt: skip


STUDIES: dict[str, Callable[[Path, Model, int, int], Iterator[Row]]] = {
    "ensemble": ensemble,
    "rubric": rubric,
    "filter": filtered,
}


def run(name: str, out: Path, models: Mapping[str, Model], seeds: int, prompts: int) -> list[Row]:
    rows: list[Row] = []
    for (kind, model), seed in product(models.items(), range(seeds)):
        kept = out / name / f"{kind}-{seed}.json"
        if not kept.is_file():
            work = kept.with_suffix("")
            work.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(list(STUDIES[name](work, model, seed, prompts))), encoding="utf-8")
        rows += [{"model": kind, "seed": seed, **row} for row in json.loads(kept.read_text(encoding="utf-8"))]
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["all", *STUDIES])
    parser.add_argument("out", type=Path, help="folder of datasets, models and finished seeds")
    parser.add_argument("--tables", type=Path, default=Path("studies/training"), help="folder of the .csv files")
    parser.add_argument("--models", choices=["words", "tiny"], nargs="+", default=["words", "tiny"])
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--prompts", type=int, default=60, help="of each training")
    parser.add_argument("--steps", type=int, default=60, help="of each training of a tiny model")
    args = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    base = args.out / "tiny32"
    if "tiny" in args.models and not base.is_dir():
        tiny(base, steps=0, hidden=32)
    models = {name: Words() if name == "words" else Language(base, args.steps) for name in args.models}
    for name in STUDIES if args.study == "all" else [args.study]:
        write_csv(run(name, args.out, models, args.seeds, args.prompts), args.tables / f"{name}.csv")


if __name__ == "__main__":
    main()

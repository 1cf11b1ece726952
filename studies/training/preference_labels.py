"""What preference labels are worth: a judge's against gold, and all against those that a reward model agrees with.

    python -m studies.training.preference_labels curve --accuracy 0.8 --length 0.1
    python -m studies.training.preference_labels curve --dataset data/pairs --sizes 100 500
    python -m studies.training.preference_labels study

`curve` trains reward models on a judge's labels and on gold at equal volume: of the simulated judge, or of the rows
that `truthgym convert` made of labels with gold. `study` trains them on what each arm of the confidence filter keeps of
labels of which a planted share is wrong. Both print the accuracy on held-out pairs over seeds. Their reward model is a
Bradley-Terry regression on counts of words (`features`), not a language model, and their own pairs are generated
replies whose better one is known. `examples/filter_preferences.py` is the filter with real reward models.
"""

import argparse
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Literal, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from examples.filter_preferences import (
    Fit,
    Indices,
    Margins,
    Mask,
    Score,
    cross_fitted_margins,
    keep_random,
    keep_top,
    length_strata,
    preference_rows,
)
from truthgym.evallog.errors import bad_input
from truthgym.models.agents.judge import Request, first_is_better
from truthgym.models.agents.lengths import MORE
from truthgym.models.agents.policies import Parameters
from truthgym.models.agents.quality_markers import MARKERS
from truthgym.scorers.statistics.interval import Estimate
from truthgym.scorers.statistics.paired import paired_difference
from truthgym.scorers.statistics.preference import fit_bradley_terry, preference_of
from truthgym.tasks.preferences import comparison_request
from truthgym.training.files import markdown_table

BUCKETS = 32
Features = NDArray[np.float64]
Noise = Literal["none", "random", "longer"]
NOISES: dict[Noise, str] = {
    "none": "no label is wrong",
    "random": "a quarter of the labels are wrong, at random",
    "longer": "half of the labels go to the longer reply, whatever it says",
}
CONTROL = "random half"


class Pairs(NamedTuple):
    chosen: list[str]
    rejected: list[str]
    wrong: Mask
    """Whether the label is wrong."""

    @property
    def differences(self) -> Features:
        return features(self.chosen) - features(self.rejected)


@cache
def bucket(word: str) -> int:
    return crc32(word.encode()) % BUCKETS


def features(texts: Sequence[str]) -> Features:
    """Counts of words by hash in 32 buckets, and the logarithm of the number of words."""
    found = np.zeros((len(texts), BUCKETS + 1))
    for row, text in zip(found, texts, strict=True):
        words = text.split()
        row[:BUCKETS] = np.bincount([bucket(word) for word in words], minlength=BUCKETS)
        row[-1] = np.log(1 + len(words))
    return found


def replies(n: int, rng: np.random.Generator) -> tuple[list[list[str]], Mask]:
    """Pairs of replies with filler, and whether the first is better: the one with more of eight sentences."""
    has = rng.random((n, 2, len(MARKERS))) < 0.5
    has[:, 1, 0] ^= has[:, 0].sum(axis=1) == has[:, 1].sum(axis=1)  # no ties
    texts = [
        [
            " ".join([*(MARKERS[k] for k in np.flatnonzero(reply)), *rng.choice(MORE, rng.integers(1, 12))])
            for reply in pair
        ]
        for pair in has
    ]
    return texts, has[:, 0].sum(axis=1) > has[:, 1].sum(axis=1)


def labelled(texts: Sequence[Sequence[str]], first: Mask, better: Mask) -> Pairs:
    """The pairs with a label each: whether the first reply is chosen."""
    ordered = [pair if first_is_chosen else pair[::-1] for pair, first_is_chosen in zip(texts, first, strict=True)]
    return Pairs([chosen for chosen, _ in ordered], [rejected for _, rejected in ordered], first != better)


def made(n: int, noise: Noise, rng: np.random.Generator) -> Pairs:
    """Pairs with planted errors of their labels."""
    texts, better = replies(n, rng)
    first = better.copy()
    if noise == "random":
        first ^= rng.random(n) < 0.25
    elif noise == "longer":
        words = np.array([[len(text.split()) for text in pair] for pair in texts])
        first = np.where(rng.random(n) < 0.5, words[:, 0] > words[:, 1], first)
    return labelled(texts, first, better)


def judged(n: int, rng: np.random.Generator, planted: Parameters) -> Pairs:
    """Pairs with the labels of `reference/judge`, asked in both orders. Those that it calls a tie are replaced."""
    texts, first, better = list[list[str]](), list[bool](), list[bool]()
    while len(texts) < n:
        for pair, truth in zip(*replies(n - len(texts), rng), strict=True):
            orders = (pair, pair[::-1])
            requests = (comparison_request("", "", *order) for order in orders)
            given, swapped = (
                first_is_better(Request((("user", request),), 1, 0, planted)) / 100 for request in requests
            )
            label, _ = preference_of(given, swapped)
            if label:
                texts.append(pair)
                first.append(label > 0)
                better.append(bool(truth))
    return labelled(texts, np.array(first), np.array(better))


def simulated(seed: int, n: int, held_out: int, planted: Parameters) -> tuple[Features, Mask, Features]:
    """Differences of n pairs that `reference/judge` labelled, which labels are wrong, and those of held-out gold."""
    rng = np.random.default_rng([seed, 7])
    held = labelled(*(part := replies(held_out, rng)), part[1])
    judge = judged(n, rng, planted.model_copy(update={"seed": seed}))
    return judge.differences, judge.wrong, held.differences


def recorded(dataset: str, seed: int, n: int) -> tuple[Features, Mask, Features, list[str]]:
    """The same of n rows of a dataset, drawn by the seed; all rows of other events are held out. And their events.

    A tie of the judge is no row, so only pairs that it decided are trained and tested on, with gold as well.
    """
    rows = [row for row in preference_rows(dataset) if "correct" in row]
    events = list(dict.fromkeys(row["event"] for row in rows))
    rng = np.random.default_rng(seed)
    drawn = {events[i] for i in rng.permutation(len(events))[: 2 * len(events) // 3]}
    train = [row for row in rows if row["event"] in drawn]
    train = [train[i] for i in rng.permutation(len(train))[:n]]
    held = [row for row in rows if row["event"] not in drawn]
    if len(train) < n or not held:
        raise bad_input(
            f"{dataset}: {len(rows)} rows have a gold label (`correct`), too few for {n} and a third to hold out; give "
            "smaller --sizes, or label more pairs with -T gold=SCORER/KEY"
        )
    sides = [np.array([1.0 if row["correct"] else -1.0 for row in part]) for part in (train, held)]
    x, y = (
        features([row["chosen"][0]["content"] for row in part])
        - features([row["rejected"][0]["content"] for row in part])
        for part in (train, held)
    )
    return x, sides[0] < 0, y * sides[1][:, None], [row["event"] for row in held]


def curve(
    seeds: Sequence[int], sizes: Sequence[int], draw: Callable[[int, int], tuple[Features, Mask, Features]]
) -> list[list[str]]:
    """For each number of pairs the accuracy of reward models on the judge's labels and on gold, and the difference.

    `draw` gives, from a seed and the largest size, pairs as `simulated` draws them.
    """
    found: dict[int, list[list[float]]] = {size: [] for size in sizes}
    for seed in seeds:
        by_judge, wrong, held = draw(seed, max(sizes))
        for size in sizes:
            right = [ordered.mean() for ordered in _in_order(by_judge[:size], wrong[:size], held)]
            found[size].append([float(share) for share in (wrong[:size].mean(), *right)])
    return [_row(size, *np.array(values).T) for size, values in found.items()]


def _in_order(by_judge: Features, wrong: Mask, held: Features) -> tuple[Mask, Mask]:
    """Which held-out pairs the reward models on the judge's labels and on gold have in the right order."""
    gold = by_judge * np.where(wrong, -1, 1)[:, None]
    return held @ fit_bradley_terry(by_judge) > 0, held @ fit_bradley_terry(gold) > 0


def recorded_curve(dataset: str, seed: int, sizes: Sequence[int]) -> list[list[str]]:
    """The same of recorded labels: of one split, with an interval over held-out events.

    Several splits of one dataset share most of their rows: an interval over them would shrink with every further one.
    """
    by_judge, wrong, held, events = recorded(dataset, seed, max(sizes))
    by_size = {n: _in_order(by_judge[:n], wrong[:n], held) for n in sizes}
    return [_row(n, wrong[:n], of_judge, of_gold, events) for n, (of_judge, of_gold) in by_size.items()]


def _row(
    size: int,
    wrong: Margins | Mask,
    of_judge: Margins | Mask,
    of_gold: Margins | Mask,
    cluster: Sequence[str] | None = None,
) -> list[str]:
    # Of pairs, each value is 0 or 1. Of seeds it is a share, and no pair can end otherwise.
    values = of_judge.astype(float), of_gold.astype(float)
    gap = paired_difference(*values, cluster, (-1.0, 1.0) if cluster else None)
    means = (f"{values.mean():.3f}" for values in (wrong, of_judge, of_gold))
    return [f"{size:,}", *means, _signed(gap)]


def flywheel(
    events: Sequence[Hashable], fit: Fit, share: float, strata: Sequence[Hashable], folds: int = 5, seed: int = 0
) -> tuple[Mask, Mask]:
    """What a filter keeps of all pairs, and what it keeps by models that are trained on what a first filter kept.

    The second filters anew without each of its folds, so that no pair has a part in its own score.
    """

    def fit_again(train: Indices) -> Score:
        def fit_some(some: Indices) -> Score:
            score = fit(train[some])
            return lambda scored: score(train[scored])

        before = cross_fitted_margins([events[i] for i in train], fit_some, folds, seed)
        return fit(train[keep_top(before, share, [strata[i] for i in train])])

    first = keep_top(cross_fitted_margins(events, fit, folds, seed), share, strata)
    return first, keep_top(cross_fitted_margins(events, fit_again, folds, seed + 1), share, strata)


def arms(margins: Margins, strata: Sequence[str], fit: Fit, seed: int) -> dict[str, Mask]:
    """The pairs that each arm keeps. Every pair is an event of its own here."""
    n = len(margins)
    first, second = flywheel(range(n), fit, 0.5, strata, seed=seed)
    return {
        "full": np.ones(n, dtype=bool),
        CONTROL: keep_random(n, 0.5, strata, np.random.default_rng([seed, n])),
        "top half": first,
        "top half, no sign": keep_top(np.abs(margins), 0.5, strata),
        "random half, cycle 2": keep_random(n, 0.5, strata, np.random.default_rng([seed, 1])),
        "top half, cycle 2": second,
    }


def one_seed(seed: int, n: int, noise: Noise, held_out: int) -> dict[str, float]:
    """The accuracy on held-out pairs of models trained on what each arm keeps."""
    rng = np.random.default_rng([seed, list(NOISES).index(noise)])
    pairs, held = made(n, noise, rng), made(held_out, "none", rng).differences
    x = pairs.differences

    def fit(train: Indices) -> Score:
        weights = fit_bradley_terry(x[train])
        return lambda scored: x[scored] @ weights

    margins = cross_fitted_margins(range(n), fit, seed=seed)
    kept = arms(margins, length_strata(pairs.chosen, pairs.rejected), fit, seed)
    return {arm: float((held @ fit_bradley_terry(x[mask]) > 0).mean()) for arm, mask in kept.items()}


def _signed(gain: Estimate) -> str:
    """A gain with its interval, if it has one."""
    interval = "" if np.isnan(gain.lower) else f" [{gain.lower:+.3f}, {gain.upper:+.3f}]"
    return f"{gain.estimate:+.3f}{interval}"


def study(seeds: Sequence[int], n: int, held_out: int) -> str:
    """For each arm and kind of noise the accuracy minus that of the random half of the same cycle, paired by seed."""
    rows: dict[str, list[str]] = {}
    for noise in NOISES:
        by_seed = [one_seed(seed, n, noise, held_out) for seed in seeds]
        for arm in (arm for arm in by_seed[0] if not arm.startswith(CONTROL)):
            control = f"{CONTROL}, cycle 2" if "cycle" in arm else CONTROL
            kept, at_random = ([accuracy[name] for accuracy in by_seed] for name in (arm, control))
            rows.setdefault(arm, [arm]).append(_signed(paired_difference(kept, at_random)))
    return markdown_table((f"accuracy minus {CONTROL}", *NOISES.values()), list(rows.values()))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    drawn, studied = verbs.add_parser("curve"), verbs.add_parser("study")
    for verb in (drawn, studied):
        verb.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
        verb.add_argument("--held-out", type=int, default=2000, help="pairs with true labels")
    drawn.add_argument("--sizes", type=int, nargs="+", default=[100, 500, 2000], help="labelled pairs")
    for name in ("accuracy", "position", "length"):
        drawn.add_argument(f"--{name}", type=float, default=Parameters.model_fields[name].default, help="of the judge")
    drawn.add_argument("--dataset", help="rows of labels with gold, instead of the simulated judge")
    studied.add_argument("--n", type=int, default=200, help="labelled pairs")
    args = parser.parse_args(arguments)
    if args.verb == "curve":
        planted = Parameters(accuracy=args.accuracy, position=args.position, length=args.length)
        head = ("pairs", "wrong labels", "judge's labels", "gold", "difference")

        def draw(seed: int, n: int) -> tuple[Features, Mask, Features]:
            return simulated(seed, n, args.held_out, planted)

        of_dataset = recorded_curve(args.dataset, args.seeds[0], args.sizes) if args.dataset else None
        print(markdown_table(head, of_dataset or curve(args.seeds, args.sizes, draw)))
    else:
        print(study(args.seeds, args.n, args.held_out))


if __name__ == "__main__":
    main()

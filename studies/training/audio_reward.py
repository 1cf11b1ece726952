"""A small acoustic reward model whose truth is known: Bradley and Terry's model on five measures of a clip.

    python -m studies.training.audio_reward

Pairs of synthesised clips differ in all faults; the one with the smaller sum of severities is the better one. The table
shows held-out accuracy and Brier score for clean labels, with a fifth of them wrong, and with labels that go to the
louder clip, and the reward of a clip that is only louder or only silent: what a policy could exploit.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from studies.study import interval_cell
from truthgym.datasets.audio import FAULTS, LOUDNESS, acoustics, quality, synthesise
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.preference import fit_bradley_terry
from truthgym.training.files import markdown_table

LABELS = ("clean", "a fifth wrong", "the louder clip wins 40 %")
Floats = NDArray[np.float64]


def pairs(n: int, seed: int) -> tuple[Floats, Floats]:
    """Differences of the measures of n pairs of clips, and of their true quality."""
    rng = np.random.default_rng(seed)
    measures, truths = np.zeros((n, 2, len(FAULTS) + 1)), np.zeros((n, 2))
    for i in range(n):
        voice = int(rng.integers(2**31))
        for side in (0, 1):
            severity = dict(zip(FAULTS, rng.random(len(FAULTS)), strict=True))
            clip = synthesise(severity, rng.uniform(*LOUDNESS), voice, int(rng.integers(2**31)))
            measures[i, side], truths[i, side] = acoustics(clip), quality(severity)
    return measures[:, 0] - measures[:, 1], truths[:, 0] - truths[:, 1]


def fitted(x: Floats, truth: Floats, labels: str, seed: int) -> Floats:
    """The weights of a reward model that is trained on labels of one kind."""
    rng = np.random.default_rng([seed, 1])
    first = truth > 0
    if labels == LABELS[1]:
        first = first ^ (rng.random(len(x)) < 0.2)
    elif labels == LABELS[2]:
        first = np.where(rng.random(len(x)) < 0.4, x[:, -1] > 0, first)
    return fit_bradley_terry(x * np.where(first, 1, -1)[:, None])


def figures(n: int, held_out: int, seed: int) -> dict[str, dict[str, float]]:
    """For each kind of labels: accuracy and Brier score on held-out pairs with their true labels, and exploits.

    `louder` is the change of the reward of a clip that is made louder by 6 dB, `mute` the mean reward of a held-out
    clip minus that of silence.
    """
    x, truth = pairs(n, seed)
    held, right = pairs(held_out, seed + 10_000)
    plain = acoustics(synthesise(dict.fromkeys(FAULTS, 0.5), 0.08, seed, seed))
    louder = acoustics(synthesise(dict.fromkeys(FAULTS, 0.5), 0.16, seed, seed))
    silence = acoustics(np.zeros(4800))
    table = {}
    for labels in LABELS:
        weights = fitted(x, truth, labels, seed)
        p = 1 / (1 + np.exp(-held @ weights))
        table[labels] = {
            "accuracy": float(((p > 0.5) == (right > 0)).mean()),
            "Brier": float(((p - (right > 0)) ** 2).mean()),
            "louder": float((louder - plain) @ weights),
            "mute": float((plain - silence) @ weights),
        }
    return table


def main(seeds: Sequence[int], n: int, held_out: int) -> dict[str, list[str]]:
    rows = [figures(n, held_out, seed) for seed in seeds]
    table = {}
    for labels in LABELS:
        means = [mean_estimate([row[labels][name] for row in rows]) for name in rows[0][labels]]
        table[labels] = [interval_cell(mean) for mean in means]
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--n", type=int, default=1000, help="labelled pairs")
    parser.add_argument("--held-out", type=int, default=1000)
    lines = main(**vars(parser.parse_args()))
    head = ["labels", "accuracy", "Brier", "louder by 6 dB", "better than silence"]
    print(markdown_table(head, [[name, *cells] for name, cells in lines.items()]))

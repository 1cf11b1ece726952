"""A reward model of your own recordings: pairs of WAV files of which one is preferred, and takes that it ranks.

    python examples/recordings.py pairs.csv
    python examples/recordings.py pairs.csv --takes take1.wav take2.wav take3.wav

`pairs.csv` has the columns `file_a`, `file_b` and `preferred` (a or b), with paths from its own folder. The model is
Bradley and Terry's on the measures of `MEASURES`, each in standard deviations. It is tested on each pair in turn, with
all pairs left out that share a recording with it. The takes are printed best first: best of n.

No generator of speech is trained: the model ranks recordings that exist. A weight says what the people who compared
went by, as far as these measures hear it; they hear no words. Loudness is one of them: equalise it, or it may decide.
"""

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.io import wavfile
from scipy.stats import binomtest

from truthgym.evallog.errors import bad_input
from truthgym.scorers.statistics.preference import fit_bradley_terry
from truthgym.training.files import markdown_table

MEASURES = ("loudness", "changes of loudness", "silent share", "clipped share", "centre of the spectrum",
            "width of the spectrum", "flatness of the spectrum", "zero crossings", "length")  # fmt: skip
FRAME = 0.025
"""Seconds."""
Floats = NDArray[np.float64]


def measures(file: Path) -> Floats:
    """The measures of a recording. Decibels, shares, and logarithms of Hz and of seconds."""
    try:
        rate, data = wavfile.read(file)
    except (OSError, ValueError) as error:
        raise bad_input(f"{file} cannot be read ({error}); give a WAV file, PCM or float") from None
    sound = np.asarray(data, dtype=float).reshape(len(data), -1).mean(axis=1)
    if data.dtype.kind in "iu":
        sound = (sound - 128 * (data.dtype == np.uint8)) / 2.0 ** (8 * data.dtype.itemsize - 1)
    size = int(rate * FRAME)
    if len(sound) < 4 * size or not np.abs(sound).max():
        raise bad_input(f"{file} is silent or too short ({len(sound) / rate:.3f} s); give 0.1 s of sound or more")
    frames = sound[: len(sound) // size * size].reshape(-1, size)
    loud = 20 * np.log10(np.sqrt((frames**2).mean(axis=1)) + 1e-9)
    heard = loud > loud.max() - 40
    power = (np.abs(np.fft.rfft(frames[heard] * np.hanning(size))) ** 2 + 1e-12)[:, 1:]
    hertz = np.fft.rfftfreq(size, 1 / rate)[1:]
    centre = (power @ hertz) / power.sum(axis=1)
    width = np.sqrt((power * (hertz - centre[:, None]) ** 2).sum(axis=1) / power.sum(axis=1))
    flatness = np.log(power).mean(axis=1) - np.log(power.mean(axis=1))
    crossings = (np.diff(np.signbit(frames[heard]), axis=1)).mean()
    clipped = (np.abs(sound) > 0.99 * np.abs(sound).max()).mean()
    return np.array([loud[heard].mean(), loud[heard].std(), 1 - heard.mean(), clipped, np.log(centre.mean()),
                     np.log(width.mean()), flatness.mean(), crossings, np.log(len(sound) / rate)])  # fmt: skip


def read_pairs(file: Path) -> list[tuple[Path, Path]]:
    """The pairs of a table, the preferred recording first."""
    try:
        rows = list(csv.DictReader(file.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise bad_input(f"{file} cannot be read ({error}); give a .csv with file_a, file_b, preferred") from None
    pairs = []
    for line, row in enumerate(rows, start=2):
        sides = {side: row.get(f"file_{side}") for side in "ab"}
        preferred = (row.get("preferred") or "").strip().lower()
        if preferred not in sides or not all(sides.values()):
            raise bad_input(f"{file} line {line}: {row}; give file_a, file_b, and preferred as a or b")
        first, second = (file.parent / str(sides[side]).strip() for side in (preferred, "ab".replace(preferred, "")))
        pairs.append((first, second))
    if len(pairs) < 2:
        raise bad_input(f"{file} has {len(pairs)} pairs; give two or more, better a hundred")
    return pairs


def held_out(pairs: Sequence[tuple[Path, Path]], differences: Floats) -> list[bool]:
    """For each pair whether a model that never heard its recordings prefers the right one."""
    right = []
    for pair, difference in zip(pairs, differences, strict=True):
        apart = [i for i, other in enumerate(pairs) if not {*pair} & {*other}]
        if apart:
            right.append(bool(difference @ fit_bradley_terry(differences[apart]) > 0))
    return right


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the weights, the held-out accuracy and the takes, best first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, help="table of file_a, file_b, preferred")
    parser.add_argument("--takes", type=Path, nargs="+", default=[], help="recordings to rank")
    args = parser.parse_args(arguments)
    pairs = read_pairs(args.pairs)
    heard = {file: measures(file) for file in dict.fromkeys([*(file for pair in pairs for file in pair), *args.takes])}
    spread = np.array([heard[file] for pair in pairs for file in pair]).std(axis=0)
    spread[spread < 1e-9] = 1.0
    differences = np.array([heard[better] - heard[worse] for better, worse in pairs]) / spread
    weights = fit_bradley_terry(differences)
    lines = [[name, f"{weight:.2f}"] for name, weight in zip(MEASURES, weights, strict=True)]
    print(markdown_table(["measure", "log-odds a standard deviation"], lines))
    right = held_out(pairs, differences)
    share = binomtest(sum(right), len(right)).proportion_ci() if right else None
    print(f"Held-out pairs in order: {sum(right)} of {len(right)} [{share.low:.2f}, {share.high:.2f}]" if share else
          "Held-out pairs in order: not known, since every pair shares a recording with all others")  # fmt: skip
    ranked = sorted(args.takes, key=lambda file: -float(heard[file] @ (weights / spread)))
    for place, file in enumerate(ranked, start=1):
        reward = float((heard[file] - heard[ranked[0]]) @ (weights / spread))
        print(f"{place}. {file}  {reward:+.2f} log-odds from the best")


if __name__ == "__main__":
    main()

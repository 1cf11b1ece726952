"""Keep the preference rows that reward models agree with which never saw them.

    python examples/filter_preferences.py data/pairs data/kept --share 0.5 --model_name_or_path trained/tiny

Rows are those of `truthgym convert --to preference`. A reward model is trained for each fold, by `truthgym train
reward` from a base model, and scores the rows of the fold that it did not see: a model agrees with what it was trained
on. A margin is r(chosen) - r(rejected), with its sign: by size alone the surest errors would be kept. What the filter
is worth where label noise is planted: `python -m studies.training.preference_labels study`.
"""

import argparse
import json
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truthgym.evallog.errors import bad_input
from truthgym.models.reward_model import chat_messages, load
from truthgym.training.conversion.writer import DatasetFolder
from truthgym.training.files import card_metadata
from truthgym.training.train import reward

Indices = NDArray[np.intp]
Margins = NDArray[np.float64]
Mask = NDArray[np.bool_]
Score = Callable[[Indices], Margins]
"""From pairs, by index, to their signed margins."""
Fit = Callable[[Indices], Score]
"""Trains a reward model on pairs, by index."""
MANY_PAIRS = 12
"""Pairs from which on all of one stratum are no chance."""


def cross_fitted_margins(events: Sequence[Hashable], fit: Fit, folds: int = 5, seed: int = 0) -> Margins:
    """The signed margin of each pair by a model that saw no pair of its event."""
    names = list(dict.fromkeys(events))
    if len(names) < 2 or folds < 2:
        raise bad_input(
            f"Cross-fitting needs two folds and pairs of two events, got {folds} folds and {len(events)} pairs of "
            f"{len(names)}; add pairs"
        )
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[event]: place % folds for place, event in enumerate(order)}
    fold = np.array([fold_of[event] for event in events])
    margins = np.full(len(fold), np.nan)
    for k in range(min(folds, len(names))):
        train = np.flatnonzero(fold != k)
        if not train.size:
            raise bad_input(f"Fold {k} leaves no pair to train on; use fewer folds, or a larger share")
        score = np.flatnonzero(fold == k)
        margins[score] = fit(train)(score)
    return margins


def keep_top(margins: Margins, share: float, strata: Sequence[Hashable]) -> Mask:
    """The pairs with the highest signed margins, the same share of each stratum, at least one."""
    ranked = np.argsort(-np.where(np.isnan(margins), -np.inf, margins), kind="stable")
    return _share_of_each(ranked, share, strata)


def keep_random(n: int, share: float, strata: Sequence[Hashable], rng: np.random.Generator) -> Mask:
    """As many pairs of each stratum as `keep_top`, at random: its control."""
    return _share_of_each(rng.permutation(n), share, strata)


def length_strata(chosen: Sequence[str], rejected: Sequence[str]) -> list[str]:
    """For each pair whether the chosen reply is the longer one, in words: the strata by default."""
    strata = []
    for place, (better, worse) in enumerate(zip(chosen, rejected, strict=True)):
        if not better.strip() or not worse.strip() or better == worse:
            raise bad_input(f"Pair {place} has no winner: {better[:40]!r} and {worse[:40]!r}; leave it out")
        difference = len(better.split()) - len(worse.split())
        strata.append("longer" if difference > 0 else "shorter" if difference < 0 else "as long")
    if len(strata) >= MANY_PAIRS and set(strata) in ({"longer"}, {"shorter"}):
        raise bad_input(
            f"In all {len(strata)} pairs the chosen reply is the {strata[0]} one, so the labels are of one side: "
            "length explains every one of them; label pairs of more equal length"
        )
    return strata


def _share_of_each(ranked: Indices, share: float, strata: Sequence[Hashable]) -> Mask:
    if not 0 < share <= 1:
        raise bad_input(f"share={share} cannot be used; give a number above 0 and at most 1")
    kept = np.zeros(len(strata), dtype=bool)
    for stratum in set(strata):
        members = [i for i in ranked if strata[i] == stratum]
        kept[members[: max(1, round(share * len(members)))]] = True
    return kept


def preference_rows(dataset: str) -> list[dict[str, Any]]:
    """The rows of a dataset."""
    file = Path(dataset) / "train.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    rows = [json.loads(line) for line in lines]
    if not rows or not {"prompt", "chosen", "rejected", "event"} <= rows[0].keys():
        raise bad_input(f"{dataset} has no preference rows; make them with truthgym convert --to preference")
    return rows


COLUMNS = ("prompt", "chosen", "rejected", "chat_template_kwargs")
"""Columns of a row that a reward model is trained on."""


def filter_rows(dataset: str, out: str, share: float, folds: int, options: Sequence[str], overwrite: bool) -> int:
    """Keep the rows of a dataset with the highest signed, cross-fitted margins, the same share of each length stratum.

    Each row that is kept has its `filter_margin`. `options` are those of `truthgym train reward`. Returns their number.
    """
    rows = preference_rows(dataset)
    sides = {side: [chat_messages([*row["prompt"], *row[side]], f"{dataset}, row {i}") for i, row in enumerate(rows)]
             for side in ("chosen", "rejected")}  # fmt: skip
    strata = length_strata(*([row[side][0]["content"] for row in rows] for side in ("chosen", "rejected")))
    with TemporaryDirectory() as temporary:

        def fit(train: Indices) -> Score:
            place = Path(mkdtemp(dir=temporary))
            with DatasetFolder(place / "data") as folder:
                for i in train:
                    folder.write("train", {name: rows[i][name] for name in COLUMNS if name in rows[i]})
                folder.finish({"kind": "preference", "rows": dict(folder.counts)}, "fold", "The pairs of other folds.")
            places = ["--dataset_name", str(place / "data"), "--output_dir", str(place / "model")]
            model = load(reward([*options, *places]))

            def score(scored: Indices) -> Margins:
                better, worse = np.split(np.array(model.score([of[i] for of in sides.values() for i in scored])), 2)
                return np.asarray(better - worse)

            return score

        margins = cross_fitted_margins([row["event"] for row in rows], fit, folds)
    kept = keep_top(margins, share, strata)
    with DatasetFolder(out, overwrite=overwrite) as folder:
        for i in np.flatnonzero(kept):
            folder.write("train", {**rows[i], "filter_margin": round(float(margins[i]), 6)})
        held_out = Path(dataset) / "validation.jsonl"  # not filtered: it measures what the filter is worth
        for line in held_out.read_text(encoding="utf-8").splitlines() if held_out.is_file() else ():
            folder.write("validation", json.loads(line))
        facts = {
            **card_metadata(Path(dataset)),
            "rows": dict(folder.counts),
            "filter": {"share": share, "folds": folds},
        }
        text = f"The {kept.sum()} rows of `{dataset}` with the highest cross-fitted margins of {folds} reward models."
        folder.finish(facts, folder.out.name, text)
    return int(kept.sum())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Further options are those of truthgym train reward.",
    )
    parser.add_argument("dataset")
    parser.add_argument("out")
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--overwrite", action="store_true")
    args, options = parser.parse_known_args(arguments)
    kept = filter_rows(args.dataset, args.out, args.share, args.folds, options, args.overwrite)
    print(f"{args.out}: {kept} rows")


if __name__ == "__main__":
    main()

"""Keep the preference rows that reward models agree with which never saw them.

    python examples/filter_preferences.py data/pairs data/kept --share 0.5 --model_name_or_path trained/tiny

Rows are those of `truthgym convert --to preference`. A reward model is trained for each fold, by `truthgym train
reward` from a base model, and scores the rows of the fold that it did not see (`training/confidence.py`). What the
filter is worth where label noise is planted: `python -m studies.training.preference_labels study`.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np

from truthgym.evallog.errors import bad_input
from truthgym.models.reward_model import chat_messages, load
from truthgym.training.confidence import Indices, Margins, Score, cross_fitted_margins, keep_top, length_strata
from truthgym.training.conversion.writer import DatasetFolder
from truthgym.training.files import card_metadata
from truthgym.training.train import reward


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

"""Turn Anthropic's hh-rlhf into preference rows for `truthgym train dpo|reward`.

    python examples/hh_rlhf.py data/hh --part helpful-base
    truthgym train reward --model_name_or_path MODEL --dataset_name data/hh

hh-rlhf has about 170,000 pairs of conversations, of which people preferred one (Bai et al. 2022, arXiv:2204.05862; MIT
licence). It is downloaded at a pinned revision when this runs, into the Hub's own cache.
"""

import argparse
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from truthgym.datasets.loading.download import hub_file
from truthgym.datasets.splits import split_of
from truthgym.evallog.errors import bad_input
from truthgym.training.conversion.writer import DatasetFolder

REPOSITORY = "Anthropic/hh-rlhf"
REVISION = "09be8c5bbc57cb3887f3a9732ad6aa7ec602a1fa"
PARTS = ("helpful-base", "helpful-online", "helpful-rejection-sampled", "harmless-base")
TURN = re.compile(r"(?:\A|\n\n)(Human|Assistant): ?")
ROLES = {"Human": "user", "Assistant": "assistant"}
Message = dict[str, str]


def conversation(text: str) -> list[Message]:
    """The messages of a conversation as hh-rlhf writes it."""
    _, *parts = TURN.split(text)
    return [{"role": ROLES[who], "content": said.strip()} for who, said in zip(parts[::2], parts[1::2], strict=True)]


def preference(row: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """The row of a pair, or None and why there is none."""
    chosen, rejected = (conversation(str(row.get(name, ""))) for name in ("chosen", "rejected"))
    if not all(one and one[-1]["role"] == "assistant" and one[-1]["content"] for one in (chosen, rejected)):
        return None, "pairs without two replies"
    if chosen == rejected:
        return None, "pairs without a winner"
    if chosen[:-1] != rejected[:-1] or len(chosen) < 2:
        return None, "pairs whose conversations differ before the reply"
    event = f"hh-rlhf {chosen[0]['content']}"
    split = split_of(event)
    if split == "test":
        return None, "questions of the test split, which are reserved for evaluation"
    made = {"prompt": chosen[:-1], "chosen": chosen[-1:], "rejected": rejected[-1:], "event": event, "split": split}
    return made, ""


def pairs(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file as they stand in it.

    Raises:
        BadInput: A line is not JSON.
    """
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise bad_input(f"{file} line {number} is not JSON ({error}); remove it to download it again") from None


def convert(out: str, part: str, file: Path | None, overwrite: bool) -> Counter[str]:
    """Write the dataset. Returns the number of rows by split, and of what was left out by reason.

    Args:
        out: Its folder.
        part: One of `PARTS`.
        file: A local copy of the part's train.jsonl.gz. None: it is downloaded.
        overwrite: Whether an earlier dataset may be replaced.

    Raises:
        BadInput: The download fails, the folder exists, or no pair is left.
    """
    path = file or hub_file("hh_rlhf", REPOSITORY, REVISION, f"{part}/train.jsonl.gz")
    left_out: Counter[str] = Counter()
    with DatasetFolder(out, overwrite=overwrite) as folder:
        for row in pairs(path):
            made, reason = preference(row)
            if made is None:
                left_out[reason] += 1
            else:
                folder.write(made["split"], made)
        if not folder.counts["train"]:
            raise bad_input(f"{path}: no pair is left ({dict(left_out)}); give the train.jsonl.gz of hh-rlhf")
        source = f"{REPOSITORY} at {REVISION}, {part}/train.jsonl.gz, MIT licence"
        facts = {"kind": "preference", "rows": dict(folder.counts), "left_out": dict(left_out), "source": source}
        text = f"Preference rows made from {source} by `examples/hh_rlhf.py`, split by a hash of the first message."
        folder.finish(facts, folder.out.name, text)
    return folder.counts + left_out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="folder to write")
    parser.add_argument("--part", choices=PARTS, default=PARTS[0])
    parser.add_argument("--file", type=Path, help="a local copy of the part's train.jsonl.gz")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing dataset")
    for name, number in convert(**vars(parser.parse_args())).most_common():
        print(f"{number:>8,}  {name}")

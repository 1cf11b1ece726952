"""Turn pairs of replies, of which the first is preferred, into rows for `truthgym train`: hh-rlhf, or a file of yours.

    python examples/hh_rlhf.py data/hh --part helpful-base
    truthgym train reward --model_name_or_path MODEL --dataset_name data/hh
    python examples/hh_rlhf.py data/chosen --file pairs.jsonl --to sft       # the preferred replies
    python examples/hh_rlhf.py data/asked --to prompts                       # what was asked
    truthgym train grpo --model MODEL --task truthgym/wildchat --reward reward_model --task_args \
        '{source: data/asked/train.jsonl, paradigms: {reward_model: {folder: trained/REWARD_MODEL}}}'

A file (.jsonl, .jsonl.gz, .csv, .parquet) has the columns `chosen` and `rejected`, with or without `prompt`: texts,
lists of messages, or whole conversations as hh-rlhf writes them. `--to preference` is for dpo and reward, `--to sft`
has the preferred reply alone, `--to prompts` the conversation before it, as a source of `truthgym/wildchat`.

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
from truthgym.datasets.loading.row_files import read_rows
from truthgym.datasets.splits import split_of
from truthgym.evallog.errors import bad_input
from truthgym.training.conversion.writer import DatasetFolder

REPOSITORY = "Anthropic/hh-rlhf"
REVISION = "09be8c5bbc57cb3887f3a9732ad6aa7ec602a1fa"
PARTS = ("helpful-base", "helpful-online", "helpful-rejection-sampled", "harmless-base")
TURN = re.compile(r"(?:\A|\n\n)(Human|Assistant): ?")
ROLES = {"Human": "user", "Assistant": "assistant"}
KINDS = ("preference", "sft", "prompts")
Message = dict[str, str]


def conversation(said: object, speaker: str) -> list[Message]:
    """The messages of a conversation: a list of them, one text in hh-rlhf's form, or one text of the speaker."""
    if isinstance(said, list):
        return [{"role": str(message["role"]), "content": str(message["content"]).strip()} for message in said]
    before, *parts = TURN.split(str(said or ""))
    turns = zip(parts[::2], parts[1::2], strict=True)
    first = [{"role": speaker, "content": before.strip()}] if before.strip() else []
    return [*first, *({"role": ROLES[who], "content": text.strip()} for who, text in turns)]


def preference(row: dict[str, Any], source: str) -> tuple[dict[str, Any] | None, str]:
    """The row of a pair, or None and why there is none."""
    prompt = conversation(row.get("prompt"), "user")
    chosen, rejected = (prompt + conversation(row.get(name), "assistant") for name in ("chosen", "rejected"))
    if prompt and chosen[: 2 * len(prompt)] == 2 * prompt:  # both replies repeat the prompt, as in TRL's explicit form
        chosen, rejected = chosen[len(prompt) :], rejected[len(prompt) :]
    if not all(said and said[-1]["role"] == "assistant" and said[-1]["content"] for said in (chosen, rejected)):
        return None, "pairs without two replies"
    if chosen == rejected:
        return None, "pairs without a winner"
    if chosen[:-1] != rejected[:-1] or len(chosen) < 2:
        return None, "pairs whose conversations differ before the reply, or have nothing before it"
    event = f"{source} {chosen[0]['content']}"
    split = split_of(event)
    if split == "test":
        return None, "questions of the test split, which are reserved for evaluation"
    made = {"prompt": chosen[:-1], "chosen": chosen[-1:], "rejected": rejected[-1:], "event": event, "split": split}
    return made, ""


def of_kind(row: dict[str, Any], kind: str, number: int) -> dict[str, Any]:
    """The columns of a preference row that a trainer of this kind reads."""
    if kind == "preference":
        return row
    if kind == "sft":
        return {name: row[name] for name in ("prompt", "event", "split")} | {"completion": row["chosen"]}
    *earlier, message = (said["content"] for said in row["prompt"])
    return {"id": f"prompt-{number}", "earlier": earlier, "message": message, "event": row["event"]}


def pairs(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file as they stand in it.

    Raises:
        BadInput: A line is not JSON, or a row cannot be read.
    """
    if file.suffix != ".gz":
        yield from (row for _, row in read_rows(file))
        return
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise bad_input(f"{file} line {number} is not JSON ({error}); remove it to download it again") from None


def convert(out: str, part: str, file: Path | None, overwrite: bool, to: str = KINDS[0]) -> Counter[str]:
    """Write the dataset. Returns the number of rows by split, and of what was left out by reason.

    Args:
        out: Its folder.
        part: One of `PARTS`.
        file: A local copy of the part's train.jsonl.gz, or another file of pairs. None: the part is downloaded.
        overwrite: Whether an earlier dataset may be replaced.
        to: One of `KINDS`.

    Raises:
        BadInput: The download fails, the folder exists, or no pair is left.
    """
    path = file or hub_file("hh_rlhf", REPOSITORY, REVISION, f"{part}/train.jsonl.gz")
    own = file is not None and not file.name.endswith(".jsonl.gz")
    source = str(file) if own else f"{REPOSITORY} at {REVISION}, {part}/train.jsonl.gz, MIT licence"
    left_out: Counter[str] = Counter()
    with DatasetFolder(out, overwrite=overwrite) as folder:
        for number, row in enumerate(pairs(path), start=1):
            made, reason = preference(row, "pairs" if own else "hh-rlhf")
            if made is None:
                left_out[reason] += 1
            else:
                folder.write(made["split"], of_kind(made, to, number))
        if not folder.counts["train"]:
            raise bad_input(f"{path}: no pair is left ({dict(left_out)}); give a file with `chosen` and `rejected`")
        facts = {"kind": to, "rows": dict(folder.counts), "left_out": dict(left_out), "source": source}
        text = f"Rows ({to}) made from {source} by `examples/hh_rlhf.py`, split by a hash of the first message."
        folder.finish(facts, folder.out.name, text)
    return folder.counts + left_out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="folder to write")
    parser.add_argument("--part", choices=PARTS, default=PARTS[0])
    parser.add_argument("--to", choices=KINDS, default=KINDS[0])
    parser.add_argument("--file", type=Path, help="the part's train.jsonl.gz, or a file of your own pairs")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing dataset")
    for name, number in convert(**vars(parser.parse_args())).most_common():
        print(f"{number:>8,}  {name}")

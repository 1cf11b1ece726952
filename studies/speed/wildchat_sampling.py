"""What does it cost to filter and sample a million conversations of WildChat's shape, beside reading the columns alone?

    python -m studies.speed.wildchat_sampling

The files are made at run time: a million conversations of one to six turns, with the columns, nesting and moderation
scores that WildChat-1M has, a tenth of the first messages in the words of an earlier one. They are made twice: in
fourteen files, as on the hub, with a thousand rows a row group, and in one file with fifty thousand rows a row group.
Each way to read them runs in a process of its own, in turn; medians count. CPU time is that of the work alone, without
imports; memory is the most that the process held in all, imports and the drawn questions included.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.speed.timing import most_memory

if TYPE_CHECKING:
    import pyarrow

OWN = (sys.executable, "-m", "studies.speed.wildchat_sampling")
"""This script in a process of its own."""
N = 500
LIMIT = 500
"""MB that filtering and sampling may hold. Plain reading, with pyarrow's defaults, holds a whole file."""
FILTERS: dict[str, dict[str, Any]] = {
    "ours": {},
    "ours, filtered": {"language": ["English", "French"], "min_words": 10, "max_words": 200, "max_turns": 3},
}
WAYS = {
    "plain": "pyarrow's `iter_batches`, the same columns, nothing made of them",
    "ours": f"`wildchat(source='wildchat_1m', n={N})`",
    "ours, filtered": "the same, by language, words and turns",
}
SCORES = ("toxicity", "severe_toxicity", "obscene", "threat", "insult", "identity_attack", "sexual_explicit")
SCRIPTS = {
    "Latin": ("etaoinshrdlucmfwypvbgkjqxz", " "),
    "Russian": ("оеаинтсрвлкмдпуяыьгзбчйхжшюц", " "),
    "Chinese": ("的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生", ""),
}
TONGUES = {"English": 53, "Chinese": 20, "Russian": 12, "French": 5, "Spanish": 4, "German": 3, "Portuguese": 3}


def main(rows: int, runs: int) -> None:
    for files, group in ((14, 1_000), (1, 50_000)):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.check_call(
                [
                    sys.executable,
                    "-m",
                    "studies.speed.wildchat_sampling",
                    "--make",
                    folder,
                    str(rows),
                    str(files),
                    str(group),
                ]
            )
            size = sum(path.stat().st_size for path in Path(folder).glob("*.parquet")) / 1e6
            print(f"\n{rows:,} conversations in {files} files, {group:,} a row group, {size:,.0f} MB\n")
            spent: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
            for _ in range(runs):
                for way, held in spent.items():
                    done = subprocess.check_output([*OWN, "--measure", way, folder], text=True)
                    held.append(json.loads(done.splitlines()[-1]))
        print("| | CPU s | to plain | wall s | most memory, MB | left |\n|---|---|---|---|---|---|")
        plain = statistics.median(one["cpu"] for one in spent["plain"])
        for way, held in spent.items():
            cpu, wall, most = (statistics.median(one[name] for one in held) for name in ("cpu", "wall", "memory"))
            print(f"| {WAYS[way]} | {cpu:.1f} | {cpu / plain:.2f} | {wall:.1f} | {most:.0f} | {held[0]['left']} |")
            assert way == "plain" or most < LIMIT, f"{way}: {most:.0f} MB"


def measure(way: str, folder: str) -> dict[str, Any]:
    import pyarrow.compute
    import pyarrow.parquet

    from truthgym.datasets.sources import wildchat_1m
    from truthgym.datasets.wildchat import wildchat

    began, clock = time.process_time(), time.perf_counter()
    if way == "plain":
        left = 0
        for path in Path(folder).glob("*.parquet"):
            with pyarrow.parquet.ParquetFile(path) as file:
                columns = wildchat_1m._leaves(path, file)
                left += sum(len(batch) for batch in file.iter_batches(wildchat_1m.BATCH, columns=columns))
        said = f"{left:,} read"
    else:
        chosen = wildchat(source="wildchat_1m", location=folder, n=N, seed=1, **FILTERS[way])
        said = f"{len(chosen)} of {len(chosen) + chosen.dropped['not drawn']:,}"
    return {
        "cpu": time.process_time() - began, "wall": time.perf_counter() - clock, "memory": most_memory(), "left": said,
    }  # fmt: skip


def make(folder: str, rows: int, files: int, group: int) -> None:
    import pyarrow.parquet

    draw = np.random.default_rng(1)
    pools = {script: paragraphs(draw, letters, gap) for script, (letters, gap) in SCRIPTS.items()}
    for number in range(files):
        each = rows * (number + 1) // files - rows * number // files
        path = Path(folder, f"train-{number:05d}-of-{files:05d}.parquet")
        with pyarrow.parquet.ParquetWriter(path, part(draw, pools, 1).schema) as out:
            for begun in range(0, each, 50_000):
                out.write_table(part(draw, pools, min(50_000, each - begun)), row_group_size=group)


def paragraphs(draw: np.random.Generator, letters: str, gap: str) -> list[str]:
    """Texts of 30 to 120 words that were never written."""
    of = np.array(list(letters))
    words = ["".join(draw.choice(of, size)) for size in draw.integers(2, 10, 20_000)]
    return [gap.join(words[i] for i in draw.integers(0, len(words), size)) for size in draw.integers(30, 121, 4_000)]


def part(draw: np.random.Generator, pools: dict[str, list[str]], rows: int) -> "pyarrow.Table":
    import pyarrow as pa

    tongues = draw.choice(list(TONGUES), rows, p=np.array(list(TONGUES.values())) / sum(TONGUES.values()))
    turns = draw.choice([1, 1, 1, 1, 2, 2, 3, 6], rows)
    texts: list[str] = []
    for place, (tongue, count) in enumerate(zip(tongues, turns, strict=True)):
        pool = pools.get(tongue, pools["Latin"])
        for turn in range(count):
            # Most messages are short, a few are long; answers are longer than messages.
            texts.append(say(draw, pool, draw.choice([0, 0, 0, 1, 1, 4])))
            texts.append(say(draw, pool, int(draw.integers(0, 4))))
            if turn == 0 and place > 1000 and draw.random() < 0.1:
                texts[-2] = texts[2 * draw.integers(0, 1000)]
    replies = np.array(turns) * 2
    total = int(replies.sum())
    ends = np.concatenate([[0], np.cumsum(replies)])
    said_at = pa.array(np.repeat(np.datetime64("2023-04-09T00:00", "us") + draw.integers(0, 3 * 10**13, rows), replies))
    said_at = said_at.cast(pa.timestamp("us", tz="UTC"))
    hashes = pa.array([bytes(integer).hex() for integer in draw.integers(0, 256, (rows, 16), np.uint8)])
    no, yes = pa.array(np.zeros(total, bool)), pa.array(draw.random(rows) < 0.02)
    places = pa.array(np.repeat(draw.choice(["France", "China", "Russia", "Brazil"], rows), replies))
    asking = pa.StructArray.from_arrays([places, places], ["accept-language", "user-agent"])
    conversation = pa.StructArray.from_arrays(
        [
            pa.array(texts), places, places, asking, pa.array(np.repeat(tongues, replies)), no,
            pa.array(["user", "assistant"] * (total // 2)), places, said_at, no, pa.array(np.arange(total)),
        ],
        ["content", "country", "hashed_ip", "header", "language", "redacted", "role", "state", "timestamp", "toxic",
         "turn_identifier"],
    )  # fmt: skip
    scores = pa.StructArray.from_arrays([pa.array(draw.random(total)) for _ in SCORES], SCORES)
    flags = pa.StructArray.from_arrays([no for _ in SCORES], SCORES)
    rated = pa.StructArray.from_arrays([flags, scores, no], ["categories", "category_scores", "flagged"])
    first = pa.array(ends[:-1])
    return pa.table(
        {
            "conversation_hash": hashes,
            "model": pa.array(draw.choice(["gpt-3.5-turbo-0613", "gpt-4-0314"], rows)),
            "timestamp": said_at.take(first),
            "conversation": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), conversation),
            "turn": pa.array(turns),
            "language": pa.array(tongues),
            "openai_moderation": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), rated),
            "detoxify_moderation": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), scores),
            "toxic": pa.array(np.zeros(rows, bool)),
            "redacted": yes,
            "state": places.take(first),
            "country": places.take(first),
            "hashed_ip": places.take(first),
            "header": asking.take(first),
        }
    )


def say(draw: np.random.Generator, pool: list[str], size: int) -> str:
    """The end of one paragraph and so many others, or for 0 a few words of one."""
    begun, *more = (pool[i] for i in draw.integers(0, len(pool), size + 1))
    begun = begun[draw.integers(0, len(begun) // 2) :]
    return "\n\n".join([begun, *more]) if more else begun[: draw.integers(20, 200)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make:
        make(asked.make[0], *(int(number) for number in asked.make[1:]))
    elif asked.measure:
        print(json.dumps(measure(*asked.measure)))
    else:
        main(asked.rows, asked.runs)

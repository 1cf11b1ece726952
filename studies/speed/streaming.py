"""How fast are rows read from a large packed file, beside unpacking it and reading its JSON with orjson?

python -m studies.speed.streaming --size 400

A file in the shape of Webis-CMV-20's posts is made first: each line a post with its tree of comments, in words drawn as
often as words are in English, packed with bzip2. Then it is read in several ways, in turn and in one process. The least
of each counts: other work on the machine only adds to it.
"""

import argparse
import bz2
import json
import random
import string
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import orjson

from studies.speed.timing import most_memory
from truthgym.datasets.cmv_freeform import cmv_freeform
from truthgym.datasets.sources.webis_cmv import POSTS, posts, threads

BOT = "Confirmed: 1 delta awarded to /u/somebody"


def main(size: int, runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, POSTS)
        lines, unpacked = make(path, size * 10**6)
        packed = path.stat().st_size / 1e6
        print(f"{lines:,} posts with comments, {packed:.0f} MB packed, {unpacked / 1e6:.0f} MB unpacked")
        ways: dict[str, Callable[[], int]] = {
            "unpacking and orjson": lambda: plain(path),
            "`posts`: rows of cmv_freeform": lambda: sum(1 for _ in posts(Counter(), None, location=str(path))),
            "`threads`: rows of cmv_binary": lambda: sum(1 for _ in threads(Counter(), None, location=str(path))),
            "`cmv_freeform(n=200)`: questions": lambda: len(cmv_freeform("webis", n=200, location=str(path))),
        }
        spent: dict[str, list[float]] = {way: [] for way in ways}
        rows: dict[str, int] = {}
        for _ in range(runs):
            for way, read in ways.items():
                began = time.process_time()
                rows[way] = read()
                spent[way].append(time.process_time() - began)
    least = min(spent["unpacking and orjson"])
    for way, seconds in spent.items():
        rate = f"{least / min(seconds):.2f} of the rate of unpacking and orjson"
        print(f"{way}: {rows[way]:,} rows, {min(seconds):.1f} CPU s, {rate}")
    print(f"the most memory that the process held: {most_memory():.0f} MB")


def plain(path: Path) -> int:
    with bz2.open(path, "rb") as file:
        return sum(1 for line in file if orjson.loads(line))


def make(path: Path, size: int) -> tuple[int, int]:
    """Write about so many bytes. Gives the number of lines, and of bytes unpacked."""
    drawn = random.Random(0)
    words = ["".join(drawn.choices(string.ascii_lowercase, k=drawn.randint(2, 9))) for _ in range(20_000)]
    weights = [1 / (place + 2.7) for place in range(len(words))]
    texts = [sentences(drawn.choices(words, weights, k=drawn.randint(20, 250)), drawn) for _ in range(8_000)]
    lines = unpacked = written = 0
    packer = bz2.BZ2Compressor()
    with path.open("wb") as file:
        while written < size:
            line = json.dumps(post(lines, texts, drawn)).encode() + b"\n"
            written += file.write(packer.compress(line))
            unpacked += len(line)
            lines += 1
        file.write(packer.flush())
    return lines, unpacked


def sentences(words: list[str], drawn: random.Random) -> str:
    text, place = "", 0
    while place < len(words):
        length = drawn.randint(5, 25)
        text += " ".join(words[place : place + length]).capitalize() + drawn.choice([". ", ". ", "? ", ".\n\n"])
        place += length
    return text.strip()


def post(number: int, texts: list[str], drawn: random.Random) -> dict[str, object]:
    edited = drawn.random() < 0.3
    return {
        "id": f"t3_{number:x}",
        "name": f"t3_{number:x}",
        "title": "CMV: " + drawn.choice(texts)[:60].partition("\n")[0].replace("?", ","),
        "selftext": drawn.choice(texts) + ("\n\nEDIT: " + drawn.choice(texts)[:200] if edited else ""),
        "author": "op",
        "created_utc": str(1_400_000_000 + number),
        "subreddit": "changemyview",
        "num_comments": 40,
        "delta": drawn.random() < 0.3,
        "comments": [comment(texts, drawn) for _ in range(drawn.randint(2, 30))],
    }


def comment(texts: list[str], drawn: random.Random, depth: int = 0, author: str = "") -> dict[str, object]:
    identity = f"{drawn.getrandbits(36):x}"
    children = []
    if author == "op" and drawn.random() < 0.1:
        children = [comment([BOT], drawn, 99, "DeltaBot")]
    elif depth < 8 and drawn.random() < 0.5:
        children = [comment(texts, drawn, depth + 1, f"user{drawn.randint(1, 999)}" if author == "op" else "op")]
    return {
        "id": identity,
        "parent_id": f"t1_{identity}",
        "link_id": "t3_1",
        "author": author or f"user{drawn.randint(1, 999)}",
        "body": drawn.choice(texts),
        "created_utc": 1_400_000_000,
        "level": depth,
        "score": drawn.randint(-5, 90),
        "controversiality": 0,
        "distinguished": None,
        "edited": False,
        "children": children,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=400, help="MB that the packed file has")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    main(asked.size, asked.runs)

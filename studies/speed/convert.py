"""What does converting a log cost, beside decompressing it and beside Inspect's reader? Writes docs/cost_convert.md.

    python -m studies.speed.convert docs/cost_convert.md

A real run (urn questions of the train split, reasoned about in four replies, two epochs, scored) is copied member by
member into logs of 1,000, 5,000 and 50,000 samples, each with an id and a uuid of its own. The replies are a mock
model's, made of the reasoning in the bundled rated trajectories, about a thousand characters each; and once more those
of a reference agent, a sentence each. Every way to read or convert a log runs in a process of its own, several times in
turn, and the median counts. CPU time is that of the work alone, without imports, which favours Inspect; memory is the
most that the process held in all.
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from inspect_ai.model import Model

QUESTIONS, EPOCHS = 34, 2
ZSTD = 93
FLOOR, INSPECT = "zstd decompression of the members, nothing else", "`read_eval_log`"
CONVERSIONS = {
    "sft --all --form messages": "`--to sft --all --form messages` (one row a sample)",
    "sft --all": "`--to sft --all` (one row a reply)",
    "sft": "`--to sft` (the best 10 %)",
    "preference": "`--to preference` (two epochs of a question)",
    "sft --all --form messages --file-format parquet": "`--to sft --all --form messages --file-format parquet`",
}
WAYS = {
    "floor": FLOOR,
    "outcomes": "`LogReader.outcomes()`: scores, splits, ends",
    "samples": "`LogReader.samples()`: with messages",
    **CONVERSIONS,
    "inspect": INSPECT,
}
SLOW = {"inspect": 5_000}
"""Up to how many samples a way is tried. Inspect's reader holds the whole log in memory: 50,000 do not fit here."""

LONG, SHORT = "a thousand characters", "a sentence"
"""What a reply is."""

PAGE = """# What converting a log costs

Made by `python -m studies.speed.convert docs/cost_convert.md`. The logs are copies of real runs, sample by sample.
Every way ran in a process of its own, {runs} times in turn, on a machine with other work; the figures are medians. CPU
time is that of the work without imports, memory the most that the process held.

Seconds depend on the machine, so what counts are the two ratios of each line: to the least that any reader must do,
which is to decompress the samples, and to Inspect's own reader. The shorter the samples, the more weighs what is done
once for each.

{tables}

At 50,000 samples `read_eval_log` was not run: it holds all samples in memory at once.
"""


class Spent(NamedTuple):
    cpu: float
    """Seconds."""
    memory: float
    """MB."""
    rows: int


def main(out: str, sizes: list[int], runs: int) -> None:
    tables = []
    for said, size in [*((LONG, size) for size in sizes), (SHORT, sorted(sizes)[len(sizes) // 2])]:
        with tempfile.TemporaryDirectory() as place:
            done = subprocess.check_output([sys.executable, __file__, "--make", said, place], text=True)
            log, big = Path(done.splitlines()[-1]), Path(place, f"{size}.eval")
            subprocess.check_call([sys.executable, __file__, "--copy", str(log), str(big), str(size)])
            ways = [way for way in WAYS if size <= SLOW.get(way, size)]
            spent: dict[str, list[Spent]] = {way: [] for way in ways}
            for _ in range(runs):
                for way in ways:
                    spent[way].append(measured(way, big))
            tables.append(f"## {size:,} samples, a reply {said}\n\n{shape(log)}\n\n")
            tables[-1] += table(size, {way: median(held) for way, held in spent.items()})
            print(tables[-1], flush=True)
    Path(out).write_text(PAGE.format(runs=runs, tables="\n\n".join(tables)))


def table(size: int, spent: dict[str, Spent]) -> str:
    lines = [
        "| | rows | CPU s | µs a sample | to decompression | `read_eval_log` to it | memory, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for way, (cpu, memory, rows) in spent.items():
        floor = f"{cpu / spent['floor'].cpu:.1f}"
        inspect = f"{spent['inspect'].cpu / cpu:.0f}" if "inspect" in spent else ""
        each = f"{cpu / size * 1e6:,.0f}"
        made = f"{rows:,}" if rows else ""
        lines.append(f"| {WAYS[way]} | {made} | {cpu:.2f} | {each} | {floor} | {inspect} | {memory:.0f} |")
    return "\n".join(lines).replace("|  |", "| |")


def median(held: list[Spent]) -> Spent:
    return Spent(
        statistics.median(one.cpu for one in held), statistics.median(one.memory for one in held), held[0].rows
    )


def measured(way: str, log: Path) -> Spent:
    done = subprocess.check_output([sys.executable, __file__, "--measure", way, str(log)], text=True)
    return Spent(*json.loads(done.splitlines()[-1]))


def measure(way: str, log: str) -> Spent:
    rows = 0
    if way == "inspect":
        from inspect_ai.log import read_eval_log

        with cpu() as spent:
            read_eval_log(log)
    elif way == "floor":
        import zstandard

        held = places(log)
        unpack = zstandard.ZstdDecompressor().decompress
        file = os.open(log, os.O_RDONLY)
        with cpu() as spent:
            for offset, packed, size in held:
                unpack(os.pread(file, packed, offset), max_output_size=size)
    elif way in ("outcomes", "samples"):
        from truthgym.evallog.reader import LogReader

        with cpu() as spent, LogReader(log) as reader:
            for _ in reader.outcomes() if way == "outcomes" else reader.samples():
                pass
    else:
        rows, spent = convert(way, log)
    return Spent(spent[0], memory(), rows)


def memory() -> float:
    """The most that this process held, in MB. On Linux, `ru_maxrss` counts what its parent held, too."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def convert(way: str, log: str) -> tuple[int, list[float]]:
    from click.testing import CliRunner

    from truthgym.cli.convert import command

    for name in ("truthgym.training.convert", "rich.progress", "yaml", "filelock"):
        import_module(name)
    to, *options = way.split()
    out = f"{log}-{os.getpid()}"
    with cpu() as spent:
        done = CliRunner().invoke(command, [log, "--to", to, *options, "--out", out], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    shutil.rmtree(out)
    return int(done.output.rsplit(": ", 1)[1].split()[0].replace(",", "")), spent


@contextlib.contextmanager
def cpu() -> Iterator[list[float]]:
    spent: list[float] = []
    began = time.process_time()
    yield spent
    spent.append(time.process_time() - began)


def places(log: str) -> list[tuple[int, int, int]]:
    """Where the samples' bytes are, how many, and how many they will be."""
    with zipfile.ZipFile(log) as file:
        held = [info for info in file.infolist() if info.filename.startswith("samples/")]
    return [(i.header_offset + 30 + len(i.filename), i.compress_size, i.file_size) for i in held]


def make(said: str, place: str) -> str:
    from inspect_ai import eval
    from inspect_ai.model import get_model

    from truthgym.solvers.chain_of_thought import chain_of_thought
    from truthgym.tasks.worlds import urns

    task = urns(n=QUESTIONS, split="train")
    task.solver = chain_of_thought(steps=3)
    # With noise, so that two epochs differ.
    model = talkative() if said == LONG else get_model("reference/entrenched", noise=0.1)
    log = eval(task, model=model, epochs=EPOCHS, log_dir=place, display="none", log_realtime=False)[0]
    assert log.status == "success", log.error
    return log.location


def talkative() -> "Model":
    """A mock that says at each turn what one of the rated trajectories says, and a number where one is asked for."""
    from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model

    from truthgym.datasets.rated_trajectories import rated_trajectories
    from truthgym.scorers.beliefs.elicitation import PERCENT

    texts = [rated.trajectory for rated in rated_trajectories()]
    call = count()

    def reply(messages: list[ChatMessage], *_: object) -> ModelOutput:
        place = next(call)
        held = 20 + zlib.crc32(str(place).encode()) % 60
        text = f"{texts[place % len(texts)]}\n\n\\finalBeliefProb{{0.{held}}}"
        output = ModelOutput.from_content("mockllm/model", str(held) if messages[-1].text.endswith(PERCENT) else text)
        output.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
        return output

    return get_model("mockllm/model", custom_outputs=reply, memoize=False)


def copied(log: Path, out: Path, size: int) -> None:
    """Write a log of `size` samples: those of a log again and again, each time as other questions."""
    import zipfile_zstd  # type: ignore[import-untyped]  # noqa: F401  # Inspect brings it: zipfile learns zstd

    from truthgym.datasets.splits import split_of

    with zipfile.ZipFile(log) as file, zipfile.ZipFile(out, "w", ZSTD) as copy:
        held = {name: file.read(name) for name in file.namelist()}
        samples = [content for name, content in held.items() if name.startswith("samples/")]
        known = [json.loads(content) for content in samples]
        copy.writestr("_journal/start.json", held["_journal/start.json"])
        for i in range(size):
            content, sample = samples[i % len(samples)], known[i % len(samples)]
            names = (f"{sample['id']}-{i // len(samples):05d}-{k}" for k in count())
            identity = next(name for name in names if split_of(name) != "test")  # the event decides the split
            content = content.replace(f'"{sample["id"]}"'.encode(), f'"{identity}"'.encode())
            content = content.replace(sample["uuid"].encode(), f"{sample['uuid'][:-6]}{i:06d}".encode())
            copy.writestr(f"samples/{identity}_epoch_{sample['epoch']}.json", content)
        copy.writestr("header.json", held["header.json"])


def shape(log: Path) -> str:
    with zipfile.ZipFile(log) as file:
        held = [info for info in file.infolist() if info.filename.startswith("samples/")]
    size, packed = (statistics.mean(getattr(info, name) for info in held) for name in ("file_size", "compress_size"))
    return f"{size / 1000:.1f} KB of JSON a sample, {packed / 1000:.1f} KB as Inspect packs it."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", help="the page to write")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 5_000, 50_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--copy", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make:
        print(make(*asked.make))
    elif asked.copy:
        copied(Path(asked.copy[0]), Path(asked.copy[1]), int(asked.copy[2]))
    elif asked.measure:
        print(json.dumps(measure(*asked.measure)))
    elif asked.out:
        main(asked.out, asked.sizes, asked.runs)
    else:
        parser.error("name the page to write, such as docs/cost_convert.md")

"""What does converting a log cost, beside decompressing it and beside Inspect's reader?

    python -m studies.speed.convert

A real run (urn questions of the train split, reasoned about in four replies, two epochs, scored) is copied sample by
sample into a log of 5,000 samples, each with an id and a uuid of its own. The replies are a mock model's, made of the
reasoning in the bundled rated trajectories, about a thousand characters each. Every way to read or convert a log runs
in a process of its own, several times in turn, and the median counts. CPU time is that of the work alone, without
imports, which favours Inspect; memory is the most that the process held in all.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from studies.speed.log_copies import add_header, copy_samples
from studies.speed.timing import Usage, arguments, cpu_seconds, in_own_process, print_usage

if TYPE_CHECKING:
    from inspect_ai.model import Model

QUESTIONS, EPOCHS = 34, 2
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


def main(sizes: list[int], runs: int) -> None:
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            log, samples, large = make(folder), Path(folder, "samples.eval"), Path(folder, f"{size}.eval")
            add_header(samples, copy_samples(log, samples, size), large, "copy")
            usage: dict[str, list[Usage]] = {way: [] for way in WAYS if size <= SLOW.get(way, size)}
            for _ in range(runs):
                for way, uses in usage.items():
                    uses.append(in_own_process("studies.speed.convert", way, large))
            costs = table(size, {way: median(uses) for way, uses in usage.items()})
            print(f"{size:,} samples, {shape(log)}\n\n{costs}", flush=True)


def table(size: int, usage: dict[str, Usage]) -> str:
    from truthgym.analysis.tables.markdown import markdown

    header = ["", "rows", "CPU s", "µs a sample", "to decompression", "`read_eval_log` to it", "memory, MB"]
    rows = [
        [WAYS[way], f"{rows:,}" if rows else "", f"{cpu:.2f}", f"{cpu / size * 1e6:,.0f}",
         f"{cpu / usage['floor'].cpu:.1f}", f"{usage['inspect'].cpu / cpu:.0f}" if "inspect" in usage else "",
         f"{memory:.0f}"]
        for way, (cpu, memory, rows) in usage.items()
    ]  # fmt: skip
    return markdown(header, rows)


def median(uses: list[Usage]) -> Usage:
    cpu, memory = (statistics.median(use[i] for use in uses) for i in (0, 1))
    return Usage(cpu, memory, uses[0].rows)


def measure(way: str, log: str) -> tuple[float, int]:
    """CPU seconds, without imports, and rows of one way."""
    if way in WAYS.keys() - CONVERSIONS.keys():
        return cpu_seconds(reader(way, log)), 0
    from click.testing import CliRunner

    from truthgym.cli.convert import command

    for name in ("truthgym.training.convert", "rich.progress", "yaml", "filelock"):
        import_module(name)
    kind, *options = way.split()
    out, results = f"{log}-{os.getpid()}", []
    words = [log, "--to", kind, *options, "--out", out]
    cpu = cpu_seconds(lambda: results.append(CliRunner().invoke(command, words, catch_exceptions=False)))
    assert results[0].exit_code == 0, results[0].output
    shutil.rmtree(out)
    return cpu, int(results[0].output.rsplit(": ", 1)[1].split()[0].replace(",", ""))


def reader(way: str, log: str) -> Callable[[], object]:
    """A way to read a log, its imports done."""
    if way == "inspect":
        from inspect_ai.log import read_eval_log

        return lambda: read_eval_log(log)
    if way == "floor":
        import zstandard

        unpack, file = zstandard.ZstdDecompressor().decompress, os.open(log, os.O_RDONLY)
        members = [(i.header_offset + 30 + len(i.filename), i.compress_size, i.file_size) for i in sample_members(log)]

        def decompress() -> None:
            for offset, packed, size in members:
                unpack(os.pread(file, packed, offset), max_output_size=size)

        return decompress
    from truthgym.evallog.reader import LogReader

    def read() -> None:
        with LogReader(log) as opened:
            for _ in opened.outcomes() if way == "outcomes" else opened.samples():
                pass

    return read


def sample_members(log: Path | str) -> list[zipfile.ZipInfo]:
    with zipfile.ZipFile(log) as file:
        return [info for info in file.infolist() if info.filename.startswith("samples/")]


def make(folder: str) -> Path:
    from inspect_ai import eval

    from truthgym.solvers.chain_of_thought import chain_of_thought
    from truthgym.tasks.worlds import urns

    task = urns(n=QUESTIONS, split="train")
    task.solver = chain_of_thought(steps=3)
    log = eval(task, model=talkative(), epochs=EPOCHS, log_dir=folder, display="none", log_realtime=False)[0]
    assert log.status == "success", log.error
    return Path(log.location.removeprefix("file://"))


def talkative() -> "Model":
    """A mock that says at each turn what one of the rated trajectories says, and a number where one is asked for."""
    from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model

    from truthgym.datasets.rated_trajectories import rated_trajectories
    from truthgym.scorers.beliefs.reader import PERCENT

    texts = [rated.trajectory for rated in rated_trajectories()]
    call = count()

    def reply(messages: list[ChatMessage], *_: object) -> ModelOutput:
        place = next(call)
        belief = 20 + zlib.crc32(str(place).encode()) % 60
        text = f"{texts[place % len(texts)]}\n\n\\finalBeliefProb{{0.{belief}}}"
        output = ModelOutput.from_content("mockllm/model", str(belief) if messages[-1].text.endswith(PERCENT) else text)
        output.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
        return output

    return get_model("mockllm/model", custom_outputs=reply, memoize=False)


def shape(log: Path) -> str:
    members = sample_members(log)
    size, packed = (statistics.mean(getattr(info, name) for info in members) for name in ("file_size", "compress_size"))
    return f"{size / 1000:.1f} KB of JSON a sample, {packed / 1000:.1f} KB as Inspect packs it."


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print_usage(*measure(*args.measure))
    else:
        main(args.sizes, args.runs)

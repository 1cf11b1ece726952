"""What do a training step's rollouts cost over a bare Inspect eval, and over the model alone? And does memory grow?

    python -m studies.speed.rollouts
    python -m studies.speed.rollouts --memory 200

The first line asks the same urn questions of the same tiny model, as often and in batches of the same size, in three
ways: `Rollouts.run` as GRPO and RLOO call it; `inspect_ai.eval` with the same task on Inspect's own provider of local
models (`hf/FOLDER`); and transformers' `generate` alone on the prompts that the first way had. All run in one process
with one thread of torch, in turn, after one run of each to warm up. CPU time of the process, not wall time; loading the
model is not counted. The second line runs `truthgym train grpo` for so many steps in a process of its own, and reads
how much memory it holds as it goes.
"""

import gc
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studies.speed.timing import arguments, cpu_seconds, ratio, resident_memory
from truthgym.analysis.tables.markdown import markdown

if TYPE_CHECKING:
    from truthgym.training.rollouts.sampling import Engine, Generated, Request

GROUP = 8
"""Rollouts of a question: `num_generations`."""
TOKENS = 16
"""The most that a reply may have."""
EVERY = 10
"""Steps between two readings of memory."""
WAYS = ("ours", "bare", "plain")
SOLVERS: dict[str, dict[str, Any]] = {"direct": {}, "chain_of_thought": {"steps": 2}}
RUNS = {"direct": {64: 7, 256: 5, 1024: 2}, "chain_of_thought": {64: 5, 256: 3, 1024: 1}}
"""Rollouts, and how often each number of them is run."""


class RecordingEngine:
    """An engine that also records its requests."""

    context_length, concurrent = None, False

    def __init__(self, engine: "Engine") -> None:
        self.engine = engine
        self.end_ids = engine.end_ids
        self.requests: list[list[Request]] = []

    def __call__(self, requests: "Sequence[Request]") -> "list[Generated]":
        self.requests.append(list(requests))
        return self.engine(requests)


class Bench:
    """One model, and the ways to ask it."""

    def __init__(self, folder: Path, solver: str, logs: Path) -> None:
        from inspect_ai.model import get_model
        from inspect_ai.solver import SolverSpec
        from transformers import AutoModelForCausalLM, AutoTokenizer

        from truthgym.training.rollouts.questions import load_questions
        from truthgym.training.rollouts.runner import Rollouts, Sampling
        from truthgym.training.rollouts.sampling import MAX_BATCH, LocalEngine

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder)
        self.end = int(self.tokenizer.eos_token_id)
        self.engine = LocalEngine(self.model, self.tokenizer, [self.end])
        self.chunk = MAX_BATCH
        self.questions = load_questions("truthgym/urns", {"n": 400, "paradigms": "brier"})
        self.solver = SolverSpec(f"truthgym/{solver}", SOLVERS[solver], SOLVERS[solver])
        self.rollouts = Rollouts(
            [self.questions],
            Sampling("tiny", self.tokenizer, 0, TOKENS),
            logs,
            solver=self.solver.solver,
            solver_args=self.solver.args,
        )
        self.bare_model = get_model(f"hf/{folder}", memoize=False, device="cpu")
        self.logs = logs
        self.number = 0
        self.prompts: dict[int, list[list[Request]]] = {}

    def seconds(self, way: str, count: int) -> float:
        self.number += 1
        gc.collect()
        return cpu_seconds(lambda: {"ours": self.ours, "bare": self.bare, "plain": self.plain}[way](count))

    def names(self, count: int) -> list[str]:
        return list(self.questions.samples)[: count // GROUP]

    def ours(self, count: int) -> None:
        engine = RecordingEngine(self.engine)
        keys = [(0, name) for name in self.names(count) for _ in range(GROUP)]
        assert len(self.rollouts.run(keys, engine, self.number)) == count
        self.prompts.setdefault(count, engine.requests)

    def bare(self, count: int) -> None:
        from inspect_ai import Epochs, eval

        log = eval(
            self.questions.subset(self.names(count)),
            model=self.bare_model,
            solver=self.solver,
            epochs=Epochs(GROUP),
            max_tokens=TOKENS,
            temperature=1.0,
            max_connections=min(count, self.chunk),
            max_samples=count,
            log_dir=str(self.logs / f"bare-{self.number}"),
            log_realtime=False,
            log_header_only=True,
            display="log",
        )[0]
        assert log.status == "success", log.error

    def plain(self, count: int) -> None:
        import torch

        pad = int(self.tokenizer.pad_token_id)
        for batch in self.prompts[count]:
            prompts = sorted((list(request.prompt_ids) for request in batch), key=len)
            for start in range(0, len(prompts), self.chunk):
                batch_prompts = prompts[start : start + self.chunk]
                longest = len(batch_prompts[-1])
                ids = torch.tensor([[pad] * (longest - len(row)) + row for row in batch_prompts])
                mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in batch_prompts])
                with torch.inference_mode():
                    out = self.model.generate(ids, attention_mask=mask, do_sample=True, max_new_tokens=TOKENS)
                self.tokenizer.batch_decode(out[:, longest:], skip_special_tokens=True)


def main(folder: Path, most: int) -> None:
    import torch

    torch.set_num_threads(1)
    for solver, planned in RUNS.items():
        runs = {count: times for count, times in planned.items() if count <= most}
        with tempfile.TemporaryDirectory() as place:
            bench = Bench(folder, solver, Path(place))
            spent: dict[int, dict[str, list[float]]] = {count: {way: [] for way in WAYS} for count in runs}
            for way in WAYS:
                bench.seconds(way, min(runs))
            for turn in range(max(runs.values())):
                for count in (count for count, times in runs.items() if turn < times):
                    for way in WAYS:
                        spent[count][way].append(bench.seconds(way, count))
                        print(solver, count, way, spent[count][way][-1], file=sys.stderr, flush=True)
            print(f"{solver}\n\n{table(spent)}", flush=True)


def table(spent: dict[int, dict[str, list[float]]]) -> str:
    rows = []
    for count, ways in spent.items():
        ratios = (ratio(ways["ours"], ways[way]) for way in ("bare", "plain"))
        rows.append([f"{count:,}", str(len(ways["ours"])), *ratios])
    header = ["rollouts", "runs", "over a bare eval", "over `generate` alone"]
    return markdown(header, rows)


def memory(folder: Path, steps: int) -> None:
    """Print the MB that a training process holds as it goes."""
    with tempfile.TemporaryDirectory() as place:
        options = {
            "model_name_or_path": folder,
            "task": "truthgym/urns",
            "task_args": "{n: 2000, paradigms: brier}",
            "per_device_train_batch_size": 16,
            "gradient_accumulation_steps": 1,
            "num_generations": 4,
            "max_completion_length": 12,
            "max_steps": steps,
            "validation_steps": 0,
            "output_dir": place,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        program = "import torch; torch.set_num_threads(1); from truthgym.cli.main import main; main()"
        output = Path(place, "output.txt")
        megabytes: dict[int, float] = {}
        with output.open("w") as out:
            training = subprocess.Popen(
                [sys.executable, "-c", program, "train", "grpo", *words], stdout=out, stderr=out
            )
            while training.poll() is None:
                time.sleep(0.2)
                step = (sum(1 for _ in Path(place).glob("*/rollouts/step-*")) - 1) // EVERY * EVERY
                if step >= EVERY and step not in megabytes:
                    megabytes[step] = resident_memory(training.pid)
                    print(f"step {step}: {megabytes[step]:.0f} MB", flush=True)
        assert training.returncode == 0, output.read_text()[-2000:]
    values = list(megabytes.values())
    middle = len(values) // 2
    before, after = statistics.median(values[:middle]), statistics.median(values[middle:])
    print(f"second half / first half = {after / before:.3f} (medians); most / least = {max(values) / min(values):.3f}")


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--memory", type=int, metavar="STEPS", help="train for so many steps and read the memory held")
    parser.add_argument("--model", type=Path, help="a folder of `truthgym tiny`; made anew where none is given")
    parser.add_argument("--most", type=int, default=1024, help="leave out more rollouts than so many")
    args = parser.parse_args()
    from truthgym.training.tiny import tiny

    with tempfile.TemporaryDirectory() as place:
        folder = args.model or tiny(Path(place, "tiny"))
        if args.memory:
            memory(folder, args.memory)
        else:
            main(folder, args.most)

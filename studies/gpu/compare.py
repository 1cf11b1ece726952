"""How much faster is vLLM than transformers, and what do ZeRO-2 and ZeRO-3 cost? For a machine with GPUs.

    python -m studies.gpu.compare eval Qwen/Qwen3-0.6B
    python -m studies.gpu.compare grpo Qwen/Qwen3-0.6B
    python -m studies.gpu.compare zero Qwen/Qwen3-1.7B --gpus 2

Each way is one command of Inspect or Truthgym, which `--print` shows. They run in turn, `--runs` times, and the ratios
are medians with the least and the most. Time is what the log of the eval, or transformers' results of the training,
say that it took, without loading the model. Memory is the most that nvidia-smi showed on one GPU. vLLM reserves its
share of the memory at once, so there it says nothing about need.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from studies.speed.timing import arguments, ratio

PORT = 8000
QUESTIONS = 200
REPLY = 512
"""The most tokens that a reply may have."""
STEPS = {"grpo": 5, "zero": 20}
TRUTHGYM = [sys.executable, "-m", "truthgym.cli.main"]


@dataclass(frozen=True)
class Way:
    command: list[str]
    processes: int = 1
    """Each does as much work as one alone."""
    server: list[str] = field(default_factory=list)
    """Command of a server that runs meanwhile, on the second GPU."""


class Result(NamedTuple):
    seconds: float
    memory: float
    """GB."""


def ways(kind: str, model: str, gpus: int, place: Path) -> dict[str, Way]:
    """The ways that are compared, plain transformers first. Their logs and models go to `place`."""
    return {"eval": _eval, "grpo": _grpo, "zero": _zero}[kind](model, gpus, place)


def _eval(model: str, gpus: int, place: Path) -> dict[str, Way]:
    command = ["inspect", "eval", "truthgym/urns", "-T", f"n={QUESTIONS}", "-T", "paradigms=brier"]
    command += ["--solver", "truthgym/chain_of_thought", "--max-tokens", str(REPLY), "--max-connections", "64"]
    command += ["--display", "none", "--log-dir", str(place), "-M", "dtype=bfloat16"]
    local = ["--model", "hf/compared:v1", "-M", f"model_path={model}", "-M", "device=cuda:0"]
    served = ["--model", f"vllm/{model}", "-M", "max_model_len=8192", "-M", "gpu_memory_utilization=0.9"]
    served += ["-M", "lazy_init=false"]  # vLLM starts before the eval does
    return {"transformers": Way([*command, *local]), "vLLM": Way([*command, *served])}


def _grpo(model: str, gpus: int, place: Path) -> dict[str, Way]:
    from trl.scripts.vllm_serve import ScriptArguments, build_command

    command = [*TRUTHGYM, "train", "grpo", "--model_name_or_path", model, "--task", "truthgym/urns"]
    command += ["--task_args", "{n: 2000, paradigms: brier}", "--max_completion_length", str(REPLY), "--gpus", "1"]
    command += ["--max_steps", str(STEPS["grpo"]), "--validation_steps", "0", "--report_to", "none"]
    command += ["--output_dir", str(place)]
    colocate = ["--use_vllm", "--vllm_mode", "colocate", "--vllm_gpu_memory_utilization", "0.3"]
    colocate += ["--vllm_enable_sleep_mode", "true", "--vllm_max_model_length", "8192"]
    url = ["--vllm_server_base_url", f"http://127.0.0.1:{PORT}", "--vllm_server_timeout", "600"]
    server = build_command(ScriptArguments(model=model, host="127.0.0.1", port=PORT, max_model_len=8192))
    return {
        "transformers": Way(command),
        "vLLM, colocate": Way([*command, *colocate]),
        "vLLM, server on a second GPU": Way([*command, "--use_vllm", "--vllm_mode", "server", *url], server=server),
    }


def _zero(model: str, gpus: int, place: Path) -> dict[str, Way]:
    command = [*TRUTHGYM, "train", "sft", "--model_name_or_path", model, "--log", str(place.parent / "data")]
    command += ["--max_steps", str(STEPS["zero"]), "--per_device_train_batch_size", "4", "--report_to", "none"]
    command += ["--output_dir", str(place)]
    several = {"DDP": "multi_gpu", "ZeRO-2": "zero2", "ZeRO-3": "zero3"}
    return {"transformers, one GPU": Way([*command, "--gpus", "1"])} | {
        name: Way([*command, "--gpus", str(gpus), "--accelerate_config", configuration], processes=gpus)
        for name, configuration in several.items()
    }


def run(kind: str, way: Way, place: Path) -> Result | None:
    """Run a way once. None if it fails, for instance because it needs more memory than there is."""
    place.mkdir(parents=True)
    with ExitStack() as stack:
        out = stack.enter_context((place / "out.txt").open("w"))
        if way.server:
            apart = os.environ | {"CUDA_VISIBLE_DEVICES": "1", "VLLM_SERVER_DEV_MODE": "1"}
            server = subprocess.Popen(way.server, env=apart, stdout=out, stderr=out)
            stack.callback(server.wait)
            stack.callback(server.terminate)
        process = subprocess.Popen(way.command, stdout=out, stderr=out)
        memory = 0.0
        while process.poll() is None:
            memory = max(memory, used())
            time.sleep(1)
    if process.returncode:
        print("".join((place / "out.txt").read_text().splitlines(keepends=True)[-20:]), file=sys.stderr)
        return None
    seconds = eval_seconds(place) if kind == "eval" else train_seconds(place) / way.processes
    return Result(seconds, memory)


def used() -> float:
    """GB in use on the GPU that uses most; 0 without nvidia-smi."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        return max(int(line) for line in subprocess.check_output(query, text=True).split()) / 1024
    except FileNotFoundError:
        return 0


def eval_seconds(place: Path) -> float:
    """How long the eval took whose log is in this folder."""
    from inspect_ai.log import list_eval_logs, read_eval_log

    (log,) = (read_eval_log(info, header_only=True) for info in list_eval_logs(str(place)))
    assert log.status == "success", log.error
    began, ended = (datetime.fromisoformat(time) for time in (log.stats.started_at, log.stats.completed_at))
    return (ended - began).total_seconds()


def train_seconds(place: Path) -> float:
    """How long the training took whose model is in this folder."""
    (results,) = place.glob("*/all_results.json")
    return float(json.loads(results.read_text())["train_runtime"])


def table(results: dict[str, list[Result | None]]) -> str:
    """The ratios to the first way that ran every time."""
    ran = {name: [all_run for all_run in all_runs if all_run] for name, all_runs in results.items() if all(all_runs)}
    base = next(iter(ran), None)
    lines = [f"| | time, {base} = 1 | most GB on one GPU |", "|---|---|---|"]
    for name in results:
        if name not in ran or base is None:
            lines.append(f"| {name} | failed | |")
            continue
        seconds = {way: [result.seconds for result in ran[way]] for way in (base, name)}
        memory = statistics.median(result.memory for result in ran[name])
        lines.append(f"| {name} | {ratio(seconds[name], seconds[base])} | {memory:.1f} |")
    return "\n".join(lines)


def main(kind: str, model: str, gpus: int, runs: int, place: Path) -> None:
    results: dict[str, list[Result | None]] = {}
    if kind == "zero":
        data = ["--log-dir", str(place / "data"), "--model", "reference/bayesian", "--display", "none"]
        subprocess.run(["inspect", "eval", "truthgym/urns", "-T", "n=400", *data], check=True)
    for turn in range(runs):
        for number, name in enumerate(ways(kind, model, gpus, place)):
            own = place / f"{turn}-{number}"
            result = run(kind, ways(kind, model, gpus, own)[name], own)
            print(f"run {turn + 1}, {name}: {result or 'failed'}", file=sys.stderr, flush=True)
            results.setdefault(name, []).append(result)
    print(f"{kind}, {model}, {runs} runs\n\n{table(results)}")


def show(listed: dict[str, Way]) -> Sequence[str]:
    servers = [f"# meanwhile: VLLM_SERVER_DEV_MODE=1 {shlex.join(way.server)}" for way in listed.values() if way.server]
    return [*(f"# {name}\n{shlex.join(way.command)}" for name, way in listed.items()), *servers]


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("kind", choices=STEPS.keys() | {"eval"})
    parser.add_argument("model", help="a folder, or a name on the Hub")
    parser.add_argument("--gpus", type=int, default=2, help="for zero [2]")
    parser.add_argument("--runs", type=int, default=3, help="of each way [3]")
    parser.add_argument("--out", type=Path, help="a new folder that keeps logs and models [a temporary one]")
    parser.add_argument("--print", action="store_true", help="print the commands and stop")
    args = parser.parse_args()
    if args.print:
        print("\n".join(show(ways(args.kind, args.model, args.gpus, Path("OUT", "RUN")))))
        sys.exit()
    with tempfile.TemporaryDirectory() as temporary:
        main(args.kind, args.model, args.gpus, args.runs, args.out or Path(temporary))

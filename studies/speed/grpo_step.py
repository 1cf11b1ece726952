"""Where does the time of a GRPO step go?

    python -m studies.speed.grpo_step MODEL [--rollouts 32] [--steps 6] [--out FILE.json] [-- TRAINING OPTIONS]

Trains with `truthgym train grpo` on `urns`, in this process, and times what each part does without the parts inside it.
The first step, which loads and compiles, is left out. Shares of CPU time, on a GPU of wall time: there, nothing else
should run beside it. `--profile` also says which functions take the time of Inspect's loop and of ours.
"""

import cProfile
import functools
import json
import pstats
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from studies.speed.timing import arguments
from truthgym.analysis.tables.markdown import markdown

STEP = "rest of the step"
PARTS = {
    "generate": ("generation", "the model"),
    "eval": ("Inspect's loop: solvers, scorers, log", "Inspect"),
    "run": ("rows of tokens from samples", "ours"),
    "rewards": ("rewards", "ours"),
    "prepare": ("batches, advantages", "TRL"),
    "forward": ("forward pass", "the model"),
    "loss": ("loss", "TRL"),
    "backward": ("gradient", "the model"),
    "optimizer": ("optimizer, clipping", "the model"),
    "save": ("checkpoints", "transformers"),
    "validation": ("validation", "the model"),
    STEP: (STEP, "transformers"),
}
"""Name in the table, and whose time it is."""


class Clock:
    """Seconds of each part without the parts inside it."""

    def __init__(self) -> None:
        import torch

        self.seconds: dict[str, float] = defaultdict(float)
        self.stack: list[str] = []
        self.now = time.perf_counter if torch.cuda.is_available() else time.process_time
        self.since = self.now()

    def switch(self) -> None:
        import torch

        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = self.now()
        self.seconds[self.stack[-1] if self.stack else STEP] += now - self.since
        self.since = now

    def time(self, owner: Any, name: str, part: str) -> None:  # noqa: ANN401
        """Time a function from now on."""
        function: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            self.switch()
            self.stack.append(part)
            try:
                return function(*args, **kwargs)
            finally:
                self.switch()
                self.stack.pop()

        setattr(owner, name, timed)


def measure(model: str, rollouts: int, steps: int, more: list[str], profiled: bool) -> dict[str, Any]:
    import torch
    from accelerate import Accelerator  # type: ignore[import-untyped]
    from accelerate.optimizer import AcceleratedOptimizer  # type: ignore[import-untyped]
    from transformers import Trainer, TrainerCallback, trainer
    from trl import GRPOTrainer

    from truthgym.training.rollouts import runner, trl_adapter
    from truthgym.training.rollouts.sampling import LocalEngine
    from truthgym.training.rollouts.trainer import ValidationCallback
    from truthgym.training.train import grpo

    clock, profile = Clock(), cProfile.Profile()
    for owner, name, part in (
        (LocalEngine, "__call__", "generate"), (runner.Rollouts, "_eval", "eval"), (runner.Rollouts, "run", "run"),
        (trl_adapter.RolloutAdapter, "run", "rewards"), (GRPOTrainer, "_generate_and_score_completions", "prepare"),
        (GRPOTrainer, "_get_per_token_logps_and_entropies", "forward"), (GRPOTrainer, "_compute_loss", "loss"),
        (Accelerator, "backward", "backward"), (Accelerator, "clip_grad_norm_", "optimizer"),
        (AcceleratedOptimizer, "step", "optimizer"), (Trainer, "_save_checkpoint", "save"),
        (ValidationCallback, "on_step_end", "validation"),
    ):  # fmt: skip
        clock.time(owner, name, part)
    kept: dict[str, Any] = {}

    class Bounds(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: object, **_: object) -> None:  # noqa: ANN401
            clock.switch()
            if state.global_step == 1:
                clock.seconds.clear()
                kept["began"] = clock.now()
                if profiled:
                    profile.enable()
            elif state.global_step == steps + 1:
                profile.disable()
                kept.update(seconds=dict(clock.seconds), took=clock.now() - kept["began"])

        def on_log(self, args: Any, state: Any, control: object, logs: Any = None, **_: object) -> None:  # noqa: ANN401
            if "completions/mean_length" in logs:
                kept["length"] = logs["completions/mean_length"]

    trainer.DEFAULT_CALLBACKS.append(Bounds)
    with tempfile.TemporaryDirectory() as place:
        options = {"model_name_or_path": model, "task": "truthgym/urns", "output_dir": place, "report_to": "none",
                   "task_args": "{n: 2000, paradigms: brier}", "num_generations": "8", "max_steps": str(steps + 2),
                   "per_device_train_batch_size": "8", "gradient_accumulation_steps": str(rollouts // 8),
                   "max_completion_length": "32", "validation_steps": "0", "save_strategy": "no"}  # fmt: skip
        words = [word for name, value in options.items() if f"--{name}" not in more for word in (f"--{name}", value)]
        grpo([*words, *more])
    trainer.DEFAULT_CALLBACKS.remove(Bounds)
    if profiled:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    shares = {part: kept["seconds"].get(part, 0.0) / kept["took"] for part in PARTS}
    return {"device": device, "rollouts": rollouts, "steps": steps, "length": kept["length"], "options": more,
            "seconds a step": kept["took"] / steps, "shares": shares}  # fmt: skip


def table(shares: Mapping[str, float]) -> str:
    rows = [[*PARTS[part], f"{100 * share:.1f} %"] for part, share in shares.items() if share >= 0.0005]
    return markdown(["part", "whose", "share of a step"], rows)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("model", help="a folder, or a name on the Hub")
    parser.add_argument("--rollouts", type=int, default=32, help="of a step [32]")
    parser.add_argument("--steps", type=int, default=6, help="that are measured [6]")
    parser.add_argument("--out", type=Path, help="a JSON file of the figures")
    parser.add_argument("--profile", action="store_true", help="print the functions that take most time")
    words = sys.argv[1:]
    own, more = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    args = parser.parse_args(own)
    found = measure(args.model, args.rollouts, args.steps, more, args.profile)
    print(json.dumps(found))
    print(table(found["shares"]))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1))

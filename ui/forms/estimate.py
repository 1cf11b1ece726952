"""What an eval will take, as `truthgym cost` says, which is run for each task and reasoning mode."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from truthgym.analysis.tables.cost_estimate import TOO_SMALL
from truthgym.ui.forms.commands import (
    arguments_of,
    chosen,
    first,
    lines,
    model_names,
    paradigm_value,
    solver_words,
)
from truthgym.ui.forms.options import Fields
from truthgym.ui.processes.secrets import redact

SECONDS = 300
"""After which an estimate is given up."""


@dataclass(frozen=True)
class CostEstimate:
    """What `truthgym cost` printed."""

    command: list[str]
    text: str
    """Markdown. "" if it failed."""
    error: str = ""

    @property
    def too_small(self) -> str:
        """The line that says that the run is too small for the difference to detect. "" if it is not."""
        lines = [line.removeprefix("- ") for line in self.text.splitlines()]
        return next((line for line in lines if line.startswith(TOO_SMALL)), "")


def cost_commands(fields: Fields) -> Iterator[list[str]]:
    """The command for each task, reasoning mode and model; one model for all, without prices."""
    prices, limit = first(fields, "--model-cost-config"), first(fields, "--limit")
    words = [word for key, value in arguments_of(fields, "T").items() for word in ("-T", f"{key}={value}")]
    words += [word for line in lines(fields, "T") for word in ("-T", line)]
    if paradigms := chosen(fields, "paradigms"):
        words += ["-T", f"paradigms={paradigm_value(fields, paradigms)}"]
    for key in fields:
        if key.startswith("role ") and first(fields, key):
            words += ["--model-role", f"{key.removeprefix('role ')}={first(fields, key).replace(' ', '')}"]
    if limit.isdecimal():
        words += ["--limit", limit]
    for option, field in (("--epochs", "--epochs"), ("--prices", "--model-cost-config"), ("--effect", "effect"),
                          ("--reply-tokens", "reply_tokens")):  # fmt: skip
        if value := first(fields, field):
            words += [option, value]
    models = model_names(fields)
    for task in chosen(fields, "tasks", "other tasks"):
        for solver in chosen(fields, "solvers", "other solvers") or [""]:
            for model in models if prices else models[:1]:
                yield ["truthgym", "cost", task, *solver_words(fields, solver), "--model", model, *words]


def run_cost(command: list[str], folder: Path) -> CostEstimate:
    """Run one of `cost_commands` in the folder."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "truthgym.cli.main", *command[1:]], cwd=folder, capture_output=True, text=True,
            timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return CostEstimate(command, "", f"No estimate after {SECONDS} seconds; give the task fewer questions.")
    if done.returncode:
        return CostEstimate(command, "", redact(done.stderr.strip()[-1500:], folder) or "The estimate failed.")
    return CostEstimate(command, redact(done.stdout, folder))

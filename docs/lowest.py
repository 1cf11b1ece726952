"""Installs the lowest version of each direct dependency, and runs the README and two steps of each trainer with them.

python docs/lowest.py FOLDER      (`make lowest`)

FOLDER gets two environments, each made anew: `base`, in which the README's two commands run, and `extras`, in which the
tiny model is trained by each method. uv resolves the lowest versions. torch is its CPU build from PyTorch's own index;
with TORCH=2.13.0+cpu in the environment it is that version, from where PIP_FIND_LINKS says.
"""

import os
import re
import shlex
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from release import readme_command, run

ROOT = Path(__file__).parent.parent
EXTRAS = ("train", "charts", "embeddings", "smollm2", "serve", "ui", "together")
"""Those whose code runs on any machine. The others are coding agents, GPUs, a cluster and what develops Truthgym."""
TRAINED = """
import truthgym.serve.server, truthgym.training.providers.together, truthgym.ui.app
import gguf, sentence_transformers, vl_convert
from inspect_ai import eval
from truthgym.tasks.worlds import urns
from truthgym.training import train
from truthgym.training.conversion.options import Selection
from truthgym.training.convert import convert
from truthgym.training.tiny import tiny

task = urns(n=6, draws=2, split="train", paradigms="brier")
(log,) = eval(task, model="reference/bayesian", model_args={"noise": 0.2}, epochs=2, display="log", log_dir="logs")
assert log.status == "success", log.error
few = {"model_name_or_path": str(tiny("tiny", steps=0)), "max_steps": 2, "per_device_train_batch_size": 2}
for method, kind in {"sft": "sft", "dpo": "preference", "kto": "unpaired", "reward": "preference"}.items():
    convert(["logs"], kind, method, Selection(top=1.0) if kind == "sft" else None)
    print("trained", getattr(train, method)(few | {"dataset_name": method}), flush=True)
few |= {"gradient_accumulation_steps": 2, "num_generations": 2, "max_completion_length": 8, "validation_steps": 0}
for method in ("grpo", "rloo"):
    options = {"task": ["truthgym/urns"], "task_args": {"n": 8, "paradigms": "brier"}}
    print("trained", getattr(train, method)(few | options), flush=True)
"""


def main(folder: Path) -> None:
    """Make the environments, and run in each what it is for."""
    for name, extras in {"base": (), "extras": EXTRAS}.items():
        python = install(folder / name, extras)
        with tempfile.TemporaryDirectory() as work:
            if extras:
                said = run(python, "-c", TRAINED, cwd=Path(work))
                print(*re.findall(r"^trained .*", said, re.M), sep="\n", flush=True)
                continue
            for command in readme_commands():
                run(str(Path(python).parent / command[0]), *command[1:], cwd=Path(work))
                print(f"ran {shlex.join(command)}", flush=True)


def install(folder: Path, extras: tuple[str, ...]) -> str:
    """The python of a new environment with the project and the lowest versions of what it names. Prints those."""
    venv.create(folder, clear=True, with_pip=True)
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    run(python, "-m", "pip", "install", "-q", "uv", cwd=ROOT)
    options = ["--resolution", "lowest-direct", "-e", f".[{','.join(extras)}]" if extras else "."]
    if places := os.environ.get("PIP_FIND_LINKS"):
        options += ["--find-links", places]
    if version := os.environ.get("TORCH"):
        (folder / "torch.txt").write_text(f"torch=={version}\n", encoding="utf-8")
        options += ["--override", str(folder / "torch.txt")]
    else:
        options += ["--torch-backend", "cpu"]
    run(python, "-m", "uv", "pip", "install", "-q", "--python", python, *options, cwd=ROOT)
    listed = run(python, "-m", "uv", "pip", "freeze", "-q", "--python", python, cwd=ROOT)
    installed = dict(re.findall(r"^([\w.-]+)==(\S+)", listed.lower(), re.M))
    print(", ".join(f"{name} {installed[name]}" for name in direct(extras) if name in installed), flush=True)
    return python


def direct(extras: tuple[str, ...]) -> list[str]:
    """The packages that pyproject.toml names for the extras, and that it always needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"]]
    for extra in (*extras, *(("local",) if extras else ())):
        lines += project["optional-dependencies"][extra]
    names = {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for line in lines} - {"truthgym"}
    return sorted(names)


def readme_commands() -> list[list[str]]:
    """The README's first `inspect eval`, and `truthgym worlds` with the readers alone, who need no key."""
    found = re.search(r"^truthgym worlds .*", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    if not found:
        sys.exit("README.md: no command `truthgym worlds`")
    return [readme_command(ROOT), shlex.split(re.sub(r" --model \S+", "", found[0]))]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/lowest").absolute())

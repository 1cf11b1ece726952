"""Every command on the pages runs, on few questions and with simulated agents in the place of models.

What cannot run here is in `NOT_RUN`, with the reason.
"""

import json
import re
import runpy
import shutil
import sys
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path

import pytest
from inspect_ai.model import get_model

from tests.commands import call
from tests.docs.test_commands import PAGES, ROOT, commands
from tests.fixtures import evaluate, made_once

FILES = {page.stem: page for page in (*sorted(ROOT.glob("datasets/*.md")), *PAGES)}
TOGETHER = (
    *("training_urns", "lineage", "preferences", "training", "training_smollm2", "convert", "plan", "loop"),
    *("reinforcement", "agents"),
)
"""Pages that train or read a trained model: in one process and folder, since torch loads slowly, and in this order."""
NOT_RUN = {
    r"(python -m )?pip ": "installs packages, as docs/release.py does",
    r"make ": "writes the pages of this checkout anew",
    r"python examples/|truthgym sweep |python setups/": "starts processes; tests/examples, training, sweep, ui",
    r"python -m studies": "takes minutes; tests/studies checks what it writes",
    r"inspect view |truthgym (ui|serve) |python -m http.server |python -c ": "serves until it is stopped",
    r".*human/terminal": "asks a person",
    r"truthgym fetch |.*source=(forecastbench|iclr2026)": "asks a real source",
    r".*(inspect_swe|code_repairer|python=true)": "needs Docker",
    r"truthgym train .*--provider |truthgym (rubric|worlds) .*(openai|smol)": "needs a provider or a server",
    r"truthgym models smollm2": "needs an extra, `smollm2`; tests/training/test_smollm2.py",
    r"truthgym (train (grpo|dpo)|loop .*--method (sft|dpo|grpo))": "trains for minutes; tests/training",
    r".*(lifelong_dpo|human_proxies|coevolve_sft)": "trains for minutes; tests/training/test_progress_examinees.py",
    r"truthgym train .*(sft\.yaml|--criteria)": "reads a file that the page does not show; tests/training/trainers",
    r".*(reward_model|over_optimisation|\$seed)": "needs trained reward models; tests/training, tests/solvers",
    r".*(\$folder|logs/held/smollm2|trained/NAME)|truthgym card ": "reads what long training makes; tests/cli",
    r"truthgym lineage record": "needs a run of another trainer; tests/cli/test_lineage.py has files in its place",
}
"""What does not run: patterns of the beginnings of commands, and the reason."""

NOWHERE = "http://127.0.0.1:9"
AGENTS = {
    **dict.fromkeys(("agent_bench_mini", "gaia_mini", "code_repair"), "reference/oracle"),
    **dict.fromkeys(("progress_follow", "progress_predict", "progress_coevolve"), "reference/values"),
    "fact_chains": "reference/walker",
    "mutual_prediction": "reference/predictor",
    "preferences": "reference/judge",
}
"""The simulated agents that answer a task in a model's place. Other tasks have `reference/bayesian`."""
ROLES = {"forecaster": "reference/forecaster", "human_proxy": "reference/values"}
"""Those that play a model role. Other roles have `reference/judge`."""
SHOWN = {
    "cost": {"prices.yaml": ("cost", "input_cache_write: 0")},
    "graded": {"mine.py": ("graded", "def grade(sample, item):\n    return")},
    "own_questions": {"buses.jsonl": ("own_questions", '"bus-12"')},
    "own_task": {file: ("own_task", f"# {file}") for file in ("buses.py", "rivers.py", "doubt.py", "hedges.py")},
    "rubric": {"mine.json": ("rubric", '"criteria"')},
    "sycophancy": {"mine.jsonl": ("own_questions", '"bus-12"')},
    "use": {"grader.json": ("graded", '"type"')},
}
"""Files that a page's commands read: the page that shows each, and a part of it."""
NAMED = {
    r"^LOG$": "**/*.eval",
    r"^ANSWERS\.eval$": "logs/answers/*.eval",
    r"PREDICTIONS\.eval": "logs/*mutual-prediction*.eval",
    r"logs/examples/LOG\.eval": "logs/examples/*.eval",
    r"trained/tiny-sft-0123456789ab": "trained/tiny-sft-*",
    r"^LOGS$|^LOG_DIR$": "logs",
}
"""Names that a reader fills in, and which files they stand for here: the newest one."""
SMALLER = {
    "truthgym worlds logs/worlds": "--n 10",
    "truthgym tiny": "--steps 0 --hidden 32 --layers 1 --overwrite",
    "truthgym report": "--only performance --only training_effect",
    "truthgym rubric search": "--generations 1 --population 2 --mutations 2 --parents 1 --votes 1 --batch-size 2",
    "truthgym train": "--max_steps 1 --per_device_train_batch_size 8 --use_cpu true --report_to none",
    "truthgym loop": "--epochs 1 --held_out_epochs 1 --limit 8 --held_out_limit 4",
}
"""Options, the last of which count, with which commands take a second instead of minutes."""


def reason(words: list[str]) -> str | None:
    """Why a command does not run here; None if it does."""
    return next((why for pattern, why in NOT_RUN.items() if re.match(pattern, " ".join(words), re.DOTALL)), None)


def stand_in(words: list[str]) -> list[str]:
    """A command with simulated agents or a tiny model, and with little to do."""
    if words[0] == "inspect":
        return simulated(words)
    if words[1] in ("train", "plan", "loop"):
        named = re.compile(r"(?<!reference/)\b(MODEL|Qwen/\S+|trained/smollm2)$")
        words = [named.sub("trained/tiny", word) for word in words]
    smaller = [option for start, option in SMALLER.items() if " ".join(words).startswith(start)]
    return [*words, *" ".join(smaller).split()]


def simulated(words: list[str]) -> list[str]:
    """A command of Inspect's with simulated agents, and an eval with two questions."""
    task = next((word.removeprefix("truthgym/") for word in words[2:] if word.startswith("truthgym/")), "")
    agent = AGENTS.get(task, "reference/bayesian")
    if "answers=logs/" in words:  # whose authors are asked nothing
        agent = ROLES["forecaster"]
    changed, rest = words[:2], iter(words[2:])
    real, epochs = False, 1
    for word in rest:
        if word == "--model":
            models = next(rest).split(",")
            real = not all(model.startswith("reference/") for model in models)
            models = [model if model.startswith("reference/") else agent for model in models]
            changed += [word, ",".join(dict.fromkeys(models))]
        elif word == "--model-role":
            role, model = next(rest).split("=", 1)
            changed += [word, f"{role}={model if 'reference/' in model else ROLES.get(role, 'reference/judge')}"]
        elif word == "--epochs":
            epochs = min(int(next(rest)), 2)
        elif word == "--sandbox":
            next(rest)
            changed += ["-T", "trusted=true"] if task == "code_repair" else []
        elif word == "--model-base-url" or (word == "-M" and real):
            next(rest)  # what only the real model has
        else:
            changed.append(word)
    if "--sandbox" in words:  # without one, programs run if they are trusted
        changed = [re.sub(r"grader: (hidden_tests|mine\.py)", r"grader: \1, trusted: true", word) for word in changed]
    if words[1] in ("eval", "eval-set"):
        several = task == "mutual_prediction" or "logs/answers" in words  # what predicts needs other questions
        changed += ["--limit", "8" if several else "2", "--epochs", str(epochs)]
    return [*changed, "--display", "none"]


def newest(pattern: str) -> Path:
    """The newest of the files that a pattern matches."""
    return max(Path().glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def fitted(words: list[str]) -> Iterator[str]:
    """The words with files of this folder in the place of names that a reader fills in."""
    for word in words:
        for pattern, files in NAMED.items():
            if re.search(pattern, word):
                word = re.sub(pattern, str(newest(files)), word)
        runs = words[0] != "inspect" and re.fullmatch(r"logs(/\w+)?", word)
        if runs and (not Path(word).exists() or "truthgym.analysis.performance" in words):
            # A reader's own runs. A chart of scores needs more questions than an eval here has.
            shutil.copytree("first", word, dirs_exist_ok=True)
        yield from [str(path) for path in sorted(Path().glob(word))] if "*" in word and "=" not in word else [word]


def run(words: list[str]) -> None:
    """Run a command in this process."""
    from inspect_ai._cli.main import inspect as inspect_command

    from truthgym.cli.main import commands as truthgym_command

    if words[0] == "inspect":
        inspect_command(args=words[1:], standalone_mode=False)
    elif words[0] == "truthgym":
        truthgym_command(args=words[1:], standalone_mode=False)
    elif words[:2] == ["python", "-m"]:
        sys.argv = words[2:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        raise ValueError("neither runs here nor is in NOT_RUN")


def logs() -> dict[Path, int]:
    """The logs in this folder, and when they were written."""
    return {path: path.stat().st_mtime_ns for path in Path().rglob("*.eval")}


def fault(written: list[str]) -> str:
    """Run a command as it stands on a page, with stand-ins, and say what went wrong; empty if nothing did."""
    from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries

    before, words = logs(), written
    try:
        words = list(fitted(stand_in(written)))
        run(words)
    except SystemExit as ended:
        if ended.code:
            return f"exit status {ended.code} of {' '.join(words)}"
    except Exception as error:
        return f"{type(error).__name__}: {error} in {' '.join(words)}"
    for path, _ in logs().items() - before.items():
        log = read_eval_log(str(path), header_only=True)
        errors = [sample.error for sample in read_eval_log_sample_summaries(str(path)) if sample.error]
        if log.status != "success" or errors:
            return f"{log.status} {[*errors, log.error and log.error.message][0]} in {' '.join(words)}"
    return ""


def begin(name: str) -> None:
    """Write the files that the commands of a page read and the page shows, and leave nothing of the page before."""
    kept = {"first", "before.eval", "after.eval"} | ({"trained"} if name in TOGETHER else set())
    for path in Path().iterdir() if name != "lineage" else ():  # it reads what the page before has made
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for file, (page, part) in SHOWN.get(name, {}).items():
        blocks = re.findall(
            r"^ *```\w*\n(.*?)^ *```$", FILES[page].read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        )
        Path(file).write_text(next(block for block in blocks if part in block), encoding="utf-8")


def expanded(page: Path) -> Iterator[list[str]]:
    """The commands of a page, with the values of its variables."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    values = {f"${name}": value.split() for name, value in re.findall(r'^(\w+)="(.*?)"$', text, re.MULTILINE)}
    for words in commands(page):
        yield [part for word in words for part in values.get(word, [word])]


def run_pages(*names: str) -> None:
    """Run the commands of pages in this folder, and write what went wrong into `faults.json`."""
    sys.stdin = StringIO()  # nobody answers a question
    faults = {}
    for name in names:
        begin(name)
        for words in expanded(FILES[name]):
            if reason(words) is None and (wrong := fault(words)):
                faults[f"{name}: {' '.join(words)}"] = wrong
    Path("faults.json").write_text(json.dumps(faults), encoding="utf-8")


# The commands of docs/start.md run as they stand in test_commands.py.
OTHERS = [
    name
    for name, page in FILES.items()
    if name not in (*TOGETHER, "start") and any(reason(words) is None for words in expanded(page))
]


def eval_first(folder: Path) -> None:
    """Two small logs, which are there before the first command of a page."""
    models = [get_model(f"reference/{name}", noise=0.1) for name in ("bayesian", "entrenched")]
    evaluate("truthgym/urns", models, folder, task_args={"n": 100, "split": "train"}, limit=32, epochs=2)


@pytest.mark.slow
@pytest.mark.parametrize("names", [TOGETHER, OTHERS[::2], OTHERS[1::2]], ids=["training", "even", "odd"])
def test_commands_run(
    names: Sequence[str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> None:
    """Without keys, and with a proxy that does not exist in the place of the network."""
    logs = made_once(tmp_path_factory, "logs_of_pages", eval_first)
    shutil.copytree(logs, tmp_path / "first")
    for place in ("before.eval", "after.eval"):
        shutil.copy2(max(logs.iterdir()), tmp_path / place)
    offline = {name: value for name, value in environment.items() if not name.endswith("_API_KEY")}
    offline |= {"HF_HUB_OFFLINE": "1", "HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "localhost,127.0.0.1"}
    program = f"from tests.docs.test_pages_run import run_pages; run_pages(*{names!r})"
    done = call("-c", program, environment=offline, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "faults.json").read_text(encoding="utf-8")) == {}


def test_no_reason_is_left_over() -> None:
    """Each is that of a command on some page."""
    used = {reason(words) for page in FILES.values() for words in expanded(page)}
    assert set(NOT_RUN.values()) - used == set()


def test_command_that_nobody_knows_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert reason(["python", "mine.py"]) is None
    assert "neither runs here nor is in NOT_RUN" in fault(["python", "mine.py"])

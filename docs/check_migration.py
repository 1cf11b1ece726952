"""Checks docs/migration.md and studies/rows.md: every command exists, and every name of the four projects has a row.

python docs/check_migration.py [FOLDER WITH THE PROJECTS' TEXTS]

The texts are not part of this repository. Without them only the replacements are checked.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from inspect_ai._cli.main import inspect as inspect_command

from truthgym.cli.main import command_named

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "migration.md"
FEATURES = ROOT / "studies" / "rows.md"
STATE = re.compile(r"works|(?:weaker|not run here|left out): \S.*")
SECTIONS = {
    "000": "TruthSeekingGym",
    "001": "RLHF and reward modelling",
    "002": "Reward Harness",
    "003": "ProgressGym's judges",
}
"""The beginning of a text's file name, and the section of the page."""
NAMES = {
    "class": r"(?<![A-Za-z])[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*[A-Z][A-Za-z0-9]*",
    "class that begins with an acronym": r"(?<![A-Za-z])[A-Z]{2,}(?:Config|Dataset|Report|Role|Task|Trainer)",
    "constant": r"(?<![A-Z_])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+",
    "variable": r"(?<!\w)[A-Z]{4,}(?=[=:] ?\w)",
    "file": r"[a-z0-9_]+?\.(?:py|ipynb|yaml|sh)(?![a-z]{2})",
    "method": r"(?<![\w.])[a-z]+(?:_[a-z]+)+(?=\()|(?<=\.)[a-z]+_[a-z_]+(?=\()",
}
OPTION = r"(?<![\w-])--[a-z]+(?:-[a-z]+)+"
"""Of the third project, which is used from the command line."""
OTHERS = """
AgentBench AudioFeatureRM CODE ChangeMyView CoT DeepSeek DeepSpeed DiverseTailAcc EnCodec FEWSHOT FSDP FULL_SHARDR
FastAPI GAIA HuggingFace InstructGPT LLaMA LlamaDecoderLayer LoRA MarsPain NameName OpenAI OpenRouter ProgressGym
PyTorch REINFORCE ReAct RuntimeError SaruLab SingleSampleThe TailAcc TailVar TianyiQ TogetherAI TruthSeekingGym
UTMOS WandB Wav2Vec2 Wav2Vec2RM ZeRO ZeroShot datamulti_step gpu.yaml predictee_behavior_examples process_domain
ref_cpu_offload show_expected stepsfailure_recovery tool_use
"""
"""Other software, formulas, words of examples, and names that are in the page in another spelling."""


def section(page: str, title: str) -> str:
    """The part of the page about a project."""
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(part: str) -> Iterator[tuple[str, str]]:
    """First and second cell of each row."""
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and cells[0] != "there":
            yield cells[0], cells[1]


def named(part: str) -> set[str]:
    """What the page names of a project: all in backticks, without brackets."""
    return {name.removesuffix("()") for name in re.findall(r"`([^`]+)`", part)}


def missing_names(page: str, prefix: str, text: str) -> list[str]:
    """Names in a project's text that have no row.

    The texts were copied from web pages, where a name may be glued to the word before or after it. A name with letters
    around it therefore counts as named.
    """
    known = named(section(page, SECTIONS[prefix]))
    patterns = list(NAMES.values()) + ([OPTION] if prefix == "002" else [])
    found = {match for pattern in patterns for match in re.findall(pattern, text)} - known - set(OTHERS.split())
    glued = [re.compile(rf"(?:Provides|(?:[a-z_/]*[a-z/])?){re.escape(name)}[a-z]*") for name in known if len(name) > 5]
    return sorted(name for name in found if not any(pattern.fullmatch(name) for pattern in glued))


def missing_replacements(page: str) -> list[str]:
    """Commands, options, arguments, modules and files on the page that do not exist."""
    arguments, wrong = registered(), []
    for title in SECTIONS.values():
        for _, cell in rows(section(page, title)):
            for quoted in re.findall(r"`([^`]+)`", cell):
                wrong += [f"{quoted}: {what}" for what in faults(quoted, arguments)]
    return wrong


def registered() -> dict[str, set[str]]:
    """The arguments of each task, solver and scorer."""
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| \[?`truthgym/(\w+)`\S* \|(.*)$", reference, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)=", cells)) for name, cells in found}


def wrong_features(page: str) -> list[str]:
    """Rows of studies/rows.md whose state is none, or whose command names what does not exist."""
    arguments, wrong = registered(), []
    for number, line in enumerate((line for line in page.splitlines() if re.match(r"\| \d", line)), start=1):
        place, _, _, command, state = (cell.strip() for cell in line.strip("|").split(" | "))
        what = [] if place == str(number) else [f"is row {number}"]
        what += (
            [] if STATE.fullmatch(state) else [f"state {state!r}: give works, or weaker, not run here, left out: WHY"]
        )
        quoted = re.findall(r"`([^`]+)`", command)
        what += [] if quoted or state.startswith("left out") else ["has no command"]
        wrong += [
            f"row {place}: {fault}" for fault in (*what, *(x for each in quoted for x in faults(each, arguments)))
        ]
    return wrong


def faults(quoted: str, arguments: dict[str, set[str]]) -> Iterator[str]:
    """What does not exist of a text in backticks."""
    words = quoted.split()
    for name in re.findall(r"(?<![\w.])truthgym/(\w+)", quoted):
        if name not in arguments:
            yield f"there is no truthgym/{name}"
    takers = re.findall(r"truthgym/(\w+)", quoted)
    for option, key in re.findall(r"(?<!\S)(-[ST]) (\w+)=", quoted):
        if takers and not any(key in arguments.get(name, ()) for name in takers):
            yield f"{option} {key} is no argument of {', '.join(takers)}"
    for module in re.findall(r"truthgym\.([\w.]+)", quoted):
        if not (ROOT / f"{module.replace('.', '/')}.py").is_file():
            yield f"there is no module truthgym.{module}"
    if re.match(r"(docs|examples|tasks|scorers|solvers|training|analysis|datasets)/[\w/.]+$", quoted):
        if not (ROOT / quoted).exists():
            yield "there is no such file"
    elif words[0] == "python" and words[1] != "-m":
        script = ROOT / words[1]
        text = script.read_text(encoding="utf-8") if script.is_file() else ""
        yield from () if text else ["there is no such script"]
        names = re.findall(r"(?<=--)[a-z][\w-]*", quoted) if text else ()
        yield from (f"there is no --{name}" for name in names if not re.search(rf"\b{name}\b", text))
    elif words[0] in ("truthgym", "inspect") and len(words) > 1:
        known = options(words)
        yield from (f"there is no {word}" for word in words if word.startswith("--") and word not in known)


def options(words: list[str]) -> set[str]:
    """The options of the command that `words` begin with. KeyError if there is none."""
    if words[0] == "inspect":
        command = inspect_command.commands[words[1]]
    else:
        command = command_named(words[1])
        if words[1] == "train":  # TRL's options, which are read when it trains
            texts = "".join(file.read_text(encoding="utf-8") for file in train_files())
            return {f"--{name}" for name in re.findall(r"\w+", texts)}
        if isinstance(command, click.Group) and len(words) > 2:
            command = command.commands[words[2]]
    return {name for param in command.params for name in (*param.opts, *param.secondary_opts)}


def train_files() -> Iterator[Path]:
    """Where the options of `truthgym train` are named."""
    yield from (ROOT / "cli").glob("*train.py")
    yield from (
        ROOT / "docs" / f"{name}.md" for name in ("training", "reinforcement", "reward_methods", "rewards", "plan")
    )


def main(folder: Path) -> list[str]:
    """All faults of the page."""
    page = PAGE.read_text(encoding="utf-8")
    faulty = missing_replacements(page) + wrong_features(FEATURES.read_text(encoding="utf-8"))
    for prefix, title in SECTIONS.items():
        for text in folder.glob(f"{prefix}_*.txt"):
            names = missing_names(page, prefix, text.read_text(encoding="utf-8"))
            faulty += [f"{title}: {name} has no row" for name in names]
    return faulty


if __name__ == "__main__":
    found = main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "shared" / "seeds")
    sys.exit("\n".join(found) or None)

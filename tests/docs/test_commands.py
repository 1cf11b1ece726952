"""Every command on the pages is one that its program takes, and those of the first page are run."""

import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
from inspect_ai._cli.main import inspect as inspect_command
from inspect_ai.log import read_eval_log

from tests.commands import call
from truthgym.cli.main import command_named

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
PROGRAMS = ("inspect", "truthgym", "python", "pip", "make")
SWEPT = ("inspect", "truthgym", "python")


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command in the blocks of a page. Of a pipe or a list, each part is one."""
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for block in (block for language, block in blocks if language in ("", "bash")):
        lines = block.replace("\\\n", " ").splitlines()
        for at, line in enumerate(lines):
            if line.split()[:1] and line.split()[0] in PROGRAMS:
                yield from parts(re.sub(r"\s#\s.*", "", line), lines[at + 1 :])


def parts(line: str, following: list[str]) -> Iterator[list[str]]:
    """The commands of a line, which goes on in the following ones while a quotation is open."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;")
    lexer.whitespace_split = True
    try:
        words = [*lexer, ";"]
    except ValueError:
        yield from parts(f"{line}\n{following[0]}", following[1:])
        return
    while words:
        end = next(at for at, word in enumerate(words) if set(word) <= set("&|;"))
        if words[:end] and words[0] in PROGRAMS:
            yield words[:end]
        words = words[end + 1 :]


def faults(words: list[str]) -> list[str]:
    """What a program would refuse of a command; empty if it would run."""
    if words[0] == "pip":
        extras = {one for word in words for part in re.findall(r"\[(.+)\]", word) for one in part.split(",")}
        known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
        return [f"there is no extra {one}" for one in sorted(extras - known.keys())]
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
        return [f"there is no target {one}" for one in words[1:] if one not in targets]
    if words[0] == "python":
        if "-m" in words:
            return [] if find_spec(words[words.index("-m") + 1]) else [f"there is no module {words[2]}"]
        own = (ROOT / words[1].split("/")[0]).is_dir()  # else a script of the reader's
        return [f"there is no script {words[1]}"] if own and not (ROOT / words[1]).is_file() else []
    if words[:2] == ["truthgym", "train"]:
        return unknown_options(words)  # its options are TRL's, which takes long to load
    try:
        found: Any = inspect_command if words[0] == "inspect" else None
        command = found.commands[words[1]] if found else command_named(words[1])
        rest = words[2:]
        if isinstance(command, click.Group) and not (command.invoke_without_command and rest[0].startswith("-")):
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_context(command.name, [word for word in rest if not word.startswith("$")])
    except (KeyError, ModuleNotFoundError, click.UsageError) as error:
        return [] if "does not exist" in str(error) else [str(error)]  # a file of the reader's
    if words[1] == "sweep" and words[2] in SWEPT:
        ends = [at for at, word in enumerate(words) if word in ("--workers", "--shards", "--on")]
        return faults(words[2 : min(ends, default=None)])
    return []


def unknown_options(words: list[str]) -> list[str]:
    """Options of `truthgym train` that neither its pages and files nor Transformers name."""
    transformers = find_spec("transformers")
    if transformers and transformers.origin:
        arguments = Path(transformers.origin).with_name("training_args.py").read_text(encoding="utf-8")
        known = {f"--{name}" for name in re.findall(r"^    (\w+):", arguments, flags=re.MULTILINE)}
    else:
        pytest.skip("the extra `train` is not installed")
    known |= runpy.run_path(str(ROOT / "docs" / "check_migration.py"))["options"](words)
    return [f"there is no {word}" for word in words if word.startswith("--") and word != "--" and word not in known]


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_command_is_one_that_its_program_takes(page: Path) -> None:
    wrong = {" ".join(words): found for words in commands(page) if (found := faults(words))}
    assert wrong == {}


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("inspect eval truthgym/urns --modle reference/bayesian", "--modle"),
        ("inspect evaluate truthgym/urns", "evaluate"),
        ("truthgym lineage compare before.eval", "after"),
        ("truthgym convert logs --too sft", "--too"),
        ("truthgym train sft --lora_rank 8", "--lora_rank"),
        ("truthgym sweep truthgym convert logs --too sft", "--too"),
        ("python -m truthgym.analysis.nothing", "truthgym.analysis.nothing"),
        ("python examples/nothing.py", "examples/nothing.py"),
        ("pip install -e .[nothing]", "nothing"),
        ("make nothing", "nothing"),
    ],
)
def test_wrong_command_is_found(command: str, fault: str) -> None:
    (found,) = faults(command.split())
    assert fault in found


@pytest.mark.slow
def test_the_readmes_first_run_says_what_the_readme_shows(tmp_path: Path, environment: dict[str, str]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (words, *_) = (words for words in commands(ROOT / "README.md") if words[:2] == ["inspect", "eval"])
    done = call(*words, "--display", "plain", environment=environment, folder=tmp_path)
    said = " ".join(re.findall(r"```\n(disclosure, .*?)```", readme, re.DOTALL)[0].split())
    assert said in " ".join(done.stdout.split()), done.stdout


def run_first_page() -> None:
    """Run the commands of the first page in this folder, as they stand, but that no page is opened."""
    from tests.docs.test_pages_run import run

    for words in commands(ROOT / "docs" / "start.md"):
        if words[0] != "pip" and words[:2] != ["inspect", "view"]:
            words = [str(file) for word in words for file in (sorted(Path().glob(word)) if "*" in word else [word])]
            print("ran", words[1])
            run([*words, "--display", "none"] if words[0] == "inspect" else words)


@pytest.mark.slow
def test_commands_of_the_first_page_run(tmp_path: Path, environment: dict[str, str]) -> None:
    program = "from tests.docs.test_commands import run_first_page; run_first_page()"
    done = call("-c", program, environment=environment, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.split("ran ")[-1]
    assert last.startswith("compare")
    assert "brier_score" in last
    assert "reference/entrenched" in last
    (log,) = (tmp_path / "logs" / "a").glob("*.eval")
    lines = [line.split() for line in (ROOT / "docs" / "start.md").read_text(encoding="utf-8").splitlines()]
    results = read_eval_log(str(log), header_only=True).results
    assert results
    for score, at in zip(results.scores, (0, 2), strict=True):
        printed = {line[at]: line[at + 1] for line in lines if len(line) == 4 and line[at] in score.metrics}
        assert printed == {name: f"{metric.value:.3f}" for name, metric in score.metrics.items()}

"""Setups: what was composed, as a Python script that `python` and `truthgym sweep` run.

A setup is one file, FOLDER/setups/NAME.py. Its docstring holds the fields of the form, and the script below does what
the setup's commands do. The page reads the docstring alone. `inspect eval-set` of Inspect 0.3 reads no file
(`--run-config` is for `inspect eval`), so a setup also shows the command line that is the same run.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import yaml

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.training.files import write_atomically
from truthgym.ui.forms.commands import FOLDERS, Fields, commands_of, model_names, script_of, short, verb_of
from truthgym.ui.jobs import jobs

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""What a setup may be called: its name is part of paths."""
READ_BACK = " of `truthgym ui`, which reads this text back. To run it: "
OF_THE_PAGE = ("name", "opened", "replace", "effect", "reply_tokens", "do")
"""Fields of the form that are no part of a setup."""


@dataclass(frozen=True)
class Setup:
    name: str
    fields: Fields = field(default_factory=dict)
    """The fields of the form, each with its values."""

    @property
    def verb(self) -> str:
        return verb_of(self.fields)

    def commands(self) -> dict[str, list[str]]:
        """The commands by their labels. What is started is one of these lists, as it stands."""
        return commands_of(self.fields, self.name)

    def script(self) -> str:
        form = {key: values[0] if len(values) == 1 else list(values) for key, values in self.fields.items()}
        header = yaml.safe_dump(form, sort_keys=False, allow_unicode=True, width=110)
        run = f"python setups/{self.name}.py" + f", or truthgym sweep setups/{self.name}.py" * (self.verb == "eval")
        text = f"Setup{READ_BACK}{run}\n\n{header}".replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
        return f'"""{text}"""\n\n{script_of(self.commands())}'


def setup_of(fields: Mapping[str, Sequence[str]], name: str = "") -> Setup:
    """The setup of a form's fields, under its own name or a suggested one."""
    form = {key: [value.replace("\r\n", "\n") for value in values] for key, values in fields.items()
            if key not in OF_THE_PAGE and any(value.strip() for value in values)}  # fmt: skip
    return Setup(name or suggested(form), form)


def suggested(fields: Fields) -> str:
    """A name for a setup, of its task and model or of its verb."""
    parts = [short(part) for part in [*fields.get("tasks", ())][:1] + model_names(fields)[:1]]
    name = "-".join(parts) if len(parts) == 2 else verb_of(fields)
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:60] or "run"


def path_of(folder: Path, name: str) -> Path:
    if not NAME.fullmatch(name):
        raise BadInput(
            f"A setup cannot be called {name!r}; use up to 64 letters, digits, - and _, the first a letter or digit"
        )
    return folder / "setups" / f"{name}.py"


def names(folder: Path) -> list[str]:
    """The names of all setups, the newest first."""
    files = [path for path in (folder / "setups").glob("*.py") if NAME.fullmatch(path.stem) and path.is_file()]
    return [path.stem for path in sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)]


def free_name(folder: Path, setup: Setup, opened: str = "", replaces: str = "") -> Setup:
    """The setup under a free name, or that of a setup that it replaces, that was opened, or ended without files."""
    for number in count(2):
        path, place = path_of(folder, setup.name), folder / FOLDERS.get(setup.verb, "") / setup.name
        there, made = path.is_file(), setup.verb in FOLDERS and any(file.is_file() for file in place.rglob("[!.]*"))
        if setup.name == replaces or (there and path.read_bytes() == setup.script().encode()):
            break
        ended = there and any(setup.name in (job.name, job.name.rpartition("-")[0]) for job in jobs(folder))
        if not made and (not there or opened == setup.name or ended):
            break
        setup = replace(setup, name=f"{re.sub(r'-[0-9]+$', '', setup.name)[:60]}-{number}")
    return setup


def save(folder: Path, setup: Setup) -> Path:
    path = path_of(folder, setup.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, setup.script())
    return path


def read(folder: Path, name: str) -> tuple[Setup, str]:
    """A setup, and what a reader must know about its file: "" for nothing."""
    path = path_of(folder, name)
    if not path.is_file():
        raise BadInput(f"There is no setup {name!r} in {path.parent}")
    try:
        text = path.read_text(encoding="utf-8")
        head, _, header = (ast.get_docstring(ast.parse(text), clean=False) or "").partition("\n\n")
        fields = yaml.safe_load(header)
        if READ_BACK not in head or not isinstance(fields, dict):
            raise ValueError
        lists = {str(key): values if isinstance(values, list) else [values] for key, values in fields.items()}
        setup = Setup(name, {key: list(map(str, values)) for key, values in lists.items()})
        verb_of(setup.fields)
    except (SyntaxError, ValueError, RecursionError, PrerequisiteError, yaml.YAMLError):
        raise BadInput(f"{path} is no setup of this page; run it with `python {path}`") from None
    try:
        changed = setup.script() != text
    except Exception:  # as each parser refuses a value: the form says it
        changed = True
    note = f"setups/{name}.py was changed by hand: this form shows what it was composed of, not what it does now."
    return setup, note * changed

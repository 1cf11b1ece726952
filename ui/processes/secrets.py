"""Keeps keys out of what is written and shown: values of variables whose names say so, and texts that look like one."""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from truthgym.datasets.errors import BadInput

NAMES = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTHORIZATION)(?:_|$)", re.IGNORECASE
)
"""Names of variables that hold a key."""
FORMS = re.compile(
    r"\b(?:sk-[\w-]{12,}|hf_\w{12,}|gh[pousr]_\w{20,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|gsk_\w{20,}|xai-\w{20,}|glpat-[\w-]{16,})"
    r"|(?<=://)[^/@\s:]+:[^/@\s]+(?=@)"
)
"""How keys of well-known providers look, and the password in an address."""
SHORTEST = 8
"""Characters of the shortest value that is taken for a key: others occur by chance."""
HIDDEN = "[hidden]"


def redact(text: str, folder: Path) -> str:
    """The text with each key replaced by the name of its variable, as in [OPENAI_API_KEY], or by [hidden]."""
    for name, value in sorted(_keys(folder), key=lambda key: -len(key[1])):
        text = text.replace(value, f"[{name}]")
    return FORMS.sub(HIDDEN, text)


def refuse_keys(command: Sequence[str], folder: Path) -> None:
    """Refuse a command with a key in it, since commands are written to files."""
    for before, word in pairwise(["", *command]):
        name, equals, value = word.partition("=")
        if not equals:
            name, value = (before if before.startswith("--") else ""), word
        named = NAMES.search(name.strip("-").replace("-", "_")) and value and not value.isdigit()
        if named or redact(word, folder) != word:
            raise BadInput(
                f"The command has a key in it{f', {name}' if named else ''}, which would be written to a file; leave "
                "it out, and set the environment variable of the model's provider before the page starts"
            )


def _keys(folder: Path) -> Iterator[tuple[str, str]]:
    from dotenv import dotenv_values

    file = folder / ".env"
    for variables in (os.environ, dotenv_values(file) if file.is_file() else {}):
        yield from (
            (name, value)
            for name, value in variables.items()
            if value and len(value) >= SHORTEST and NAMES.search(name)
        )

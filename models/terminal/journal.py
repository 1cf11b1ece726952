"""The journal: each reply of a person, on disk before anything else is done with it.

One JSON line for each: what was asked (a digest), when, and the reply, or the draft of one that was cut off. Nothing
of it is ever used without the person seeing it.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import platformdirs
from inspect_ai.model import ChatMessage

from truthgym.datasets.errors import BadInput
from truthgym.models.terminal.request_queue import said

HOW_ELSE = "name another file with -M journal=PATH, or write no journal with -M journal=false"


def default_path() -> Path:
    """Where the journal is kept, in the user's own data folder."""
    return platformdirs.user_data_path("truthgym") / "human" / "terminal.jsonl"


def digest(messages: Sequence[ChatMessage]) -> str:
    """What tells one request from another: who said what, and in which epoch."""
    return sha256(json.dumps(said(messages)).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Earlier:
    """What the journal holds of a request."""

    reply: str | None = None
    replied: str = ""
    """When, to the minute."""
    draft: str = ""
    """What was being written, later than the reply, when it was cut off."""


class Journal:
    """The file.

    Args:
        given: Its path, True for the usual one, False for none.

    Raises:
        BadInput: It is neither, or a folder.
    """

    def __init__(self, given: object = True) -> None:
        if not isinstance(given, bool | str) or given == "":
            raise BadInput(f"-M journal={given!r} cannot be used: give the path of a file, or false for no journal")
        self.path = Path(given).expanduser() if isinstance(given, str) else default_path() if given else None
        if self.path is not None and self.path.is_dir():
            raise BadInput(f"-M journal={given} cannot be used: it is a folder; {HOW_ELSE}")

    def earlier(self, asked: str) -> Earlier:
        """What was replied before to the request with this digest.

        Raises:
            BadInput: The journal cannot be read or written: said before the person has typed anything.
        """
        found = Earlier()
        if self.path is None:
            return found
        try:
            self._write("")
            lines = self.path.read_bytes().splitlines()
        except OSError as error:
            raise BadInput(f"The journal {self.path} cannot be written ({error.strerror}); {HOW_ELSE}") from None
        for line in lines:
            try:
                entry = json.loads(line)
                if entry["asked"] == asked:
                    when = datetime.fromisoformat(entry["time"]).astimezone().strftime("%Y-%m-%d %H:%M")
                    reply, draft = entry.get("reply"), entry.get("draft", "")
                    found = (
                        Earlier(found.reply, found.replied, draft) if reply is None else Earlier(str(reply), when, "")
                    )
            except (ValueError, KeyError, TypeError):  # cut off by a kill in the middle of the line
                continue
        return found

    def keep(self, asked: str, **kept: str) -> None:
        """Write down a `reply` or a `draft`, and see it onto the disk."""
        if self.path is not None:
            entry = {"asked": asked, "time": datetime.now().astimezone().isoformat(timespec="seconds"), **kept}
            self._write(json.dumps(entry, ensure_ascii=False) + "\n")

    def _write(self, line: str) -> None:
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # only the user may read it
        with os.fdopen(os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "ab+") as file:
            if not line:
                return
            if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                line = f"\n{line}"
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

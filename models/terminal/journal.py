"""The journal: a file that keeps every reply of a person from the moment it is sent.

One JSON object per line: `asked` (a digest of the request), `time` and `reply`. An earlier reply is never reused unless
the person has seen it.
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

REMEDY = "name another file with -M journal=PATH, or keep no journal with -M journal=false"


def default_path() -> Path:
    """The default journal, in the user's data folder."""
    return platformdirs.user_data_path("truthgym") / "human" / "terminal.jsonl"


def message_key(message: ChatMessage) -> tuple[str, str, object]:
    """Role, text and epoch of a message, with the repetition number if a judge is asked several times."""
    metadata = message.metadata or {}
    epoch, draw = metadata.get("epoch"), metadata.get("draw")
    return message.role, message.text, [epoch, draw] if draw else epoch


def digest(messages: Sequence[ChatMessage], field: str = "") -> str:
    """Identifies a request, or one field of the form that it asks for. Message ids make no difference."""
    text = json.dumps([message_key(message) for message in messages]) + field
    return sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Reply:
    """An earlier reply."""

    text: str
    time: str
    """When it was sent, to the minute, in local time."""


class Journal:
    """The journal file.

    Args:
        path: Its path, True for the default one, False for no journal.

    Raises:
        BadInput: `path` is neither, or a folder.
    """

    def __init__(self, path: object = True) -> None:
        if not isinstance(path, bool | str) or path == "":
            raise BadInput(f"-M journal={path!r} cannot be used: give the path of a file, or false for no journal")
        self.path = Path(path).expanduser() if isinstance(path, str) else default_path() if path else None
        if self.path is not None and self.path.is_dir():
            raise BadInput(f"-M journal={path} cannot be used: it is a folder; {REMEDY}")

    def find(self, key: str) -> Reply | None:
        """The last reply to the request with this digest, or None."""
        if self.path is None:
            return None
        try:
            self._append("")
            lines = self.path.read_bytes().splitlines()
        except OSError as error:
            raise BadInput(f"The journal {self.path} cannot be written ({error.strerror}); {REMEDY}") from None
        for line in reversed(lines):
            try:
                entry = json.loads(line)
                if entry["asked"] == key and "reply" in entry:
                    time = datetime.fromisoformat(entry["time"]).astimezone()
                    return Reply(str(entry["reply"]), time.strftime("%Y-%m-%d %H:%M"))
            except (ValueError, KeyError, TypeError):  # a line cut short by a kill
                continue
        return None

    def write(self, key: str, reply: str) -> None:
        """Append a reply and flush it to disk."""
        if self.path is not None:
            entry = {"asked": key, "time": datetime.now().astimezone().isoformat(timespec="seconds"), "reply": reply}
            self._append(json.dumps(entry, ensure_ascii=False) + "\n")

    def _append(self, line: str) -> None:
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # 0o600: only the user can read it
        with os.fdopen(os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "ab+") as file:
            if not line:
                return
            if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                line = f"\n{line}"
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

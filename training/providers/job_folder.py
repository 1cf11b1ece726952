"""The record of a fine-tuning job in its folder; and that only one command works on a folder."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from truthgym.evallog.errors import refusal


class Job:
    """The record of a job in its folder, written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "job.json"
        self.told: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8")) if self.path.is_file() else {}

    def record(self, **facts: object) -> None:
        """Add facts, or replace them."""
        self.told |= facts
        self.folder.mkdir(parents=True, exist_ok=True)
        beside = self.folder / ".job.json.partial"
        beside.write_text(json.dumps(self.told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        beside.replace(self.path)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let no second command work on a folder at the same time: it would pay for a second job, or mix checkpoints.

    Raises:
        BadInput: One does.
    """
    from filelock import FileLock, Timeout

    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.parent / f".{folder.name}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise refusal(f"Another command is at work on {folder}; wait for it, or end it first") from None
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)  # while it is held, so that nobody else's is removed
        lock.release()

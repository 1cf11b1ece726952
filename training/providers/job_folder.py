"""The record of a fine-tuning job in its folder; and that only one command works on a folder."""

import json
from pathlib import Path
from typing import Any


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

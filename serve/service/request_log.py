"""The request log: one JSON line for each request, with digests in place of texts."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class RequestLog:
    """Appends lines to a file. Each is one write, so that the lines of several processes do not mix."""

    def __init__(self, path: Path | None, texts: bool = False) -> None:
        """Open the log.

        Args:
            path: The file; None keeps no log.
            texts: Whether prompts and replies are written too.
        """
        self.texts = texts
        self._file: int | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, entry: Mapping[str, Any]) -> None:
        if self._file is not None:
            line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **entry}
            os.write(self._file, (json.dumps(line) + "\n").encode())

    def close(self) -> None:
        """Flush to the disk and close."""
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file = None

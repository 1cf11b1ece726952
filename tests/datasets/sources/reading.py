"""What the tests of several sources share."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.fixtures import Answer, Request, Serve, Server
from truthgym.datasets.loading.row_files import Row

Counted = tuple[list[dict[str, Any]], Counter[str]]
"""Rows, and how many were left out by the reason."""


def read(source: Callable[..., Iterator[Row]], known_after: date | None = None, **options: Any) -> Counted:
    """The rows of a source without their places, and what it leaves out."""
    skipped: Counter[str] = Counter()
    return [row for _, row in source(skipped, known_after, **options)], +skipped


def lines_of(*records: Any) -> bytes:
    """A JSON object a line."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def hub_of(serve: Serve, folder: Path, revision: str) -> Server:
    """A hub that has the files of a folder at one revision."""

    def answer(request: Request) -> Answer:
        content = (folder / Path(request.path).name).read_bytes()
        return 200, {"ETag": f'"{sha256(content).hexdigest()}"', "X-Repo-Commit": revision}, content

    return serve(answer)


def paths_of(server: Server) -> list[str]:
    """The paths that were downloaded, in order."""
    return [request.path for request in server.asked if request.method == "GET"]

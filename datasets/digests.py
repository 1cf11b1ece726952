"""Digests of files and texts, numbers that a text alone determines, and canonical JSON."""

import hashlib
import json
from pathlib import Path


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_number(text: str, size: int = 8) -> int:
    """A whole number below `256**size` that the text alone determines, the same on every machine: from its SHA-256."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:size])


def text_share(text: str) -> float:
    """A number in [0, 1), even over texts, that the text alone determines: other texts and their order do not count."""
    return text_number(text) / 2**64


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces: equal data give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

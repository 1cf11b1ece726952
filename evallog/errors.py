"""Raises BadInput without loading inspect_ai, whose import takes more memory than converting a log does."""

import struct
import zipfile
import zlib

import zstandard

MALFORMED = (
    ValueError, ArithmeticError, LookupError, TypeError, RecursionError, MemoryError, EOFError, NotImplementedError,
    struct.error, zipfile.BadZipFile, zlib.error, zstandard.ZstdError,
)  # fmt: skip
"""What parsers raise on damaged or hostile files. Each reader of a file turns them into one BadInput."""


def is_bad_input(error: BaseException) -> bool:
    from truthgym.datasets.errors import BadInput  # loaded already where there was one

    return isinstance(error, BadInput)


def bad_input(message: str) -> Exception:
    """Make the BadInput to raise. The message names the value, the place and the remedy."""
    from truthgym.datasets.errors import BadInput

    return BadInput(message)

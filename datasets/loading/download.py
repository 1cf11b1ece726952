"""Downloads: a large file fetched once, resumed where it broke off, checked by its digest, and read line by line.

fsspec's caches do not serve here: its block cache counts a block as there before it has come, so that a download which
broke off is read as zeros ever after, and its other caches begin anew.
"""

import bz2
import hashlib
import time
from collections.abc import Callable, Iterator
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING

from inspect_ai.util import warn_once

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.http import ATTEMPTS, RETRY_STATUS, RetryLater, delay

if TYPE_CHECKING:
    import httpx

logger = getLogger(__name__)

INSTEAD = 'use source="bundled"'
LINE = 64 * 2**20
"""Bytes that a line may have: a thread of some thousand comments has ten million."""


def cache(name: str) -> Path:
    """The folder in which downloads of a name are kept."""
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("truthgym")) / name


def download(address: str, path: Path, md5: Callable[[], str], *, instead: str = INSTEAD, pause: float = 1.0) -> Path:
    """Fetch a file to a path, where it is whole and checked, or not at all.

    What has come of a download that breaks off is kept in PATH.part, and the next one goes on from there. The server is
    asked again as long as something comes, and six times in a row where nothing does.

    Args:
        address: Address of the file.
        path: Where it is kept. Where it is there already, nothing is asked for.
        md5: Gives the digest that it must have, as 32 hexadecimal digits.
        instead: What the user can do where it cannot be had, for the message.
        pause: Seconds before the second attempt; the wait doubles, and is at least what the server asks for.

    Returns:
        The path.

    Raises:
        BadInput: It cannot be had, or something else came. Names the address.
    """
    if path.is_file():
        return path
    from filelock import FileLock

    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if not path.is_file():  # another process may have fetched it meanwhile
                expected = md5()
                warn_once(logger, f"{address} is downloaded to {path}, once.")
                _fetch(address, part, instead, pause)
                _check(address, part, expected, instead)
                part.replace(path)
    except OSError as error:
        raise BadInput(f"{address} cannot be kept at {path} ({error}); make room for it there, or {instead}") from None
    return path


def lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Read a text file, or one packed with bzip2, line by line, as (place, line) pairs. Empty lines are passed over.

    Raises:
        BadInput: It is not there, is damaged, or has a line of more than 64 MiB. Names the line.
    """
    if not path.is_file():
        raise BadInput(f"There is no file {path}; give its path, or the folder that it is in")
    number = 0
    try:
        with bz2.open(path, "rb") if path.suffix == ".bz2" else path.open("rb") as file:
            while line := file.readline(LINE + 1):
                number += 1
                if len(line) > LINE:
                    raise BadInput(f"{path.name} line {number}: longer than {LINE} bytes; download the file anew")
                if not line.isspace():
                    yield f"{path.name} line {number}", line
    except (OSError, EOFError) as error:
        raise BadInput(
            f"{path.name}, after line {number}: {error}; the file is damaged or not whole: remove {path} and ask again"
        ) from None


def _fetch(address: str, part: Path, instead: str, pause: float) -> None:
    import httpx

    idle = 0
    with httpx.Client(follow_redirects=True, timeout=60) as client:
        while True:
            held = _size(part)
            try:
                return _go_on(client, address, part, instead)
            except (httpx.HTTPError, httpx.InvalidURL, RetryLater) as error:
                idle = idle + 1 if _size(part) <= held else 0
                if idle == ATTEMPTS or isinstance(error, httpx.InvalidURL):
                    raise BadInput(
                        f"{address} cannot be read ({error or type(error).__name__}); check the network and ask again "
                        f"(what has come is kept), or {instead}"
                    ) from None
                time.sleep(delay(error, pause, max(idle, 1)))


def _go_on(client: "httpx.Client", address: str, part: Path, instead: str) -> None:
    held = _size(part)
    wanted = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={held}-"} if held else {})
    with client.stream("GET", address, headers=wanted) as answer:
        if answer.status_code in RETRY_STATUS:
            raise RetryLater(answer)
        if answer.status_code == 416:  # all of it has come
            return
        if answer.status_code not in (200, 206):
            raise BadInput(f"{address}: the server says {answer.status_code} {answer.reason_phrase}; {instead}")
        # 200 is the whole file, though a part was asked for.
        with part.open("ab" if answer.status_code == 206 else "wb") as file:
            for chunk in answer.iter_raw():  # as it comes, so that none is lost where it breaks off
                file.write(chunk)


def _check(address: str, part: Path, expected: str, instead: str) -> None:
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "md5").hexdigest()
        file.seek(0)
        begins = file.read(60)
    if digest != expected:
        part.unlink()
        raise BadInput(
            f"{address}: what came has the MD5 {digest}, not {expected}, and begins with {begins!r}; it was removed. "
            f"Ask again, or {instead}"
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0

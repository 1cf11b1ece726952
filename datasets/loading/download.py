"""Downloads: files that are fetched once into a cache and checked, from the web or the Hugging Face Hub.

Large files from the web are not read through fsspec's caches: its block cache marks a block as present before it is
fetched, so that a broken download is later read as zeros, and its other caches do not resume.
"""

import bz2
import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING

from inspect_ai.util import warn_once

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.http import FALLBACK, RETRY_STATUS, RetryLater, is_url, limited, retries
from truthgym.datasets.loading.row_files import read_lines

if TYPE_CHECKING:
    import httpx

logger = getLogger(__name__)

MAX_DOWNLOAD = 2 * 2**30
"""Most bytes of a file. The largest one that a source downloads has 661 MB."""


def cache(name: str) -> Path:
    """The folder that caches the downloads of a source."""
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("truthgym")) / name


def hub_file(source: str, repository: str, revision: str, name: str, endpoint: str | None = None) -> Path:
    """Download a file of a dataset on the Hugging Face Hub into the Hub's own cache, if it is not there yet."""
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repository, name, repo_type="dataset", revision=revision, endpoint=endpoint))
    except Exception as error:  # any: huggingface_hub has changed its HTTP library, and its errors, more than once
        raise BadInput(
            f"{source}: {name} of {repository} at {revision} cannot be downloaded ({type(error).__name__}: {error}); "
            f"check the network and try again (finished files are kept), or {FALLBACK}"
        ) from None


def parquet_files(
    source: str, repository: str, revision: str, names: Sequence[str], location: str | None
) -> list[Callable[[], Path]]:
    """The parquet files of a dataset on the Hub, or of a local folder. Calling one gives its path, after a download."""
    if location is None or is_url(location):
        return [partial(hub_file, source, repository, revision, name, location) for name in names]
    paths = sorted(Path(location).glob("*.parquet"))
    if not paths:
        raise BadInput(f"{source}: the folder {location} has no .parquet file; give one that has, or omit location")
    return [partial(Path, path) for path in paths]


def download(
    address: str, path: Path, md5: Callable[[], str] | None, *, fallback: str = FALLBACK, pause: float = 1.0
) -> Path:
    """Download a file to a path and check it, unless it is there already.

    A partial download is kept as PATH.part and resumed by the next attempt or the next call.
    """
    if path.is_file():
        return path
    import httpx
    from filelock import FileLock

    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if not path.is_file():  # another process may have downloaded it meanwhile
                expected = md5() if md5 else None
                warn_once(logger, f"Downloading {address} to {path}, once.")
                with httpx.Client(follow_redirects=True, timeout=60) as client:
                    retries(pause)(_append, client, address, part, fallback)
                if expected:
                    _check(address, part, expected, fallback)
                part.replace(path)
    except (httpx.HTTPError, httpx.InvalidURL, RetryLater) as error:
        raise BadInput(
            f"{address} cannot be read ({error or type(error).__name__}); check the network and try again (the partial "
            f"download is kept), or {fallback}"
        ) from None
    except OSError as error:
        raise BadInput(f"{address} cannot be written to {path} ({error}); free disk space, or {fallback}") from None
    return path


def lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Read a text file, plain or compressed with bzip2, as (place, line) pairs. Empty lines are skipped."""
    if not path.is_file():
        raise BadInput(f"There is no file {path}; give its path, or its folder")
    place = path.name
    try:
        with bz2.open(path, "rb") if path.suffix == ".bz2" else path.open("rb") as file:
            for place, line in read_lines(file, path.name):
                yield place, line
    except (OSError, EOFError) as error:
        raise BadInput(
            f"After {place}: {error}; the file is damaged or incomplete: remove {path} and try again"
        ) from None


def _append(client: "httpx.Client", address: str, part: Path, fallback: str) -> None:
    """Download what a partial file lacks."""
    size = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={size}-"} if size else {})
    with client.stream("GET", address, headers=headers) as response:
        if response.status_code in RETRY_STATUS:
            raise RetryLater(response)
        if response.status_code == 416:  # nothing is lacking
            return
        if response.status_code not in (200, 206):
            status = f"{response.status_code} {response.reason_phrase}"
            raise BadInput(f"{address}: the server answered {status}; {fallback}")
        # 200 is the whole file, even if a range was requested.
        with part.open("ab" if response.status_code == 206 else "wb") as file:
            # Each chunk is written at once, so that none is lost when the connection breaks off.
            for chunk in limited(response, response.iter_raw(), MAX_DOWNLOAD):
                file.write(chunk)


def _check(address: str, part: Path, expected: str, fallback: str) -> None:
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "md5").hexdigest()
        file.seek(0)
        start = file.read(60)
    if digest != expected:
        part.unlink()
        raise BadInput(
            f"{address}: the download has the MD5 {digest}, not {expected}, and begins with {start!r}; it was removed. "
            f"Try again, or {fallback}"
        )

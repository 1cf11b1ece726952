"""Downloads: files that are fetched once into a cache and checked, and pages of an API, with retries and limits.

Large files from the web are not read through fsspec's caches: its block cache marks a block as present before it is
fetched, so that a broken download is later read as zeros, and its other caches do not resume.
"""

import bz2
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspect_ai.util import warn_once
from pydantic_core import from_json

from truthgym.datasets.errors import BadInput, shown
from truthgym.datasets.loading.row_files import MAX_BYTES, read_lines

if TYPE_CHECKING:
    import httpx
    from tenacity import Retrying

ATTEMPTS = 6
MAX_DELAY = 120.0
"""Most seconds between two attempts, even if the server asks for more."""
MIN_RATE = 1000
"""Least bytes a second, on average over a response that takes longer than `GRACE`."""
GRACE = 60.0
"""Seconds."""
MAX_PAGES = 2000
"""Most pages of one listing. The largest listing that is known, of Metaculus, has some hundreds."""
RETRY_STATUS = (408, 425, 429, 500, 502, 503, 504)
"""HTTP statuses after which a request is repeated."""
FALLBACK = 'use source="bundled"'
ACCEPT = {"Accept-Encoding": "gzip"}
"""Of the compressions that httpx unpacks, the one whose chunks cannot become very large."""


def is_url(location: str) -> bool:
    """Whether a location is an HTTP address, not a path."""
    return location.startswith(("http://", "https://"))


def check_secret(place: str, secret: str) -> str:
    """A token without the white space around it. The token is never shown."""
    if not re.fullmatch(r"[!-~]+", secret.strip()):
        raise BadInput(f"{place} is not a token: it must be one word of ASCII characters; copy it again")
    return secret.strip()


class RetryLater(Exception):
    """The server asked to repeat the request later."""

    def __init__(self, response: "httpx.Response") -> None:
        super().__init__(f"{response.status_code} {response.reason_phrase}")
        after = response.headers.get("Retry-After", "")
        self.after = float(after) if re.fullmatch("[0-9]{1,9}", after) else 0.0
        """Seconds to wait, from the header `Retry-After`."""


def retries(pause: float) -> "Retrying":
    """Six attempts, with waits of `pause`, 2 `pause`, 4 `pause`, ... seconds between them, or as the server asks."""
    import httpx
    from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        after = error.after if isinstance(error, RetryLater) else 0.0
        return min(MAX_DELAY, max(after, pause * 2.0 ** (state.attempt_number - 1)))

    retry = retry_if_exception_type((httpx.TransportError, RetryLater))
    return Retrying(stop=stop_after_attempt(ATTEMPTS), wait=wait, retry=retry, reraise=True)


def limited(response: "httpx.Response", chunks: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Yield the chunks of a response while they come fast enough and are not too many."""
    began, size = time.monotonic(), 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise BadInput(f"{response.url}: the response is larger than {most} bytes; ask for less")
        yield chunk
        seconds = time.monotonic() - began
        if seconds > GRACE and response.num_bytes_downloaded < MIN_RATE * seconds:
            raise BadInput(
                f"{response.url}: {response.num_bytes_downloaded} bytes came in {seconds:.0f} seconds; try again later"
            )


def get_json(
    client: "httpx.Client",
    address: str,
    parameters: Mapping[str, str | int] | None = None,
    *,
    post: Mapping[str, str] | None = None,
    fallback: str = FALLBACK,
    pause: float = 1.0,
) -> Any:  # noqa: ANN401 (JSON)
    """Get JSON. See `retries` for when the server is busy or the connection breaks off."""
    import httpx

    method, query = "POST" if post else "GET", dict(parameters or {}) or None
    try:
        request = client.build_request(method, address, params=query, json=post, headers=ACCEPT)
        response, content = retries(pause)(_send, client, request)
    except (httpx.HTTPError, httpx.InvalidURL, RetryLater) as error:
        why = f"{error}, {ATTEMPTS} times" if isinstance(error, RetryLater) else str(error) or type(error).__name__
        raise BadInput(
            f"{client.base_url.join(address)} cannot be read ({why}); check the network, or {fallback}"
        ) from None
    start = content[:80].decode(errors="replace")
    if response.status_code != 200:
        status = f"{response.status_code} {response.reason_phrase}"
        raise BadInput(f"{response.url}: the server answered {status} ({start!r}); {fallback}")
    try:
        return from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise BadInput(f"{response.url}: not JSON ({error}), but {start!r}; try again later, or {fallback}") from None


def _send(client: "httpx.Client", request: "httpx.Request") -> tuple["httpx.Response", bytes]:
    response = client.send(request, stream=True)
    try:
        if response.status_code in RETRY_STATUS:
            raise RetryLater(response)
        if response.headers.get("Content-Encoding", "gzip") not in ("gzip", "identity"):
            raise BadInput(f"{response.url}: compressed as {response.headers['Content-Encoding']!r}, which is not read")
        return response, b"".join(limited(response, response.iter_bytes(), MAX_BYTES))
    finally:
        response.close()


def read_pages(
    client: "httpx.Client",
    address: str,
    query: Mapping[str, str | int],
    name: str,
    following: Callable[[dict[str, Any], list[dict[str, Any]]], Mapping[str, str | int] | None],
    *,
    fallback: str = FALLBACK,
) -> Iterator[dict[str, Any]]:
    """Yield the objects that the pages of an API list."""
    place = client.base_url.join(address)
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        page = get_json(client, address, query, fallback=fallback)
        objects = page.get(name) if isinstance(page, dict) else None
        if not isinstance(objects, list) or not all(isinstance(item, dict) for item in objects):
            raise BadInput(f"{place}: expected a list of objects under {name!r}, got {shown(page)}; {fallback}")
        yield from objects
        change = following(page, objects) if objects else None
        if not change:
            return
        if (key := str(change)) in seen:
            raise BadInput(f"{place}: the page after {key} came twice; try again later, or {fallback}")
        seen.add(key)
        query = {**query, **change}
    raise BadInput(f"{place}: more than {MAX_PAGES} pages; ask for less, or {fallback}")


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
    """Download a file to a path and check it, unless it is there already."""
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

"""Reads the members of an .eval log, which is a zip archive, one at a time.

`zipfile` reads the directory. Members are decompressed here, because `zipfile` supports zstd only from Python 3.14.
"""

import os
import struct
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import zstandard

from truthgym.evallog.errors import MALFORMED, bad_input

ZSTD = 93
"""Zip's number of the compression that Inspect writes. Earlier versions deflated, and other tools may store."""
MAX_SIZE = 256 * 2**20
"""Bytes of the largest member that is read. Inspect writes larger samples in chunks (`inspect log convert-chunked`)."""
LFS_POINTER = b"version https://git-lfs"
LOCAL_HEADER_SIZE = 30
"""Bytes of a local file header before the name and the extra field (APPNOTE.TXT of PKWARE, section 4.3.7)."""


def check_no_pointer(path: str | Path, name: str) -> None:
    """Refuse a pointer of Git LFS, which stands for a large file that was not fetched."""
    with suppress(OSError), Path(path).open("rb") as file:
        if file.read(len(LFS_POINTER)) == LFS_POINTER:
            raise bad_input(f"{name} is a pointer of Git LFS and not the log; run `git lfs pull`")


class EvalArchive:
    """Reads members of a local zip file by name, of which the last counts; its `name` stands in errors."""

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        self.path = path
        self.name = name or str(path)
        self._zstd = zstandard.ZstdDecompressor()
        self._file: BinaryIO | None = None
        self._readers = 0
        self._checked: set[str] = set()
        """Members whose checksum was right: the selected ones are read twice."""
        try:
            with zipfile.ZipFile(path) as archive:
                self._members = {info.filename: info for info in archive.infolist()}
        except (*MALFORMED, OSError) as error:
            check_no_pointer(path, self.name)
            raise bad_input(
                f"{self.name} is not a complete .eval log ({error}). Copy it again from its source; if its run "
                f"crashed, try `inspect log recover {self.name}`"
            ) from None

    @property
    def names(self) -> list[str]:
        """All member names, each compared with that before its member: a damaged name would leave out a sample."""
        with self:
            assert self._file is not None  # opened by `with`
            for name, info in self._members.items():
                try:
                    header = os.pread(self._file.fileno(), LOCAL_HEADER_SIZE + 4 * len(name), info.header_offset)
                except OSError:  # an offset that is damaged
                    header = b""
                size = int.from_bytes(header[26:28], "little")
                local = header[LOCAL_HEADER_SIZE : LOCAL_HEADER_SIZE + size]
                if name not in (local.decode(errors="replace"), local.decode("cp437")):
                    raise bad_input(f"{self.name}: the name of its member {name} is damaged; copy the log again")
        return list(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> bytes:
        info = self._members[name]
        size = info.file_size
        if max(info.compress_size, size) > MAX_SIZE:
            raise bad_input(
                f"{self.name}: its member {name} has {size:,} bytes, more than {MAX_SIZE:,}; rewrite the log in chunks "
                "with `inspect log convert-chunked`, or remove the sample"
            )
        assert self._file is not None  # opened by `with`
        file = self._file.fileno()
        try:
            # The local header's name and extra field may differ in length from the directory's.
            header = os.pread(file, LOCAL_HEADER_SIZE, info.header_offset)
            start = info.header_offset + LOCAL_HEADER_SIZE + sum(struct.unpack_from("<HH", header, 26))
            content = self._decompress(os.pread(file, info.compress_size, start), size, info.compress_type)
        except (*MALFORMED, OSError):
            content = b""
        if len(content) != size or (name not in self._checked and zlib.crc32(content) != info.CRC):
            raise bad_input(f"{self.name}: its member {name} is damaged; copy the log again from its source")
        self._checked.add(name)
        return content

    def __enter__(self) -> "EvalArchive":
        if not self._readers:
            self._file = Path(self.path).open("rb")
        self._readers += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._readers -= 1
        if self._file is not None and not self._readers:
            self._file.close()

    def _decompress(self, packed: bytes, size: int, method: int) -> bytes:
        """Decompress a member, at most one byte more than the directory says."""
        if not size:
            return b""
        if method == zipfile.ZIP_STORED:
            return packed
        if method == zipfile.ZIP_DEFLATED:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, size + 1)
        if method == ZSTD:
            if zstandard.frame_content_size(packed) in (-1, size):  # unknown, or a single frame
                content: bytes = self._zstd.decompress(packed, max_output_size=size)
                if len(content) == size:
                    return content
            return self._zstd.stream_reader(packed, read_across_frames=True).read(size + 1)
        raise bad_input(
            f"{self.name}: its members are compressed by zip method {method}, which Inspect does not write; pack them "
            f"again with method {ZSTD} (zstd), 8 (deflate) or 0 (stored)"
        )

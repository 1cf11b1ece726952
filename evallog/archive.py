"""The members of an .eval log, a zip file, read one by one with no more of the file in memory than the one at hand.

Python's zipfile takes half a kilobyte for each member, and does not know zstd before Python 3.14.
"""

import os
import struct
import zlib
from array import array
from pathlib import Path
from types import TracebackType

import zstandard

from truthgym.evallog.errors import bad_input

STORED, DEFLATE, ZSTD = 0, 8, 93
"""Compression methods of zip. Inspect writes zstd; earlier versions deflated, and other tools may store."""
END, LOCATOR64, END64, ENTRY, LOCAL = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06", b"PK\x01\x02", b"PK\x03\x04"
"""How the records of a zip file begin: APPNOTE.TXT of PKWARE, section 4.3."""
END_SIZE, ENTRY_SIZE, LOCAL_SIZE = 22, 46, 30
LONGEST_COMMENT = 0xFFFF
FULL = 0xFFFFFFFF
"""In a 32-bit field: the number is in the zip64 extra field."""
ROOM = 64
"""Bytes read beyond a member in the expectation of a local extra field, so that one read gets all."""


class _NoZip(Exception):
    pass


class EvalMembers:
    """Read members of a local zip file by name. Of a name that is there twice, the last is read, as Inspect does.

    Args:
        path: The file.
        named: What it is called in errors, where that is another name.

    Raises:
        BadInput: It is no zip file, or a part of one.
    """

    def __init__(self, path: str | Path, named: str | None = None) -> None:
        self.path = named or str(path)
        self._file = os.open(path, os.O_RDONLY)
        self._zstd = zstandard.ZstdDecompressor()
        self._rows: dict[str, int] = {}
        self._offsets, self._packed, self._sizes, self._methods = array("Q"), array("Q"), array("Q"), array("H")
        try:
            self._read_directory()
        except (_NoZip, struct.error) as error:
            self.close()
            raise bad_input(
                f"{self.path} is no complete .eval log: {error}. Copy it again from where it was written; where its "
                f"run crashed, `inspect log recover {self.path}`"
            ) from None

    @property
    def names(self) -> list[str]:
        """All names, in the order of the file's directory."""
        return list(self._rows)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def read(self, name: str) -> bytes:
        """The content of a member.

        Raises:
            BadInput: What is in the file is not what its directory says.
        """
        row = self._rows[name]
        offset, packed, size = self._offsets[row], self._packed[row], self._sizes[row]
        block = os.pread(self._file, LOCAL_SIZE + len(name) + ROOM + packed, offset)
        # The local header's name and extra field may be longer or shorter than the directory's.
        if len(block) < LOCAL_SIZE or not block.startswith(LOCAL):
            raise self._damaged(name)
        begin = LOCAL_SIZE + sum(struct.unpack_from("<HH", block, 26))
        held = memoryview(block)[begin : begin + packed]
        if len(held) < packed:
            held = memoryview(os.pread(self._file, packed, offset + begin))
        try:
            content = self._unpacked(held, self._methods[row], size)
        except (zstandard.ZstdError, zlib.error):
            raise self._damaged(name) from None
        if len(content) != size:
            raise self._damaged(name)
        return content

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> "EvalMembers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _unpacked(self, held: memoryview, method: int, size: int) -> bytes:
        if method == ZSTD:
            content: bytes = self._zstd.decompress(held, max_output_size=size) if size else b""
            if len(content) == size:
                return content
            # Of several frames, which a large member has, that was the first.
            every = self._zstd.decompressobj(read_across_frames=True)
            return bytes(every.decompress(held))
        if method == DEFLATE:
            return zlib.decompress(held, -zlib.MAX_WBITS)
        if method == STORED:
            return bytes(held)
        raise bad_input(
            f"{self.path} is compressed by zip method {method}, and Inspect writes {ZSTD} (zstd); pack it again"
        )

    def _damaged(self, name: str) -> Exception:
        return bad_input(f"{self.path}: its member {name} is damaged; copy the log again from where it was written")

    def _read_directory(self) -> None:
        size = os.fstat(self._file).st_size
        tail = os.pread(self._file, END_SIZE + LONGEST_COMMENT, max(0, size - END_SIZE - LONGEST_COMMENT))
        at = len(tail) - END_SIZE
        # A record without a comment first: its fields may hold the bytes by which records are known.
        if at < 0 or not tail.startswith(END, at) or tail[-2:] != b"\0\0":
            at = tail.rfind(END)
        if at < 0:
            raise _NoZip("it is no zip file, or the end of one is missing")
        length, begin = struct.unpack_from("<II", tail, at + 12)
        wide = at - 20
        if wide >= 0 and tail.startswith(LOCATOR64, wide):
            end = os.pread(self._file, 56, struct.unpack_from("<Q", tail, wide + 8)[0])
            if not end.startswith(END64):
                raise _NoZip("its zip64 record is missing")
            length, begin = struct.unpack_from("<QQ", end, 40)
        directory = os.pread(self._file, length, begin)
        if len(directory) < length:
            raise _NoZip("its directory is cut off")
        self._read_entries(directory)

    def _read_entries(self, directory: bytes) -> None:
        entry = struct.Struct("<10xH8xIIHHH8xI")
        at = 0
        while at < len(directory):
            if not directory.startswith(ENTRY, at):
                raise _NoZip("its directory is damaged")
            method, packed, size, named, extra, comment, offset = entry.unpack_from(directory, at)
            name = directory[at + ENTRY_SIZE : at + ENTRY_SIZE + named].decode(errors="replace")
            if FULL in (packed, size, offset):
                begin = at + ENTRY_SIZE + named
                size, packed, offset = _wide(directory[begin : begin + extra], size, packed, offset)
            self._rows[name] = len(self._offsets)
            self._offsets.append(offset)
            self._packed.append(packed)
            self._sizes.append(size)
            self._methods.append(method)
            at += ENTRY_SIZE + named + extra + comment


def _wide(extra: bytes, *numbers: int) -> list[int]:
    """Numbers of a directory entry, those that did not fit taken from the zip64 extra field in their order."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            held = iter(struct.unpack_from(f"<{length // 8}Q", extra, at + 4))
            return [next(held) if number == FULL else number for number in numbers]
        at += 4 + length
    return list(numbers)

"""Reads the members of an .eval log, which is a zip archive, one at a time.

`zipfile` reads the directory. Members are decompressed here, because `zipfile` supports zstd only from Python 3.14.
"""

import os
import struct
import zipfile
import zlib
from pathlib import Path

import zstandard

from truthgym.evallog.errors import bad_input

ZSTD = 93
"""Zip's number of the compression that Inspect writes. Earlier versions deflated, and other tools may store."""
LOCAL_HEADER_SIZE = 30
"""Bytes of a local file header before the name and the extra field (APPNOTE.TXT of PKWARE, section 4.3.7)."""


class EvalArchive:
    """Reads members of a local zip file by name. If a name occurs twice, the last member is read, as Inspect does.

    Args:
        path: The file.
        name: The name to use in errors, if it differs from the path.

    Raises:
        BadInput: The file is not a zip file, or is incomplete.
    """

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        self.path = name or str(path)
        self._zstd = zstandard.ZstdDecompressor()
        self._file = Path(path).open("rb")  # noqa: SIM115
        try:
            with zipfile.ZipFile(self._file) as archive:
                self._members = {member.filename: member for member in archive.infolist()}
        except (zipfile.BadZipFile, ValueError, struct.error) as error:
            self.close()
            raise bad_input(
                f"{self.path} is not a complete .eval log ({error}). Copy it again from its source; if its run "
                f"crashed, try `inspect log recover {self.path}`"
            ) from None

    @property
    def names(self) -> list[str]:
        """All member names, in the order of the archive's directory."""
        return list(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> bytes:
        """The content of a member.

        Raises:
            BadInput: The member's bytes do not match the archive's directory.
        """
        member = self._members[name]
        file = self._file.fileno()
        try:
            # The local header's name and extra field may differ in length from the directory's.
            header = os.pread(file, LOCAL_HEADER_SIZE, member.header_offset)
            name_size, extra_size = struct.unpack_from("<HH", header, 26)
            start = member.header_offset + LOCAL_HEADER_SIZE + name_size + extra_size
            content = self._decompress(os.pread(file, member.compress_size, start), member)
        except (struct.error, zstandard.ZstdError, zlib.error):
            content = b""
        if len(content) != member.file_size:
            raise bad_input(f"{self.path}: its member {name} is damaged; copy the log again from its source")
        return content

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "EvalArchive":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _decompress(self, data: bytes, member: zipfile.ZipInfo) -> bytes:
        if member.compress_type == zipfile.ZIP_STORED or not member.file_size:
            return data[: member.file_size]
        if member.compress_type == zipfile.ZIP_DEFLATED:
            return zlib.decompress(data, -zlib.MAX_WBITS)
        if member.compress_type == ZSTD:
            content: bytes = self._zstd.decompress(data, max_output_size=member.file_size)
            if len(content) < member.file_size:  # a large member has several frames, of which this was the first
                content = self._zstd.decompressobj(read_across_frames=True).decompress(data)
            return content
        raise bad_input(
            f"{self.path}: its members are compressed by zip method {member.compress_type}, which Inspect does not "
            f"write; pack them again with method {ZSTD} (zstd), 8 (deflate) or 0 (stored)"
        )

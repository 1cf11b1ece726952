"""The members of a zip file as zipfile writes it, in every way of packing that a log may have."""

import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from truthgym.datasets.errors import BadInput
from truthgym.evallog.archive import EvalArchive
from truthgym.evallog.reader import LogReader

TEXT = b'{"said": "' + b"It may well rain. " * 200 + b'"}'
ZSTD = 93


def by_hand(
    name: str, packed: bytes, size: int, method: int, wide: bool = False, extra: bytes = b"", text: bytes = TEXT
) -> bytes:
    """A zip file with one member, whose directory keeps its numbers in a zip64 field if it is `wide`."""
    crc = zlib.crc32(text)
    called = name.encode()
    local = struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", 20, 0, method, 0, 0, crc, len(packed), size, len(called), 0)
    local = local[:28] + struct.pack("<H", len(extra)) + called + extra + packed
    more = struct.pack("<HHQQQ", 1, 24, size, len(packed), 0) if wide else b""
    small = (0xFFFFFFFF, 0xFFFFFFFF) if wide else (len(packed), size)
    entry = struct.pack("<4sHHHHHHI", b"PK\x01\x02", 45, 45, 0, method, 0, 0, crc) + struct.pack(
        "<IIHHHHHII", *small, len(called), len(more), 0, 0, 0, 0, small[0] if wide else 0
    )
    directory = entry + called + more
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, len(directory), len(local))
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, len(local) + len(directory), 1)
    place = (0xFFFFFFFF, 0xFFFFFFFF) if wide else (len(directory), len(local))
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 1, 1, *place, 0)
    return local + directory + (end64 + locator if wide else b"") + end


def frames(parts: int) -> bytes:
    size = len(TEXT) // parts + 1
    return b"".join(zstandard.compress(TEXT[i : i + size]) for i in range(0, len(TEXT), size))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_that_zipfile_wrote(tmp_path: Path, method: int) -> None:
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("samples/ä_epoch_1.json", TEXT)
        file.writestr("empty.json", b"")
        file.comment = b"with a comment"
    with EvalArchive(path) as members:
        assert members.names == ["samples/ä_epoch_1.json", "empty.json"]
        assert members.read("samples/ä_epoch_1.json") == TEXT
        assert members.read("empty.json") == b""
        assert "header.json" not in members


@pytest.mark.parametrize(
    "pack",
    [
        lambda: zstandard.compress(TEXT),
        lambda: frames(3),
        lambda: zstandard.ZstdCompressor(write_content_size=False).compress(TEXT),
        lambda: b"".join([(c := zstandard.ZstdCompressor().compressobj()).compress(TEXT), c.flush()]),
    ],
    ids=["one frame", "three frames", "size not told", "streamed"],
)
@pytest.mark.parametrize("wide", [False, True], ids=["zip", "zip64"])
def test_zstd(tmp_path: Path, pack: Callable[[], bytes], wide: bool) -> None:
    path = tmp_path / "a.eval"
    # More in the local header than in the directory: both are to be read.
    path.write_bytes(
        by_hand("a.json", pack(), len(TEXT), ZSTD, wide, extra=struct.pack("<HH", 0xCAFE, 300) + bytes(300))
    )
    with EvalArchive(path) as members:
        assert members.read("a.json") == TEXT


def test_the_last_member_of_a_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.json", b"first")
        file.writestr("b.json", b"other")
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("a.json", b"second")
    with EvalArchive(path) as members:
        assert members.names == ["a.json", "b.json"]
        assert members.read("a.json") == b"second"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_an_incomplete_file_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "a.eval"
    whole = by_hand("a.json", TEXT, len(TEXT), 0)
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(BadInput, match=r"a\.eval is not a complete \.eval log.*inspect log recover"):
        EvalArchive(path)
    path.write_bytes(whole.replace(b"PK\x01\x02", b"PK\x01\x03"))
    with pytest.raises(BadInput, match=r"a\.eval is not a complete.*central directory"):
        EvalArchive(path)


@pytest.mark.parametrize(
    ("packed", "size", "method", "message"),
    [
        (b"no zstd at all", len(TEXT), ZSTD, "member a.json is damaged"),
        (zstandard.compress(TEXT)[:-9], len(TEXT), ZSTD, "member a.json is damaged"),
        (zstandard.compress(TEXT), len(TEXT) + 1, ZSTD, "member a.json is damaged"),
        (TEXT, len(TEXT), 14, "compressed by zip method 14"),
    ],
)
def test_a_damaged_member_is_refused(tmp_path: Path, packed: bytes, size: int, method: int, message: str) -> None:
    path = tmp_path / "a.eval"
    path.write_bytes(by_hand("a.json", packed, size, method))
    with EvalArchive(path) as members, pytest.raises(BadInput, match=message):
        members.read("a.json")


@pytest.mark.parametrize("method", [0, 8, ZSTD])
def test_any_flipped_bit_is_noticed(tmp_path: Path, method: int) -> None:
    text = bytes(range(256)) * 4
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    deflated = deflate.compress(text) + deflate.flush()
    packed = {0: text, 8: deflated, ZSTD: zstandard.compress(text)}[method]
    whole = by_hand("a.json", packed, len(text), method, text=text)
    path = tmp_path / "a.eval"
    for bit in range(0, 8 * len(whole), 11):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            with EvalArchive(path) as members:
                assert all(members.read(name) == text for name in members.names)
        except BadInput:
            pass


def test_a_flipped_bit_in_a_name_loses_no_member(tmp_path: Path) -> None:
    whole = by_hand("samples/é_epoch_1.json", TEXT, len(TEXT), 0)
    path = tmp_path / "a.eval"
    path.write_bytes(whole)
    names = EvalArchive(path).names
    assert len(names) == 1
    start = whole.rindex(b"samples/")
    for bit in range(8 * start, 8 * (start + len("samples/é_epoch_1.json".encode()))):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(BadInput, match="damaged|complete"):
            EvalArchive(path).names  # noqa: B018


@pytest.mark.parametrize("method", [8, ZSTD])
def test_a_member_unpacks_to_what_the_directory_says(tmp_path: Path, method: int) -> None:
    bomb = bytes(300_000_000)
    deflate = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = deflate.compress(bomb) + deflate.flush() if method == 8 else zstandard.compress(bomb)
    path = tmp_path / "a.eval"
    for size, match in ((len(TEXT), "damaged"), (len(bomb), "300,000,000 bytes.*convert-chunked")):
        path.write_bytes(by_hand("a.json", packed, size, method))
        tracemalloc.start()
        with EvalArchive(path) as members, pytest.raises(BadInput, match=match):
            members.read("a.json")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
        tracemalloc.stop()


def test_a_header_that_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "2026-11-22T17-00-00_urns_x.json"
    path.write_text('{"version":2,"eval":' + "[" * 100_000)
    tracemalloc.start()
    with pytest.raises(BadInput, match=path.name):
        LogReader(path)
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()

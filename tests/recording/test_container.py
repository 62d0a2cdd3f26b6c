from __future__ import annotations

import io
import struct
import zipfile
from typing import Any

import pytest

from kernelscope.errors import RecordingFileError
from kernelscope.recording.file import read_members, write_members

MEMBERS = {"manifest.json": b'{"a": 1}', "cells.parquet": b"PAR1" * 50, "launches.parquet": b"", "x.json": b"zz"}


def _zip(members: Any = MEMBERS) -> bytes:
    file = io.BytesIO()
    write_members(file, dict(members))
    return file.getvalue()


def _made(*members: tuple[str, bytes], compression: int = zipfile.ZIP_STORED, **fields: Any) -> bytes:
    """A zip as `zipfile` writes it, with fields of its members set."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            for field, value in fields.items():
                setattr(info, field, value)
            archive.writestr(info, content)
    return file.getvalue()


def _read(data: bytes) -> dict[str, bytes]:
    return {name: bytes(member.content) for name, member in read_members(memoryview(data)).items()}


def test_members_come_back_and_zipfile_reads_them() -> None:
    data = _zip()
    assert _read(data) == MEMBERS
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == MEMBERS
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


def _with_a_comment() -> bytes:
    file = io.BytesIO(_zip())
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = b"hello"
    return file.getvalue()


def _zip64() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, archive.open("cells.parquet", "w", force_zip64=True) as member:
        member.write(b"x")
    return file.getvalue()


@pytest.mark.parametrize(("data", "message"), [
    (_zip({}), "does not begin as a zip does"), (b"MZ" + _zip(), "zip"), (_zip() + b"x", "directory"),
    (_zip() + bytes(30), "directory"), (_zip()[:38] + b"hidden" + _zip()[38:], "directory|damaged"),
    (_with_a_comment(), "directory"),
    (_zip64(), "damaged"), (_made(("abcd.json", b"")).replace(b"abcd.json", b"a\0cd.json"), "name"),
    (_zip({f"{first}{second}.json": b"" for first in "abcdefghijk" for second in "abcdefghijk"}), "121 members"),
])
def test_other_zips_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(RecordingFileError, match=message):
        _read(data)


def test_every_torn_length_is_refused() -> None:
    data = _zip()
    for size in range(len(data)):
        with pytest.raises(RecordingFileError) as caught:
            _read(data[:size])
        if size > 4:
            assert f"cut off at byte {size}" in str(caught.value)


def test_torn_member_is_named() -> None:
    with pytest.raises(RecordingFileError, match=r"^table 'cells' is cut off at byte 120$"):
        _read(_zip()[:120])
    with pytest.raises(RecordingFileError, match=r"^the manifest is cut off at byte 50$"):
        _read(_zip()[:50])
    size = len(_zip()) - 1
    with pytest.raises(RecordingFileError, match=rf"^its directory, from byte \d+ on, is .* cut off at byte {size}$"):
        _read(_zip()[:-1])


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_refused_or_harmless(bits: int) -> None:
    data = bytearray(_zip())
    harmless = 0
    for place in range(len(data)):
        data[place] ^= bits
        try:
            assert _read(bytes(data)) == MEMBERS
            harmless += 1
        except RecordingFileError:
            pass
        data[place] ^= bits
    # In each directory entry: what made it, and two kinds of file attributes.
    assert harmless == len(MEMBERS) * 8


def test_directory_that_skips_a_member_is_refused() -> None:
    data = _zip()
    start = data.index(b"PK\x01\x02")
    entry = 46 + len("manifest.json")
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 3, 3, len(data) - start - entry - 22, start, 0)
    with pytest.raises(RecordingFileError, match="damaged"):
        _read(data[:start] + data[start + entry:-22] + end)


@pytest.mark.parametrize("name", [
    "../cells.parquet", "/etc/passwd.json", "a/b.json", "a\\b.json", "C:x.json", "cells", "Cells.parquet", "..json",
    "cells.parquet\n", ".json", "x" * 41 + ".json", "cells.pkl", "ä.json", "manifest.json/", "\x1b[31m" + "x" * 500,
])
def test_names_that_no_recording_has_are_refused(name: str) -> None:
    with pytest.raises(RecordingFileError) as caught:
        _read(_made(("manifest.json", b"{}"), (name, b"")))
    assert "name" in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_duplicate_member_is_refused() -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = _made(("cells.parquet", b"1"), ("cells.parquet", b"2"))
    with pytest.raises(RecordingFileError, match="table 'cells' occurs twice"):
        _read(data)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_member_is_refused_without_inflating_it(compression: int) -> None:
    with pytest.raises(RecordingFileError, match="table 'cells' is compressed in the zip"):
        _read(_made(("cells.parquet", bytes(10_000_000)), compression=compression))


def test_encrypted_member_is_refused() -> None:
    data = bytearray(_made(("cells.parquet", b"secret")))
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(magic) + flags] |= 1
    with pytest.raises(RecordingFileError, match="table 'cells' is encrypted"):
        _read(bytes(data))


@pytest.mark.parametrize("fields", [{"comment": b"hello"}, {"extra": b"\x01\x00\x01\x00x"}])
def test_comments_and_extra_fields_are_refused(fields: Any) -> None:
    with pytest.raises(RecordingFileError, match="damaged"):
        _read(_made(("cells.parquet", b"x"), **fields))


@pytest.mark.parametrize("size", [0, 7, 9, 2**31, 2**32 - 1])
def test_false_size_is_refused(size: int) -> None:
    data = bytearray(_zip())
    for magic, place in ((b"PK\x03\x04", 18), (b"PK\x01\x02", 20)):
        struct.pack_into("<2L", data, data.index(magic) + place, size, size)
    with pytest.raises(RecordingFileError):
        _read(bytes(data))


def test_members_that_overlap_are_refused() -> None:
    # Each entry of such a bomb leads to the same bytes.
    data = _zip({"cells.parquet": b"x" * 100})
    start = data.index(b"PK\x01\x02")
    entry = data[start:-22]
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 2, 2, 2 * len(entry), start, 0)
    with pytest.raises(RecordingFileError):
        _read(data[:start] + entry + entry.replace(b"cells", b"cellz") + end)

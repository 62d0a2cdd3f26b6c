"""The zip around a recording: stored members only, laid end to end, checked byte by byte before they are used.

`zipfile` reads archives that others wrote in their many ways, and skips over much that is wrong with one. A recording
has exactly one layout, so it is read here against that layout: whatever differs from it is damage or intent.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

from kernelscope.errors import RecordingFileError

#: The member that says what the others are.
MANIFEST = "manifest.json"
#: Larger files are refused unread. Zip's 32-bit sizes suffice below it.
MAX_FILE_BYTES = 1 << 30

# APPNOTE.TXT of PKWARE, sections 4.3.7 (local header), 4.3.12 (central directory) and 4.3.16 (end record).
_LOCAL = struct.Struct("<4s5H3L2H")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_LOCAL_MAGIC, _ENTRY_MAGIC, _END_MAGIC = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_NAME = re.compile(rb"[a-z_]{1,40}\.(json|parquet)")
_MAX_MEMBERS = 100
_ENCRYPTED = 1
# The same for every file, so that equal recordings give equal bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


class Member(NamedTuple):
    """One member of a zip: its bytes, and their CRC-32."""

    content: memoryview
    crc32: int


def write_members(file: BinaryIO, members: Mapping[str, Any]) -> None:
    """Write the members, bytes or buffers by name, to `file` as a zip, stored and in order."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system = 3
            info.external_attr = 0o644 << 16
            archive.writestr(info, memoryview(content))


def read_members(data: memoryview) -> dict[str, Member]:
    """Return the members of the zip `data` by name, each a view of `data` whose CRC-32 was checked.

    Raises
    ------
    RecordingFileError
        It is not a zip, is torn, or has anything that `write_members` does not write: a compressed or encrypted
        member, a name that is no plain file name or occurs twice, bytes between members, a comment. The message
        does not name the file.
    """
    start, count = _directory(data)
    members: dict[str, Member] = {}
    place, offset = start, 0
    for _ in range(count):
        name, size, place = _entry(data, place, offset)
        if name in members:
            raise RecordingFileError(f"{describe(name)} occurs twice")
        begin = offset + _LOCAL.size + len(name)
        offset = begin + size
        if offset > start:
            raise RecordingFileError(f"{describe(name)} is damaged: it would end at byte {offset}, in the directory")
        members[name] = Member(data[begin:offset], _checked_crc(data, name, begin, offset))
    if offset != start or place != len(data) - _END.size:
        raise RecordingFileError(f"holds bytes that belong to no member, at byte {min(offset, place)}")
    return members


def describe(member: str) -> str:
    """Return what a message calls a member: ``table 'launches'`` or ``the manifest``."""
    if member == MANIFEST:
        return "the manifest"
    return f"table {member.removesuffix('.parquet')!r}" if member.endswith(".parquet") else f"member {member!r}"


def _directory(data: memoryview) -> tuple[int, int]:
    """Where the central directory begins, and how many members it lists."""
    if not len(data):
        raise RecordingFileError("is empty")
    if bytes(data[:4]) != _LOCAL_MAGIC[: len(data)]:
        raise RecordingFileError("is not a recording: it does not begin as a zip does")
    place = len(data) - _END.size
    if place >= 0:
        magic, disk, first_disk, here, count, size, start, comment = _END.unpack_from(data, place)
        if magic == _END_MAGIC and start + size == place and not (disk or first_disk or comment) and here == count:
            if count > _MAX_MEMBERS:
                raise RecordingFileError(f"has {count} members, more than any recording")
            return start, count
    raise _torn(data)


def _torn(data: memoryview) -> RecordingFileError:
    """Walk the members from the start to say where a file without a sound end stops making sense."""
    offset = 0
    for _ in range(_MAX_MEMBERS):
        if bytes(data[offset : offset + 4]) != _LOCAL_MAGIC or offset + _LOCAL.size > len(data):
            break
        header = _LOCAL.unpack_from(data, offset)
        begin = offset + _LOCAL.size + header[9]
        what = describe(_shown(bytes(data[offset + _LOCAL.size : begin])))
        if begin + header[8] > len(data):
            return RecordingFileError(f"{what} is cut off at byte {len(data)}")
        offset = begin + header[8]
    return RecordingFileError(f"its directory, from byte {offset} on, is damaged, or cut off at byte {len(data)}")


def _entry(data: memoryview, place: int, offset: int) -> tuple[str, int, int]:
    """The name and size of the member that the directory lists at `place`, and where its next entry is.

    The member must lie at `offset`, and its own header must say the same as the directory.
    """
    if place + _ENTRY.size > len(data):
        raise RecordingFileError(f"its directory is cut off at byte {len(data)}")
    magic, _, *shared, name_size, extra, comment, disk, _, _, at = _ENTRY.unpack_from(data, place)
    raw = bytes(data[place + _ENTRY.size : place + _ENTRY.size + name_size])
    if magic != _ENTRY_MAGIC or len(raw) < name_size:
        raise RecordingFileError(f"its directory is damaged at byte {place}")
    what = describe(_shown(raw))
    _, flags, method, _, _, _, stored, size = shared
    if flags & _ENCRYPTED:
        raise RecordingFileError(f"{what} is encrypted")
    if method != zipfile.ZIP_STORED or stored != size:
        raise RecordingFileError(f"{what} is compressed in the zip, which no recording is")
    if not _NAME.fullmatch(raw):
        raise RecordingFileError(f"{what} has a name that no part of a recording has")
    if flags or extra or comment or disk or at != offset:
        raise RecordingFileError(f"{what} is damaged: its directory entry at byte {place} is not one of a recording")
    header = _LOCAL.pack(_LOCAL_MAGIC, *shared, name_size, 0) + raw
    if bytes(data[offset : offset + len(header)]) != header:
        raise RecordingFileError(f"{what} is damaged: its header at byte {offset} contradicts the directory")
    return raw.decode("ascii"), size, place + _ENTRY.size + name_size


def _checked_crc(data: memoryview, name: str, begin: int, end: int) -> int:
    # The CRC stands in the member's own header, which `_entry` compared with the directory.
    expected: int = _LOCAL.unpack_from(data, begin - len(name) - _LOCAL.size)[6]
    found = zlib.crc32(data[begin:end])
    if found != expected:
        raise RecordingFileError(
            f"{describe(name)} is damaged between bytes {begin} and {end}: "
            f"its CRC-32 is {found:08x}, not {expected:08x}"
        )
    return found


def _shown(raw: bytes) -> str:
    """A member's name from an unchecked file, fit for a message."""
    return ascii(raw[:60].decode("latin-1"))[1:-1]

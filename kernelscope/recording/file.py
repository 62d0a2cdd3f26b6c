"""``.kscope`` files: a zip that is written whole or not at all, and read only when nothing is wrong with it."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import secrets
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import pyarrow as pa

import kernelscope
from kernelscope.errors import RecordingFileError
from kernelscope.progress import Progress
from kernelscope.recording.integrity import check_depth, check_metadata, check_table, check_tables
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import (
    Budget,
    ByThread,
    by_thread,
    decode,
    empty_table,
    encode,
    fixed_bytes,
    may_follow,
    table_of_rows,
)
from kernelscope.recording.redact import shareable
from kernelscope.recording.trace_files import importer_of
from kernelscope.registry import loaded
from kernelscope.schema import FEATURE_TABLES, MAX_COUNT, SCHEMA_VERSION, TABLES, UNKNOWN
from kernelscope.suggestions import did_you_mean_file

# The zip around a recording: stored members only, laid end to end, checked byte by byte before they are used.
#
# `zipfile` reads archives that others wrote in their many ways, and skips over much that is wrong with one. A
# recording has exactly one layout, so it is read here against that layout: whatever differs from it is damage or
# intent.

#: The member that says what the others are.
MANIFEST = "manifest.json"
#: Larger files are refused unread. Zip's 32-bit sizes suffice below it.
MAX_FILE_BYTES = 1 << 30
_NO_ZIP = "is not a recording: it does not begin as a zip does"

# APPNOTE.TXT of PKWARE, sections 4.3.7 (local header), 4.3.12 (central directory) and 4.3.16 (end record).
_LOCAL = struct.Struct("<4s5H3L2H")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_LOCAL_MAGIC, _ENTRY_MAGIC, _END_MAGIC = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_NAME = re.compile(rb"[a-z_]{1,40}\.(json|parquet)")
_MAX_MEMBERS = 100
_ENCRYPTED = 1
_CHUNK = 1 << 20
# The same for every file, so that equal recordings give equal bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


class Member(NamedTuple):
    """One member of a zip: its bytes, and their CRC-32."""

    content: memoryview
    crc32: int


def write_members(file: BinaryIO, members: Mapping[str, Any]) -> None:
    """Write the members (bytes, buffers, or files that have them) by name to `file` as a zip, stored and in order."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system = 3
            info.external_attr = 0o644 << 16
            with archive.open(info, "w") as member:
                for chunk in _chunks(content):
                    member.write(chunk)


def _chunks(content: Any) -> Iterator[memoryview]:
    """The bytes of a member; those of a file are not all in memory at once."""
    if not isinstance(content, Path):
        yield memoryview(content)
        return
    with open(content, "rb") as file:
        while chunk := file.read(_CHUNK):
            yield memoryview(chunk)


def _crc32(content: Any) -> int:
    return functools.reduce(lambda found, chunk: zlib.crc32(chunk, found), _chunks(content), 0)


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


def _begins_as_zip(data: bytes | memoryview) -> bool:
    return bytes(data[:4]) == _LOCAL_MAGIC[: len(data)]


def _directory(data: memoryview) -> tuple[int, int]:
    """Where the central directory begins, and how many members it lists."""
    if not len(data):
        raise RecordingFileError("is empty")
    if not _begins_as_zip(data):
        raise RecordingFileError(_NO_ZIP)
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


# A file is a zip of stored members: ``manifest.json`` and one Parquet file a table. The manifest holds the schema's
# version, the version of kernelscope that wrote it, the recording's metadata, and for each table its rows and the
# CRC-32 of its member. Nothing in a file is code, and reading evaluates nothing: the first half of
# this module checks the zip, `kernelscope.recording.parquet` the Parquet pages before they are decoded, and
# `kernelscope.recording.integrity` what they held.

#: The suffix that `save` gives to a name without one.
SUFFIX = ".kscope"
#: A manifest holds versions and names; a larger one was made to harm.
MAX_MANIFEST_BYTES = 4 << 20

_MAX_ROWS = 2**31 - 1


def save(
    recording: Recording,
    path: str | Path,
    *,
    paths: bool = False,
    overwrite: bool = True,
    progress: Progress | None = None,
    mode: int = 0o666,
) -> Path:
    """Write `recording` to a ``.kscope`` file and return its path.

    The file appears whole or not at all: it is written beside its place under another name and then moved there.

    Parameters
    ----------
    recording : Recording
        What to write.
    path : str or Path
        Where to. ``~`` is the home folder, and ``.kscope`` is added to a name without a suffix.
    paths : bool
        Keep full file paths of this machine. Otherwise columns that hold a path keep the file's name only;
        paths in metadata, JSON and messages are cut likewise; and in every text, the source of cells
        included, the home folder reads ``~`` and the working folder ``.`` (see `kernelscope.recording.redact`).
    overwrite : bool
        Whether an existing file may be replaced.
    progress : callable, optional
        Called with a fraction from 0 to 1 and a text, once a table.
    mode : int
        The permissions of the file, without those that the umask takes.

    Raises
    ------
    RecordingFileError
        The folder does not exist or cannot be written, the file exists and `overwrite` is false, or the recording
        contradicts itself and `load` would refuse it.
    """
    target = target_of(path, overwrite)
    recording = shareable(recording, paths=paths)
    tables: Mapping[str, pa.Table] = {name: recording.arrow(name) for name in TABLES}
    members: dict[str, Any] = {}
    followed: dict[str, ByThread] = {}
    try:
        check_tables(tables)
        for name, table in _told(tables, progress):
            followed[name] = by_thread(name, table)
            members[name] = encode(name, table, left_out=followed[name])
    except RecordingFileError as error:
        raise RecordingFileError(f"{target.name} was not written: {error}") from None
    rows = {name: table.num_rows for name, table in tables.items()}
    write_tables(target, members, rows, recording.metadata, followed=followed, overwrite=overwrite, mode=mode)
    if progress:
        progress(1.0, f"wrote {target.name}")
    return target


def write_tables(target: Path, tables: Mapping[str, Any], rows: Mapping[str, int], metadata: Mapping[str, Any], *,
                 followed: Mapping[str, ByThread] = MappingProxyType({}), overwrite: bool,
                 mode: int = 0o666) -> None:
    """Write a ``.kscope`` file from encoded tables, whole or not at all.

    Parameters
    ----------
    target : Path
        Where to, as `target_of` says.
    tables : mapping of str to bytes, buffer or Path
        Each table as `kernelscope.recording.parquet.encode` has it, or the file that has these bytes.
    rows : mapping of str to int
        How many rows each has.
    metadata : mapping
        The recording's metadata.
    followed : mapping of str to mapping, optional
        For tables the columns that they were encoded without: see `kernelscope.recording.parquet.by_thread`.
    overwrite : bool
        Whether an existing file may be replaced.
    mode : int
        The permissions of the file, without those that the umask takes.

    Raises
    ------
    RecordingFileError
        It is too large, its metadata are no JSON or do not fit the schema, or it cannot be written.
    """
    members = {f"{name}.parquet": table for name, table in tables.items()}
    try:
        check_metadata(metadata)
        members = {MANIFEST: _manifest(rows, members, metadata, followed), **members}
        size = sum(member.stat().st_size if isinstance(member, Path) else len(member) for member in members.values())
        Budget(size).take(fixed_bytes(rows), "the recording")
        if size > MAX_FILE_BYTES:
            raise RecordingFileError(f"the recording has {size} bytes; a file holds at most {MAX_FILE_BYTES}")
    except RecordingFileError as error:
        raise RecordingFileError(f"{target.name} was not written: {error}") from None
    _write(target, members, overwrite, mode)


def load(path: str | Path, *, progress: Progress | None = None) -> Recording:
    """Read a ``.kscope`` file, or the trace of another tool, or refuse it.

    A trace of which an installed importer reads the format becomes a recording: ``kernelscope show --help`` says which
    there are. What it is is told by its content, not by its name.

    Parameters
    ----------
    path : str or Path
        The file. ``~`` is the home folder; where there is no file of a name without a suffix, ``.kscope`` is added.
    progress : callable, optional
        Called with a fraction from 0 to 1 and a text, once a table.

    Raises
    ------
    RecordingFileError
        There is no such file; it is no regular file; it is torn or was changed; it is of another schema; it would
        need far more memory than a recording of its size; or what it holds contradicts itself. The message says
        what is wrong and where.
    """
    source = _source(path)
    importer = importer_of(source)
    if importer is not None:
        return loaded(importer.read)(source, progress)
    try:
        content = _content(source)
        members, manifest, budget = _opened(content)
        # Those that the file's schema did not have yet, and those of features that did not record.
        tables = {name: empty_table(name) for name in TABLES if name not in manifest.rows}
        done = 0
        for name, rows in manifest.rows.items():
            member = members[f"{name}.parquet"].content
            if progress:
                progress(done / len(content), f"reading {rows} rows of {name}")
            tables[name] = decode(name, member, rows, budget, manifest.followed[name])
            done += len(member)
        check_tables(tables)
    except RecordingFileError as error:
        raise RecordingFileError(f"{source.name or repr(str(path))}: {error}") from error.__cause__
    if manifest.unread:
        row = {"probe": "recorder", "status": "degraded", "fix": "install the package that has this feature",
               "message": f"not read, since no installed feature has them: tables {', '.join(manifest.unread)}"}
        health = pa.concat_tables([tables["health"], table_of_rows("health", [row])])
        tables["health"] = health.unify_dictionaries().combine_chunks()
    if progress:
        progress(1.0, f"read {source.name}")
    return Recording(tables, manifest.metadata)


def load_cells(path: str | Path) -> Recording:
    """Read the metadata and the table ``cells`` of a ``.kscope`` file: a recording whose other tables are empty.

    The file is checked for damage as a whole, but of its tables ``cells`` alone is decoded: of a file with many
    launches that takes a fraction of the time of `load`. Of another tool's trace it returns all.

    Parameters
    ----------
    path : str or Path
        As for `load`.

    Raises
    ------
    RecordingFileError
        As for `load`; that other tables contradict themselves is not noticed.
    """
    source = _source(path)
    importer = importer_of(source)
    if importer is not None:
        return loaded(importer.read)(source, None)
    try:
        members, manifest, budget = _opened(_content(source))
        cells = decode("cells", members["cells.parquet"].content, manifest.rows["cells"], budget,
                       manifest.followed["cells"])
        check_table("cells", cells, manifest.rows)
    except RecordingFileError as error:
        raise RecordingFileError(f"{source.name or repr(str(path))}: {error}") from error.__cause__
    return Recording({"cells": cells}, manifest.metadata)


def _opened(content: bytes) -> tuple[dict[str, Member], _Manifest, Budget]:
    """The members and the manifest of a file, and what is left of its memory once all rows are counted."""
    members = read_members(memoryview(content))
    manifest = _read_manifest(members)
    check_metadata(manifest.metadata)
    budget = Budget(len(content))
    # All tables are counted before the first is decoded: a refused file must not cost memory.
    budget.take(fixed_bytes(manifest.rows), "the recording")
    return members, manifest, budget


@dataclass(frozen=True)
class _Manifest:
    """What ``manifest.json`` says: metadata, of the schema's tables the rows and `by_thread`, and other tables."""

    metadata: dict[str, Any]
    rows: dict[str, int]
    followed: dict[str, ByThread]
    unread: tuple[str, ...]


#: The name of a table of a feature.
_TABLE_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


def _told(tables: Mapping[str, pa.Table], progress: Progress | None) -> Iterator[tuple[str, pa.Table]]:
    """Yield name and table, and tell before each how far the rows are done."""
    total = sum(table.num_rows for table in tables.values()) or 1
    done = 0
    for name, table in tables.items():
        if progress:
            progress(done / total, f"writing {table.num_rows} rows of {name}")
        yield name, table
        done += table.num_rows


def target_of(path: str | Path, overwrite: bool) -> Path:
    """Return where `save` writes, after what can be known beforehand has been checked."""
    target = _expanded(path)
    if not target.name:
        raise RecordingFileError(f"{str(path)!r} names no file")
    if str(path).endswith(os.sep):
        raise RecordingFileError(f"{str(path)!r} names a folder: add the file's name")
    if not target.suffix:
        target = target.with_name(target.name + SUFFIX)
    if not target.parent.is_dir():
        raise RecordingFileError(f"cannot write {target.name}: there is no folder {target.parent}")
    if target.is_dir():
        raise RecordingFileError(f"cannot write {target}: a folder has that name")
    if not overwrite and os.path.lexists(target):
        raise _exists(target)
    return target


def _exists(target: Path) -> RecordingFileError:
    return RecordingFileError(f"{target} exists; give another name or overwrite=True")


def _write(target: Path, members: Mapping[str, Any], overwrite: bool, mode: int) -> None:
    """Write the members beside `target` and move them there, or leave nothing."""
    partial = target.with_name(f".{target.name[:100]}-{secrets.token_hex(6)}.partial")
    try:
        with open(partial, "xb", opener=functools.partial(os.open, mode=mode)) as file:
            write_members(file, members)
        if overwrite:
            os.replace(partial, target)
        elif os.path.lexists(target):
            raise _exists(target)
        else:
            os.rename(partial, target)
    except BaseException as error:
        # Ctrl-C too: a half-written file may not stay.
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise RecordingFileError(f"cannot write {target}: {error.strerror or error}") from error
        raise


def _manifest(rows: Mapping[str, int], members: Mapping[str, Any], metadata: Mapping[str, Any],
              followed: Mapping[str, ByThread]) -> bytes:
    content: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kernelscope_version": kernelscope.__version__,
        "metadata": dict(metadata),
        "tables": {
            name: {"rows": count, "crc32": _crc32(members[f"{name}.parquet"])} for name, count in rows.items()
        },
    }
    for name, columns in followed.items():
        if columns:
            content["tables"][name]["by_thread"] = {column: ids.tolist() for column, ids in columns.items()}
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordingFileError(f"its metadata are not plain JSON values: {error}") from None
    if len(text) > MAX_MANIFEST_BYTES:
        raise RecordingFileError(f"its metadata have {len(text)} bytes; at most {MAX_MANIFEST_BYTES} are kept")
    check_depth(content, "the manifest")
    return text


def _source(path: str | Path) -> Path:
    source = _expanded(path)
    if source.name and not source.suffix and not os.path.lexists(source):
        return source.with_name(source.name + SUFFIX)
    return source


def _expanded(path: str | Path) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise RecordingFileError(f"cannot tell whose home folder {str(path)!r} means: {error}") from None


def _content(source: Path) -> bytes:
    """Return the file's bytes; only a regular file is opened, since opening a pipe would wait for ever."""
    # What is called like a recording is no trace of which the importer is missing.
    no_trace = "" if source.suffix == SUFFIX else ", and no installed importer reads it"
    try:
        status = source.lstat()
        if stat.S_ISLNK(status.st_mode):
            raise RecordingFileError(f"is a symbolic link; give the file it leads to: {os.readlink(source)}")
        if stat.S_ISDIR(status.st_mode):
            raise RecordingFileError(f"is a folder, not a file{no_trace}")
        if not stat.S_ISREG(status.st_mode):
            raise RecordingFileError("is not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise RecordingFileError(f"has {status.st_size} bytes; a recording has at most {MAX_FILE_BYTES}")
        with open(source, "rb") as file:
            content = file.read(status.st_size)
    except FileNotFoundError:
        near = did_you_mean_file(source, SUFFIX)
        raise RecordingFileError(f"there is no such file in {source.parent.absolute()}{near}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise RecordingFileError(f"cannot be read: {reason or error}") from error
    if not _begins_as_zip(content):
        raise RecordingFileError(f"{_NO_ZIP}{no_trace}")
    return content


def _read_manifest(members: Mapping[str, Member]) -> _Manifest:
    """Return the manifest after it was checked against this schema and against the members that are there."""
    if MANIFEST not in members:
        raise RecordingFileError(f"has no {MANIFEST}: it is a zip, but not a recording")
    text = members[MANIFEST].content
    if len(text) > MAX_MANIFEST_BYTES:
        raise RecordingFileError(f"the manifest has {len(text)} bytes, more than {MAX_MANIFEST_BYTES}")
    content = _parsed(bytes(text))
    version: Any = content.get("schema_version")
    if not _is_count(version) or version < 1:
        raise RecordingFileError(f"the manifest gives {_short(version)} as its schema_version, not a number from 1 on")
    if version > SCHEMA_VERSION:
        raise RecordingFileError(
            f"written with schema {version} by kernelscope {_short(content.get('kernelscope_version'))}, "
            f"this kernelscope reads up to {SCHEMA_VERSION}: upgrade it"
        )
    metadata, listed = content.get("metadata"), content.get("tables")
    if not isinstance(metadata, dict) or not isinstance(listed, dict):
        raise RecordingFileError("the manifest has no metadata or no tables")
    listed = cast("dict[str, Any]", listed)
    # A file may lack the tables of a feature, and have those of a feature that is not installed here.
    tables = [name for name, table in TABLES.items()
              if table.since <= version and (name in listed or name not in FEATURE_TABLES)]
    _check_members(members, listed, tables)
    rows = {name: _rows(name, listed[name], members) for name in tables}
    unread = tuple(sorted(set(listed) - set(tables)))
    for name in unread:
        _rows(name, listed[name], members)
    return _Manifest(cast("dict[str, Any]", metadata), rows, {name: _followed(name, listed[name]) for name in tables},
                     unread)


def _check_members(members: Mapping[str, Member], listed: Mapping[str, Any], tables: Sequence[str]) -> None:
    for name in tables:
        if name not in listed:
            raise RecordingFileError(f"table {name!r} is missing in the manifest")
    for name in listed:
        if f"{name}.parquet" not in members:
            raise RecordingFileError(f"table {_short(name)} is missing")
    unknown = sorted({*members} - {MANIFEST} - {f"{name}.parquet" for name in listed})
    unknown += sorted(name for name in listed if name not in tables and not _TABLE_NAME.fullmatch(name))
    if unknown:
        raise RecordingFileError(f"holds {_short(unknown[0])}, which is no part of a recording")


def _rows(name: str, entry: Any, members: Mapping[str, Member]) -> int:
    """How many rows a table has, after its CRC-32 was compared with its member's."""
    fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    rows, crc = fields.get("rows", -1), fields.get("crc32", -1)
    if not _is_count(rows) or not _is_count(crc) or rows > _MAX_ROWS:
        raise RecordingFileError(f"the manifest gives table {name!r} {_short(entry)}, not its rows and CRC-32")
    if members[f"{name}.parquet"].crc32 != crc:
        raise RecordingFileError(f"{describe(f'{name}.parquet')} is not the one that the manifest was written for")
    return rows


def _followed(name: str, entry: Mapping[str, Any]) -> ByThread:
    """Columns of a table that the manifest has by thread: their ids, of which it is not known yet what they name."""
    given: Any = entry.get("by_thread", {})
    columns: dict[str, Any] = given if isinstance(given, dict) else {"": given}
    for column, ids in columns.items():
        if column not in may_follow(name) or not isinstance(ids, list) or not ids or not all(
                type(each) is int and UNKNOWN <= each <= MAX_COUNT for each in cast("list[Any]", ids)):
            raise RecordingFileError(f"the manifest gives table {name!r} by thread {_short({column: ids})}, not ids")
    return {column: np.array(ids, np.int32) for column, ids in columns.items()}


def _parsed(text: bytes) -> dict[str, Any]:
    """The manifest's JSON: an object of bounded depth, whose keys are distinct and whose numbers are finite."""
    try:
        content: Any = json.loads(
            text.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_finite, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise RecordingFileError(f"the manifest is not valid JSON: {_short(str(error))}") from None
    check_depth(content, "the manifest")
    if not isinstance(content, dict):
        raise RecordingFileError("the manifest is not a JSON object")
    return cast("dict[str, Any]", content)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return content


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is not finite")
    return value


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _short(value: Any) -> str:
    """A value from the file for a message: what a hostile file says may not flood a terminal."""
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."

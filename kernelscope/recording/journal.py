"""Journals: finding what processes that died left behind, and making a `Recording` of it."""

from __future__ import annotations

import json
import math
import os
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from kernelscope.errors import JournalError, RecordingFileError
from kernelscope.native import journal
from kernelscope.native.journal import (
    COUNTERS,
    COUNTERS_AT,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MAX_ROW_BYTES,
    MOST_BEHIND,
    ROW,
    ROW_MAGIC,
    SLOT_BYTES,
    SLOT_VERSION,
    opened,
)
from kernelscope.native.record import BOUNDARIES, LAYOUT
from kernelscope.recording.build import COLLECTION, LAUNCH_COLUMNS, RawCollections, RawRecording, build
from kernelscope.recording.columns import SITE, at_sites
from kernelscope.recording.integrity import check_depth, check_tables, fitting_metadata
from kernelscope.recording.model import Recording
from kernelscope.recording.ranges import RawRanges
from kernelscope.schema import (
    JSON_COLUMNS,
    MAX_HANDLE,
    MODES,
    RECORD_TIMES,
    SCHEMA_VERSION,
    TABLES,
    UNFINISHED,
    UNKNOWN,
    Column,
)
from kernelscope.units import counted, listed

# The rows of a journal: small tables as JSON, one record a row, each with its length and CRC.
#
# Records that are torn or garbled are skipped up to the next one that begins with the magic number, and are counted.
# Values are taken as the schema has them and in no other way, and nothing is evaluated.

Row = dict[str, Any]

#: More is not read: rows are few beside launches.
MAX_BYTES = 1 << 30

_IDS = ("dispatcher_id", "specialization_id", "device_id")
#: Lists of the recorder that are no tables of a recording.
_OWN = {
    "targets": (*(Column(name, "int32", "id", "", nullable=True) for name in _IDS),
                Column("error", "string", "text", "", nullable=True)),
    "range_labels": tuple(Column(name, "string", "text", "", nullable=True)
                          for name in ("name", "domain", "category", "color", "payload", "source")),
    "sites": tuple(Column(name, "int32", "id", "", nullable=True) for name in SITE),
}
#: What the rows of a journal may be of; a table comes after those that its rows name.
ROW_TABLES = ("cells", "threads", "lines", "stacks", "sites", "devices", "dispatchers", "configurations",
              "specializations", "targets", "compilations", "passes", "occupancies", "builds", "range_labels", "health")
_MAGIC = ROW_MAGIC.to_bytes(4, "little")
_LIMITS = {"int32": 1 << 31, "int64": 1 << 63}
#: How often all bytes may be looked at: garbage may hold the magic number at every fourth.
_MAX_PASSES = 8


@dataclass
class RowFile:
    """What a rows file holds.

    Attributes
    ----------
    tables : dict of str to dict of int to dict
        The newest row of each number, by table.
    ranges : list of float
        NVTX events, four values each.
    collections : list of int
        Garbage collections, six values each.
    records : int
        Records that were whole.
    damaged : int
        Places at which something was skipped.
    skipped_bytes : int
        How much that was.
    """

    tables: dict[str, dict[int, Row]] = field(default_factory=lambda: {name: {} for name in ROW_TABLES})
    ranges: list[float] = field(default_factory=list)
    collections: list[int] = field(default_factory=list)
    records: int = 0
    damaged: int = 0
    skipped_bytes: int = 0


def read_rows(path: Path) -> RowFile:
    """Return the rows of a rows file; those of one that is not there are none.

    Raises
    ------
    JournalError
        It cannot be read.
    """
    found = RowFile()
    try:
        with opened(path) as file:
            size = os.fstat(file).st_size
            with os.fdopen(os.dup(file), "rb") as reader:
                data = reader.read(MAX_BYTES)
    except FileNotFoundError:
        return found
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror or error}") from None
    used = 0
    for payload in _payloads(data, found):
        used += ROW.size + len(payload)
        if not _take(payload, found):
            found.damaged += 1
    found.skipped_bytes = max(size - used, 0)
    if size > len(data):
        found.damaged += 1
    return found


def load_json(text: bytes) -> Any:
    """Return what a JSON text says, in plain and well-formed values.

    Raises
    ------
    ValueError
        It is no JSON, or is nested too deeply.
    """
    try:
        value: Any = json.loads(text.decode(), parse_constant=lambda _: None)
        check_depth(value, "it")
    except (ValueError, RecursionError, RecordingFileError) as error:
        raise ValueError(str(error)) from None
    return _well_formed(value)


def cleaned(table: str, row: Mapping[str, Any]) -> Row:
    """Return what a row has of the table's columns, where it is of the column's type."""
    columns = _OWN.get(table) or TABLES[table].columns
    found = {column.name: _value(column, row.get(column.name)) for column in columns}
    return {name: value for name, value in found.items() if value is not None}


def _payloads(data: bytes, found: RowFile) -> Iterator[bytes]:
    at, size, budget = 0, len(data), _MAX_PASSES * len(data) + MAX_ROW_BYTES
    while at < size:
        payload = None
        if data.startswith(_MAGIC, at) and at + ROW.size <= size:
            _, length, crc, _ = ROW.unpack_from(data, at)
            first = at + ROW.size
            if length <= MAX_ROW_BYTES and first + length <= size:
                budget -= length
                payload = data[first:first + length]
                if zlib.crc32(payload) != crc:
                    payload = None
        if payload is not None:
            found.records += 1
            yield payload
            at += ROW.size + len(payload)
            continue
        found.damaged += 1
        following = data.find(_MAGIC, at + 1) if budget > 0 else -1
        if following < 0:
            return
        at = following


def _take(payload: bytes, found: RowFile) -> bool:
    """Keep what a record says; return whether it could be understood."""
    try:
        record = load_json(payload)
    except ValueError:
        return False
    if not isinstance(record, dict):
        return False
    held = cast("dict[str, Any]", record)
    table, number, row = held.get("t"), held.get("i"), held.get("r")
    if table == "ranges":
        return _take_ranges(held.get("v"), found)
    if table == "collections":
        return _take_collections(held.get("v"), found)
    if not (isinstance(table, str) and table in ROW_TABLES and isinstance(row, dict)):
        return False
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 31:
        return False
    found.tables[table][number] = cleaned(table, cast("Row", row))
    return True


def _take_ranges(values: Any, found: RowFile) -> bool:
    if not isinstance(values, list):
        return False
    listed = cast("list[Any]", values)
    numbers = [value for value in listed if isinstance(value, int | float) and not isinstance(value, bool)]
    # Times are in seconds, the others counts: both are far below this.
    if len(listed) % 4 or len(numbers) != len(listed) or not all(abs(value) < 1e9 for value in numbers):
        return False
    found.ranges.extend(float(value) for value in numbers)
    return True


def _take_collections(values: Any, found: RowFile) -> bool:
    if not isinstance(values, list):
        return False
    listed = cast("list[Any]", values)
    if len(listed) % len(COLLECTION) or not all(_is_int(each, MAX_HANDLE) and each >= UNKNOWN for each in listed):
        return False
    found.collections.extend(listed)
    return True


def _value(column: Column, value: Any) -> Any:
    """The value where it is of the column's type, else None."""
    if column.dtype in _LIMITS:
        if column.unit == "ns" and not (_is_int(value, MAX_NS) and value >= 0):
            return None
        return value if _is_int(value, _LIMITS[column.dtype]) and not (value == UNKNOWN and column.nullable) else None
    if column.dtype == "bool":
        return value if isinstance(value, bool) else None
    if column.dtype == "float64":
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number and abs(value) < 1e300 and math.isfinite(value) else None
    if not isinstance(value, str) or (column.name in JSON_COLUMNS and not _is_object(value)):
        return None
    return value


def _is_int(value: Any, limit: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _is_object(text: str) -> bool:
    try:
        return isinstance(load_json(text.encode()), dict)
    except ValueError:
        return False


def _well_formed(value: Any) -> Any:
    """The same without half characters, which no file can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_well_formed(key): _well_formed(each) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_well_formed(each) for each in cast("list[Any]", value)]
    return value


# The launches of a journal: a file of 64-byte slots, of which each says by itself whether it was written whole.
#
# Nothing is believed but what a slot's own check confirms: the process was killed in the middle of its work, and
# the file may have been cut off or changed since. Slots are checked by the million, vectorized.

SLOT = np.dtype(LAYOUT)
#: Kinds of slot: of a launch that could not be recorded after all, of a launch.
VOIDED, LAUNCH = 0, 1
UNDER_WAY = np.uint64(1 << 63)
#: A journal of more is refused: no recording of that many launches fits into memory.
MAX_SLOTS = 1 << 28
#: Instants of a host clock are below this, 36 years after it began to count.
MAX_NS = 1 << 60

_AT_ONCE = 1 << 16
#: A counter beyond this is a damaged one.
_MAX_COUNT = 1 << 40
_CHECKED_OF_LAST = np.uint64(0xFFFF_FFFF_FFFF)


@dataclass(frozen=True)
class Slots:
    """What a slots file holds.

    Attributes
    ----------
    mode : str or None
        grow, ring or stop; None where the header is damaged there.
    capacity : int or None
        Launches that are kept at most.
    pid : int
        The process that wrote it.
    launches : dict of str to ndarray
        ``sequence``, ``site``, ``target``, ``configuration``, ``start_ns``, the boundaries and ``end_ns``, in order
        of begin; -1 where unknown.
    is_open : ndarray of bool
        Which of them had begun and not returned.
    damaged : int
        Slots that were written to and are not whole.
    repeated : int
        Slots that hold a launch which another holds too.
    missing : int
        Launches that began and are not here: torn, cut off, or not written before the process died.
    lost : int
        Launches that were not kept: overwritten in mode ring, too many for mode stop, or without memory.
    notes : tuple of str
        What is wrong with the file.
    """

    mode: str | None
    capacity: int | None
    pid: int
    launches: dict[str, np.ndarray]
    is_open: np.ndarray
    damaged: int
    repeated: int
    missing: int
    lost: int
    notes: tuple[str, ...]


def read_slots(path: Path) -> Slots:
    """Return the launches of a slots file.

    Raises
    ------
    JournalError
        It cannot be read, is none, is of another version, or is far too large.
    """
    try:
        with opened(path) as file:
            size = os.fstat(file).st_size
            return _read(path, file, size)
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror or error}") from None


def slot_checks(slots: np.ndarray) -> np.ndarray:
    """Return what the field ``check`` of each slot must be."""
    words = slots.view("<u8").reshape(-1, SLOT_BYTES // 8)
    is_open = (words[:, 0] & UNDER_WAY) != 0
    state = np.zeros(len(slots), np.uint64)
    for place in range(words.shape[1]):
        word = words[:, place]
        if 2 <= place <= len(RECORD_TIMES):  # the times after the first
            word = np.where(is_open, np.uint64(0xFFFF_FFFF_FFFF_FFFF), word)
        elif place == words.shape[1] - 1:
            word = word & _CHECKED_OF_LAST
        state = (state << np.uint64(9) | state >> np.uint64(55)) ^ word
    state ^= state >> np.uint64(32)
    state ^= state >> np.uint64(16)
    return (state & np.uint64(0xFFFF)).astype(np.uint16)


def _read(path: Path, file: int, size: int) -> Slots:
    header = os.pread(file, HEADER_BYTES, 0)
    if len(header) < COUNTERS_AT + COUNTERS.size:
        raise JournalError(f"{path} is cut off at byte {len(header)}, within its header: no launch is in it")
    magic, version, slot_bytes, _, mode, capacity, pid, _ = HEADER.unpack_from(header)
    if magic != MAGIC:
        raise JournalError(f"{path} is no journal of launches: it begins with {magic[:16]!a}, not {MAGIC!a}")
    if version != SLOT_VERSION or slot_bytes != SLOT_BYTES:
        raise JournalError(
            f"{path} has slots of version {version} and {slot_bytes} bytes; this KernelScope reads version "
            f"{SLOT_VERSION} of {SLOT_BYTES} bytes: recover it with the KernelScope that wrote it, whose version is in "
            "journal.json")
    rest = max(size - HEADER_BYTES, 0)
    if rest // SLOT_BYTES > MAX_SLOTS:
        raise JournalError(f"{path} has room for {rest // SLOT_BYTES:,} launches; at most {MAX_SLOTS:,} are read")
    counted, lost = COUNTERS.unpack_from(header, COUNTERS_AT)
    notes = [f"the slots are cut off at byte {size}, within a slot"] if rest % SLOT_BYTES else []
    parts: list[np.ndarray] = []
    places: list[np.ndarray] = []
    damaged = voided = 0
    for first, block in _blocks(file, rest // SLOT_BYTES):
        block, found = _whole(block)
        are_launches = block["kind"][found] == LAUNCH
        damaged += int(block.view("<u8").reshape(-1, SLOT_BYTES // 8).any(axis=1).sum()) - len(found)
        voided += int((~are_launches).sum())
        found = found[are_launches]
        parts.append(block[found])
        places.append(found + first)
    slots = np.concatenate(parts) if parts else np.empty(0, SLOT)
    place = np.concatenate(places) if places else np.empty(0, np.int64)
    slots, place, strange = _plausible(slots, place, counted)
    slots, repeated = _once(slots, place)
    if counted < _last(slots) <= counted + MOST_BEHIND:
        counted = _last(slots)
    is_known = mode < len(MODES)
    if not is_known or max(counted, lost) > _MAX_COUNT or counted < _last(slots):
        notes.append("the header is damaged: how many launches began is not known")
        missing = lost = 0
    else:
        overwritten = max(counted - capacity, 0) if MODES[mode] == "ring" and capacity else 0
        lost += overwritten
        missing = max(counted - overwritten - voided - len(slots), 0)
    return Slots(
        mode=MODES[mode] if is_known else None, capacity=capacity or None, pid=pid, launches=_columns(slots),
        is_open=(slots["sequence"] & UNDER_WAY) != 0, damaged=damaged + strange, repeated=repeated, missing=missing,
        lost=lost, notes=tuple(notes))


def _blocks(file: int, count: int) -> Iterator[tuple[int, np.ndarray]]:
    """All slots, a part at a time, with the number of its first; what is cut off meanwhile is left out."""
    for first in range(0, count, _AT_ONCE):
        wanted = min(_AT_ONCE, count - first) * SLOT_BYTES
        data = os.pread(file, wanted, HEADER_BYTES + first * SLOT_BYTES)
        if data:
            yield first, np.frombuffer(data[:len(data) // SLOT_BYTES * SLOT_BYTES], SLOT)
        if len(data) < wanted:
            return


def _whole(slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slots, and the places of those whose check is right and whose times are possible."""
    used = np.flatnonzero((slots["sequence"] & ~UNDER_WAY) != 0)
    is_right = slot_checks(slots[used]) == slots["check"][used]
    wrong = used[~is_right]
    if len(wrong):
        # A launch that ends writes its times, then the check, then the sequence number: it may have died before that.
        ended = slots[wrong]
        ended["sequence"] &= ~UNDER_WAY
        is_ended = slot_checks(ended) == ended["check"]
        if is_ended.any():
            slots = slots.copy()
            slots[wrong[is_ended]] = ended[is_ended]
            is_right[~is_right] = is_ended
    used = used[is_right]
    found = slots[used]
    start, end = found["start_ns"], found["end_ns"]
    is_open = (found["sequence"] & UNDER_WAY) != 0
    ended = (end == UNKNOWN) | ((end >= start) & (end < MAX_NS))
    is_launch = (start >= 0) & (start < MAX_NS) & (is_open | ended) & (found["kind"] == LAUNCH)
    return slots, used[is_launch | ((found["kind"] == VOIDED) & ~is_open)]


def _plausible(slots: np.ndarray, place: np.ndarray, counted: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Those that the header counts, or that are where they belong; garbage has a right check once in 65,536 times."""
    index = (slots["sequence"] & ~UNDER_WAY) - np.uint64(1)
    good = (index < np.uint64(min(counted, _MAX_COUNT))) | (index == place.astype(np.uint64))
    if good.sum() * 2 < len(good):  # then it is the header that is wrong
        good = index < np.uint64(_MAX_COUNT)
    return slots[good], place[good], int((~good).sum())


def _once(slots: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, int]:
    """Each launch once, in order of begin: of several the one that has returned, then the one in its place."""
    index = (slots["sequence"] & ~UNDER_WAY) - np.uint64(1)
    is_open = (slots["sequence"] & UNDER_WAY) != 0
    order = np.lexsort((index != place.astype(np.uint64), is_open, index))
    index = index[order]
    first = np.ones(len(index), bool)
    first[1:] = index[1:] != index[:-1]
    return slots[order[first]], int((~first).sum())


def _last(slots: np.ndarray) -> int:
    return int(slots["sequence"][-1] & ~UNDER_WAY) if len(slots) else 0


def _columns(slots: np.ndarray) -> dict[str, Any]:
    """Columns of their own memory; a boundary that is not in order is unknown."""
    is_open = (slots["sequence"] & UNDER_WAY) != 0
    columns: dict[str, Any] = {
        "sequence": (slots["sequence"] & ~UNDER_WAY).astype(np.int64),
        **{name: slots[name].astype(np.int32) for name in ("site", "target", "configuration")},
        "start_ns": slots["start_ns"].astype(np.int64),
        "end_ns": np.where(is_open, UNKNOWN, slots["end_ns"]).astype(np.int64),
    }
    latest = np.where(columns["end_ns"] == UNKNOWN, MAX_NS, columns["end_ns"])
    before = columns["start_ns"]
    for name in BOUNDARIES:
        values = slots[name].astype(np.int64)
        values = np.where((values >= before) & (values <= latest), values, UNKNOWN)
        columns[name] = values
        before = np.maximum(before, values)
    return columns


# Ids of a journal, made to hold: rows are numbered anew, and ids whose row was lost lead to "unknown" instead.

#: What stands for a row that was lost, in the tables that must have one for each id.
_STAND_INS: dict[str, Row] = {
    "threads": {"ident": 0, "name": "unknown"},
    "dispatchers": {"framework": "unknown", "name": "unknown"},
    "configurations": {},
    "targets": {"dispatcher_id": UNKNOWN, "specialization_id": UNKNOWN, "device_id": UNKNOWN, "error": None},
    "lines": {"file": "unknown", "line": 0, "user_code": False},
    "sites": dict.fromkeys(SITE, UNKNOWN),
    "range_labels": {"name": "unknown", "domain": None, "category": None, "color": None, "payload": None},
}
#: Columns that name a row, by table: the table that the row is in, and whether null will do where it is lost.
_REFERENCES: dict[str, dict[str, tuple[str, bool]]] = {
    "specializations": {"dispatcher_id": ("dispatchers", False)},
    "targets": {"dispatcher_id": ("dispatchers", False), "specialization_id": ("specializations", True),
                "device_id": ("devices", True)},
    "stacks": {"parent_stack_id": ("stacks", True), "line_id": ("lines", False)},
    "sites": {"thread_id": ("threads", False), "line_id": ("lines", True), "stack_id": ("stacks", True)},
    "compilations": {"dispatcher_id": ("dispatchers", False), "thread_id": ("threads", False),
                     "line_id": ("lines", True), "stack_id": ("stacks", True),
                     "specialization_id": ("specializations", True), "configuration_id": ("configurations", True)},
    "passes": {"compilation_id": ("compilations", True), "specialization_id": ("specializations", True)},
    "occupancies": {"specialization_id": ("specializations", True), "configuration_id": ("configurations", True),
                    "device_id": ("devices", True)},
    "builds": {"thread_id": ("threads", False), "nearest_build_id": ("builds", True)},
}
#: Found by the builder, whatever a journal says.
_DERIVED = {"cell_id", "launch_id", "compilation_id", "parent_launch_id", "build_id"}


@dataclass(frozen=True)
class KnownIds:
    """Rows whose ids lead to one another.

    Attributes
    ----------
    tables : dict of str to list of dict
        Rows by table, numbered without gaps.
    ranges : RawRanges
        NVTX events.
    unfinished : list of str
        The kernels of the launches under way, in order of begin.
    unknown : int
        Ids whose row was lost.
    """

    tables: dict[str, list[Row]]
    ranges: RawRanges
    unfinished: list[str]
    unknown: int


def with_known_ids(launches: dict[str, Any], is_open: np.ndarray, rows: RowFile) -> KnownIds:
    """Return the rows numbered anew, and translate the launches' ids: ``site`` becomes the columns of `SITE`.

    Parameters
    ----------
    launches : dict of str to ndarray
        As in `kernelscope.recording.journal.Slots`.
    is_open : ndarray of bool
        Which launches had not returned: they get targets of their own, with the error "unfinished".
    rows : RowFile
        The journal's rows by the numbers that launches and other rows name them by.
    """
    numbering = _Numbering(rows)
    sites = numbering.translated("sites", launches.pop("site", launches["target"]))
    launches |= at_sites(sites, numbering.tables["sites"])
    lost = launches["thread_id"] == UNKNOWN
    if lost.any():
        launches["thread_id"] = np.where(lost, numbering.place("threads", None), launches["thread_id"])
    launches["configuration"] = numbering.translated("configurations", launches["configuration"])
    launches["target"] = numbering.translated("targets", launches["target"])
    ranges = numbering.ranges(rows.ranges)
    targets = numbering.tables["targets"]
    kernels: list[str] = []
    for at in np.flatnonzero(is_open).tolist():
        held = targets[int(launches["target"][at])]
        targets.append({**held, "error": UNFINISHED})
        launches["target"][at] = len(targets) - 1
        kernels.append(str(numbering.tables["dispatchers"][held["dispatcher_id"]]["name"]))
    return KnownIds(numbering.tables, ranges, kernels, numbering.unknown)


class _Numbering:
    """Numbers rows table by table; stand-ins are made where they are needed."""

    def __init__(self, rows: RowFile) -> None:
        self.tables: dict[str, list[Row]] = {}
        self.unknown = 0
        self._places: dict[str, dict[int, int]] = {}
        self._stand_ins: dict[str, int] = {}
        for table in ROW_TABLES:
            kept = {number: row for number in sorted(rows.tables[table])
                    if (row := _complete(table, rows.tables[table][number])) is not None}
            self._places[table] = {number: place for place, number in enumerate(kept)}
            self.tables[table] = list(kept.values())
            self.tables[table] = [row for at, row in enumerate(self.tables[table]) if self._follows(table, at, row)]

    def place(self, table: str, number: int | None, *, may_be_null: bool = False) -> int:
        """The row's place; -1 or that of the stand-in where it was lost."""
        found = UNKNOWN if number is None else self._places[table].get(number, UNKNOWN)
        if found != UNKNOWN or (may_be_null and number in (None, UNKNOWN)):
            return found
        # A launch of Triton under way has no configuration before its grid is known.
        self.unknown += (table, number) != ("configurations", UNKNOWN)
        if may_be_null:
            return UNKNOWN
        if table not in self._stand_ins:
            row = dict(_STAND_INS[table])
            for column, named in (("dispatcher_id", "dispatchers"), ("thread_id", "threads")):
                if column in row:
                    row[column] = self.place(named, None)
                    self.unknown -= 1
            self._stand_ins[table] = len(self.tables[table])
            self.tables[table].append(row)
        return self._stand_ins[table]

    def translated(self, table: str, numbers: np.ndarray) -> np.ndarray:
        """The places of the rows that a column names."""
        known, which = np.unique(numbers, return_inverse=True)
        places = np.array([self.place(table, number) for number in known.tolist()], np.int32)
        return places[which] if len(numbers) else np.empty(0, np.int32)

    def ranges(self, values: list[float]) -> RawRanges:
        """NVTX events with the places of their labels and sites; those of no kind that there is are left out."""
        events = np.array(values, np.float64).reshape(-1, 4)
        events = events[(events[:, 1:] >= UNKNOWN).all(axis=1) & (events[:, 1] >= 0)]
        events[:, 2] = self.translated("range_labels", events[:, 2].astype(np.int64))
        events[:, 3] = self.translated("sites", events[:, 3].astype(np.int64))
        return RawRanges(events, self.tables["range_labels"], sites=self.tables["sites"])

    def _follows(self, table: str, at: int, row: Row) -> bool:
        """Give a row's ids their new numbers; return whether the row can be kept."""
        for column, (named, may_be_null) in _REFERENCES.get(table, {}).items():
            is_any = table == "sites" and row.get(column) == UNKNOWN  # of a call of the driver: no launch's
            place = self.place(named, row.get(column), may_be_null=may_be_null or is_any)
            if named == table == "stacks" and place >= at:  # no recorder writes a frame before the one that called it
                place = UNKNOWN
            row[column] = None if place == UNKNOWN and table not in _OWN else place
        return table != "occupancies" or None not in (row[column] for column in _REFERENCES[table])


def _complete(table: str, row: Row) -> Row | None:
    """The row with what it must have; None where that cannot be made up."""
    if table in _OWN:
        return {**_STAND_INS[table], **({"name": ""} if table == "range_labels" else {}), **row}
    made = dict(row)
    for column in TABLES[table].columns:
        if column.nullable or column.name in made or column.name in _REFERENCES.get(table, {}):
            continue
        if column.name in _DERIVED or (table != "occupancies" and column is TABLES[table].columns[0]
                                       and column.name.endswith("_id")):
            continue
        if table == "cells" and column.name in ("end_ns", "status"):
            continue
        if column.dtype in ("string", "category") and not column.is_enumeration:
            made[column.name] = "unknown"
        elif (table, column.name) == ("threads", "ident"):
            made[column.name] = 0
        else:
            return None
    return {name: value for name, value in made.items() if name not in _DERIVED or name in _REFERENCES.get(table, {})}


# A journal is a folder in which the recorder writes each launch and each row as it happens. What is found there
# is material and nothing more: each slot and each row is taken only where its own check confirms it, ids that
# lead nowhere become "unknown", and everything that was skipped is said in ``health``.

#: A ``journal.json`` holds versions and names; a larger one was made to harm.
MAX_FACTS_BYTES = 4 << 20

_NO_SLOTS = Slots(mode=None, capacity=None, pid=0, launches={}, is_open=np.empty(0, bool), damaged=0, repeated=0,
                  missing=0, lost=0, notes=())


@dataclass(frozen=True)
class Journal:
    """A journal that was found.

    Attributes
    ----------
    folder : Path
        Where it is.
    is_live : bool
        Whether a process still writes to it.
    pid : int or None
        The process that made it.
    created : str or None
        When: ISO, in UTC.
    recording : str
        What its recording is called; an empty string where it was given no name.
    launches, unfinished, missing, lost : int
        Launches that returned; that had begun and not returned; that had begun and cannot be read; that mode ring or
        stop did not keep.
    kernels : tuple of str
        The kernels of the unfinished launches.
    cells : int
        Cells that had begun.
    size_bytes : int
        What its files take on the disk.
    problem : str or None
        Why it cannot be recovered.
    """

    folder: Path
    is_live: bool
    pid: int | None
    created: str | None
    recording: str
    launches: int
    unfinished: int
    missing: int
    lost: int
    kernels: tuple[str, ...]
    cells: int
    size_bytes: int
    problem: str | None = None

    @property
    def name(self) -> str:
        """Its folder's name."""
        return self.folder.name


def find_journals(base: str | Path | None = None) -> list[Journal]:
    """Return the journals in a folder, the oldest first.

    Parameters
    ----------
    base : str or Path, optional
        A folder of journals, or one journal; without it the folder that recordings use unless asked otherwise.

    Raises
    ------
    JournalError
        `base` was given and is no folder, or cannot be read.
    """
    folder = journal.default_folder() if base is None else Path(base).expanduser()
    try:
        if is_journal(folder):
            return [look(folder)]
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        if base is None and isinstance(error, FileNotFoundError):
            return []
        raise JournalError(f"{folder} cannot be read: {error.strerror or error}") from None
    return [look(folder / name) for name in names if is_journal(folder / name)]


def is_journal(folder: Path) -> bool:
    """Return whether a folder has the files of a journal."""
    return any(_regular(folder / name) for name in (journal.FACTS, journal.SLOTS))


def look(folder: Path) -> Journal:
    """Return what a journal holds, in numbers."""
    facts, slots, rows, problem = _facts(folder), _NO_SLOTS, RowFile(), None
    try:
        _check_format(folder, facts)
        slots, rows = _slots(folder), read_rows(folder / journal.ROWS)
    except JournalError as error:
        problem = str(error)
    unfinished, pid = int(slots.is_open.sum()), _pid(folder, facts, slots)
    return Journal(
        folder=folder, is_live=not journal.is_free(folder, pid, _text(facts, "boot_id")), pid=pid,
        created=_text(facts, "created"), recording=_text(facts, "name") or "",
        launches=len(slots.is_open) - unfinished, unfinished=unfinished, missing=slots.missing, lost=slots.lost,
        kernels=_kernels(slots, rows), cells=len(rows.tables["cells"]), size_bytes=_size(folder), problem=problem)


def read_journal(folder: str | Path) -> Recording:
    """Return what a journal holds as a recording; the journal stays as it is.

    Launches that had begun and not returned have no end, and the error "unfinished". ``metadata["recovered"]`` says
    where it is from and what was not whole.

    Raises
    ------
    JournalError
        There is no journal there, it cannot be read, or it is of another version.
    """
    folder = Path(folder).expanduser()
    if not is_journal(folder):
        raise JournalError(f"{folder} is no journal: it has neither {journal.FACTS} nor {journal.SLOTS}")
    facts = _facts(folder)
    _check_format(folder, facts)
    slots, rows = _slots(folder), read_rows(folder / journal.ROWS)
    raw = _raw(folder, slots, rows, facts)
    try:
        recording = build(raw)
        check_tables({name: recording.arrow(name) for name in TABLES})
    # Checksums are right, and yet it contradicts itself: somebody made it so.
    except (RecordingFileError, ValueError, OverflowError, LookupError, TypeError, pa.ArrowException) as error:
        raise JournalError(f"{folder} contradicts itself: {type(error).__name__}: {error}") from None
    return recording


def remove_journal(folder: Path) -> None:
    """Remove a journal that nobody writes to: its own files, and its folder where nothing else is in it.

    Raises
    ------
    JournalError
        A process still writes to it, or something cannot be removed.
    """
    with journal.claimed(folder) as is_free:
        if not is_free:
            raise JournalError(f"{folder} is still being written, or is locked: it was not removed")
        try:
            with os.scandir(folder) as entries:
                files = [entry.path for entry in entries if entry.name in journal.FILES]
            for path in files:
                os.unlink(path)
            os.rmdir(folder)
        except OSError as error:
            raise JournalError(f"{folder} was not removed: {error.strerror or error}") from None


def _raw(folder: Path, slots: Slots, rows: RowFile, facts: Row) -> RawRecording:
    launches = dict(slots.launches) or {name: np.empty(0, np.int64) for name in LAUNCH_COLUMNS}
    ids = with_known_ids(launches, slots.is_open, rows)
    held = ids.tables
    cells = _cells(held["cells"], _latest(launches, held, rows))
    pid = _pid(folder, facts, slots)
    recovered = {
        "journal": folder.name, "pid": pid, "launches": int((~slots.is_open).sum()),
        "unfinished": dict(Counter(ids.unfinished)), "missing": slots.missing, "lost": slots.lost,
        "damaged_slots": slots.damaged, "repeated_slots": slots.repeated, "damaged_rows": rows.damaged,
        "skipped_bytes": rows.skipped_bytes, "unknown_ids": ids.unknown, "mode": slots.mode, "notes": [*slots.notes],
    }
    return RawRecording(
        launches={name: launches[name] for name in LAUNCH_COLUMNS}, ranges=ids.ranges, cells=cells,
        health=[*held["health"], _health(recovered, bool(facts))],
        targets=held["targets"], threads=held["threads"], lines=held["lines"], stacks=held["stacks"],
        dispatchers=held["dispatchers"], specializations=held["specializations"], configurations=held["configurations"],
        devices=held["devices"], compilations=held["compilations"], passes=held["passes"],
        occupancies=held["occupancies"], builds=held["builds"],
        collections=RawCollections(np.array(rows.collections, np.int64).reshape(-1, len(COLLECTION)), are_all=False),
        metadata={**_metadata(facts, pid),
                  "simulator": any(row["framework"] == "simulator" for row in held["dispatchers"]),
                  "recorder": {"mode": slots.mode or "grow", "capacity": slots.capacity,
                               "kept": len(slots.is_open), "lost": slots.lost + slots.missing},
                  "recovered": recovered})


def _health(recovered: Mapping[str, Any], has_facts: bool) -> Row:
    """What was recovered, skipped and damaged."""
    unfinished: dict[str, int] = recovered["unfinished"]
    mode, skipped = f"(mode {recovered['mode']})", f"damaged, {counted(recovered['skipped_bytes'], 'byte')} skipped"
    parts = [f"recovered {counted(recovered['launches'], 'launch', 'launches')} of process {recovered['pid']}, which "
             "ended without stopping its recording"]
    if unfinished:
        names = [name if count == 1 else f"{name} ({count})" for name, count in unfinished.items()]
        parts.append(f"{counted(sum(unfinished.values()), 'launch', 'launches')} unfinished: {listed(names, 5)}")
    for name, one, many in (
        ("missing", "launch had begun and cannot be read", "launches had begun and cannot be read"),
        ("damaged_slots", "slot is damaged or torn", "slots are damaged or torn"),
        ("repeated_slots", "slot repeats another", "slots repeat others"),
        ("lost", f"launch was not kept {mode}", f"launches were not kept {mode}"),
        ("damaged_rows", f"place of the rows is {skipped}", f"places of the rows are {skipped}"),
        ("unknown_ids", "id without its row is unknown", "ids without their rows are unknown"),
    ):
        if recovered[name]:
            parts.append(counted(recovered[name], one, many))
    parts += recovered["notes"]
    if not has_facts:
        parts.append("journal.json is missing or damaged: versions and settings are not known")
    parts.append("what the GPU did, graphs and registers are not in a journal")
    return {"probe": "journal", "status": "degraded", "message": "; ".join(parts),
            "dropped": min(recovered["missing"], (1 << 31) - 1) or None}


def _metadata(facts: Row, pid: int | None) -> Row:
    held = facts.get("metadata")
    metadata = fitting_metadata(cast("Row", held)) if isinstance(held, dict) else {}
    if not {"host_ns", "wall_ns"} <= metadata.get("clock", {}).keys():
        metadata.pop("clock", None)
    created = _text(facts, "created") or metadata.get("created")
    process: Any = metadata.get("process")
    process = {"pid": pid, "status": "killed", "message": "it ended without stopping its recording", **(
        cast("Row", process) if isinstance(process, dict) else {})}
    return {**metadata, "name": _text(facts, "name"), "schema_version": SCHEMA_VERSION, "process": process,
            "created": created if isinstance(created, str) else None, "gpu": None, "code": False}


def _cells(rows: Sequence[Row], latest: int) -> list[Row]:
    """Cells in order; one that did not end is unfinished, and reaches to the next, or as far as anything is known."""
    cells = sorted((row for row in rows if "start_ns" in row), key=lambda row: row["start_ns"])
    for number, row in enumerate(cells):
        row.pop("cell_id", None)
        if row.get("end_ns", UNKNOWN) < row["start_ns"]:
            following = cells[number + 1]["start_ns"] if number + 1 < len(cells) else latest
            row["end_ns"] = max(following, row["start_ns"])
            row["status"] = UNFINISHED
        row.setdefault("status", UNFINISHED)
    return cells


def _latest(launches: Mapping[str, np.ndarray], tables: Mapping[str, list[Row]], rows: RowFile) -> int:
    """The last instant that the journal knows of."""
    found = [int(launches[name].max()) for name in RECORD_TIMES if len(launches[name])]
    found += [row[name] for table in ("cells", "compilations", "builds") for row in tables[table]
              for name in ("start_ns", "end_ns") if name in row]
    found += [round(rows.ranges[-4] * 1e9)] if rows.ranges else []
    found += rows.collections[1::len(COLLECTION)][-1:]
    return max(found, default=0)


def _kernels(slots: Slots, rows: RowFile) -> tuple[str, ...]:
    if not slots.is_open.any():
        return ()
    launches = {name: values[slots.is_open] for name, values in slots.launches.items()}
    return tuple(dict.fromkeys(with_known_ids(launches, slots.is_open[slots.is_open], rows).unfinished))


def _slots(folder: Path) -> Slots:
    return read_slots(folder / journal.SLOTS) if _regular(folder / journal.SLOTS) else _NO_SLOTS


def _facts(folder: Path) -> Row:
    """What ``journal.json`` says; nothing where it is missing or damaged."""
    try:
        with journal.opened(folder / journal.FACTS) as file:
            text = os.pread(file, MAX_FACTS_BYTES + 1, 0)
        value = load_json(text) if len(text) <= MAX_FACTS_BYTES else None
    except (OSError, ValueError):
        return {}
    return cast("Row", value) if isinstance(value, dict) else {}


def _check_format(folder: Path, facts: Row) -> None:
    written: Any = facts.get("format", journal.FORMAT)
    if isinstance(written, int) and written != journal.FORMAT:
        raise JournalError(f"{folder} is a journal of format {written}; this KernelScope reads format "
                           f"{journal.FORMAT}: recover it with the KernelScope that wrote it")


def _pid(folder: Path, facts: Row, slots: Slots) -> int | None:
    pid: Any = facts.get("pid")
    known: Callable[[Any], bool] = lambda value: isinstance(value, int) and 0 < value < 1 << 31  # noqa: E731
    return next((value for value in (pid, journal.pid_of(folder.name), slots.pid) if known(value)), None)


def _text(facts: Row, name: str) -> str | None:
    value: Any = facts.get(name)
    return value if isinstance(value, str) else None


def _regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _size(folder: Path) -> int:
    total = 0
    for name in journal.FILES:
        if _regular(folder / name):
            held = os.lstat(folder / name)
            total += min(held.st_blocks * 512, held.st_size)
    return total

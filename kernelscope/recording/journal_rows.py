"""The rows of a journal: small tables as JSON, one record a row, each with its length and CRC.

Records that are torn or garbled are skipped up to the next one that begins with the magic number, and are counted.
Values are taken as the schema has them and in no other way, and nothing is evaluated.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from kernelscope.errors import JournalError, RecordingFileError
from kernelscope.journal_layout import MAX_ROW_BYTES, ROW, ROW_MAGIC, opened
from kernelscope.recording.integrity import JSON_COLUMNS, check_depth
from kernelscope.recording.journal_slots import MAX_NS
from kernelscope.schema import TABLES, UNKNOWN, Column

Row = dict[str, Any]

#: More is not read: rows are few beside launches.
MAX_BYTES = 1 << 30

_IDS = ("dispatcher_id", "specialization_id", "device_id")
#: Lists of the recorder that are no tables of a recording.
_OWN = {
    "targets": (*(Column(name, "int32", "", nullable=True) for name in _IDS),
                Column("error", "string", "", nullable=True)),
    "range_labels": tuple(Column(name, "string", "", nullable=True)
                          for name in ("name", "domain", "category", "color", "payload", "source")),
}
#: What the rows of a journal may be of.
ROW_TABLES = ("cells", "threads", "devices", "dispatchers", "specializations", "configurations", "targets",
              "compilations", "passes", "occupancies", "builds", "range_labels", "health")
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
    records : int
        Records that were whole.
    damaged : int
        Places at which something was skipped.
    skipped_bytes : int
        How much that was.
    """

    tables: dict[str, dict[int, Row]] = field(default_factory=lambda: {name: {} for name in ROW_TABLES})
    ranges: list[float] = field(default_factory=list)
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

"""Exports of Nsight Systems: SQLite, and a folder of Parquet files, one a table.

Tables and columns differ by version: what is there is read, and the rest is unknown. A SQLite file is read with plain
scans of real tables, and nothing that it defines (views, triggers, functions) is run; times are in nanoseconds since
the session's start. Source: the "SQLite Schema Reference" of NVIDIA's Nsight Systems User Guide.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kernelscope.errors import RecordingFileError
from kernelscope.importers.nsys.recognize import REPORTS, SQLITE_MAGIC, has_file
from kernelscope.progress import Progress
from kernelscope.recording.columns import Columns, Row, distinct
from kernelscope.recording.joins import ACTIVITY_COLUMNS
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import Budget
from kernelscope.recording.traces import (
    GRAPH,
    KERNEL,
    MARK,
    MEMCPY,
    MEMSET,
    PUSH_POP,
    RESOURCES,
    START_END,
    SYNC,
    Interned,
    Trace,
    clean_text,
    in_time,
    joined,
    one_line,
    recording_of,
    waits,
)
from kernelscope.schema import MAX_COUNT, UNKNOWN
from kernelscope.units import counted

#: Rows of one table that are opened at most.
MOST_ROWS = 50_000_000
#: Rows of a table of names and the like.
_MOST_SMALL = 1 << 22
_BYTES = 8
_CHUNK = 1 << 16
#: SQLite's own limit on one text, in bytes.
_LONGEST = 64 << 20
#: SQLite's steps for each byte of a file at most: a scan takes a handful a value, of which each has a byte.
_STEPS = 200
_KERNELS, _COPIES, _SETS, _WAITS, _CALLS, _RANGES = (
    *(f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION", "RUNTIME")),
    "NVTX_EVENTS")
_WHOLE_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
#: How tables are named of what a GPU did, where they have a stream.
_ON_GPU = "CUPTI_ACTIVITY_KIND_"
#: What is no event that could be missing.
_NO_EVENTS = re.compile(r"ENUM_|TARGET_INFO|META_DATA|ANALYSIS_|StringIds|ThreadNames|PROCESS|EXPORT|DIAGNOSTIC_EVENT|"
                        r"sqlite_|ProcessStreams|UnsupportedEvents|CUDA_GRAPH_|.*CALLCHAINS", re.IGNORECASE)
#: A newer form of a table, of which an export may have several.
_VERSION = re.compile(r"(.+)_V(\d{1,4})")
#: How much each part of the reading is of all.
_PARTS = {_KERNELS: 0.4, _CALLS: 0.2, _RANGES: 0.1}

# CUPTI's numbers, which the export has.
_DIRECTIONS = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH",
               10: "PtoP", 11: "HtoD", 12: "DtoH", 13: "DtoD"}
_HOST_WAITS = {1: "event synchronize", 3: "stream synchronize", 4: "context synchronize"}
_NO_STREAM = 0xFFFFFFFF
_EVENT_KINDS = {34: MARK, 59: PUSH_POP, 60: START_END}
_CATEGORY, _DOMAIN = 33, 75
_THREAD_BITS, _NODE_BITS = 24, 32
_GRID = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "clusterX", "clusterY", "clusterZ",
         "dynamicSharedMemory")


class Tables(Protocol):
    """The tables of an export.

    Attributes
    ----------
    columns : dict of str to tuple of str
        Columns by table, of what can be read.
    damaged : int
        How many texts so far were not in UTF-8; letters that are none are replaced.
    """

    columns: dict[str, tuple[str, ...]]
    damaged: int

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        ...

    def numbers(self, table: str, names: Sequence[str], tell: Callable[[float], None]) -> Columns:
        """Return columns of int64, -1 for null; `tell` is told how far it is."""
        ...

    def texts(self, table: str, names: Sequence[str]) -> tuple[np.ndarray, list[str]] | None:
        """Return the first of some columns that is not null, as text: indices in a list, -1 for null; None for none."""
        ...

    def rows(self, table: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the rows of a small table."""
        ...


def read(path: Path, progress: Progress | None = None) -> Recording:
    """Return the recording of an export: of ``--type sqlite``, or ``--type parquetdir``, a folder with a file a table.

    Raises
    ------
    RecordingFileError
        It is no such export, is damaged, or was made to harm.
    """
    if has_file(path, "parquet"):
        return _read_folder(path, progress)
    if path.is_file() and _begin(path) == SQLITE_MAGIC:
        return _read_sqlite(path, progress)
    kind = "a report" if path.suffix in REPORTS else "an export in another format"
    raise RecordingFileError(f"{path.name}: is {kind} of Nsight Systems: make a file that opens here with nsys export "
                             "--type sqlite or --type parquetdir")


def _begin(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(len(SQLITE_MAGIC))


def _read_sqlite(path: Path, progress: Progress | None) -> Recording:
    try:
        with closing(_connected(path)) as connection:
            return _recording(_Sqlite(connection, path.stat().st_size), path, "a SQLite export", progress)
    except RecordingFileError as error:
        raise RecordingFileError(f"{path.name}: {error}") from error.__cause__
    except (sqlite3.Error, OSError, OverflowError, UnicodeDecodeError) as error:
        raise RecordingFileError(f"{path.name}: cannot be read as SQLite: {one_line(error)}; export it again with nsys "
                                 "export --type sqlite") from error


def _read_folder(path: Path, progress: Progress | None) -> Recording:
    try:
        return _recording(_Folder(path), path, "a Parquet export", progress)
    except RecordingFileError as error:
        raise RecordingFileError(f"{path.name}: {error}") from error.__cause__
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise RecordingFileError(f"{path.name}: cannot be read as Parquet: {one_line(error)}; export it again with "
                                 "nsys export --type parquetdir") from error


def has_table(path: Path, names: Sequence[str]) -> bool:
    """Return whether a file of SQLite has one of some tables."""
    try:
        with closing(_connected(path)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.Error:
        return False
    return any(name in names for name, in tables)


# The two ways to read tables.


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for setting in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class _Sqlite:
    def __init__(self, connection: sqlite3.Connection, size: int) -> None:
        self._connection = connection
        self.damaged = 0
        connection.text_factory = self._decoded
        self._most_rows = min(MOST_ROWS, size)
        self._steps = _STEPS * size + (1 << 24)
        connection.set_progress_handler(self._count_steps, 1 << 16)
        # Views and triggers that read behind a table's back name themselves; tables are read and nothing is called but
        # what the queries below call.
        connection.set_authorizer(_authorized)
        tables = connection.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'").fetchall()
        self.columns: dict[str, tuple[str, ...]] = {}
        for name, page in tables:
            if isinstance(name, str) and isinstance(page, int) and page > 0:
                listed = connection.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
                self.columns[name] = tuple(row[1] for row in listed)

    def _decoded(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.damaged += 1
            return data.decode(errors="replace")

    def _count_steps(self) -> int:
        self._steps -= 1 << 16
        return self._steps < 0

    def count(self, table: str) -> int:
        count = int(self._connection.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()[0])
        if count > self._most_rows:
            raise RecordingFileError(f"table {table!r} has {count:,} rows, more than are opened of a file of its size "
                                     f"({self._most_rows:,}): export less of it, or it is damaged")
        return count

    def numbers(self, table: str, names: Sequence[str], tell: Callable[[float], None]) -> Columns:
        total = self.count(table)
        # Numbers as text: two aggregates and a parser in C, twice as fast as an object for each. Whatever is no number
        # becomes an x.
        parts = ", ".join(f"group_concat(CASE typeof({column}) WHEN 'integer' THEN {column} WHEN 'null' THEN -1 "
                          "ELSE 'x' END)" for column in map(_quoted, names))
        rest = ", ".join(map(_quoted, names))
        query = (f"SELECT count(*), max(_rowid_), {parts} FROM (SELECT _rowid_, {rest} FROM {_quoted(table)} "
                 f"WHERE _rowid_ > ? ORDER BY _rowid_ LIMIT {_CHUNK})")
        chunks: dict[str, list[np.ndarray]] = {name: [] for name in names}
        done, last = 0, -(1 << 63)
        while done < total:
            count, reached, *texts = self._connection.execute(query, (last,)).fetchone()
            if not count or not isinstance(reached, int) or reached <= last:
                raise RecordingFileError(f"table {table!r} ends after {done} of its {total} rows: export it again")
            for name, text in zip(names, texts, strict=True):
                values = np.fromstring(text, np.int64, sep=",") if "x" not in text else np.empty(0, np.int64)
                if len(values) != count:
                    raise RecordingFileError(f"column {table}.{name} has something else than whole numbers between "
                                             f"rows {done} and {done + count}")
                chunks[name].append(values)
            done, last = done + count, reached
            tell(min(done / total, 1.0))
        return {name: np.concatenate(values) if values else np.empty(0, np.int64) for name, values in chunks.items()}

    def texts(self, table: str, names: Sequence[str]) -> tuple[np.ndarray, list[str]] | None:
        present = [name for name in names if name in self.columns[table] and self._connection.execute(
            f"SELECT 1 FROM {_quoted(table)} WHERE {_quoted(name)} IS NOT NULL LIMIT 1").fetchone()]
        if not present:
            return None
        value = ", ".join(map(_quoted, present))
        value = f"coalesce({value})" if len(present) > 1 else value
        cursor = self._connection.execute(f"SELECT {value} FROM {_quoted(table)} ORDER BY _rowid_")
        distinct_texts = Interned([])
        codes: list[np.ndarray] = []
        while rows := cursor.fetchmany(_CHUNK):
            codes.append(np.array([UNKNOWN if text is None else distinct_texts.intern(_shown(text))
                                   for (text,) in rows], np.int64))
        return np.concatenate(codes) if codes else np.empty(0, np.int64), distinct_texts.values

    def rows(self, table: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        if self.count(table) > _MOST_SMALL:
            raise RecordingFileError(f"table {table!r} has more than {_MOST_SMALL:,} rows")
        return self._connection.execute(
            f"SELECT {', '.join(map(_quoted, names))} FROM {_quoted(table)}").fetchall()


def _authorized(action: int, first: str | None, second: str | None, database: str | None, via: str | None) -> int:
    allowed = action == sqlite3.SQLITE_SELECT or (action == sqlite3.SQLITE_READ and via is None) or (
        action == sqlite3.SQLITE_PRAGMA and first == "table_info") or (
        action == sqlite3.SQLITE_FUNCTION and second in ("count", "max", "group_concat", "typeof", "coalesce"))
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _shown(value: Any) -> str:
    return clean_text(value) if isinstance(value, str) else clean_text(str(value)) if isinstance(
        value, int | float) else "bytes"


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.damaged = 0
        self._files: dict[str, pq.ParquetFile] = {}
        self.columns: dict[str, tuple[str, ...]] = {}
        size = 0
        for member in sorted(path.glob("*.parquet")):
            if member.is_file() and not member.is_symlink():
                self._files[member.stem] = file = pq.ParquetFile(member)
                self.columns[member.stem] = tuple(
                    field.name for field in file.schema_arrow if not pa.types.is_nested(field.type))
                size += member.stat().st_size
        self._budget = Budget(size)

    def count(self, table: str) -> int:
        count = self._files[table].metadata.num_rows
        if count > MOST_ROWS:
            raise RecordingFileError(f"table {table!r} has {count:,} rows; at most {MOST_ROWS:,} are opened")
        return count

    def numbers(self, table: str, names: Sequence[str], tell: Callable[[float], None]) -> Columns:
        content = self._table(table, names)
        tell(1.0)
        columns: Columns = {}
        for name in names:
            column = content.column(name)
            if pa.types.is_null(column.type):
                columns[name] = np.full(len(column), UNKNOWN)
            elif pa.types.is_integer(column.type):
                columns[name] = column.cast(pa.int64()).fill_null(UNKNOWN).to_numpy()
            else:
                raise RecordingFileError(f"column {table}.{name} is of type {column.type}, not of whole numbers")
        return columns

    def texts(self, table: str, names: Sequence[str]) -> tuple[np.ndarray, list[str]] | None:
        present = [name for name in names if name in self.columns[table]]
        columns = [column for column in self._table(table, present).columns if column.null_count < len(column)]
        if not columns:
            return None
        texts = [column.cast(pa.string()) for column in columns]
        coded = (pc.call_function("coalesce", texts) if len(texts) > 1 else texts[0]).dictionary_encode()
        coded = coded.unify_dictionaries().combine_chunks()
        return (coded.indices.fill_null(UNKNOWN).cast(pa.int64()).to_numpy(),
                [clean_text(text) for text in self._decoded(coded.dictionary)])

    def rows(self, table: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        if self.count(table) > _MOST_SMALL:
            raise RecordingFileError(f"table {table!r} has more than {_MOST_SMALL:,} rows")
        content = self._table(table, names)
        return list(zip(*(self._decoded(content.column(name)) for name in names), strict=True))

    def _decoded(self, column: pa.Array | pa.ChunkedArray) -> list[Any]:
        """Return the values of a column; of texts, letters that are not in UTF-8 are replaced."""
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            return column.to_pylist()
        values: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
        texts = [None if data is None else data.decode(errors="replace") for data in values]
        self.damaged += sum(text is not None and text.encode() != data
                            for text, data in zip(texts, values, strict=True))
        return texts

    def _table(self, table: str, names: Sequence[str]) -> pa.Table:
        file = self._files[table]
        # What a column's own metadata say is not asked for: pyarrow ends the process where they are damaged.
        size = sum(file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups))
        self._budget.take(max(self.count(table) * _BYTES * len(names), size), f"table {table!r}")
        return file.read(columns=list(names))


# What the tables say.


class _Reader:
    """Reads the tables of one export into a `Trace`."""

    def __init__(self, tables: Tables, trace: Trace, progress: Progress | None) -> None:
        self.tables, self.trace = tables, trace
        self._progress = progress
        self._done = 0.0
        self._strings: dict[int, str] = {}
        self._names, self._entries, self._shapes = (
            Interned(values) for values in (trace.names, trace.entries, trace.shapes))
        self._newest = self.newest()

    def newest(self) -> dict[str, str]:
        """Return which table to read for each name: of several versions the newest that has rows."""
        versions: dict[str, list[tuple[int, str]]] = {}
        for table in self.tables.columns:
            match = _VERSION.fullmatch(table)
            versions.setdefault(match[1] if match else table, []).append((int(match[2]) if match else 1, table))
        newest: dict[str, str] = {}
        for name, tables in versions.items():
            ordered = [table for _, table in sorted(tables, reverse=True)]
            filled = {table: count for table in ordered if (count := self.tables.count(table))} if tables[1:] else {}
            newest[name], *older = [*filled] or ordered[:1]
            self.trace.problems += [
                f"left out: {counted(filled[table], 'row')} of the table {clean_text(table)[:60]}, of which the export "
                f"has a newer version, {clean_text(newest[name])[:60]}" for table in older]
        return newest

    def columns_of(self, table: str) -> tuple[str, ...]:
        """Return the columns of the newest version of a table; none where the export has no such table."""
        return self.tables.columns.get(self._newest.get(table, ""), ())

    def read(self) -> None:
        if not any(map(self.columns_of, (_KERNELS, _CALLS, _RANGES, _COPIES))):
            raise RecordingFileError("has no table of Nsight Systems that says something of CUDA, of "
                                     f"{len(self.tables.columns)} tables: export the report of a profile with "
                                     "--trace=cuda,nvtx")
        self._strings = {number: clean_text(text) for number, text in self.small("StringIds", "id", "value")
                         if isinstance(number, int) and isinstance(text, str)}
        calls = self.calls()
        parts = [self.kernels(), self.copies(), self.sets(), self.graphs(), self.waits()]
        if not parts[-1] and calls:
            parts[-1] = waits(calls, self.trace.names)
        ranges, self.trace.labels = self.ranges()
        activities = joined([columns for columns in parts if columns], (*ACTIVITY_COLUMNS, *RESOURCES, "process"))
        self.trace.activities, self.trace.calls, self.trace.ranges = activities, calls, ranges
        self.trace.hint = "export the report of a profile with --trace=cuda,nvtx"
        if ranges:
            self.trace.others[_RANGES] = len(ranges["start_ns"])
        self.facts(self.number([activities, calls, ranges]))
        self.what_is_left()
        if self.tables.damaged:
            self.trace.problems.append(f"{counted(self.tables.damaged, 'text is', 'texts are')} not in UTF-8: letters "
                                       "that cannot be read are replaced by \ufffd")

    def small(self, table: str, *names: str) -> list[tuple[Any, ...]]:
        """Rows of a small table, None for what it lacks; no rows where it is not there."""
        columns = self.columns_of(table)
        present = [name for name in names if name in columns]
        if not present:
            return []
        rows = self.tables.rows(self._newest[table], present)
        if len(present) == len(names):
            return rows
        index_of = {name: index for index, name in enumerate(present)}
        return [tuple(row[index_of[name]] if name in index_of else None for name in names) for row in rows]

    def numbers(self, table: str, *names: str) -> Columns:
        """Return those of some columns of numbers that the table has."""
        present = [name for name in names if name in self.columns_of(table)]
        begun, share = self._done, _PARTS.get(table, 0.05)
        table = self._newest.get(table, table)
        if "start" not in present:
            if table in self.tables.columns and (count := self.tables.count(table)):
                raise RecordingFileError(f"table {clean_text(table)[:60]!r} has {counted(count, 'row')} and no column "
                                         "'start', without which no time is right: export it again with another "
                                         "version of nsys")
            return {}
        rows = self.tables.count(table) if self._progress else 0

        def tell(fraction: float) -> None:
            if self._progress:
                self._progress(min(0.7 * (begun + share * fraction), 0.7), f"reading {rows} rows of {table}")

        columns = self.tables.numbers(table, present, tell)
        self._done += share
        return columns if len(columns["start"]) else {}

    def interned(self, numbers: np.ndarray, texts: Interned) -> np.ndarray:
        """Return the indices of the strings with these ids in `texts`; -1 where an id has none."""
        ids, which = distinct(numbers)
        interned = [UNKNOWN if (text := self._strings.get(string_id)) is None else texts.intern(text)
                    for string_id in ids]
        return np.array(interned, np.int64)[which]

    def common(self, kind: int, seen: Columns, **special: np.ndarray | None) -> Columns:
        """What activities of all kinds have, and what was made of their own; None for what is not known."""
        columns = {"kind": np.full(len(seen["start"]), kind), "start_ns": seen["start"],
                   "process": seen.get("globalPid", np.full(len(seen["start"]), UNKNOWN)) >> _THREAD_BITS}
        columns["end_ns"] = np.where(seen["end"] == 0, UNKNOWN, seen["end"]) if "end" in seen else np.full(
            len(seen["start"]), UNKNOWN)
        for ours, theirs in (("device", "deviceId"), ("stream", "streamId"), ("correlation_id", "correlationId"),
                             ("size_bytes", "bytes"), ("static", "staticSharedMemory"),
                             ("local", "localMemoryPerThread"), ("regs", "registersPerThread")):
            if theirs in seen:
                columns[ours] = seen[theirs]
        if "stream" in columns:
            columns["stream"] = np.where(columns["stream"] == _NO_STREAM, UNKNOWN, columns["stream"])
        node, graph = seen.get("graphNodeId"), seen.get("graphId")
        if node is not None:
            node = np.where(node > 0, node, UNKNOWN)
            # A node's id has its executable graph's above these bits; exports of some versions have the node's only.
            graph = node >> _NODE_BITS if graph is None else graph
            columns["cupti_node_id"] = node
        if graph is not None:
            columns["cupti_graph_id"] = np.where(graph > 0, graph, UNKNOWN)
        columns |= {name: values for name, values in special.items() if values is not None}
        return in_time(columns, ("activity", "activities"), self.trace.problems)

    def kernels(self) -> Columns:
        seen = self.numbers(_KERNELS, "start", "end", "deviceId", "streamId", "correlationId", "globalPid",
                            "demangledName", "mangledName", "shortName", "registersPerThread", *_GRID,
                            "staticSharedMemory", "localMemoryPerThread", "graphNodeId", "graphId")
        if not seen:
            return {}
        name = next((seen[column] for column in ("demangledName", "shortName") if column in seen), None)
        return self.common(
            KERNEL, seen, name=None if name is None else self.interned(name, self._names), shape=self.shape(seen),
            entry=self.interned(seen["mangledName"], self._entries) if "mangledName" in seen else None)

    def shape(self, seen: Columns) -> np.ndarray | None:
        """Return the indices of the launch configurations; a grid of 0 blocks is one that is not known."""
        present = [name for name in _GRID if name in seen]
        if not {*_GRID[:6]} <= {*present}:
            return None
        code = np.zeros(len(seen["start"]), np.int64)
        for name in present:
            values, which = distinct(seen[name])
            if not all(UNKNOWN <= number <= MAX_COUNT for number in values):
                wrong = next(number for number in values if not UNKNOWN <= number <= MAX_COUNT)
                raise RecordingFileError(f"column {_KERNELS}.{name} has {wrong}, which is not between 0 and "
                                         f"{MAX_COUNT}: the file is damaged, or was made to harm")
            _, code = np.unique(code * len(values) + which, return_inverse=True)
            code = code.ravel()
        first = np.unique(code, return_index=True)[1].tolist()
        configurations: list[int] = []
        for row in first:
            value = {name: int(seen[name][row]) for name in present}
            sizes = [value[name] if value[name] > 0 else None for name in _GRID[:6]]
            cluster = [value.get(name, 0) if value.get(name, 0) > 0 else None for name in _GRID[6:9]]
            shared = value.get(_GRID[9], UNKNOWN)
            configurations.append(self._shapes.intern((*sizes, *cluster, None if shared < 0 else shared)))
        return np.array(configurations, np.int64)[code]

    def copies(self) -> Columns:
        seen = self.numbers(_COPIES, "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes",
                            "copyKind", "srcKind", "dstKind", "graphNodeId", "graphId")
        if not seen:
            return {}
        name = self.worded(seen["copyKind"], lambda code: _DIRECTIONS.get(code, "copy")) if "copyKind" in seen else None
        kinds, memory = self.memory_kinds(), None
        if kinds and "srcKind" in seen and "dstKind" in seen:
            both = np.clip(seen["srcKind"], 0, MAX_COUNT) << _NODE_BITS | np.clip(seen["dstKind"], 0, MAX_COUNT)
            memory = self.worded(both, lambda code: f"{kinds.get(code >> _NODE_BITS, 'unknown')} to "
                                                    f"{kinds.get(code & MAX_COUNT, 'unknown')}")
        return self.common(MEMCPY, seen, name=name, memory=memory)

    def sets(self) -> Columns:
        seen = self.numbers(_SETS, "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes",
                            "memKind", "graphNodeId", "graphId")
        if not seen:
            return {}
        kinds, memory = self.memory_kinds(), None
        if kinds and "memKind" in seen:
            memory = self.worded(seen["memKind"], lambda code: kinds.get(code, "unknown"))
        return self.common(MEMSET, seen, name=np.full(len(seen["start"]), self._names.intern("memset")), memory=memory)

    def graphs(self) -> Columns:
        """Executions of graphs that were traced as a whole: nothing in the file says what ran in them."""
        seen = self.numbers(_WHOLE_GRAPHS, "start", "end", "deviceId", "streamId", "correlationId", "globalPid",
                            "graphId", "graphExecId")
        if not seen:
            return {}
        self.trace.problems.append(
            f"{counted(len(seen['start']), 'launch', 'launches')} of graphs traced as a whole: how long they ran is "
            "known, their kernels are not in the file; profile with --cuda-graph-trace=node")
        number = seen.pop("graphExecId", np.full(len(seen["start"]), UNKNOWN))
        number = np.where(number > 0, number, seen.get("graphId", UNKNOWN))
        return self.common(GRAPH, seen | {"graphId": number},
                           name=self.worded(number, lambda code: f"CUDA graph {code}" if code > 0 else "CUDA graph"))

    def waits(self) -> Columns:
        seen = self.numbers(_WAITS, "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "syncType")
        if not seen or "syncType" not in seen:
            return {}
        is_host_wait = np.isin(seen["syncType"], list(_HOST_WAITS))  # the others make a stream wait, not the host
        if not is_host_wait.any():
            return {}
        seen = {name: values[is_host_wait] for name, values in seen.items()}
        return self.common(SYNC, seen, name=self.worded(seen["syncType"], lambda code: _HOST_WAITS[code]))

    def worded(self, codes: np.ndarray, word: Callable[[int], str]) -> np.ndarray:
        values, which = distinct(codes)
        return np.array([self._names.intern(word(code)) for code in values], np.int64)[which]

    def memory_kinds(self) -> dict[int, str]:
        """Kinds of memory by number, in our words."""
        return {number: text.lower().removesuffix(" static").removesuffix("_static") for number, text in self.small(
            "ENUM_CUDA_MEM_KIND", "id", "label") if isinstance(number, int) and isinstance(text, str)}

    def calls(self) -> Columns:
        seen = self.numbers(_CALLS, "start", "end", "globalTid", "correlationId", "nameId", "returnValue")
        if not seen or not {"end", "globalTid", "nameId"} <= {*seen}:
            return {}
        name = self.interned(seen["nameId"], self._names)
        columns = {
            "name": np.where(name == UNKNOWN, self._names.intern("unknown call"), name), "start_ns": seen["start"],
            "end_ns": np.where(seen["end"] < 0, seen["start"], seen["end"]),
            "ident": seen["globalTid"] & ((1 << _THREAD_BITS) - 1), "process": seen["globalTid"] >> _THREAD_BITS}
        for ours, theirs in (("correlation_id", "correlationId"), ("result", "returnValue")):
            if theirs in seen:
                columns[ours] = seen[theirs]
        return in_time(columns, ("call", "calls"), self.trace.problems)

    def ranges(self) -> tuple[Columns, list[Row]]:
        seen = self.numbers(_RANGES, "start", "end", "eventType", "globalTid", "textId", "domainId", "category",
                            "color")
        if not seen or not {"eventType", "globalTid"} <= {*seen}:
            return {}, []
        count = len(seen["start"])
        lacking = np.full(count, UNKNOWN)
        table = self._newest[_RANGES]
        text, texts = self.tables.texts(table, ["text"]) or (lacking, [])
        payload, payloads = self.tables.texts(table, [
            name for name in ("uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue",
                              "jsonText") if name in self.tables.columns[table]]) or (lacking, [])
        interned = Interned(texts)
        named = self.interned(seen.get("textId", lacking), interned)
        text = np.where(text == UNKNOWN, named, text)
        domain, category, color = (seen.get(name, lacking) for name in ("domainId", "category", "color"))
        kind = seen["eventType"]
        meta = np.flatnonzero((kind == _DOMAIN) | (kind == _CATEGORY))
        of_process = seen["globalTid"] >> _THREAD_BITS
        domains: dict[tuple[int, int], str] = {}
        categories: dict[tuple[int, int, int], str] = {}
        for row in meta.tolist():
            if text[row] != UNKNOWN:
                key = int(of_process[row]), int(domain[row])
                if kind[row] == _DOMAIN:
                    domains[key] = interned.values[text[row]]
                else:
                    categories[*key, int(category[row])] = interned.values[text[row]]
        rows = np.flatnonzero(np.isin(kind, list(_EVENT_KINDS)))
        others = count - len(rows) - len(meta)
        if others:
            self.trace.skipped["other NVTX events"] += others
        # One number for each distinct label.
        label_columns = [column[rows] for column in (of_process, domain, category, color, text, payload)]
        code = np.zeros(len(rows), np.int64)
        for differing in label_columns:
            values, which = distinct(differing)
            _, code = np.unique(code * len(values) + which, return_inverse=True)
            code = code.ravel()
        labels: list[Row] = []
        for row in rows[np.unique(code, return_index=True)[1]].tolist():
            key = int(of_process[row]), int(domain[row])
            number = int(category[row])
            labels.append({
                "name": interned.values[text[row]] if text[row] != UNKNOWN else "",
                "domain": domains.get(key),
                "category": categories.get((*key, number)) or (str(number) if number > 0 else None),
                "color": f"#{int(color[row]) & 0xFFFFFF:06x}" if color[row] not in (0, UNKNOWN) else None,
                "payload": payloads[payload[row]] if payload[row] != UNKNOWN else None, "source": "native"})
        end = seen.get("end", lacking)[rows]
        columns = {
            "kind": np.select([kind[rows] == code for code in _EVENT_KINDS], list(_EVENT_KINDS.values())),
            "ident": seen["globalTid"][rows] & ((1 << _THREAD_BITS) - 1), "label": code,
            "start_ns": seen["start"][rows], "end_ns": np.where(end <= 0, UNKNOWN, end), "process": of_process[rows]}
        return in_time(columns, ("range", "ranges"), self.trace.problems), labels

    def number(self, tables: Sequence[Columns]) -> list[int]:
        """Number the processes of some columns from 0 on; return what the numbers stand for, -1 for none."""
        numbers = sorted({number for columns in tables if columns for number in distinct(columns["process"])[0]})
        processes = [number for number in numbers if number != UNKNOWN]
        if len(processes) == 1:  # what names none is of the only one
            numbers = processes
        elif len(processes) > 1 and len(processes) < len(numbers):
            self.trace.problems.append("some activities name no process, and there are several: they have no launch")
        for columns in tables:
            if columns:
                columns["process"] = np.maximum(np.searchsorted(numbers, columns["process"]), 0)
        return numbers

    def facts(self, numbers: Sequence[int]) -> None:
        """What is known of processes, threads, devices, the machine, the session and the export."""
        index_of = {number: index for index, number in enumerate(numbers) if number != UNKNOWN}
        self.trace.processes = [{"pid": number & ((1 << _THREAD_BITS) - 1)} if number in index_of else {}
                                for number in numbers]
        for text, number in self.small("ThreadNames", "nameId", "globalTid"):
            index = index_of.get(number >> _THREAD_BITS) if isinstance(number, int) else None
            if index is not None and text in self._strings:
                self.trace.threads.setdefault((index, number & ((1 << _THREAD_BITS) - 1)), self._strings[text])
        gpus = {row[0]: row[1:] for row in self.small(
            "TARGET_INFO_GPU", "id", "name", "uuid", "smCount", "computeMajor", "computeMinor", "threadsPerWarp",
            "maxWarpsPerSm", "maxBlocksPerSm", "maxRegistersPerSm", "maxShmemPerSm")}
        devices = self.small("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId", "uuid", "numMultiprocessors")
        if not devices:
            devices = [(None, number, number, None, None) for number in gpus]
        of_pid: dict[Any, list[int | None]] = {None: [None]}
        for index, facts in enumerate(self.trace.processes):
            of_pid.setdefault(facts.get("pid"), []).append(index)
        for pid, ordinal, gpu, uuid, count in devices:
            for index in of_pid.get(pid, ()) if _is_count(ordinal) else ():
                self.trace.devices.setdefault((index, ordinal), _device(gpus.get(gpu, (None,) * 10), uuid, count))
        environment = {name: value for name, value in self.small("TARGET_INFO_SYSTEM_ENV", "name", "value")
                       if isinstance(name, str) and isinstance(value, str)}
        if len(self.trace.processes) > 1 and "Hostname" in environment:
            for facts in self.trace.processes:
                facts["host"] = clean_text(environment["Hostname"])
        started = self.small("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
        if started and isinstance(started[0][0], int):
            self.trace.wall_ns = started[0][0]
        metadata = dict(self.small("META_DATA_EXPORT", "name", "value")) | dict(
            self.small("META_DATA_CAPTURE", "name", "value"))
        named = {str(name): value for name, value in metadata.items() if isinstance(value, str)}
        schema = named.get("EXPORT_SCHEMA_VERSION")
        versions = [value for name, value in named.items()
                    if re.search("VERSION", name) and "SCHEMA" not in name and re.match(r"\d{4}\.\d", value)]
        self.trace.version = versions[0][:40] if versions else None
        if schema:
            self.trace.form += f" (schema {clean_text(schema)[:20]})"
        serious = {number for number, label in self.small("ENUM_DIAGNOSTIC_SEVERITY_LEVEL", "id", "label")
                   if label in ("Warning", "Error")} or _SERIOUS
        events = [(severity, text) for severity, text in self.small("DIAGNOSTIC_EVENT", "severity", "text")
                  if severity in serious]
        for _, text in events[:_MOST_DIAGNOSTICS]:
            if isinstance(text, str):
                self.trace.problems.append(f"Nsight Systems said: {' '.join(clean_text(text).split())[:300]}")

    def what_is_left(self) -> None:
        """Count what is not in the recording."""
        read = {_KERNELS, _COPIES, _SETS, _WHOLE_GRAPHS, _WAITS, _CALLS, _RANGES}
        for name, table in self._newest.items():
            columns = {*self.tables.columns[table]}
            if name in read or _NO_EVENTS.match(table) or not {"start", "timestamp", "rawTimestamp"} & columns:
                continue
            count = self.tables.count(table)
            if count and {"end", "streamId"} <= columns and name.startswith(_ON_GPU):
                self.trace.problems.append(
                    f"left out: {counted(count, 'row')} of the table {clean_text(table)[:60]}, which is not known: "
                    "what the GPU did in their time counts as idle")
            elif count:
                self.trace.skipped[clean_text(table)[:60]] += count


#: Of a DIAGNOSTIC_EVENT, where the export does not say it: 2 is a warning, 3 an error; 1 is information, 4 verbose.
_SERIOUS = {2, 3}
_MOST_DIAGNOSTICS = 1000


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def _device(gpu: Sequence[Any], uuid: Any, count: Any) -> Row:
    name, gpu_uuid, sms, major, minor, warp, warps, blocks, registers, shared = gpu
    uuid = gpu_uuid if isinstance(gpu_uuid, str) and gpu_uuid else uuid
    numbers = {
        "multiprocessors": sms or count,
        "max_threads_per_multiprocessor": warp * warps if _is_count(warp) and _is_count(warps) else None,
        "max_blocks_per_multiprocessor": blocks, "registers_per_multiprocessor": registers,
        "shared_per_multiprocessor_bytes": shared}
    return {
        "name": clean_text(name) if isinstance(name, str) else None,
        "uuid": f"GPU-{clean_text(uuid).removeprefix('GPU-')}" if isinstance(uuid, str) and uuid else None,
        "compute_capability": f"{major}.{minor}" if _is_count(major) and _is_count(minor) else None,
        **{key: value for key, value in numbers.items() if _is_count(value) and value}}


def _recording(tables: Tables, path: Path, form: str, progress: Progress | None) -> Recording:
    trace = Trace("nsys", form, skipped=Counter())
    _Reader(tables, trace, progress).read()
    if progress:
        progress(0.75, "joining launches and kernels")
    recording = recording_of(trace, path.name)
    if progress:
        progress(1.0, f"read {path.name}")
    return recording

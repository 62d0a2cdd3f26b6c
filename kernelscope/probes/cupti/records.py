"""CUPTI's activity buffers: their memory, the records in them, and columns on the host clock."""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from kernelscope.clock import Alignment
from kernelscope.probes.sink import KERNEL as IS_KERNEL
from kernelscope.probes.sink import MEMCPY as IS_MEMCPY
from kernelscope.probes.sink import MEMSET as IS_MEMSET
from kernelscope.probes.sink import SYNC as IS_SYNC
from kernelscope.probes.sink import GpuColumns, Places, constant, translated

#: One buffer holds about 1,000 kernels.
BUFFER_BYTES = 256 * 1024
#: What is reserved, not taken: 17 million kernels. CUPTI drops and counts what comes then.
MOST_BYTES = 4 << 30
LEAST_BYTES = 64 << 20
#: Linux's MAP_NORESERVE, which Python has a name for from 3.13 on.
_NORESERVE = 0x4000
#: Lines of 90,000 buffers at the least; it begins anew when CUPTI has none.
_LOG_BYTES = 8 << 20


class Buffers:
    """Lends CUPTI parts of one stretch of memory, and reads them when CUPTI has given them back; one a process.

    CUPTI asks for buffers and gives them back in the middle of the user's launches and waits, in any thread, and may
    keep one over the end of a recording. The pages of what `lend` gives are taken only when CUPTI writes to them, and
    `give` runs no step of the interpreter, between two of which a signal handler could break it off: it is C's own
    fprintf, to a stream in memory.

    Attributes
    ----------
    lent : dict of int to bool
        The addresses of buffers that CUPTI has; `collect` brings it up to date.
    give : callable
        Takes what CUPTI says of a buffer that it gives back: context, stream, address, size, bytes that are filled.
    problem : str or None
        What was wrong with the first record that made no sense; what followed it in its buffer was left out.

    Raises
    ------
    MemoryError
        Not even the least that is worth while can be reserved.
    """

    def __init__(self) -> None:
        self._memory = _reserved()
        self.arena = np.frombuffer(self._memory, np.uint8)
        self._base = self.arena.ctypes.data
        self._unused = iter(range(self._base, self._base + len(self.arena), BUFFER_BYTES))
        self._free: list[int] = []
        self._filled: list[tuple[int, int]] = []
        self._sizes = Sizes()
        self._returned = _Log()
        self.give = self._returned.write
        self._kept: set[int] = set()
        self.lent: dict[int, bool] = {}
        self.problem: str | None = None

    def lend(self) -> int:
        """Return the address of a buffer; 0 where there is none left."""
        try:
            return self._free.pop()
        except IndexError:
            return next(self._unused, 0)

    def collect(self) -> int:
        """Take notice of what CUPTI has given back; return how many buffers are due that it has still."""
        for _context, _stream, address, _size, valid in self._returned.lines():
            if self.lent.pop(address, False):
                self._filled.append((address, valid))
                self._kept.discard(address)
        return sum(address not in self._kept for address in list(self.lent))

    def give_up(self) -> None:
        """Wait no more for what CUPTI has now: it keeps it for what it records next."""
        self._kept = set(self.lent)

    def read(self, size_of: Callable[[int, int], int],
             consume: Callable[[np.ndarray, dict[int, np.ndarray]], None]) -> None:
        """Hand the records of all buffers that were given back to `consume`, and lend the buffers again.

        Parameters
        ----------
        size_of : callable
            CUPTI's answer for the size of the record at an address, given where its buffer's records end.
        consume : callable
            Takes the memory as bytes, and the offsets of the records in it, by kind.
        """
        self.collect()
        filled, self._filled = self._filled, []
        if not filled:
            return
        starts = np.array([address for address, _ in filled], np.int64) - self._base
        ends = starts + np.clip(np.array([valid for _, valid in filled], np.int64), 0, BUFFER_BYTES)
        found, problem = positions(self.arena, starts, ends, self._sizes,
                                   lambda record, last: size_of(self._base + record, self._base + last))
        self.problem = self.problem or problem
        if found:
            consume(self.arena, found)
        self._free.extend(address for address, _ in filled)

    def release(self) -> None:
        """Give the memory of all buffers that are not lent back to the system; they can be lent again."""
        self.problem = None
        used = [*self._free]
        if self.lent:
            for address in used:
                self._memory.madvise(mmap.MADV_DONTNEED, address - self._base, BUFFER_BYTES)
            return
        self._returned.begin_again()
        if used:
            start, end = min(used) - self._base, max(used) - self._base + BUFFER_BYTES
            self._memory.madvise(mmap.MADV_DONTNEED, start, end - start)


class _Log:
    """Lines of five numbers, which `write` writes in C alone.

    The memory is of a fixed size and never moves, so that it can be read while another thread writes to it.
    """

    def __init__(self) -> None:
        self._library = library = ctypes.CDLL(None)
        library.fmemopen.restype = ctypes.c_void_p
        library.ftell.restype = ctypes.c_long
        for function in (library.ftell, library.fflush, library.rewind):
            function.argtypes = (ctypes.c_void_p,)
        library.fprintf.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32,
                                    ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)
        self._text = ctypes.create_string_buffer(_LOG_BYTES)
        self._stream = library.fmemopen(self._text, ctypes.c_size_t(_LOG_BYTES), b"w")
        if not self._stream:
            raise MemoryError("no memory for a stream")
        self._read_until = 0
        self.write: Callable[..., None] = functools.partial(library.fprintf, self._stream, b"%zu %u %zu %zu %zu\n")

    def lines(self) -> list[list[int]]:
        """Return what was written since the last call."""
        end = self._library.ftell(self._stream)
        self._library.fflush(self._stream)  # after: up to there all is in the memory
        text = ctypes.string_at(ctypes.addressof(self._text) + self._read_until, max(0, end - self._read_until))
        whole = text[:text.rfind(b"\n") + 1]
        self._read_until += len(whole)
        return [[int(number) for number in line.split()] for line in whole.splitlines()]

    def begin_again(self) -> None:
        """Forget all lines; nobody may write one meanwhile."""
        if self._read_until > _LOG_BYTES // 2:
            self._library.rewind(self._stream)
            self._read_until = 0


def _reserved() -> mmap.mmap:
    size = MOST_BYTES
    while True:
        try:
            return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
        except OSError:
            if size <= LEAST_BYTES:
                raise MemoryError(f"no {size >> 20} MiB of memory for the GPU's records") from None
            size //= 2


# CUPTI's activity buffers as NumPy arrays: which records they hold, and the fields that are read of each kind.
#
# A buffer is one record after another, of several kinds and so of several sizes. How large the records of a kind
# are differs between versions of CUPTI, which add fields at the end; so the size of a kind is asked of CUPTI when
# the first record of it is met. Source of the layouts: ``cupti_activity.h`` of CUDA 12.0 to 13.5; the fields that
# are read stand where they stood in 12.0.

MEMCPY, MEMSET, KERNEL, MARKER, MARKER_DATA, MEMCPY_PEER, SYNCHRONIZATION = 1, 2, 10, 12, 13, 22, 38

#: Of each kind the fields that are read: name, dtype, offset in bytes. What has all bits set is then -1, as unknown.
FIELDS: dict[int, list[tuple[str, str, int]]] = {
    KERNEL: [
        ("regs", "u2", 6), ("start", "u8", 16), ("end", "u8", 24), ("device", "i4", 40),
        ("context", "i4", 44), ("stream", "i4", 48),
        ("grid_x", "i4", 52), ("grid_y", "i4", 56), ("grid_z", "i4", 60),
        ("block_x", "i4", 64), ("block_y", "i4", 68), ("block_z", "i4", 72), ("dynamic_shared", "i4", 80),
        ("correlation", "u4", 92), ("name", "u8", 104), ("graph_node", "u8", 144), ("graph", "u4", 156),
        ("cluster_x", "u4", 176), ("cluster_y", "u4", 180), ("cluster_z", "u4", 184),
    ],
    MEMCPY: [
        ("direction", "u1", 4), ("source", "u1", 5), ("target", "u1", 6), ("bytes", "u8", 8), ("start", "u8", 16),
        ("end", "u8", 24), ("device", "i4", 32), ("stream", "i4", 40), ("correlation", "u4", 44),
        ("graph_node", "u8", 64), ("graph", "u4", 72),
    ],
    MEMCPY_PEER: [
        ("direction", "u1", 4), ("source", "u1", 5), ("target", "u1", 6), ("bytes", "u8", 8), ("start", "u8", 16),
        ("end", "u8", 24), ("device", "i4", 32), ("stream", "i4", 40), ("correlation", "u4", 60),
        ("graph_node", "u8", 72), ("graph", "u4", 80),
    ],
    MEMSET: [
        ("bytes", "u8", 8), ("start", "u8", 16), ("end", "u8", 24), ("device", "i4", 32),
        ("stream", "i4", 40), ("correlation", "u4", 44), ("target", "u2", 50), ("graph_node", "u8", 64),
        ("graph", "u4", 72),
    ],
    SYNCHRONIZATION: [
        ("type", "i4", 4), ("start", "u8", 8), ("end", "u8", 16), ("correlation", "u4", 24),
        ("stream", "i4", 32),
    ],
    MARKER: [
        ("flags", "i4", 4), ("timestamp", "u8", 8), ("id", "u4", 16), ("thread", "u4", 28),
        ("name", "u8", 40), ("domain", "u8", 48),
    ],
    MARKER_DATA: [("id", "u4", 8), ("color", "u4", 24), ("category", "u4", 28)],
}

#: The fields of a kernel that are its launch configuration.
SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "cluster_x", "cluster_y", "cluster_z",
         "dynamic_shared")

#: The least size of a record, in bytes: what is read of it must lie inside.
_LEAST = {kind: max(offset + int(dtype[1:]) for _, dtype, offset in fields) for kind, fields in FIELDS.items()}
_KINDS = 128
#: The least that a record has, in bytes; less than that at a buffer's end is none.
_HEAD = 8
#: Records that are looked at before a pattern is seen, repetitions that are tried first, and records read at once.
_WINDOW, _FEW, _PART = 24, 16, 4096

#: Asks CUPTI for the size in bytes of the record at an offset of the arena, given where its buffer's records end.
SizeOf = Callable[[int, int], int]


class Sizes:
    """The sizes of records in bytes, by kind; learnt when a kind is first met."""

    def __init__(self) -> None:
        self.by_kind = np.zeros(_KINDS, np.int64)

    def learn(self, kind: int, size: int) -> None:
        """Remember one; raises `ValueError` where it cannot be right."""
        if not 0 <= kind < _KINDS:
            raise ValueError(f"an activity record has kind {kind}, which no CUPTI has")
        if size < _LEAST.get(kind, _HEAD) or size % 8:
            raise ValueError(f"an activity record of kind {kind} has {size} bytes: at least {_LEAST.get(kind, _HEAD)}, "
                             "and a multiple of 8, were expected")
        self.by_kind[kind] = size


def positions(arena: np.ndarray, starts: np.ndarray, ends: np.ndarray, sizes: Sizes,
              size_of: SizeOf) -> tuple[dict[int, np.ndarray], str | None]:
    """Return the offsets of all records by kind, buffer after buffer, and what was wrong with the first bad one.

    What follows a record that makes no sense in its buffer is left out.

    Parameters
    ----------
    arena : ndarray of uint8
        What all buffers lie in; its start and all offsets are multiples of 8.
    starts, ends : ndarray of int64
        Where each buffer's records start and end.
    sizes : Sizes
        Sizes that are known; those that are met for the first time are added.
    size_of : callable
        CUPTI's own answer for one record; raises `ValueError` where it has none.
    """
    walk = _Walk(arena, sizes, size_of)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        walk.buffer(start, end)
    return {kind: np.concatenate(parts) for kind, parts in walk.at.items()}, walk.problem


class _Walk:
    """Goes from record to record; where their kinds repeat themselves it looks at many at once.

    That is exact: a record of a known kind ends where the next one starts, so that as long as the kinds are those of
    the pattern, the pattern's places are the records' places.
    """

    def __init__(self, arena: np.ndarray, sizes: Sizes, size_of: SizeOf) -> None:
        self.at: dict[int, list[np.ndarray]] = {}
        self.problem: str | None = None
        self._all_kinds = arena.view(np.int32)
        self._kinds: Any = memoryview(cast(Any, self._all_kinds))
        self._sizes = sizes
        self._size_of = size_of
        self._known: list[int] = sizes.by_kind.tolist()

    def buffer(self, at: int, end: int) -> None:
        """Find the records between two offsets."""
        while end - at >= _HEAD:
            places, kinds, following = self._step(at, end)
            for kind in set(kinds):
                self._add(kind, np.array([place for place, other in zip(places, kinds, strict=True) if other == kind],
                                         np.int64))
            if len(places) < _WINDOW:
                return
            period = _period(kinds)
            at = self._repeat(places[-period:], kinds[-period:], following, end) if period else following

    def _step(self, at: int, end: int) -> tuple[list[int], list[int], int]:
        """A window's records one by one: fewer where the buffer ends, or the next makes no sense."""
        places: list[int] = []
        kinds: list[int] = []
        while len(places) < _WINDOW and end - at >= _HEAD:
            kind = self._kinds[at >> 2]
            size = self._known[kind] if 0 <= kind < _KINDS else 0
            if not size:
                try:
                    self._sizes.learn(kind, self._size_of(at, end))
                except ValueError as error:
                    self.problem = self.problem or str(error)
                    break
                self._known = self._sizes.by_kind.tolist()
                size = self._known[kind]
            if at + size > end:
                self.problem = self.problem or f"a record of kind {kind} reaches over the end of its buffer"
                break
            places.append(at)
            kinds.append(kind)
            at += size
        return places, kinds, at

    def _repeat(self, places: list[int], kinds: list[int], at: int, end: int) -> int:
        """Take what goes on as the given records do; return where that ends."""
        stride = at - places[0]
        left = (end - at) // stride
        for most in (_FEW, left):
            count = min(most, left)
            if count <= 0:
                break
            same = np.ones(count, bool)
            for place, kind in zip(places, kinds, strict=True):
                first = (at + place - places[0]) >> 2
                same &= self._all_kinds[first:first + (count - 1) * (stride >> 2) + 1:stride >> 2] == kind
            run = count if same.all() else int(np.argmin(same))
            every = np.arange(at - places[0], at - places[0] + run * stride, stride)
            for kind in set(kinds):
                own = np.array([place for place, other in zip(places, kinds, strict=True) if other == kind], np.int64)
                self._add(kind, (every[:, None] + own).ravel())
            at, left = at + run * stride, left - run
            if run < count:
                break
        return at

    def _add(self, kind: int, places: np.ndarray) -> None:
        self.at.setdefault(kind, []).append(places)


def _period(kinds: list[int]) -> int:
    """After how many records a window's kinds repeat themselves; 0 where they do not."""
    for period in range(1, _WINDOW // 2 + 1):
        if kinds[period:] == kinds[:-period]:
            return period
    return 0


def fields(arena: np.ndarray, at: np.ndarray, kind: int) -> dict[str, np.ndarray]:
    """Return the fields of the records of one kind as columns: int32 where that holds them, else int64.

    Parameters
    ----------
    arena : ndarray of uint8
        What the buffers lie in.
    at : ndarray of int64
        Offsets of records, of this kind only.
    kind : int
        A key of `FIELDS`. Of a kernel's `SHAPE` there is one column, ``shape``: a number that stands for all of them.
    """
    mixed = SHAPE if kind == KERNEL else ()
    columns = {name: np.empty(len(at), np.int64 if dtype in ("u4", "u8") else np.int32)
               for name, dtype, _ in FIELDS[kind] if name not in mixed}
    shape = np.empty(len(at) if mixed else 0, np.int64)
    names, formats, offsets = zip(*FIELDS[kind], strict=True)
    # Records are of a multiple of 8 bytes, so that what is read of one lies inside of it.
    size = -(-_LEAST[kind] // 8) * 8
    layout = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})
    whole = as_strided(arena[:size].view(f"V{size}"), (max(0, len(arena) - size) // 8 + 1,), (8,))
    # A part at a time, so that a record comes into the processor's cache once and not once a field.
    for start in range(0, len(at), _PART):
        part = slice(start, start + _PART)
        records = whole[at[part] >> 3].view(layout)
        for name, values in columns.items():
            values[part] = records[name]
        if mixed:
            shape[part] = _mixed([records[name] for name in mixed])
    return columns | {"shape": shape} if mixed else columns


def _mixed(columns: list[np.ndarray]) -> np.ndarray:
    """One number for each row: 64 bits, so that different rows have different ones, but for one case in a billion."""
    result = np.zeros(len(columns[0]), np.uint64)
    for values in columns:
        result *= np.uint64(0x9E3779B97F4A7C15)
        result ^= result >> np.uint64(29)
        result += values.astype(np.uint64)
    return result.view(np.int64)


def shapes(arena: np.ndarray, at: np.ndarray) -> list[tuple[int, ...]]:
    """Return the `SHAPE` of each of a few kernel records."""
    words = arena.view(np.int32)
    offsets = [offset >> 2 for name in SHAPE for field, _, offset in FIELDS[KERNEL] if field == name]
    return [tuple(int(words[(place >> 2) + offset]) for offset in offsets) for place in at.tolist()]


# From CUPTI's records to columns on the host clock: names, kinds of memory, launch configurations.

_DIRECTIONS = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH",
               10: "PtoP"}
_MEMORY = {1: "pageable", 2: "pinned", 3: "device", 4: "array", 5: "managed", 6: "device", 7: "managed"}
_WAITS = {1: "event synchronize", 3: "stream synchronize", 4: "context synchronize"}
_TAGS = r"\[abi:[^\]]*\]"


class Converter:
    """Adds CUPTI's records to columns.

    Parameters
    ----------
    columns : GpuColumns
        What is added to.
    functions : dict of int to (dict of int to str)
        The names of the driver's and the runtime's functions, by domain and number.
    """

    def __init__(self, columns: GpuColumns, functions: dict[int, dict[int, str]]) -> None:
        self._columns = columns
        self._functions = functions
        self._names = Places(columns.names)
        self._entries = Places(columns.entries)
        self._shapes: dict[tuple[int | None, ...], int] = {}
        #: What is added to correlation ids: see `Tracing.resume`.
        self.first_id = 0

    def add(self, arena: np.ndarray, found: Mapping[int, np.ndarray], clock: Any, since: int = 0) -> None:
        """Add the records at offsets of an arena.

        Parameters
        ----------
        arena : ndarray of uint8
            What the buffers lie in.
        found : mapping of int to ndarray of int64
            The records' offsets by kind.
        clock : callable
            Takes CUPTI's times, in nanoseconds, to the host clock's.
        since : int
            What ended before, in CUPTI's nanoseconds, is left out.
        """
        activities: list[dict[str, np.ndarray]] = []
        markers: list[dict[str, np.ndarray]] = []
        marker_data: list[dict[str, np.ndarray]] = []
        for kind in FIELDS:
            rows = found.get(kind)
            if rows is None:
                continue
            seen = _recent(fields(arena, rows, kind) | {"at": rows}, since)
            if kind == KERNEL:
                activities.append(self._kernels(seen, arena, clock))
            elif kind in (MEMCPY, MEMCPY_PEER):
                activities.append(self._copies(seen, clock))
            elif kind == MEMSET:
                activities.append({**self._common(seen, IS_MEMSET, clock),
                                   "name": constant(self._names.place("memset"), len(seen["start"])),
                                   "memory": self._worded(seen["target"], _memory), "size_bytes": seen["bytes"],
                                   **_graph(seen)})
            elif kind == SYNCHRONIZATION:
                activities.append(self._waits(seen, clock))
            elif kind == MARKER:
                markers.append({"flags": seen["flags"], "time_ns": _times(seen["timestamp"], clock), "id": seen["id"],
                                "ident": seen["thread"], "name": self._pointed(seen["name"]),
                                "domain": self._pointed(seen["domain"])})
            elif kind == MARKER_DATA:
                marker_data.append(seen)
        self._columns.extend(activities, [], markers, marker_data)

    def add_calls(self, logged: np.ndarray, is_recorded: Callable[[str], bool]) -> None:
        """Add calls as `kernelscope.probes.cupti.lines.CALL` has them: those whose function's name is recorded."""
        key = logged["domain"].astype(np.int64) << 32 | logged["function"]
        recorded = translated(key, lambda code: int(is_recorded(self._function(code)))) != 0
        logged, key = logged[recorded], key[recorded]
        if len(logged):
            self._columns.extend([], [{
                "name": self._worded(key, self._function), "ident": logged["ident"].astype(np.int64),
                "start_ns": logged["start_ns"].copy(), "end_ns": logged["end_ns"].copy(),
                "correlation_id": logged["correlation_id"].astype(np.int64) + self.first_id,
                "result": logged["result"].copy(),
            }])

    def _function(self, code: int) -> str:
        number = code & 0xFFFFFFFF
        return self._functions.get(code >> 32, {}).get(number, f"function {number}")

    def _kernels(self, seen: dict[str, np.ndarray], arena: np.ndarray, clock: Any) -> dict[str, np.ndarray]:
        symbol = functools.cache(_text)
        ids, counts = np.unique(seen["context"], return_counts=True)
        self._columns.kernels_in.update(dict(zip(ids.tolist(), counts.tolist(), strict=True)))
        return {
            **self._common(seen, IS_KERNEL, clock),
            "name": translated(seen["name"], lambda pointer: self._names.place(readable(symbol(pointer)))),
            "entry": translated(seen["name"], lambda pointer: self._entries.place(symbol(pointer))),
            "regs": seen["regs"], "shape": self._shape(seen["shape"], arena, seen["at"]),
            **_graph(seen),
        }

    def _copies(self, seen: dict[str, np.ndarray], clock: Any) -> dict[str, np.ndarray]:
        memory = seen["source"] * 256 + seen["target"]
        return {
            **self._common(seen, IS_MEMCPY, clock),
            "name": self._worded(seen["direction"], lambda code: _DIRECTIONS.get(code, "copy")),
            "memory": self._worded(memory, lambda code: f"{_memory(code // 256)} to {_memory(code % 256)}"),
            "size_bytes": seen["bytes"], **_graph(seen),
        }

    def _waits(self, seen: dict[str, np.ndarray], clock: Any) -> dict[str, np.ndarray]:
        known = np.isin(seen["type"], list(_WAITS))  # the others make a stream wait, not the host
        seen = {name: values[known] for name, values in seen.items()}
        return {**self._common(seen, IS_SYNC, clock), "name": self._worded(seen["type"], lambda code: _WAITS[code])}

    def _common(self, seen: dict[str, np.ndarray], kind: int, clock: Any) -> dict[str, np.ndarray]:
        count = len(seen["start"])
        return {
            "kind": constant(kind, count), "device": seen.get("device", constant(-1, count)), "stream": seen["stream"],
            **_interval(seen, clock), "correlation_id": seen["correlation"] + self.first_id,
        }

    def _pointed(self, pointers: np.ndarray) -> np.ndarray:
        """Places of the texts at addresses; -1 for none."""
        return translated(pointers, lambda pointer: self._names.place(_text(pointer)) if pointer else -1)

    def _worded(self, values: np.ndarray, word: Callable[[int], str]) -> np.ndarray:
        return translated(values, lambda code: self._names.place(word(code)))

    def _shape(self, numbers: np.ndarray, arena: np.ndarray, at: np.ndarray) -> np.ndarray:
        """The launch configurations' places in `GpuColumns.shapes`."""
        count = itertools.count()
        which = translated(numbers, lambda _: next(count))
        # Codes count up in order of first sight: a row that is higher than all before it is the first of its code.
        first = np.flatnonzero(np.diff(np.maximum.accumulate(which), prepend=-1))
        places: list[int] = []
        for found in shapes(arena, at[first]):
            shape: tuple[int | None, ...] = found if found[6] else (*found[:6], None, None, None, found[9])
            if shape not in self._shapes:
                self._shapes[shape] = len(self._columns.shapes)
                self._columns.shapes.append(shape)
            places.append(self._shapes[shape])
        return translated(which, places.__getitem__)


@functools.cache
def readable(symbol: str) -> str:
    """Return a mangled C++ name as its author wrote it, without ABI tags; other names as they are."""
    demangle = _demangler()
    if demangle is None or not symbol.startswith("_Z"):
        return symbol
    status = ctypes.c_int()
    text = demangle(symbol.encode(), None, None, ctypes.byref(status))
    try:
        plain = ctypes.string_at(text).decode("utf-8", "replace") if text and not status.value else symbol
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))
    return re.sub(_TAGS, "", plain)


@functools.cache
def _demangler() -> Any:
    try:
        function = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
    return function


def _recent(seen: dict[str, np.ndarray], since: int) -> dict[str, np.ndarray]:
    """Without what had ended before; an end of 0 is unknown."""
    if "end" not in seen:
        return seen
    old = (seen["end"] < since) & (seen["end"] != 0)
    return {name: values[~old] for name, values in seen.items()} if old.any() else seen


def _text(pointer: int) -> str:
    return ctypes.string_at(pointer).decode("utf-8", "replace") if pointer else "?"


def _interval(seen: dict[str, np.ndarray], clock: Any) -> dict[str, np.ndarray]:
    """Start and end on the host clock.

    They are as far from each other as CUPTI says, not a nanosecond off because both were rounded; but where the clocks
    drift apart by more than that from start to end, each is on the host clock.
    """
    starts, ends = _times(seen["start"], clock), _times(seen["end"], clock)
    exact = seen["end"] - seen["start"]
    exact += starts
    near = np.abs(ends - exact) <= 1
    if not (seen["start"].all() and seen["end"].all()):
        near &= (seen["start"] != 0) & (seen["end"] != 0)
    np.copyto(ends, exact, where=near)
    return {"start_ns": starts, "end_ns": ends}


def _memory(code: int) -> str:
    return _MEMORY.get(code, "unknown")


def _times(values: np.ndarray, clock: Any) -> np.ndarray:
    """On the host clock; CUPTI writes 0 where it could not tell."""
    found = clock(values)
    missing = values == 0
    return np.where(missing, -1, found) if missing.any() else found


def _graph(seen: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    inside = seen["graph"] != 0
    if not inside.any():
        return {}
    return {"cupti_graph_id": np.where(inside, seen["graph"], -1),
            "cupti_node_id": np.where(inside, seen["graph_node"], -1)}


def on_host(wall_ns: np.ndarray, readings: Sequence[Alignment]) -> np.ndarray:
    """Return times of the wall clock, which CUPTI's are, on the host clock: by the readings around them."""
    wall = np.array([reading.wall_ns for reading in readings], np.int64)
    offset = np.array([reading.host_ns - reading.wall_ns for reading in readings], np.int64)
    # Relative to the first reading, where a float has nanoseconds to spare.
    drift = np.interp((wall_ns - wall[0]).astype(np.float64), (wall - wall[0]).astype(np.float64),
                      (offset - offset[0]).astype(np.float64))
    return np.asarray(wall_ns + offset[0] + np.rint(drift).astype(np.int64), np.int64)

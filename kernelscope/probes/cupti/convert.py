"""From CUPTI's records to columns on the host clock: names, kinds of memory, launch configurations."""

from __future__ import annotations

import ctypes
import functools
import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kernelscope.probes.cupti.records import (
    DRIVER,
    FIELDS,
    KERNEL,
    MARKER,
    MARKER_DATA,
    MEMCPY,
    MEMCPY_PEER,
    MEMSET,
    RUNTIME,
    SYNCHRONIZATION,
    fields,
    shapes,
)
from kernelscope.probes.gpu import KERNEL as IS_KERNEL
from kernelscope.probes.gpu import MEMCPY as IS_MEMCPY
from kernelscope.probes.gpu import MEMSET as IS_MEMSET
from kernelscope.probes.gpu import SYNC as IS_SYNC
from kernelscope.probes.gpu import GpuColumns, Words, constant, translated

_DIRECTIONS = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH",
               10: "PtoP"}
_MEMORY = {1: "pageable", 2: "pinned", 3: "device", 4: "array", 5: "managed", 6: "device", 7: "managed"}
_WAITS = {1: "event synchronize", 3: "stream synchronize", 4: "context synchronize"}
_TAGS = re.compile(r"\[abi:[^\]]*\]")


class Converter:
    """Adds CUPTI's records to columns.

    Parameters
    ----------
    columns : GpuColumns
        What is added to.
    functions : dict of int to (dict of int to str)
        The names of the driver's and the runtime's functions, by the kind of their records and their number.
    """

    def __init__(self, columns: GpuColumns, functions: dict[int, dict[int, str]]) -> None:
        self._columns = columns
        self._functions = functions
        self._names = Words(columns.names)
        self._entries = Words(columns.entries)
        self._shapes: dict[tuple[int | None, ...], int] = {}

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
        calls: list[dict[str, np.ndarray]] = []
        markers: list[dict[str, np.ndarray]] = []
        marker_data: list[dict[str, np.ndarray]] = []
        for kind in FIELDS:
            rows = found.get(kind)
            if rows is None:
                continue
            seen = _recent(fields(arena, rows, kind) | {"at": rows}, since)
            if kind in (DRIVER, RUNTIME):
                calls.append(self._calls(seen, self._functions.get(kind, {}), clock))
            elif kind == KERNEL:
                activities.append(self._kernels(seen, arena, clock))
            elif kind in (MEMCPY, MEMCPY_PEER):
                activities.append(self._copies(seen, clock))
            elif kind == MEMSET:
                activities.append(self._sets(seen, clock))
            elif kind == SYNCHRONIZATION:
                activities.append(self._waits(seen, clock))
            elif kind == MARKER:
                markers.append(self._markers(seen, clock))
            elif kind == MARKER_DATA:
                marker_data.append(seen)
        self._columns.extend(activities, calls, markers, marker_data)

    def _kernels(self, seen: dict[str, np.ndarray], arena: np.ndarray, clock: Any) -> dict[str, np.ndarray]:
        symbol = functools.cache(_text)
        return {
            **_common(seen, IS_KERNEL, clock),
            "name": translated(seen["name"], lambda pointer: self._names.place(readable(symbol(pointer)))),
            "entry": translated(seen["name"], lambda pointer: self._entries.place(symbol(pointer))),
            "regs": seen["regs"], "shape": self._shape(seen["shape"], arena, seen["at"]),
            **_graph(seen),
        }

    def _copies(self, seen: dict[str, np.ndarray], clock: Any) -> dict[str, np.ndarray]:
        memory = seen["source"] * 256 + seen["target"]
        return {
            **_common(seen, IS_MEMCPY, clock),
            "name": self._worded(seen["direction"], lambda code: _DIRECTIONS.get(code, "copy")),
            "memory": self._worded(memory, lambda code: f"{_memory(code // 256)} to {_memory(code % 256)}"),
            "size_bytes": seen["bytes"], **_graph(seen),
        }

    def _sets(self, seen: dict[str, np.ndarray], clock: Any) -> dict[str, np.ndarray]:
        return {
            **_common(seen, IS_MEMSET, clock),
            "name": constant(self._names.place("memset"), len(seen["start"])),
            "memory": self._worded(seen["target"], _memory), "size_bytes": seen["bytes"], **_graph(seen),
        }

    def _waits(self, seen: dict[str, np.ndarray], clock: Any) -> dict[str, np.ndarray]:
        known = np.isin(seen["type"], list(_WAITS))  # the others make a stream wait, not the host
        seen = {name: values[known] for name, values in seen.items()}
        return {**_common(seen, IS_SYNC, clock), "name": self._worded(seen["type"], lambda code: _WAITS[code])}

    def _calls(self, seen: dict[str, np.ndarray], functions: dict[int, str], clock: Any) -> dict[str, np.ndarray]:
        return {
            "name": self._worded(seen["function"], lambda code: functions.get(code, f"function {code}")),
            "ident": seen["thread"], **_interval(seen, clock),
            "correlation_id": seen["correlation"], "result": seen["result"],
        }

    def _markers(self, seen: dict[str, np.ndarray], clock: Any) -> dict[str, np.ndarray]:
        return {
            "flags": seen["flags"], "time_ns": _times(seen["timestamp"], clock), "id": seen["id"],
            "ident": seen["thread"],
            "name": self._pointed(seen["name"]), "domain": self._pointed(seen["domain"]),
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
    return _TAGS.sub("", plain)


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


def _common(seen: dict[str, np.ndarray], kind: int, clock: Any) -> dict[str, np.ndarray]:
    count = len(seen["start"])
    return {
        "kind": constant(kind, count), "device": seen.get("device", constant(-1, count)), "stream": seen["stream"],
        **_interval(seen, clock), "correlation_id": seen["correlation"],
    }


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

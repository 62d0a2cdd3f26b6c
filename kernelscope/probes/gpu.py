"""What the probes of the GPU's side hand over: columns of numbers and what their codes stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

#: Kinds of activity, by code.
KERNEL, MEMCPY, MEMSET, SYNC = range(4)

ACTIVITY = ("kind", "name", "entry", "device", "stream", "start_ns", "end_ns", "correlation_id", "size_bytes", "memory",
            "cupti_graph_id", "cupti_node_id", "regs", "shape")
CALL = ("name", "ident", "start_ns", "end_ns", "correlation_id", "result")
#: Of one end of an NVTX range, or of a mark: `names` indices, the thread's ident (its lower 32 bits), flags, ids.
MARKER = ("flags", "time_ns", "id", "ident", "name", "domain")
#: What some of them have beside it.
MARKER_DATA = ("id", "color", "category")

Columns = dict[str, np.ndarray]


def _empty(names: tuple[str, ...]) -> Columns:
    return {name: np.empty(0, np.int64) for name in names}


@dataclass
class GpuColumns:
    """Activities and calls on the host clock; see `kernelscope.recording.activities.RawActivities`."""

    activities: Columns = field(default_factory=lambda: _empty(ACTIVITY))
    calls: Columns = field(default_factory=lambda: _empty(CALL))
    markers: Columns = field(default_factory=lambda: _empty(MARKER))
    marker_data: Columns = field(default_factory=lambda: _empty(MARKER_DATA))
    names: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)
    shapes: list[tuple[int | None, ...]] = field(default_factory=list)
    has_correlation: bool = True

    def extend(self, activities: list[Columns], calls: list[Columns], markers: Sequence[Columns] = (),
               marker_data: Sequence[Columns] = ()) -> None:
        """Add rows; columns that a part leaves out are unknown."""
        held = (_joined(self.activities, activities, "kind"), _joined(self.calls, calls, "name"),
                _joined(self.markers, markers, "id"), _joined(self.marker_data, marker_data, "id"))
        # Together: a Ctrl-C comes before or after.
        self.activities, self.calls, self.markers, self.marker_data = held


class Words:
    """Gives each text of a list its place in it."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        self._places = {text: place for place, text in enumerate(texts)}

    def place(self, text: str) -> int:
        """The text's place, which is the end of the list where it is new."""
        found = self._places.get(text)
        if found is None:
            found = self._places[text] = len(self._texts)
            self._texts.append(text)
        return found


def constant(value: int, count: int) -> np.ndarray:
    """Return a column of one value, which takes no memory and cannot be written to."""
    return np.broadcast_to(np.int32(value), count)


def translated(values: np.ndarray, number: Callable[[int], int]) -> np.ndarray:
    """Return ``number(value)`` of each value as int32; it is asked once for each of them, in order of their first row.

    By hashing, no sort; where all values are the same the column takes no memory.
    """
    if len(values) and (values == values[0]).all():
        return constant(number(int(values[0])), len(values))
    encoded = pa.array(values).dictionary_encode()
    found = np.array([number(value) for value in encoded.dictionary.to_pylist()], np.int32)
    return found[encoded.indices.to_numpy()]


def _joined(held: Columns, parts: Sequence[Columns], whole: str) -> Columns:
    """All rows; `whole` is a column that no part leaves out."""
    filled = [part for part in (held, *parts) if len(part[whole])]
    if not filled:
        return held
    return {name: _concatenated([part.get(name, len(part[whole])) for part in filled]) for name in held}


def _concatenated(parts: list[np.ndarray | int]) -> np.ndarray:
    """One column; a part that does not have it gives its length instead."""
    known = [constant(-1, part) if isinstance(part, int) else part for part in parts]
    if len(known) == 1:
        return known[0]
    if all(not any(part.strides) and part[0] == known[0][0] for part in known):
        return np.broadcast_to(known[0][0], sum(map(len, known)))
    return np.concatenate(known)

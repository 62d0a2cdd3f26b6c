"""Which launches went into a capture, and which nodes of its graph they became."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelscope.recording.columns import THREAD_BITS, Row
from kernelscope.recording.spans import Spans
from kernelscope.schema import UNKNOWN

#: The handle of the default stream that CUDA has for each thread in each context.
PER_THREAD = 2

_AXES = "xyz"


class Capturing:
    """Captures as spans of the streams that were part of them.

    A handle tells streams of one context apart only, and `PER_THREAD` is another stream in each thread too. Where the
    device of a capture or of a launch is not known, any fits.

    Parameters
    ----------
    stream, ident, device : ndarray of int64, shape (n,)
        The stream's handle, the thread that began the capture, and the device's ordinal (-1 unknown).
    start, end : ndarray of int64, shape (n,)
        When it began and ended.

    Attributes
    ----------
    streams : ndarray of int64
        The distinct handles.
    """

    def __init__(self, stream: np.ndarray, ident: np.ndarray, device: np.ndarray, start: np.ndarray,
                 end: np.ndarray) -> None:
        self.streams = np.unique(stream)
        self._rows = np.stack([stream, np.where(stream == PER_THREAD, ident, UNKNOWN), device])
        self._times = start, end

    def around(self, stream: np.ndarray, ident: np.ndarray, device: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Return the row of the capture that was under way on a stream, the latest of several; -1 for none."""
        found = np.full(len(stream), UNKNOWN)
        asked = np.flatnonzero(np.isin(stream, self.streams))
        if not len(asked):
            return found
        stream, ident, device, time = (values[asked] for values in (stream, ident, device, time))
        wanted = np.stack([stream, np.where(stream == PER_THREAD, ident, UNKNOWN), device])
        every = np.ones(self._rows.shape[1], bool)
        result = np.full(len(asked), UNKNOWN)
        for captures, launches, columns in ((every, device != UNKNOWN, 3), (every, device == UNKNOWN, 2),
                                            (self._rows[2] == UNKNOWN, device != UNKNOWN, 2)):
            rest = np.flatnonzero(launches & (result == UNKNOWN))
            if len(rest) and captures.any():
                result[rest] = self._around(captures, wanted[:, rest], time[rest], columns)
        found[asked] = result
        return found

    def _around(self, captures: np.ndarray, wanted: np.ndarray, time: np.ndarray, columns: int) -> np.ndarray:
        rows = np.flatnonzero(captures)
        both = np.concatenate([self._rows[:columns, rows], wanted[:columns]], axis=1)
        numbers = np.unique(both, axis=1, return_inverse=True)[1].reshape(-1)
        start, end = self._times
        place = Spans(numbers[:len(rows)], start[rows], end[rows]).around(numbers[len(rows):], time)
        return np.append(rows, UNKNOWN)[place]


def captured_launches(launches: dict[str, Any], configurations: Sequence[Row], threads: Sequence[Row],
                      devices: Sequence[Row], capturing: Capturing) -> np.ndarray:
    """Return the row of `capturing` in which each launch was submitted; -1 for none.

    A launch that raised became no node, and is none of a capture.
    """
    handles = [row.get("stream") for row in configurations]
    stream = np.array([UNKNOWN if handle is None else handle for handle in handles] + [UNKNOWN], np.int64)
    ident = np.array([(row.get("ident") or 0) & THREAD_BITS for row in threads] + [UNKNOWN], np.int64)
    ordinals = [row.get("ordinal") for row in devices]
    ordinal = np.array([UNKNOWN if each is None else each for each in ordinals] + [UNKNOWN], np.int64)
    found = np.full(len(launches["start_ns"]), UNKNOWN)
    candidates = np.isin(stream, capturing.streams)[launches["configuration_id"]]
    rows = np.flatnonzero(candidates & launches["error"].is_null().to_numpy(zero_copy_only=False))
    submitted = launches["submit_start_ns"][rows]
    time = np.where(submitted == UNKNOWN, launches["start_ns"][rows], submitted)
    found[rows] = capturing.around(stream[launches["configuration_id"][rows]], ident[launches["thread_id"][rows]],
                                   ordinal[launches["device_id"][rows]], time)
    return found


def nodes_of_launches(launches: dict[str, Any], capture: np.ndarray, graph_of_capture: np.ndarray,
                      nodes: Sequence[Row], configurations: Sequence[Row],
                      specializations: Sequence[Row]) -> np.ndarray:
    """Return the row in `nodes` that each captured launch became, -1 for none.

    The k-th launch of a kernel with a configuration, in one capture, is the k-th such node of the capture's graph;
    nodes of child graphs were captured elsewhere.

    Parameters
    ----------
    launches : dict of str to array
        The launches' columns, in order of start.
    capture : ndarray of int64
        The capture that each launch went into, -1 for none.
    graph_of_capture : ndarray of int64
        The graph that each capture made, -1 for unknown.
    nodes : sequence of dict
        Rows of the table ``graph_nodes``, with ``graph_node_id``, in order.
    configurations, specializations : sequence of dict
        Rows of the tables of that name.
    """
    found = np.full(len(capture), UNKNOWN)
    captured = np.flatnonzero(capture != UNKNOWN)
    shapes = [_shape(row) for row in configurations]
    wanted = set(graph_of_capture[capture[captured]].tolist())
    alike: defaultdict[Any, list[int]] = defaultdict(list)
    child: set[int] = set()
    for at, row in enumerate(nodes):
        if row["graph_id"] not in wanted:
            continue
        if row["kind"] == "child" or row.get("parent_node_id") in child:
            child.add(at)
        elif row.get("entry_name") and row.get("configuration_id") is not None:
            alike[row["graph_id"], row["entry_name"], shapes[row["configuration_id"]]].append(at)
    numbers: Counter[Any] = Counter()
    for launch, event, specialization, configuration in zip(
            captured.tolist(), capture[captured].tolist(), launches["specialization_id"][captured].tolist(),
            launches["configuration_id"][captured].tolist(), strict=True):
        name = specializations[specialization].get("entry_name") if specialization != UNKNOWN else None
        if not name:
            continue
        key = name, shapes[configuration]
        same = alike.get((int(graph_of_capture[event]), *key), ())
        number = numbers[event, key]
        numbers[event, key] += 1
        if number < len(same):
            found[launch] = same[number]
    return found


def _shape(configuration: Row) -> tuple[Any, ...]:
    """A configuration without its stream; a cluster of one block is none."""
    cluster = tuple(configuration.get(f"cluster_{axis}") or 1 for axis in _AXES)
    return (*(configuration.get(f"{kind}_{axis}") for kind in ("griddim", "blockdim") for axis in _AXES), cluster,
            configuration.get("sharedmem_bytes") or 0)

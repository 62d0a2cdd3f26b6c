"""The tables on the wire: what of a recording is drawn, in which track, and what its tooltip tells.

``cells``, ``ranges``, ``launches``, ``compiles``, ``passes``; ``events`` (what the host did for graphs) and ``builds``
(requests to build caches); ``gpu`` (activities of the GPU), ``graphs`` (one row a graph launch on the GPU) and
``calls`` (what the host called or waited for: API calls, waits, and the calls that asked for activities outside of our
launches). Each has ``start``, ``dur``, ``track`` and ``flags``: 1 where the end is unknown, 2 where the start is.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelscope.analysis.columns import codes, ints, matches, row_count
from kernelscope.analysis.ranges import attribute, attribute_activities
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.widgets.packing_calls import Calls, host_calls
from kernelscope.widgets.packing_clock import Clock
from kernelscope.widgets.packing_columns import LONG, Columns, Link
from kernelscope.widgets.packing_facts import thread_label
from kernelscope.widgets.packing_graphs import HostEvents
from kernelscope.widgets.packing_lanes import Lane, Lanes
from kernelscope.widgets.packing_rows import numbered, ranked

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NO_END, NO_START = 1, 2
#: In the tables `gpu`: the driver call's own times are unknown.
NO_CALL = 4
#: Where more launches than this have a kernel, the times of the driver calls inside of them are left out: they are
#: within the launch's submit phase, and would be a quarter of all bytes.
MOST_OWN_CALLS = 200_000
#: Which of a launch's boundaries are known, in its ``flags``.
BOUNDS = ("dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns")


class Builder:
    """Fills columns, lanes and texts from a recording.

    Attributes
    ----------
    clock : Clock
        Its times.
    texts : dict
        The words that columns of codes stand for, by table and column.
    undrawn : int
        Activities that have no time.
    left_out : list of str
        What does not travel, for the recording is large.
    """

    def __init__(self, recording: Recording, columns: Columns, lanes: Lanes) -> None:
        self.clock = Clock(recording)
        self.texts: dict[str, Any] = {"words": {}}
        self.undrawn = 0
        self.left_out: list[str] = []
        self._recording = recording
        self._columns = columns
        self._lanes = lanes
        self._events = HostEvents(recording, self.clock)
        self._range: Ints = np.empty(0, dtype=np.int64)
        self._threads = [thread_label(row) for row in recording.rows("threads")]

    def build(self) -> None:
        """Fill them."""
        if row_count(self._recording, "activities") < LONG:
            self._host_side()
            self._activities(host_calls(self._recording, self.clock))
            return
        # NumPy lets other threads run: the GPU's side is joined while the host's is gone through.
        with ThreadPoolExecutor(1) as beside:
            calls = beside.submit(host_calls, self._recording, self.clock)
            self._host_side()
            self._activities(calls.result())

    def _host_side(self) -> None:
        self._cells()
        self._ranges()
        self._launches()
        self._compiles()
        self._events.add(self._columns, self._lanes, self._host, self.texts["words"])

    def _cells(self) -> None:
        start, _ = self.clock.times("cells", "start_ns")
        end, _ = self.clock.times("cells", "end_ns")
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        track = np.zeros(len(start), dtype=np.int64)
        self._lanes.place(self._lanes.lane("cells", (), "Cells"), "cells", start, end, slice(None), track)
        self._times("cells", start, end, track, np.zeros(len(start), dtype=np.int64))
        self._columns.add("cells", "id", order)

    def _ranges(self) -> None:
        start, began = self.clock.times("ranges", "start_ns")
        end, ended = self.clock.times("ranges", "end_ns")
        end = np.where(ended, end, self.clock.span)
        thread = self._ints("ranges", "thread_id")
        mark = matches(self._recording, "ranges", "kind", "mark")
        process = matches(self._recording, "ranges", "kind", "start_end")
        domain, names = codes(self._recording, "ranges", "domain")
        track = np.zeros(len(start), dtype=np.int64)
        end = np.where(mark, start, end)
        for number in np.unique(domain).tolist():
            name = names[number] if number >= 0 else ""
            for on in np.unique(thread[domain == number]).tolist():
                here = (domain == number) & (thread == on)
                self._range_tracks(here, on, number, name, (mark, process), (start, end, track))
        self._times("ranges", start, end, track, NO_END * ~(ended | mark) + NO_START * ~began)
        self._words("ranges", "domain", "category", "color", "kind", "source")
        self._strings("ranges", "name", "payload")
        self._plain("ranges", "thread_id", "cell_id", "parent_range_id")

    def _range_tracks(
        self, here: Bools, on: int, number: int, name: str, kinds: tuple[Bools, Bools], times: tuple[Ints, ...]
    ) -> None:
        mark, process = kinds
        start, end, track = times
        thread = self._thread(on)
        for what, rows in (("mark", here & mark), ("push_pop", here & ~mark & ~process),
                           ("start_end", here & process)):
            at = np.flatnonzero(rows)
            if not len(at):
                continue
            lane = self._lanes.lane("nvtx", (number, name, on), f"NVTX {name}".strip(), thread)
            if what == "mark":
                # All marks share a track: they are ticks.
                first = at[:1]
                self._lanes.place(lane, "ranges", start, end, first, track, kind="marks")
                track[at] = track[first]
            else:
                self._lanes.place(lane, "ranges", start, end, at, track)

    def _launches(self) -> None:
        start, _ = self.clock.times("launches", "start_ns")
        thread = self._ints("launches", "thread_id")
        last, flags, parts = start, np.zeros(len(start), dtype=np.int64), {}
        for bit, name in enumerate(BOUNDS):
            bound, known = self.clock.times("launches", name)
            bound = np.where(known, bound, last)
            parts[f"part{bit}"] = bound - last
            flags += known.astype(np.int64) << bit
            last = bound
        track = np.zeros(len(start), dtype=np.int64)
        for on in np.unique(thread).tolist():
            at = slice(None) if bool((thread == on).all()) else np.flatnonzero(thread == on)
            self._lanes.place(self._host(on), "launches", start, last, at, track)
        self._plain("launches", "dispatcher_id")
        for name, values in parts.items():
            self._columns.add("launches", name, values, like="dispatcher_id")
        self._columns.add_sum("launches", "dur", list(parts))
        self._columns.add("launches", "start", start, duration="dur")
        self._columns.add("launches", "flags", flags)
        self._columns.add("launches", "track", track)
        self._columns.add_sum("launches", "submit_start", ["start", "part0", "part1"])
        self._columns.add_sum("launches", "submit_end", ["submit_start", "part2"])
        self._plain("launches", "compile_ns", "device_id", "thread_id", "cell_id",
                    "parent_launch_id", "compilation_id", "correlation_id")
        for name in ("specialization_id", "configuration_id"):
            self._columns.add("launches", name, self._ints("launches", name), like="dispatcher_id")
        self._range = attribute(self._recording)
        self._columns.add("launches", "range", self._range)
        self._words("launches", "cache", "error")
        self._columns.add("launches", "capture", self._events.row_of(self._ints("launches", "capture_event_id")))

    def _compiles(self) -> None:
        start, _ = self.clock.times("compilations", "start_ns")
        end, ended = self.clock.times("compilations", "end_ns")
        end = np.where(ended, end, start)
        thread = self._ints("compilations", "thread_id")
        track = np.zeros(len(start), dtype=np.int64)
        passes, timed = self.clock.times("passes", "start_ns")
        rows = np.flatnonzero(timed)
        rows = rows[np.argsort(passes[rows], kind="stable")]
        begin = passes[rows]
        finish = begin + np.clip(self._ints("passes", "duration_ns")[rows], 0, self.clock.span)
        owner = self._ints("passes", "compilation_id")[rows]
        on = np.append(thread, -1)[owner]
        inside = np.zeros(len(rows), dtype=np.int64)
        for number in np.unique(np.concatenate((thread, on))).tolist():
            lane = self._host(number)
            self._lanes.place(lane, "compiles", start, end, np.flatnonzero(thread == number), track)
            self._lanes.place(lane, "passes", begin, finish, np.flatnonzero(on == number), inside)
        self._times("compiles", start, end, track, NO_END * ~ended)
        for name in ("thread_id", "cell_id", "dispatcher_id", "specialization_id", "configuration_id", "launch_id"):
            self._columns.add("compiles", name, self._ints("compilations", name))
        self._times("passes", begin, finish, inside, 0 * begin)
        self._columns.add("passes", "compilation_id", owner)
        for name in ("name", "kind"):
            self._words("passes", name, rows=rows)

    def _activities(self, calls: Calls) -> None:
        self._calls(calls)
        self._graphs(calls)
        start, end, rows, at, flags = calls.start, calls.end, calls.rows, calls.at, calls.flags
        self.undrawn += calls.undrawn
        track = np.zeros(len(rows), dtype=np.int64)
        device = self._ints("activities", "device_id")[at]
        stream = self._ints("activities", "stream")[at]
        pairs, of = numbered(device, stream)
        for number, (on, each) in enumerate(pairs):
            those = slice(None) if len(pairs) == 1 else np.flatnonzero(of == number)
            label = f"GPU {self._ordinal(on)}" if on >= 0 else "GPU"
            lane = self._lanes.lane("gpu", (on, each), label, f"stream {each}" if each >= 0 else "")
            self._lanes.place(lane, "gpu", start, end, those, track)
        launch = self._ints("activities", "launch_id")[at]
        self._columns.add("gpu", "launch", launch)
        specialization = self._ints("activities", "specialization_id")[at]
        owner = np.append(self._ints("specializations", "dispatcher_id"), -1)
        self._columns.add("gpu", "kernel", owner[specialization], link=Link("launch", "launches", "dispatcher_id"))
        lasted = end - start
        self._names(at, lasted)
        self._columns.add("gpu", "dur", lasted, like="name")
        self._columns.add("gpu", "start", start, duration="dur", link=Link("launch", "launches", "submit_end"))
        self._columns.add("gpu", "flags", flags)
        self._columns.add("gpu", "track", track)
        self._columns.add("gpu", "id", rows)
        for name in ("specialization_id", "configuration_id", "cell_id", "thread_id", "correlation_id"):
            self._columns.add("gpu", name, self._ints("activities", name)[at],
                              link=Link("launch", "launches", name))
        for name in ("device_id", "stream", "regs", "size_bytes", "graph_node_id", "cupti_graph_id", "cupti_node_id"):
            self._columns.add("gpu", name, self._ints("activities", name)[at], like="name")
        self._columns.add("gpu", "range", attribute_activities(self._recording, self._range)[at],
                          link=Link("launch", "launches", "range"))
        self._columns.add("gpu", "call", calls.call_of)
        self._columns.add("gpu", "graph", calls.graph_of)
        if self._has_own_calls(launch):
            self._columns.add("gpu", "call_start", calls.own_start, link=Link("launch", "launches", "submit_start"))
            self._columns.add("gpu", "call_end", calls.own_end, link=Link("launch", "launches", "submit_end"))
        self._words("gpu", "kind", "entry_name", "api", "memory", rows=at, table_name="activities", like="name")
        self._measured(calls)

    def _has_own_calls(self, launch: Ints) -> bool:
        """Whether the driver calls inside of launches travel too: noise of two bytes and a half each."""
        if int((launch >= 0).sum()) <= MOST_OWN_CALLS:
            return True
        self.left_out.append("the driver calls inside of launches")
        return False

    def _calls(self, calls: Calls) -> None:
        track = np.zeros(len(calls.called), dtype=np.int64)
        for on in np.unique(calls.called_by).tolist():
            at = np.flatnonzero(calls.called_by == on)
            self._lanes.place(self._host(on), "calls", calls.called, calls.returned, at, track)
        self._times("calls", calls.called, calls.returned, track, calls.call_flags)
        for name, values in calls.columns.items():
            self._columns.add("calls", name, values)
        self.texts["words"]["calls.name"] = calls.names

    def _graphs(self, calls: Calls) -> None:
        track = np.zeros(len(calls.graph_start), dtype=np.int64)
        lane = self._lanes.lane("graphs", (), "Graph launches", "first to last node")
        self._lanes.place(lane, "graphs", calls.graph_start, calls.graph_end, slice(None), track)
        self._times("graphs", calls.graph_start, calls.graph_end, track, 0 * track)
        for name, values in calls.graph_columns.items():
            self._columns.add("graphs", name, self._events.row_of(values) if name == "event" else values)
        self.texts["words"]["graphs.name"] = calls.graph_names

    def _names(self, at: Ints | slice, duration: Ints) -> None:
        """Kernels' names in order of the time that they took: the front end's colors go by it."""
        values, words = codes(self._recording, "activities", "name")
        values = values[at]
        kernel = matches(self._recording, "activities", "kind", "kernel")[at]
        names, order = ranked(values, np.where(kernel, np.maximum(duration, 0), 0), len(words))
        self._columns.add("gpu", "name", names, like="kernel")
        self.texts["words"]["gpu.name"] = [words[at] for at in order.tolist()]

    def _measured(self, calls: Calls) -> None:
        """Queue and execute of the launches, where they are not what the activities say anyway."""
        for name, derived in (("queue_ns", calls.queue), ("execute_ns", calls.execute)):
            held = self._ints("launches", name)
            if not np.array_equal(held, derived):
                self._columns.add("launches", name, held)

    def _times(self, table: str, start: Ints, end: Ints, track: Ints, flags: Ints) -> None:
        self._columns.add(table, "dur", end - start)
        self._columns.add(table, "start", start, duration="dur")
        self._columns.add(table, "flags", flags)
        self._columns.add(table, "track", track)

    def _plain(self, table: str, *names: str) -> None:
        for name in names:
            self._columns.add(table, name, self._ints(table, name))

    def _words(
        self, table: str, *names: str, rows: Any = slice(None), table_name: str = "", like: str = ""
    ) -> None:
        for name in names:
            values, words = codes(self._recording, table_name or table, name)
            self._columns.add(table, name, values[rows], like=like)
            self.texts["words"][f"{table}.{name}"] = words

    def _strings(self, table: str, *names: str) -> None:
        """Columns of free text, each distinct text once."""
        source: Any = self._recording
        for name in names:
            column = source.arrow(table).column(name).combine_chunks().dictionary_encode()
            values = np.asarray(column.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
            self._columns.add(table, name, values)
            self.texts["words"][f"{table}.{name}"] = column.dictionary.to_pylist()

    def _ints(self, table: str, name: str) -> Ints:
        """A column; one without any value is not filled in, row by row."""
        source: Any = self._recording
        column = source.arrow(table).column(name)
        if len(column) and column.null_count == len(column):
            return np.broadcast_to(np.int64(UNKNOWN), (len(column),))
        return ints(self._recording, table, name)

    def _host(self, thread: int) -> Lane:
        return self._lanes.lane("host", (thread if thread >= 0 else 1 << 40,), self._thread(thread), "host thread")

    def _thread(self, number: int) -> str:
        return self._threads[number] if 0 <= number < len(self._threads) else "unknown thread"

    def _ordinal(self, device: int) -> int:
        rows = self._recording.rows("devices") if row_count(self._recording, "devices") else []
        value = rows[device]["ordinal"] if device < len(rows) else None
        return device if value is None else int(value)

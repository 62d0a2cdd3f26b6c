"""The host's side of graphs and build caches on the wire: the tables ``events`` and ``builds``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelscope.analysis.columns import codes, ints, row_count
from kernelscope.analysis.graph_names import build_names, event_names
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.widgets.packing_clock import Clock
from kernelscope.widgets.packing_columns import Columns
from kernelscope.widgets.packing_lanes import Lane, Lanes

Ints = NDArray[np.int64]

_NO_END = 1


class HostEvents:
    """What host threads did for graphs and in build caches: what has no start cannot be drawn.

    Parameters
    ----------
    recording : Recording
        What to draw.
    clock : Clock
        Its times.

    Attributes
    ----------
    place : ndarray of int64, shape (graph_events + 1,)
        The row on the wire of each event, -1 for none; behind them one for rows that are -1.
    """

    def __init__(self, recording: Recording, clock: Clock) -> None:
        self._recording = recording
        self._clock = clock
        _, known = clock.times("graph_events", "start_ns")
        self._events = np.flatnonzero(known)
        self.place = np.full(len(known) + 1, UNKNOWN, dtype=np.int64)
        self.place[self._events] = np.arange(len(self._events))

    def row_of(self, event: Ints) -> Ints:
        """Return the rows on the wire of events, -1 for none."""
        return self.place[np.where(event < len(self.place) - 1, event, UNKNOWN)]

    def add(
        self, columns: Columns, lanes: Lanes, host: Callable[[int], Lane], words: dict[str, list[str]]
    ) -> None:
        """Add both tables, their tracks on the lanes of host threads, and what their codes stand for."""
        self._add("graph_events", "events", self._events, columns, lanes, host)
        rows = self._events
        name, words["events.name"] = event_names(self._recording)
        columns.add("events", "name", name[rows])
        for column in ("kind", "outcome", "change", "api"):
            values, words[f"events.{column}"] = codes(self._recording, "graph_events", column)
            columns.add("events", column, values[rows])
        self._texts("graph_events", "events", rows, columns, words, "changes", "error")
        for column in ("graph_id", "exec_id", "correlation_id", "queue_ns", "execute_ns", "stream"):
            columns.add("events", column, ints(self._recording, "graph_events", column)[rows])
        columns.add("events", "rebuild_of", self.row_of(ints(self._recording, "graph_events", "rebuild_of"))[rows])

        rows = np.arange(row_count(self._recording, "builds"))
        self._add("builds", "builds", rows, columns, lanes, host)
        names = build_names(self._recording)
        known = {each: at for at, each in enumerate(dict.fromkeys(names))}
        columns.add("builds", "name", np.array([known[each] for each in names], dtype=np.int64))
        words["builds.name"] = list(known)
        for column in ("outcome", "framework"):
            values, words[f"builds.{column}"] = codes(self._recording, "builds", column)
            columns.add("builds", column, values)
        self._texts("builds", "builds", rows, columns, words, "reason", "fix", "differing_parts", "error")
        for column in ("launch_id", "build_ns"):
            columns.add("builds", column, ints(self._recording, "builds", column))

    def _add(
        self, source: str, table: str, rows: Ints, columns: Columns, lanes: Lanes, host: Callable[[int], Lane]
    ) -> None:
        start = self._clock.times(source, "start_ns")[0][rows]
        end, ended = (each[rows] for each in self._clock.times(source, "end_ns"))
        end = np.where(ended, np.maximum(end, start), start)
        thread = ints(self._recording, source, "thread_id")[rows]
        track = np.zeros(len(rows), dtype=np.int64)
        for on in np.unique(thread).tolist():
            at = np.flatnonzero(thread == on)
            lanes.place(host(on), table, start, end, at[np.argsort(start[at], kind="stable")], track)
        columns.add(table, "dur", end - start)
        columns.add(table, "start", start, duration="dur")
        columns.add(table, "flags", _NO_END * ~ended)
        columns.add(table, "track", track)
        columns.add(table, "id", rows)
        columns.add(table, "thread_id", thread)
        columns.add(table, "cell_id", ints(self._recording, source, "cell_id")[rows])

    def _texts(
        self, source: str, table: str, rows: Ints, columns: Columns, words: dict[str, list[str]], *names: str
    ) -> None:
        """Columns of free text, each distinct text once."""
        held: Any = self._recording
        for name in names:
            column = held.arrow(source).column(name).combine_chunks().dictionary_encode()
            values = np.asarray(column.indices.fill_null(UNKNOWN).to_numpy(zero_copy_only=False), dtype=np.int64)
            columns.add(table, name, values[rows])
            words[f"{table}.{name}"] = column.dictionary.to_pylist()

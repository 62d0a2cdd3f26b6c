"""Executable graphs: which builds were rebuilds, of what, and whether they were needed.

A *build* is an instantiate: it makes an executable graph. It is a *rebuild* where the same topology was instantiated
before; what differs is nothing, arguments, or the launch configuration. A rebuild *replaces* the executable graph
before it where that one was launched or closed, and is not launched any more: then it could have been launched again,
or updated. Where both go on to be launched, as of graphs that are kept for several sizes, each was needed; and so of
graphs with other launch configurations as long as the one before is not closed, for it may be kept for later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelscope.analysis.columns import Bools, codes, count_by, ints, matches
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN


@dataclass(frozen=True)
class Executable:
    """One executable graph.

    Attributes
    ----------
    exec_id : int
        The event that it came from: an instantiate, or before.
    graph_id, cell_id, start_ns, build_ns : int or None
        Its graph; where, when and how long it was built.
    rebuild_of : int or None
        The executable graph of the same topology that could have been used.
    change : str or None
        What differs from that one.
    replaces : bool
        Whether that one was not launched any more afterwards.
    updates, refused, launches : int
        Of it.
    is_closed : bool
        Whether it was seen being destroyed: then these are all that there were.
    """

    exec_id: int
    graph_id: int | None
    cell_id: int | None
    start_ns: int | None
    build_ns: int | None
    rebuild_of: int | None
    change: str | None
    replaces: bool
    updates: int
    refused: int
    launches: int
    is_closed: bool


def executables(recording: Recording) -> list[Executable]:
    """Return every executable graph, as they were made; an instantiate that failed made none."""
    events = GraphEvents(recording)
    words = [None if at < 0 else events.changes[at] for at in events.change.tolist()]
    made = np.flatnonzero((events.of("instantiate") & events.is_ok) | events.of("before")).tolist()
    size = len(events.kind)
    counts = {
        name: count_by(events.executable, size, where).tolist()
        for name, where in (("updates", events.of("update") & events.is_ok), ("refused", events.refused),
                            ("launches", events.of("launch")), ("closed", events.of("close")))
    }
    replaces = events.replaces
    return [
        Executable(
            exec_id=at, graph_id=_known(events.graph[at]), cell_id=_known(events.cell[at]),
            start_ns=_known(events.start[at]), build_ns=_known(events.lasted[at]),
            rebuild_of=_known(events.rebuild_of[at]), change=words[at], replaces=bool(replaces[at]),
            updates=counts["updates"][at], refused=counts["refused"][at], launches=counts["launches"][at],
            is_closed=bool(counts["closed"][at]),
        )
        for at in made
    ]


class GraphEvents:
    """The table ``graph_events`` by column."""

    def __init__(self, recording: Recording) -> None:
        self.kind, self._kinds = codes(recording, "graph_events", "kind")
        self.change, self.changes = codes(recording, "graph_events", "change")
        self.is_ok = matches(recording, "graph_events", "outcome", "ok")
        self.graph, self.executable, self.cell, self.start, self.rebuild_of = (
            ints(recording, "graph_events", name)
            for name in ("graph_id", "exec_id", "cell_id", "start_ns", "rebuild_of"))
        end = ints(recording, "graph_events", "end_ns")
        self.lasted = np.where((self.start >= 0) & (end >= self.start), end - self.start, UNKNOWN)
        self.refused = self.of("update") & ~self.is_ok

    def of(self, *kinds: str) -> Bools:
        """Return which events are of these kinds."""
        wanted = [at for at, word in enumerate(self._kinds) if word in kinds]
        return np.isin(self.kind, np.array(wanted, dtype=np.int64))

    @property
    def replaces(self) -> Bools:
        """Which rebuilds replaced the executable graph before them; see above."""
        size = len(self.kind)
        last, closed = np.full(size + 1, UNKNOWN, dtype=np.int64), np.zeros(size + 1, dtype=np.bool_)
        known = (self.executable >= 0) & (self.executable < size)
        launched = self.of("launch") & known
        np.maximum.at(last, self.executable[launched], self.start[launched])
        closed[self.executable[self.of("close") & known]] = True
        before = np.where(self.rebuild_of < size, self.rebuild_of, UNKNOWN)
        is_rebuild = self.of("instantiate") & self.is_ok & (before >= 0)
        resized = self.change == (self.changes.index("configuration") if "configuration" in self.changes else size)
        return is_rebuild & (last[before] <= self.start) & (closed[before] | ((last[before] >= 0) & ~resized))

    @property
    def reuploads(self) -> Bools:
        """Which uploads were of an executable graph that had been uploaded or launched since its last change."""
        changes, places = self.of("instantiate", "before", "update") & self.is_ok, self.of("upload", "launch")
        found = np.zeros(len(self.kind), dtype=np.bool_)
        uploads = self.of("upload") & self.is_ok
        there: dict[int, bool] = {}
        for at in np.flatnonzero(changes | places).tolist() if uploads.any() else ():
            on = int(self.executable[at])
            found[at] = uploads[at] and there.get(on, False)
            there[on] = not changes[at]
        return found


def _known(value: Any) -> int | None:
    return None if value < 0 else int(value)

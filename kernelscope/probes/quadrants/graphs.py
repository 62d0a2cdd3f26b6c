"""Graphs that Quadrants makes of ``@qd.kernel(graph=True)``: what its Program tells after each launch.

Where CUPTI watches graphs, its events have the times, the nodes and the ids, and these only add which kernel a graph is
of. Where it does not, they stand for themselves. One call of Quadrants' runtime builds a graph and launches it: the
build's time has the first launch in it, and that launch is written as of its end.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from kernelscope.probes.graph_rows import LAUNCH
from kernelscope.probes.launch_log import ThreadState
from kernelscope.probes.quadrants.facts import Facts
from kernelscope.probes.sink import Sink

_COLUMNS = len(LAUNCH)


class GraphLog:
    """Collects the graphs' builds and launches of one session; `publish` hands them to the sink."""

    def __init__(self, sink: Sink, facts: Facts) -> None:
        self._sink = sink
        self._facts = facts
        self._events: list[dict[str, Any]] = []
        #: Numbers only, `LAUNCH` after `LAUNCH`; the executable graph is a position in `_events`.
        self._launches: list[int] = []
        #: By the ``id`` of a specialization's KernelCxx, the position in `_events` of what made its executable graph.
        self._execs: dict[int, int] = {}
        self._plain: set[int] = set()
        self._published: dict[int, int] = {}
        #: What this Quadrants does not have, so that graphs cannot be told.
        self.missing = False

    def builds(self, kernel: Any) -> int:
        """How many graphs the kernel's program has built; 0 before it has one."""
        program = kernel.runtime._prog
        return 0 if program is None or self.missing else program.get_graph_total_builds()

    def launched(self, kernel: Any, state: ThreadState, start: float, end: float, before: int) -> None:
        """A kernel with ``graph=True`` was launched; `before` is how many graphs there were."""
        if self.missing:
            return
        program, number = kernel.runtime._prog, id(state.kernel)
        if not program.get_graph_cache_used_on_last_call():
            if number not in self._plain:
                self._plain.add(number)
                self._facts.fell_back(kernel, number)
            return
        submitted = state.submit_start if state.submit_start >= start else start
        returned = state.submit_end if state.submit_end >= submitted else end
        first, last = round(submitted * 1e9), round(returned * 1e9)
        built = program.get_graph_total_builds() > before
        position = self._execs.get(number)
        if built or position is None:
            position = self._event(kernel, program, state, first if built else None, last if built else None)
            self._execs[number] = position
        if built:
            first = last
        self._launches += (position, 0, state.ident & 0xFFFFFFFF, first, last, 0)

    def forget(self, number: int) -> None:
        """The KernelCxx of that ``id`` is a new one."""
        self._execs.pop(number, None)
        self._plain.discard(number)

    def publish(self) -> None:
        """Hand over what was collected since the last time."""
        if not self._events:
            return
        rows = self._sink.graphs
        if rows.execs:
            self._describe_native()
            return
        for position, event in enumerate(self._events):
            if position not in self._published:
                self._published[position] = len(rows.events)
                rows.events.append({**event, "exec_id": len(rows.events)})
        count = len(self._launches) // _COLUMNS
        mine = np.array(self._launches[:count * _COLUMNS], np.int64).reshape(-1, _COLUMNS)
        place = np.array([self._published[position] for position in range(len(self._events))], np.int64)
        mine[:, 0] = place[mine[:, 0]]
        others = ~np.isin(rows.launches["exec"], place)
        rows.launches = {name: np.concatenate([rows.launches[name][others], mine[:, number]])
                         for number, name in enumerate(LAUNCH)}

    def _event(self, kernel: Any, program: Any, state: ThreadState, start: int | None, end: int | None) -> int:
        attributes = {
            "framework": "quadrants", "kernel": self._facts.name(kernel),
            "nodes": program.get_graph_num_nodes_on_last_call(),
            "cache_size": program.get_graph_cache_size(), "do_while": self._facts.loops(kernel),
            "checkpoints": program.get_graph_num_checkpoints_on_last_call(),
        }
        self._events.append({
            "kind": "before" if start is None else "instantiate", "graph_id": None, "stream": 0,
            "thread_ident": state.ident, "start_ns": start, "end_ns": end, "outcome": "ok",
            "attributes": json.dumps({name: value for name, value in attributes.items() if value}),
        })
        return len(self._events) - 1

    def _describe_native(self) -> None:
        """Give the graphs that CUPTI saw being built inside of ours the kernel that they are of."""
        built = [event for event in self._events if event["start_ns"] is not None]
        for event in self._sink.graphs.events:
            if event["kind"] != "instantiate" or event.get("attributes"):
                continue
            for mine in built:
                if (event.get("thread_ident") == mine["thread_ident"]
                        and mine["start_ns"] <= event["start_ns"] <= mine["end_ns"]):
                    event["attributes"] = mine["attributes"]

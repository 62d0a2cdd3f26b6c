"""Recordings made by hand in which graphs are captured, built, rebuilt, updated and launched."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from handmade import MS, US, Script


class GraphScript(Script):
    """A script of one cell with two kernels and graphs of one topology: three kernels in a row, then a copy.

    Graph 0 launches four blocks a kernel, graph 1 sixteen.
    """

    def __init__(self, **metadata: Any) -> None:
        super().__init__(**({"name": "graphs", "gpu": {"source": "cupti"}} | metadata))
        self.rows["threads"] = [{"thread_id": 0, "ident": 1, "name": "MainThread"}]
        self.device(name="NVIDIA H100", multiprocessors=132)
        self.cell(wall_ns=60 * MS, execution_count=5, name="replay")
        for at, name in enumerate(("axpy", "block_sum")):
            self.kernel(name, lineno=7 + 13 * at)
            self.specialization(at)
            self.configuration(((4,), (16,))[at])
        self.nodes = [self._chain(at) for at in range(2)]
        self._calls = 100

    def _chain(self, at: int) -> list[int]:
        graph = self.graph(f"fingerprint {at}", "chain")
        nodes = [self.graph_node(graph, specialization_id=0, configuration_id=at) for _ in range(3)]
        nodes.append(self.graph_node(graph, "memcpy", "DtoH", size_bytes=4096))
        for first, then in pairwise(nodes):
            self.graph_edge(first, then)
        return nodes

    def capture(self, launches: int = 3, graph: int = 0) -> int:
        """Add a capture of 120 µs and the launches of axpy that went into it, of 10 µs each."""
        begin = self.now
        event = self.graph_event("capture", graph, 120 * US, stream=17)
        self.now = begin + 5 * US
        for at in range(launches):
            self.launch(capture_event_id=event, graph_node_id=self.nodes[graph][at])
        self.now = begin + 130 * US
        return event

    def instantiate(self, graph: int = 0, duration_ns: int = 400 * US, **row: Any) -> int:
        return self.graph_event("instantiate", graph, duration_ns, api="cuGraphInstantiateWithParams", **row)

    def replay(self, executable: int, graph: int = 0, node_ns: int = 10 * US) -> int:
        """Add a launch of 8 µs whose nodes run 6 µs later, 1 µs apart."""
        self._calls += 1
        asked = self.now
        event = self.graph_event("launch", graph, 8 * US, exec_id=executable, correlation_id=self._calls, stream=17)
        begun = asked + 14 * US
        for at, node in enumerate(self.nodes[graph]):
            self.activity(
                "kernel" if at < 3 else "memcpy", "axpy" if at < 3 else "DtoH", node_ns,
                start_ns=begun + at * (node_ns + US), graph_event_id=event, graph_node_id=node,
                cupti_graph_id=40 + executable, cupti_node_id=at, correlation_id=self._calls, api="cuGraphLaunch",
                submit_start_ns=asked, submit_end_ns=asked + 8 * US, specialization_id=0 if at < 3 else None,
                configuration_id=graph if at < 3 else None)
        lasted = 4 * node_ns + 3 * US
        self.rows["graph_events"][event] |= {"queue_ns": 6 * US, "execute_ns": lasted}
        self.now = begun + lasted + 5 * US
        return event

    def close(self, executable: int, graph: int = 0) -> int:
        return self.graph_event("close", graph, US, exec_id=executable)


def rebuilt(**metadata: Any) -> GraphScript:
    """A graph captured and replayed, updated, then built again six times: four for nothing, two for an argument."""
    made = GraphScript(**metadata)
    first = made.instantiate(source_event_id=made.capture())
    for _ in range(2):
        made.graph_event("upload", 0, exec_id=first)
    for _ in range(5):
        made.replay(first)
    made.graph_event("update", 1, 90 * US, exec_id=first, change="configuration", changes="grid of axpy 4 to 16")
    made.replay(first, 1)
    made.graph_event("update", 0, 60 * US, exec_id=first, outcome="refused", error="nodes were added")
    before = first
    for at in range(6):
        changed = {"change": "none"} if at < 4 else {"change": "arguments", "changes": "argument 1 of axpy"}
        before = made.instantiate(duration_ns=(400 + at) * US, rebuild_of=before, **changed)
        made.replay(before)
    made.close(before)
    for _ in range(4):
        made.launch(1, specialization=1, configuration=1)
    made.rows["cells"][0]["end_ns"] = made.now + MS
    return made


def with_builds(made: Script) -> Script:
    """Add a call of cuda.compute, whose launch configuration is hidden, and requests to its build cache."""
    kernel = made.kernel("reduce_into", framework="cuda.compute", filename=None, lineno=None, module=None)
    hidden = made._add("configurations", "configuration_id", {"stream": 0})
    call = made.launch(kernel, None, None, hidden, cache=None)
    for name in ("DeviceReduce", "DeviceReduceSingleTile"):
        made.activity(name=name, launch_id=call, start_ns=made.now, duration_ns=5 * US)
    made.build(launch_id=call, build_ns=850 * MS, cubin_bytes=20_480)
    made.build(outcome="hit", duration_ns=80 * US, build_ns=0)
    made.build(duration_ns=1_800 * MS, build_ns=1_700 * MS, reason_code="new_operator_name", cubin_bytes=20_480,
               reason="only the operator's name `add2` differs", fix="define the operator once")
    made.build("merge_sort", "wait", 500 * MS)
    return made

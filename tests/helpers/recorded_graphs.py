"""A recording of graphs on a GPU, and what its probes wrote."""

from __future__ import annotations

import numpy as np

from kernelscope.probes.cuda_core import CudaCoreProbe
from kernelscope.probes.cuda_core.graphs import Memory
from kernelscope.probes.cupti import CuptiProbe
from kernelscope.probes.sink import KERNEL
from kernelscope.recorder.recorder import Recorder


class Recorded:
    """One recording, and what its probes wrote."""

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = Memory() if memory is None else memory

    def __enter__(self):
        self._recorder = Recorder(probes=[CuptiProbe(), CudaCoreProbe(memory=self._memory)]).start()
        self.sink = self._recorder._session.sink
        return self

    def __exit__(self, *error):
        self._recorder.stop()
        assert not self.sink.errors, self.sink.first_errors
        self.rows = self.sink.graphs

    def events(self, kind):
        return [row for row in self.rows.events if row["kind"] == kind]

    def graph_at(self, exec_id, time_ns):
        """The graph of an executable graph when it was launched."""
        graph = None
        for row in self.rows.events:
            made = row["start_ns"] is None or row["start_ns"] < time_ns
            if row.get("exec_id") == exec_id and made and row.get("graph_id") is not None:
                graph = row["graph_id"]
        return graph

    def activities(self):
        """Each activity of a graph: its start, its own mangled name or kind, and the node that it is said to be."""
        found = []
        columns = self.sink.gpu.activities
        for place in np.flatnonzero(columns["cupti_graph_id"] > 0):
            row = {name: int(values[place]) for name, values in columns.items()}
            assert row["cupti_node_id"] >> 32 == row["cupti_graph_id"]
            graph = self.graph_at(self.rows.execs[row["cupti_graph_id"]], row["start_ns"])
            node = self.rows.nodes_of.get((graph, row["cupti_node_id"] & 0xFFFFFFFF))
            entry = self.sink.gpu.entries[row["entry"]] if row["kind"] == KERNEL else None
            shape = self.sink.gpu.shapes[row["shape"]] if row["kind"] == KERNEL else None
            found.append((row, entry, shape, None if node is None else self.rows.nodes[node]))
        return sorted(found, key=lambda each: each[0]["start_ns"])

    def assert_joined(self, count):
        """Every activity is of a node of its own name and configuration."""
        activities = self.activities()
        assert len(activities) == count
        for row, entry, shape, node in activities:
            assert node is not None, (row, entry, self.rows.nodes_of, self.rows.nodes)
            if row["kind"] == KERNEL:
                assert node["kind"] == "kernel"
                assert node["entry_name"] == entry
                configuration = self.sink.configurations.rows[node["configuration_id"]]
                assert configuration["griddim_x"] == shape[0]
                assert configuration["blockdim_x"] == shape[3]
                assert configuration["sharedmem_bytes"] == shape[9]
            else:
                assert node["kind"] in ("memcpy", "memset")
                assert node["size_bytes"] == row["size_bytes"]
        return activities

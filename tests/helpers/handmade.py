"""Recordings made by hand, row by row: what a probe would need a long story for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table, table_of_rows

US = 1_000
MS = 1_000_000


class Script:
    """Writes a recording by hand: each method adds a row and returns its id."""

    def __init__(self, **metadata: Any) -> None:
        self.metadata = metadata
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.now = 1_000 * MS
        self.compiled = 0

    def _add(self, table: str, key: str | None, row: dict[str, Any]) -> int:
        rows = self.rows.setdefault(table, [])
        if key:
            row[key] = len(rows)
        rows.append(row)
        return len(rows) - 1

    def cell(self, wall_ns: int = 100 * MS, **row: Any) -> int:
        row = {"start_ns": self.now, "end_ns": self.now + wall_ns, "status": "ok"} | row
        return self._add("cells", "cell_id", row)

    def device(self, **row: Any) -> int:
        return self._add("devices", "device_id", {"ordinal": 0} | row)

    def kernel(self, name: str = "axpy", **row: Any) -> int:
        row = {"framework": "numba-cuda", "name": name, "module": "__main__", "filename": "/home/u/k.py",
               "lineno": 7} | row
        return self._add("dispatchers", "dispatcher_id", row)

    def specialization(self, dispatcher: int = 0, signature: str = "(array(float32, 1d, C),)", **row: Any) -> int:
        row = {"dispatcher_id": dispatcher, "signature": signature, "origin": "compiled"} | row
        return self._add("specializations", "specialization_id", row)

    def configuration(self, grid: tuple[int, ...] = (4,), block: tuple[int, ...] = (128,), **row: Any) -> int:
        dims = dict(zip(("griddim_x", "griddim_y", "griddim_z"), (*grid, 1, 1), strict=False))
        dims |= dict(zip(("blockdim_x", "blockdim_y", "blockdim_z"), (*block, 1, 1), strict=False))
        return self._add("configurations", "configuration_id", dims | {"sharedmem_bytes": 0, "stream": 0} | row)

    def launchable(self, name: str = "axpy", **row: Any) -> int:
        """Add a kernel with one specialization and one launch configuration."""
        kernel = self.kernel(name, **row)
        self.specialization(kernel)
        self.configuration()
        return kernel

    def launch(
        self, dispatcher: int = 0, phases: tuple[int, int, int, int, int] | None = (3_000, 0, 4_000, 2_000, 1_000),
        specialization: int | None = 0, configuration: int = 0, **row: Any,
    ) -> int:
        """Add a launch; `phases` are dispatch, compile, prepare, submit and finish in nanoseconds."""
        held: dict[str, Any] = {
            "cell_id": 0 if "cells" in self.rows else None, "thread_id": 0, "dispatcher_id": dispatcher,
            "specialization_id": specialization, "configuration_id": configuration, "start_ns": self.now,
            "cache": "memory",
        }
        if phases is None:
            held["end_ns"] = self.now + 10_000
        else:
            dispatch, compiling, prepare, submit, finish = phases
            dispatched = self.now + dispatch + compiling
            held |= {
                "compile_ns": compiling, "dispatch_end_ns": dispatched, "submit_start_ns": dispatched + prepare,
                "submit_end_ns": dispatched + prepare + submit,
                "end_ns": dispatched + prepare + submit + finish,
            }
            if compiling:
                held["cache"] = "compiled"
        held |= row
        self.now = max(self.now, held.get("end_ns") or 0) + 5_000
        return self._add("launches", "launch_id", held)

    def compilation(self, dispatcher: int = 0, duration_ns: int = 250 * MS, **row: Any) -> int:
        """Add a compile that begins now, or behind the one before: a thread compiles one after the other."""
        start = max(self.now, self.compiled)
        if "start_ns" not in row:
            self.compiled = start + duration_ns
        row = {
            "dispatcher_id": dispatcher, "thread_id": 0, "trigger": "launch", "outcome": "compiled",
            "signature": "(array(float32, 1d, C),)", "start_ns": start, "end_ns": start + duration_ns,
        } | row
        return self._add("compilations", "compilation_id", row)

    def activity(self, kind: str = "kernel", name: str = "axpy", duration_ns: int = 20_000, **row: Any) -> int:
        """Add an activity that begins now, on stream 7 of device 0, and lasts `duration_ns`."""
        start = row.get("start_ns", self.now)
        row = {
            "kind": kind, "name": name, "device_id": 0 if "devices" in self.rows else None, "stream": 7,
            "start_ns": start, "end_ns": None if start is None else start + duration_ns,
            "cell_id": 0 if "cells" in self.rows else None, "thread_id": 0,
        } | row
        return self._add("activities", "activity_id", row)

    def api_call(self, name: str = "cuMemAlloc_v2", duration_ns: int = 5_000, **row: Any) -> int:
        row = {"name": name, "thread_id": 0, "start_ns": self.now, "end_ns": self.now + duration_ns,
               "cell_id": 0 if "cells" in self.rows else None, "result": 0} | row
        return self._add("api_calls", "api_call_id", row)

    def occupancy(self, specialization: int, configuration: int, value: float) -> None:
        self._add("occupancies", None, {
            "specialization_id": specialization, "configuration_id": configuration, "device_id": 0,
            "active_blocks_per_multiprocessor": 8, "occupancy": value,
        })

    def range(self, name: str = "step", **row: Any) -> int:
        row = {"name": name, "thread_id": 0, "kind": "push_pop", "source": "python", "start_ns": 0, "end_ns": None,
               "depth": 0} | row
        return self._add("ranges", "range_id", row)

    def collection(self, start_ns: int, end_ns: int, **row: Any) -> int:
        row = {"thread_id": 0, "start_ns": start_ns, "end_ns": end_ns, "generation": 2, "collected": 10,
               "uncollectable": 0} | row
        return self._add("collections", "collection_id", row)

    def sample(self, specialization: int | None = 0, pc_offset: int = 0, reason: str = "long_scoreboard",
               samples: int = 1, **row: Any) -> None:
        """Add samples of an instruction of a specialization, or of a kernel that no probe recorded."""
        known = {} if specialization is None else self.rows["specializations"][specialization]
        name = self.rows["dispatchers"][known["dispatcher_id"]]["name"] if known else "library kernel"
        row = {"name": name, "entry_name": known.get("entry_name"), "specialization_id": specialization, "device_id": 0,
               "pc_offset": pc_offset, "reason": reason, "samples": samples, "not_issued": 0} | row
        self._add("pc_samples", None, row)

    def counter(self, values: Sequence[float | None], name: str = "sm__cycles_active", every_ns: int = 100 * US,
                **row: Any) -> None:
        """Add samples of a counter of device 0, one behind the other from now on; None where they were lost."""
        for at, value in enumerate(values):
            start = row.get("start_ns", self.now) + at * every_ns
            self._add("pm_samples", None, {
                "device_id": 0, "cell_id": 0 if "cells" in self.rows else None, "value": value,
                "name": f"{name}.avg.pct_of_peak_sustained_elapsed"} | row | {
                    "start_ns": start, "end_ns": start + every_ns})

    def measurement(self, specialization: int | None = 0, metrics: dict[str, float | None] | None = None,
                    **row: Any) -> int:
        """Add a measured launch with its metrics."""
        known = {} if specialization is None else self.rows["specializations"][specialization]
        name = self.rows["dispatchers"][known["dispatcher_id"]]["name"] if known else "library kernel"
        row = {"name": name, "entry_name": known.get("entry_name"), "specialization_id": specialization,
               "configuration_id": 0 if known else None, "device_id": 0, "number": 0, "replay": "kernel",
               "metric_set": "full", "passes": 9, "start_ns": self.now, "end_ns": self.now + MS} | row
        number = self._add("measurements", "measurement_id", row)
        for metric, value in (metrics or {}).items():
            self._add("metrics", None, {"measurement_id": number, "name": metric, "value": value, "unit": None})
        return number

    def graph(self, fingerprint: str = "f", topology: str = "t", **row: Any) -> int:
        """Add a graph without nodes; `graph_node` and `graph_edge` count theirs into it."""
        row = {"fingerprint": fingerprint, "topology": topology, "nodes": 0, "edges": 0} | row
        return self._add("graphs", "graph_id", row)

    def graph_node(self, graph: int, kind: str = "kernel", name: str | None = "axpy", **row: Any) -> int:
        self.rows["graphs"][graph]["nodes"] += 1
        row = {"graph_id": graph, "kind": kind, "name": name} | row
        return self._add("graph_nodes", "graph_node_id", row)

    def graph_edge(self, first: int, then: int) -> None:
        graph = self.rows["graph_nodes"][first]["graph_id"]
        self.rows["graphs"][graph]["edges"] += 1
        self._add("graph_edges", None, {"graph_id": graph, "from_node_id": first, "to_node_id": then})

    def graph_event(self, kind: str = "launch", graph: int | None = 0, duration_ns: int = 8_000, **row: Any) -> int:
        """Add an event that begins now; an instantiate and a before are their own executable graph."""
        held = {"kind": kind, "graph_id": graph, "outcome": "ok", "thread_id": 0, "start_ns": self.now,
                "cell_id": 0 if "cells" in self.rows else None} | row
        held.setdefault("end_ns", None if held["start_ns"] is None else held["start_ns"] + duration_ns)
        if kind in ("instantiate", "before"):
            held.setdefault("exec_id", len(self.rows.get("graph_events", [])))
        self.now = max(self.now, held["end_ns"] or 0) + 2_000
        return self._add("graph_events", "graph_event_id", held)

    def build(self, algorithm: str = "reduce_into", outcome: str = "miss", duration_ns: int = 900 * MS,
              **row: Any) -> int:
        row = {"framework": "cuda.compute", "algorithm": algorithm, "outcome": outcome, "thread_id": 0,
               "start_ns": self.now, "end_ns": self.now + duration_ns,
               "cell_id": 0 if "cells" in self.rows else None} | row
        self.now = max(self.now, row["end_ns"] or 0) + 2_000
        return self._add("builds", "build_id", row)

    def tuning(self, key: dict[str, str], times: Sequence[float | None] = (0.3, 0.1), outcome: str = "miss",
               dispatcher: int = 0, **attributes: Any) -> int:
        """Add a run of an autotuner, of configurations ``BLOCK=16, 32, ...``; the fastest is chosen."""
        known = [each for each in times if each is not None]
        tried = [{"arguments": {"BLOCK": str(16 << at)}, "options": {"num_warps": 4, "num_stages": 3}, "ms": each,
                  "error": "OutOfResources" if each is None else None, "host_ns": 200 * MS, "compile_ns": 150 * MS}
                 for at, each in enumerate(times)]
        held = {"configurations": tried, "pruned": [], "best": times.index(min(known)) if known else None, **attributes}
        name = self.rows["dispatchers"][dispatcher]["name"]
        return self.build(name, outcome, 200 * MS * len(times), framework="triton", dispatcher_id=dispatcher,
                          build_ns=150 * MS * len(times), key_parts=json.dumps(key), attributes=json.dumps(held))

    def health(self, probe: str = "numba-cuda", status: str = "ok", **row: Any) -> None:
        self._add("health", None, {"probe": probe, "status": status} | row)

    def recording(self) -> Recording:
        return Recording({name: table_of_rows(name, rows) for name, rows in self.rows.items()}, self.metadata)


def many_launches(launches: int, kernels: int) -> Recording:
    """A recording of many launches, made by columns."""
    random = np.random.default_rng(7)
    script = Script(name="many")
    script.cell(wall_ns=launches * 40_000)
    for at in range(kernels):
        script.kernel(f"kernel_{at:03}", lineno=at + 1)
        script.specialization(at)
        script.specialization(at, "(array(float64, 1d, C),)")
        script.configuration((at + 1,))
    held = {name: table_of_rows(name, rows) for name, rows in script.rows.items()}
    dispatcher = np.minimum(random.geometric(min(0.4, 8 / kernels), launches) - 1, kernels - 1)
    dispatcher[:kernels] = np.arange(kernels)
    start = script.now + np.arange(launches) * 30_000
    bounds = np.cumsum(random.integers(1_000, 5_000, (launches, 4)), axis=1) + start[:, None]
    held["launches"] = make_table("launches", {
        "launch_id": np.arange(launches), "cell_id": np.zeros(launches, np.int32),
        "thread_id": np.zeros(launches, np.int32), "dispatcher_id": dispatcher,
        "specialization_id": dispatcher * 2 + random.integers(0, 2, launches),
        "configuration_id": random.integers(0, kernels, launches),
        "start_ns": start, "dispatch_end_ns": bounds[:, 0], "submit_start_ns": bounds[:, 1],
        "submit_end_ns": bounds[:, 2], "end_ns": bounds[:, 3], "compile_ns": np.zeros(launches, np.int64),
        "cache": ["memory"] * launches,
    })
    return Recording(held, script.metadata)

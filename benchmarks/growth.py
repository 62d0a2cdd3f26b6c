"""How time and memory grow with each dimension of a recording: hostile shapes, doubled; needs no GPU and no framework.

    python benchmarks/growth.py [--dimension NAME ...] [--work NAME ...] [--sizes N ...] [--limit SECONDS]

A recording is made whose only large dimension is the named one, such as ranges inside of each other; everything that
shows it is done in a forked process of its own. Printed are processor time and what the process's memory grew by, for
each size, and the exponent of time between the last two sizes: 1 is linear. What took more than the limit is left at
that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import pickle
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import kernelscope
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table
from kernelscope.schema import MAX_STACK_FRAMES

START_NS, STEP_NS = 10**9, 30_000
Columns = dict[str, dict[str, Any]]


# A recording of `launches` launches of one kernel in one cell of one process; each dimension changes columns of it.

def base(launches: int = 100) -> Columns:
    """Return the columns of a small recording."""
    return {
        "processes": {"process_id": [0], "pid": [10], "start_ns": [0], "status": ["ok"]},
        "cells": {"cell_id": [0], "execution_count": [1], "start_ns": [START_NS], "status": ["ok"],
                  "end_ns": [START_NS + (launches + 1) * STEP_NS], "process_id": [0], "source": ["step(x)"]},
        "threads": {"thread_id": [0], "ident": [1], "name": ["MainThread"], "process_id": [0]},
        "lines": {"line_id": [0], "file": ["In[1]"], "line": [1], "text": ["step(x)"], "cell_id": [0]},
        "devices": {"device_id": [0], "ordinal": [0], "name": ["GPU"], "multiprocessors": [132]},
        "dispatchers": {"dispatcher_id": [0], "framework": ["numba-cuda"], "name": ["kernel"], "module": ["__main__"]},
        "specializations": {"specialization_id": [0], "dispatcher_id": [0], "signature": ["(array(float32, 1d, C),)"],
                            "origin": ["compiled"]},
        "configurations": configurations(1),
        "launches": launched(launches),
        "activities": executed(launches),
    }


def configurations(count: int) -> dict[str, Any]:
    """Return so many launch configurations."""
    ones = np.ones(count, np.int64)
    return {"configuration_id": np.arange(count), "griddim_x": np.arange(count) + 1, "griddim_y": ones,
            "griddim_z": ones, "blockdim_x": ones * 128, "blockdim_y": ones, "blockdim_z": ones,
            "sharedmem_bytes": ones * 0, "stream": ones * 0}


def launched(count: int, **columns: Any) -> dict[str, Any]:
    """Return the columns of so many launches, one after the other."""
    start, zeros = START_NS + np.arange(count) * STEP_NS, np.zeros(count, np.int64)
    return {"launch_id": np.arange(count), "cell_id": zeros, "thread_id": zeros, "dispatcher_id": zeros,
            "specialization_id": zeros, "configuration_id": zeros, "device_id": zeros, "line_id": zeros,
            "start_ns": start, "dispatch_end_ns": start + 2_000, "submit_start_ns": start + 6_000,
            "submit_end_ns": start + 9_000, "end_ns": start + 10_000, "compile_ns": zeros, "cache": ["memory"] * count,
            "correlation_id": np.arange(count) + 1} | columns


def executed(count: int, **columns: Any) -> dict[str, Any]:
    """Return the columns of a kernel on the GPU for each of so many launches."""
    start, zeros = START_NS + np.arange(count) * STEP_NS + 12_000, np.zeros(count, np.int64)
    return {"activity_id": np.arange(count), "kind": ["kernel"] * count, "name": ["kernel"] * count,
            "device_id": zeros, "stream": zeros + 7, "start_ns": start, "end_ns": start + 8_000,
            "launch_id": np.arange(count), "specialization_id": zeros, "configuration_id": zeros, "cell_id": zeros,
            "thread_id": zeros, "line_id": zeros, "submit_start_ns": start - 6_000, "submit_end_ns": start - 3_000,
            "correlation_id": np.arange(count) + 1, "process_id": zeros} | columns


def recording_of(columns: Columns, metadata: Mapping[str, Any] | None = None) -> Recording:
    """Return the recording that has these columns."""
    return Recording({name: make_table(name, table) for name, table in columns.items()},
                     {"name": "growth", "gpu": {"source": "cupti"}, "clock": {"host_ns": 0, "wall_ns": 10**18},
                      **(metadata or {})})


def cells(n: int) -> Columns:
    """Cells with a launch each."""
    ids = np.arange(n)
    start = START_NS + ids * STEP_NS
    return base(n) | {
        "cells": {"cell_id": ids, "execution_count": ids + 1, "start_ns": start, "end_ns": start + STEP_NS - 1,
                  "status": ["ok"] * n, "process_id": ids * 0, "source": [f"step({at})" for at in range(n)]},
        "launches": launched(n, cell_id=ids), "activities": executed(n, cell_id=ids)}


def cells_of_a_name(n: int) -> Columns:
    """Cells of one name, which are runs of one cell."""
    columns = cells(n)
    columns["cells"]["name"] = ["step"] * n
    return columns


def kernels(n: int, name: Callable[[int], str] = "kernel_{}".format) -> Columns:
    """Kernels of different names with a launch each."""
    ids, names = np.arange(n), [name(at) for at in range(n)]
    return base() | {
        "dispatchers": {"dispatcher_id": ids, "framework": ["numba-cuda"] * n, "name": names, "lineno": ids + 1,
                        "module": ["__main__"] * n},
        "specializations": {"specialization_id": ids, "dispatcher_id": ids, "signature": ["(int64,)"] * n,
                            "origin": ["compiled"] * n},
        "launches": launched(n, dispatcher_id=ids, specialization_id=ids),
        "activities": executed(n, specialization_id=ids, name=names)}


def long_names(n: int) -> Columns:
    """Twenty kernels with names of so many letters."""
    return kernels(20, lambda at: f"{'x' * n}{at}")


def long_texts(n: int) -> Columns:
    """A source, a line of code, an error and a reason of so many letters each."""
    columns = base()
    columns["cells"]["source"] = ["x = 1\n" * (n // 6)]
    columns["cells"] |= {"status": ["error"], "error": ["E" * n]}
    columns["lines"]["text"] = ["y" * n]
    columns["compilations"] = compiled(1) | {"reason": ["r" * n], "fix": ["f" * n]}
    return columns


def launch_configurations(n: int) -> Columns:
    """Launch configurations of one kernel, with a launch each."""
    ids = np.arange(n)
    return base() | {"configurations": configurations(n), "launches": launched(n, configuration_id=ids),
                     "activities": executed(n, configuration_id=ids)}


def specializations(n: int) -> Columns:
    """Specializations of one kernel, compiled and launched once each."""
    ids = np.arange(n)
    signatures = [f"(array(float{at % 7}, {at}d, C), int64)" for at in range(n)]
    return base() | {
        "specializations": {"specialization_id": ids, "dispatcher_id": ids * 0, "signature": signatures,
                            "origin": ["compiled"] * n, "regs": ids % 200},
        "launches": launched(n, specialization_id=ids), "activities": executed(n, specialization_id=ids),
        "compilations": compiled(n) | {"specialization_id": ids, "signature": signatures}}


def compiled(n: int) -> dict[str, Any]:
    """Return the columns of so many compilations."""
    ids = np.arange(n)
    start = START_NS + ids * STEP_NS
    return {"compilation_id": ids, "dispatcher_id": ids * 0, "thread_id": ids * 0, "trigger": ["launch"] * n,
            "specialization_id": ids * 0, "cell_id": ids * 0, "line_id": ids * 0, "signature": ["(int64,)"] * n,
            "start_ns": start, "end_ns": start + 1_500, "outcome": ["compiled"] * n, "reason_code": ["types"] * n,
            "reason": [f"other types than before: {at}" for at in range(n)], "fix": [f"cast {at}" for at in range(n)]}


def compilations(n: int) -> Columns:
    """Compiles of one specialization again and again, with three passes each."""
    ids = np.arange(3 * n)
    return base() | {"compilations": compiled(n), "passes": {
        "compilation_id": ids // 3, "kind": ["phase"] * (3 * n), "name": ["nvvm", "link", "load"] * n,
        "start_ns": START_NS + ids // 3 * STEP_NS + ids % 3 * 400, "duration_ns": ids * 0 + 300}}


def threads(n: int) -> Columns:
    """Threads with a launch each."""
    ids = np.arange(n)
    return base(n) | {
        "threads": {"thread_id": ids, "ident": ids + 1, "name": [f"worker {at}" for at in range(n)],
                    "process_id": ids * 0},
        "launches": launched(n, thread_id=ids), "activities": executed(n, thread_id=ids)}


def processes(n: int) -> Columns:
    """Processes with a thread, a cell, a launch and a kernel each, at the same time."""
    ids = np.arange(n)
    start = START_NS + ids * STEP_NS
    return base(n) | {
        "processes": {"process_id": ids, "pid": ids + 10, "rank": ids, "start_ns": start, "status": ["ok"] * n,
                      "launcher": ["torchrun"] * n, "host": ["node"] * n},
        "threads": {"thread_id": ids, "ident": ids + 1, "name": ["MainThread"] * n, "process_id": ids},
        "cells": {"cell_id": ids, "name": [f"rank {at}" for at in range(n)], "start_ns": start,
                  "end_ns": start + STEP_NS, "status": ["ok"] * n, "process_id": ids},
        "launches": launched(n, thread_id=ids, cell_id=ids),
        "activities": executed(n, thread_id=ids, cell_id=ids, process_id=ids),
        "compilations": compiled(n) | {"thread_id": ids, "cell_id": ids},
        "health": {"probe": ["numba-cuda"] * n, "status": ["ok"] * n, "process_id": ids}}


def devices(n: int) -> Columns:
    """Devices with a kernel each."""
    ids = np.arange(n)
    return base(n) | {
        "devices": {"device_id": ids, "ordinal": ids, "name": [f"GPU {at}" for at in range(n)]},
        "launches": launched(n, device_id=ids), "activities": executed(n, device_id=ids)}


def streams(n: int) -> Columns:
    """Streams of one device with a kernel each."""
    return base(n) | {"activities": executed(n, stream=np.arange(n) + 1)}


def overlapping_kernels(n: int) -> Columns:
    """Kernels on two streams, each of which runs until the last one ends."""
    ends = np.full(n, START_NS + (n + 1) * STEP_NS)
    return base(n) | {"activities": executed(n, stream=np.arange(n) % 2, end_ns=ends)}


def copies(n: int) -> Columns:
    """Copies and waits that no launch asked for, of lines of their own."""
    ids = np.arange(n)
    kinds = [("memcpy", "HtoD"), ("sync", "cuStreamSynchronize")] * n
    return base() | {"activities": executed(n, launch_id=None, specialization_id=None, configuration_id=None,
                                            kind=[kind for kind, _ in kinds[:n]], name=[name for _, name in kinds[:n]],
                                            size_bytes=ids + 1)}


def graphs(n: int) -> Columns:
    """Graphs of two nodes, each defined, instantiated and launched once."""
    ids, pair = np.arange(n), np.arange(2 * n)
    event, start = np.arange(3 * n), START_NS + np.arange(3 * n) * 1_000
    kinds, of = event % 3, event // 3
    return base() | {
        "graphs": {"graph_id": ids, "fingerprint": [f"f{at}" for at in range(n)], "nodes": ids * 0 + 2,
                   "topology": [f"t{at}" for at in range(n)], "edges": ids * 0 + 1},
        "graph_nodes": {"graph_node_id": pair, "graph_id": pair // 2, "kind": ["kernel"] * (2 * n),
                        "name": ["kernel"] * (2 * n), "specialization_id": pair * 0, "configuration_id": pair * 0},
        "graph_edges": {"graph_id": ids, "from_node_id": ids * 2, "to_node_id": ids * 2 + 1},
        "graph_events": {
            "graph_event_id": event, "kind": ["define", "instantiate", "launch"] * n, "outcome": ["ok"] * (3 * n),
            "cell_id": event * 0, "thread_id": event * 0, "graph_id": of, "start_ns": start, "end_ns": start + 500,
            "exec_id": np.where(kinds == 2, event - 1, -1), "source_event_id": np.where(kinds == 1, event - 1, -1),
            "line_id": event * 0}}


def rebuilt_graphs(n: int) -> Columns:
    """One graph, instantiated again each time."""
    columns = graphs(n)
    event = np.arange(3 * n)
    columns["graphs"] = {"graph_id": [0], "fingerprint": ["f"], "topology": ["t"], "nodes": [2], "edges": [1]}
    columns["graph_nodes"] = {name: values[:2] for name, values in columns["graph_nodes"].items()}
    columns["graph_edges"] = {name: values[:1] for name, values in columns["graph_edges"].items()}
    columns["graph_events"] |= {"graph_id": event * 0,
                                "rebuild_of": np.where((event % 3 == 1) & (event > 3), event - 3, -1)}
    return columns


def graph_of(n: int, first: Any, then: Any) -> Columns:
    """Return a recording of one graph of so many nodes with these edges, which runs once."""
    ids, edges = np.arange(n), len(first)
    return base() | {
        "graphs": {"graph_id": [0], "fingerprint": ["f"], "topology": ["t"], "nodes": [n], "edges": [edges]},
        "graph_nodes": {"graph_node_id": ids, "graph_id": ids * 0, "kind": ["kernel"] * n, "name": ["kernel"] * n,
                        "specialization_id": ids * 0, "configuration_id": ids * 0},
        "graph_edges": {"graph_id": np.zeros(edges, np.int64), "from_node_id": first, "to_node_id": then},
        "graph_events": {
            "graph_event_id": [0, 1, 2], "kind": ["define", "instantiate", "launch"], "outcome": ["ok"] * 3,
            "cell_id": [0] * 3, "thread_id": [0] * 3, "graph_id": [0] * 3, "exec_id": [None, None, 1],
            "start_ns": [START_NS, START_NS + 1_000, START_NS + 2_000], "source_event_id": [None, 0, None],
            "end_ns": [START_NS + 900, START_NS + 1_900, START_NS + 2_900]},
        "activities": executed(n, launch_id=None, graph_event_id=ids * 0 + 2, graph_node_id=ids)}


def graph_chain(n: int) -> Columns:
    """One graph, whose nodes wait for one another."""
    return graph_of(n, np.arange(n - 1), np.arange(n - 1) + 1)


def graph_fan(n: int) -> Columns:
    """One graph, all of whose nodes wait for the first and are waited for by the last."""
    middle = np.arange(n - 2) + 1
    return graph_of(n, np.concatenate((middle * 0, middle)), np.concatenate((middle, middle * 0 + n - 1)))


def graph_layers(n: int) -> Columns:
    """One graph of two layers, in which each node waits for all of the layer before: n edges."""
    half = max(1, math.isqrt(n))
    left, right = np.meshgrid(np.arange(half), np.arange(half) + half)
    return graph_of(2 * half, left.ravel(), right.ravel())


def graph_ladder(n: int) -> Columns:
    """One graph of many layers of two nodes, in which paths double at each layer."""
    rung = np.arange(n // 2 - 1) * 2
    return graph_of(n // 2 * 2, np.concatenate((rung, rung, rung + 1, rung + 1)),
                    np.concatenate((rung + 2, rung + 3, rung + 2, rung + 3)))


def nested_launches(n: int) -> Columns:
    """Launches inside of each other."""
    ids = np.arange(n)
    start, end = START_NS + ids * 10, START_NS + n * STEP_NS - ids * 10
    times = dict.fromkeys(("dispatch_end_ns", "submit_start_ns", "submit_end_ns"), start + 5)
    return base() | {"launches": launched(n, parent_launch_id=ids - 1, start_ns=start, end_ns=end, **times)}


def ranges_of(n: int, **columns: Any) -> Columns:
    """Return a recording with so many ranges."""
    ids = np.arange(n)
    return base() | {"ranges": {
        "range_id": ids, "thread_id": ids * 0, "cell_id": ids * 0, "kind": ["push_pop"] * n, "source": ["python"] * n,
        "depth": ids * 0, "name": ["step"] * n, "start_ns": START_NS + ids * 100,
        "end_ns": START_NS + ids * 100 + 50} | columns}


def nested_ranges(n: int) -> Columns:
    """Ranges inside of each other, of one name."""
    ids = np.arange(n)
    return ranges_of(n, depth=ids, parent_range_id=ids - 1, end_ns=START_NS + 10**9 - ids)


def nested_ranges_of_names(n: int) -> Columns:
    """Ranges inside of each other, of names of 100 letters."""
    columns = nested_ranges(n)
    columns["ranges"]["name"] = [f"{at:0100}" for at in range(n)]
    return columns


def ranges(n: int) -> Columns:
    """Ranges of different names after one another."""
    return ranges_of(n, name=[f"step {at}" for at in range(n)])


def repeated_ranges(n: int) -> Columns:
    """Ranges of one name after one another."""
    return ranges_of(n)


def domains(n: int) -> Columns:
    """Ranges of domains and categories of their own."""
    return ranges_of(n, domain=[f"domain {at}" for at in range(n)], category=[f"category {at}" for at in range(n)])


def open_ranges(n: int) -> Columns:
    """Ranges of the whole process that overlap and never end."""
    return ranges_of(n, kind=["start_end"] * n, end_ns=None)


def operators_of(n: int, paths: list[str], names: list[str]) -> Columns:
    """Return a recording of operators with a launch each."""
    ids = np.arange(n)
    return base(n) | {
        "operators": {"operator_id": ids, "name": names, "path": paths, "calls": ids * 0 + 1, "cell_id": ids * 0,
                      "host_ns": (n - ids) * 1_000, "own_ns": ids * 0 + 1_000, "process_id": ids * 0},
        "launches": launched(n, operator_id=ids), "activities": executed(n, operator_id=ids)}


def nested_operators(n: int) -> Columns:
    """Operators inside of each other, as a recording has them."""
    from kernelscope.features.operators.build import join_operators
    from kernelscope.recording.build import RawRecording

    ids = np.arange(n)
    start = START_NS + ids * STEP_NS
    columns = base(n)
    held = {name: np.asarray(values) for name, values in launched(n).items() if name != "cache"}
    raw = RawRecording(
        threads=[{"ident": 1}], cells=[{"start_ns": START_NS, "end_ns": START_NS + n * STEP_NS}],
        rows={"operators": [{"ident": 1, "nodes": [(at - 1, f"aten::op{at % 3}") for at in range(n)],
                             "events": np.stack((start, ids), axis=1), "are_all": True}]})
    rows = join_operators(raw, held, {})["operators"]
    columns["launches"]["operator_id"] = held["operator_id"]
    columns["operators"] = {name: [row[name] for row in rows] for name in rows[0]} | {
        "operator_id": np.arange(len(rows)), "process_id": [0] * len(rows)}
    return columns


def operators(n: int) -> Columns:
    """Operators of different names."""
    names = [f"aten::op{at}" for at in range(n)]
    return operators_of(n, names, names)


def collections(n: int) -> Columns:
    """Garbage collections."""
    ids = np.arange(n)
    start = START_NS + ids * 100
    return base() | {"collections": {"collection_id": ids, "thread_id": ids * 0, "cell_id": ids * 0, "start_ns": start,
                                     "end_ns": start + 50, "generation": ids % 3, "collected": ids}}


def call_paths(n: int) -> Columns:
    """Call paths of different lines, four frames deep."""
    ids = np.arange(n)
    return base(n) | {
        "lines": {"line_id": ids, "file": ["/lib/model.py"] * n, "line": ids + 1, "text": ["f(x)"] * n,
                  "function": [f"f{at}" for at in range(n)]},
        "stacks": {"stack_id": ids, "line_id": ids, "parent_stack_id": np.where(ids % 4, ids - 1, -1)},
        "launches": launched(n, stack_id=ids, line_id=ids), "activities": executed(n, stack_id=ids, line_id=ids)}


def call_path_depth(n: int) -> Columns:
    """Call paths as deep as a file may have them."""
    columns = call_paths(n)
    ids = np.arange(n)
    columns["stacks"]["parent_stack_id"] = np.where(ids % MAX_STACK_FRAMES, ids - 1, -1)
    return columns


def lines(n: int) -> Columns:
    """Lines of code with a launch each."""
    ids = np.arange(n)
    return base(n) | {
        "lines": {"line_id": ids, "file": [f"file{at % 100}.py" for at in range(n)], "line": ids + 1,
                  "text": [f"step({at})" for at in range(n)], "function": ["main"] * n},
        "launches": launched(n, line_id=ids), "activities": executed(n, line_id=ids)}


def health(n: int) -> Columns:
    """Health of so many probes."""
    return base() | {"health": {
        "probe": [f"probe {at}" for at in range(n)], "status": ["degraded"] * n, "fix": ["do"] * n,
        "message": [f"cannot {at}" for at in range(n)], "dropped": [1] * n, "errors": [1] * n}}


def api_calls(n: int) -> Columns:
    """Calls of the CUDA API."""
    ids = np.arange(n)
    start = START_NS + ids * 100
    return base() | {"api_calls": {"api_call_id": ids, "thread_id": ids * 0, "cell_id": ids * 0, "start_ns": start,
                                   "name": [f"cuCall{at % 50}" for at in range(n)], "end_ns": start + 50}}


def builds(n: int) -> Columns:
    """Requests to a build cache of keys of their own."""
    ids = np.arange(n)
    start = START_NS + ids * 1_000
    return base() | {"builds": {
        "build_id": ids, "thread_id": ids * 0, "cell_id": ids * 0, "framework": ["cuda.compute"] * n,
        "algorithm": ["reduce_into"] * n, "start_ns": start, "end_ns": start + 900, "outcome": ["miss"] * n,
        "build_ns": ids * 0 + 800, "key_parts": [json.dumps({"d_in": f"float{at}"}) for at in range(n)],
        "reason": ["another type"] * n, "reason_code": ["types"] * n}}


def stall_samples(n: int) -> Columns:
    """Samples of warps at instructions of their own."""
    ids = np.arange(n)
    return base() | {"pc_samples": {
        "name": ["kernel"] * n, "pc_offset": ids * 16, "reason": ["smsp__pcsamp_warps_issue_stalled_wait"] * n,
        "samples": ids + 1, "specialization_id": ids * 0, "device_id": ids * 0, "cell_id": ids * 0}}


def sampled_kernels(n: int) -> Columns:
    """A sample of warps of each of so many kernels."""
    columns = kernels(n)
    ids = np.arange(n)
    return columns | {"pc_samples": {
        "name": columns["dispatchers"]["name"], "pc_offset": ids * 0, "samples": ids * 0 + 3,
        "reason": ["smsp__pcsamp_warps_issue_stalled_wait"] * n, "specialization_id": ids, "cell_id": ids * 0}}


def pm_samples(n: int) -> Columns:
    """Samples of counters over time."""
    ids = np.arange(n)
    start = START_NS + ids * 1_000
    return base() | {"pm_samples": {"name": ["sm__cycles_active.avg"] * n, "start_ns": start, "end_ns": start + 1_000,
                                    "device_id": ids * 0, "cell_id": ids * 0, "value": ids / n}}


def measurements(n: int) -> Columns:
    """Launches whose counters were measured, four each."""
    ids, four = np.arange(n), np.arange(4 * n)
    start = START_NS + ids * STEP_NS
    names = ["gpu__time_duration.sum", "launch__registers_per_thread", "dram__bytes_read.sum", "lts__t_sectors.sum"]
    return base(n) | {
        "measurements": {"measurement_id": ids, "name": ["kernel"] * n, "number": ids, "replay": ["kernel"] * n,
                         "metric_set": ["basic"] * n, "passes": ids * 0 + 1, "start_ns": start, "end_ns": start + 100,
                         "specialization_id": ids * 0, "configuration_id": ids * 0, "device_id": ids * 0,
                         "cell_id": ids * 0, "launch_id": ids},
        "metrics": {"measurement_id": four // 4, "name": names * n, "value": four / 7, "unit": ["ns"] * (4 * n)}}


def code_lines(n: int) -> Columns:
    """Machine code and source of so many lines."""
    return base() | {"code": {
        "dispatcher_id": [0, 0], "kind": ["source", "ptx"], "specialization_id": [None, 0], "lineno": [1, None],
        "text": ["def kernel(x):\n" + "    x[0] += 1\n" * n, "add.f32 %f1, %f2, %f3;\n" * n]}}


DIMENSIONS: dict[str, Callable[[int], Columns]] = {function.__name__: function for function in (
    base, cells, cells_of_a_name, kernels, long_names, long_texts, launch_configurations, specializations,
    compilations, threads, processes, devices, streams, overlapping_kernels, copies, graphs, rebuilt_graphs,
    graph_chain, graph_fan, graph_layers, graph_ladder, nested_launches, nested_ranges, nested_ranges_of_names, ranges,
    repeated_ranges, domains, open_ranges, nested_operators, operators, collections, call_paths, call_path_depth,
    lines, health, api_calls, builds, stall_samples, sampled_kernels, pm_samples, measurements, code_lines)}


# What is done with each: functions of a recording and of a folder that is removed afterwards.

def _frames(recording: Recording, folder: Path) -> None:
    for name in ("by_range", "by_line", "by_operator", "by_stall", "by_tuning", "by_task", "by_process"):
        getattr(recording, name)()
    assert len(recording.specializations) >= 0


def _timeline(recording: Recording, folder: Path) -> None:
    from kernelscope.views.timeline.build import timeline_of
    from kernelscope.views.timeline.svg import picture
    from kernelscope.views.timeline.wire import pack

    timeline = timeline_of(recording)
    pack(timeline)
    picture(timeline)


def _flame(recording: Recording, folder: Path) -> None:
    from kernelscope.features.call_paths.flame import flame_of
    from kernelscope.features.call_paths.svg import images
    from kernelscope.features.call_paths.text import call_paths_text

    flame = flame_of(recording)
    call_paths_text(recording)
    if flame is not None:
        images(flame)


def _answer(recording: Recording, folder: Path) -> None:
    from kernelscope.views.answer import encoded
    from kernelscope.views.card.answer import recording_answer

    encoded(recording_answer(recording))


def _all_rows(recording: Recording, folder: Path) -> None:
    from kernelscope.views.answer import encoded
    from kernelscope.views.card.answer import recording_answer

    encoded(recording_answer(recording, 0))


def _inspector(recording: Recording, folder: Path) -> None:
    str(kernelscope.inspect(recording))


def _graph(recording: Recording, folder: Path) -> None:
    with contextlib.suppress(kernelscope.KernelScopeError):  # there is none, or several and none is named
        str(kernelscope.graph(recording))


def _history(recording: Recording, folder: Path) -> None:
    with contextlib.suppress(kernelscope.KernelScopeError):  # there is no cell
        str(kernelscope.history(recordings=[recording]))


def _load(recording: Recording, folder: Path) -> None:
    path = recording.save(folder / "load")
    kernelscope.load(path)


def _export(name: str) -> Callable[[Recording, Path], None]:
    def export(recording: Recording, folder: Path) -> None:
        with contextlib.suppress(kernelscope.KernelScopeError):  # without call paths there are no folded stacks
            getattr(recording, f"to_{name}")(folder / name)

    return export


WORK: dict[str, Callable[[Recording, Path], Any]] = {
    "save and load": _load,
    "card, text": lambda recording, folder: recording.summary(),
    "card, HTML": lambda recording, folder: recording._repr_html_(),
    "JSON": _answer, "JSON of all rows": _all_rows,
    "timeline": _timeline, "flame graph": _flame, "inspector": _inspector, "graph": _graph, "by_ methods": _frames,
    "compare with itself": lambda recording, folder: str(recording.compare(
        Recording(dict(recording.tables), recording.metadata))),
    "history": _history,
    "first cell": lambda recording, folder: recording.select(cell=0),
    "redacted": lambda recording, folder: recording.redacted(),
    **{f"to_{name}": _export(name) for name in ("html", "perfetto", "speedscope", "collapsed", "parquet", "csv", "bmf",
                                                "pytest_benchmark")}}


def measured(recording: Recording, work: Callable[[Recording, Path], Any], limit_s: int) -> tuple[float, float, str]:
    """Do the work in a forked process: its processor time in s, by what its memory grew in MB, and what went wrong."""
    folder = Path(tempfile.mkdtemp(prefix="growth-"))
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
        begun, before, error = time.process_time(), _resident_mb(), ""
        try:
            work(recording, folder)
        except BaseException as caught:
            error = f"{type(caught).__name__}: {str(caught)[:60]}"
        grown = max(0.0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before)
        os.write(writing, pickle.dumps((time.process_time() - begun, grown, error)))
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        result = pipe.read()
    os.waitpid(child, 0)
    shutil.rmtree(folder, ignore_errors=True)
    return pickle.loads(result) if result else (math.inf, math.inf, f"over {limit_s} s")


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def main() -> None:
    """Print a row for each dimension and work that grows faster than n log n, or takes long; all with ``--all``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimension", nargs="+", choices=DIMENSIONS, default=[*DIMENSIONS])
    parser.add_argument("--work", nargs="+", choices=WORK, default=[*WORK])
    parser.add_argument("--sizes", nargs="+", type=int, default=[5_000, 10_000, 20_000])
    parser.add_argument("--limit", type=int, default=60, help="seconds of processor time for each (default: 60)")
    parser.add_argument("--all", action="store_true", help="print what is quick and linear too")
    chosen = parser.parse_args()
    # What is imported by the first use is not measured.
    warm = recording_of(base(4))
    for work in WORK.values():
        with tempfile.TemporaryDirectory() as folder:
            work(warm, Path(folder))
    print(f"| dimension | work | {' | '.join(f'{n:,}' for n in chosen.sizes)} | exponent |")
    print("|---|---|" + "---|" * (len(chosen.sizes) + 1))
    for dimension in chosen.dimension:
        recordings = [recording_of(DIMENSIONS[dimension](n)) for n in chosen.sizes]
        for name in chosen.work:
            results: list[tuple[float, float, str]] = []
            for recording in recordings:
                is_over = bool(results) and math.isinf(results[-1][0])
                results.append(results[-1] if is_over else measured(recording, WORK[name], chosen.limit))
            times = [max(result[0], 1e-3) for result in results]
            exponent = math.nan if math.isinf(times[-1]) or len(times) < 2 else math.log(
                times[-1] / times[-2], chosen.sizes[-1] / chosen.sizes[-2])
            is_notable = (exponent > 1.3 and times[-1] > 0.3) or times[-1] > 3 or results[-1][1] > 500 or any(
                result[2] for result in results)
            if chosen.all or is_notable:
                texts = [error or f"{seconds:.2f} s, {grown:.0f} MB" for seconds, grown, error in results]
                print(f"| {dimension} | {name} | {' | '.join(texts)} | {exponent:.1f} |", flush=True)


if __name__ == "__main__":
    main()

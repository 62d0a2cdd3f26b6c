"""Recordings made by hand: one with every column both null and filled, and one of 300,000 launches."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kernelscope.recording.file import save
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table, table_of_rows
from kernelscope.schema import TABLES

MOST = 2**53  # of times and sizes: several of them still add up
HANDLE = TABLES["threads"].column("ident").high
INT32 = 2**31 - 1
LONG = "näme_" * 40
assert len(LONG) == 200


def _rows() -> dict[str, list[dict[str, Any]]]:
    """Two cells, two threads and two of everything; the second of each has nulls wherever it may."""
    return {
        "processes": [
            {"process_id": 0, "host": "größe", "pid": HANDLE, "parent_pid": 1, "rank": INT32, "local_rank": 0,
             "worker": "worker-0", "launcher": "dask", "gpu_uuid": "GPU-1", "start_ns": 90, "end_ns": MOST,
             "status": "killed", "message": "m", "clock_offset_ns": -MOST, "clock_bound_ns": 900,
             "clock_drift_ppb": -10**9, "own_cost_ns": 901.5},
            {"process_id": 1, "status": "ok"},
        ],
        "cells": [
            {"cell_id": 0, "process_id": 0, "execution_count": 7, "name": "größe", "start_ns": 100, "end_ns": 900,
             "synchronized_ns": 950, "status": "ok", "error": "", "source": "k[1, 1](a)\n# \U0001f680",
             "source_sha256": "ab" * 32, "reference_ns": 15_000.5},
            {"cell_id": 1, "start_ns": 1000, "end_ns": MOST, "status": "error"},
        ],
        "threads": [
            {"thread_id": 0, "process_id": 0, "ident": HANDLE, "name": "MainThread"},
            {"thread_id": 1, "ident": 0},
        ],
        "lines": [
            {"line_id": 0, "file": "In[7]", "cell_id": 0, "line": 2, "function": "Model.<locals>.step",
             "user_code": True},
            {"line_id": 1, "file": "<stdin>", "line": INT32, "text": "    k[1, 32](größe)"},
        ],
        "stacks": [
            {"stack_id": 0, "line_id": 0},
            {"stack_id": 1, "parent_stack_id": 0, "line_id": 0},
            {"stack_id": 2, "line_id": 1},
        ],
        "operators": [
            {"operator_id": 0, "name": "aten::größe", "path": "epoch / aten::größe", "calls": INT32, "host_ns": MOST,
             "own_ns": 0, "cell_id": 0, "process_id": 0},
            {"operator_id": 1, "name": "", "path": "", "calls": 0, "host_ns": 0, "own_ns": 0},
        ],
        "devices": [
            {"device_id": 0, "ordinal": 0, "uuid": "GPU-1", "name": "NVIDIA H100", "compute_capability": "9.0",
             "multiprocessors": 132, "max_threads_per_multiprocessor": 2048, "max_blocks_per_multiprocessor": 32,
             "registers_per_multiprocessor": 65536, "shared_per_multiprocessor_bytes": 233472,
             "reserved_shared_bytes": 1024, "copy_bytes_per_second": 3.5e12},
            {"device_id": 1},
        ],
        "dispatchers": [
            {"dispatcher_id": 0, "framework": "numba-cuda", "name": "axpy.<locals>.kernel", "module": "demo",
             "filename": "demo.py", "lineno": 12, "arguments": "a, x, *rest", "options": '{"fastmath": true}',
             "code_sha256": "cd" * 32, "attributes": "{}"},
            {"dispatcher_id": 1, "framework": "scripted", "name": LONG},
        ],
        "specializations": [
            {"specialization_id": 0, "dispatcher_id": 0, "signature": "(float32[::1], int64)",
             "compute_capability": "9.0", "regs": 32, "static_shared_bytes": MOST, "local_bytes": 0,
             "const_bytes": 1, "spill_store_bytes": 0, "spill_load_bytes": 8, "max_threads": 1024,
             "launch_config_sensitive": True,
             "launch_config": '{"griddim": [1, 1, 1]}', "cubin_bytes": 4096, "origin": "compiled",
             "entry_name": "_ZN4axpy", "attributes": '{"lto": {"deep": [1, 2, {}]}}'},
            {"specialization_id": 1, "dispatcher_id": 1, "signature": "", "origin": "before"},
        ],
        "configurations": [
            {"configuration_id": 0, "griddim_x": INT32, "griddim_y": 65535, "griddim_z": 1, "blockdim_x": 128,
             "blockdim_y": 1, "blockdim_z": 1, "cluster_x": 2, "cluster_y": 1, "cluster_z": 1,
             "sharedmem_bytes": 49152, "stream": HANDLE},
            {"configuration_id": 1},
        ],
        "occupancies": [
            {"specialization_id": 0, "configuration_id": 0, "device_id": 0,
             "active_blocks_per_multiprocessor": 16, "occupancy": 0.1},
            {"specialization_id": 1, "configuration_id": 1, "device_id": 1},
        ],
        "launches": [
            {"launch_id": 0, "cell_id": 0, "thread_id": 0, "line_id": 0, "stack_id": 1, "dispatcher_id": 0,
             "operator_id": 0, "specialization_id": 0, "configuration_id": 0, "device_id": 0, "start_ns": 200,
             "dispatch_end_ns": 300,
             "submit_start_ns": 310, "submit_end_ns": 320, "end_ns": 330, "compile_ns": 90, "cache": "compiled",
             "compilation_id": 0, "correlation_id": 42, "queue_ns": 0, "execute_ns": 20, "gc_ns": 4,
             "capture_event_id": 1, "graph_node_id": 0},
            {"launch_id": 1, "parent_launch_id": 0, "thread_id": 0, "dispatcher_id": 0,
             "configuration_id": 1, "start_ns": 201, "error": "TypeError", "build_id": 1},
            {"launch_id": 2, "cell_id": 1, "parent_launch_id": 1, "thread_id": 1, "line_id": 1, "stack_id": 2,
             "operator_id": 1, "dispatcher_id": 1, "specialization_id": 1, "configuration_id": 1, "device_id": 1,
             "start_ns": MOST, "end_ns": MOST - 1, "compile_ns": 0, "cache": "memory", "correlation_id": 0},
        ],
        "activities": [
            {"activity_id": 0, "kind": "sync", "name": "stream synchronize"},
            {"activity_id": 1, "process_id": 0, "kind": "kernel", "name": "axpy(float*)", "entry_name": "_ZN4axpy",
             "device_id": 0, "stream": 7, "start_ns": 315, "end_ns": 335, "launch_id": 0, "specialization_id": 0,
             "configuration_id": 0, "regs": 32, "cell_id": 0, "thread_id": 0, "line_id": 0, "stack_id": 0,
             "operator_id": 0, "api": "cuLaunchKernelEx", "submit_start_ns": 311, "submit_end_ns": 319,
             "correlation_id": 42,
             "size_bytes": MOST, "memory": "pageable to device", "graph_event_id": 4, "graph_node_id": 0,
             "cupti_graph_id": 3, "cupti_node_id": HANDLE},
        ],
        "api_calls": [
            {"api_call_id": 0, "cell_id": 0, "thread_id": 0, "name": "cuMemAlloc_v2", "start_ns": 120, "end_ns": 130,
             "correlation_id": 41, "result": 0},
            {"api_call_id": 1, "thread_id": 1, "name": "cuModuleLoadData", "start_ns": 125, "end_ns": 126},
        ],
        "compilations": [
            {"compilation_id": 0, "dispatcher_id": 0, "specialization_id": 0, "cell_id": 0, "thread_id": 0,
             "line_id": 0, "stack_id": 1, "launch_id": 0, "configuration_id": 0, "trigger": "launch",
             "signature": "(float32[::1], int64)",
             "start_ns": 205, "end_ns": 295, "wait_ns": 1, "outcome": "compiled", "reason_code": "first",
             "reason": "the first call",
             "argument": "x", "nearest_signature": "(float64[::1], int64)", "fix": "warm up",
             "launch_config_sensitive": False, "cache_file": "axpy.nbi", "cache_data_file": "axpy.1.nbc",
             "cache_key": "k", "lcs_marker": True, "error": "", "attributes": '{"a": 1}'},
            {"compilation_id": 1, "dispatcher_id": 1, "thread_id": 1, "trigger": "eager", "signature": "",
             "start_ns": 205, "outcome": "failed"},
        ],
        "builds": [
            {"build_id": 0, "thread_id": 1, "framework": "scripted", "algorithm": "own", "start_ns": 150,
             "outcome": "hit"},
            {"build_id": 1, "cell_id": 0, "thread_id": 0, "launch_id": 0, "framework": "cuda.compute",
             "algorithm": "reduce_into", "dispatcher_id": 0, "compute_capability": "9.0", "start_ns": 210,
             "end_ns": 290, "build_ns": 70, "outcome": "miss", "key_parts": '{"operator": "größe", "dtype": "int32"}',
             "nearest_build_id": 0,
             "differing_parts": "operator, dtype", "reason_code": "new_operator", "reason": "another operator",
             "fix": "keep one", "cubin_bytes": MOST, "error": "", "attributes": "{}"},
        ],
        "graphs": [
            {"graph_id": 0, "fingerprint": "ef" * 32, "topology": "01" * 32, "nodes": 3, "edges": 2,
             "attributes": '{"a": 1}'},
            {"graph_id": 1, "fingerprint": "23" * 32, "topology": "01" * 32, "nodes": 1, "edges": 0},
        ],
        "graph_nodes": [
            {"graph_node_id": 0, "graph_id": 0, "kind": "kernel", "name": "axpy(float*)", "entry_name": "_ZN4axpy",
             "specialization_id": 0, "configuration_id": 0, "size_bytes": 0, "attributes": "{}"},
            {"graph_node_id": 1, "graph_id": 0, "kind": "while"},
            {"graph_node_id": 2, "graph_id": 0, "parent_node_id": 1, "body": 0, "kind": "memcpy", "name": "HtoD",
             "size_bytes": MOST},
            {"graph_node_id": 3, "graph_id": 1, "kind": "host", "name": "größe"},
        ],
        "graph_edges": [
            {"graph_id": 0, "from_node_id": 0, "to_node_id": 1, "attributes": "{}"},
            {"graph_id": 0, "from_node_id": 0, "to_node_id": 1},
        ],
        "graph_events": [
            {"graph_event_id": 0, "kind": "before", "exec_id": 0, "outcome": "ok"},
            {"graph_event_id": 1, "cell_id": 0, "thread_id": 0, "kind": "capture", "graph_id": 0, "stream": HANDLE,
             "start_ns": 190, "end_ns": 340, "api": "cuStreamEndCapture", "outcome": "ok"},
            {"graph_event_id": 2, "cell_id": 0, "thread_id": 0, "kind": "instantiate", "graph_id": 0, "exec_id": 2,
             "source_event_id": 1, "start_ns": 350, "end_ns": 360, "outcome": "ok"},
            {"graph_event_id": 3, "process_id": 0, "cell_id": 0, "thread_id": 0, "line_id": 0, "kind": "instantiate",
             "graph_id": 1, "exec_id": 3, "source_event_id": 1, "start_ns": 370, "end_ns": 380,
             "api": "cuGraphInstantiateWithParams", "outcome": "failed",
             "error": "CUDA_ERROR_INVALID_VALUE at größe", "rebuild_of": 2, "change": "configuration",
             "changes": "grid of größe 4 to 8", "attributes": "{}"},
            {"graph_event_id": 4, "cell_id": 0, "thread_id": 0, "kind": "launch", "graph_id": 0, "exec_id": 2,
             "stream": 0, "start_ns": 390, "end_ns": 399, "api": "cuGraphLaunch", "outcome": "ok", "queue_ns": 1,
             "execute_ns": MOST, "correlation_id": 43},
            {"graph_event_id": 5, "cell_id": 1, "thread_id": 1, "kind": "launch", "exec_id": 0, "start_ns": 1001,
             "outcome": "ok"},
        ],
        "passes": [
            {"process_id": 0, "compilation_id": 0, "specialization_id": 0, "kind": "pass", "name": "0_translate",
             "start_ns": 206, "duration_ns": 5},
            {"kind": "phase", "name": "load", "duration_ns": MOST},
        ],
        "code": [
            {"dispatcher_id": 0, "kind": "source", "text": "def kernel(a, x, *rest):\n    ...\n", "lineno": 12},
            {"dispatcher_id": 0, "specialization_id": 0, "kind": "ptx", "text": "// größe", "attributes": "{}"},
        ],
        "ranges": [
            {"range_id": 0, "thread_id": 1, "name": "", "kind": "push_pop", "source": "native", "depth": 0},
            {"range_id": 1, "cell_id": 0, "thread_id": 0, "line_id": 0, "parent_range_id": 0,
             "name": "größe \U0001f680", "domain": "d", "category": "c", "color": "#ff0000", "payload": "3",
             "kind": "push_pop", "source": "python", "start_ns": 150, "end_ns": 400, "depth": 1},
        ],
        "collections": [
            {"collection_id": 0, "thread_id": 1, "start_ns": 210, "end_ns": 214},
            {"collection_id": 1, "cell_id": 0, "thread_id": 0, "start_ns": 212, "end_ns": MOST, "generation": 2,
             "collected": INT32, "uncollectable": 0},
        ],
        "measurements": [
            {"measurement_id": 0, "name": "axpy.<locals>.kernel", "entry_name": "_ZN4axpy", "specialization_id": 0,
             "configuration_id": 0, "device_id": 0, "cell_id": 0, "launch_id": 0, "number": 3, "replay": "kernel",
             "metric_set": "roofline", "passes": 9, "start_ns": 150, "end_ns": MOST, "process_id": 0},
            {"measurement_id": 1, "name": "größe", "number": 0, "replay": "user", "metric_set": "dram__bytes.sum",
             "passes": 1, "start_ns": 150, "end_ns": 160},
        ],
        "metrics": [
            {"measurement_id": 0, "name": "dram__bytes.sum", "pc_offset": 16, "value": 1.5, "unit": "byte"},
            {"measurement_id": 1, "name": "dram__bytes.sum"},
        ],
        "pc_samples": [
            {"name": "axpy.<locals>.kernel", "entry_name": "_ZN4axpy", "specialization_id": 0, "device_id": 0,
             "cell_id": 0, "launch_id": 0, "pc_offset": 0, "reason": "long_scoreboard", "samples": INT32,
             "not_issued": 7, "process_id": 0},
            {"name": "größe", "pc_offset": MOST, "reason": "wait", "samples": 0},
        ],
        "pm_samples": [
            {"device_id": 0, "cell_id": 0, "name": "sm__cycles_active.avg.pct_of_peak_sustained_elapsed",
             "start_ns": 150, "end_ns": MOST, "value": 99.5, "process_id": 0},
            {"name": "größe", "start_ns": -MOST, "end_ns": 160},
        ],
        "health": [
            {"process_id": 0, "probe": "numba-cuda", "status": "ok", "message": "m", "fix": "f", "dropped": 0,
             "errors": INT32, "clock_error_ns": 900.5, "cost_ns": 300.5, "total_cost_ns": 901.5},
            {"probe": "recorder", "status": "degraded"},
        ],
    }


METADATA = {"name": "größe \U0001f680", "schema_version": 1, "packages": {"numba-cuda": "0.30.4"}, "probes": [],
            "dry_run": False, "clock": {"host_ns": 10, "wall_ns": 10**18, "error_ns": 5}, "empty": None, "x": 0.1}

Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture
def rows() -> Rows:
    """The hand-made rows by table; a test may change them."""
    return _rows()


@pytest.fixture
def recording_of() -> Callable[..., Recording]:
    """Make a recording from rows by table, with the hand-made metadata and whatever is given over them."""

    def make(tables: Mapping[str, list[dict[str, Any]]], **metadata: Any) -> Recording:
        made = {name: table_of_rows(name, records) for name, records in tables.items()}
        return Recording(made, {**METADATA, **metadata})

    return make


@pytest.fixture
def full(rows: Rows, recording_of: Callable[..., Recording]) -> Recording:
    """The hand-made rows as a recording."""
    return recording_of(rows)


@pytest.fixture(scope="session")
def many() -> Recording:
    """300,000 launches as a real clock has them: microseconds with jitter, from two threads."""
    count = 300_000
    rng = np.random.default_rng(20)
    start = 5 * 10**12 + np.cumsum(rng.gamma(4, 2500, count).astype(np.int64) + 4000)
    dispatch_end = start + rng.gamma(6, 250, count).astype(np.int64)
    submit_start = dispatch_end + rng.gamma(6, 400, count).astype(np.int64)
    submit_end = submit_start + rng.gamma(8, 500, count).astype(np.int64)
    specialization = rng.integers(0, 3, count).astype(np.int32)
    compilation = np.full(count, -1, np.int32)
    compilation[[0, 5, 270_000]] = [0, 1, 2]
    launches = {
        "launch_id": np.arange(count), "cell_id": (np.arange(count) // 75_000).astype(np.int32),
        "thread_id": rng.integers(0, 2, count).astype(np.int32), "dispatcher_id": np.minimum(specialization, 1),
        "specialization_id": specialization, "configuration_id": rng.integers(0, 5, count).astype(np.int32),
        "device_id": np.zeros(count, np.int32), "start_ns": start, "dispatch_end_ns": dispatch_end,
        "submit_start_ns": submit_start, "submit_end_ns": submit_end,
        "end_ns": submit_end + rng.gamma(4, 150, count).astype(np.int64),
        "compile_ns": np.where(compilation >= 0, 300_000_000, 0), "compilation_id": compilation,
        "cache": pa.DictionaryArray.from_arrays(
            pa.array((compilation >= 0).astype(np.int32)), pa.array(["memory", "compiled"])
        ),
        "correlation_id": np.arange(count) * 3 + 17,
    }
    sizes = {"griddim_y": 1, "griddim_z": 1, "blockdim_x": 32, "blockdim_y": 1, "blockdim_z": 1, "sharedmem_bytes": 0}
    few: Rows = {
        "cells": [{"cell_id": i, "start_ns": int(start[i * 75_000]), "end_ns": int(start[i * 75_000]) + 10**9,
                   "status": "ok", "source": "axpy[1, 32](a)\n" * 20} for i in range(4)],
        "threads": [{"thread_id": i, "ident": 140_000 + i, "name": f"thread {i}"} for i in range(2)],
        "devices": [{"device_id": 0, "ordinal": 0, "name": "NVIDIA H100"}],
        "dispatchers": [{"dispatcher_id": i, "framework": "numba-cuda", "name": f"axpy{i}"} for i in range(2)],
        "specializations": [{"specialization_id": i, "dispatcher_id": min(i, 1), "signature": f"(float{i})",
                             "origin": "compiled"} for i in range(3)],
        "configurations": [{"configuration_id": i, "griddim_x": i + 1, **sizes} for i in range(5)],
        "compilations": [{"compilation_id": i, "dispatcher_id": min(i, 1), "specialization_id": i, "thread_id": 0,
                          "launch_id": launch, "trigger": "launch", "signature": f"(float{i})",
                          "start_ns": int(start[launch]), "end_ns": int(start[launch]) + 10**6,
                          "outcome": "compiled"} for i, launch in enumerate([0, 5, 270_000])],
    }
    tables = {name: table_of_rows(name, records) for name, records in few.items()}
    return Recording({**tables, "launches": make_table("launches", launches)}, {"name": "many"})


@pytest.fixture
def assert_same() -> Callable[[Recording, Recording], None]:
    """Compare two recordings, whatever the chunks and dictionaries in which they are held."""

    def compare(left: Recording, right: Recording) -> None:
        assert dict(left.metadata) == dict(right.metadata)
        for name in TABLES:
            assert left.arrow(name).schema == right.arrow(name).schema
            for column in TABLES[name].names:
                one, other = left.arrow(name).column(column), right.arrow(name).column(column)
                if pa.types.is_dictionary(one.type):
                    one, other = one.cast(pa.string()), other.cast(pa.string())
                assert one.combine_chunks().equals(other.combine_chunks()), f"{name}.{column}"

    return compare


@pytest.fixture
def members_of() -> Callable[[Path], dict[str, bytes]]:
    """Read the members of a file with `zipfile`, which knows nothing of how they were written."""

    def read(path: Path) -> dict[str, bytes]:
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            return {name: archive.read(name) for name in archive.namelist()}

    return read


@pytest.fixture
def rewrite(members_of: Callable[[Path], dict[str, bytes]]) -> Callable[..., None]:
    """Replace members of a file and make its checksums right again, as someone with intent would."""

    def write(path: Path, manifest: Callable[[dict[str, Any]], Any] | None = None, **tables: bytes | None) -> None:
        members = members_of(path)
        content: Any = json.loads(members["manifest.json"])
        for name, data in tables.items():
            if data is None:
                del members[f"{name}.parquet"]
            else:
                members[f"{name}.parquet"] = data
                content["tables"].setdefault(name, {"rows": 0})["crc32"] = zlib.crc32(data)
        if manifest:
            changed = manifest(content)
            content = changed if isinstance(changed, bytes) else content
        members["manifest.json"] = content if isinstance(content, bytes) else json.dumps(content).encode()
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                archive.writestr(zipfile.ZipInfo(name), data)

    return write


@pytest.fixture
def path(tmp_path: Path, full: Recording) -> Path:
    """A sound file of the hand-made recording."""
    return save(full, tmp_path / "demo.kscope")

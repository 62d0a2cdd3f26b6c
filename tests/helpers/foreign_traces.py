"""Traces as other tools write them: exports of Nsight Systems in two versions, and Chrome's JSON."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kernelscope
from kernelscope.errors import RecordingFileError

US = 1_000
MS = 1_000_000
#: Columns and rows of a table; texts are texts, all else whole numbers.
Table = tuple[tuple[str, ...], list[tuple[Any, ...]]]
Tables = dict[str, Table]

_TEXT = ("value", "text", "name", "label", "uuid", "jsonText")
EPOCH_NS = 1_764_180_000_000_000_000


def global_id(pid: int, tid: int = 0) -> int:
    """Nsight Systems' number of a process or a thread."""
    return 1 << 56 | pid << 24 | tid


def nsys_tables(*, version: int = 2024, processes: int = 1, launches: int = 4) -> Tables:
    """An export: each process copies, launches kernels in two nested ranges, launches a graph, waits.

    `version` is 2024, or 2020: without globalPid, mangled names, graphs, enumerations, devices and ids of NVTX texts.
    """
    is_new = version >= 2024
    strings = ["cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaStreamSynchronize_v3020",
               "cudaGraphLaunch_v10000",
               "void axpy<float>(int, float*)", "axpy", "_Z4axpyIfEviPf", "scale(float*)",
               "scale", "_Z5scalePf",
               "main", "step", "copy in", "cudaMalloc_v3020", "loader"]
    place = {text: at + 1 for at, text in enumerate(strings)}
    kernels, copies, sets, syncs, calls, ranges, devices = ([] for _ in range(7))
    for number in range(processes):
        pid = 4000 + number
        tid, process = global_id(pid, pid), global_id(pid)
        now = 10 * MS + number * 100 * US

        def call(name: str, lasts: int = 5 * US, tid: int = tid) -> int:
            nonlocal now
            correlation = 100 + sum(each[2] == tid for each in calls)  # the same ones in all processes
            calls.append((now, now + lasts, tid, correlation, place[name], 0, 0))
            now += lasts + 2 * US
            return correlation

        begun = now
        call("cudaMalloc_v3020", 300 * US)
        copied_at = now
        correlation = call("cudaMemcpyAsync_v3020", 20 * US)
        copies.append((copied_at + 10 * US, copied_at + 18 * US, 0, 1, 7, correlation, process, 4096, 1, 0, 2))
        copied = now
        for at in range(launches):
            step = now
            correlation = call("cudaLaunchKernel_v7000")
            name = ("void axpy<float>(int, float*)", "axpy", "_Z4axpyIfEviPf") if at % 2 == 0 else (
                "scale(float*)", "scale", "_Z5scalePf")
            kernels.append((now, now + 3 * US, 0, 1, 7, correlation, process, *(place[each] for each in name),
                            24 + at % 2, 8, 1, 1, 256, 1, 1, 128, 64 * (at % 2), 16, None))
            ranges.append((step - US, now + US, 59, tid, None, place["step"], 0, 3, 0xFF76B900, at))
            now += 5 * US
        if is_new:
            launched = call("cudaGraphLaunch_v10000")
            for node in (1, 2):
                kernels.append((now + node * 5 * US, now + node * 5 * US + 2 * US, 0, 1, 7, launched, process,
                                place["scale(float*)"], place["scale"], place["_Z5scalePf"], 25, 8, 1, 1, 256, 1, 1,
                                128, 64, 16, 9 << 32 | node))
        sets.append((now, now + US, 0, 1, 7, 9_999, process, 512, 2))
        correlation = call("cudaStreamSynchronize_v3020", 40 * US)
        syncs.append((now - 42 * US, now - 2 * US, 0, 1, 7, correlation, process, 3))
        syncs.append((now - 42 * US, now - 41 * US, 0, 1, 7, correlation, process, 2))
        ranges.append((begun, now, 59, tid, "training", None, 1, None, None, None))
        ranges.append((begun, copied, 60, tid, None, place["copy in"], 0, None, None, None))
        ranges.append((copied, None, 34, tid, "mark", None, 0, None, None, None))
        devices.append((pid, 0, number, f"uuid-{number}", 132))
    tables: Tables = {
        "StringIds": (("id", "value"), [(at, text) for text, at in place.items()]),
        "CUPTI_ACTIVITY_KIND_KERNEL": ((
            "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName",
            "shortName", "mangledName", "registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
            "staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread", "graphNodeId"), kernels),
        "CUPTI_ACTIVITY_KIND_MEMCPY": ((
            "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes", "copyKind",
            "srcKind", "dstKind"), copies),
        "CUPTI_ACTIVITY_KIND_MEMSET": ((
            "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes",
            "memKind"), sets),
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ((
            "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "syncType"), syncs),
        "CUPTI_ACTIVITY_KIND_RUNTIME": ((
            "start", "end", "globalTid", "correlationId", "nameId", "returnValue", "eventClass"), calls),
        "NVTX_EVENTS": ((
            "start", "end", "eventType", "globalTid", "text", "textId", "domainId", "category", "color", "int64Value"),
            ranges),
        "OSRT_API": (("start", "end", "globalTid", "nameId"), [(0, 1, global_id(4000, 4000), 1)] * 7),
    }
    if is_new:
        tables |= {
            "ENUM_CUDA_MEM_KIND": (("id", "label"), [(0, "Pageable"), (1, "Pinned"), (2, "Device"), (4, "Managed")]),
            "TARGET_INFO_GPU": ((
                "id", "name", "uuid", "smCount", "computeMajor", "computeMinor", "threadsPerWarp", "maxWarpsPerSm",
                "maxBlocksPerSm", "maxRegistersPerSm", "maxShmemPerSm"), [
                (number, "NVIDIA H100", f"uuid-{number}", 132, 9, 0, 32, 64, 32, 65536, 233472)
                for number in range(processes)]),
            "TARGET_INFO_CUDA_DEVICE": (("pid", "cudaId", "gpuId", "uuid", "numMultiprocessors"), devices),
            "TARGET_INFO_SESSION_START_TIME": (("utcEpochNs",), [(EPOCH_NS,)]),
            "TARGET_INFO_SYSTEM_ENV": (("name", "value"), [("Hostname", "node7")]),
            "META_DATA_EXPORT": (("name", "value"), [
                ("EXPORT_SCHEMA_VERSION", "3.15.1"), ("EXPORT_PRODUCT_VERSION", "2024.7.1.84-1")]),
            "ThreadNames": (("nameId", "globalTid"), [(place["main"], global_id(4000, 4000))]),
            "DIAGNOSTIC_EVENT": (("severity", "text"), [(1, "fine"), (2, "Not all CUDA events were collected.")]),
        }
        names, rows = tables["NVTX_EVENTS"]
        rows += [(0, None, 75, global_id(4000 + number, 4000 + number), "train", None, 1, None, None, None)
                 for number in range(processes)]
        rows += [(0, None, 33, global_id(4000, 4000), "steps", None, 0, 3, None, None)]
        return tables
    names, rows = tables["NVTX_EVENTS"]
    rows[:] = [(*row[:4], row[4] if row[5] is None else strings[row[5] - 1]) for row in rows]
    tables["NVTX_EVENTS"] = names[:5], rows
    for name in list(tables):
        names, rows = tables[name]
        kept = [at for at, each in enumerate(names) if each not in (
            "globalPid", "mangledName", "graphNodeId", "localMemoryPerThread", "returnValue", "eventClass")]
        tables[name] = tuple(names[at] for at in kept), [tuple(row[at] for at in kept) for row in rows]
    return tables


def write_sqlite(path: Path, tables: Tables) -> Path:
    """Write tables as ``nsys export --type sqlite`` does."""
    connection = sqlite3.connect(path)
    for name, (columns, rows) in tables.items():
        typed = ", ".join(f'"{each}" {"TEXT" if each in _TEXT else "INTEGER"}' for each in columns)
        connection.execute(f'CREATE TABLE "{name}" ({typed})')
        connection.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})', rows)
    connection.commit()
    connection.close()
    return path


def write_folder(path: Path, tables: Tables) -> Path:
    """Write tables as ``nsys export --type parquetdir`` does."""
    path.mkdir()
    for name, (columns, rows) in tables.items():
        table = pa.table({each: pa.array([row[at] for row in rows], pa.string() if each in _TEXT else pa.int64())
                          for at, each in enumerate(columns)})
        pq.write_table(table, path / f"{name}.parquet")
    return path


def event(kind: str, name: str, ts: Any, dur: Any = 5, *, pid: Any = 31, tid: Any = 31, **said: Any) -> dict[str, Any]:
    """A complete event, as torch.profiler writes it."""
    return {"ph": "X", "cat": kind, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": said}


def launched(name: str, ts: float, correlation: int, *, dur: Any = 3, grid: Any = (4, 1, 1), pid: int = 31,
             ) -> list[dict[str, Any]]:
    """The launch of a kernel and the kernel, as torch.profiler writes them."""
    return [event("cuda_runtime", "cudaLaunchKernel", ts, 5, pid=pid, tid=pid, correlation=correlation, cbid=211),
            event("kernel", name, ts + 10, dur, pid=0, tid=7, device=0, stream=7, correlation=correlation,
                  grid=list(grid), block=[128, 1, 1], **{"registers per thread": 32, "shared memory": 0})]


def write_json(path: Path, events: Any, **head: Any) -> Path:
    """Write a trace; compressed where the name ends in ``.gz``."""
    text = json.dumps({"schemaVersion": 1, **head, "traceEvents": events} if isinstance(events, list) else events)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def refused(path: Path, message: str) -> str:
    """Load what is to be refused in one line that names it; return the line."""
    with pytest.raises(RecordingFileError, match=message) as error:
        kernelscope.load(path)
    text = str(error.value)
    assert text.startswith(f"{path.name}: ") and len(text) < 500
    assert text.isprintable()
    return text

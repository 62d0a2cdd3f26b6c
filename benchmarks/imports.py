"""How long it takes to open traces of other tools, and how much memory that needs.

``python benchmarks/imports.py`` writes an export of Nsight Systems with a million kernels, as SQLite and as Parquet,
and a trace of torch.profiler of 100 MB, plain and compressed, and opens each in a process of its own.
``python benchmarks/imports.py 100000 10`` makes smaller ones: so many kernels, and so many MB.
"""

from __future__ import annotations

import gzip
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_NAMES = [f"void kernel_{number}<float>(int, float*)" for number in range(40)]
_GLOBAL = 1 << 56 | 4000 << 24


def nsys_tables(kernels: int) -> dict[str, pa.Table]:
    """Return an export: launches of 40 kernels from one thread, a range around every tenth."""
    rng = np.random.default_rng(1)
    begun = 10**9 + np.cumsum(rng.integers(4_000, 9_000, kernels))
    took, size = rng.integers(1_000, 3_000, kernels), rng.integers(1, 5, kernels) * 64
    number = np.arange(kernels)
    one = np.ones(kernels, np.int64)
    start = np.maximum.accumulate(begun + 6_000)
    return {
        "StringIds": pa.table({"id": np.arange(84), "value": [
            *_NAMES, *(f"kernel_{at}" for at in range(40)), "cudaLaunchKernel_v7000", "main", "step", "unused"]}),
        "CUPTI_ACTIVITY_KIND_KERNEL": pa.table({
            "start": start, "end": start + took, "deviceId": 0 * one, "contextId": one, "streamId": 7 * one,
            "correlationId": number + 100, "globalPid": _GLOBAL * one, "demangledName": number % 40,
            "shortName": 40 + number % 40, "mangledName": number % 40, "launchType": one, "cacheConfig": one,
            "registersPerThread": 32 * one, "gridX": size, "gridY": one, "gridZ": one, "blockX": 256 * one,
            "blockY": one, "blockZ": one, "staticSharedMemory": 0 * one, "dynamicSharedMemory": 0 * one,
            "localMemoryPerThread": 0 * one, "localMemoryTotal": 0 * one, "gridId": number,
            "sharedMemoryExecuted": 0 * one, "graphNodeId": pa.nulls(kernels, pa.int64()),
            "sharedMemoryLimitConfig": 0 * one}),
        "CUPTI_ACTIVITY_KIND_RUNTIME": pa.table({
            "start": begun, "end": begun + 3_000, "eventClass": 0 * one, "globalTid": (_GLOBAL | 4001) * one,
            "correlationId": number + 100, "nameId": 80 * one, "returnValue": 0 * one,
            "callchainId": pa.nulls(kernels, pa.int64())}),
        "NVTX_EVENTS": pa.table({
            "start": begun[::10] - 100, "end": begun[::10] + 3_500, "eventType": 59 * one[::10],
            "globalTid": (_GLOBAL | 4001) * one[::10], "textId": 82 * one[::10], "domainId": 0 * one[::10]}),
    }


def write_sqlite(path: Path, tables: dict[str, pa.Table]) -> None:
    connection = sqlite3.connect(path)
    for name, table in tables.items():
        connection.execute(f'CREATE TABLE "{name}" ({", ".join(f"{each!r}" for each in table.column_names)})')
        connection.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * table.num_columns)})',
                               zip(*(column.to_pylist() for column in table.columns), strict=True))
    connection.commit()
    connection.close()


def write_trace(path: Path, size: int) -> None:
    """Write a trace of torch.profiler: operators, launches and kernels, about 1,100 bytes a launch."""
    rng = np.random.default_rng(2)
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], '
                   '"displayTimeUnit": "ms", "baseTimeNanoseconds": 1790857026000000000, "traceEvents": [\n')
        at, written, number = 4_863_432_082_826.852, 0, 0
        while written < size:
            number += 1
            at += float(rng.integers(10, 30))
            name = _NAMES[number % 40]
            written += file.write(
                f'{{"ph": "X", "cat": "cpu_op", "name": "aten::op_{number % 30}", "pid": 572, "tid": 572, '
                f'"ts": {at:.3f}, "dur": 9.125, '
                f'"args": {{"External id": {number}, "Record function id": 0, "Ev Idx": {number}}}}},\n'
                f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 572, "tid": 572, '
                f'"ts": {at + 2:.3f}, "dur": 4.003, "args": {{"External id": {number}, "cbid": 211, '
                f'"correlation": {number}}}}},\n'
                f'{{"ph": "s", "id": {number}, "pid": 572, "tid": 572, "ts": {at + 2:.3f}, "cat": "ac2g", '
                f'"name": "ac2g"}},\n{{"ph": "f", "id": {number}, "pid": 0, "tid": 7, "ts": {at + 8:.3f}, '
                f'"cat": "ac2g", "name": "ac2g", "bp": "e"}},\n'
                f'{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, "ts": {at + 8:.3f}, '
                f'"dur": 1.024, '
                f'"args": {{"External id": {number}, "queued": 0, "device": 0, "context": 1, "stream": 7, '
                f'"correlation": {number}, "registers per thread": 32, "shared memory": 0, "blocks per SM": 0.007576, '
                f'"warps per SM": 0.030303, "grid": [{number % 4 + 1}, 1, 1], "block": [128, 1, 1], '
                f'"est. achieved occupancy %": 0}}}},\n')
        file.write('{"ph": "M", "name": "process_name", "pid": 572, "tid": 0, "args": {"name": "python3"}}]}\n')


def opened(path: str) -> None:
    """Open one, and print how long that took."""
    import kernelscope

    kernelscope.load  # noqa: B018 - imports what it needs
    begun = time.perf_counter()
    recording = kernelscope.load(path)
    took = time.perf_counter() - begun
    # What getrusage says a process has from the one that started it.
    peak = int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) / 2**10
    rows = {name: recording.arrow(name).num_rows for name in ("activities", "launches", "ranges")}
    print(f"{Path(path).name:24}{took:8.2f} s{peak:8.0f} MiB   "
          + ", ".join(f"{count:,} {name}" for name, count in rows.items()), flush=True)


def main() -> None:
    """Write the traces and open them."""
    if sys.argv[1:2] == ["open"]:
        return opened(sys.argv[2])
    kernels, size = (int(each) for each in (sys.argv[1:] or ("1000000", "100")))
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        tables = nsys_tables(kernels)
        write_sqlite(base / "nsys.sqlite", tables)
        (base / "nsys_pqtdir").mkdir()
        for name, table in tables.items():
            pq.write_table(table, base / "nsys_pqtdir" / f"{name}.parquet")
        write_trace(base / "kineto.json", size * 10**6)
        (base / "kineto.json.gz").write_bytes(gzip.compress((base / "kineto.json").read_bytes(), 6))
        del tables
        for name in ("nsys.sqlite", "nsys_pqtdir", "kineto.json", "kineto.json.gz"):
            subprocess.run([sys.executable, __file__, "open", str(base / name)], check=True)


if __name__ == "__main__":
    main()

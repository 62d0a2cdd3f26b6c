"""Measures the exports of a million events: seconds, bytes, and the memory beyond the recording's.

    python benchmarks/exports.py [--events 1000000] [--repeat 3] [--kinds perfetto json parquet csv charts]

The recording is made by columns: half of the events are launches with all phases, half their kernels on four streams,
each joined to its launch; the launches are in 20 NVTX ranges. Each export runs in a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from kernelscope import Recording
from kernelscope.recording.parquet import make_table, table_of_rows

KINDS = ("perfetto", "json", "parquet", "csv", "charts")


def main() -> int:
    """Print a table of the exports that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    print(f"{options.events:,} events\n\n| export | seconds: median (range) | MB | peak memory beyond the recording |")
    print("|---|---|---|---|")
    for kind in options.kinds:
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            runs = pool.map(_measured, [(kind, options.events)] * options.repeat, chunksize=1)
        times, sizes, memory = zip(*runs, strict=True)
        print(f"| {kind} | {statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f}) "
              f"| {sizes[0] / 1e6:.1f} | {max(memory) / 1e6:.0f} MB |", flush=True)
    return 0


def recording_of(events: int) -> Recording:
    """A recording of `events` rows: launches and as many kernels."""
    count, random = events // 2, np.random.default_rng(7)
    rows = np.arange(count)
    start = 10**15 + rows * 30_000
    bounds = start[:, None] + np.cumsum(random.integers(1_000, 5_000, (count, 4)), axis=1)
    kernel = random.integers(0, 20, count)
    took = random.integers(2_000, 90_000, count)
    begun = np.empty(count, dtype=np.int64)
    for stream in range(4):  # kernels of one stream run one behind the other
        mine = rows % 4 == stream
        free = np.cumsum(took[mine])
        begun[mine] = np.maximum.accumulate(bounds[mine, 2] + 2_000 - (free - took[mine])) + free - took[mine]
    order = np.argsort(begun, kind="stable")
    tables: dict[str, Any] = {
        "cells": table_of_rows("cells", [{"cell_id": 0, "execution_count": 1, "start_ns": int(start[0]) - 10_000,
                                          "end_ns": int(bounds[-1, 3]) + 10_000, "status": "ok"}]),
        "threads": table_of_rows("threads", [{"thread_id": 0, "ident": 1, "name": "MainThread"}]),
        "devices": table_of_rows("devices", [{"device_id": 0, "ordinal": 0, "name": "GPU"}]),
        "dispatchers": table_of_rows("dispatchers", [
            {"dispatcher_id": at, "framework": "numba-cuda", "name": f"kernel_{at}"} for at in range(20)]),
        "specializations": table_of_rows("specializations", [
            {"specialization_id": at, "dispatcher_id": at, "signature": "(array(float32, 1d, C),)", "origin": "before",
             "regs": 16 + at} for at in range(20)]),
        "configurations": table_of_rows("configurations", [
            {"configuration_id": at, "griddim_x": 1 << at, "griddim_y": 1, "griddim_z": 1, "blockdim_x": 256,
             "blockdim_y": 1, "blockdim_z": 1, "sharedmem_bytes": 0, "stream": 0} for at in range(8)]),
        "ranges": table_of_rows("ranges", [
            {"range_id": at, "thread_id": 0, "name": f"step {at}", "kind": "push_pop", "source": "python", "depth": 0,
             "cell_id": 0, "start_ns": int(each[0]) - 10, "end_ns": int(each[-1]) + 29_000}
            for at, each in enumerate(np.array_split(start, 20))]),
        "launches": make_table("launches", {
            "launch_id": rows, "cell_id": np.zeros(count, np.int32), "thread_id": np.zeros(count, np.int32),
            "dispatcher_id": kernel, "specialization_id": kernel, "configuration_id": random.integers(0, 8, count),
            "device_id": np.zeros(count, np.int32), "start_ns": start, "dispatch_end_ns": bounds[:, 0],
            "submit_start_ns": bounds[:, 1], "submit_end_ns": bounds[:, 2], "end_ns": bounds[:, 3],
            "compile_ns": np.zeros(count, np.int64), "cache": ["memory"] * count, "correlation_id": rows + 100,
            "queue_ns": begun - bounds[:, 2], "execute_ns": took}),
        "activities": make_table("activities", {
            "activity_id": rows, "kind": ["kernel"] * count, "name": [f"kernel_{at}" for at in kernel[order]],
            "device_id": np.zeros(count, np.int32), "stream": 7 + order % 4, "start_ns": begun[order],
            "end_ns": (begun + took)[order], "launch_id": order, "specialization_id": kernel[order],
            "cell_id": np.zeros(count, np.int32), "thread_id": np.zeros(count, np.int32),
            "correlation_id": order + 100}),
    }
    metadata = {"gpu": {"source": "cupti"}, "clock": {"host_ns": int(start[0]), "wall_ns": 10**18, "error_ns": 50}}
    return Recording(tables, metadata)


def _measured(asked: tuple[str, int]) -> tuple[float, int, int]:
    """Seconds, bytes, and by how much the process grew."""
    kind, events = asked
    recording = recording_of(events)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        start = time.perf_counter()
        if kind == "charts":
            from kernelscope.views.charts import charts_html

            path.write_text(charts_html(recording))
        elif kind in ("perfetto", "json"):
            path = recording.to_perfetto(path.with_suffix(".json" if kind == "json" else ".pftrace"))
        else:
            getattr(recording, f"to_{kind}")(path)
        took = time.perf_counter() - start
        size = sum(each.stat().st_size for each in ([path] if path.is_file() else path.iterdir()))
    return took, size, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


if __name__ == "__main__":
    sys.exit(main())

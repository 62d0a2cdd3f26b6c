"""Recordings as workers make them, by hand: one process each, which launched one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelscope.recording.build import RawRecording, build
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import table_of_rows

IDENT, BOOT = 7, "boot"


def worker(pid: int, *, start_ns: int = 1_000, launches: int = 2, device: dict[str, Any] | None = None,
           name: str | None = None, **process: Any) -> Recording:
    """A process that launched one kernel from its main thread, in a cell, and compiled it before."""
    raw = RawRecording()
    count = launches
    starts = [start_ns + 100 * at for at in range(count)]
    values = {"thread_id": 0, "line_id": 0, "stack_id": -1, "target": 0, "configuration": 0}
    raw.launches = {
        column: np.full(count, values[column], raw.launches[column].dtype) if column in values
        else np.array(starts, np.int64) + {"start_ns": 0, "end_ns": 50}.get(column, 20)
        for column in raw.launches}
    raw.threads = [{"ident": IDENT, "name": "MainThread"}]
    raw.lines = [{"file": "train.py", "line": 3, "function": "step", "user_code": True}]
    raw.cells = [{"start_ns": start_ns - 10, "end_ns": start_ns + 100 * count, "status": "ok", "name": name}]
    raw.dispatchers = [{"framework": "numba-cuda", "name": "axpy"}]
    raw.specializations = [{"dispatcher_id": 0, "signature": "()", "origin": "compiled"}]
    raw.configurations = [{"griddim_x": 1, "blockdim_x": 32, "stream": 0}]
    raw.devices = [device or {"ordinal": 0, "name": "H200"}]
    raw.targets = [{"dispatcher_id": 0, "specialization_id": 0, "device_id": 0, "error": None}]
    raw.compilations = [{"dispatcher_id": 0, "specialization_id": 0, "thread_id": 0, "trigger": "eager",
                         "signature": "()", "start_ns": start_ns - 9, "end_ns": start_ns - 4, "outcome": "compiled"}]
    raw.health = [{"probe": "numba-cuda", "status": "ok", "total_cost_ns": 10.0 * count}]
    raw.metadata = {"name": f"worker {pid}", "clock": {"host_ns": 0, "wall_ns": 10**18, "error_ns": 1, "boot": BOOT},
                    "process": {"host": "node17", "pid": pid, "start_ns": 5, **process}}
    return build(raw)


def on_gpu(recording: Recording, *activities: tuple[str, str, int, int]) -> Recording:
    """The same with these activities: kind, name, start and end of each, on stream 7 of its device."""
    rows: list[dict[str, Any]] = [
        {"activity_id": at, "process_id": 0, "kind": kind, "name": name, "device_id": 0, "stream": 7, "thread_id": 0,
         "start_ns": start, "end_ns": end} for at, (kind, name, start, end) in enumerate(activities)]
    return Recording({**recording.tables, "activities": table_of_rows("activities", rows)}, recording.metadata)

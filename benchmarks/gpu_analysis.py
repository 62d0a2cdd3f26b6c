"""How long the analysis of the GPU's side takes, on recordings made by columns: it needs neither a GPU nor a framework.

    python benchmarks/gpu_analysis.py

Launches with jittering phases, each with a kernel that jitters too, and eight nested NVTX ranges every hundred
launches. For `by_line` both have lines, and every second activity has no launch but a call of its own, as a library's.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from kernelscope.analysis.activities import busy, gpu_activities, join
from kernelscope.analysis.gpu import gaps
from kernelscope.analysis.lines import by_line
from kernelscope.analysis.ranges import attribute, attribute_activities
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table
from kernelscope.recording.ranges import RawRanges, range_columns
from kernelscope.views.card.html import card

KERNELS, LINES = 20, 500
ROUNDS = 9


def gpu_analysis() -> list[dict[str, Any]]:
    """Join, gaps, busy and NVTX attribution, of a million events in all and of a million launches; and the card."""
    rows = []
    for label, launches, limit in (
        ("1e6 events (480,000 launches, as many kernels, 40,000 ranges)", 480_000, "0.25 s"),
        ("1e6 launches, 1e6 kernels, 80,000 ranges", 1_000_000, "not required"),
    ):
        recording = recording_of(launches)
        parts: dict[str, Callable[[Recording], Any]] = {
            "join": join, "gaps": gaps, "busy": busy, "NVTX attribution": _attribution, "together": _together,
        }
        for name, part in parts.items():
            rows.append({
                "figure": f"{name}: {label}", "measured": seconds(timed(partial(part, recording))),
                "at_most": limit if name == "together" else "",
            })
        if launches == 1_000_000:
            lines = with_lines(recording)
            rows.append({"figure": "by_line: 1e6 launches, 1e6 activities, 500,000 of them of calls without a launch",
                         "at_most": "0.2 s", "measured": seconds(timed(partial(by_line, lines)))})
    recording = recording_of(100_000)
    rows.append({"figure": "the card of 100,000 launches and their kernels", "at_most": "0.2 s",
                 "measured": seconds(timed(lambda: card(recording)))})
    what = np.tile([0, *[0, 1] * 9, 1], 10_000)  # a push, nine pushes and pops, a pop
    events = np.stack([np.arange(len(what)) * 1e-6, what, what * 0, what * 0], axis=1)
    raw = RawRanges(events, [dict.fromkeys(("domain", "category", "color", "payload")) | {"name": "step"}],
                    sites=[{"thread_id": 0, "line_id": -1, "stack_id": -1}])
    rows.append({"figure": "building 100,000 ranges at stop", "at_most": "",
                 "measured": seconds(timed(lambda: make_table("ranges", range_columns(raw))))})
    return rows


def recording_of(launches: int) -> Recording:
    """Make a recording of launches one after another, each with its kernel, in nested ranges."""
    random = np.random.default_rng(7)
    ids = np.arange(launches)
    steps = random.integers(1_000, 6_000, (launches, 5))
    bounds = (np.cumsum(steps) + 10**15).reshape(launches, 5)
    kernel = (ids * 7 % KERNELS).astype(np.int32)
    zeros = np.zeros(launches, np.int32)
    start = np.maximum.accumulate(bounds[:, 3] + random.integers(-500, 4_000, launches))
    names = pa.array([f"kernel_{at}" for at in range(KERNELS)]).dictionary_encode()
    kind = pa.array(["kernel"]).dictionary_encode()
    cache = pa.array(["memory"]).dictionary_encode()
    tables = {
        "cells": make_table("cells", {
            "cell_id": [0], "start_ns": [int(bounds[0, 0])], "end_ns": [int(bounds[-1, 4])], "status": ["ok"],
            "synchronized_ns": [int(bounds[-1, 4]) + 100_000],
        }),
        "dispatchers": make_table("dispatchers", {
            "dispatcher_id": np.arange(KERNELS), "framework": ["numba-cuda"] * KERNELS,
            "name": [f"kernel_{at}" for at in range(KERNELS)],
        }),
        "specializations": make_table("specializations", {
            "specialization_id": np.arange(KERNELS), "dispatcher_id": np.arange(KERNELS),
            "signature": ["(array(float32, 1d, C),)"] * KERNELS, "origin": ["before"] * KERNELS,
        }),
        "configurations": make_table("configurations", {
            "configuration_id": [0], **{f"{what}_{axis}": [1] for what in ("griddim", "blockdim") for axis in "xyz"},
            "sharedmem_bytes": [0],
        }),
        "launches": make_table("launches", {
            "launch_id": ids, "cell_id": zeros, "thread_id": zeros, "dispatcher_id": kernel,
            "specialization_id": kernel, "configuration_id": zeros, "start_ns": bounds[:, 0],
            "dispatch_end_ns": bounds[:, 1], "submit_start_ns": bounds[:, 2], "submit_end_ns": bounds[:, 3],
            "end_ns": bounds[:, 4], "compile_ns": np.zeros(launches, np.int64), "cache": cache.take(pa.array(zeros)),
        }),
        "activities": make_table("activities", {
            "activity_id": ids, "kind": kind.take(pa.array(zeros)), "name": names.take(pa.array(kernel)),
            "device_id": zeros, "stream": np.full(launches, 7), "start_ns": start,
            "end_ns": start + random.integers(1_000, 20_000, launches), "launch_id": ids, "specialization_id": kernel,
            "cell_id": zeros, "thread_id": zeros, "submit_start_ns": bounds[:, 2], "submit_end_ns": bounds[:, 3],
            "correlation_id": ids,
        }),
        "ranges": _ranges(bounds),
    }
    return Recording(tables, {"gpu": {"source": "cupti"}})


def with_lines(recording: Recording) -> Recording:
    """Return the recording with a line for each launch and activity, and every second activity without a launch."""
    held = {name: recording.arrow(name) for name in recording.tables}
    count = len(recording.launches)
    line = pa.array(np.arange(count) * 13 % LINES, pa.int32())
    held["lines"] = make_table("lines", {
        "line_id": np.arange(LINES), "file": ["/home/u/step.py"] * LINES, "line": np.arange(1, LINES + 1)})
    alone = np.arange(count) % 2 == 1
    changed = {
        "launches": {"line_id": line},
        "activities": {
            "line_id": line, "launch_id": pa.array(np.arange(count), pa.int32(), mask=alone),
            **{name: np.where(alone, held["launches"].column("end_ns").to_numpy() + later,
                              held["activities"].column(name).to_numpy())
               for name, later in (("submit_start_ns", 100), ("submit_end_ns", 900))}},
    }
    for table, columns in changed.items():
        for name, values in columns.items():
            field = held[table].schema.field(name)
            held[table] = held[table].set_column(held[table].schema.get_field_index(name), field,
                                                 pa.array(values).cast(field.type))
    return Recording(held, recording.metadata)


def timed(call: Callable[[], Any]) -> list[float]:
    """Seconds of each of several calls, after one that does not count."""
    call()
    measured = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        measured.append(time.perf_counter() - start)
    return measured


def seconds(times: list[float]) -> str:
    """Median, with the range."""
    return f"{statistics.median(times):.3f} s ({min(times):.3f} to {max(times):.3f})"


def _ranges(bounds: np.ndarray) -> pa.Table:
    count = len(bounds) // 100
    offsets = np.array([0, 1, 10, 20, 30, 40, 50, 60])
    begin = np.minimum(np.arange(count)[:, None] * 100 + offsets, len(bounds) - 1)
    end = np.minimum(begin + np.where(offsets == 0, 98, 8), len(bounds) - 1)
    number = np.arange(count * len(offsets))
    inner = number % len(offsets) != 0
    return make_table("ranges", {
        "range_id": number, "thread_id": number * 0, "name": [f"r{at % len(offsets)}" for at in number.tolist()],
        "parent_range_id": np.where(inner, number // len(offsets) * len(offsets), -1),
        "kind": ["push_pop"] * len(number),
        "source": ["python"] * len(number), "start_ns": bounds[begin.ravel(), 0] - 1, "end_ns": bounds[end.ravel(), 4],
        "depth": inner.astype(np.int32),
    })


def _attribution(recording: Recording) -> Any:
    return attribute_activities(recording, attribute(recording))


def _together(recording: Recording) -> Any:
    activities = gpu_activities(recording)
    return (join(recording), gaps(recording, activities=activities), busy(recording, activities=activities),
            _attribution(recording))


def main() -> int:
    """Measure and print the table."""
    print("| figure | measured | at most |\n|---|---|---|")
    for row in gpu_analysis():
        print(f"| {row['figure']} | {row['measured']} | {row['at_most']} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

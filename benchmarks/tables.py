"""Measures the way from a log's columns to finished tables, in nanoseconds a launch.

    python benchmarks/tables.py [--launches 1000000] [--rounds 15] [--json FILE] [--profile]

Launches of three kernels in a hundred cells; no GPU, compiles or graphs. Building the same recording without launches
is measured beside it and taken off.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kernelscope.native.log import LaunchColumns
from kernelscope.recording.build import LAUNCH_COLUMNS, RawRecording, build

CELLS = 100
LINES = 50


def main() -> int:
    """Print one row a case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--profile", action="store_true", help="say instead what the time goes into")
    options = parser.parse_args()
    if options.profile:
        raw, profile = raw_of(columns_of(options.launches)), cProfile.Profile()
        build(raw_of(columns_of(1)))  # imports what it needs
        profile.runcall(build, raw)
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)
        return 0
    found = measured(options.launches, options.rounds)
    print(f"{options.launches:,} launches\n\n| step | ns a launch: median (range) |\n|---|---|")
    for name, values in found.items():
        print(f"| {name} | {statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f}) |")
    if options.json:
        options.json.write_text(json.dumps(found))
    return 0


def measured(launches: int, rounds: int) -> dict[str, list[float]]:
    """Nanoseconds a launch in each round, the cases in another order each time."""
    given = {
        "columns to tables, phases": columns_of(launches),
        "columns to tables, two ends": columns_of(launches, phases=False),
        "columns to tables, four threads": columns_of(launches, threads=4),
    }
    cases: dict[str, Callable[[], Any]] = {name: lambda held=held: build(raw_of(held)) for name, held in given.items()}
    found: dict[str, list[float]] = {name: [] for name in cases}
    build(raw_of(columns_of(1)))  # imports what it needs
    for _ in range(rounds):
        for name in random.sample(list(cases), len(cases)):
            empty = _took(lambda: build(raw_of(columns_of(0))))
            found[name].append((_took(cases[name]) - empty) / launches)
    return found


def columns_of(launches: int, *, phases: bool = True, threads: int = 1) -> LaunchColumns:
    """A log's columns of so many launches, those of each thread one after another."""
    rows = np.arange(launches)
    start = 10**15 + rows * 20_000
    bounds = {"dispatch_end_ns": 4_000, "submit_start_ns": 9_000, "submit_end_ns": 14_000}
    values = {
        "thread_id": rows % threads, "line_id": rows % LINES, "stack_id": rows * 0 - 1,
        "target": rows % 3, "configuration": rows % 3, "start_ns": start,
        **{name: start + after if phases else np.full(launches, -1) for name, after in bounds.items()},
        "end_ns": start + 15_000,
    }
    order = np.argsort(rows % threads, kind="stable")
    return {name: values[name][order].astype(dtype) for name, dtype in LAUNCH_COLUMNS.items()}


def raw_of(launches: LaunchColumns) -> RawRecording:
    """A recording of three kernels, in cells that follow one another."""
    length = 20_000 * max(1, len(launches["target"]) // CELLS)
    kernels = range(3)
    return RawRecording(
        launches=launches,
        targets=[{"dispatcher_id": at, "specialization_id": at, "device_id": 0, "error": None} for at in kernels],
        threads=[{"ident": 1 + at, "name": f"thread {at}"} for at in range(4)],
        lines=[{"file": "simulation.py", "line": 1 + at, "function": "step"} for at in range(LINES)],
        cells=[{"execution_count": at, "start_ns": 10**15 + at * length, "end_ns": 10**15 + (at + 1) * length - 1,
                "status": "ok"} for at in range(CELLS)],
        dispatchers=[{"framework": "numba-cuda", "name": f"kernel_{at}"} for at in kernels],
        specializations=[{"dispatcher_id": at, "signature": "()", "origin": "compiled"} for at in kernels],
        configurations=[{"griddim_x": 1 + at, "stream": 0} for at in kernels],
        devices=[{"ordinal": 0, "name": "GPU"}],
    )


def _took(function: Callable[[], Any]) -> int:
    gc.collect()
    start = time.perf_counter_ns()
    function()
    return time.perf_counter_ns() - start


if __name__ == "__main__":
    raise SystemExit(main())

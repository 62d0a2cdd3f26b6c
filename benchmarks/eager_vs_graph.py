"""Measures a step of launches eagerly and as one CUDA graph, by the number of kernels and by how long a kernel runs.

    python benchmarks/eager_vs_graph.py OUT.json [--rounds N] [--most KERNELS]

The notebook eager_vs_graph.ipynb shows what it wrote. A step is N launches of one kernel on one stream; a round times
it eagerly and as a graph, in a random order: what the host needs until it has given the work, and what passes until
the device has done it. Kernels that run for a while are one block that counts; how long they run is measured by the
GPU's events. On a dry run (KERNELSCOPE_DRYRUN=1) kernels do not execute, and the file says so.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

import numpy as np

from kernelscope import dryrun

dryrun.enable_from_environment()

from cuda.core import Device  # noqa: E402
from numba import cuda  # noqa: E402

from kernelscope.studies import process  # noqa: E402
from kernelscope.studies.bench import timing  # noqa: E402

KERNELS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500)
#: How long a kernel is to run, in microseconds, in steps of `MANY` kernels.
DURATIONS_US = (0, 1, 2, 5, 10, 20, 50, 100)
MANY = 20
#: Launches that are waiting at most, in eager steps one after the other: a driver's queue holds about a thousand.
QUEUED = 200


@cuda.jit
def count(out, rounds):
    value = out[0]
    for _ in range(rounds):
        value = value * np.float32(1.0000001) + np.float32(1e-7)
    out[0] = value


class Step:
    """Some launches, eagerly and as a graph of the same launches."""

    def __init__(self, kernels: int, rounds: int) -> None:
        self.device = Device()
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.held = count[1, 32, cuda.external_stream(int(self.stream.handle))]
        self.kernels, self.rounds = kernels, rounds
        self.out = cuda.to_device(np.zeros(1, np.float32))
        self.held(self.out, rounds)
        self.stream.sync()
        self.capture_ns: list[int] = []
        self.instantiate_ns: list[int] = []
        self.graph = self.build()

    def build(self) -> Any:
        """Capture and instantiate, timed."""
        start = time.perf_counter_ns()
        builder = self.device.create_graph_builder().begin_building()
        held = count[1, 32, cuda.external_stream(int(builder.stream.handle))]
        for _ in range(self.kernels):
            held(self.out, self.rounds)
        builder.end_building()
        captured = time.perf_counter_ns()
        graph = builder.complete()
        graph.upload(self.stream)
        self.stream.sync()
        self.capture_ns.append(captured - start)
        self.instantiate_ns.append(time.perf_counter_ns() - captured)
        return graph

    def eager(self) -> None:
        held, out, rounds = self.held, self.out, self.rounds
        for _ in range(self.kernels):
            held(out, rounds)

    def replay(self) -> None:
        self.graph.launch(self.stream)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=40, help="how often each step is timed (40)")
    parser.add_argument("--most", type=int, default=KERNELS[-1], help="the largest number of kernels in a step (500)")
    arguments = parser.parse_args()
    arguments.out.write_text(json.dumps(measure(arguments.rounds, arguments.most, print)) + "\n", encoding="utf-8")
    return 0


def measure(rounds: int, most: int, tell: Callable[[str], object]) -> dict[str, Any]:
    """Return everything that was measured."""
    chance, began = random.Random(0), time.monotonic()
    steps = [(kernels, 0) for kernels in KERNELS if kernels <= most]
    per_us = rounds_per_us()
    steps += [(min(MANY, most), round(duration * per_us)) for duration in DURATIONS_US if duration]
    rows = []
    for kernels, spins in steps:
        row = measure_step(Step(kernels, spins), rounds, chance)
        rows.append(row)
        took = {how: statistics.median(row[f"{how}_ns"]) / 1000 for how in ("eager_wall", "graph_wall")}
        tell(f"{kernels:>4} kernels of {row['kernel_us']} us: eager {took['eager_wall']:.1f} us, "
             f"graph {took['graph_wall']:.1f} us")
    is_dry_run, created = dryrun.is_enabled(), datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "format": "kernelscope-eager-vs-graph", "version": 1, "created": created,
        "is_dry_run": is_dry_run, "host": process.describe(()), "gpu": timing.gpu(is_dry_run),
        "versions": {name: metadata.version(name) for name in ("numba-cuda", "cuda-core", "cuda-bindings", "numpy")},
        "rounds": rounds, "seconds": round(time.monotonic() - began, 1), "rows": rows}


def measure_step(step: Step, rounds: int, chance: random.Random) -> dict[str, Any]:
    """Time a step in both ways: per step, the host's time and the time until the device is done, of each round."""
    times: dict[str, list[int]] = {f"{how}_{what}_ns": [] for how in ("eager", "graph") for what in ("host", "wall")}
    repeats = max(1, min(10, QUEUED // step.kernels))
    ways = {"eager": step.eager, "graph": step.replay}
    for _ in range(3):
        for run in ways.values():
            run()
        step.stream.sync()
    for _ in range(4):
        step.build().close()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for how in chance.sample(list(ways), 2):
                run = ways[how]
                step.stream.sync()
                start = time.perf_counter_ns()
                for _ in range(repeats):
                    run()
                given = time.perf_counter_ns()
                step.stream.sync()
                done = time.perf_counter_ns()
                times[f"{how}_host_ns"].append(round((given - start) / repeats))
                times[f"{how}_wall_ns"].append(round((done - start) / repeats))
    finally:
        gc.enable()
    return {"kernels": step.kernels, "spins": step.rounds, "kernel_us": kernel_us(step), "repeats": repeats, **times,
            "capture_ns": step.capture_ns, "instantiate_ns": step.instantiate_ns}


def kernel_us(step: Step) -> float | None:
    """Return how long a kernel of the step's graph runs, with what lies between two; None on a dry run."""
    if dryrun.is_enabled():
        return None
    stream = cuda.external_stream(int(step.stream.handle))
    start, end = cuda.event(), cuda.event()
    times = []
    for _ in range(7):
        start.record(stream)
        for _ in range(5):
            step.replay()
        end.record(stream)
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / 5 / step.kernels)
    return round(statistics.median(times), 3)


def rounds_per_us() -> float:
    """Return how many rounds of the kernel's loop take a microsecond on this GPU."""
    if dryrun.is_enabled():
        return 1.0
    few, many = (kernel_us(Step(10, rounds)) or 0.0 for rounds in (10_000, 110_000))
    return 100_000 / max(many - few, 1e-3)


if __name__ == "__main__":
    raise SystemExit(main())

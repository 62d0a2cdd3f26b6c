"""Measures what recording the GPU's side costs, on a GPU, and prints it as a table.

    python benchmarks/gpu_figures.py [--launches N]

CUPTI stays attached to a process once it was used, so what launches cost before comes first; then recording and not
recording are interleaved. Figures are medians, with bootstrap intervals of the median's difference.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
from typing import Any

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

import numpy as np
from figures import difference, machine

from kernelscope.recorder.recorder import Recorder

ROUNDS = 40
LAUNCHES = 300
WARM_UP = 300


def main() -> int:
    """Run all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=1_000_000, help="how many to drain (default: 1,000,000)")
    options = parser.parse_args()
    rows = [*launch_overhead(), *empty_cell(), *drain(options.launches)]
    print(f"\n{machine()}\n\n| figure | measured | at most |\n|---|---|---|")
    for row in rows:
        print(f"| {row['figure']} | {row['measured']} | {row['at_most']} |")
    return 0


def launch_overhead() -> list[dict[str, Any]]:
    """What host recording and CUPTI add to a launch together, each alone, and what CUPTI leaves behind."""
    from numba import cuda

    @cuda.jit
    def noop():
        pass

    @cuda.jit
    def add3(out, a, b, c):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a[i] + b[i] + c[i]

    array = cuda.device_array(1024, np.float32)
    kernels = {"no argument": (noop[1, 32], ()), "4 arrays": (add3[8, 128], (array,) * 4)}
    for kernel, arguments in kernels.values():
        for _ in range(1000):
            kernel(*arguments)
    cuda.synchronize()
    fresh = {name: [one(*each, None) for _ in range(ROUNDS)] for name, each in kernels.items()}
    rows: list[dict[str, Any]] = []
    ways: dict[str, dict[str, Any] | None] = {
        "none": None, "host": {"gpu": "none"}, "both": {}, "both, detail launch": {"detail": "launch"},
        "events": {"gpu": "events"},
    }
    orders = np.random.default_rng(0)
    for name, each in kernels.items():
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way in orders.permutation(list(ways)).tolist():
                times[way].append(one(*each, ways[way]))
        base = statistics.median(times["none"])
        for way, limit in (("both", "1.5 µs and 8 % of a 4-array launch"), ("both, detail launch", ""), ("host", ""),
                           ("events", "")):
            middle, low, high = difference(times["none"], times[way])
            rows.append({
                "figure": f"added by recording {way}: {name} (launch of {base / 1e3:.1f} µs)",
                "measured": f"{middle / 1e3:+.2f} µs ({low / 1e3:+.2f} to {high / 1e3:+.2f}), {middle / base:.1%}",
                "at_most": limit,
            })
        left = base - statistics.median(fresh[name])
        least = min(times["none"]) - min(fresh[name])
        rows.append({
            "figure": f"left by CUPTI when nothing records any more: {name}",
            "measured": f"{left / 1e3:+.2f} µs (medians), {least / 1e3:+.2f} µs (fastest rounds)", "at_most": "nothing",
        })
    return rows


def one(kernel: Any, arguments: tuple[Any, ...], recorded: dict[str, Any] | None) -> float:
    """Nanoseconds a launch."""
    from numba import cuda

    recorder = None if recorded is None else Recorder(**recorded).start()
    try:
        for _ in range(WARM_UP):
            kernel(*arguments)
        cuda.synchronize()
        gc.disable()
        start = time.perf_counter_ns()
        for _ in range(LAUNCHES):
            kernel(*arguments)
        return (time.perf_counter_ns() - start) / LAUNCHES
    finally:
        gc.enable()
        if recorder is not None:
            recorder.stop()
        cuda.synchronize()


def empty_cell() -> list[dict[str, Any]]:
    """What recording costs a cell, however little it does: start and stop."""
    rows = []
    for way in ("none", "cupti"):
        times = []
        for _ in range(30):
            start = time.perf_counter()
            with Recorder(gpu=way):
                pass
            times.append(time.perf_counter() - start)
        rows.append({"figure": f"start and stop around nothing, gpu={way}",
                     "measured": f"{statistics.median(times) * 1e3:.1f} ms", "at_most": ""})
    return rows


def drain(launches: int) -> list[dict[str, Any]]:
    """From stop() to a finished recording, and its file."""
    from numba import cuda

    @cuda.jit
    def noop():
        pass

    kernel = noop[1, 32]
    kernel()
    recorder = Recorder().start()
    recorder.begin_cell("drain")
    start = time.perf_counter()
    for _ in range(launches):
        kernel()
    cuda.synchronize()
    made = time.perf_counter() - start
    start = time.perf_counter()
    recording = recorder.stop()
    took = time.perf_counter() - start
    joined = recording.launches.execute_ns.notna().sum()
    health = recording.health
    print(health.to_string(), file=sys.stderr)
    assert joined == launches, f"{joined} of {launches} launches have a kernel"
    start = time.perf_counter()
    path = recording.save("/tmp/drain.kscope")
    saved = time.perf_counter() - start
    return [
        {"figure": f"stop, drain and join of {launches:,} launches with {len(recording.activities):,} activities "
                   f"(made in {made:.1f} s)", "measured": f"{took:.2f} s", "at_most": "1.0 s for 1e6 activities"},
        {"figure": "records lost", "measured": str(int(health.dropped.fillna(0).sum())), "at_most": "0"},
        {"figure": "the GPU's clock on the host's", "measured": f"within {health.clock_error_ns.max() / 1e3:.2f} µs",
         "at_most": "2 µs"},
        {"figure": "file of it", "measured": f"{path.stat().st_size / 1e6:.1f} MB in {saved:.2f} s", "at_most": ""},
    ]


if __name__ == "__main__":
    sys.exit(main())

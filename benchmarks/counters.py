"""The GPU's counters beside Nsight Compute's: the same metrics of the same kernels, and the time that it takes.

    python benchmarks/counters.py compare           measures the kernels here and with ncu, and prints the differences
    python benchmarks/counters.py time              how long `basic` and `full` take, first and again, and ncu

It needs a GPU, and ncu on the PATH.
"""

from __future__ import annotations

import csv
import statistics
import subprocess
import sys
import time

import numpy as np
import record_counters
from numba import cuda

import kernelscope
from kernelscope.features.metrics.sets import SETS

ROUNDS = 7
#: Metrics that are as near count as the same.
NEAR = 0.02
_LAUNCH = (sys.executable, record_counters.__file__, "--launch-only")


def own() -> list[tuple[str, dict[str, float | None]]]:
    """Return the metrics of each kernel's second launch in a row."""
    found: list[tuple[str, dict[str, float | None]]] = []
    for name, launch in record_counters.launches():
        launch()
        cuda.synchronize()
        with kernelscope.record(metrics="full") as recorder:
            launch()
        found.append((name, {row["name"]: row["value"] for row in recorder.recording.rows("metrics")
                             if row["pc_offset"] is None}))
    return found


def ncu(metrics: tuple[str, ...], *options: str) -> list[dict[str, float]]:
    """Return the metrics of each launch as ncu has them; clocks and caches as they are."""
    done = subprocess.run(
        ["ncu", "--clock-control", "none", "--cache-control", "none", "--metrics", ",".join(metrics), "--csv",
         "--page", "raw", "--print-units", "base", *options, *_LAUNCH], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    rows = list(csv.DictReader(lines[next(at for at, line in enumerate(lines) if line.startswith('"ID"')):]))
    return [{name: float(row[name].replace(",", "")) for name in metrics if row.get(name)} for row in rows[1:]]


def compare() -> None:
    """Print each metric of each kernel's second launch, here and there."""
    found, launched = own(), ncu(SETS["full"])
    assert len(launched) == len(found) * record_counters.LAUNCHES
    theirs = launched[record_counters.LAUNCHES - 1::record_counters.LAUNCHES]
    far: list[str] = []
    for metric in SETS["full"]:
        for at, (kernel, values) in enumerate(found):
            one, other = values.get(metric), theirs[at].get(metric)
            off = None if one is None or other is None else 0.0 if one == other else (one - other) / max(one, other)
            shown = "" if off is None else f"{off:+.2%}"
            print(f"{metric:75} {kernel:17} {one!s:>22} {other!s:>22} {shown:>10}")
            if off is not None and abs(off) > NEAR:
                far.append(f"{kernel} {metric}: {one:g}, {other:g}")
    print(f"further apart than {NEAR:.0%}:", *far, sep="\n  ")


def times() -> None:
    """Print how long `basic` and `full` of one kernel take, and ncu from its start to the numbers."""
    x, y = (cuda.to_device(np.ones(record_counters.ELEMENTS, np.float32)) for _ in range(2))

    def launch() -> None:
        record_counters.axpy[record_counters.ELEMENTS // record_counters.BLOCK, record_counters.BLOCK](
            np.float32(2), x, y)

    with kernelscope.record():
        launch()
    for wanted in ("basic", "full"):
        lasted: list[float] = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            with kernelscope.record(metrics=wanted) as recorder:
                launch()
            lasted.append(time.perf_counter() - begun)
            assert len(recorder.recording.metrics)
        print(f"{wanted}: first {lasted[0]:.3f} s, again {statistics.median(lasted[1:]):.3f} s "
              f"({min(lasted[1:]):.3f} to {max(lasted[1:]):.3f})")
    lasted = []
    for _ in range(3):
        begun = time.perf_counter()
        ncu(SETS["basic"], "--kernel-name", "regex:axpy", "--launch-count", "1")
        lasted.append(time.perf_counter() - begun)
    print(f"ncu: {statistics.median(lasted):.3f} s ({min(lasted):.3f} to {max(lasted):.3f})")


if __name__ == "__main__":
    if sys.argv[1:] == ["compare"]:
        compare()
    elif sys.argv[1:] == ["time"]:
        times()
    else:
        sys.exit(__doc__)

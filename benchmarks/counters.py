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
from kernelscope.counter_sets import SETS

ROUNDS = 7
_LAUNCH = (sys.executable, record_counters.__file__, "--launch-only")


def own() -> dict[tuple[str, int], dict[str, float | None]]:
    """Return the metrics of whole launches by kernel and by which of its specializations it is, as launched first."""
    with kernelscope.record(metrics="full") as recorder:
        record_counters.launch_all()
    recording = recorder.recording
    for row in recording.rows("health"):
        if row["probe"] == "metrics":
            print(row["message"])
    found: dict[tuple[str, int], dict[str, float | None]] = {}
    of: dict[int, tuple[str, int]] = {}
    for row in recording.rows("measurements"):
        count = sum(name == row["name"] for name, _ in found)
        found[row["name"], count] = {}
        of[row["measurement_id"]] = row["name"], count
    for row in recording.rows("metrics"):
        if row["pc_offset"] is None:
            found[of[row["measurement_id"]]][row["name"]] = row["value"]
    return found


def ncu(metrics: tuple[str, ...], *options: str) -> list[tuple[str, dict[str, float]]]:
    """Return the same of ncu, launch by launch; clocks and caches as they are."""
    done = subprocess.run(
        ["ncu", "--clock-control", "none", "--cache-control", "none", "--metrics", ",".join(metrics), "--csv",
         "--page", "raw", "--print-units", "base", "--print-kernel-base", "mangled", *options, *_LAUNCH],
        capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    rows = list(csv.DictReader(lines[next(at for at, line in enumerate(lines) if line.startswith('"ID"')):]))
    return [(row["Kernel Name"], {name: float(row[name].replace(",", "")) for name in metrics if row.get(name)})
            for row in rows[1:]]


def compare() -> None:
    """Print each metric of each kernel here and there, in the first launch and, of ncu, in the second too."""
    found = own()
    launches = ncu(SETS["full"])
    theirs: dict[tuple[str, int], list[dict[str, float]]] = {}
    seen: dict[str, tuple[str, int]] = {}
    for mangled, values in launches:
        if mangled not in seen:
            name = next((name for name, _ in found if f"{len(name)}{name}" in mangled), None)
            if name is None:
                continue  # it is none of ours
            seen[mangled] = name, sum(known == name for known, _ in seen.values())
        theirs.setdefault(seen[mangled], []).append(values)
    for metric in SETS["full"]:
        for kernel, values in found.items():
            one, others = values.get(metric), [each.get(metric) for each in theirs.get(kernel, [])]
            other = others[0] if others else None
            off = "" if one is None or not other else f"{(one / other - 1) * 100:+.2f} %"
            label = kernel[0] + (f" ({kernel[1] + 1})" if kernel[1] else "")
            print(f"{metric:75} {label:18} {one!s:>22} {' '.join(map(str, others)):>45} {off:>10}")


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

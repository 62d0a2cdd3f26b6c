"""Measures the drain and the join of GPU activities at stop, through a stand-in for CUPTI: no GPU is needed.

    python benchmarks/activities.py [--count N] [--rounds N] [--copies N] [--profile]

It needs a C compiler. Each round records N launches, each with its driver call and its kernel, and stops. With
`--copies` the launches come in so many parts, of 20 kernels in turn, with a copy after each part.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))

from cupti_stand_in import StandIn, built

from kernelscope.clock import now
from kernelscope.native.log import LaunchLog
from kernelscope.probes.cupti.library import Cupti
from kernelscope.probes.cupti.tracing import Tracing
from kernelscope.recording.columns import CALL_SITE
from kernelscope.recording.joins import Neighbours, RawActivities, join

NAMES = [f"_ZN6cudapy{4 + len(str(at))}axpy{at}E5ArrayIfLi1E1C7mutable7alignedE" for at in range(20)]


def main() -> int:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--copies", type=int, default=0)
    parser.add_argument("--profile", action="store_true", help="print where the time goes in the last round")
    options = parser.parse_args()
    stand_in = StandIn(built())
    cupti = Cupti(stand_in.path, stand_in.stamp)
    times = []
    for number in range(options.rounds):
        profile = cProfile.Profile() if options.profile and number == options.rounds - 1 else None
        times.append(measure(stand_in, cupti, options.count, options.copies, profile))
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    print(f"{options.count:,} kernels and {options.count:,} calls, medians and ranges of {options.rounds} rounds\n")
    print("| | wall | processor |\n|---|---|---|")
    drains, joins = [row[:2] for row in times], [row[2:] for row in times]
    together = [[drain + join for drain, join in zip(*pair, strict=True)] for pair in zip(drains, joins, strict=True)]
    for name, rows in (("drain", drains), ("join", joins), ("together", together)):
        print(f"| {name} | {' | '.join(map(seconds, zip(*rows, strict=True)))} |")
    return 0


def measure(stand_in: StandIn, cupti: Cupti, count: int, copies: int, profile: cProfile.Profile | None) -> list[float]:
    """Record, and return the seconds of the drain and of the join: wall and processor time of each."""
    tracing = Tracing(cupti, LaunchLog().ring)
    start = now()
    parts = copies or 1
    length = count // parts
    count = length * parts
    for part in range(parts):
        first = start + part * length * 10_000
        stand_in.many(length, NAMES[part % len(NAMES)], first)
        if copies:
            at = first + length * 10_000 - 2_500  # between two launches
            stand_in.copy(stand_in.call("cuMemcpyHtoD_v2", at, at + 400), 1, 2, 3, 4096, at + 500, at + 900)
    begin = start + np.arange(count) * 10_000 - 2_000
    kernel = (np.arange(count) // length % len(NAMES)).astype(np.int32)
    launches = {
        "start_ns": begin, "submit_start_ns": begin + 1_000, "submit_end_ns": begin + 6_000, "end_ns": begin + 7_000,
        "thread_id": np.zeros(count, np.int32), "specialization_id": kernel, "configuration_id": kernel,
        **{name: np.full(count, -1, np.int32) for name in CALL_SITE},
    }
    around = Neighbours(
        [{"ident": threading.get_ident()}], [{"ordinal": 0}],
        [{"entry_name": name} for name in NAMES], [], [])
    if profile is not None:
        profile.enable()
    first = time.perf_counter(), time.process_time()
    tracing.end()
    columns = tracing.columns
    second = time.perf_counter(), time.process_time()
    raw = RawActivities(columns.activities, columns.calls, columns.names, columns.entries, columns.shapes)
    activities, _ = join(raw, launches, around)
    third = time.perf_counter(), time.process_time()
    if profile is not None:
        profile.disable()
    of_kernels = activities["launch_id"][activities["launch_id"] >= 0]
    assert (of_kernels == np.arange(count)).all()
    assert len(activities["launch_id"]) == count + copies
    assert tracing.dropped == 0
    return [end - start for pair in ((first, second), (second, third)) for start, end in zip(*pair, strict=True)]


def seconds(times: Sequence[float]) -> str:
    """Median, with the range."""
    return f"{statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})"


if __name__ == "__main__":
    sys.exit(main())

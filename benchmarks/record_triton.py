"""What recording adds to a launch of Triton: bursts with and without it, alternating, on the dry run or a GPU.

Run it as ``python benchmarks/record_triton.py [--gpu] [--rounds N]`` where Triton is installed; with ``--gpu`` torch
too. Times are the processor's on the dry run, and those of the clock on a GPU; starts and stops are left out.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import kernelscope

#: Launches of a burst, after so many that are not timed: the interpreter adapts to a hook that has come or gone.
_LAUNCHES, _FIRST = 400, 100
#: What is compared with bursts without a recording.
_KINDS: dict[str, dict[str, str] | None] = {
    "nothing, once more": None, "phases": {"detail": "phases"}, "launch": {"detail": "launch"}}


def main() -> None:
    """Measure and print medians a launch, in microseconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="on the GPU, with torch's memory")
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    if not given.gpu:
        kernelscope.dryrun.enable()
    import triton
    import triton.language as tl

    @triton.jit
    def axpy(x, y, n, a, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = i < n
        tl.store(y + i, a * tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)

    x: Any
    if given.gpu:
        import torch

        x, wait, now = torch.zeros(4096, device="cuda"), torch.cuda.synchronize, time.perf_counter_ns
    else:
        x, wait, now = kernelscope.dryrun.array(4096), lambda: None, time.process_time_ns

    def burst_us(launch: Callable[[], Any]) -> float:
        for _ in range(_FIRST):
            launch()
        wait()
        start = now()
        for _ in range(_LAUNCHES):
            launch()
        end = now()
        wait()
        return (end - start) / _LAUNCHES / 1e3

    def recorded_us(launch: Callable[[], Any], options: dict[str, str] | None) -> float:
        if options is None:
            return burst_us(launch)
        with kernelscope.record(gpu="none", **options):
            return burst_us(launch)

    alone = axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)[(4, 1, 1)]
    print(f"triton {triton.__version__}, µs a launch")
    for name, launch in {
        "kernel[(4,)](...)": lambda: axpy[(4,)](x, x, 1024, 2.0, BLOCK=256),
        "kernel[function](...)": lambda: axpy[lambda meta: (meta["n"] // meta["BLOCK"],)](x, x, 1024, 2.0, BLOCK=256),
        "compiled[4, 1, 1](...)": lambda: alone(x, x, 1024, 2.0, 256),
    }.items():
        for _ in range(5):
            burst_us(launch)
        plain: list[float] = []
        added: dict[str, list[float]] = {kind: [] for kind in _KINDS}
        for place in range(given.rounds):
            for kind, options in _KINDS.items():
                before = burst_us(launch) if place % 2 else None
                recorded = recorded_us(launch, options)
                without = burst_us(launch) if before is None else before
                plain.append(without)
                added[kind].append(recorded - without)
        print(f"{name}: {statistics.median(plain):.2f}")
        for kind, found in added.items():
            medians = sorted(statistics.median(random.choices(found, k=len(found))) for _ in range(1000))
            print(f"  {kind}: {statistics.median(found):+.2f} ({medians[25]:+.2f} to {medians[-26]:+.2f})", flush=True)


if __name__ == "__main__":
    main()

"""What recording adds to a launch of Triton: rounds with and without it, alternating, on the dry run or a GPU.

Run it as ``python benchmarks/record_triton.py [--gpu] [--rounds N]`` where Triton is installed; with ``--gpu`` torch
too.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import kernelscope

_LAUNCHES = 2000


def main() -> None:
    """Measure and print medians of processor time a launch, in microseconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="on the GPU, with torch's memory")
    parser.add_argument("--rounds", type=int, default=25)
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

        x = torch.zeros(4096, device="cuda")
        wait = torch.cuda.synchronize
    else:
        x, wait = kernelscope.dryrun.array(4096), lambda: None

    def launches_us() -> float:
        wait()
        start = time.process_time_ns() if not given.gpu else time.perf_counter_ns()
        for _ in range(_LAUNCHES):
            axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
        end = time.process_time_ns() if not given.gpu else time.perf_counter_ns()
        wait()
        return (end - start) / _LAUNCHES / 1e3

    launches_us()
    plain: list[float] = []
    added: dict[str, list[float]] = {"phases": [], "launch": []}
    for place in range(given.rounds):
        for detail, found in added.items():
            before = launches_us() if place % 2 else None
            with kernelscope.record(detail=detail, gpu="none"):
                axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
                recorded = launches_us()
            without = launches_us() if before is None else before
            plain.append(without)
            found.append(recorded - without)
    print(f"triton {triton.__version__}, a launch: {statistics.median(plain):.2f} µs")
    for detail, found in added.items():
        low, middle, high = statistics.quantiles(found)
        print(f"  added with detail {detail!r}: {middle:.2f} µs (quartiles {low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()

"""Measures what recording adds to a garbage collection, and the callback to a launch: medians of pairs that take turns.

    KERNELSCOPE_DRYRUN=1 python benchmarks/garbage.py
"""

from __future__ import annotations

import gc
import operator
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from kernelscope.native import core
from kernelscope.probes.numba_cuda import NumbaCudaProbe
from kernelscope.recorder.recorder import Recorder

ROUNDS = 200


def main() -> None:
    """Print each figure with its 95 % bootstrap interval."""
    gc.collect()
    gc.freeze()  # a collection of nothing: what is added to it is added to every other
    gc.disable()
    show("a collection", lambda: gc.collect(0), 500)
    show("a collection by CPython for a callback that does nothing", lambda: gc.collect(0), 500, lambda: operator.is_)

    jit: Any = cuda.jit

    @jit
    def kernel(x: Any) -> None:
        x[0] = 1.0

    array = cuda.to_device(np.zeros(1))
    launch = kernel[1, 32]
    launch(array)
    with Recorder(probes=[NumbaCudaProbe()], synchronize=False):
        show("a recorded launch", lambda: launch(array), 200)


def show(what: str, work: Callable[[], object], times: int, make: Callable[[], Any] = core.Collections) -> None:
    """Measure some work with the callback in the list and without, and print the difference."""
    differences: list[float] = []
    plain: list[float] = []
    for each in range(ROUNDS):
        taken = {}
        for recorded in (each % 2 == 0, each % 2 == 1):
            callback = make()
            if recorded:
                gc.callbacks.append(callback)
            start = time.perf_counter_ns()
            for _ in range(times):
                work()
            taken[recorded] = (time.perf_counter_ns() - start) / times
            if recorded:
                gc.callbacks.remove(callback)
        plain.append(taken[False])
        differences.append(taken[True] - taken[False])
    draws = np.random.default_rng(1).choice(differences, (2_000, len(differences)))
    low, high = np.percentile(np.median(draws, axis=1), (2.5, 97.5))
    print(f"added to {what} of {statistics.median(plain):,.0f} ns: {statistics.median(differences):,.0f} ns "
          f"({low:,.0f} to {high:,.0f})")


if __name__ == "__main__":
    main()

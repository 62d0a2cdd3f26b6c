"""What recording adds to a cuda.compute cache hit, to a call on what a factory has built, and to a whole call.

    python benchmarks/cuda_compute.py

Without a GPU set KERNELSCOPE_DRYRUN=1: what runs on the GPU, and the memory for it, are then left out of the calls.
What is compared is interleaved in one process, in a random order each round; in brackets the 95 % bootstrap interval of
the median of the paired differences. *A/A* compares not recording with not recording.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import kernelscope
from kernelscope.probes.cuda_compute import CudaComputeProbe
from kernelscope.probes.sink import Sink

ROUNDS, CALLS = 80, 200


def main() -> int:
    """Measure and print."""
    given = arguments()
    for name, call in calls(given).items():
        for _ in range(300):
            call()
        same, bare = compare(call, recorded=False)
        added, _ = compare(call, recorded=True)
        print(f"{name:34} {bare:7.2f} us   A/A {interval(same)}   added {interval(added)}")
    return 0


class Array:
    """A device array that cuda.compute reads the pointer of at once."""

    def __init__(self, size: int, dtype: Any = np.float32) -> None:
        from cuda.core import Device

        device = Device()
        device.set_current()
        self.dtype, self.shape = np.dtype(dtype), (size,)
        self.nbytes = size * self.dtype.itemsize
        self.buffer = device.allocate(self.nbytes, stream=device.default_stream)
        self.__cuda_array_interface__ = {
            "shape": self.shape, "typestr": self.dtype.str, "data": (int(self.buffer.handle), False), "version": 3,
            "strides": None}


def arguments() -> dict[str, Any]:
    """What every call is made with."""
    from cuda.compute import OpKind

    return {"d_in": Array(64), "d_out": Array(1), "op": OpKind.PLUS, "h_init": np.zeros(1, np.float32)}


def calls(given: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """The calls that are measured."""
    from cuda import compute

    if kernelscope.dryrun.is_enabled():
        home = sys.modules["cuda.compute.algorithms._reduce"]
        home._Reduce._bind_device_reduce_fn = lambda self: setattr(self, "device_reduce_fn", lambda *_: 8)
        buffer = Array(8)
        home.TempStorageBuffer = lambda size, stream: buffer
    built = compute.make_reduce_into(**given)
    memory = Array(4096, np.uint8)
    return {
        "make_reduce_into (hit)": lambda: compute.make_reduce_into(**given),
        "make_reduce_into (hit), ahead": lambda: compute.make_reduce_into(**given, compute_capability=90),
        "reducer(...)": lambda: built(temp_storage=memory, num_items=64, **given),
        "reduce_into(...)": lambda: compute.reduce_into(num_items=64, **given),
    }


@contextmanager
def recording() -> Iterator[None]:
    """Record, and forget it."""
    sink, probe = Sink(), CudaComputeProbe()
    probe.install(sink, sink.detail)
    try:
        yield
    finally:
        probe.uninstall()


def compare(call: Callable[[], Any], recorded: bool) -> tuple[list[float], float]:
    """Microseconds that recording added to a call, one value a round; and the plain call's median."""
    differences: list[float] = []
    plain: list[float] = []
    for _ in range(ROUNDS):
        times: dict[bool, float] = {}
        for second in random.sample([False, True], 2):
            if second and recorded:
                with recording():
                    call()
                    times[second] = timed(call)
            else:
                times[second] = timed(call)
        differences.append(times[True] - times[False])
        plain.append(times[False])
    return differences, statistics.median(plain)


def timed(call: Callable[[], Any]) -> float:
    """Microseconds a call."""
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - start) / CALLS / 1e3


def interval(values: list[float]) -> str:
    """The median with its bootstrap interval."""
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(2000))
    return f"{statistics.median(values):+.2f} ({medians[50]:+.2f} to {medians[1950]:+.2f}) us"


if __name__ == "__main__":
    sys.exit(main())

"""Measures what recording adds to a graph's calls, and what it does at stop; with KERNELSCOPE_DRYRUN=1 without a GPU.

    python benchmarks/graphs.py [--rounds N] [--nodes N]

Launches and instantiations are compared in one process, interleaved, with a recording on and off. On a GPU `gpu` says
what the recording has on: all of it, or with `--no-activities` CUPTI's callbacks without its records of kernels, whose
cost a node is CUPTI's own.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

import numpy as np
from cuda.core import Device
from numba import cuda

import kernelscope
from kernelscope.probes.cuda_core import CudaCoreProbe
from kernelscope.probes.cuda_core.graphs import Memory
from kernelscope.probes.cupti import CuptiProbe, tracing
from kernelscope.probes.sink import Sink


@cuda.jit
def axpy(out, a, x):
    out[0] += a * x[0]


def main() -> int:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--no-activities", action="store_true")
    options = parser.parse_args()
    if options.no_activities:
        tracing._KINDS = ()
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    arrays = [cuda.to_device(np.zeros(32, np.float32)) for _ in range(2)]
    axpy[1, 32](arrays[0], 2.0, arrays[1])
    print(f"medians of {options.rounds} rounds\n\n| | bare | recording | added |\n|---|---|---|---|")
    for nodes in (1, 20):
        graph = captured(device, arrays, nodes).complete()
        report(f"launch of a graph of {nodes} kernels", options.rounds, lambda graph=graph: graph.launch(stream), 200)
        stream.sync()
    for nodes in (20, options.nodes):
        builder = captured(device, arrays, nodes)
        report(f"instantiating {nodes:,} kernels", options.rounds, lambda builder=builder: builder.complete(), 1)
        report(f"and closing it, {nodes:,} kernels", options.rounds, lambda builder=builder: builder.complete().close(),
               1)
    report("capturing 20 kernels", options.rounds, lambda: captured(device, arrays, 20).close(), 1)
    at_stop(device, arrays, options)
    return 0


def captured(device: Any, arrays: list[Any], nodes: int) -> Any:
    """A builder with a chain of kernels."""
    builder = device.create_graph_builder().begin_building()
    kernel = axpy[1, 32, builder.stream]
    for number in range(nodes):
        kernel(arrays[0], float(number), arrays[1])
    return builder.end_building()


def report(name: str, rounds: int, call: Callable[[], Any], repeats: int) -> None:
    """Measure with and without the probes of graphs, in turn."""
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(rounds):
        for on in random.sample([True, False], 2):
            times[on].append(measured(call, repeats, on))
    bare, recording = (statistics.median(times[on]) for on in (False, True))
    added = statistics.median(on - off for on, off in zip(times[True], times[False], strict=True))
    print(f"| {name} | {bare / 1e3:.2f} µs | {recording / 1e3:.2f} µs | {added / 1e3:+.2f} µs |")


def measured(call: Callable[[], Any], repeats: int, on: bool) -> float:
    """Nanoseconds a call."""
    sink, probes = Sink(), list[Any]()
    if on:
        probes = [CudaCoreProbe(memory=Memory())]
        if not kernelscope.dryrun.is_enabled():
            probes.insert(0, CuptiProbe())
    for probe in probes:
        probe.install(sink, "phases")
    call()
    start = time.perf_counter_ns()
    kept = [call() for _ in range(repeats)]
    took = time.perf_counter_ns() - start
    for probe in reversed(probes):
        probe.uninstall()
    del kept
    return took / repeats


def at_stop(device: Any, arrays: list[Any], options: argparse.Namespace) -> None:
    """From the end of recording to the rows of one graph."""
    reading, making = [], []
    builder = captured(device, arrays, options.nodes)
    for _ in range(max(5, options.rounds // 4)):
        sink, probes = Sink(), [CudaCoreProbe(memory=Memory())]
        if not kernelscope.dryrun.is_enabled():
            probes.insert(0, CuptiProbe())
        for probe in probes:
            probe.install(sink, "phases")
        graph = builder.complete()
        start = time.perf_counter_ns()
        probes[-1].uninstall()
        middle = time.perf_counter_ns()
        probes[-1].describe(sink, ())
        end = time.perf_counter_ns()
        for probe in probes[-2::-1]:
            probe.uninstall()
        assert len(sink.graphs.nodes) == options.nodes, len(sink.graphs.nodes)
        reading.append(middle - start)
        making.append(end - middle)
        graph.close()
    print(f"\nat stop, a graph of {options.nodes:,} kernels: read {statistics.median(reading) / 1e6:.2f} ms, "
          f"fingerprint and rows {statistics.median(making) / 1e6:.2f} ms")


if __name__ == "__main__":
    raise SystemExit(main())

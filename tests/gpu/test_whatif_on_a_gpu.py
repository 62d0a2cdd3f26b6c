"""What-if on a real GPU: the times of a hand-made test, equal results, and nothing left behind."""

from __future__ import annotations

import time

import numpy as np
import pytest

import kernelscope
from kernelscope.graphs import comparison, whatif

pytestmark = pytest.mark.gpu
cuda = pytest.importorskip("numba.cuda")
LAUNCHES = 20


@pytest.fixture(scope="module")
def empty():
    @cuda.jit
    def empty(a):
        pass

    return empty


@pytest.fixture(scope="module")
def axpy():
    @cuda.jit
    def axpy(out, a, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] += a * x[i]

    return axpy


def by_hand(kernel, array, samples=60):
    """Twenty launches and one graph of them, timed in turn: medians of the host's time in µs."""
    from cuda.core import Device, Stream

    builder = Device().create_graph_builder()
    builder.begin_building()
    for _ in range(LAUNCHES):
        kernel[1, 32, builder.stream](array)
    builder.end_building()
    graph = builder.complete()
    stream = Stream.from_handle(0)
    eager, replay = [], []
    for _ in range(samples):
        cuda.synchronize()
        started = time.perf_counter_ns()
        for _ in range(LAUNCHES):
            kernel[1, 32](array)
        eager.append(time.perf_counter_ns() - started)
        cuda.synchronize()
        started = time.perf_counter_ns()
        graph.launch(stream)
        replay.append(time.perf_counter_ns() - started)
    cuda.synchronize()
    graph.close()
    builder.close()
    return np.median(eager[5:]) / 1e3, np.median(replay[5:]) / 1e3


def test_twenty_empty_launches_as_a_hand_made_test_times_them(empty):
    array = cuda.to_device(np.zeros(1000))

    def launches():
        for _ in range(LAUNCHES):
            empty[1, 32](array)

    launches()
    ratios = []
    for _ in range(9):  # in turn, each pair compared with itself: the host's speed changes from one to the next
        eager, replay = by_hand(empty, array)
        result = whatif(launches)
        again = by_hand(empty, array)
        ratios.append((result.host.eager.median_ns / 1e3 / np.mean([eager, again[0]]),
                       result.host.graph.median_ns / 1e3 / np.mean([replay, again[1]])))
    print(f"what-if over by hand, eager and as a graph: {ratios}\n{result}")
    eager, replay = np.median(ratios, axis=0)
    assert eager == pytest.approx(1, rel=0.10)
    assert replay == pytest.approx(1, rel=0.25)
    assert result.equal and not result.is_dry_run
    assert result.gpu is not None
    assert 0 < result.gpu.graph.median_ns < result.gpu.eager.median_ns
    assert not result.host.saved.covers_zero


def test_the_same_twice_is_no_difference(empty):
    """The graph replaced by the launches themselves."""
    array = cuda.to_device(np.zeros(1000))
    original = comparison.Captured

    class Same(original):
        def __init__(self, steps):
            super().__init__(steps)
            graph, calls = self.graph, [(step.function, step.args) for step in steps]

            class Graph:
                close = staticmethod(graph.close)

                def launch(self, stream):
                    for function, args in calls:
                        function(*args)

            self.graph = Graph()


    comparison.Captured = Same
    try:
        result = whatif(lambda: [empty[1, 32](array) for _ in range(LAUNCHES)], samples=200)
    finally:
        comparison.Captured = original
    print(result)
    assert abs(result.host.saved.median_ns) < 0.03 * result.host.eager.median_ns


def test_a_round_of_a_loop(axpy):
    source = ("for turn in range(30):\n    axpy[4, 256](y, 2.0, x)\n    axpy[8, 128](x, 0.5, y)\n"
              "    y[:10].copy_to_device(x[:10])\n    y.copy_to_host()\n")
    names = {"axpy": axpy, "x": cuda.to_device(np.ones(1000, np.float32)),
             "y": cuda.to_device(np.zeros(1000, np.float32))}
    recorder = kernelscope.record()
    with recorder:
        recorder.begin_cell(execution_count=3, source=source)
        exec(source, names)
    names["x"].copy_to_device(np.ones(1000, np.float32))
    names["y"].copy_to_device(np.zeros(1000, np.float32))
    result = kernelscope.graphs.from_recording(recorder.recording, 3, names)
    print(result)
    assert (result.rounds, result.launches, result.copies, result.nodes, result.equal) == (30, 2, 1, 3, True)
    assert result.host is not None and not result.host.saved.covers_zero
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    for _ in range(30):
        y += np.float32(2) * x
        x += np.float32(0.5) * y
        y[:10] = x[:10]
    np.testing.assert_allclose(names["x"].copy_to_host(), x, rtol=1e-5)
    np.testing.assert_allclose(names["y"].copy_to_host(), y, rtol=1e-5)

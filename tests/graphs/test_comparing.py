"""What-if on the null driver: what is run, captured, compared and put back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from together import run_together

import kernelscope
from kernelscope.errors import GraphError
from kernelscope.graphs import comparison, whatif
from kernelscope.graphs.watching import Step

pytestmark = pytest.mark.usefixtures("nothing_is_left", "measured")

SAMPLES = 5


def test_twenty_launches(cuda, step, array, counted) -> None:
    ran: list[int] = []

    def function() -> None:
        ran.append(1)
        for _ in range(20):
            step[1, 32](array)

    result = whatif(function, samples=SAMPLES)
    assert ran == [1]
    assert (result.launches, result.copies, result.kernels, result.streams) == (20, 0, ("step",), 1)
    assert (result.samples, result.arrays, result.compared_bytes, result.equal) == (5, 1, 32, True)
    assert result.label == "function"
    assert (result.is_dry_run, result.rounds, result.nodes, result.left_out, result.notes) == (False, None, 20, (), ())
    assert result.gpu is not None
    assert result.capture_ns > 0 and result.instantiate_ns > 0
    assert 0 < result.host.graph.median_ns < result.host.eager.median_ns
    # Once for real, 2 + 5 times for each of the eager times, the host's and the GPU's; captured once; replayed for the
    # results and as often.
    assert counted() == (20 * 15, 20, 15, 20 * 15)
    assert str(result).endswith("was called once.")


def test_what_a_function_does_around_its_launches(cuda, step) -> None:
    def function() -> None:
        array = cuda.to_device(np.zeros(4))
        for _ in range(3):
            step[1, 1](array)
        cuda.synchronize()
        array.copy_to_host()

    result = whatif(function, samples=SAMPLES)
    assert [each.partition(" at ")[0] for each in result.left_out] == ["to_device", "synchronize", "copy_to_host"]
    line = function.__code__.co_firstlineno + 1
    assert result.left_out[0] == f"to_device at line {line} of test_comparing.py"
    assert (result.arrays, result.compared_bytes) == (1, 32)


def test_arrays_are_as_after_one_run(cuda, step) -> None:
    """A copy that happens in a dry run too moves what was there: run twice, it would have moved it twice."""
    a = cuda.to_device(np.arange(6, dtype=np.float64))

    def function() -> None:
        step[1, 1](a)
        a[0:1].copy_to_device(a[1:2])
        a[1:2].copy_to_device(a[2:3])
        a[2:3].copy_to_device(a[3:4])
        step[1, 1](a[:4])

    result = whatif(function, samples=SAMPLES)
    assert (result.launches, result.copies, result.equal) == (2, 3, True)
    assert result.compared_bytes >= 48
    assert a.copy_to_host().tolist() == [1.0, 2.0, 3.0, 3.0, 4.0, 5.0]


def test_results_that_differ_are_named(cuda, step, array, monkeypatch) -> None:
    def lost(self: Step, stream: Any) -> Any:
        return (lambda *_: None), ()

    other = cuda.to_device(np.ones(4))

    def function() -> None:
        step[1, 1](array)
        array.copy_to_device(other)
        step[1, 1](other)

    original = Step.onto
    monkeypatch.setattr(Step, "onto", lambda self, stream: (
        lost if self.dispatcher is None else original)(self, stream))
    result = whatif(function, samples=SAMPLES)
    (differs,) = result.unequal
    assert (differs.name, differs.differing, differs.elements, differs.largest) == ("a of step", 3, 4, 2.0)
    assert result.eager_repeats
    assert "the graph need not be the reason" not in str(result)
    assert array.copy_to_host().tolist() == [1.0] * 4


def test_eager_launches_that_do_not_repeat(cuda, step, array, monkeypatch) -> None:
    values = iter(range(1000))

    def changing(steps: Any) -> None:
        array.copy_to_device(np.full(4, float(next(values))))

    monkeypatch.setattr("kernelscope.graphs.comparison.run", changing)
    original = comparison.differences
    calls: list[int] = []

    def differs(after: Any, arrays: Any) -> Any:
        if not calls:
            array.copy_to_device(np.full(4, 99.0))  # as if the graph had
        calls.append(1)
        return original(after, arrays)

    monkeypatch.setattr("kernelscope.graphs.comparison.differences", differs)
    result = whatif(lambda: step[1, 1](array), samples=SAMPLES)
    assert (result.equal, result.eager_repeats) == (False, False)
    assert "the graph need not be the reason" in str(result)
    assert array.copy_to_host().tolist() == [0.0, 1.0, 2.0, 3.0]


def test_streams_of_ones_own(cuda, step, array, counted) -> None:
    def function() -> None:
        first, second = cuda.stream(), cuda.stream()
        event = cuda.event()
        for stream in (first, second, first):
            step[1, 1, stream](array)
        event.record(first)
        event.wait(second)
        step[1, 1, second](array)

    result = whatif(function, samples=SAMPLES)
    assert (result.streams, result.launches) == (2, 4)
    assert "went to 2 streams" in str(result)


def test_other_ways_to_launch(cuda, step, array) -> None:
    def function() -> None:
        step.forall(4)(array)
        held(array)
        array[:] = array  # numba launches a kernel of its own

    held = step[1, 1]
    result = whatif(function, samples=SAMPLES)
    assert result.launches == 3
    assert result.kernels[0] == "step"


def test_callbacks_are_called_and_may_not_launch(cuda, step, array) -> None:
    called: list[int] = []
    held = step[1, 7]
    held.pre_launch_callbacks.append(lambda kernel, config: called.append(1))
    try:
        assert whatif(lambda: held(array), samples=SAMPLES).launches == 1
        assert len(called) == 16  # the run, the capture, and 7 for each of the times
        held.pre_launch_callbacks.append(lambda kernel, config: step[1, 1](array))
        with pytest.raises(GraphError, match="step at line .* is launched by a callback of another launch"):
            whatif(lambda: held(array), samples=SAMPLES)
    finally:
        held.pre_launch_callbacks.clear()


def test_launches_of_other_threads_are_left_out(cuda, step, array) -> None:
    def function() -> None:
        step[1, 1](array)
        run_together(lambda: step[1, 1](array))

    result = whatif(function, samples=SAMPLES)
    assert (result.launches, result.notes) == (1, ("1 launch of other threads is left out.",))


def test_inside_a_recording(cuda, step, array) -> None:
    with kernelscope.record(gpu="none") as recorder:
        result = whatif(lambda: step[1, 1](array), samples=SAMPLES)
        step[1, 1](array)
    assert result.notes == ("A recording was under way: the times contain what it costs.",)
    assert len(recorder.recording.launches) == 1 + 14 + 1 + 1  # the run, the samples, the capture, and the last
    assert recorder.recording.health.errors.isna().all()


def test_long_work_is_timed_less_often(cuda, step, array, monkeypatch) -> None:
    monkeypatch.setattr("kernelscope.graphs.comparison.LIMIT_S", 0.0)
    assert whatif(lambda: step[1, 1](array), samples=50).samples == 5


def test_no_device_array_to_compare(cuda) -> None:
    @cuda.jit
    def nothing(number):
        pass

    result = whatif(lambda: nothing[1, 1](3), samples=SAMPLES)
    assert (result.equal, result.arrays) == (None, 0)
    assert "Results were not compared" in str(result)

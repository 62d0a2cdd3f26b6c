"""What cannot be a graph is refused, with why and where; the user's own errors and interruptions pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelscope.errors import GraphError
from kernelscope.graphs import comparison, whatif
from kernelscope.graphs.watching import Step

pytestmark = pytest.mark.usefixtures("nothing_is_left", "measured")

SAMPLES = 5


def between(*calls: Any) -> Any:
    """Calls between two launches."""
    def function(step: Any, array: Any, cuda: Any) -> None:
        step[1, 1](array)
        for call in calls:
            call(array, cuda)
        step[1, 1](array)

    return function


@pytest.mark.parametrize(("function", "message"), [
    (between(lambda a, cuda: cuda.to_device(np.zeros(2))),
     "to_device at line .* of test_comparing_refusals.py allocates memory and copies between host and device"),
    (between(lambda a, cuda: cuda.device_array(2)), "device_array at line .* allocates memory"),
    (between(lambda a, cuda: cuda.pinned_array(2)), "pinned_array at line .* allocates memory"),
    (between(lambda a, cuda: cuda.managed_array(2)), "managed_array at line .* allocates memory"),
    (between(lambda a, cuda: a.copy_to_host()), "copy_to_host at line .* copies between host and device"),
    (between(lambda a, cuda: a[0]), "__getitem__ at line .* copies between host and device"),
    (between(lambda a, cuda: cuda.synchronize()), "synchronize at line .* waits for the device"),
    (between(lambda a, cuda: cuda.default_stream().synchronize()), "synchronize at line .* waits for the device"),
    (between(lambda a, cuda: a[0],
             lambda a, cuda: a[1],
             lambda a, cuda: a[2],
             lambda a, cuda: a[3],
             lambda a, cuda: cuda.synchronize()),
     "; and 2 more; that must come before the first launch or after the last"),
])
def test_what_a_graph_cannot_hold(function, message, cuda, step, array) -> None:
    with pytest.raises(GraphError, match=f"it cannot be a graph as it is: .*{message}"):
        whatif(lambda: function(step, array, cuda), samples=SAMPLES, name="it")


@pytest.mark.filterwarnings("ignore:Host array")
def test_host_arrays(cuda, step) -> None:
    with pytest.raises(GraphError, match=r"step at line \d+ of test_.*.py gets a host array \(a of step\), "
                                         "which numba copies to the device and back$"):
        whatif(lambda: step[1, 1](np.zeros(3)))
    with pytest.raises(GraphError, match="gets a host array"):
        whatif(lambda: step[1, 1](cuda.InOut(np.zeros(3))))


def test_debug_kernels_and_captures(cuda, step, array) -> None:
    from cuda.core import Device

    @cuda.jit(debug=True, opt=False)
    def debugged(a):
        a[0] = 1

    def capturing() -> None:
        builder = Device().create_graph_builder()
        builder.begin_building()
        step[1, 1, builder.stream](array)
        builder.end_building()
        builder.close()

    with pytest.raises(GraphError, match="debugged at line .* was compiled with debug=True"):
        whatif(lambda: debugged[1, 1](array))
    with pytest.raises(GraphError, match="step at line .* goes into a graph that the code captures itself"):
        whatif(capturing)


def test_nothing_to_compare(cuda, step, array) -> None:
    with pytest.raises(GraphError, match="it launched no kernel of numba-cuda in this thread"):
        whatif(lambda: None, name="it")
    with pytest.raises(GraphError, match="samples is 4, and must be 5 or more"):
        whatif(lambda: step[1, 1](array), samples=4)


@pytest.mark.parametrize(("owner", "name"), [
    ("Context", "memalloc"), ("Event", "synchronize"), (None, "device_to_host"),
])
def test_a_version_of_numba_without_a_name(owner, name, cuda, step, array) -> None:
    from numba.cuda.cudadrv import driver

    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(driver if owner is None else getattr(driver, owner), name)
        with pytest.raises(GraphError, match=f"numba-cuda .* has no {name}, which graphs need"):
            whatif(lambda: None)


def test_a_step_that_cannot_be_captured(cuda, step, array, monkeypatch) -> None:
    def refused(self: Step, stream: Any) -> Any:
        def fail(*_: Any) -> None:
            raise RuntimeError("operation not\npermitted")

        return fail, ()

    monkeypatch.setattr(Step, "onto", refused)
    with pytest.raises(GraphError, match=r"step at line \d+ of test_.*.py cannot be captured: operation not p"):
        whatif(lambda: step[1, 1](array))


def test_no_room_for_the_copies(cuda, step, array, monkeypatch) -> None:
    """The user's code cannot catch it, and runs to its end."""
    ran: list[str] = []

    def full(self: Any, start: int, nbytes: int) -> None:
        raise GraphError("no room")

    def function() -> None:
        try:
            step[1, 1](array)
        except Exception:
            ran.append("caught")
        ran.append("end")

    monkeypatch.setattr("kernelscope.graphs.comparison.Snapshot.cover", full)
    with pytest.raises(GraphError, match="no room"):
        whatif(function)
    assert ran == ["end"]


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_the_user_s_exceptions_pass(error, cuda, step, array) -> None:
    def function() -> None:
        step[1, 1](array)
        raise error

    with pytest.raises(type(error)) as raised:
        whatif(function)
    assert raised.value is error


def test_our_frames_are_not_in_the_user_s_tracebacks(cuda, step, array) -> None:
    def callback(kernel: Any, config: Any) -> None:
        raise ValueError("mine")

    held = step[1, 3]
    held.pre_launch_callbacks.append(callback)
    try:
        with pytest.raises(ValueError, match="mine") as raised:
            whatif(lambda: held(array))
    finally:
        held.pre_launch_callbacks.clear()
    assert "watching.py" not in [str(entry.path).rpartition("/")[2] for entry in raised.traceback]


@pytest.mark.parametrize("place", ["onto", "launch", "on_host", "differences"])
def test_interruptions(place, cuda, step, array, monkeypatch, capturing) -> None:
    """Whenever it comes: no capture is open, no hook is left, and the arrays are as after one run."""
    calls: list[int] = []

    def interrupted(*_: Any) -> Any:
        calls.append(1)
        if len(calls) == 3 or place == "differences":
            array.copy_to_device(np.full(4, 50.0))  # in the middle of something
            raise KeyboardInterrupt
        return originals[place](*_)


    originals = {"onto": Step.onto, "on_host": comparison._Stopwatch.on_host,
                 "differences": comparison.differences}
    if place == "onto":
        monkeypatch.setattr(Step, "onto", interrupted)
    elif place == "on_host":
        monkeypatch.setattr(comparison._Stopwatch, "on_host", interrupted)
    elif place == "differences":
        monkeypatch.setattr(comparison, "differences", interrupted)
    else:
        class Interrupted(comparison.Captured):
            def __init__(self, steps: Any) -> None:
                super().__init__(steps)
                graph = self.graph

                class Graph:
                    close = staticmethod(graph.close)

                    def launch(self, stream: Any) -> None:
                        raise KeyboardInterrupt

                self.graph = Graph()

        monkeypatch.setattr(comparison, "Captured", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        whatif(lambda: [step[1, 1](array) for _ in range(4)], samples=SAMPLES)
    assert capturing() == 0
    expected = [50.0] * 4 if place == "onto" else [0.0, 1.0, 2.0, 3.0]
    assert array.copy_to_host().tolist() == expected  # a capture runs nothing, and so nothing is put back after it

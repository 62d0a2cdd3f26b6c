"""What-if in a dry run: what is run, captured, compared and put back, what is refused, what interruptions leave."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kernelscope
from kernelscope.errors import GraphError, UnknownCellError
from kernelscope.graphs import from_recording, trial, whatif
from kernelscope.graphs.watching import Step

SAMPLES = 5


@pytest.fixture(autouse=True)
def nothing_is_left(cuda, capturing) -> Iterator[None]:
    """No hook of ours and no capture outlives a what-if."""
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import driver

    owners = (dispatcher.CUDADispatcher, driver.Context, driver.Stream, driver.Event, driver)
    before = [dict(vars(owner)) for owner in owners]
    yield
    for owner, was in zip(owners, before, strict=True):
        changed = {name for name, value in was.items() if callable(value) and vars(owner).get(name) is not value}
        assert not changed, f"{owner}: {changed}"
    assert capturing() == 0


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
    assert (result.is_dry_run, result.gpu, result.left_out, result.notes) == (True, None, (), ())
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


def test_copies_and_fills_on_the_device_are_captured(cuda, step, counted) -> None:
    one, two = cuda.to_device(np.arange(4.0)), cuda.to_device(np.zeros(4))

    def function() -> None:
        step[1, 1](one)
        two.copy_to_device(one)
        one.copy_to_device(two)
        step[1, 1](two)

    result = whatif(function, samples=SAMPLES)
    assert (result.launches, result.copies, result.arrays, result.equal) == (2, 2, 2, True)
    assert two.copy_to_host().tolist() == [0.0, 1.0, 2.0, 3.0]


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
    assert result.equal
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

    monkeypatch.setattr("kernelscope.graphs.comparing.run", changing)
    original = trial.differences
    calls: list[int] = []

    def differs(after: Any, arrays: Any) -> Any:
        if not calls:
            array.copy_to_device(np.full(4, 99.0))  # as if the graph had
        calls.append(1)
        return original(after, arrays)

    monkeypatch.setattr("kernelscope.graphs.comparing.differences", differs)
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
        thread = threading.Thread(target=lambda: step[1, 1](array))
        thread.start()
        thread.join()

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
    monkeypatch.setattr("kernelscope.graphs.comparing.LIMIT_S", 0.0)
    assert whatif(lambda: step[1, 1](array), samples=50).samples == 5


# ---- refusals ----

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
     "to_device at line .* of test_comparing.py allocates memory and copies between host and device"),
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
    with pytest.raises(GraphError, match=r"step at line \d+ of test_comparing.py gets a host array \(a of step\), "
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
    with pytest.raises(GraphError, match=r"step at line \d+ of test_comparing.py cannot be captured: operation not p"):
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

    monkeypatch.setattr("kernelscope.graphs.snapshots.Snapshot.cover", full)
    with pytest.raises(GraphError, match="no room"):
        whatif(function)
    assert ran == ["end"]


# ---- errors and interruptions ----

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

    from kernelscope.graphs import comparing

    originals = {"onto": Step.onto, "on_host": trial._Stopwatch.on_host, "differences": comparing.differences}
    if place == "onto":
        monkeypatch.setattr(Step, "onto", interrupted)
    elif place == "on_host":
        monkeypatch.setattr(trial._Stopwatch, "on_host", interrupted)
    elif place == "differences":
        monkeypatch.setattr(comparing, "differences", interrupted)
    else:
        class Interrupted(trial.Captured):
            def __init__(self, steps: Any) -> None:
                super().__init__(steps)
                graph = self.graph

                class Graph:
                    close = staticmethod(graph.close)

                    def launch(self, stream: Any) -> None:
                        raise KeyboardInterrupt

                self.graph = Graph()

        monkeypatch.setattr(comparing, "Captured", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        whatif(lambda: [step[1, 1](array) for _ in range(4)], samples=SAMPLES)
    assert capturing() == 0
    expected = [50.0] * 4 if place == "onto" else [0.0, 1.0, 2.0, 3.0]
    assert array.copy_to_host().tolist() == expected  # a capture runs nothing, and so nothing is put back after it


# ---- cells ----

def recorded(source: str, names: dict[str, Any], **cell: Any) -> Any:
    recorder = kernelscope.record(gpu="none")
    with recorder:
        recorder.begin_cell(cell.pop("name", None), execution_count=cell.pop("number", 5), source=source)
        exec(source.replace("%%kernelscope -q\n", "\n"), names)
    return recorder.recording


def test_a_cell_is_run_again_in_a_namespace(cuda, step, capsys) -> None:
    source = ("%%kernelscope -q\nruns += 1\nout = cuda.device_array(4)\nstep[1, 1](out)\nstep[1, 1](out)\n"
              "out.copy_to_host()\n")
    names = {"step": step, "cuda": cuda, "runs": 0}
    recording = recorded(source, names)
    told: list[str] = []
    result = from_recording(recording, namespace=names, samples=SAMPLES, tell=told.append)
    assert names["runs"] == 2
    assert told == ["kernelscope: cell 5 is run again, in the namespace given: what it does to variables, files and "
                    "arrays happens again"]
    assert result.run_again == "Cell 5 was run again once, in the namespace given; its arrays are as after that run."
    assert (result.label, result.launches) == ("cell 5", 2)
    assert result.left_out == ("device_array at line 3", "copy_to_host at line 6")
    assert from_recording(recording, 5, names, samples=SAMPLES).label == "cell 5"
    assert "is run again" in capsys.readouterr().out


def test_a_cell_that_defines_its_kernel(cuda, array) -> None:
    source = ("from numba import cuda\n@cuda.jit\ndef inner(a):\n    a[0] = 1\n"
              "for _ in range(3):\n    inner[1, 1](mine)\n")
    recording = recorded(source, names := {"mine": array}, name="warm up", number=None)
    result = from_recording(recording, "warm up", names, samples=SAMPLES)
    assert (result.label, result.kernels) == ("the cell 'warm up'", ("inner",))
    assert result.run_again.startswith("The cell 'warm up' was run again once")


def test_the_array_s_variable_is_named(cuda, step, array, monkeypatch) -> None:
    found: list[Any] = []
    monkeypatch.setattr("kernelscope.graphs.comparing.differences",
                        lambda _, arrays: found.extend(arrays.values()) or [])
    names = {"step": step, "_hidden": array, "mine": array}
    from_recording(recorded("step[1, 1](mine)", names), namespace=names, samples=SAMPLES)
    assert found == ["mine (a of step)"]


def test_which_cell(cuda, step, array) -> None:
    from kernelscope.recording.merge import merge

    names = {"step": step, "a": array}
    parts = [recorded("step[1, 1](a)", names, number=1), recorded("step[1, 1](a); step[1, 1](a)", names, number=2)]
    whole = merge(parts, name="")
    assert from_recording(whole, namespace=names, samples=SAMPLES).launches == 2
    assert from_recording(whole, 1, names, samples=SAMPLES).launches == 1
    with pytest.raises(UnknownCellError, match="no recorded cell 7; known: .*cell 1.*, cell 2"):
        from_recording(whole, 7, names)


@pytest.mark.parametrize(("source", "message"), [
    (None, "cell 5 cannot be run again: the recording does not have its source"),
    ("%%time\nstep[1, 1](a)", "it begins with the cell magic '%%time'"),
    ("step[1, 1](a)\nthis is", "line 2 is no Python"),
    ("step[1, 1](a)\nawait f()", "it awaits at its top level"),
])
def test_sources_that_cannot_run(source, message, cuda, step, array) -> None:
    recorder = kernelscope.record(gpu="none")
    with recorder:
        recorder.begin_cell(execution_count=5, source=source)
        step[1, 1](array)
    with pytest.raises(GraphError, match=message):
        from_recording(recorder.recording, namespace={"step": step, "a": array})


def test_cells_of_others() -> None:
    from handmade import Script

    from kernelscope.graphs.cells import prepared

    def script(framework: str = "numba-cuda", *, foreign: bool = False, launched: bool = True,
               replayed: bool = False) -> Any:
        made = Script()
        made.cell(execution_count=3, source="x")
        if launched:
            made.kernel(framework=framework)
            made.specialization()
            made.configuration()
            made.activity(launch_id=made.launch())
            made.activity(specialization_id=0)  # not joined, as where no phases were recorded
        if foreign:
            made.activity(name="gemm")
        if replayed:
            made.activity(specialization_id=0, cupti_graph_id=3)
        return made.recording()

    assert prepared(script(), None).label == "cell 3"
    with pytest.raises(GraphError, match="it launched kernels of cuda.core, and only launches of numba-cuda"):
        prepared(script("cuda.core"), 3)
    with pytest.raises(GraphError, match="1 of its kernels were launched by other libraries or by a graph"):
        prepared(script(foreign=True), 3)
    with pytest.raises(GraphError, match="launched by other libraries or by a graph .the first is 'axpy'"):
        prepared(script(replayed=True), 3)
    with pytest.raises(GraphError, match="cell 3 cannot be a graph: it launched nothing"):
        prepared(script(launched=False), 3)


def test_cells_with_graphs_of_their_own_are_not_run() -> None:
    from handmade import Script

    from kernelscope.graphs.cells import prepared

    def script(kind: str, **row: Any) -> Any:
        made = Script()
        made.cell(execution_count=3, source="x")
        made.kernel()
        made.specialization()
        made.configuration()
        made.graph()
        made.graph_event(kind)
        made.launch(**row)
        return made.recording()

    assert prepared(script("upload"), 3)
    with pytest.raises(GraphError, match=r"cell 3 cannot be compared: it launched graphs \(1 launch\), and only"):
        prepared(script("launch"), 3)
    with pytest.raises(GraphError, match="1 launch of it went into a graph that its code captures itself"):
        prepared(script("capture", capture_event_id=0), 3)

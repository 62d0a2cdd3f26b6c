"""What goes wrong in user code passes untouched and is recorded; what goes wrong in ours never reaches it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import traceback

import cuda.core as cuda_core
import numpy as np
import pytest
from launched_kernels import make_kernels
from numba import cuda
from numba.cuda import dispatcher as numba_dispatcher
from numba.cuda.core import config
from numba.cuda.core.errors import TypingError

import kernelscope
from kernelscope.errors import ProbeUnavailableError, RecorderStateError
from kernelscope.recorder.recorder import Recorder


class Failing:
    """A numba-cuda extension that raises while arguments are prepared."""

    def prepare_args(self, ty, val, **kwargs):
        raise LookupError("no such argument")


class FailingWriteBack:
    """An extension whose clean-up after the launch raises."""

    def prepare_args(self, ty, val, stream, retr):
        def write_back():
            raise OSError("cannot write back")

        retr.append(write_back)
        return ty, val


def launches_of(error, launch):
    """Record one failing launch and return its row."""
    with kernelscope.record() as r, pytest.raises(error):
        launch()
    assert len(r.recording.launches) == 1
    row = r.recording.launches.iloc[0]
    assert row.error == error.__name__
    assert row.end_ns > row.start_ns
    return row


def test_failure_in_dispatch(kernels):
    row = launches_of(ValueError, lambda: kernels.axpy[1, 32](object(), 1.0, object()))
    assert row[["dispatch_end_ns", "submit_start_ns", "submit_end_ns", "specialization_id"]].isna().all()


def test_failure_in_compile(array):
    @cuda.jit
    def untypable(x):
        x.no_such_method()

    row = launches_of(TypingError, lambda: untypable[1, 32](array))
    assert row[["dispatch_end_ns", "specialization_id"]].isna().all()
    assert row.compile_ns > 0


def test_failure_in_prepare(array):
    @cuda.jit(extensions=[Failing()])
    def kernel(x):
        x[0] = 1

    row = launches_of(LookupError, lambda: kernel[1, 32](array))
    assert row.dispatch_end_ns > row.start_ns
    assert row[["submit_start_ns", "submit_end_ns"]].isna().all()
    assert row.specialization_id == 0


def test_failure_in_submit(kernels):
    with kernelscope.record() as r, pytest.raises(Exception, match="INVALID_VALUE"):
        kernels.noop[1, 2048]()
    row = r.recording.launches.iloc[0]
    assert row.error == "CUDAError"
    assert row.submit_start_ns > row.dispatch_end_ns
    assert row.end_ns > row.submit_start_ns


def test_failure_in_finish(array):
    @cuda.jit(extensions=[FailingWriteBack()])
    def kernel(x):
        x[0] = 1

    row = launches_of(OSError, lambda: kernel[1, 32](array))
    assert row.submit_end_ns > row.submit_start_ns
    assert row.end_ns > row.submit_end_ns


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_a_failure_after_a_success_is_not_given_its_kernel(kernels, array, detail):
    with kernelscope.record(detail=detail) as r:
        kernels.axpy[1, 32](array, 1.0, array)
        with pytest.raises(ValueError, match="."):
            kernels.axpy[1, 32](object(), 1.0, object())
        kernels.axpy[1, 32](array, 1.0, array)
    assert r.recording.launches.specialization_id.isna().tolist() == [False, True, False]
    assert r.recording.launches.error.isna().tolist() == [True, False, True]


def untypable(kernels, array):
    @cuda.jit
    def kernel(x):
        x.no_such_method()

    return lambda: kernel[1, 32](array)


def untypable_device_function(kernels, array):
    @cuda.jit(device=True)
    def inner(x):
        return x.no_such_method()

    @cuda.jit
    def kernel(x):
        x[0] = inner(x)

    return lambda: kernel[1, 32](array)


def eager_and_untypable(kernels, array):
    def define():
        @cuda.jit("void(float32[:])")
        def kernel(x):
            x.no_such_method()

    return define


def unlinkable(kernels, array):
    nowhere = cuda.declare_device("nowhere", "float32(float32)")

    @cuda.jit
    def kernel(x):
        x[0] = nowhere(x[0])

    return lambda: kernel[1, 32](array)


def not_cacheable(kernels, array):
    @cuda.jit(cache=True)
    def kernel(x):
        x[0] = array[0]

    return lambda: kernel[1, 32](cuda.device_array(8, np.float32))


def wrong_argument(kernels, array):
    return lambda: kernels.axpy[1, 32](object(), 1.0, object())


def too_few_arguments(kernels, array):
    return lambda: kernels.axpy[1, 32](array)


def refused_by_the_driver(kernels, array):
    return lambda: kernels.noop[1, 2048]()


def failing_extension(kernels, array):
    @cuda.jit(extensions=[Failing()])
    def kernel(x):
        x[0] = 1

    return lambda: kernel[1, 32](array)


def failing_write_back(kernels, array):
    @cuda.jit(extensions=[FailingWriteBack()])
    def kernel(x):
        x[0] = 1

    return lambda: kernel[1, 32](array)


def with_callback(configured, callback, *arguments):
    configured.pre_launch_callbacks.append(callback)
    return lambda: configured(*arguments)


def failing_callback_with_a_cause(kernels, array):
    """What failed first is another launch, and what it failed for is in the chain."""
    def callback(kernel, config):
        try:
            kernels.noop[1, 2048]()
        except Exception as error:
            raise LookupError("users") from error

    return with_callback(kernels.axpy[2, 32], callback, array, 2.0, array)


def failing_compile_in_a_callback(kernels, array):
    fails = untypable(kernels, array)

    def callback(kernel, config):
        try:
            fails()
        finally:
            kernels.axpy[1, 32](object(), 1.0, object())

    return with_callback(kernels.axpy[2, 32], callback, array, 2.0, array)


def failing_callback_of_a_sensitive_kernel(kernels, array):
    def callback(kernel, config):
        raise LookupError("users")

    return with_callback(kernels.sensitive[2, 32], callback, array)


def nested_sensitive_kernels(kernels, array):
    inner = failing_callback_of_a_sensitive_kernel(make_kernels(), array)
    return with_callback(kernels.sensitive[2, 64], lambda *_: inner(), array)


def failing_in_a_decorated_function(kernels, array):
    @kernelscope.annotate("range")
    def function():
        with kernelscope.annotate("inside"):
            kernels.noop[1, 2048]()

    return function


def failing_core_launch(kernels, array):
    def launch():
        cuda_core.launch(cuda_core.Device().default_stream, cuda_core.LaunchConfig(grid=1, block=32), "no kernel")

    return launch


def failing_import(kernels, array):
    return lambda: exec("import numba.cuda.no_such_module")


def frames(error):
    """Of an exception and of each that led to it: what it is, and where it was raised."""
    found, waiting, seen = [], [("", error)], set()
    while waiting:
        how, each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        places = [(entry.filename, entry.lineno, entry.name) for entry in traceback.extract_tb(each.__traceback__)]
        found.append((how, type(each), each.__suppress_context__, places))
        waiting += [(how + " cause", each.__cause__), (how + " context", each.__context__)]
    return found


def caught_frames(story):
    try:
        story()
    except BaseException as error:
        return frames(error)
    raise AssertionError("it does not fail")


@pytest.mark.parametrize("make", [
    untypable, untypable_device_function, eager_and_untypable, unlinkable, not_cacheable, wrong_argument,
    too_few_arguments, refused_by_the_driver, failing_extension, failing_write_back, failing_callback_with_a_cause,
    failing_compile_in_a_callback, nested_sensitive_kernels, failing_in_a_decorated_function, failing_core_launch,
    failing_import])
def test_what_the_cell_catches_has_the_traceback_that_it_has_without_us(array, make, monkeypatch, tmp_path):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    caught_frames(make(make_kernels(), array))  # what is imported, or noted, once is
    stories = [make(make_kernels(), array) for _ in range(4)]
    expected = caught_frames(stories.pop())
    with kernelscope.record(detail="launch") as r:
        found = [caught_frames(stories.pop())]
    with kernelscope.record() as again:
        found.append(caught_frames(stories.pop()))
        with kernelscope.record():
            found.append(caught_frames(stories.pop()))
    assert found == [expected] * 3
    assert r.recording.health.errors.isna().all() and again.recording.health.errors.isna().all()


def test_a_decorated_function_has_the_traceback_that_it_has_without_us():
    def function():
        raise LookupError("users")

    async def suspended():
        function()

    async def caught(call):
        try:
            await call()
        except LookupError as error:
            return frames(error)

    assert caught_frames(kernelscope.recorded(function)) == caught_frames(function)
    assert asyncio.run(caught(kernelscope.recorded(suspended))) == asyncio.run(caught(suspended))


def test_the_cell_says_how_it_ended():
    with pytest.raises(ZeroDivisionError), kernelscope.record("failing") as r:
        _ = 1 / 0
    cell = r.recording.cells.iloc[0]
    assert (cell.status, cell.error) == ("error", "ZeroDivisionError: division by zero")


@pytest.mark.parametrize("detail", ["launch", "phases"])
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_in_a_launch_loop(kernels, array, no_garbage, detail):
    """Interrupts at arbitrary moments: every launch that was begun is one row, and recording goes on."""
    kernels.axpy[2, 32](array, 2.0, array)
    made = 0
    interrupts = 0
    with kernelscope.record(detail=detail) as r:
        for attempt in range(60):
            previous = signal.signal(signal.SIGALRM, lambda *_: signal.default_int_handler(signal.SIGINT, None))
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + attempt * 0.00001)
                for _ in range(100_000):
                    kernels.axpy[2, 32](array, 2.0, array)
                    made += 1
            except KeyboardInterrupt:
                interrupts += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, previous)
    launches = r.recording.launches
    assert interrupts == 60
    # An interrupt may fall between a launch and the counting of it here, so up to one launch an interrupt more.
    assert made <= len(launches) <= made + interrupts
    assert launches.start_ns.is_unique
    assert launches.parent_launch_id.isna().all(), "an interrupted launch was left open"
    assert set(launches.error.dropna()) <= {"KeyboardInterrupt"}
    assert r.recording.health.errors.isna().all()


def test_an_error_of_ours_is_counted_and_swallowed(kernels, array, monkeypatch):
    from kernelscope.probes.numba_cuda.kernels import KernelRows

    def broken(*_):
        raise RuntimeError("a defect of ours")

    monkeypatch.setattr(KernelRows, "dispatcher", broken)
    with kernelscope.record() as r:
        kernels.axpy[2, 32](array, 2.0, array)
    assert array.copy_to_host().shape == (64,)
    health = r.recording.health
    row = health[health.errors.notna()].iloc[0]
    assert row.status == "degraded"
    assert row.dropped == 1
    assert "a defect of ours" in row.message


def test_a_wrapper_put_over_ours_before_stop_stays_and_passes_through(kernels, array):
    calls = []
    original = numba_dispatcher.CUDADispatcher.call
    recorder = Recorder().start()
    ours = numba_dispatcher.CUDADispatcher.call

    def foreign(self, args, launch_config):
        calls.append(1)
        return ours(self, args, launch_config)

    numba_dispatcher.CUDADispatcher.call = foreign
    try:
        kernels.axpy[2, 32](array, 2.0, array)
        first = recorder.stop()
        assert numba_dispatcher.CUDADispatcher.call is foreign
        kernels.axpy[2, 32](array, 2.0, array)
        with kernelscope.record() as second:
            kernels.axpy[2, 32](array, 2.0, array)
            kernels.axpy[2, 32](array, 2.0, array)
        assert numba_dispatcher.CUDADispatcher.call is foreign
    finally:
        numba_dispatcher.CUDADispatcher.call = original
    assert len(calls) == 4
    assert len(first.launches) == 1
    assert len(second.recording.launches) == 2


@pytest.mark.parametrize("private_name", ["call", "compile"])
def test_a_missing_private_name_falls_back_to_the_documented_seam(kernels, array, monkeypatch, private_name):
    original = vars(numba_dispatcher.CUDADispatcher)[private_name]

    def other(self, everything):
        raise AssertionError("not called here")

    other.__module__ = "numba.cuda.dispatcher"
    monkeypatch.setattr(numba_dispatcher.CUDADispatcher, private_name, other)
    recorder = Recorder().start()
    monkeypatch.setattr(numba_dispatcher.CUDADispatcher, private_name, original)
    recorder.attach(kernels.axpy)
    recorder.attach(kernels.axpy)
    kernels.axpy[2, 32](array, 2.0, array)
    kernels.axpy[2, 32](array, 2.0, array)
    kernels.noop[1, 1]()
    recording = recorder.stop()
    assert "configure" not in vars(kernels.axpy)
    assert "_compile_for_args" not in vars(kernels.axpy)
    assert kernels.axpy[2, 32].pre_launch_callbacks == []
    launches = recording.launches
    assert len(launches) == 2
    assert launches.end_ns.isna().all()
    assert launches.specialization_id.notna().all()
    assert recording.compilations.outcome.tolist() == ["compiled"]
    degraded = recording.health[recording.health.status == "degraded"].iloc[0]
    assert f"CUDADispatcher.{private_name} takes (self, everything)" in degraded.message
    assert "phases" in degraded.message


def test_attach_in_normal_mode_changes_nothing(kernels, array):
    recorder = Recorder().start()
    try:
        recorder.attach(kernels.axpy)
        assert "configure" not in vars(kernels.axpy)
        kernels.axpy[2, 32](array, 2.0, array)
    finally:
        recording = recorder.stop()
    assert len(recording.launches) == 1


def test_attach_refuses_what_is_no_kernel(monkeypatch):
    monkeypatch.delattr(numba_dispatcher._LaunchConfiguration, "__call__")
    with kernelscope.record() as r, pytest.raises(ProbeUnavailableError, match="is not a kernel"):
        r.attach(print)


def test_attach_before_start_is_refused(kernels):
    with pytest.raises(RecorderStateError, match="has started"):
        Recorder().attach(kernels.axpy)


def test_an_old_numba_cuda_is_refused_by_name(monkeypatch, kernels, array):
    import numba_cuda

    monkeypatch.setattr(numba_cuda, "__version__", "0.29.1")
    with kernelscope.record() as r:
        kernels.axpy[2, 32](array, 2.0, array)
    row = r.recording.health.iloc[0]
    assert row.status == "unavailable"
    assert "0.29.1 is too old" in row.message
    assert "pip install" in row.fix


@pytest.mark.slow
def test_stop_while_other_threads_launch(kernels, array):
    kernels.axpy[2, 32](array, 2.0, array)
    done = threading.Event()

    def work():
        while not done.is_set():
            kernels.axpy[2, 32](array, 2.0, array)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        recordings = []
        for _ in range(20):
            with kernelscope.record() as r:
                kernels.axpy[2, 32](array, 2.0, array)
            recordings.append(r.recording)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    for recording in recordings:
        assert recording.health.errors.isna().all()
        assert recording.launches.start_ns.is_monotonic_increasing
        assert (recording.launches.end_ns > recording.launches.start_ns).all()


def test_results_and_exceptions_are_the_functions_own(array):
    @kernelscope.recorded(name="named", detail="launch")
    def add(a: int, b: int = 2) -> int:
        """Add."""
        if a < 0:
            raise ValueError("negative")
        return a + b

    assert add(1) == 3
    assert add.recording.name == "named"
    with pytest.raises(ValueError, match="negative"):
        add(-1)
    assert add.recording.cells.status[0] == "error"
    assert add.__name__ == "add"
    assert add.__doc__ == "Add."


def test_arguments_that_numba_refuses_are_the_users(kernels):
    with kernelscope.record() as r, pytest.raises(ValueError, match="too large"):
        kernels.axpy[1, 32](np.zeros(1, np.float32), 2**80, np.zeros(1, np.float32))
    assert len(r.recording.launches) == 1


def test_nothing_of_a_recording_is_kept_after_stop(kernels, array):
    import gc
    import weakref

    recorder = Recorder().start()
    sink = weakref.ref(recorder._session.sink)
    kernels.axpy[2, 32](array, 2.0, array)
    kernels.axpy.forall(64)(array, 1.0, array)
    recorder.stop()
    gc.collect()
    assert sink() is None


def test_what_comes_while_the_hooks_go_does_not_put_them_back(kernels, array):
    """Another thread may find a second device, or have imported numba-cuda, while this one stops."""
    from kernelscope.probes.numba_cuda import NumbaCudaProbe
    from kernelscope.probes.sink import Sink

    probe, sink = NumbaCudaProbe(), Sink()
    probe.install(sink, "phases")
    kernels.axpy[2, 32](array, 2.0, array)
    probe.uninstall()
    probe._modules.devices = type("TwoDevices", (), {"gpus": [0, 1]})
    probe._follow_devices()
    probe._imported(numba_dispatcher, sink)
    # the fixture that runs after every test finds any hook that is left
    kernels.axpy[2, 32](array, 2.0, array)
    assert len(sink.log.columns()["start_ns"]) == 1


def test_ctrl_c_while_hooks_are_undone_leaves_none(kernels, array, monkeypatch):
    from kernelscope.probes.base import Patches

    original, calls = Patches.undo, []

    def interrupted_once(self):
        calls.append(self)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return original(self)

    recorder = Recorder().start()
    kernels.axpy[2, 32](array, 2.0, array)
    monkeypatch.setattr(Patches, "undo", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        recorder.stop()
    assert len(calls) > 1
    # the fixture that runs after every test finds any hook that is left


def test_a_failed_compile_says_what_is_wrong_and_not_only_where():
    def unknown(array):
        array[0] = there_is_no_such_name  # noqa: F821

    kernel = cuda.jit(unknown)
    with kernelscope.record() as r, pytest.raises(TypingError):
        kernel[1, 1](np.zeros(1))
    row = r.recording.compilations.iloc[0]
    assert "there_is_no_such_name" in row.error
    assert "there_is_no_such_name" in row.reason


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_child_goes_on_by_itself(kernels):
    with kernelscope.record() as r:
        kernels.noop[1, 1]()
        child = os.fork()
        if child == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        kernels.noop[1, 1]()
    assert len(r.recording.launches) == 2

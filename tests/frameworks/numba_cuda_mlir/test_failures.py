"""What goes wrong in user code passes untouched and is recorded; what goes wrong in ours never reaches it."""

from __future__ import annotations

import inspect
import signal
import threading
import time
import traceback

import numba_cuda_mlir
import pytest
from numba_cuda_mlir import cuda, descriptor, mlir_optimization
from numba_cuda_mlir.numba_cuda.core.compiler_lock import global_compiler_lock

import kernelscope
from kernelscope.probes.numba_cuda_mlir.kernels import KernelRows
from kernelscope.recorder.recorder import Recorder

HOOKED = [(descriptor._ArgMarshaller, "__call__"), (descriptor._ArgMarshaller, "_launch"),
          (descriptor.MLIRDispatcher, "_compile_impl"), (descriptor.MLIRDispatcher, "_compile_public"),
          (descriptor.MLIRDispatcher, "_recompile_impl"), (mlir_optimization, "optimize"),
          (type(global_compiler_lock), "acquire")]


def state_of(owner, name):
    function = inspect.unwrap(vars(owner)[name])
    return vars(owner)[name], function.__code__, function.__defaults__, function.__kwdefaults__


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = [state_of(*each) for each in HOOKED]
    yield
    assert [state_of(*each) for each in HOOKED] == before


class Failing:
    def __init__(self, when):
        self.when = when

    def prepare_args(self, ty, val, stream=None, retr=None):
        if self.when == "prepare":
            raise LookupError("no such argument")

        def write_back():
            raise OSError("cannot write back")

        retr.append(write_back)
        return ty, val


@pytest.mark.parametrize(("when", "error"), [("prepare", LookupError), ("finish", OSError)])
def test_failures_around_the_launch(array, when, error):
    @cuda.jit(extensions=[Failing(when)])
    def kernel(x):
        x[0] = 1

    with pytest.raises(error) as raised, kernelscope.record() as r:
        kernel[1, 32](array)
    (row,) = r.recording.rows("launches")
    assert row["error"] == error.__name__ and row["end_ns"] > row["start_ns"]
    assert (row["specialization_id"] is None) == (when == "prepare") == (row["submit_end_ns"] is None)
    files = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert not [file for file in files if "kernelscope/probes" in file]


def test_the_driver_refuses(kernels):
    with kernelscope.record() as r, pytest.raises(Exception, match="Failed to launch"):
        kernels.noop[1, 2048]()
    (row,) = r.recording.rows("launches")
    assert row["error"] == "CUDAError" and row["submit_end_ns"] is None


def test_a_failure_after_a_success(kernels, array):
    with kernelscope.record() as r:
        kernels.axpy[1, 32](array, 2.0, array)
        with pytest.raises(Exception, match="object"):
            kernels.axpy[1, 32](object())
    assert r.recording.launches.specialization_id.isna().tolist() == [False, True]


def test_keywords_are_refused_as_without_us(kernels):
    with pytest.raises(TypeError) as plain:
        kernels.noop[1, 1](nonsense=1)
    with kernelscope.record(), pytest.raises(TypeError) as recorded:
        kernels.noop[1, 1](nonsense=1)
    assert str(recorded.value) == str(plain.value)


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_ctrl_c_in_a_launch_loop(kernels, no_garbage, detail):
    """Without arguments: the native launcher crashes, without us too, where a handler raises while it reads arrays."""
    launch = kernels.noop[2, 32]
    launch()
    for _ in range(10):
        made = 0
        recorder = Recorder(detail=detail).start()
        previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                for _ in range(1_000_000):  # an interrupt that is lost ends the test, too
                    launch()
                    made += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        recording = recorder.stop()
        assert made <= len(recording.launches) <= made + 1
        assert recording.launches.error.isna().sum() >= made
        assert recording.health.errors.isna().all()


def test_an_error_of_ours_is_counted_and_swallowed(kernels, array, monkeypatch):
    def broken(*_):
        raise RuntimeError("ours")

    monkeypatch.setattr(KernelRows, "target", broken)
    monkeypatch.setattr(KernelRows, "known_before", broken)
    with kernelscope.record() as r:
        kernels.axpy[1, 32](array, 2.0, array)
    row = next(row for row in r.recording.rows("health") if row["errors"])
    assert row["probe"] == "numba-cuda-mlir" and row["dropped"] == 1 and "ours" in row["message"]


def test_a_wrapper_of_another_tool_stays(kernels, array):
    calls = []
    original = descriptor._ArgMarshaller.__call__

    def under(self, *args):  # it has a closure, so that our hook takes its place as an attribute
        calls.append("inner")
        return original(self, *args)

    try:
        descriptor._ArgMarshaller.__call__ = under
        recorder = Recorder().start()
        ours = descriptor._ArgMarshaller.__call__

        def over(self, *args):
            calls.append("outer")
            return ours(self, *args)

        descriptor._ArgMarshaller.__call__ = over
        kernels.axpy[1, 32](array, 2.0, array)
        recording = recorder.stop()
        kernels.axpy[1, 32](array, 2.0, array)  # through our hook, which records nothing any more
        assert calls == ["outer", "inner"] * 2
        assert len(recording.launches) == 1
    finally:
        descriptor._ArgMarshaller.__call__ = original


def test_stop_while_other_threads_launch(kernels, array):
    launch = kernels.axpy[2, 32]
    launch(array, 2.0, array)
    ends = threading.Event()
    problems = []

    def loop():
        try:
            while not ends.is_set():
                launch(array, 2.0, array)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        with kernelscope.record() as r:
            time.sleep(0.003)
        assert r.recording.health.errors.isna().all()
    ends.set()
    for thread in threads:
        thread.join()
    assert not problems


def test_a_version_that_nobody_tried_is_said_so(kernels, array, monkeypatch):
    monkeypatch.setattr(numba_cuda_mlir, "__version__", "0.9.1")
    with kernelscope.record() as r:
        kernels.axpy[1, 32](array, 2.0, array)
    row = next(row for row in r.recording.rows("health") if row["status"] == "degraded")
    assert "0.9.1" in row["message"] and len(r.recording.launches) == 1


def test_an_old_version_is_refused(kernels, array, monkeypatch):
    monkeypatch.setattr(numba_cuda_mlir, "__version__", "0.4.2")
    with kernelscope.record() as r:
        kernels.axpy[1, 32](array, 2.0, array)
    (row,) = [row for row in r.recording.rows("health") if row["status"] != "ok"]
    assert row["status"] == "unavailable" and "0.4.2 is too old" in row["message"]
    assert r.recording.launches.empty


@pytest.mark.parametrize(("owner", "name"), [
    (descriptor.MLIRDispatcher, "_resolve_overload"), (descriptor, "_launch_config_key")])
def test_a_removed_name_of_the_launch_path(monkeypatch, owner, name, kernels, array):
    kernels.axpy[1, 32](array, 2.0, array)
    monkeypatch.delattr(owner, name)
    with kernelscope.record() as r:
        pass
    (row,) = [row for row in r.recording.rows("health") if row["status"] != "ok"]
    assert row["status"] == "unavailable" and name in row["message"]


def test_a_removed_name_of_the_compiler(monkeypatch, kernels, array):
    monkeypatch.delattr(descriptor.MLIRDispatcher, "_recompile_impl")
    with kernelscope.record() as r:
        kernels.axpy[1, 32](array, 2.0, array)
    row = next(row for row in r.recording.rows("health") if row["status"] == "degraded")
    assert "MLIRDispatcher._recompile_impl" in row["message"]
    assert len(r.recording.launches) == len(r.recording.compilations) == 1


def test_another_signature_of_a_hooked_function(monkeypatch, kernels, array):
    def _launch(self, argtypes, launch_args):
        raise AssertionError("not called")

    _launch.__module__ = descriptor.__name__
    monkeypatch.setattr(descriptor._ArgMarshaller, "_launch", _launch)
    with kernelscope.record() as r:
        pass
    row = r.recording.rows("health")[0]
    assert row["status"] == "unavailable" and "_ArgMarshaller._launch takes" in row["message"]


def test_import_while_recording(run_python):
    done = run_python("""
import kernelscope
with kernelscope.record() as r:
    from numba_cuda_mlir import cuda
    @cuda.jit
    def noop(): pass
    noop[1, 1]()
assert len(r.recording.launches) == 1, r.recording.health
print("ok")
""")
    assert done.stdout.strip() == "ok"

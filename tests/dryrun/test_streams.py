from __future__ import annotations

import ctypes

import pytest


def test_streams(driver, make_stream, context) -> None:
    blocking, other = make_stream(0), make_stream(1)
    assert driver.do("cuStreamGetFlags", blocking) == 0
    assert driver.do("cuStreamGetFlags", other) == 1
    assert not hasattr(driver.api, "cuStreamGetDevice") or int(driver.do("cuStreamGetDevice", other)) == 0
    assert driver.do("cuStreamGetId", blocking) != driver.do("cuStreamGetId", other)
    for call in ("cuStreamQuery", "cuStreamSynchronize"):
        assert driver.code(call, blocking) == driver.code(call, 0) == "SUCCESS"
    urgent = driver.do("cuStreamCreateWithPriority", 1, -99)
    assert driver.do("cuStreamGetPriority", urgent) == -5
    driver.do("cuStreamDestroy", urgent)
    assert driver.code("cuStreamCreate", 2) == "INVALID_VALUE"


@pytest.mark.parametrize("handle", [12345, 1 << 60, (1 << 24) - 1])
def test_a_made_up_handle_is_refused(driver, context, handle: int) -> None:
    for call in ("cuStreamSynchronize", "cuStreamDestroy", "cuStreamGetFlags"):
        assert driver.code(call, driver.CUstream(handle)) == "INVALID_HANDLE"
    assert driver.code("cuEventSynchronize", driver.CUevent(handle)) == "INVALID_HANDLE"
    assert driver.code("cuModuleUnload", driver.CUmodule(handle)) == "INVALID_HANDLE"
    assert (
        driver.code("cuLaunchKernel", driver.CUfunction(handle), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
        == "INVALID_HANDLE"
    )
    assert driver.code("cuGraphDestroy", driver.CUgraph(handle)) == "INVALID_VALUE"
    assert driver.code("cuGraphLaunch", driver.CUgraphExec(handle), 0) == "INVALID_VALUE"
    assert driver.code("cuMemPoolDestroy", driver.CUmemoryPool(handle)) == "INVALID_VALUE"


def test_a_destroyed_handle_is_refused_even_when_its_place_is_taken(driver, context) -> None:
    first = driver.do("cuStreamCreate", 0)
    driver.do("cuStreamDestroy", first)
    second = driver.do("cuStreamCreate", 0)
    assert driver.code("cuStreamSynchronize", first) == driver.code("cuStreamDestroy", first) == "INVALID_HANDLE"
    assert driver.code("cuStreamSynchronize", second) == "SUCCESS"
    driver.do("cuStreamDestroy", second)


def test_a_handle_of_another_kind_is_refused(driver, stream) -> None:
    assert driver.code("cuEventSynchronize", driver.CUevent(int(stream))) == "INVALID_HANDLE"


def test_events(driver, stream) -> None:
    first, second, untimed = (driver.do("cuEventCreate", flags) for flags in (0, 0, 2))
    assert driver.code("cuEventQuery", first) == driver.code("cuEventSynchronize", first) == "SUCCESS"
    assert driver.code("cuEventElapsedTime", first, second) == "INVALID_HANDLE"
    for event in (first, second, untimed):
        driver.do("cuEventRecord", event, stream)
    assert 0 <= driver.do("cuEventElapsedTime", first, second) < 1000
    assert driver.do("cuEventElapsedTime", second, first) <= 0
    assert driver.code("cuEventElapsedTime", first, untimed) == "INVALID_HANDLE"
    driver.do("cuStreamWaitEvent", stream, second, 0)
    assert driver.code("cuStreamWaitEvent", stream, second, 1) == "ILLEGAL_STATE"
    assert driver.code("cuEventRecordWithFlags", first, stream, 1) == "ILLEGAL_STATE"
    assert driver.code("cuEventRecordWithFlags", first, stream, 2) == "INVALID_VALUE"
    assert driver.code("cuEventCreate", 64) == "INVALID_VALUE"
    for event in (first, second, untimed):
        driver.do("cuEventDestroy", event)
    assert driver.code("cuEventRecord", first, stream) == "INVALID_HANDLE"


@pytest.mark.parametrize("kind", ["host function", "callback"])
def test_callbacks_may_call_the_driver(driver, stream, kind: str) -> None:
    """They run with no lock held, so the driver does not wait for itself."""
    seen = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def host_function(argument) -> None:
        seen.append((argument, driver.code("cuStreamQuery", stream)))

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    def callback(on, status, argument) -> None:
        assert (on, status) == (int(stream), 0)
        host_function(argument)

    function = ctypes.cast(host_function if kind == "host function" else callback, ctypes.c_void_p).value
    if kind == "host function":
        driver.do("cuLaunchHostFunc", stream, driver.CUhostFn(function), 42)
    else:
        driver.do("cuStreamAddCallback", stream, driver.CUstreamCallback(function), 42, 0)
        assert (
            driver.code("cuStreamAddCallback", stream, driver.CUstreamCallback(function), 0, 1)
            == "INVALID_VALUE"
        )
    assert seen == [(42, "SUCCESS")]


def test_per_thread_default_streams(run_python) -> None:
    code = """
import kernelscope, threading, time
from cuda.bindings import driver
driver.cuInit(0)
context = driver.cuDevicePrimaryCtxRetain(0)[1]
ids = []
def ask():
    driver.cuCtxSetCurrent(context)
    ids.append(driver.cuStreamGetId(driver.CUstream(0))[1])
    assert driver.cuStreamBeginCapture(driver.CUstream(2), driver.CUstreamCaptureMode(2))[0] == 0
threads = [threading.Thread(target=ask) for _ in range(3)]
for thread in threads:
    thread.start()
    thread.join()
print(len(set(ids)))
assert driver.cuCtxSetCurrent(context)[0] == 0
deadline = time.monotonic() + 60  # join() returns a moment before the system's thread is gone
while driver.cuCtxSynchronize()[0] != 0:  # their captures go with them
    assert time.monotonic() < deadline
"""
    assert run_python(code, CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM="1").stdout.strip() == "3"
    assert run_python(code, CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM="0").stdout.strip() == "1"

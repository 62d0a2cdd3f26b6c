from __future__ import annotations

import pytest


@pytest.fixture
def no_context(driver):
    """A thread's stack as it is before CUDA is used."""
    popped = []
    while driver.code("cuCtxGetDevice") == "SUCCESS":
        popped.append(driver.do("cuCtxPopCurrent"))
    yield
    while popped:
        driver.do("cuCtxPushCurrent", popped.pop())


def test_what_needs_a_context(driver, no_context) -> None:
    assert int(driver.do("cuCtxGetCurrent")) == 0
    for call in (
        ("cuCtxGetDevice",),
        ("cuCtxSynchronize",),
        ("cuMemAlloc", 8),
        ("cuStreamCreate", 0),
        ("cuCtxPopCurrent",),
    ):
        assert driver.code(*call) == "INVALID_CONTEXT", call


def test_the_stack(driver, no_context) -> None:
    primary = driver.do("cuDevicePrimaryCtxRetain", 0)
    driver.do("cuCtxSetCurrent", primary)
    assert int(driver.do("cuCtxGetCurrent")) == int(primary)
    assert int(driver.do("cuCtxGetDevice")) == 0
    assert driver.code("cuCtxPushCurrent", 0) == "INVALID_VALUE"
    assert driver.code("cuCtxPushCurrent", driver.CUcontext(12345)) == "INVALID_CONTEXT"
    assert driver.code("cuCtxDestroy", primary) == "INVALID_CONTEXT"
    driver.do("cuCtxPushCurrent", primary)
    assert int(driver.do("cuCtxPopCurrent")) == int(primary)
    driver.do("cuCtxSetCurrent", 0)
    assert int(driver.do("cuCtxGetCurrent")) == 0
    driver.do("cuDevicePrimaryCtxRelease", 0)


def test_the_stack_is_not_endless(driver, no_context) -> None:
    primary = driver.do("cuDevicePrimaryCtxRetain", 0)
    pushed = 0
    while driver.code("cuCtxPushCurrent", primary) == "SUCCESS":
        pushed += 1
        assert pushed < 1000
    for _ in range(pushed):
        driver.do("cuCtxPopCurrent")
    driver.do("cuDevicePrimaryCtxRelease", 0)


def test_a_destroyed_context_is_known_as_such(driver, no_context) -> None:
    import threading

    created = (
        driver.do("cuCtxCreate", None, 0, 0) if has_create_v4(driver) else driver.do("cuCtxCreate", 0, 0)
    )
    seen = []
    ready, destroyed = threading.Event(), threading.Event()

    def other() -> None:
        driver.do("cuCtxSetCurrent", created)
        ready.set()
        destroyed.wait(60)
        seen.append(driver.code("cuCtxSynchronize"))
        seen.append(driver.code("cuCtxSetCurrent", created))

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait(60)
    driver.do("cuCtxDestroy", created)
    destroyed.set()
    thread.join()
    assert seen == ["CONTEXT_IS_DESTROYED", "INVALID_CONTEXT"]
    assert int(driver.do("cuCtxGetCurrent")) == 0


def has_create_v4(driver) -> bool:
    """cuda.bindings 13 calls the interface with parameters, 12 the one without."""
    return "ctxCreateParams" in (driver.cuCtxCreate.__doc__ or "")


def test_primary_contexts_count_their_users(driver, no_context) -> None:
    before = driver.do("cuDevicePrimaryCtxGetState", 0)
    driver.do("cuDevicePrimaryCtxRetain", 0)
    assert driver.do("cuDevicePrimaryCtxGetState", 0)[1] == 1
    driver.do("cuDevicePrimaryCtxRelease", 0)
    assert driver.do("cuDevicePrimaryCtxGetState", 0)[1] == before[1]
    assert driver.code("cuDevicePrimaryCtxRetain", 99) == "INVALID_DEVICE"


def test_limits_and_properties(driver, context) -> None:
    limit = driver.CUlimit
    assert driver.do("cuCtxGetLimit", limit.CU_LIMIT_STACK_SIZE) == 1024
    driver.do("cuCtxSetLimit", limit.CU_LIMIT_STACK_SIZE, 2048)
    assert driver.do("cuCtxGetLimit", limit.CU_LIMIT_STACK_SIZE) == 2048
    driver.do("cuCtxSetLimit", limit.CU_LIMIT_STACK_SIZE, 1024)
    assert driver.code("cuCtxGetLimit", limit.CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) == "UNSUPPORTED_LIMIT"
    assert driver.do("cuCtxGetStreamPriorityRange") == (0, -5)
    assert driver.do("cuCtxGetApiVersion", context) == 3020
    assert driver.code("cuCtxEnablePeerAccess", context, 0) == "PEER_ACCESS_UNSUPPORTED"


FORK = """
import os
import kernelscope
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxPushCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
child = os.fork()
if child == 0:
    print(driver.cuInit(0)[0].name, driver.cuDeviceGetCount()[0].name, driver.cuMemAlloc(8)[0].name,
          driver.cuDriverGetVersion()[0].name, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(driver.cuMemAlloc(8)[0].name)
"""


def test_a_forked_child_must_not_use_it(run_python) -> None:
    out = run_python(FORK).stdout.split()
    assert out == ["CUDA_ERROR_NOT_INITIALIZED"] * 3 + ["CUDA_SUCCESS"] * 2


def test_names_and_texts_of_errors(driver) -> None:
    for error in driver.CUresult:
        if error <= driver.CUresult.CUDA_ERROR_KEY_ROTATION or error == driver.CUresult.CUDA_ERROR_UNKNOWN:
            assert driver.do("cuGetErrorName", error) == error.name.encode()
    assert driver.do("cuGetErrorString", driver.CUresult.CUDA_ERROR_INVALID_VALUE) == b"invalid argument"


def test_nothing_works_before_init(run_python) -> None:
    code = """
import ctypes
from kernelscope.dryrun.build import build
library = ctypes.CDLL(str(build(print)))
count = ctypes.c_int()
assert library.cuDeviceGetCount(ctypes.byref(count)) == 3
assert library.cuInit(0) == 0
assert library.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value == 1
"""
    run_python(code, KERNELSCOPE_DRYRUN="")


def test_the_library_alone_refuses_wrong_settings(run_python) -> None:
    code = """
import ctypes
from kernelscope.dryrun.build import build
library = ctypes.CDLL(str(build(print)))
print(library.cuInit(0))
"""
    for name, value in (("DEVICES", "x"), ("CC", "1.0"), ("DRIVER_VERSION", "11.0"), ("CC", "90;80")):
        variable = f"KERNELSCOPE_DRYRUN_{name}"
        result = run_python(code, **{"KERNELSCOPE_DRYRUN": "", variable: value})
        assert result.stdout.strip() == "1"
        assert result.stderr.strip() == f"kernelscope dry run: {variable}={value} is not understood"

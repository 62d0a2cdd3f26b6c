"""Kernels, wrappers and contexts that are not the ordinary ones."""

from __future__ import annotations

import numba.cuda.dispatcher as numba_dispatcher
import numpy as np
import pytest
from numba import cuda
from numba.cuda.codegen import CUDACodeLibrary
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.cudadrv.driver import Context

import kernelscope


def test_launch_config_sensitive_kernels_compiled_before_keep_their_configuration(kernels, array):
    kernels.sensitive[1, 32](array)
    kernels.sensitive[2, 64](array)
    with kernelscope.record() as r:
        kernels.sensitive[2, 64](array)
        kernels.sensitive[4, 64](array)
    bound = r.recording.specializations.launch_config
    assert ['"griddim": [2' in bound[0], '"griddim": [4' in bound[1]] == [True, True]
    assert "compiled before: [1, 32]" not in r.recording.compilations.reason[0]


def test_a_subclass_and_a_wrapper_may_stand_before_compile(kernels, array, monkeypatch):
    original = numba_dispatcher.CUDADispatcher.compile

    def wrapper(self, sig):
        return original(self, sig)

    monkeypatch.setattr(numba_dispatcher.CUDADispatcher, "compile", wrapper)
    wrapper.__wrapped__ = original
    with kernelscope.record() as r:
        kernels.axpy[2, 32](array, 2.0, array)
    assert r.recording.compilations.trigger.tolist() == ["launch"]
    assert r.recording.launches.cache.tolist() == ["compiled"]


#: Everything of numba-cuda that a recording hooks on a machine with one device.
HOOKED = [
    (numba_dispatcher.CUDADispatcher, "call"),
    (numba_dispatcher.CUDADispatcher, "_update_launch_config_sensitivity"),
    (numba_dispatcher, "launch"),
    (type(global_compiler_lock), "acquire"),
    (numba_dispatcher.CUDADispatcher, "compile"),
    (numba_dispatcher, "compile_cuda"),
    (CUDACodeLibrary, "get_asm_strs"),
    (CUDACodeLibrary, "get_ltoir"),
    (CUDACodeLibrary, "get_cubin"),
    (Context, "create_module_image"),
]


@pytest.fixture
def patched():
    """Put a wrapper over ``owner.name``, as a user does, and return what was there; all is put back after the test."""

    def patch(owner, name):
        original = vars(owner)[name]

        def wrapper(*args, **kwargs):
            return original(*args, **kwargs)

        setattr(owner, name, wrapper)
        return original

    before = [(owner, name, vars(owner)[name]) for owner, name in HOOKED]
    yield patch
    for owner, name, original in before:
        setattr(owner, name, original)


def assert_recorded(array, *, waits=True):
    """A kernel that is compiled, loaded and launched twice is recorded with all that there is of it."""
    @cuda.jit
    def kernel(out, a):
        out[0] = a

    with kernelscope.record() as r:
        kernel[2, 32](array, 2.0)
        kernel[2, 32](array, 2.0)
    recording = r.recording
    assert set(recording.health.status) == {"ok"}, recording.health.to_string()
    assert recording.launches.cache.tolist() == ["compiled", "memory"]
    assert recording.launches[["dispatch_end_ns", "submit_start_ns", "submit_end_ns"]].notna().all(axis=None)
    assert recording.compilations.wait_ns.notna().all() or not waits
    assert {"nvvm", "link", "load"} <= set(recording.passes.name)
    assert "pass" in set(recording.passes.kind)


@pytest.mark.parametrize(("owner", "name"), HOOKED[:7], ids=[name for _, name in HOOKED[:7]])
def test_a_patch_of_the_users_that_is_undone_after_the_block(array, patched, owner, name):
    """What it puts back then was ours, and records nothing by itself: it is known for what it is."""
    own = vars(owner)[name]
    with kernelscope.record():
        ours = patched(owner, name)
    assert_recorded(array, waits=name != "compile")  # the user's wrapper is there, around numba's lock too
    for _ in range(2):  # at once, and long after
        setattr(owner, name, ours)
        assert_recorded(array)
        assert vars(owner)[name] is own


@pytest.mark.parametrize(("owner", "name"), HOOKED[:5], ids=[name for _, name in HOOKED[:5]])
def test_a_patch_of_the_users_that_stays(array, patched, owner, name):
    with kernelscope.record():
        patched(owner, name)
    wrapper = vars(owner)[name]
    for _ in range(2):
        assert_recorded(array, waits=name != "compile")
        assert vars(owner)[name] is wrapper


def test_what_was_ours_is_put_back_inside_a_later_recording(array, patched):
    owner, name = HOOKED[0]
    own = vars(owner)[name]
    with kernelscope.record():
        ours = patched(owner, name)
    with kernelscope.record():
        setattr(owner, name, ours)
    assert_recorded(array)
    assert vars(owner)[name] is own


def test_a_users_function_called_jit_is_no_eager_signature(kernels, array):
    from numba import types

    def jit(kernel):
        kernel.compile((types.int32,))

    @cuda.jit
    def one(x):
        pass

    with kernelscope.record() as r:
        jit(one)
    assert r.recording.compilations.trigger.tolist() == ["compile"]


def test_one_configuration_that_the_driver_refuses_costs_no_other_its_occupancy(kernels):
    with kernelscope.record() as r:
        for shared in (-5, -6, -7):
            with pytest.raises(Exception):  # noqa: B017 (the driver's own type)
                kernels.noop[1, 1, 0, shared]()
        for block in range(32, 1024, 32):
            kernels.noop[1, block]()
    assert len(r.recording.occupancies) == 31


def test_a_recorded_coroutine_function_stays_one(kernels):
    import asyncio
    import inspect

    @kernelscope.recorded
    async def work():
        await asyncio.sleep(0)
        kernels.noop[1, 1]()
        return 5

    assert inspect.iscoroutinefunction(work)
    assert asyncio.run(work()) == 5
    assert len(work.recording.launches) == 1


def test_options_that_numba_adds_to_make_no_second_function(array):
    from numba.cuda.cudadrv.linkable_code import PTXSource

    square = cuda.to_device(np.zeros((4, 4), np.float32))

    @cuda.jit(link=[PTXSource(b".version 7.0\n.target sm_50\n.address_size 64\n")])
    def flat(x, n):
        x.reshape(n)[0] = 1

    with kernelscope.record() as r:
        flat[1, 32](square, 16)
    assert len(r.recording.dispatchers) == 1


def test_a_boundary_that_a_launch_did_not_pass_is_unknown(kernels, array, monkeypatch):
    with kernelscope.record() as r:
        for _ in range(2):
            kernels.axpy[2, 32](array, 2.0, array)
        with monkeypatch.context() as patch:
            patch.setattr(numba_dispatcher, "launch", lambda *_: None)
            kernels.axpy[2, 32](array, 2.0, array)
    assert r.recording.launches.submit_start_ns.isna().tolist() == [False, False, True]

"""`kernelscope.inspect` of live kernels: what a session recorded of them is with them, and what is new is seen."""

from __future__ import annotations

import json
import zlib

import ipywidgets
import numpy as np
import pytest
from numba import cuda

import kernelscope
from kernelscope.commands.inspect import LiveSource, SessionSource
from kernelscope.errors import KernelScopeError
from kernelscope.recording.model import Recording
from kernelscope.views.keys import specialization_keys


@pytest.fixture(autouse=True)
def no_widget_is_left():
    yield
    ipywidgets.Widget.close_all()


@pytest.fixture
def double():
    return cuda.to_device(np.zeros(64))


def recorded(*launches, **options) -> Recording:
    with kernelscope.record(**options) as made:
        for launch in launches:
            launch()
    return made.recording


def only(source):
    (kernel,) = source.kernels()
    return kernel


def test_a_live_kernel_is_read_from_its_caches(kernels, array):
    kernels.axpy[2, 32](array, 2.0, array)
    shown = kernelscope.inspect(kernels.axpy)
    assert shown.source.is_live and shown.source.can_compile
    kernel = only(shown.source)
    assert kernel.name.endswith("axpy")
    (specialization,) = kernel.specializations
    assert specialization.launches == 0
    key, = specialization_keys(shown.recording).values()
    head, buffers = shown.answer({"what": "code", "specialization": key, "form": "ptx"})
    assert head["has_text"]
    assert ".visible .entry" in zlib.decompress(buffers[0], wbits=-15).decode()
    head, buffers = shown.answer({"what": "code", "specialization": key, "form": "types"})
    assert json.loads(zlib.decompress(buffers[0], wbits=-15))[0]["brief"] == "float32[:] C"
    assert "axpy" in repr(shown)


def test_nothing_else_can_be_inspected(kernels):
    device = cuda.jit(device=True)(lambda x: x + 1)
    for other, said in ((print, "a value of type builtin"), (kernels.axpy[1, 32], "'axpy' with a launch configuration"),
                        (device, "the device function '<lambda>', which is compiled as a part of kernels,")):
        with pytest.raises(TypeError, match=f"{said}.* cannot be inspected: give a kernel made by @cuda.jit"):
            kernelscope.inspect(other)


def test_new_specializations_are_seen(kernels, array, double):
    source = LiveSource(lambda: kernels.axpy, list)
    assert only(source).specializations == ()
    assert not source.refresh()
    kernels.axpy[2, 32](array, 2.0, array)
    assert source.refresh()
    first = set(specialization_keys(source.recording).values())
    kernels.axpy[2, 32](double, 2.0, double)
    kernels.axpy[2, 32](double, 2.0, double)
    assert source.refresh()
    assert not source.refresh()
    assert first < set(specialization_keys(source.recording).values())
    assert len(only(source).specializations) == 2


def test_what_was_recorded_is_with_it(kernels, array, double):
    recordings = [recorded(lambda: kernels.axpy[2, 32](array, 2.0, array), name="one", code=True),
                  recorded(lambda: kernels.axpy[2, 32](array, 2.0, array), lambda: kernels.noop[1, 1](), name="two")]
    source = LiveSource(lambda: kernels.axpy, lambda: recordings)
    (specialization,) = only(source).specializations
    assert (specialization.launches, specialization.origin) == (2, "compiled")
    assert [each.reason_code for each in specialization.compiles] != []
    assert len(specialization.uses) == 1
    assert {"source", "ptx", "types"} <= set(specialization.code)
    # A new recording is merged with what there is.
    recordings.append(recorded(lambda: kernels.axpy[4, 16](array, 2.0, array),
                               lambda: kernels.axpy[2, 32](double, 2.0, double)))
    assert source.refresh()
    both = sorted(only(source).specializations, key=lambda each: each.number)
    assert [each.launches for each in both] == [3, 1]
    assert len(both[0].uses) == 2
    # What is dropped from the session is gone.
    del recordings[0]
    assert source.refresh()
    assert sorted(each.launches for each in only(source).specializations) == [1, 2]


def test_launch_config_sensitive_kernels_show_their_keys(kernels, array):
    recordings = [recorded(lambda: kernels.sensitive[1, 32](array), lambda: kernels.sensitive[2, 64](array))]
    source = LiveSource(lambda: kernels.sensitive, lambda: recordings)
    bound = [each.launch_config for kernel in source.kernels() for each in kernel.specializations if each.launches]
    assert sorted(each["blockdim"][0] for each in bound) == [32, 64]


def test_recordings_of_another_kind_are_left_out(kernels, array):
    other = Recording({}, {"simulator": True})
    kernels.axpy[2, 32](array, 2.0, array)
    assert len(only(LiveSource(lambda: kernels.axpy, lambda: [other])).specializations) == 1


def test_a_kernel_that_is_defined_again_takes_the_place(kernels, array):
    named = {"kernel": kernels.axpy}
    kernels.axpy[2, 32](array, 2.0, array)
    source = LiveSource(lambda: named["kernel"], list)
    named["kernel"] = kernels.noop
    assert source.refresh()
    assert only(source).name.endswith("noop")


def test_a_copy_has_line_information_and_leaves_the_kernel(kernels, array):
    kernels.axpy[2, 32](array, 2.0, array)
    shown = kernelscope.inspect(kernels.axpy)
    key, = specialization_keys(shown.recording).values()
    before = len(kernels.axpy.overloads), sum(kernels.axpy.stats.cache_misses.values())
    for form in ("ptx", "sass"):
        head, _ = shown.answer({"what": "code", "specialization": key, "form": form, "copy": True})
        assert head["has_lines"], form
    assert (len(kernels.axpy.overloads), sum(kernels.axpy.stats.cache_misses.values())) == before
    with pytest.raises(KernelScopeError, match="no such one"):
        shown.source.with_lineinfo("gone")


def test_a_session_grows(kernels, array):
    recordings = [recorded(lambda: kernels.axpy[2, 32](array, 2.0, array))]
    source = SessionSource(lambda: recordings)
    assert len(only(source).specializations) == 1
    recordings.append(recorded(lambda: kernels.noop[1, 1]()))
    assert source.refresh()
    assert sorted(each.name.rpartition(".")[2] for each in source.kernels()) == ["axpy", "noop"]
    assert source.recording.activities.empty
    with pytest.raises(KernelScopeError, match="no kernel that could be compiled"):
        source.with_lineinfo("any")
    assert SessionSource(list).kernels() == []

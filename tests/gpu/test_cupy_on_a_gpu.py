"""CuPy itself on a GPU: why it compiles, each fix applied, and that CUPTI's launches are of the kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kernelscope
from kernelscope.analysis.compiles import explain

pytestmark = pytest.mark.gpu

RAW = 'extern "C" __global__ void axpy(float* x, int n) {{ if (threadIdx.x < n) x[threadIdx.x] *= {}; }}'
TEMPLATE = "template<class T> __global__ void scaled(T* x) { x[threadIdx.x] *= 2; }"
Call = Callable[[Any], Any]


def ones(dtype: str) -> Any:
    import cupy

    return cupy.ones(1024, dtype)


def raw(factor: str = "2", options: tuple[str, ...] = ()) -> None:
    import cupy

    cupy.RawKernel(RAW.format(factor), "axpy", options=options)((1,), (32,), (ones("float32"), 32))


def template(kind: str, dtype: str) -> None:
    import cupy

    module = cupy.RawModule(code=TEMPLATE, name_expressions=[f"scaled<{kind}>"])
    module.get_function(f"scaled<{kind}>")((1,), (32,), (ones(dtype),))


#: What makes a kernel; the first call; the second, which compiles; it with the fix, None where nothing avoids it.
CHANGES: dict[str, tuple[Callable[[Any], Any], Call, Call, Call | None, str]] = {
    "ElementwiseKernel": (lambda cupy: cupy.ElementwiseKernel("T x", "T y", "y = x * 2", "twice_gpu_test"),
                          lambda f: f(ones("float32")), lambda f: f(ones("int32")),
                          lambda f: f(ones("int32").astype("float32")), "new_dtype"),
    "layout": (lambda cupy: cupy.ElementwiseKernel("T x", "T y", "y = x * 3", "thrice_gpu_test"),
               lambda f: f(ones("float32")), lambda f: f(ones("float32")[::2]),
               lambda f: f(ones("float32")[::2].copy()), "new_layout"),
    "ReductionKernel": (lambda cupy: cupy.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total_gpu_test"),
                        lambda f: f(ones("float32")), lambda f: f(ones("float64")),
                        lambda f: f(ones("float64").astype("float32")), "new_dtype"),
    "fusion": (lambda cupy: cupy.fuse(kernel_name="fused_gpu_test")(lambda x: x * 2 + 1),
               lambda f: f(ones("float32")), lambda f: f(ones("float64")),
               lambda f: f(ones("float64").astype("float32")), "new_dtype"),
    "option": (lambda cupy: None, lambda _: raw(), lambda _: raw(options=("--use_fast_math",)), lambda _: raw(),
               "new_option"),
    "code": (lambda cupy: None, lambda _: raw("4"), lambda _: raw("3"), None, "redefined"),  # CuPy has kept raw()
    "template": (lambda cupy: None, lambda _: template("float", "float32"), lambda _: template("double", "float64"),
                 None, "new_constexpr"),
}


@pytest.fixture
def cupy(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = pytest.importorskip("cupy")
    from cupy.cuda import compiler

    monkeypatch.setattr(compiler, "_kernel_cache_backend", compiler._DiskKernelCacheBackend(str(tmp_path)))
    return module


@pytest.mark.parametrize("name", CHANGES)
def test_changes_and_their_fixes(cupy: Any, name: str) -> None:
    make, first, second, fixed, code = CHANGES[name]
    kernel = make(cupy)
    with kernelscope.record() as recorder:
        first(kernel)
        second(kernel)
    every = explain(recorder.recording).rows("compilations")
    rows = [each for each in every if each["reason_code"] == code]
    shown = [(each["signature"], each["outcome"], each["reason"]) for each in every]
    assert rows and all(each["outcome"] == "compiled" for each in rows), shown
    if fixed is None:
        assert all(each["fix"].startswith("nothing avoids it") for each in rows), shown
        return
    with kernelscope.record() as again:
        fixed(kernel)
    of_kernel = {recorder.recording.dispatchers["name"][each["dispatcher_id"]] for each in rows}
    compiled = [each for each in again.recording.rows("compilations") if each["outcome"] == "compiled"]
    names = again.recording.dispatchers["name"]
    assert not of_kernel & {names[each["dispatcher_id"]] for each in compiled}, shown


def test_the_disk_cache_with_options_times_and_another_architecture(cupy: Any) -> None:
    from cupy.cuda import compiler

    with kernelscope.record() as recorder:
        for arch in (None, None, "80"):
            compiler._compile_module_with_cache(RAW.format(11), ("-DN=4",), arch=arch, to_ltoir=arch is not None)
    first, again, other = explain(recorder.recording).rows("compilations")
    assert [row["outcome"] for row in (first, again, other)] == ["compiled", "disk", "compiled"]
    assert first["cache_key"] == again["cache_key"] and again["reason_code"] == "disk"
    assert other["reason_code"] == "new_device" and "sm_80" in other["reason"]
    (passed, _) = recorder.recording.rows("passes")
    assert passed["name"] == "nvrtc" and 0 < passed["duration_ns"] <= first["end_ns"] - first["start_ns"]


def test_launches_are_of_the_kernels(cupy: Any) -> None:
    with kernelscope.record(gpu="cupti") as recorder:
        raw("7")
    recording = recorder.recording
    (launch,) = [row for row in recording.rows("launches")
                 if recording.rows("dispatchers")[row["dispatcher_id"]]["name"] == "axpy"]
    assert recording.rows("dispatchers")[launch["dispatcher_id"]]["framework"] == "cupy"

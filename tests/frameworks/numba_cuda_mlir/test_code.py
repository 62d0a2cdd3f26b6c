"""The code of numba-cuda-mlir's kernels: MLIR beside source, types, PTX and SASS, and live kernels in the inspector."""

from __future__ import annotations

import pytest
from numba_cuda_mlir import cuda

import kernelscope
from kernelscope.analysis.code import code_text, line_map
from kernelscope.errors import KernelScopeError
from kernelscope.probes import code as code_rows
from kernelscope.views.inspector.model import code_of, inspect_kernels


@pytest.fixture(autouse=True)
def time_enough(monkeypatch):
    """A busy machine takes longer to disassemble than a recording waits for it."""
    monkeypatch.setattr(code_rows, "SASS_BUDGET_S", 120)


@cuda.jit(device=True)
def half(v):
    return v * 0.5


@cuda.jit(lineinfo=True)
def scale(x):
    i = cuda.grid(1)
    x[i] = half(x[i])


def test_every_form_is_recorded(kernels, array):
    with kernelscope.record(code=True) as r:
        kernels.axpy[2, 32](array, 2.0, array)
    (kernel,) = inspect_kernels(r.recording)
    (made,) = kernel.specializations
    assert kernel.framework == "numba-cuda-mlir"
    assert set(made.code) >= {"source", "types", "mlir", "ptx", "sass", "cubin"}
    mlir = code_text(r.recording, 0, "mlir")
    assert mlir.count("gpu.module @") == 2 and "\n// -----\n" in mlir
    assert "gpu.func @" in mlir.partition("// -----")[0] and "llvm.func @" in mlir.partition("// -----")[2]
    shown = code_of(r.recording, kernel, made, "mlir")
    assert shown.text == mlir and shown.name == "axpy.mlir"
    assert r.recording.health.status.tolist() == ["ok"]


def test_llvm_is_there_where_the_user_had_it_made(kernels, array):
    kernels.axpy[2, 32](array, 2.0, array)
    kernels.axpy.inspect_llvm()
    with kernelscope.record(code=True) as r:
        kernels.axpy[2, 32](array, 2.0, array)
    assert "define" in code_text(r.recording, 0, "llvm")


def test_mlir_is_tied_to_the_source(array):
    with kernelscope.record(code=True) as r:
        scale[2, 32](array)
    first = scale.py_func.__code__.co_firstlineno
    for kind in ("mlir", "ptx", "sass"):
        lines = line_map(kind, code_text(r.recording, 0, kind))
        assert {first + 2, first + 3} <= set(lines.line), kind
        assert any(file.endswith("test_code.py") for file in lines.files)


def test_live_kernel_in_the_inspector(kernels, array):
    kernels.axpy[2, 32](array, 2.0, array)
    widget = kernelscope.inspect(kernels.axpy)
    assert "numba-cuda-mlir" in repr(widget) and "registers" in repr(widget)
    recording = widget.source.recording
    assert "gpu.func" in code_text(recording, 0, "mlir")
    assert widget.source.can_compile is False
    with pytest.raises(KernelScopeError, match="lineinfo=True"):
        kernelscope.recorder.live.with_lineinfo(kernels.axpy, 0)
    kernels.axpy[2, 32](array, 2, array)
    assert widget.source.refresh()
    assert len(widget.source.kernels()[0].specializations) == 2


def test_what_is_no_kernel_is_called_by_its_name(kernels):
    with pytest.raises(TypeError, match="device function 'half'"):
        kernelscope.inspect(half)
    with pytest.raises(TypeError, match="'axpy' with a launch configuration"):
        kernelscope.inspect(kernels.axpy[1, 1])

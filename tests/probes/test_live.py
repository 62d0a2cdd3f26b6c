"""`kernelscope.recorder.live`: kernels of this process as recordings, and copies with line information."""

from __future__ import annotations

import base64
import gc
import weakref

import numpy as np
import pytest
from counting import lines_run
from numba import cuda, float32, float64, int64

import kernelscope
from kernelscope.analysis.code import code_text, line_map
from kernelscope.cubin import read
from kernelscope.errors import KernelScopeError
from kernelscope.recorder import live
from kernelscope.views.inspector.model import inspect_kernels


def test_what_is_a_kernel(kernels):
    assert live.is_kernel(kernels.axpy)
    for other in (kernels.axpy[1, 32], cuda.jit(device=True)(lambda x: x), print, 5, None, cuda):
        assert not live.is_kernel(other)
        with pytest.raises(TypeError, match="is no kernel: give a function that @cuda.jit made"):
            live.snapshot(other)


def test_without_numba_nothing_is_a_kernel(run_python):
    code = "from kernelscope.recorder import live; import sys; print(live.is_kernel(5), 'numba' in sys.modules)"
    assert run_python(code, KERNELSCOPE_DRYRUN="0").stdout == "False False\n"


def test_a_snapshot_has_facts_and_code(kernels, array):
    kernels.axpy[1, 32](array, 2.0, array)
    kernels.axpy[1, 32](array, 2, array)
    recording = live.snapshot(kernels.axpy)
    kernel, = inspect_kernels(recording)
    assert len(recording.launches) == len(recording.compilations) == 0
    assert recording.is_dry_run
    assert recording.metadata["code"]
    for specialization in kernel.specializations:
        compiled = list(kernels.axpy.overloads.values())[specialization.number - 1]
        assert specialization.regs == compiled.regs_per_thread
        assert specialization.code == ("source", "types", "llvm", "ptx", "cubin")
        assert code_text(recording, specialization.specialization_id, "ptx") == "\n\n".join(
            next(iter(compiled._codelibrary._ptx_cache.values())))
    assert [row["signature"] for row in recording.rows("specializations")] == [
        f"({', '.join(map(str, types))})" for types in kernels.axpy.overloads]
    assert recording.devices.max_blocks_per_multiprocessor.tolist() == [32]
    assert recording.health.empty


def test_offspring_for_launch_configurations(kernels, array):
    for block in (32, 64, 96):
        kernels.sensitive[1, block](array)
    rows = live.snapshot(kernels.sensitive).rows("specializations")
    assert len(rows) == 3
    assert {row["dispatcher_id"] for row in rows} == {0}
    assert [row["launch_config"] for row in rows] == [
        f'{{"griddim": [1, 1, 1], "blockdim": [{block}, 1, 1], "sharedmem_bytes": 0}}' for block in (32, 64, 96)]


def test_offspring_of_specialize_and_forall(kernels, array):
    kernels.axpy.specialize(array, 2.0, array)
    kernels.axpy.forall(64)(array, 2, array)
    rows = live.snapshot(kernels.axpy).rows("specializations")
    assert [row["signature"].split(", ")[3] for row in rows] == ["float64", "int64"]
    assert {row["dispatcher_id"] for row in rows} == {0}


def test_ids_stay_when_others_come(kernels, array):
    kernels.sensitive[1, 32](array)
    kernels.sensitive[1, 64](array)
    before = live.snapshot(kernels.sensitive).rows("specializations")
    # Of the first dispatcher, which comes before its offspring.
    kernels.sensitive[1, 32](cuda.to_device(np.zeros(4, np.int32)))
    after = live.snapshot(kernels.sensitive).rows("specializations")
    assert after[:2] == before
    assert len(after) == 3


def test_the_state_changes_when_specializations_do(kernels, array):
    seen = [live.state(kernels.axpy)]
    kernels.axpy[1, 32](array, 2.0, array)
    seen.append(live.state(kernels.axpy))
    kernels.axpy[2, 64](array, 3.0, array)
    assert live.state(kernels.axpy) == seen[-1]
    kernels.axpy[1, 32](array, 2, array)
    seen.append(live.state(kernels.axpy))
    kernels.axpy.specialize(array, 2.0, array)
    seen.append(live.state(kernels.axpy))
    kernels.axpy.recompile()
    seen.append(live.state(kernels.axpy))
    assert len(set(seen)) == 5
    assert lines_run(lambda: live.state(kernels.axpy)) < 100


def test_a_kernel_is_not_kept_alive(array):
    @cuda.jit
    def brief(x):
        x[0] = 1

    brief[1, 1](array)
    live.snapshot(brief)
    reference = weakref.ref(next(iter(brief.overloads.values())))
    brief.overloads.clear()
    gc.collect()
    assert live.snapshot(brief).specializations.empty
    brief._reset_overloads()
    gc.collect()
    assert reference() is None


@pytest.fixture(scope="module")
def plain():
    """A kernel without line information, and with two specializations."""

    @cuda.jit
    def plain(x, out, n):
        i = cuda.grid(1)
        if i < n:
            out[i] = x[i] * 2

    for kind in (float32, float64):
        plain.compile((kind[::1], kind[::1], int64))
    return plain


def test_a_copy_with_line_information(plain):
    code = live.with_lineinfo(plain, 1)
    assert set(code) == {"ptx", "cubin", "sass"}
    assert read(base64.b64decode(code["cubin"])).has_line_info
    first = plain.py_func.__code__.co_firstlineno
    for kind in ("ptx", "sass"):
        found = line_map(kind, code[kind])
        assert {first + 2, first + 3, first + 4} <= set(found.line)
        assert found.files == (plain.py_func.__code__.co_filename,)
    assert ".f64" in code["ptx"]
    assert ".f64" not in live.with_lineinfo(plain, 0)["ptx"]


def test_a_copy_leaves_no_trace(plain, array):
    def everything():
        kernels = list(plain.overloads.values())
        return (dict(plain.targetoptions), list(plain.overloads), list(map(id, kernels)), plain.stats,
                live.state(plain), [len(each._codelibrary._ptx_cache) for each in kernels],
                [len(each._codelibrary._cubin_cache) for each in kernels])

    before = everything()
    with kernelscope.record() as r:
        live.with_lineinfo(plain, 0)
    assert everything() == before
    recording = r.recording
    for table in ("compilations", "passes", "specializations", "dispatchers", "launches"):
        assert len(recording.rows(table)) == 0, table
    assert recording.health.errors.isna().all()
    # Compiles that follow are recorded as ever.
    with kernelscope.record() as r:
        live.with_lineinfo(plain, 0)
        cuda.jit(plain.py_func)[1, 1](array, array, 5)
    assert len(r.recording.compilations) == 1
    assert (r.recording.passes.compilation_id == 0).all()


def test_a_copy_of_a_kernel_that_depends_on_the_launch_configuration(kernels, array):
    kernels.sensitive[1, 32](array)
    kernels.sensitive[1, 64](array)
    before = live.state(kernels.sensitive)
    for number in (0, 1):
        assert not line_map("ptx", live.with_lineinfo(kernels.sensitive, number)["ptx"]).is_empty
    assert live.state(kernels.sensitive) == before
    assert not kernels.sensitive._launch_config_specializations.keys() - {((1, 1, 1), (64, 1, 1), 0)}


def test_a_copy_of_a_debug_kernel(array):
    @cuda.jit(debug=True, opt=False)
    def debugged(x):
        x[0] = 1

    debugged[1, 1](array)
    assert not line_map("sass", live.with_lineinfo(debugged, 0)["sass"]).is_empty


def test_a_specialization_that_is_not_there(plain):
    with pytest.raises(KernelScopeError, match="'plain' has 2 specializations now and no number 7: take a new"):
        live.with_lineinfo(plain, 7)


def test_a_copy_that_cannot_be_compiled(array):
    factor = 2

    @cuda.jit
    def closure(x):
        x[0] = factor

    closure[1, 1](array)
    factor = "no number"
    with pytest.raises(KernelScopeError, match="copy of 'closure' with line information cannot be compiled: Typing"):
        live.with_lineinfo(closure, 0)


def test_a_copy_without_a_disassembler(plain, monkeypatch):
    monkeypatch.setattr("kernelscope.cubin.find", lambda: None)
    assert set(live.with_lineinfo(plain, 0)) == {"ptx", "cubin"}

"""Compiles of numba-cuda-mlir: outcome, reason, passes, launch configurations, disk cache."""

from __future__ import annotations

import json
import threading
import warnings

import numpy as np
import pytest
from numba_cuda_mlir import cuda
from numba_cuda_mlir.numba_cuda.core.errors import NumbaPerformanceWarning, TypingError

import kernelscope
from kernelscope.analysis.compile_time import compile_times
from kernelscope.analysis.compiles import explain


def reasons(recording):
    return [row["reason_code"] for row in explain(recording).rows("compilations")]


def test_a_new_type_says_which_argument(kernels, array):
    other = cuda.to_device(np.zeros(64, np.float64))
    with kernelscope.record() as r:
        kernels.axpy[2, 32](array, 2.0, array)
        kernels.axpy[2, 32](array, 2, array)
        kernels.axpy[2, 32](array, 2, other)
    rows = explain(r.recording).rows("compilations")
    assert [row["reason_code"] for row in rows] == ["first_use", "new_scalar", "new_dtype"]
    assert [row["argument"] for row in rows] == [None, "a", "x"]
    assert {(row["trigger"], row["outcome"]) for row in rows} == {("launch", "compiled")}
    assert [row["launch_id"] for row in rows] == [0, 1, 2]
    assert [row["specialization_id"] for row in rows] == [0, 1, 2]
    assert all(row["configuration_id"] == 0 and row["wait_ns"] >= 0 for row in rows)


def test_passes_and_phases_fill_the_compile(kernels, array):
    kernels.axpy[2, 32](array, 2, array)  # the first one of a process sets numba-cuda-mlir up
    with kernelscope.record() as r:
        kernels.axpy[2, 32](array, 2.0, array)
    passes = r.recording.passes
    assert {"mlir_type_inference", "mlir_backend"} <= set(passes[passes.kind == "pass"].name)
    assert passes[passes.kind == "phase"].name.tolist() == ["mlir", "nvvm", "link"]
    (time,) = compile_times(r.recording)
    parts = {part.name: part.duration_ns for part in time.parts}
    assert list(parts) == ["wait for the compiler lock", "passes", "mlir", "nvvm", "link", "other"]
    assert sum(parts.values()) == time.duration_ns and parts["other"] < 0.5 * time.duration_ns


def test_launch_configurations_of_a_sensitive_kernel(kernels, array):
    with kernelscope.record() as r, warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaPerformanceWarning)
        for grid in (1, 2, 2, 1):
            kernels.sensitive[grid, 32](array)
        kernels.sensitive[1, 32, 0, 64](array)
    recording = r.recording
    assert recording.launches.specialization_id.tolist() == [0, 1, 1, 0, 2]
    assert recording.launches.cache.tolist() == ["compiled", "compiled", "memory", "memory", "compiled"]
    assert recording.specializations.launch_config_sensitive.all()
    assert [json.loads(text) for text in recording.specializations.launch_config] == [
        {"griddim": [grid, 1, 1], "blockdim": [32, 1, 1], "sharedmem_bytes": shared}
        for grid, shared in ((1, 0), (2, 0), (1, 64))]
    assert reasons(recording) == ["first_use", "launch_config", "launch_config"]
    assert kernels.sensitive.launch_config_stats.cache_misses.total() == 3
    fixes = [row["fix"] or "" for row in explain(recording).rows("compilations")]
    assert not any("cache=True" in fix for fix in fixes), "such specializations are kept in memory only"


def test_sensitive_kernels_compiled_before_keep_their_configuration(kernels, array):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaPerformanceWarning)
        kernels.sensitive[1, 32](array)
    with kernelscope.record() as r:
        kernels.sensitive[1, 32](array)
        kernels.sensitive[2, 32](array)
    rows = r.recording.rows("specializations")
    assert [row["origin"] for row in rows] == ["before", "compiled"]
    assert json.loads(rows[0]["launch_config"])["griddim"] == [1, 1, 1]
    assert reasons(r.recording) == ["launch_config"]


def test_recompile_is_the_reason_of_what_follows(kernels, array):
    kernels.axpy[2, 32](array, 2.0, array)
    with kernelscope.record() as r:
        kernels.axpy.recompile()
        kernels.axpy[2, 32](array, 2.0, array)
        kernels.axpy[2, 32](array, 2.0, array)
    assert reasons(r.recording) == ["recompile"]
    assert r.recording.launches.cache.tolist() == ["compiled", "memory"]


def test_eager_signatures_compile_at_the_definition(array):
    with kernelscope.record() as r:
        @cuda.jit("void(float32[:], float64)")
        def scale(x, a):
            x[0] *= a

        scale[1, 32](array, 2.0)
    (row,) = r.recording.rows("compilations")
    assert (row["trigger"], row["outcome"], row["launch_id"]) == ("eager", "compiled", None)
    assert r.recording.launches.cache.tolist() == ["memory"]
    assert r.recording.launches.specialization_id.tolist() == [0]
    assert reasons(r.recording) == ["eager"]


def test_specialize_and_compile_are_not_launches(kernels, array):
    with kernelscope.record() as r:
        kernels.axpy.specialize(array, 2.0, array)
        kernels.noop.compile(())
        kernels.noop.compile(())
    assert [(row["trigger"], row["outcome"]) for row in r.recording.rows("compilations")] == [
        ("specialize", "compiled"), ("compile", "compiled")]
    assert reasons(r.recording)[0] == "specialize"


def test_device_functions_are_a_part_of_their_kernel(array):
    @cuda.jit(device=True)
    def half(v):
        return v * 0.5

    @cuda.jit
    def kernel(x):
        x[0] = half(x[0])

    with kernelscope.record() as r:
        kernel[1, 1](array)
    assert len(r.recording.compilations) == len(r.recording.dispatchers) == 1


def test_a_definition_that_runs_again(array):
    def define():
        @cuda.jit
        def again(x):
            x[0] = 1
        return again

    with kernelscope.record() as r:
        define()[1, 1](array)
        define()[1, 1](array)
    assert reasons(r.recording) == ["first_use", "redefined"]


def test_a_failed_compile_is_a_row(array):
    @cuda.jit
    def untypable(x):
        x.no_such_method()

    with kernelscope.record() as r, pytest.raises(TypingError):
        untypable[1, 32](array)
    (row,) = r.recording.rows("compilations")
    assert row["outcome"] == "failed" and row["error"].startswith("TypingError: ")
    assert r.recording.launches.error.tolist() == ["TypingError"]
    assert r.recording.launches.compile_ns.iloc[0] > 0


def test_threads_that_want_the_same_kernel_compile_it_once(kernels, array):
    go = threading.Barrier(4)

    def launch():
        go.wait()
        kernels.axpy[2, 32](array, 2.0, array)

    with kernelscope.record() as r:
        threads = [threading.Thread(target=launch) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    outcomes = r.recording.compilations.outcome.tolist()
    assert outcomes.count("compiled") == 1 and set(outcomes) <= {"compiled", "wait"}
    assert set(r.recording.launches.specialization_id) == {0}


_CACHED = """
import sys, json
import numpy as np, kernelscope
from kernelscope.analysis.compiles import explain
from numba_cuda_mlir import cuda
@cuda.jit(cache=True, fastmath="fast" in sys.argv)
def axpy(out, a):
    out[0] += a
x = cuda.to_device(np.zeros(4, np.float32))
with kernelscope.record() as r:
    axpy[1, 1](x, 2.0)
(row,) = explain(r.recording).rows("compilations")
origin = r.recording.specializations.origin[0]
print(json.dumps([row["outcome"], row["reason_code"], origin, row["cache_file"][-4:], row["cache_data_file"][-4:],
                  r.recording.launches.cache[0], row["reason"], bool(row["cache_key"])]))
"""


def test_disk_cache(run_python, tmp_path):
    def run(*arguments):
        return json.loads(run_python(_CACHED, *arguments, NUMBA_CACHE_DIR=str(tmp_path / "cache")).stdout)

    assert run()[:6] == ["compiled", "cache_absent", "compiled", ".nbi", ".nbc", "compiled"]
    assert run()[:6] == ["disk", "disk", "disk", ".nbi", ".nbc", "disk"]
    unsafe = run("fast")
    assert unsafe[:2] == ["disk", "disk_unsafe"] and "fastmath=False" in unsafe[6]


def test_sensitive_kernels_have_no_disk_cache(kernels, array, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kernels.sensitive.enable_caching()
    with kernelscope.record() as r, warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaPerformanceWarning)
        kernels.sensitive[1, 1](array)
    assert r.recording.compilations.cache_file.isna().all()

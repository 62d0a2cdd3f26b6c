"""Compiles of cuda.core's programs: one row each, of known duration, with why it was needed."""

from __future__ import annotations

import sys
import threading
from typing import Any

import cuda.core
import cuda.core._program as program
import numpy as np
import pytest
from cuda.core import LaunchConfig, Program, ProgramOptions
from numba import cuda as numba_cuda

import kernelscope
from kernelscope.analysis.compiles import compilations, compile_ns
from kernelscope.analysis.launches import by_kernel
from kernelscope.analysis.wall_time import wall_times
from kernelscope.probes.base import Probe
from kernelscope.probes.cuda_core import CudaCoreProbe
from kernelscope.probes.cuda_core.compile import kernels

ORIGINAL = program._program_compile_uncached
CODE = 'extern "C" __global__ void {name}(float *x, float by) {{ x[threadIdx.x] *= {by}; }}'


class HookOnly(CudaCoreProbe):
    """The probe without what follows graphs; what a launch costs is not measured."""

    def install(self, sink: Any, detail: str) -> None:
        Probe.install(self, sink, detail)

    def cost_per_launch_ns(self, detail: str) -> float | None:
        return None


@pytest.fixture
def recorder() -> Any:
    return kernelscope.Recorder("compiles", probes=[HookOnly()])


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert program._program_compile_uncached is ORIGINAL


def compiled(device: Any, name: str = "scale", by: str = "by", target: str = "cubin", **options: Any) -> Any:
    options = ProgramOptions(**({"arch": f"sm_{device.arch}"} | options))
    return Program(CODE.format(name=name, by=by), "c++", options).compile(target)


def test_a_compile_is_recorded_with_its_time_and_why(recorder, device):
    with recorder:
        code = compiled(device)
    assert code.get_kernel("scale") is not None
    recording = recorder.recording
    (each,) = compilations(recording)
    assert (each.name, each.framework, each.outcome, each.reason_code) == (
        "scale", "cuda.core", "compiled", "first_use")
    assert each.duration_ns == compile_ns(recording) > 0
    assert wall_times(recording)[0].parts["compile"] == each.duration_ns
    (row,) = recording.passes.itertuples()
    assert (row.name, row.duration_ns) == ("nvrtc", each.duration_ns)
    (specialization,) = recording.table("specializations").itertuples()
    assert (specialization.origin, specialization.entry_name) == ("compiled", "scale")
    assert specialization.compute_capability == f"{device.arch[:-1]}.{device.arch[-1]}"
    (line,) = recording.lines[recording.lines.line_id == recording.compilations.line_id[0]].itertuples()
    assert "Program(" in line.text


@pytest.mark.filterwarnings("ignore:The CUDA driver version is older")  # the null driver's is
def test_what_is_new_in_each_compile(recorder, device):
    with recorder:
        for options in ({}, {}, {"std": "c++14"}, {"by": "2 * by"}, {"target": "ptx"}, {"name": "other"}):
            compiled(device, **{"std": "c++17"} | options)
    found = sorted(compilations(recorder.recording), key=lambda each: each.compilation_id)
    assert [(each.name, each.reason_code) for each in found] == [
        ("scale", "first_use"), ("scale", "recompile"), ("scale", "new_option"), ("scale", "redefined"),
        ("scale", "new_option"), ("other", "first_use")]
    assert found[2].reason == "std is c++14; in the nearest known specialization it is c++17"
    assert "cache=" in (found[1].fix or "") and "std=c++17" in (found[2].fix or "")
    assert len({each.dispatcher_id for each in found}) == 2


def test_a_launch_is_of_what_was_compiled(recorder, device, stream):
    with recorder:
        kernel = compiled(device).get_kernel("scale")
        cuda.core.launch(stream, LaunchConfig(grid=1, block=32), kernel, np.intp(0), np.float32(1))
    recording = recorder.recording
    (launch,) = recording.launches.itertuples()
    (specialization,) = recording.table("specializations").itertuples()
    assert launch.specialization_id == recording.compilations.specialization_id[0] == specialization.specialization_id
    assert (specialization.signature, specialization.regs) == ("(8 bytes, 4 bytes)", kernel.attributes.num_regs)
    (kernel,) = by_kernel(recording)
    assert (kernel.name, kernel.launches, kernel.compiles) == ("scale", 1, 1)


def test_of_several_results_a_launch_is_of_the_kernel_alone(recorder, device, stream):
    with recorder:
        first, second = (compiled(device, std=each).get_kernel("scale") for each in ("c++14", "c++17"))
        for kernel in (first, second):
            cuda.core.launch(stream, LaunchConfig(grid=1, block=32), kernel, np.intp(0), np.float32(1))
    recording = recorder.recording
    assert len(recording.dispatchers) == 1 and len(recording.launches) == 2
    assert not set(recording.launches.specialization_id) & set(recording.compilations.specialization_id)
    assert set(recording.table("specializations").origin) == {"compiled"}


def test_all_kernels_of_a_program_are_rows_and_its_time_counts_once(recorder, device):
    code = CODE.format(name="one", by="by") + CODE.format(name="two", by="by")
    with recorder:
        Program(code, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
    recording = recorder.recording
    assert sorted(recording.dispatchers.name) == ["one", "two"]
    spent = (recording.compilations.end_ns - recording.compilations.start_ns).tolist()
    assert spent[0] == compile_ns(recording) and spent[1] == 0


def test_templates_are_named_by_what_asks_for_them(recorder, device):
    code = "template <typename T> __global__ void fill(T *x, T value) { x[threadIdx.x] = value; }"
    with recorder:
        Program(code, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile(
            "cubin", name_expressions=("fill<float>",))
    assert recorder.recording.dispatchers.name.tolist() == ["void fill<float>"]
    assert recorder.recording.compilations.signature.tolist() == ["(float*, float)"]


def test_a_failed_compile_fails_for_the_user_too(recorder, device):
    with recorder, pytest.raises(Exception, match="NVRTC") as caught:
        Program("__global__ void broken( {", "c++", ProgramOptions(name="step")).compile("cubin")
    assert "kernelscope" not in {frame.frame.f_globals.get("__name__", "").partition(".")[0]
                                 for frame in caught.traceback[1:]}
    (each,) = compilations(recorder.recording)
    assert (each.name, each.outcome) == ("step", "failed") and "NVRTC" in (each.error or "")


def test_a_hit_of_the_users_cache_is_no_compile(recorder, device):
    from cuda.core.utils import InMemoryProgramCache

    cache = InMemoryProgramCache()
    with recorder:
        for _ in range(3):
            Program(CODE.format(name="scale", by="by"), "c++",
                    ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin", cache=cache)
    assert len(recorder.recording.compilations) == 1


def test_each_thread_has_its_own_compiles(recorder, device):
    def work(at: int) -> None:
        device.set_current()
        compiled(device, f"kernel_{at}")

    with recorder:
        threads = [threading.Thread(target=work, args=(at,)) for at in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert sorted(recorder.recording.dispatchers.name) == ["kernel_0", "kernel_1", "kernel_2"]
    assert recorder.recording.compilations.thread_id.nunique() == 3


def test_what_numba_compiles_through_it_is_numbas(device):
    twice = numba_cuda.declare_device("twice", "float32(float32)", link=[numba_cuda.CUSource(
        'extern "C" __device__ int twice(float *result, float x) { *result = 2 * x; return 0; }')])

    @numba_cuda.jit
    def double(out):
        out[0] = twice(out[0])

    array = numba_cuda.device_array(32, np.float32)
    recorder = kernelscope.Recorder("both", probes=[kernelscope.recorder.session.NumbaCudaProbe(), HookOnly()])
    with recorder:
        double[1, 32](array)
    assert recorder.recording.dispatchers.framework.tolist() == ["numba-cuda"]
    assert len(recorder.recording.compilations) == 1


def test_another_version_says_that_compiles_are_not_recorded(recorder, device, monkeypatch):
    monkeypatch.delattr(program, "_program_compile_uncached")
    with recorder:
        pass
    monkeypatch.undo()
    (row,) = [each for each in recorder.recording.rows("health") if each["probe"] == "cuda.core"]
    assert row["status"] == "degraded" and "compiles of cuda.core" in row["message"]


def test_the_programs_options_hold_no_path_of_this_machine(recorder, device, tmp_path):
    with recorder:
        compiled(device, include_path=str(tmp_path), define_macro=("N", "4"))
    (row,) = recorder.recording.rows("specializations")
    assert str(tmp_path) not in row["attributes"] and "define_macro" in row["attributes"]


def test_names_are_read_from_ptx_and_from_cubins():
    ptx = b".visible .entry one(\n.param .u64 p)\n{}\n.entry _Z3twov()\n{}\n.func three()\n{}"
    assert kernels(ptx, "ptx") == ["one", "_Z3twov"]
    assert kernels(b"\x00.nv.constant0.one\x00.text.helper\x00.nv.constant0.one\x00", "cubin") == ["one"]
    assert kernels(b"anything", "ltoir") == []
    assert sys.modules["cuda.core._program"] is program

"""Launches of kernels that no probe recorded become rows of ``launches``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import kernelscope
from kernelscope.errors import UnknownFrameworkError
from kernelscope.recording.build import RawRecording, build
from kernelscope.recording.driver import are_hooked, library_of, split_name, without_scopes
from kernelscope.recording.joins import ACTIVITY_COLUMNS, CALL_COLUMNS, RawActivities
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

RECORDINGS = Path(__file__).parents[2] / "notebooks" / "recordings"
NAMES = ["cuLaunchKernel", "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "void at::native::f<float>(int)", "axpy",
         "memcpy"]
ENTRIES = ["_ZN2at6native1fIfEEvi", "axpy_entry"]
IDENT = 11


def call(name: int, start: int, end: int, correlation: int, ident: int = IDENT, result: int = 0) -> dict[str, int]:
    return {"name": name, "ident": ident, "start_ns": start, "end_ns": end, "correlation_id": correlation,
            "result": result}


def kernel(start: int, end: int, correlation: int, entry: int = 0, **other: int) -> dict[str, int]:
    return {"kind": 0, "name": 3 + entry, "entry": entry, "device": 0, "stream": 7, "start_ns": start, "end_ns": end,
            "correlation_id": correlation, "regs": 32, "shape": 0} | other


def columns(rows: list[dict[str, int]], names: tuple[str, ...]) -> dict[str, np.ndarray]:
    return {name: np.array([row.get(name, UNKNOWN) for row in rows], np.int64) for name in names}


def recorded(calls: list[dict[str, int]], activities: list[dict[str, int]],
             launches: list[tuple[int, int]] = (),  # type: ignore[assignment]
             framework: str = "numba-cuda") -> Recording:
    """Return what is built of driver calls and kernels, beside launches of a framework's `axpy` at the given times."""
    raw = RawRecording(
        threads=[{"ident": IDENT, "name": "MainThread"}],
        cells=[{"execution_count": 1, "start_ns": 0, "end_ns": 10_000, "status": "ok", "source": "x"}],
        activities=RawActivities(
            columns(activities, ACTIVITY_COLUMNS), columns(calls, CALL_COLUMNS), NAMES, ENTRIES,
            [(4, 1, 1, 128, 1, 1, None, None, None, 512)]))
    if launches or framework != "numba-cuda":
        raw.dispatchers = [{"framework": framework, "name": "axpy"}]
        raw.specializations = [{"dispatcher_id": 0, "signature": "()", "entry_name": "axpy_entry",
                                "origin": "before"}]
    if launches:
        raw.configurations = [{"griddim_x": 4}]
        raw.targets = [{"dispatcher_id": 0, "specialization_id": 0, "device_id": UNKNOWN, "error": None}]
        start, end = (np.array(each, np.int64) for each in zip(*launches, strict=True))
        at = np.zeros(len(start), np.int32)
        raw.launches = {"thread_id": at, "line_id": at - 1, "stack_id": at - 1, "target": at, "configuration": at,
                        "start_ns": start, "dispatch_end_ns": start + 1, "submit_start_ns": start + 2,
                        "submit_end_ns": end - 1, "end_ns": end}
    return build(raw)


def test_a_call_that_no_probe_saw_is_a_launch() -> None:
    found = recorded([call(1, 100, 110, 5)], [kernel(120, 150, 5)])
    launch, = found.rows("launches")
    assert [launch[name] for name in ("start_ns", "submit_start_ns", "submit_end_ns", "end_ns")] == [100, 100, 110, 110]
    assert launch["dispatch_end_ns"] is None and launch["cache"] is None and launch["compile_ns"] is None
    assert (launch["queue_ns"], launch["execute_ns"], launch["correlation_id"]) == (10, 30, 5)
    assert (launch["cell_id"], launch["thread_id"], launch["device_id"]) == (0, 0, 0)
    dispatcher, = found.rows("dispatchers")
    assert (dispatcher["framework"], dispatcher["name"], dispatcher["module"]) == ("driver", "f<float>", "PyTorch")
    specialization, = found.rows("specializations")
    assert (specialization["signature"], specialization["regs"]) == ("(int)", 32)
    assert specialization["entry_name"] == ENTRIES[0]
    configuration = found.rows("configurations")[launch["configuration_id"]]
    assert (configuration["griddim_x"], configuration["blockdim_x"], configuration["sharedmem_bytes"]) == (4, 128, 512)
    activity, = found.rows("activities")
    assert (activity["launch_id"], activity["specialization_id"], activity["api"]) == (0, 0, NAMES[1])


def test_nothing_is_counted_twice() -> None:
    """A runtime call and the driver's inside have one id; recorded launches, graphs and copies are none of these."""
    found = recorded(
        [call(0, 205, 215, 1), call(1, 300, 330, 2), call(0, 305, 325, 2), call(1, 400, 410, 3), call(2, 500, 510, 4)],
        [kernel(220, 230, 1, entry=1), kernel(340, 350, 2), kernel(420, 430, 3, cupti_graph_id=9),
         kernel(520, 530, 4, kind=1, name=5)],
        launches=[(200, 220)])
    launches = found.launches
    assert launches.start_ns.tolist() == [200, 300]
    assert found.activities.launch_id.tolist()[:2] == [0, 1] and found.activities.launch_id.isna().tolist()[2:] == [
        True, True]
    assert [found.rows("dispatchers")[at]["framework"] for at in launches.dispatcher_id] == ["numba-cuda", "driver"]


def test_of_a_kernel_that_inductor_tuned_the_number_of_threads_tells_the_specialization() -> None:
    def launched(*warps: int | None, dispatchers: int = 1) -> tuple[str, int]:
        raw = RawRecording(
            threads=[{"ident": IDENT, "name": "MainThread"}],
            cells=[{"execution_count": 1, "start_ns": 0, "end_ns": 10_000, "status": "ok", "source": "x"}],
            dispatchers=[{"framework": "triton", "name": "axpy"}] * dispatchers,
            specializations=[{
                "dispatcher_id": at % dispatchers, "signature": f"({at})", "entry_name": "axpy_entry",
                "origin": "compiled", "attributes": json.dumps({"options": {"num_warps": each}})}
                for at, each in enumerate(warps)],
            activities=RawActivities(
                columns([kernel(120, 150, 5, entry=1)], ACTIVITY_COLUMNS),
                columns([call(0, 100, 110, 5)], CALL_COLUMNS),
                NAMES, ENTRIES, [(4, 1, 1, 128, 1, 1, None, None, None, 512)]))
        found = build(raw)
        launch, = found.rows("launches")
        activity, = found.rows("activities")
        assert activity["specialization_id"] == launch["specialization_id"]
        return found.rows("dispatchers")[launch["dispatcher_id"]]["framework"], launch["specialization_id"]

    assert launched(8, 4) == ("triton", 1) and launched(4, 8, 16) == ("triton", 0)
    assert launched(4, 4) == ("driver", 2)  # it can be either
    assert launched(2, 8) == ("driver", 2) and launched(4, None) == ("driver", 2)
    assert launched(4, 8, dispatchers=2) == ("driver", 2)  # two kernels of one name


def test_launches_stay_in_order_and_keep_what_names_them() -> None:
    """A driver's launch before another moves that one's number; one inside of another has it as its parent."""
    found = recorded(
        [call(0, 50, 60, 1), call(1, 203, 205, 2), call(0, 206, 215, 3)],
        [kernel(70, 80, 1), kernel(216, 219, 2), kernel(220, 230, 3, entry=1)], launches=[(200, 220)])
    launches = found.launches
    assert launches.start_ns.tolist() == [50, 200, 203] and launches.launch_id.tolist() == [0, 1, 2]
    assert launches.parent_launch_id.fillna(-1).tolist() == [-1, -1, 1]
    assert found.activities.launch_id.tolist() == [0, 2, 1]


def test_kernels_of_one_call_are_one_launch_and_threads_are_told_apart() -> None:
    found = recorded([call(0, 100, 110, 1), call(0, 100, 110, 2, ident=12)],
                     [kernel(120, 130, 1), kernel(140, 155, 1), kernel(160, 170, 2)])
    assert found.launches.execute_ns.tolist() == [25, 10]
    assert found.launches.queue_ns.tolist() == [10, 50]
    assert found.activities.launch_id.tolist() == [0, 0, 1]


def test_a_kernel_that_a_probe_knows_stays_its_own() -> None:
    """Such as a kernel of numba's that a library launches by its handle."""
    found = recorded([call(0, 205, 215, 1), call(0, 300, 310, 2)],
                     [kernel(220, 230, 1, entry=1), kernel(320, 330, 2, entry=1)], launches=[(200, 220)])
    assert found.launches.dispatcher_id.tolist() == [0, 0] and len(found.dispatchers) == 1


def test_launches_of_kernels_whose_compiles_were_recorded_are_of_these() -> None:
    found = recorded([call(0, 100, 110, 5)], [kernel(120, 150, 5, entry=1)], framework="cupy")
    (launch,) = found.rows("launches")
    assert (launch["dispatcher_id"], launch["specialization_id"], launch["execute_ns"]) == (0, 0, 30)
    assert [row["framework"] for row in found.rows("dispatchers")] == ["cupy"]
    assert are_hooked(found).tolist() == [False], "CUPTI saw it, no hook was at it"


def test_times_that_are_not_known_stay_unknown() -> None:
    found = recorded([call(0, 100, 110, 1)], [kernel(UNKNOWN, UNKNOWN, 1)])
    assert found.launches.execute_ns.isna().all() and found.launches.queue_ns.isna().all()
    assert len(recorded([], [kernel(120, 150, 5)]).launches) == 0  # whose call is not known


@pytest.mark.parametrize(("name", "function", "parameters"), [
    ("void at::native::f<4, at::native::g<float>, std::array<char*, 1ul> >(int, at::native::g<float>)",
     "at::native::f<4, at::native::g<float>, std::array<char*, 1ul> >", "(int, at::native::g<float>)"),
    ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(cublasGemvParamsEx<int>)",
     "internal::gemvx::kernel<int>", "(cublasGemvParamsEx<int>)"),
    ("void (anonymous namespace)::f(int, void (*)(int))", "(anonymous namespace)::f", "(int, void (*)(int))"),
    ("axpy", "axpy", "()"), ("", "", "()"), ("(int)", "(int)", "()"), ("f)", "f)", "()"), ("void f(", "void f(", "()"),
])
def test_names_are_split(name: str, function: str, parameters: str) -> None:
    assert split_name(name) == (function, parameters)


@pytest.mark.parametrize(("name", "short"), [
    ("at::native::vectorized<4, at::native::Fill<float>, std::array<char*, 1ul> >",
     "vectorized<4, Fill<float>, array<char*, 1ul> >"),
    ("cutlass::Kernel2<cutlass_80_simt>", "cutlass::Kernel2<cutlass_80_simt>"),
    ("a::mse(b::c&)::{lambda()#1}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}",
     "mse(c&)::{lambda(float)#1}"),
    ("(anonymous namespace)::f<std::plus<float> >", "f<plus<float> >"), ("axpy", "axpy"), ("", ""),
])
def test_scopes_are_left_out(name: str, short: str) -> None:
    assert without_scopes(name) == short


def test_libraries_are_known_by_their_kernels_names() -> None:
    known = kernelscope.load(RECORDINGS / "lines_training.kscope").dispatchers
    assert set(known.framework) == {"driver"} and set(known.module) == {"PyTorch", "cuBLAS"}
    assert library_of("ncclDevKernel_AllReduce_Sum_f32_RING_LL") == "NCCL"
    assert library_of("cupy_multiply__float32_float_float32") == "CuPy"
    assert library_of("triton_poi_fused_add_0") == "PyTorch Inductor"
    assert library_of("my_kernel") is None


def test_a_framework_is_selected() -> None:
    recording = kernelscope.load(RECORDINGS / "gpu.kscope")
    driver, numba = recording.select(framework="driver"), recording.select(framework="numba-cuda")
    assert len(driver.launches) + len(numba.launches) == len(recording.launches)
    assert set(driver.dispatchers.framework) == {"driver"} and len(driver.launches) == 60
    assert len(driver.activities) == 60 and (driver.activities.kind == "kernel").all()
    assert len(numba.compilations) == len(recording.compilations) and not len(driver.compilations)
    assert set(recording.select(framework="CuPy").dispatchers.name) == {"cupy_multiply__float32_float_float32"}
    assert len(recording.select(framework="CuPy", cell=3).launches) == 10
    with pytest.raises(UnknownFrameworkError, match=r"no kernel of 'triton' .*; known: numba-cuda, driver, PyTorch"):
        recording.select(framework="triton")


def test_what_recording_cost_is_of_the_launches_that_probes_recorded() -> None:
    recording = kernelscope.load(RECORDINGS / "gpu.kscope")
    cell, = [row["cell_id"] for row in recording.rows("cells") if row["name"] == "other libraries"]
    stated, own = ([row["total_cost_ns"] for row in each.rows("health") if row["total_cost_ns"]]
                   for each in (recording, recording.select(cell=cell)))
    assert stated and own == [pytest.approx(cost * 10 / 650) for cost in stated]

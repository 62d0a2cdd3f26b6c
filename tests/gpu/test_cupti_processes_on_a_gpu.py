"""CUPTI on a real GPU in processes of their own: other clients of it, interrupts, forks, and how a process ends."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu
pytest.importorskip("numba.cuda")


def test_native_ranges_of_torch():
    code = """
        import kernelscope, torch
        with kernelscope.record() as r:
            t = torch.ones(1000, device="cuda")
            torch.cuda.nvtx.range_push("outer")
            torch.cuda.nvtx.range_push("inner")
            t + 1
            torch.cuda.nvtx.range_pop()
            torch.cuda.nvtx.range_pop()
            number, other = (torch.cuda.nvtx.range_start(name) for name in ("started", "crossing"))
            torch.cuda.nvtx.range_end(number)
            torch.cuda.nvtx.range_end(other)
            torch.cuda.nvtx.mark("point")
            with kernelscope.annotate("ours", domain="mine", color="green"):
                t + 2
        ranges = r.recording.ranges
        print(ranges[["name", "domain", "kind", "source", "depth"]].to_string())
        assert ranges.name.tolist() == ["outer", "inner", "started", "crossing", "point", "ours"]
        assert ranges.source.tolist() == ["native"] * 5 + ["python"]
        assert ranges.kind.tolist() == ["push_pop", "push_pop", "start_end", "push_pop", "mark", "push_pop"]
        assert ranges.depth.tolist() == [0, 1, 0, 0, 0, 0]
        assert ranges.end_ns.notna().all()
        inner = ranges.iloc[1]
        kernels = r.recording.activities.query("kind == 'kernel'")
        assert ((kernels.submit_start_ns > inner.start_ns) & (kernels.submit_end_ns < inner.end_ns)).sum() == 1
        import os
        assert "NVTX_INJECTION64_PATH" not in os.environ
    """
    run(code)


def test_torch_profiler_in_a_recorded_cell_and_a_recording_after_it_both_see_the_gpu():
    code = """
        import kernelscope, torch
        from torch.profiler import ProfilerActivity, profile
        t = torch.ones(1000, device="cuda")
        with kernelscope.record() as r:
            t + 1
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
                for _ in range(5):
                    t + 1
                torch.cuda.synchronize()
        assert sum(str(e.device_type).endswith("CUDA") for e in p.events()) >= 5
        assert len(r.recording.activities.query("kind == 'kernel'")) == 6
        with kernelscope.record() as after:
            t + 1
        for recording in (r.recording, after.recording):
            (row,) = recording.health.query("probe == 'cupti'").itertuples()
            assert row.status == "degraded" and "torch.profiler has CUPTI in this process" in row.message, row
            assert "restart the kernel" in row.fix, row
            assert recording.cells.status.tolist() == ["ok"]
        assert len(after.recording.activities.query("kind == 'kernel'")) == 1
        print(after.recording.summary())
    """
    run(code)


def test_a_recording_inside_torch_profiler_states_that_it_has_no_gpu_times():
    code = """
        import kernelscope, torch, numpy as np
        from numba import cuda
        from torch.profiler import ProfilerActivity, profile

        @cuda.jit
        def nothing():
            pass

        nothing[1, 1]()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
            with kernelscope.record() as r:
                for _ in range(5):
                    nothing[1, 1]()
            torch.cuda.synchronize()
        assert sum(str(e.device_type).endswith("CUDA") for e in p.events()) >= 5
        recording = r.recording
        assert len(recording.launches) == 5 and recording.launches.execute_ns.isna().all()
        assert recording.activities.query("kind == 'kernel'").empty, recording.activities.to_string()
        rows = recording.health.query("probe == 'cupti'")
        assert "torch.profiler still ran when this recording ended" in rows.message.str.cat(sep=" "), rows.to_string()
        assert "record around torch.profiler, not inside" in rows.fix.str.cat(sep=" "), rows.to_string()
    """
    run(code)


def test_recording_starts_cuda_for_nobody():
    code = """
        import ctypes, kernelscope
        import cuda.bindings.driver as driver
        with kernelscope.record() as r:
            error, count = driver.cuDeviceGetCount()
            assert error == driver.CUresult.CUDA_ERROR_NOT_INITIALIZED, error
        assert r.recording.health.status.eq("ok").all(), r.recording.health.to_string()
    """
    run(code)


def test_a_forked_child_leaves_cupti_alone():
    code = """
        import os, sys
        import numpy as np, kernelscope
        from numba import cuda

        @cuda.jit
        def nothing():
            pass

        nothing[1, 1]()
        recorder = kernelscope.Recorder().start()
        recorder.begin_cell("fork")
        nothing[1, 1]()
        child = os.fork()
        if not child:
            recorder.stop()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        nothing[1, 1]()
        recording = recorder.stop()
        assert recording.launches.execute_ns.notna().tolist() == [True, True]
    """
    run(code, warnings="ignore::DeprecationWarning")


def run(code, warnings="error"):
    result = subprocess.run([sys.executable, "-W", warnings, "-W", "ignore::UserWarning", "-c", textwrap.dedent(code)],
                            capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_newest_cupti_on_this_driver():
    """Another version of CUPTI, with larger records, where a wheel of it is on the path."""
    found = next((path for folder in sys.path for path in Path(folder or ".").glob("nvidia/cu13/lib/libcupti.so.*")
                  if "torch" not in str(path)), None)
    if found is None:
        pytest.skip("no second CUPTI here")
    code = f"""
        import ctypes, kernelscope
        ctypes.CDLL({str(found)!r})
        from numba import cuda
        from kernelscope.probes.cupti import library

        @cuda.jit
        def nothing():
            pass

        with kernelscope.record() as r:
            for _ in range(100):
                nothing[1, 1]()
            cuda.to_device([1.0, 2.0])
        assert library.find() == {str(found)!r}
        print(r.recording.health.to_string())
        assert r.recording.launches.execute_ns.notna().all()
        assert len(r.recording.activities.query("kind == 'memcpy'")) == 1
    """
    run(code)


def test_ctrl_c_reaches_the_user_and_the_recording_stays_right():
    code = """
        import signal, kernelscope
        from numba import cuda

        @cuda.jit
        def nothing():
            pass

        nothing[1, 1]()
        arrived = 0
        for attempt in range(40):
            with kernelscope.record() as r:
                made = 0
                try:
                    signal.signal(signal.SIGALRM, signal.default_int_handler)
                    signal.setitimer(signal.ITIMER_REAL, 0.004 + attempt * 0.0007)
                    while True:
                        nothing[1, 1]()
                        made += 1
                except KeyboardInterrupt:
                    arrived += 1
            launches = r.recording.launches
            assert made <= len(launches) <= made + 1, (made, len(launches))
            assert launches.execute_ns.notna().sum() >= made
            assert (r.recording.health.dropped.dropna() == 0).all()
        assert arrived == 40
    """
    run(code)


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)", "__import__('signal').raise_signal(2)"])
def test_the_interpreter_ends_in_the_middle_of_a_recording(ending):
    code = f"""
        import kernelscope
        from numba import cuda

        @cuda.jit
        def nothing():
            pass

        recorder = kernelscope.Recorder().start()
        for _ in range(5000):
            nothing[1, 1]()
        try:
            {ending}
        except KeyboardInterrupt:
            pass
    """
    run(code)


def test_kernels_of_a_module_that_was_unloaded_keep_their_names():
    code = """
        import gc, kernelscope
        from numba import cuda

        def make():
            @cuda.jit
            def short_lived():
                pass
            return short_lived

        with kernelscope.record() as r:
            for _ in range(3):
                kernel = make()
                kernel[1, 1]()
                del kernel
                gc.collect()
        kernels = r.recording.activities.query("kind == 'kernel'")
        assert kernels.name.str.contains("short_lived").tolist() == [True] * 3, kernels.name.tolist()
    """
    run(code)

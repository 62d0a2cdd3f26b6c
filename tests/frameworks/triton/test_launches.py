"""Triton itself on the null driver: launches with their configurations, and that nothing of ours is left behind."""

from __future__ import annotations

import gc
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest
import triton
from triton.backends.nvidia.driver import CudaLauncher
from triton.runtime.jit import JITFunction

import kernelscope
from kernelscope.errors import ProbeUnavailableError
from kernelscope.native import core
from kernelscope.probes import triton as probes
from kernelscope.probes.base import Patches, numbers_of
from kernelscope.probes.cost import measure
from kernelscope.probes.sink import Sink
from kernelscope.probes.triton.kernels import KernelRows
from kernelscope.probes.triton.launch import LaunchHooks
from kernelscope.recording.model import Recording

OURS = Path(kernelscope.__file__).parent


def triton_health(recording: Recording) -> list[tuple[str, str | None]]:
    return [(row["status"], row["message"]) for row in recording.rows("health") if row["probe"] == "triton"]


def test_version_is_one_that_is_known() -> None:
    assert numbers_of(triton.__version__)[:2] in map(numbers_of, probes.KNOWN_VERSIONS)


def test_launches_have_configurations_phases_and_sizes(make: Any, x: Any) -> None:
    axpy = make()
    evaluated = []

    def grid(meta: dict[str, Any]) -> tuple[int, int]:
        evaluated.append(meta["BLOCK"])
        return triton.cdiv(meta["n"], meta["BLOCK"]), 2

    with kernelscope.record() as recorder:
        for _ in range(3):
            axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
        kernel = axpy[grid](x, x, n=1024, a=2.0, BLOCK=256)
        axpy[(4, 1, 1)](x, x, 1024, 2.0, BLOCK=256, num_warps=8, num_ctas=2)
    recording = recorder.recording
    assert evaluated == [256], "the user's grid is asked once"
    assert type(kernel).__name__ == "CompiledKernel"
    rows = recording.rows("launches")
    assert [row["cache"] for row in rows] == ["compiled", "memory", "memory", "memory", "compiled"]
    for row in rows:
        times = [row[f"{name}_ns"] for name in ("start", "dispatch_end", "submit_start", "submit_end", "end")]
        assert times == sorted(times)
        assert row["error"] is None and row["device_id"] == 0
    assert 0 < rows[0]["compile_ns"] < rows[0]["dispatch_end_ns"] - rows[0]["start_ns"]
    shapes = [tuple(recording.rows("configurations")[row["configuration_id"]][name] for name in (
        "griddim_x", "griddim_y", "griddim_z", "blockdim_x", "blockdim_y", "cluster_x", "sharedmem_bytes", "stream"))
        for row in rows]
    assert shapes == [*[(4, 1, 1, 128, 1, None, 0, 0)] * 3, (4, 2, 1, 128, 1, None, 0, 0), (4, 1, 1, 256, 1, 2, 0, 0)]
    (dispatcher,) = recording.rows("dispatchers")
    assert (dispatcher["framework"], dispatcher["name"], dispatcher["module"]) == ("triton", "axpy", axpy.module)
    assert (dispatcher["arguments"], dispatcher["lineno"]) == ("x, y, n, a, BLOCK", 6)
    assert dispatcher["filename"].endswith("kernels.py")
    first = recording.rows("specializations")[0]
    assert first["signature"] == "*fp32:16, *fp32:16, i32:16, fp32, BLOCK=256"
    assert (first["compute_capability"], first["entry_name"], first["regs"]) == ("9.0", "axpy", kernel.n_regs)
    assert first["max_threads"] == kernel.n_max_threads and first["cubin_bytes"] == len(kernel.asm["cubin"])
    assert first["spill_store_bytes"] == 0
    attributes = json.loads(first["attributes"])
    assert attributes["types"] == {"x": "*fp32", "y": "*fp32", "n": "i32", "a": "fp32"}
    assert attributes["constexprs"] == {"BLOCK": "256"}
    assert attributes["divisible_by_16"] == ["x", "y", "n"] and attributes["equal_to_1"] == []
    assert (attributes["options"]["num_warps"], attributes["target"], attributes["hash"]) == (4, "cuda:90", kernel.hash)
    assert recording.metadata["packages"]["triton"] == triton.__version__
    assert [status for status, _ in triton_health(recording)] == ["ok"]


def test_torch_is_not_asked_for_the_device(tmp_path: Path) -> None:
    """With torch imported, Triton takes the device and the stream of torch, which has none on the dry run."""
    script = tmp_path / "with_torch.py"
    script.write_text("""
import sys
import types

sys.modules["torch"] = types.SimpleNamespace(  # without a GPU
    Tensor=type("Tensor", (), {}),
    cuda=types.SimpleNamespace(is_available=lambda: False), version=types.SimpleNamespace(hip=None))

from kernelscope import dryrun
dryrun.enable()

import triton
import triton.language as tl

@triton.jit
def zero(x):
    tl.store(x, 0.0)

zero[(4,)](dryrun.array(16))
print(triton.runtime.driver.active.get_current_target().arch, dryrun.counters().launches)
""")
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=600)
    assert ran.stdout.split() == ["90", "1"], ran.stderr


INTERPRETED = """
import kernelscope, triton, triton.language as tl
from kernelscope import dryrun

dryrun.enable(progress=lambda line: None)

@triton.jit
def kernel(n, BLOCK: tl.constexpr):
    tl.device_assert(tl.program_id(0) * BLOCK < n)

with kernelscope.record() as recorder:
    kernel[(3,)](48, BLOCK=16)
(row,) = [row for row in recorder.recording.rows("health") if row["probe"] == "triton"]
print(type(kernel).__name__, len(recorder.recording.launches), row["status"], row["fix"], sep=";")
"""


def test_the_interpreter_runs_and_is_said(tmp_path: Path) -> None:
    script = tmp_path / "interpreted.py"
    script.write_text(INTERPRETED)
    ran = subprocess.run([sys.executable, script], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True,
                         text=True, check=False, timeout=600)
    assert ran.stdout.splitlines() == [
        "InterpretedFunction;0;degraded;unset TRITON_INTERPRET, and restart the kernel"], ran.stderr


def test_options_of_the_decorator_are_the_dispatchers(make: Any, x: Any) -> None:
    axpy = make(do_not_specialize=["a", 2], do_not_specialize_on_alignment=["x"])
    with kernelscope.record() as recorder:
        axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
    (dispatcher,) = recorder.recording.rows("dispatchers")
    assert json.loads(dispatcher["options"]) == {
        "do_not_specialize": ["a", "n"], "do_not_specialize_on_alignment": ["x"]}


def test_detail_launch_has_two_times(make: Any, x: Any) -> None:
    axpy = make()
    with kernelscope.record(detail="launch") as recorder:
        axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
    (row,) = recorder.recording.rows("launches")
    assert row["submit_start_ns"] is None and row["end_ns"] > row["start_ns"]
    assert recorder.recording.rows("configurations")[row["configuration_id"]]["griddim_x"] == 1


@pytest.mark.parametrize("is_known", [False, True])
def test_compiled_kernels_are_launched_without_their_function(make: Any, x: Any, is_known: bool) -> None:
    axpy = make()
    kernel = axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
    with kernelscope.record() as recorder:
        if is_known:
            axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
        kernel[(5, 2, 1)](x, x, 16, 2.0, 16)
    recording = recorder.recording
    row = recording.rows("launches")[-1]
    assert len(recording.launches) == 1 + is_known
    assert recording.rows("configurations")[row["configuration_id"]]["griddim_x"] == 5
    assert recording.rows("dispatchers")[row["dispatcher_id"]]["name"] == "axpy"
    assert (recording.rows("specializations")[row["specialization_id"]]["origin"], row["cache"]) == ("before", "memory")


def test_autotuner_and_heuristics_end_in_launches(make: Any, x: Any) -> None:
    function = triton.heuristics({"BLOCK": lambda given: 32})(make())
    with kernelscope.record() as recorder:
        function[(2,)](x, x, 16, 2.0)
    (row,) = recorder.recording.rows("launches")
    assert recorder.recording.rows("specializations")[row["specialization_id"]]["signature"].endswith("BLOCK=32")


def test_warm_up_compiles_and_launches_nothing(make: Any, x: Any) -> None:
    axpy = make()
    with kernelscope.record() as recorder:
        axpy.warmup(x, x, 16, 2.0, BLOCK=16, grid=(1,))
        axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
    (row,) = recorder.recording.rows("compilations")
    assert (row["trigger"], row["outcome"], row["launch_id"]) == ("compile", "compiled", None)
    assert row["reason"].endswith("; a warm-up or triton.compile asked for it")
    (launch,) = recorder.recording.rows("launches")
    assert launch["cache"] == "memory"


def test_everything_is_undone_exactly(make: Any, x: Any) -> None:
    axpy = make()
    axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
    knobs = triton.knobs.compilation
    owners = {JITFunction: "run", CudaLauncher: "__call__", triton.compiler.compiler: "compile"}

    def state() -> Any:
        functions = {name: vars(owner)[name] for owner, name in owners.items()}
        return {name: (each, each.__code__, each.__defaults__, each.__kwdefaults__, inspect.signature(each))
                for name, each in functions.items()}, dict(vars(knobs)), knobs.listener

    before = state()
    with kernelscope.record() as recorder:
        axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
        assert set(core.taken()) == {JITFunction.run, CudaLauncher.__call__}
    assert state() == before and core.taken() == []
    axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
    assert len(recorder.recording.launches) == 1


def test_users_exceptions_pass_untouched(make: Any, x: Any) -> None:
    axpy = make()
    axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
    wrong = make(body=" + not_there", path="wrong.py")

    def grid(meta: Any) -> tuple[int]:
        raise KeyboardInterrupt

    calls = [lambda: axpy[(1,)](x, x, 16, 2.0), lambda: axpy[(1,)](x, x, 16, 2.0, BLOCK=16, nothing=1),
             lambda: axpy[grid](x, x, 16, 2.0, BLOCK=16), lambda: wrong[(1,)](x, x, 16, 2.0, BLOCK=16),
             lambda: axpy[(1,)](object(), x, 16, 2.0, BLOCK=16), lambda: axpy.run(x)]
    plain = [_raised(call) for call in calls]
    with kernelscope.record() as recorder:
        recorded = [_raised(call) for call in calls]
    assert [(type(each), str(each)) for each in recorded] == [(type(each), str(each)) for each in plain]
    assert [_frames(each) for each in recorded] == [_frames(each) for each in plain]
    errors = [row["error"] for row in recorder.recording.rows("launches")]
    assert errors == [type(each).__name__ for each in plain[:-1]], "the last one is no launch"
    (failed,) = recorder.recording.rows("compilations")
    assert failed["outcome"] == "failed" and failed["error"].startswith("CompilationError")
    assert failed["fix"].startswith("correct what the error names")
    assert [status for status, _ in triton_health(recorder.recording)] == ["ok"]


def _raised(call: Any) -> BaseException:
    with pytest.raises(BaseException) as raised:
        call()
    return raised.value


def _frames(error: BaseException) -> list[str]:
    names, entry = [], error.__traceback__
    while entry is not None:
        names.append(entry.tb_frame.f_code.co_name)
        entry = entry.tb_next
    return names


def test_failed_launch_has_its_kernel(make: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    axpy = make()
    kernel = axpy[(1,)](x, x, 16, 2.0, BLOCK=16)

    def refuse(*args: Any) -> None:
        raise RuntimeError("no launch today")

    monkeypatch.setattr(kernel.run, "launch", refuse)
    with kernelscope.record() as recorder, pytest.raises(RuntimeError, match="no launch today"):
        axpy[(7,)](x, x, 16, 2.0, BLOCK=16)
    (row,) = recorder.recording.rows("launches")
    assert row["error"] == "RuntimeError" and row["specialization_id"] == 0 and row["submit_end_ns"] is None
    assert recorder.recording.rows("configurations")[row["configuration_id"]]["griddim_x"] == 7


def test_two_threads(make: Any, x: Any) -> None:
    axpy = make()
    axpy[(1,)](x, x, 16, 2.0, BLOCK=16)

    def launch(grid: int) -> None:
        for _ in range(200):
            axpy[(grid,)](x, x, 16, 2.0, BLOCK=16)

    with kernelscope.record() as recorder:
        threads = [threading.Thread(target=launch, args=(grid,)) for grid in (2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    launches = recorder.recording.launches
    grids = recorder.recording.configurations["griddim_x"]
    assert len(launches) == 400
    assert launches.groupby("thread_id")["configuration_id"].nunique().tolist() == [1, 1]
    assert sorted(grids.tolist()) == [2, 3]


def test_launches_inside_of_launches(make: Any, x: Any) -> None:
    axpy = make()

    def grid(meta: Any) -> tuple[int]:
        axpy[(3,)](x, x, 16, 2.0, BLOCK=16)
        return (2,)

    with kernelscope.record() as recorder:
        axpy[grid](x, x, 16, 2.0, BLOCK=16)
    rows = recorder.recording.rows("launches")
    grids = [recorder.recording.rows("configurations")[row["configuration_id"]]["griddim_x"] for row in rows]
    assert grids == [2, 3] and [row["parent_launch_id"] for row in rows] == [None, 0]
    assert rows[0]["submit_start_ns"] > rows[1]["end_ns"]


def test_more_launches_than_are_known_at_once(make: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LaunchHooks, "most", 3)
    axpy, others = make(), [make() for _ in range(4)]
    with kernelscope.record() as recorder:
        for _ in range(2):
            for grid in range(1, 9):
                axpy[(grid,)](x, x, 16, 2.0, BLOCK=16)
            for each in others:
                each[(9,)](x, x, 16, 2.0, BLOCK=16)
    recording = recorder.recording
    grids = recording.configurations["griddim_x"][recording.launches["configuration_id"]].tolist()
    assert grids == [*range(1, 9), 9, 9, 9, 9] * 2
    assert sorted(recording.configurations["griddim_x"]) == [*range(1, 10)]
    assert recording.launches["specialization_id"].nunique() == recording.launches["dispatcher_id"].nunique() == 5


def test_launchers_that_are_gone(make: Any, x: Any) -> None:
    """A kernel that is compiled anew has a launcher of its own, where the one before it was in memory."""
    axpy = make()
    with kernelscope.record() as recorder:
        for block in (16, 32, 64, 128) * 3:
            axpy.device_caches.clear()
            gc.collect()
            axpy[(1,)](x, x, 16, 2.0, BLOCK=block)
    recording = recorder.recording
    signatures = recording.specializations["signature"][recording.launches["specialization_id"]]
    assert [each.rpartition("=")[2] for each in signatures] == ["16", "32", "64", "128"] * 3


def test_dimensions_of_other_types(make: Any, x: Any) -> None:
    axpy = make()
    with kernelscope.record() as recorder:
        for _ in range(2):
            axpy[(numpy.int64(5), True)](x, x, 16, 2.0, BLOCK=16)
    (shape,) = recorder.recording.rows("configurations")
    assert (shape["griddim_x"], shape["griddim_y"]) == (5, 1) and len(recorder.recording.launches) == 2


def test_a_kernel_that_a_hook_keeps_from_being_compiled_is_no_launch(
        make: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    axpy = make()
    monkeypatch.setattr(triton.knobs.runtime, "jit_cache_hook", lambda **_: True)
    with kernelscope.record() as recorder:
        assert axpy[(1,)](x, x, 16, 2.0, BLOCK=16) is None
    assert len(recorder.recording.launches) == 0
    assert [status for status, _ in triton_health(recorder.recording)] == ["ok"]


@pytest.mark.parametrize("place", ["grid", "submit", "hook"])
def test_ctrl_c_in_the_middle_of_a_launch(make: Any, x: Any, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    axpy = make()
    kernel = axpy[(1,)](x, x, 16, 2.0, BLOCK=16)

    def interrupt(*_: Any, **__: Any) -> tuple[int]:
        signal.raise_signal(signal.SIGINT)
        return (1,)

    with kernelscope.record() as recorder:
        axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as raised:
            if place == "submit":
                patch.setattr(kernel.run, "launch", interrupt)
            elif place == "hook":
                axpy.add_pre_run_hook(interrupt)
            axpy[interrupt if place == "grid" else (1,)](x, x, 16, 2.0, BLOCK=16)
        axpy.pre_run_hooks.clear()
        axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
    assert not any(Path(frame.path).is_relative_to(OURS) for frame in raised.traceback)
    rows = recorder.recording.rows("launches")
    assert [row["error"] for row in rows] == [None, "KeyboardInterrupt", None]
    assert len({row["dispatcher_id"] for row in rows}) == 1
    assert (rows[1]["specialization_id"] is None) == (place != "submit")


def test_our_own_errors_are_counted_and_the_launch_is_made(
        make: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("ours")

    axpy = make()
    axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
    monkeypatch.setattr(KernelRows, "shape", fail)
    with kernelscope.record() as recorder:
        assert type(axpy[(1,)](x, x, 16, 2.0, BLOCK=16)).__name__ == "CompiledKernel"
    assert len(recorder.recording.launches) == 0
    assert any(status == "degraded" and "RuntimeError: ours" in (message or "")
               for status, message in triton_health(recorder.recording))


KILLED = """
import os, signal, sys
import kernelscope, triton
import triton.language as tl

@triton.jit
def fill(x, n):
    tl.store(x, n)

x = kernelscope.dryrun.array(16)
with kernelscope.record("killed", journal=sys.argv[1]):
    fill[(2,)](x, 3)
    fill[lambda _: os.kill(os.getpid(), signal.SIGKILL)](x, 3)
"""


def test_a_killed_process_leaves_the_launch_that_it_was_in(tmp_path: Path) -> None:
    script, journals = tmp_path / "killed.py", tmp_path / "journals"
    script.write_text(KILLED)
    ran = subprocess.run([sys.executable, script, journals], env={**os.environ, "KERNELSCOPE_DRYRUN": "1"},
                         capture_output=True, text=True, check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    (journal,) = journals.iterdir()
    recording = kernelscope.recover(journal)
    whole, last = recording.rows("launches")
    shapes = recording.rows("configurations")
    assert shapes[whole["configuration_id"]]["griddim_x"] == 2 and whole["error"] is None
    assert shapes[last["configuration_id"]]["griddim_x"] is None and last["error"] == "unfinished"
    assert last["dispatcher_id"] == whole["dispatcher_id"] and last["specialization_id"] is None
    assert not any("unknown" in (row["message"] or "") for row in recording.rows("health")), "nothing was lost"


def test_kernels_of_numba_in_the_same_cell(make: Any, x: Any) -> None:
    """Each launch is counted once, with its own framework, also where one is made inside the other."""
    from numba import cuda

    @cuda.jit
    def scale(out: Any, n: Any) -> None:
        if cuda.grid(1) < n:
            out[0] = n

    axpy, out = make(), cuda.device_array(16, "float32")

    def grid(_: Any) -> tuple[int]:
        scale[3, 32](out, 1)
        return (2,)

    inside = scale[4, 32]
    inside.pre_launch_callbacks.append(lambda *_: axpy[(5,)](x, x, 16, 2.0, BLOCK=16))
    with kernelscope.record() as recorder:
        for _ in range(2):
            axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
            scale[1, 32](out, 1)
            axpy[grid](x, x, 16, 2.0, BLOCK=16)
            inside(out, 1)
    recording = recorder.recording
    found = [(recording.rows("dispatchers")[row["dispatcher_id"]]["framework"],
              recording.rows("configurations")[row["configuration_id"]]["griddim_x"], row["parent_launch_id"])
             for row in recording.rows("launches")]
    assert found == [each for first in (0, 6) for each in (
        ("triton", 1, None), ("numba-cuda", 1, None), ("triton", 2, None), ("numba-cuda", 3, first + 2),
        ("numba-cuda", 4, None), ("triton", 5, first + 4))]
    assert all(row["error"] is None and row["specialization_id"] is not None for row in recording.rows("launches"))
    assert recording.select(framework="triton").launches.shape[0] == 6


def test_cost_of_hooks_is_measured() -> None:
    patches = Patches()
    try:
        assert 50 < measure(probes.TritonProbe().trial(Sink(), patches), rounds=20) < 100_000
    finally:
        patches.undo()


def test_unknown_versions_are_refused_or_named(make: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    axpy = make()
    for version, status, words in (("3.3.1", "unavailable", "too old"), ("4.0.0", "degraded", "was not tried")):
        monkeypatch.setattr(triton, "__version__", version)
        with kernelscope.record() as recorder:
            axpy[(1,)](x, x, 16, 2.0, BLOCK=16)
        assert any(row[0] == status and words in row[1] for row in triton_health(recorder.recording))
        assert len(recorder.recording.launches) == (status == "degraded")
    monkeypatch.undo()

    def run(self: Any, *args: Any, launcher: Any) -> None:
        """Take other arguments."""

    run.__module__ = JITFunction.run.__module__
    monkeypatch.setattr(JITFunction, "run", run)
    with pytest.raises(ProbeUnavailableError, match=r"JITFunction\.run takes \(self, args, launcher\)"):
        probes.TritonProbe().hook(triton, Sink())

"""What goes wrong around Quadrants: errors, interruptions, other tools, versions."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import toy_quadrants
from quadrants_calls import F32, array_kernel, body, on_cuda, record
from together import run_together
from toy_quadrants import Array, NdarrayType

from kernelscope.probes.quadrants import QuadrantsProbe
from kernelscope.recorder.recorder import Recorder


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_what_the_kernel_raises_passes_and_is_recorded(qd: Any, error: type[BaseException]) -> None:
    kernel = array_kernel(qd)

    def raise_it() -> None:
        raise error

    def fail() -> None:
        kernel.on_device = raise_it
        with pytest.raises(error):
            kernel(F32, 1.0)
        kernel.on_device = None
        kernel(F32, 1.0)

    recording = record(fail)
    assert recording.launches["error"].tolist()[0] == error.__name__
    assert recording.launches["submit_end_ns"].isna().tolist() == [True, False]
    assert recording.compilations["outcome"].tolist() == ["compiled"]  # what failed was the launch
    assert recording.launches["specialization_id"].tolist() == [0, 0]


def test_failed_compile_is_told_in_a_line(qd: Any) -> None:
    def wrong() -> None:
        """The stand-in goes by the name."""

    kernel = qd.Kernel(wrong)

    def fail() -> None:
        with pytest.raises(SyntaxError):
            kernel()

    recording = record(fail)
    row = recording.rows("compilations")[0]
    assert (row["outcome"], row["error"]) == ("failed", "SyntaxError: No such name")
    assert row["specialization_id"] is None
    assert recording.launches["error"].tolist() == ["SyntaxError"]
    assert recording.launches["specialization_id"].isna().all()


def test_results_pass_and_arguments_are_not_kept(qd: Any) -> None:
    kernel = qd.Kernel(body, arguments=(("x", NdarrayType()),))
    array = Array("f32")
    results: list[Any] = []
    recorder = Recorder("toy", probes=[QuadrantsProbe()]).start()
    results.append(kernel(array))
    assert results.pop() == (array,)
    gone = weakref.ref(array)
    del array
    gc.collect()
    assert gone() is None
    recorder.stop()


def test_undone_exactly(qd: Any) -> None:
    owners = (qd.Kernel, qd.KernelCxx, qd.Program)
    before = [dict(vars(owner)) for owner in owners]
    codes = [qd.Kernel.__call__.__code__, qd.Program.launch_kernel.__code__]
    kernel = array_kernel(qd)
    record(lambda: kernel(F32, 1.0))
    assert [dict(vars(owner)) for owner in owners] == before
    assert [qd.Kernel.__call__.__code__, qd.Program.launch_kernel.__code__] == codes
    assert qd.Kernel.__call__.__kwdefaults__ is None
    kernel(F32, 1.0)


def test_wrapper_of_another_tool_stays(qd: Any) -> None:
    kernel = array_kernel(qd)
    probe = QuadrantsProbe()
    recorder = Recorder("toy", probes=[probe]).start()
    seen: list[str] = []
    inner = qd.Kernel.__call__

    def outer(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append("outer")
        return inner(self, *args, **kwargs)

    qd.Kernel.__call__ = outer
    kernel(F32, 1.0)
    recording = recorder.stop()
    assert len(recording.launches) == 1
    kernel(F32, 1.0)
    assert seen == ["outer", "outer"]
    assert qd.Kernel.__call__ is outer


def test_threads_have_their_own_launches(qd: Any) -> None:
    kernel = array_kernel(qd)

    def launch() -> None:
        for _ in range(100):
            kernel(F32, 1.0)

    launches = record(lambda: run_together(*[launch] * 4)).launches
    assert len(launches) == 400
    assert launches["thread_id"].value_counts().tolist() == [100] * 4
    assert launches["error"].isna().all()


def test_launch_inside_of_a_launch_is_its_child(qd: Any) -> None:
    kernel, inner = array_kernel(qd), qd.Kernel(body)
    kernel.on_device = lambda: inner()
    launches = record(lambda: kernel(F32, 1.0)).launches
    assert launches["parent_launch_id"].tolist()[1] == 0
    assert launches["dispatcher_id"].nunique() == 2


def test_error_of_our_own_is_swallowed(qd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> int:
        raise RuntimeError("ours")

    monkeypatch.setattr("kernelscope.probes.quadrants.kernels.KernelRows.target", broken)
    kernel = array_kernel(qd)
    results: list[Any] = []
    recording = record(lambda: results.append(kernel(F32, 1.0)))
    assert results == [(F32, 1.0)]
    assert "ours" in recording.health["message"].tolist()[0]
    assert recording.health["dropped"].tolist()[0] == 1


def test_version_that_was_not_tried_is_degraded(monkeypatch: pytest.MonkeyPatch) -> None:
    qd = toy_quadrants.make(version="9.9.0")
    toy_quadrants.install(qd, monkeypatch)
    kernel = array_kernel(qd)
    recording = record(lambda: kernel(F32, 1.0))
    row = recording.rows("health")[0]
    assert (row["probe"], row["status"]) == ("quadrants", "degraded")
    assert "quadrants 9.9.0 was not tried" in row["message"]
    assert len(recording.launches) == 1


def test_missing_getter_leaves_graphs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    qd = on_cuda(monkeypatch)
    del qd.Program.get_graph_total_builds
    kernel = array_kernel(qd, graph=True)
    recording = record(lambda: kernel(F32, 1.0))
    row = recording.rows("health")[0]
    assert row["status"] == "degraded"
    assert "get_graph_total_builds" in row["message"]
    assert len(recording.launches) == 1


@pytest.mark.parametrize(("owner", "name", "message"), [
    ("Kernel", "launch_kernel", "Kernel has no launch_kernel"),
    ("KernelCxx", "make_launch_context", "KernelCxx has no make_launch_context"),
    ("Program", "compile_kernel", "Program has no compile_kernel"),
    ("Kernel", "__call__", "does not take (self, py_args, kwargs)"),
])
def test_unknown_quadrants_is_unavailable(qd: Any, owner: str, name: str, message: str) -> None:
    if name == "__call__":
        qd.Kernel.__call__ = lambda self, *args: None
    else:
        delattr(getattr(qd, owner), name)
    row = record().rows("health")[0]
    assert (row["probe"], row["status"]) == ("quadrants", "unavailable")
    assert message in row["message"]
    assert "quadrants==" in row["fix"]


def test_missing_front_end_function_is_told(qd: Any) -> None:
    del qd.Kernel._try_load_fastcache
    qd.Kernel.materialize = lambda self, key, args, features=None: self.materialized_kernels.setdefault(
        key, qd.KernelCxx(self))
    kernel = array_kernel(qd)
    recording = record(lambda: kernel(F32, 1.0))
    assert "front end" in recording.rows("health")[0]["message"]
    assert recording.launches["cache"].tolist() == ["compiled"]


def test_device_is_waited_for_only_after_launches(qd: Any) -> None:
    kernel = array_kernel(qd)
    record()
    assert qd.runtime._prog.synchronized == 0
    record(lambda: kernel(F32, 1.0))
    assert qd.runtime._prog.synchronized


def test_failure_of_the_device_is_told(qd: Any) -> None:
    kernel = array_kernel(qd)
    probe = QuadrantsProbe()
    recorder = Recorder("toy", probes=[probe]).start()
    kernel(F32, 1.0)
    qd.Program.synchronize = lambda self: 1 / 0
    assert probe.synchronize() == "ZeroDivisionError: division by zero"
    assert probe.sink is not None
    probe.sink.is_capturing = lambda: True
    assert "capturing" in (probe.synchronize() or "")
    recorder.stop()

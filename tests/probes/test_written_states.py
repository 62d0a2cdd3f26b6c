"""Hooks in Python on a log whose states have `write` alone: the same launches as on the Python log.

That of numba-cuda-mlir is in `test_numba_cuda_mlir`.
"""

from __future__ import annotations

from typing import Any

import pytest
from compute_calls import launches as compute_launches
from compute_calls import recording, reduce
from quadrants_calls import F32, array_kernel, record
from written_log import WrittenLog

from kernelscope import session
from kernelscope.clock import now
from kernelscope.probes.cuda_core.launch import LaunchHook, _Config, _Handle
from kernelscope.probes.sink import Sink


def written(detail: str) -> Sink:
    return Sink(detail=detail, log=WrittenLog(now, detail))


def boundaries(columns: Any) -> list[list[bool]]:
    """Of each launch, which boundaries are known."""
    names = ("dispatch_end_ns", "submit_start_ns", "submit_end_ns")
    return [[value != -1 for value in row] for row in zip(*(columns[name].tolist() for name in names), strict=True)]


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_quadrants(qd: Any, monkeypatch: pytest.MonkeyPatch, detail: str) -> None:
    monkeypatch.setattr(session, "make_log", lambda *given: WrittenLog(now, detail))
    kernel = array_kernel(qd)
    recording = record(*[lambda: kernel(F32, 1.0)] * 3, detail=detail)
    assert recording.metadata["recorder"]["backend"] == "native"
    assert len(recording.launches) == 3
    inner = recording.launches[["dispatch_end_ns", "submit_start_ns", "submit_end_ns"]]
    assert (inner.notna() if detail == "phases" else inner.isna()).all(axis=None)


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_compute(compute: Any, detail: str) -> None:
    sink = written(detail)
    with recording(sink):
        state = sink.state()
        state.launch_config = sink  # a launch that is under way around them
        assert [reduce(compute) for _ in range(3)] == [4] * 3
        assert state.launch_config is sink
    assert not sink.errors, sink.first_errors
    assert [(launch.name, launch.error) for launch in compute_launches(sink)] == [("reduce_into", None)] * 3
    assert boundaries(sink.log.columns()) == [[False] * 3] * 3


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_cuda_core(detail: str) -> None:
    made: list[tuple[Any, ...]] = []

    def original(stream: Any, config: Any, kernel: Any, *arguments: Any) -> None:
        made.append(arguments)
        if arguments == ("wrong",):
            raise LookupError

    sink = written(detail)
    hook = LaunchHook(sink)
    looked: list[str | None] = []
    hook._lookup = lambda stream, config, kernel, failure: (looked.append(failure), (0, 0))[1]  # type: ignore
    launch = hook.make(original)
    stream, config, kernel = _Handle(), _Config(), _Handle()
    launch(stream, config, kernel, 1)
    assert looked == [None]
    hook._known[stream, kernel, config.grid, config.block, config.cluster, config.shmem_size] = 0, 0
    state = sink.state()
    state.launch_config = sink
    launch(stream, config, kernel, 2)
    assert looked == [None] and state.launch_config is sink
    with pytest.raises(LookupError):
        launch(stream, config, kernel, "wrong")
    state.submit_start = 1.0  # in the driver call of a launch that its own probe records
    launch(stream, config, kernel, 3)
    hook.enabled = False
    launch(stream, config, kernel, 4)
    assert made == [(1,), (2,), ("wrong",), (3,), (4,)]
    assert looked == [None, "LookupError"] and not sink.errors
    assert boundaries(sink.log.columns()) == [[False] * 3] * 3

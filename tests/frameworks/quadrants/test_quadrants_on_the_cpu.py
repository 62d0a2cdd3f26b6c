"""Quadrants itself, on its CPU backend: what is recorded there, and that nothing of it is left behind."""

from __future__ import annotations

import inspect
import json
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import quadrants as qd
from quadrants.lang.impl import Program
from quadrants.lang.kernel import Kernel, KernelCxx

import kernelscope
from kernelscope.probes.quadrants import KNOWN_VERSIONS
from kernelscope.recording.model import Recording


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Begin with a new program: without a cache on disk, unless told otherwise."""

    def init(**options: Any) -> None:
        qd.init(arch=qd.cpu, log_level=qd.ERROR, **{
            "offline_cache": False, "offline_cache_file_path": str(tmp_path / "cache"), **options})

    init()
    yield init
    qd.reset()


def kernels() -> dict[str, Any]:
    """Fresh kernels, with nothing compiled."""

    @qd.kernel
    def add(x: qd.types.ndarray(), a: qd.f32):
        for i in x:
            x[i] += a

    @qd.kernel(graph=True)
    def two(x: qd.types.ndarray(qd.f32, ndim=1), y: qd.types.ndarray(qd.f32, ndim=1)):
        for i in x:
            x[i] += 1
        for i in y:
            y[i] += x[i]

    @qd.kernel(graph=True)
    def loop(x: qd.types.ndarray(qd.f32, ndim=1), count: qd.types.ndarray(qd.i32, ndim=0)):
        while qd.graph.do_while(count):
            for i in x:
                x[i] += 1
            for _ in range(1):
                count[()] = count[()] - 1

    @qd.kernel
    def scaled(n: qd.template(), x: qd.types.ndarray(qd.f32, ndim=1)):
        for i in x:
            x[i] *= n

    @qd.kernel
    def wrong(x: qd.types.ndarray(qd.f32, ndim=1)):
        for i in x:
            x[i] += not_there  # noqa: F821

    return {"add": add, "two": two, "loop": loop, "scaled": scaled, "wrong": wrong}


def vector(dtype: Any = None) -> Any:
    return qd.ndarray(dtype or qd.f32, shape=(16,))


def of(recording: Recording, name: str) -> list[dict[str, Any]]:
    """The rows of launches of the kernel of that name."""
    (dispatcher,) = [row["dispatcher_id"] for row in recording.rows("dispatchers") if row["name"].endswith(name)]
    return [row for row in recording.rows("launches") if row["dispatcher_id"] == dispatcher]


def test_version_is_one_that_is_known() -> None:
    assert qd.__version_str__ in KNOWN_VERSIONS


def test_launches_with_phases(start: Callable[..., None]) -> None:
    add, x = kernels()["add"], vector()
    with kernelscope.record() as recorder:
        for _ in range(3):
            add(x, 1.0)
        add(x, a=2.0)
    recording = recorder.recording
    assert x.to_numpy().tolist() == [5.0] * 16
    rows = of(recording, "add")
    assert [row["cache"] for row in rows] == ["compiled", "memory", "memory", "memory"]
    for row in rows:
        times = [row[f"{name}_ns"] for name in ("start", "dispatch_end", "submit_start", "submit_end", "end")]
        assert times == sorted(times)
    assert rows[0]["compile_ns"] > 0
    (kernel,) = recording.rows("dispatchers")
    assert (kernel["framework"], kernel["arguments"], kernel["module"]) == ("quadrants", "x, a", __name__)
    assert kernel["filename"].endswith("test_quadrants_on_the_cpu.py")
    (row,) = recording.rows("configurations")
    assert row["griddim_x"] is None and row["blockdim_x"] is None and row["sharedmem_bytes"] is None
    assert recording.health["status"].tolist() == ["ok"]
    assert recording.metadata["packages"]["quadrants"] == qd.__version_str__


def test_compiles_and_why(start: Callable[..., None]) -> None:
    held, x = kernels(), vector()
    with kernelscope.record() as recorder:
        held["add"](x, 1.0)
        held["add"](vector(qd.f64), 1.0)
        held["scaled"](2, x)
        held["scaled"](3, x)
        held["scaled"](2, x)
    recording = recorder.recording
    rows = recording.rows("compilations")
    assert [row["reason_code"] for row in rows] == ["first_use", "new_dtype", "first_use", "literal"]
    assert (rows[1]["argument"], rows[3]["argument"]) == ("x", "n")
    assert [row["outcome"] for row in rows] == ["compiled"] * 4
    assert recording.table("specializations")["signature"].tolist() == [
        "(array(float32, 1d, C), float32)", "(array(float64, 1d, C), float32)",
        "(template int, array(float32, 1d, C))", "(template int, array(float32, 1d, C))"]
    assert of(recording, "scaled")[-1]["cache"] == "memory"
    assert recording.passes["name"].tolist() == ["front end", "code"] * 4


def test_offline_cache_is_a_disk_load(start: Callable[..., None]) -> None:
    x = vector()
    start(offline_cache=True)
    x = vector()
    kernels()["add"](x, 1.0)
    start(offline_cache=True)
    add, x = kernels()["add"], vector()
    with kernelscope.record() as recorder:
        add(x, 1.0)
    (row,) = recorder.recording.rows("compilations")
    assert (row["outcome"], row["reason_code"]) == ("disk", "disk")
    assert json.loads(row["attributes"])["fe_ll_cache"] == "hit"
    assert row["cache_file"].endswith("cache")
    assert of(recorder.recording, "add")[0]["cache"] == "disk"


def test_fast_cache_spares_the_front_end(start: Callable[..., None]) -> None:
    def launch() -> kernelscope.Recorder:
        start(offline_cache=True)

        @qd.kernel(fastcache=True)
        def fast(x: qd.types.ndarray(qd.f32, ndim=1)):
            for i in x:
                x[i] += 1

        x = vector()
        with kernelscope.record() as recorder:
            fast(x)
        return recorder

    first, again = launch().recording, launch().recording
    (row,) = first.rows("compilations")
    assert row["outcome"] == "compiled"
    assert json.loads(row["attributes"]) == {"src_ll_cache": "stored", "fe_ll_cache": "missed"}
    (row,) = again.rows("compilations")
    assert (row["outcome"], row["reason_code"]) == ("disk", "disk")
    assert json.loads(row["attributes"]) == {"src_ll_cache": "loaded"}
    assert again.passes["name"].tolist() == ["front end"]
    assert json.loads(again.rows("dispatchers")[0]["options"]) == {"fastcache": True}


def test_new_program_compiles_again(start: Callable[..., None]) -> None:
    add = kernels()["add"]
    with kernelscope.record() as recorder:
        add(vector(), 1.0)
        start()
        add(vector(), 1.0)
    rows = recorder.recording.rows("compilations")
    assert [row["reason_code"] for row in rows] == ["first_use", "recompile"]


def test_kernel_from_before_recording(start: Callable[..., None]) -> None:
    add, x = kernels()["add"], vector()
    add(x, 1.0)
    with kernelscope.record() as recorder:
        add(x, 1.0)
    assert recorder.recording.table("specializations")["origin"].tolist() == ["before"]
    assert of(recorder.recording, "add")[0]["cache"] == "memory"


@pytest.mark.parametrize("name", ["two", "loop"])
def test_graph_kernels_fall_back_on_this_backend(start: Callable[..., None], name: str) -> None:
    kernel, x, other = kernels()[name], vector(), vector()
    count = qd.ndarray(qd.i32, shape=())
    with kernelscope.record() as recorder:
        for _ in range(2):
            count[()] = 3
            kernel(x, count if name == "loop" else other)
    recording = recorder.recording
    assert recording.graph_events.empty
    assert len(of(recording, name)) == 2
    held = json.loads(recording.rows("specializations")[0]["attributes"])
    assert held["plain_because"] == "the backend x64 makes no graphs"
    assert held["do_while"] == ([{"while": "count", "inside": None}] if name == "loop" else [])
    assert json.loads(recording.rows("dispatchers")[0]["options"]) == {"graph": True}


def test_failures_pass_and_are_recorded(start: Callable[..., None]) -> None:
    held, x = kernels(), vector()
    with pytest.raises(qd.QuadrantsCompilationError) as plain:
        held["wrong"](x)
    with kernelscope.record() as recorder:
        with pytest.raises(qd.QuadrantsCompilationError) as recorded:
            held["wrong"](x)
        with pytest.raises(qd.QuadrantsSyntaxError, match="'a'"):
            held["add"](x)
        held["add"](x, 1.0)
    assert type(recorded.value) is type(plain.value)
    (row, _) = recorder.recording.rows("compilations")
    assert row["outcome"] == "failed"
    assert row["error"].endswith('Name "not_there" is not defined')
    assert recorder.recording.launches["error"].isna().tolist() == [False, False, True]


def test_ctrl_c_stops_and_leaves_nothing(start: Callable[..., None], no_garbage: None) -> None:
    add, x = kernels()["add"], vector()
    add(x, 1.0)

    def minutes() -> None:
        for _ in range(10_000_000):
            add(x, 1.0)

    with kernelscope.record() as recorder:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            minutes()
        timer.join()
        add(x, 1.0)
    launches = recorder.recording.launches
    assert len(launches) > 100
    assert launches["error"].dropna().isin(["KeyboardInterrupt"]).all()
    assert recorder.recording.health["errors"].fillna(0).sum() == 0


def test_signal_handlers_that_raise_anywhere(start: Callable[..., None], no_garbage: None) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_: Any) -> None:
        raise Interrupted

    add, x = kernels()["add"], vector()
    add(x, 1.0)
    random_ = random.Random(7)
    before = signal.signal(signal.SIGALRM, interrupt)
    made = interrupted = 0
    try:
        with kernelscope.record() as recorder:
            while interrupted < 1_000:
                try:
                    signal.setitimer(signal.ITIMER_REAL, random_.uniform(1e-5, 3e-4))
                    for _ in range(1_000_000):
                        add(x, 1.0)
                        made += 1
                    pytest.fail("an interrupt was lost")
                except Interrupted:
                    interrupted += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    launches = recorder.recording.launches
    assert made <= len(launches) <= made + interrupted
    assert launches["error"].dropna().unique().tolist() == ["Interrupted"]
    assert recorder.recording.health["errors"].fillna(0).sum() == 0
    assert recorder.recording.health["dropped"].fillna(0).sum() == 0


def test_threads(start: Callable[..., None]) -> None:
    add = kernels()["add"]
    arrays = [vector() for _ in range(4)]
    add(arrays[0], 0.0)

    def launch(x: Any) -> None:
        for _ in range(50):
            add(x, 1.0)

    with kernelscope.record() as recorder:
        threads = [threading.Thread(target=launch, args=(x,)) for x in arrays]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert recorder.recording.launches["thread_id"].value_counts().tolist() == [50] * 4


def test_classes_and_gradients(start: Callable[..., None]) -> None:
    @qd.data_oriented
    class Body:
        def __init__(self) -> None:
            self.x = qd.field(qd.f32, shape=4, needs_grad=True)
            self.loss = qd.field(qd.f32, shape=(), needs_grad=True)

        @qd.kernel
        def square(self):
            for i in self.x:
                self.loss[None] += self.x[i] ** 2

    body = Body()
    body.x.fill(2.0)
    with kernelscope.record() as recorder:
        body.square()
        body.loss.grad[None] = 1.0
        body.square.grad()
    recording = recorder.recording
    assert body.x.grad.to_numpy().tolist() == [4.0] * 4
    names = [row["name"] for row in recording.rows("dispatchers") if "square" in row["name"]]
    assert [name.rpartition("Body.")[2] for name in names] == ["square", "square.grad"]
    assert recording.launches["error"].isna().all()


def test_nothing_is_left(start: Callable[..., None]) -> None:
    add = kernels()["add"]
    owners = (Kernel, KernelCxx, Program)
    before = [dict(vars(owner)) for owner in owners]
    function = inspect.unwrap(Kernel.__call__)
    code = function.__code__
    with kernelscope.record():
        add(vector(), 1.0)
        assert function.__code__ is not code
    assert [dict(vars(owner)) for owner in owners] == before
    assert inspect.unwrap(Kernel.__call__) is function
    assert function.__code__ is code
    assert function.__kwdefaults__ is None


def test_views_open(start: Callable[..., None], tmp_path: Path) -> None:
    held, x = kernels(), vector()
    with kernelscope.record("views") as recorder:
        held["two"](x, vector())
        held["add"](x, 1.0)
    recording = recorder.recording
    loaded = kernelscope.load(recording.save(tmp_path / "views"))
    assert "add" in loaded.summary()
    assert loaded.launches.equals(recording.launches)


def test_import_while_recording(run_python: Callable[..., Any]) -> None:
    result = run_python("""
import kernelscope

with kernelscope.record() as recorder:
    import quadrants as qd

    qd.init(arch=qd.cpu, log_level=qd.ERROR, offline_cache=False)

    @qd.kernel
    def touch(x: qd.types.ndarray(qd.f32, ndim=1)):
        x[0] = 1

    touch(qd.ndarray(qd.f32, shape=(4,)))
print(len(recorder.recording.launches), recorder.recording.dispatchers.framework.tolist())
""")
    assert result.stdout.strip().splitlines()[-1] == "1 ['quadrants']"

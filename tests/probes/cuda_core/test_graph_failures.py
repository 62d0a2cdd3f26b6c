"""What goes wrong around graphs: exceptions on their way, Ctrl-C, threads, old and new drivers, nobody who tells."""

from __future__ import annotations

import ctypes
import functools
import gc
import random
import signal
import threading
import time

import pytest
from cuda.core.graph import GraphDefinition
from together import run_together

import kernelscope
from kernelscope.probes import driver
from kernelscope.probes.cuda_core import calls as cuda_core_calls
from kernelscope.probes.cuda_core import graphs
from kernelscope.probes.cuda_core.read import Driver
from kernelscope.probes.sink import AFTER, CallData
from kernelscope.recorder.recorder import Recorder
from kernelscope.recorder.session import Session


class Without:
    """The driver without some of its functions."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name: str):
        if name in self._names:
            raise AttributeError(name)
        return getattr(self._library, name)


def stated(seen):
    return seen.sink.stated.get("cuda.core", {}).get("message", "")


def test_an_exception_on_its_way_arrives(watch, capture):
    """cuda.core destroys a graph while its own exception is set, and the driver tells of that."""
    with watch() as seen:
        graph = capture().complete()
        for _ in range(20):
            with pytest.raises(Exception, match="Graph update failed"):
                graph.update(capture(more=1))
    assert len(seen.events("update")) == 20


def test_threads(watch, device, k, arrays):
    together = threading.Barrier(4)  # so that no thread gets the ident of one that has ended

    def work(grid):
        together.wait()
        device.set_current()
        stream = device.create_stream()
        for _ in range(30):
            builder = device.create_graph_builder().begin_building()
            k.axpy[grid, 32, builder.stream](arrays[0], 3)
            graph = builder.end_building().complete()
            graph.launch(stream)
            graph.close()
            builder.close()
        together.wait()

    with watch() as seen:
        run_together(*(functools.partial(work, grid) for grid in range(1, 5)))
    assert len(seen.events("capture")) == len(seen.events("instantiate")) == len(seen.events("close")) == 120
    assert len(seen.rows.graphs) == 4
    assert len(seen.rows.launches["exec"]) == 120
    for row in seen.events("instantiate"):
        capture = seen.rows.events[row["source_event_id"]]
        assert capture["thread_ident"] == row["thread_ident"]
        assert capture["graph_id"] == row["graph_id"]
    assert all(len(row["streams"]) == 1 for row in seen.events("capture"))
    by_thread = {row["thread_ident"] & 0xFFFFFFFF: row["graph_id"] for row in seen.events("instantiate")}
    launches = seen.rows.launches
    for exec_id, ident in zip(launches["exec"], launches["ident"], strict=True):
        assert seen.rows.events[exec_id]["graph_id"] == by_thread[ident]


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_a_ctrl_c_reaches_the_user_and_no_event_is_lost(watch, capture, no_garbage):
    """At any moment of it, also in the middle of what the driver calls back for."""
    interrupts, ended = 0, False
    previous = signal.getsignal(signal.SIGALRM)

    def interrupt(*_):
        raise KeyboardInterrupt

    def calls():
        return kernelscope.dryrun.counters().calls.get("cuGraphInstantiateWithParams", 0)

    with watch() as seen:
        builder = capture()
        before = calls()
        signal.signal(signal.SIGALRM, interrupt)
        until = time.monotonic() + 120
        while not ended:
            try:
                if interrupts >= 50 or time.monotonic() > until:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    time.sleep(0.01)  # what was raised in another thread's name comes too
                    ended = True
                    continue
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 5e-4))
                while time.monotonic() < until:
                    builder.complete()
            except KeyboardInterrupt:
                interrupts += 1
        signal.signal(signal.SIGALRM, previous)
        instantiated = calls() - before
    assert interrupts >= 50
    rows = seen.events("instantiate")
    assert len(rows) == instantiated
    assert len({row["start_ns"] for row in rows}) == instantiated


def test_an_error_of_ours_is_counted_and_no_more(watch, capture, stream, monkeypatch):
    monkeypatch.setattr(graphs.GraphWatch, "_copy_of", lambda *_: 1 / 0)
    with pytest.raises(AssertionError, match="ZeroDivisionError"), watch() as seen:
        graph = capture().complete()
        graph.launch(stream)
    assert seen.sink.errors["cuda.core"] > 0
    assert graph is not None


@pytest.mark.parametrize(("missing", "message"), [
    (("cuGraphClone",), "read while they are made"),
    (("cuGraphGetEdges_v2", "cuGraphGetEdges"), "edges are not known"),
    (("cuFuncGetName", "cuKernelGetName"), "kernels' names are not known"),
    (("cuFuncGetParamInfo", "cuKernelGetParamInfo"), "arguments are not seen"),
    (("cuGraphKernelNodeGetParams_v2",), "nodes are not known"),
])
def test_an_older_driver_degrades(watch, capture, stream, missing, message):
    with watch(driver=Driver(Without(*missing))) as seen:
        graph = capture().complete()
        graph.update(capture(grid=8))
        graph.launch(stream)
    assert seen.kinds()[:2] == ["capture", "instantiate"]
    assert message in stated(seen)
    assert seen.sink.stated["cuda.core"]["status"] == "degraded"
    if "nodes" in message and "cuGraphKernelNodeGetParams_v2" in missing:
        assert seen.rows.graphs == []
    else:
        assert [node["kind"] for node in seen.nodes(0)] == ["kernel", "kernel"]
    if "cuFuncGetName" in missing:
        assert seen.nodes(0)[0]["attributes"] == '{"unknown": "name"}'


def test_functions_that_the_driver_does_not_have_or_that_are_new(watch, capture, monkeypatch):
    original = cuda_core_calls.NullCalls._watchable

    def watchable(self):
        return [name for name in original(self) if name != "cuGraphExecDestroy"] + ["cuGraphExecUpdate_v9"]

    monkeypatch.setattr(cuda_core_calls.NullCalls, "_watchable", watchable)
    with watch() as seen:
        capture().complete().close()
    assert "cuGraphExecUpdate_v9" not in stated(seen), "nobody called it"
    with watch() as seen:
        capture().complete().close()
        call = CallData(site=AFTER, name=b"cuGraphExecUpdate_v9")
        for _ in range(2):
            seen.probe._watch.called(ctypes.addressof(call))
    assert "graphs that are closed are not seen: the driver has no cuGraphExecDestroy" in stated(seen)
    assert stated(seen).count("calls of cuGraphExecUpdate_v9 are not seen: it is newer than this KernelScope") == 1
    with watch() as quiet:
        pass
    assert not stated(quiet), "nobody asked for graphs"


def test_where_nobody_tells_health_says_so(watch, capture, monkeypatch):
    monkeypatch.setattr(cuda_core_calls, "_callback", lambda: None)
    with watch() as seen:
        capture().complete()
    assert seen.rows.events == []
    assert "graphs are not seen" in stated(seen)
    with watch() as quiet:
        pass
    assert not stated(quiet)


def test_a_recorder_inside_another(capture, stream):
    outer = Recorder().start()
    sink = Session.active.sink
    graph = capture().complete()
    inner = Recorder().start()
    graph.launch(stream)
    other = capture(grid=4).complete()
    inner.stop()
    assert [row["graph_id"] for row in sink.graphs.events] == [0, 0, 1, 1]
    assert len(sink.graphs.launches["exec"]) == 1
    other.launch(stream)
    other.update(capture(grid=8))
    outer.stop()
    assert len(sink.graphs.launches["exec"]) == 2
    assert [row["kind"] for row in sink.graphs.events] == ["capture", "instantiate"] * 2 + ["capture", "update"]
    assert sink.graphs.events[5]["changes"] == "grid of axpy 4 to 8"
    assert not sink.errors


def test_a_recording_does_not_wait_in_the_middle_of_a_capture(device, k, arrays):
    builder = device.create_graph_builder()
    with kernelscope.record() as r:
        builder.begin_building(mode="global")
        k.axpy[1, 32, builder.stream](arrays[0], 3)
    assert builder.end_building().complete() is not None
    assert r.recording.health.message.str.contains("capturing a graph").any()


def test_nothing_is_told_when_nobody_records(watch, capture, monkeypatch):
    with watch():
        pass
    heard = []
    monkeypatch.setattr(graphs.GraphWatch, "called", lambda *data: heard.append(data))
    capture().complete().close()
    gc.collect()
    assert heard == []
    assert not cuda_core_calls._telling


def test_a_definition_that_another_thread_destroys_at_stop(watch, device):
    """Those that live are read at stop, and whoever destroys one waits for that."""
    done = threading.Event()

    def work():
        device.set_current()
        while not done.is_set():
            definition = GraphDefinition()
            definition.empty()
            del definition

    worker = threading.Thread(target=work)
    with watch():
        worker.start()
        time.sleep(0.1)
    with watch():
        time.sleep(0.05)
    done.set()
    worker.join()


def test_without_llvm_callbacks_are_not_guarded(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(driver.importlib, "import_module", absent)
    assert driver.guarded(ctypes.CFUNCTYPE(None)(lambda: None)) is None

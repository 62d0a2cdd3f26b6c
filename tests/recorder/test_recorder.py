"""The recorder's states, nesting, cells and health, with the scripted probe."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import kernelscope
from kernelscope.clock import FakeClock
from kernelscope.errors import RecorderStateError
from kernelscope.probes.scripted import Compile, Launch, ScriptedProbe
from kernelscope.recorder.recorder import Recorder
from kernelscope.recorder.session import Session


def test_a_recorder_records_once():
    recorder = Recorder(probes=[])
    with pytest.raises(RecorderStateError, match="not recording"):
        recorder.stop()
    with pytest.raises(RecorderStateError, match="not finished"):
        _ = recorder.recording
    recorder.start()
    assert recorder.is_recording
    with pytest.raises(RecorderStateError, match="started before"):
        recorder.start()
    assert recorder.stop() is recorder.recording
    with pytest.raises(RecorderStateError, match="started before"):
        recorder.start()
    with pytest.raises(RecorderStateError, match="not recording"):
        recorder.stop()


def test_cells_get_the_launches_that_started_in_them():
    clock = FakeClock(0)
    probe = ScriptedProbe()
    recorder = Recorder("two cells", probes=[probe], clock=clock).start()
    for number in (1, 2):
        clock.advance(1_000)
        recorder.begin_cell(f"cell {number}", execution_count=number, source="k[1, 1]()")
        probe.emit(Launch(start_ns=clock() + 10))
        clock.advance(100_000)
        recorder.end_cell()
        clock.advance(50)
        probe.emit(Launch(start_ns=clock()))  # between cells, of no cell
        clock.advance(50_000)
    recording = recorder.stop()
    assert recording.launches.cell_id.fillna(-1).tolist() == [0, -1, 1, -1]
    assert recording.cells.execution_count.tolist() == [1, 2]
    assert recording.cells.source_sha256.nunique() == 1
    assert recording.name == "two cells"


def test_ending_a_cell_that_was_not_begun():
    recorder = Recorder(probes=[]).start()
    try:
        with pytest.raises(RecorderStateError, match="begin_cell"):
            recorder.end_cell()
    finally:
        recorder.stop()


def test_interrupted_cells_say_so():
    recorder = Recorder(probes=[]).start()
    recorder.begin_cell()
    recorder.end_cell(KeyboardInterrupt())
    row, = recorder.stop().rows("cells")
    assert (row["status"], row["error"]) == ("interrupted", "KeyboardInterrupt")


def test_a_recorder_inside_another_sees_its_part_and_the_outer_all():
    probe = ScriptedProbe()
    clock = FakeClock(0, tick_ns=1)
    outer = Recorder("outer", probes=[probe], clock=clock).start()
    outer.begin_cell()
    probe.emit(Launch("first", start_ns=clock()))
    probe.emit(Compile("first", start_ns=clock(), trigger="eager", duration_ns=0))
    clock.advance(20_000)
    inner = Recorder("inner", clock=clock).start()
    inner.begin_cell()
    assert Session.active is not None
    assert len(Session.active.recorders) == 2
    probe.emit(Compile("second", start_ns=clock(), trigger="eager", duration_ns=5))
    probe.emit(Launch("second", start_ns=clock()))
    clock.advance(20_000)
    part = inner.stop()
    probe.emit(Launch("first", start_ns=clock()))
    clock.advance(20_000)
    whole = outer.stop()
    assert part.dispatchers.name.tolist() == ["second"]
    assert len(part.launches) == 1
    assert part.compilations.signature.tolist() == ["(array(float32, 1d, C), int64)"]
    assert len(part.specializations) == 1
    assert len(whole.launches) == 3
    assert len(whole.compilations) == 2
    assert Session.active is None


def test_a_recorder_inside_another_knows_the_graphs_that_it_replays():
    class GraphProbe(ScriptedProbe):
        def install(self, sink, detail):
            super().install(sink, detail)
            self.sink = sink

        def graph_event(self, kind, **row):
            start = clock()
            clock.advance(100)
            self.sink.graphs.events.append({"kind": kind, "start_ns": start, "end_ns": start + 50, "outcome": "ok",
                                            "thread_ident": threading.get_ident(), **row})

        def build(self, **row):
            self.sink.builds.append({"thread_id": self.sink.state().thread_id, "framework": "scripted",
                                     "algorithm": "sort", "outcome": "hit", "start_ns": clock(), **row})

    clock, probe = FakeClock(0, tick_ns=1), GraphProbe()
    outer = Recorder("outer", probes=[probe], clock=clock).start()
    outer.begin_cell()
    probe.sink.graphs.graphs += [{"fingerprint": "f", "topology": "t"}, {"fingerprint": "g", "topology": "t"}]
    probe.sink.graphs.nodes += [{"graph_id": 1, "kind": "kernel"}, {"graph_id": 0, "kind": "host", "name": "print"}]
    probe.graph_event("instantiate", graph_id=0)
    probe.graph_event("instantiate", graph_id=1)
    probe.build()
    clock.advance(20_000)
    inner = Recorder("inner", clock=clock).start()
    inner.begin_cell()
    probe.emit(Launch("hidden", start_ns=clock()))
    configuration = probe.sink.configuration(None, None, None, None)
    probe.sink.launch(clock(), clock() + 9, probe.sink.target(0), configuration)
    probe.graph_event("launch", exec_id=1)
    probe.build(nearest_build_id=0)
    probe.build(nearest_build_id=1)
    clock.advance(20_000)
    part, whole = inner.stop(), outer.stop()
    assert whole.graph_events.kind.tolist() == ["instantiate", "instantiate", "launch"]
    assert whole.graph_events.exec_id.tolist() == [0, 1, 1]
    assert whole.graphs.fingerprint.tolist() == ["f", "g"]
    assert whole.graph_nodes.name.fillna("").tolist() == ["print", ""]
    assert part.graph_events.kind.tolist() == ["before", "launch"]
    assert part.graph_events.exec_id.tolist() == [0, 0]
    assert part.graph_events.graph_id.tolist() == [0, 0]
    assert part.graphs.fingerprint.tolist() == ["g"]
    assert len(part.graph_nodes) == 1
    assert [len(each.builds) for each in (part, whole)] == [2, 3]
    assert part.builds.nearest_build_id.fillna(-1).tolist() == [-1, 0]
    assert whole.builds.nearest_build_id.fillna(-1).tolist() == [-1, 0, 1]
    assert part.configurations.griddim_x.fillna(-1).tolist() == [1, -1]


def test_the_inner_one_gets_the_detail_of_the_session():
    with kernelscope.record(detail="launch"), kernelscope.record(detail="phases") as inner:
        pass
    assert inner.recording.metadata["detail"] == "launch"
    assert "detail 'launch'" in " ".join(inner.recording.health.message)


@pytest.mark.parametrize("method", ["install", "describe", "synchronize"])
def test_a_probe_that_fails_is_a_fact_of_health(method):
    with Recorder(probes=[ScriptedProbe(fail=method), ScriptedProbe([Launch()])]) as r:
        pass
    health = r.recording.health
    row = health[health.status != "ok"].iloc[0]
    assert f"scripted failure in {method}" in row.message
    assert len(r.recording.launches) == 1


def test_a_base_exception_while_installing_leaves_nothing():
    class Interrupting(ScriptedProbe):
        def install(self, sink, detail):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Recorder(probes=[ScriptedProbe(), Interrupting()]).start()
    assert Session.active is None


def test_metadata_are_plain_and_say_what_was_on():
    import json

    with kernelscope.record("named") as r:
        pass
    metadata = r.recording.metadata
    json.dumps(dict(metadata))
    assert metadata["probes"] == ["numba-cuda", "numba-cuda-mlir", "simulator", "nvtx", "dask", "cuda.compute",
                                  "cuda.core", "quadrants", "triton", "torch.compile",
                                  "cupy", "cute", "cutile", "jax", "warp", "gc"]
    assert metadata["packages"]["numba-cuda"] >= "0.30"
    assert metadata["clock"]["error_ns"] < 1_000_000
    with pytest.raises(TypeError):
        metadata["name"] = "other"


def test_a_package_whose_metadata_is_gone_has_no_version(tmp_path: Path) -> None:
    (tmp_path / "quadrants-9.0.dist-info").mkdir()
    code = "from kernelscope.recorder.environment import environment; print(*environment()['packages'])"
    packages = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True,
                              stdout=subprocess.PIPE, text=True).stdout.split()
    assert "numpy" in packages
    assert "quadrants" not in packages


def test_after_the_first_no_recording_opens_a_file(monkeypatch):
    """A Ctrl-C between a file's opening and its closing would leave it open."""
    with kernelscope.record():
        pass
    opened = []
    original = open

    def spy(file, *args, **options):
        opened.append(file)
        return original(file, *args, **options)

    monkeypatch.setattr("builtins.open", spy)
    with kernelscope.record():
        pass
    assert opened == []

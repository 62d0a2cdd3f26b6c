"""Six recordings that are the same on every machine: three of the scripted probe, three written row by row."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Thread
from typing import Any

from everything import everything
from graph_stories import rebuilt, with_builds
from handmade import MS, US, Script

from kernelscope.clock import FakeClock
from kernelscope.probes.scripted import Compile, Launch, ScriptedProbe
from kernelscope.recorder.recorder import Recorder
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import table_of_rows
from kernelscope.schema import TABLES

FLOAT32, FLOAT64 = "(array(float32, 1d, C), int64)", "(array(float64, 1d, C), int64)"
STRIDED, MATRIX = "(array(float32, 1d, A), int64)", "(array(float32, 2d, C), int64)"


class _Story:
    """A recorder of the scripted probe alone, on a clock that stands still between its events."""

    def __init__(self, name: str) -> None:
        self.clock, self.probe = FakeClock(1_000 * MS), ScriptedProbe()
        self.recorder = Recorder(name, probes=[self.probe], clock=self.clock, synchronize=False).start()

    def cell(self, number: int, name: str, *events: Launch | Compile, took_ns: int,
             error: BaseException | None = None) -> None:
        """Run a cell; the times of its events count from its beginning."""
        self.recorder.begin_cell(name, execution_count=number, source=f"{name}()")
        self.emit(*events)
        self.clock.advance(took_ns)
        self.recorder.end_cell(error)

    def emit(self, *events: Launch | Compile) -> None:
        for event in events:
            given = {**vars(event), "start_ns": self.clock.time_ns + event.start_ns}
            self.probe.emit(type(event)(**given))

    def recording(self) -> Recording:
        """Stop; what is of this machine and of this moment is replaced."""
        made = self.recorder.stop()
        threads = made.rows("threads")
        for number, row in enumerate(threads):
            row |= {"ident": 1 + number, "name": ("MainThread", "worker")[number]}
        processes = [{"process_id": 0, "pid": 1, "status": "ok"}]
        tables = {name: made.arrow(name) for name in TABLES} | {
            "threads": table_of_rows("threads", threads), "processes": table_of_rows("processes", processes)}
        kept = {name: made.metadata[name] for name in ("name", "schema_version", "detail", "probes", "code")}
        launches = made.arrow("launches").num_rows
        return Recording(tables, {
            **kept, "created": "2026-01-02T03:04:05+00:00",
            "recorder": {"backend": "native", "mode": "grow", "capacity": None, "kept": launches, "lost": 0},
            "clock": {"host_ns": 1_000 * MS, "wall_ns": 1_767_323_045_000_000_000, "error_ns": 50}})


def launches() -> Recording:
    """Two cells and what is between them: kernels, configurations, streams, and launches without boundaries."""
    story = _Story("launches")
    story.cell(1, "first", *(
        Launch(("axpy", "stencil")[at % 2], FLOAT32, at * 30 * US, (4_000 + 100 * at, 3_000, 2_000, 1_000),
               griddim=(64 << at % 3, 1 + at % 2), blockdim=(256,), sharedmem_bytes=1024 * (at % 2), stream=at % 3)
        for at in range(24)), took_ns=MS)
    story.emit(Launch("axpy", FLOAT32, 10 * US))
    story.clock.advance(200 * US)
    story.cell(2, "second", *(Launch("reduce", FLOAT64, at * 50 * US, (12_345,), blockdim=(8, 8)) for at in range(5)),
               took_ns=MS)
    return story.recording()


def compiles() -> Recording:
    """Compiles for every kind of reason, loads from the disk cache, and two threads that compile."""
    def disk(**found: Any) -> dict[str, Any]:
        return {"cache_file": "axpy.nbi", "attributes": json.dumps({"disk": found})}

    story = _Story("compiles")
    story.cell(1, "types", *(
        event for at, signature in enumerate((FLOAT32, FLOAT64, STRIDED, MATRIX)) for event in (
            Compile("axpy", signature, at * 20 * MS + 2 * US, 15 * MS),
            Launch("axpy", signature, at * 20 * MS, (15 * MS + 5 * US, 3_000, 2_000, 1_000)),
            Launch("axpy", signature, at * 20 * MS + 16 * MS))), took_ns=100 * MS)
    story.cell(
        2, "disk cache",
        Compile("cached", FLOAT32, 2 * US, 900 * US, "disk", attributes={"cache_file": "cached.nbi"}),
        Launch("cached", FLOAT32, 0, (MS, 3_000, 2_000, 1_000)),
        Compile("edited", FLOAT32, 10 * MS, 30 * MS, attributes=disk(state="source", source="file", size=[10, 12],
                                                                    newer=True)),
        Compile("moved", FLOAT32, 50 * MS, 30 * MS, attributes=disk(state="keys", differs={
            "compute_capability": ["8.6", "9.0"]})),
        Compile("unknown", FLOAT32, 90 * MS, 5 * MS, "failed", attributes={"error": "TypingError: no such function"}),
        Compile("eager", FLOAT32, 100 * MS, 25 * MS, trigger="eager"),
        took_ns=130 * MS)
    other = Thread(target=story.emit, args=[
        Compile("axpy", MATRIX, 3 * MS, 4 * MS, "wait"), Launch("axpy", MATRIX, 2 * MS, (6 * MS, 2_000, 1_000, 500))])
    other.start()
    other.join()
    story.clock.advance(20 * MS)
    return story.recording()


def nested() -> Recording:
    """A kernel that depends on its launch configuration, compiled for each, whose launches are inside of others."""
    story = _Story("nested")
    events: list[Launch | Compile] = []
    for at in range(6):
        start, block = at * 10 * MS, (32 << at % 3,)
        took = 8 * MS if at < 3 else 4 * US
        if at < 3:
            events.append(Compile("tiled", FLOAT32, start + 4 * US, 7 * MS, attributes={
                "launch_config_sensitive": True, "lcs_marker": False, "configuration_id": at}))
        events += [
            Launch("tiled", FLOAT32, start, (2 * US + took, 30 * US, 2 * US, US), blockdim=block),
            Launch("prepare", FLOAT64, start + took + 4 * US, (4_000, 3_000, 2_000, 1_000), blockdim=block),
            Launch("prepare", FLOAT64, start + took + 16 * US, (9_000,), blockdim=block),
        ]
    story.cell(7, "launch configurations", *events, took_ns=70 * MS)
    return story.recording()


def graphs() -> Recording:
    """Graphs that are captured, instantiated, updated, built again and launched, and a build cache."""
    return with_builds(rebuilt(clock={"host_ns": 900 * MS, "wall_ns": 1_767_323_045_000_000_000, "error_ns": 50})
                       ).recording()


def threads_and_ranges() -> Recording:
    """Two threads with NVTX ranges in two domains, and the activities of two GPUs."""
    return everything(3, "threads_and_ranges")


def troubles() -> Recording:
    """Launches and cells that fail, dropped records, clocks that do not agree, and probes that are missing."""
    made = Script(name="troubles", dry_run=False, gpu={"source": "cupti", "clock_error_ns": 250_000.0},
                  recorder={"backend": "native", "mode": "ring", "capacity": 4, "kept": 4, "lost": 96})
    made.rows["threads"] = [{"thread_id": 0, "ident": 1, "name": "MainThread"}]
    made.device(name="NVIDIA H100", compute_capability="9.0", multiprocessors=132)
    made.cell(wall_ns=40 * MS, execution_count=1, name="<fails>", status="error",
              error="CudaAPIError: [700] <illegal address>")
    made.kernel("<lambda>")
    made.specialization()
    made.configuration()
    made.launch()
    made.compilation(duration_ns=3 * MS, outcome="failed", specialization_id=None, cell_id=0,
                     error="TypingError: <unknown> attribute")
    made.launch(0, None, None, error="TypingError", cache=None)
    made.launch(error="CudaAPIError")
    made.launch(end_ns=None, error="unfinished", submit_end_ns=None)
    made.activity("kernel", "unmeasured", start_ns=None)
    made.activity(start_ns=made.now - 10 * US, launch_id=0)
    made.activity("memcpy", "HtoD", size_bytes=4096, stream=9)
    made.api_call("cuMemAlloc_v2", result=2)
    made.range("never closed", start_ns=made.now - MS, cell_id=0)
    made.cell(execution_count=2, name="interrupted", status="interrupted", start_ns=made.now + 50 * MS,
              end_ns=made.now + 60 * MS)
    made.health("recorder", cost_ns=640.0, total_cost_ns=2_560.0)
    made.health("cupti", "degraded", message="the GPU's clock drifted", fix="record again", dropped=1_234,
                clock_error_ns=250_000.0)
    made.health("quadrants", "unavailable", message="version 9.9 is not known", fix="pip install quadrants==1.0")
    made.health("nvtx", "failed", message="RuntimeError: <hook>", errors=3)
    return made.recording()


#: What makes each, by name.
SCRIPTED: dict[str, Callable[[], Recording]] = {
    "scripted_launches": launches, "scripted_compiles": compiles, "scripted_nested": nested, "scripted_graphs": graphs,
    "scripted_threads_and_ranges": threads_and_ranges, "scripted_troubles": troubles}

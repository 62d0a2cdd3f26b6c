"""The timeline's model, and that every form in which it is shown says the same of a slice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from everything import everything
from graph_stories import rebuilt, with_builds
from handmade import MS, US, Script
from perfetto_trace import odd, written
from unpack import Unpacked, unpacked

from kernelscope import Recording, load
from kernelscope.analysis.launches import PHASES, launch_phases
from kernelscope.units import short_name
from kernelscope.views.timeline.build import timeline_of
from kernelscope.views.timeline.model import NO_END, NO_START, Timeline
from kernelscope.views.timeline.wire import SENT

RECORDINGS = Path(__file__).resolve().parents[3] / "notebooks" / "recordings"
MAKERS: dict[str, Any] = {"odd": odd, "everything": everything, "graphs": lambda: with_builds(rebuilt()).recording(),
                          "specializations": lambda: load(RECORDINGS / "specializations.kscope")}


@pytest.fixture(scope="module", params=MAKERS)
def recording(request: pytest.FixtureRequest) -> Recording:
    made: Recording = MAKERS[request.param]()
    return made


def names_of(shown: Timeline, table: str) -> list[str]:
    names = shown.tables[table].look().names
    return [names.values[code] for code in names.codes.tolist()]


def name_on_the_wire(back: Unpacked, table: str, row: int) -> str | None:
    """What the front end makes of a row, by its own rules."""
    texts = back.texts
    if table == "cells":
        return texts["cells"][back.col("cells", "id")[row]]["label"]
    if table == "launches":
        return texts["kernels"][back.col(table, "dispatcher_id")[row]]["name"]
    if table == "gpu" and back.col(table, "kernel")[row] >= 0:
        return texts["kernels"][back.col(table, "kernel")[row]]["name"]
    if table == "compiles":
        words = {"compiled": "compile", "disk": "load", "wait": "wait for", "failed": "failed compile"}
        return (f"{words[texts['compiles'][row]['outcome']]} "
                f"{texts['kernels'][back.col(table, 'dispatcher_id')[row]]['name']}")
    name = back.words(table, "name")[row]
    return short_name(name) if table == "gpu" and name else name


def test_the_wire_says_the_same(recording: Recording) -> None:
    shown, back = timeline_of(recording), unpacked(recording)
    assert [lane["label"] for lane in back.header["lanes"]] == [
        lane.label for lane in shown.lanes if any(track.table in SENT for track in lane.tracks)]
    for table in SENT:
        slices = shown.tables[table]
        assert back.col(table, "start").tolist() == slices.start.tolist()
        assert back.col(table, "dur").tolist() == (slices.end - slices.start).tolist()
        assert back.col(table, "track").tolist() == slices.track.tolist()
        names = names_of(shown, table)
        for row in range(0, len(slices), max(1, len(slices) // 200)):
            assert name_on_the_wire(back, table, row) == names[row], (table, row)


def test_a_trace_says_the_same(recording: Recording, tmp_path: Path) -> None:
    shown, trace = timeline_of(recording), written(recording, tmp_path)
    phases = {"dispatch", "compile", "prepare", "submit", "finish"}
    found = sorted((each.name, each.category, each.start) for each in trace.slices
                   if each.category != "phase" or each.name not in phases)
    # A slice without an end is drawn as what is known of it, which test_perfetto.py looks at.
    ends = Counter((each.name, each.category, each.start, each.end) for each in trace.slices)
    wanted: list[tuple[str, str, int]] = []
    for table, slices in shown.tables.items():
        kinds = slices.look().kinds
        starts = (slices.start + shown.first_ns).tolist()
        wanted += [(name, kinds.values[kind], max(start, 0)) for name, kind, start in zip(
            names_of(shown, table), kinds.codes.tolist(), starts, strict=True)]
        known = (slices.flags & (NO_START | NO_END) == 0) & (slices.end > slices.start)
        for at in np.flatnonzero(known).tolist():
            ends[(*wanted[at - len(slices)], int(slices.end[at] + shown.first_ns))] -= 1
    assert found == sorted(wanted)
    assert min(ends.values(), default=0) >= 0


def test_segments_are_the_phases(recording: Recording) -> None:
    shown = timeline_of(recording)
    spent = {name: np.zeros(len(shown.tables["launches"]), dtype=np.int64) for name in (*PHASES, "other")}
    for each in shown.segments():
        spent[each.name] += each.end - each.start
    phases = launch_phases(recording).phases
    for name in PHASES:
        known = (phases[name] >= 0) & (phases["dispatch"] >= 0)
        assert np.array_equal(spent[name][known], phases[name][known]), name
    slices = shown.tables["launches"]
    assert np.array_equal(sum(spent.values()), slices.end - slices.start)


def test_no_two_slices_of_a_track_overlap_and_none_is_in_no_track(recording: Recording) -> None:
    shown = timeline_of(recording)
    tracks = [track for lane in shown.lanes for track in lane.tracks]
    seen = {table: 0 for table in shown.tables}
    for track in tracks:
        slices, rows = shown.tables[track.table], shown.rows(track)
        start, end = slices.start[rows], np.maximum(slices.start, slices.end)[rows]
        assert len(start) and bool((start[1:] >= end[:-1]).all())
        seen[track.table] += len(start)
    assert seen == {table: len(slices) for table, slices in shown.tables.items()}


def test_what_is_not_known_is_said() -> None:
    made = Script()
    made.cell(wall_ns=MS)
    made.kernel()
    made.specialization()
    made.configuration()
    made.launch(phases=None, end_ns=None)
    made.range("open", start_ns=made.now, end_ns=None)
    made.activity(end_ns=None)
    shown = timeline_of(made.recording())
    for table in ("launches", "ranges", "gpu"):
        assert shown.tables[table].flags.tolist()[0] & NO_END, table
    assert shown.tables["ranges"].end.tolist() == [shown.span_ns]
    assert shown.tables["launches"].end.tolist() == shown.tables["launches"].start.tolist()


def test_a_compile_lies_inside_its_dispatch_where_it_began() -> None:
    made = Script()
    made.kernel()
    made.specialization()
    made.configuration()
    start = made.now
    compiled = made.compilation(duration_ns=20 * US, start_ns=start + 5 * US)
    made.launch(phases=(30 * US, 20 * US, US, US, US), compilation_id=compiled)
    found = [(each.name, int(each.start[0]), int(each.end[0])) for each in timeline_of(made.recording()).segments()]
    assert found[:3] == [("dispatch", 0, 5 * US), ("compile", 5 * US, 25 * US), ("dispatch", 25 * US, 50 * US)]


def test_arrows_lead_to_the_first_activity_of_a_launch_and_of_a_call() -> None:
    shown = timeline_of(odd())
    found = {(flow.source, flow.target): (flow.rows.tolist(), flow.targets.tolist()) for flow in shown.flows()}
    assert found["launches", "gpu"][0] == [0]
    calls, graphs = found["calls", "graphs"]
    assert [names_of(shown, "calls")[at] for at in calls] == ["cuGraphLaunch"] and graphs == [0]
    copies = [names_of(shown, "gpu")[at] for at in found["calls", "gpu"][1]]
    assert copies == ["HtoD"]


def test_what_a_line_made_says_so_on_the_wire_and_in_traces(tmp_path: Path) -> None:
    made = Script(gpu={"source": "cupti"})
    made.cell()
    made.launchable()
    for row in ({"file": "In[1]", "line": 2}, {"file": "/home/u/sim.py", "line": 7, "function": "step"}, {
            "file": "/home/u/site-packages/library.py", "line": 9}):
        made._add("lines", "line_id", row)
    launches = [made.launch(line_id=line) for line in (0, 1, None)]
    made.activity(launch_id=launches[0], line_id=0)
    made.activity("memcpy", "HtoD", line_id=1, correlation_id=5, submit_start_ns=made.now - 9, submit_end_ns=made.now)
    made.activity("sync", "context synchronize", line_id=1)
    made.compilation(line_id=1)
    made.range(line_id=0, end_ns=made.now)
    made.graph()
    made.graph_event("launch", line_id=1)
    recording = made.recording()
    back = unpacked(recording)
    for table, lines in {"launches": [0, 1, -1], "gpu": [0, 1], "calls": [1, 1], "compiles": [1], "ranges": [0],
                         "events": [1]}.items():
        assert back.col(table, "line_id").tolist() == lines, table
    assert [each["at"] for each in back.texts["lines"][:2]] == ["In[1]:2", "sim.py:7"]
    told = Counter(each.arguments.get("line") for each in written(recording, tmp_path).slices)
    assert told["In[1]:2"] == 3 and told["sim.py:7 step"] == 6

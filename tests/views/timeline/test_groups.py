"""The timeline of several processes: lanes apart, groups by machine and process, and how busy each group was."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest
from perfetto_trace import read
from worker_recordings import on_gpu, worker

from kernelscope.palette import COMPILE_COLOR, KERNEL_COLORS, PHASE_COLORS
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.views.timeline import overview
from kernelscope.views.timeline.build import timeline_of
from kernelscope.views.timeline.perfetto import to_perfetto
from kernelscope.views.timeline.svg import picture
from kernelscope.views.timeline.wire import pack


def workers(number: int, machines: int) -> Recording:
    """Merged workers of which each has a kernel on its stream 7, and a known bound of its clock."""
    made = [on_gpu(worker(at, rank=at, host=f"node{at * machines // number + 9}", clock_bound_ns=1_000 * at,
                          device={"ordinal": 0, "uuid": f"GPU-{at}", "name": "H200"}),
                   ("kernel", "axpy", 1_010 + at, 1_060 + at), ("kernel", "scale", 1_050, 1_110))
            for at in range(number)]
    return merge(made[::-1])


def test_lanes_of_the_same_name_are_apart_and_in_order_of_machine_and_rank() -> None:
    recording = workers(4, 2)
    shown = timeline_of(recording)
    assert [(each.host, each.label, each.bound_ns) for each in shown.processes] == [
        ("node9", "rank 0", 0), ("node9", "rank 1", 1_000), ("node10", "rank 2", 2_000), ("node10", "rank 3", 3_000)]
    numbers = [each.number for each in shown.processes]
    assert [(numbers.index(lane.process), lane.name) for lane in shown.lanes] == [
        (at, name) for at in range(4) for name in ("Cells", "MainThread", "GPU 0, stream 7")]
    threads = recording.rows("threads")
    for lane in shown.lanes:
        if lane.group == "host":
            rows = shown.rows(next(track for track in lane.tracks if track.table == "launches"))
            on = shown.tables["launches"].columns()["thread_id"].values[rows]
            assert [threads[each]["process_id"] for each in on.tolist()] == [lane.process] * 2


def test_words_say_whose_something_is_only_where_there_are_several() -> None:
    shown = timeline_of(workers(2, 2))
    assert shown.words("devices") == ["GPU 0 (H200) of node10", "GPU 0 (H200) of node9"]
    assert [row["process"] for row in shown.facts["threads"]] == ["rank 1", "rank 0"]
    alone = timeline_of(worker(1))
    assert alone.words("devices") == ["GPU 0 (H200)"] and "process" not in alone.facts["threads"][0]
    header = pack(alone).header
    assert not {"processes", "folded"} & set(header) and all("process" not in lane for lane in header["lanes"])


@pytest.mark.parametrize(("number", "is_folded"), [(4, False), (5, True)])
def test_more_than_a_few_groups_begin_folded(number: int, is_folded: bool) -> None:
    header = pack(timeline_of(workers(number, 1))).header
    assert header["folded"] is is_folded and json.loads(json.dumps(header["processes"][1])) == {
        "label": "rank 1", "host": "node9", "bound": 1_000,
        "about": [["machine", "node9"], ["pid", "1"], ["rank", "1"], ["GPU", "GPU-1"], ["status", "ok"]]}
    assert [lane["process"] for lane in header["lanes"]] == [at for at in range(number) for _ in range(3)]


def test_how_busy_a_process_was_counts_overlaps_once() -> None:
    shown = timeline_of(workers(3, 1))
    found = shown.busy(shown.processes[2].number)
    first = shown.first_ns
    assert [(each.start + first).tolist() + (each.end + first).tolist() for each in found.values()] == [
        [991, 996], [1_000, 1_100, 1_050, 1_150], [1_012, 1_110]]


def test_the_overview_has_each_process_and_no_track_of_folded_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "LEAST_EVENTS", 0)
    shown = timeline_of(workers(6, 2))
    found = overview.with_overview(pack(shown), shown).header["overview"]
    assert [*found] == [f"p{at}" for at in range(6)]
    colors = dict(found["p1"])
    assert set(colors) == {PHASE_COLORS["dispatch"], COMPILE_COLOR, KERNEL_COLORS[2]}
    busy = shown.busy(shown.processes[1].number)
    for color, table in ((PHASE_COLORS["dispatch"], "launches"), (KERNEL_COLORS[2], "gpu")):
        shares = np.frombuffer(base64.b64decode(colors[color]), np.uint8).astype(float) / 255
        assert shares.sum() / len(shares) == pytest.approx(busy[table].total_ns / shown.span_ns, rel=0.02)
    few = timeline_of(workers(2, 1))
    assert {"p0", "p1", str(few.lanes[0].tracks[0].number)} <= set(overview.with_overview(pack(few), few)
                                                                   .header["overview"])


def test_the_picture_draws_processes_and_says_how_far_clocks_are_off() -> None:
    drawn = picture(timeline_of(workers(70, 7)))
    names = re.findall(r">(node\d+ rank \d+)</text>", drawn)
    assert names == [f"node{at // 10 + 9} rank {at}" for at in range(64)]
    assert "6 more processes" in drawn and "±69.0 µs (rank 69)" in drawn and "GPU busy" in drawn
    few = picture(timeline_of(workers(2, 1)))
    assert few.index(">rank 0<") < few.index(">MainThread<") < few.index(">rank 1<")


def test_a_trace_has_the_lanes_of_a_process_in_its_group(tmp_path: Path) -> None:
    found = read(to_perfetto(workers(2, 2), tmp_path / "trace.pftrace").read_bytes())
    assert {track[1] for track in found.tracks if len(track) > 1} == {"node9 rank 0", "node10 rank 1"}
    assert {each.track[1:4] for each in found.slices if each.category == "launch"} == {
        ("node9 rank 0", "Host", "MainThread"), ("node10 rank 1", "Host", "MainThread")}

"""Lanes of a GPU's counters, in every form in which a timeline is shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from handmade import US, Script
from perfetto_trace import read
from unpack import unpacked
from worker_recordings import worker

from kernelscope import Recording
from kernelscope.palette import SAMPLE_COLOR
from kernelscope.recording.merge import merge
from kernelscope.views.timeline.build import timeline_of
from kernelscope.views.timeline.overview import with_overview
from kernelscope.views.timeline.perfetto import to_perfetto
from kernelscope.views.timeline.svg import picture, shares
from kernelscope.views.timeline.wire import pack

SM, DRAM = [100.0, 50.25, None, 0.0, 25.0], [0.0, 10.0, 20.0, 30.0, 140.0]


def sampled() -> Script:
    """A kernel on each of two streams, and five samples of two counters from its start on; some were lost."""
    made = Script()
    made.device(name="H200")
    made.cell(wall_ns=1_000 * US)
    made.launchable()
    made.launch()
    made.now = made.rows["cells"][0]["start_ns"] + 100 * US
    made.activity(duration_ns=200 * US)
    made.activity(duration_ns=200 * US, stream=9)
    made.counter(DRAM, "dram__throughput")
    made.counter(SM)
    made.counter([3.0], "lts__t_bytes.sum")
    made.rows["pm_samples"][-1]["name"] = "lts__t_bytes.sum"
    return made


@pytest.fixture
def recording() -> Recording:
    return sampled().recording()


def test_each_counter_has_a_lane_below_the_streams_of_its_device(recording: Recording) -> None:
    shown = timeline_of(recording)
    assert [lane.name for lane in shown.lanes][-4:] == [
        "GPU 0, stream 7", "GPU 0, stream 9", "GPU 0, SM busy, 100 µs lost", "GPU 0, DRAM"]
    slices = shown.tables["samples"]
    values, names = slices.columns()["value"].values, slices.look().names
    by_lane = {lane.note.split(",")[0]: values[shown.rows(lane.tracks[0])].tolist() for lane in shown.lanes[-2:]}
    assert by_lane == {"SM busy": [10_000, 5_025, -1, 0, 2_500], "DRAM": [0, 1_000, 2_000, 3_000, 10_000]}
    assert {names.values[code] for code in names.codes.tolist()} == {"SM busy", "DRAM"}


def test_means_are_of_the_time_that_was_sampled(recording: Recording) -> None:
    shown = timeline_of(recording)
    track = shown.lanes[-2].tracks[0]
    start = int(shown.tables["samples"].start.min())
    edges = start + np.array([-100, 0, 50, 150, 200, 250, 350, 400, 600]) * US
    assert np.allclose(shown.means(track, edges), [np.nan, 100, 75.125, 50.25, np.nan, 0, 0, 25], equal_nan=True)


def test_the_wire(recording: Recording) -> None:
    back = unpacked(recording)
    assert back.rows("samples") == 10
    assert [lane["note"] for lane in back.header["lanes"]][-2:] == ["SM busy, 100 µs lost", "DRAM"]
    assert [lane["tracks"][0]["kind"] for lane in back.header["lanes"][-2:]] == ["area", "area"]
    held = zip(back.words("samples", "name"), back.col("samples", "value").tolist(), strict=True)
    assert [value for name, value in held if name == "SM busy"] == [10_000, 5_025, -1, 0, 2_500]
    assert set(back.words("samples", "metric")) == {
        f"{name}.avg.pct_of_peak_sustained_elapsed" for name in ("sm__cycles_active", "dram__throughput")}


def test_the_picture_has_areas(recording: Recording) -> None:
    drawn = picture(timeline_of(recording))
    grounds = re.findall(rf"<path d='([^']*)' fill='{SAMPLE_COLOR}' fill-opacity='.2'/>", drawn)
    assert grounds[0] == "M72 121V106h144V121zM288 121V106h144V121z" and grounds[1].count("z") == 1
    assert "areas: the GPU" in drawn and "areas: the GPU" not in picture(timeline_of(Script().recording()))
    areas = re.findall(rf"<path d='([^']*)' fill='{SAMPLE_COLOR}'/>", drawn)
    assert len(areas) == 2 and ">SM busy, 100 µs lost<" in drawn
    sm, dram = areas
    # From the bottom to the full height, half of it, none where samples are missing, and a quarter.
    bottom = float(re.match(r"M\d+ ([\d.]+)", sm)[1])  # type: ignore[index]
    heights = [bottom - float(each) for each in re.findall(r"V([\d.]+)h", sm)]
    assert heights == [15, 7.5, 0, 4] and sm.count("M") == 2 and dram.count("M") == 1
    found = dict((track.number, parts) for track, parts in shares(timeline_of(recording), 10) if track.kind == "area")
    assert [[*parts] for parts in found.values()] == [[SAMPLE_COLOR]] * 2
    (share,) = found[timeline_of(recording).lanes[-2].tracks[0].number].values()
    assert np.allclose(share[[1, 2, 3, 4, 5, 6]], [1, 0.5025, 0, 0, 0.25, 0])


def test_a_large_timeline_s_overview_has_them(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelscope.views.timeline.overview.LEAST_EVENTS", 1)
    shown = timeline_of(recording)
    held = with_overview(pack(shown), shown).header["overview"]
    assert [color for color, _ in held[str(shown.lanes[-1].tracks[0].number)]] == [SAMPLE_COLOR]


def test_traces_have_counters(recording: Recording, tmp_path: Path) -> None:
    found = read(to_perfetto(recording, tmp_path / "trace").read_bytes())
    start = min(row["start_ns"] for row in recording.rows("pm_samples"))
    by_name = {track[-1]: [(time - start, value) for time, value in values] for track, values in found.counters.items()}
    assert by_name == {
        "SM busy, 100 µs lost": [(0, 100), (100_000, 50.25), (200_000, 0), (300_000, 0), (400_000, 25), (500_000, 0)],
        "DRAM": [(at * 100_000, value) for at, value in enumerate([0, 10, 20, 30, 100, 0])]}
    track = next(path for path in found.tracks if path[-1] == "DRAM")
    assert found.tracks[track].counter.unit_name == "%" and track[-2] == "GPU 0 (H200)"
    events = json.loads(to_perfetto(recording, tmp_path / "trace.json").read_text())["traceEvents"]
    counters = [each for each in events if each["ph"] == "C" and each["name"] == "DRAM"]
    assert [each["args"]["%"] for each in counters] == [0, 10, 20, 30, 100, 0]
    assert counters[1]["ts"] == pytest.approx((start + 100_000) / 1000)


def test_each_process_has_its_own(recording: Recording) -> None:
    shown = timeline_of(merge([worker(0), recording, sampled().recording()]))
    lanes = [lane for lane in shown.lanes if lane.tracks[0].kind == "area"]
    assert len({lane.process for lane in lanes}) >= 1 and len(lanes) in (2, 4)
    assert sum(len(shown.tables["samples"].start[shown.rows(lane.tracks[0])]) for lane in lanes) == 20

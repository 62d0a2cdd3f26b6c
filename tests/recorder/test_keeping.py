"""How launches are asked to be kept, what a recorder makes of it, and what its recording says."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

import kernelscope
from kernelscope.clock import FakeClock
from kernelscope.probes.scripted import Launch, ScriptedProbe
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.recorder import Recorder
from kernelscope.recording.merge import merge
from kernelscope.recording.model import select_cell
from kernelscope.recording.redact import redact
from kernelscope.views.card.text import summary


def recorded(count: int, **options: Any) -> Any:
    """A recording of one cell with so many launches, a microsecond after one another."""
    clock, probe = FakeClock(0), ScriptedProbe()
    recorder = Recorder(probes=[probe], clock=clock, **options).start()
    recorder.begin_cell("cell")
    for _ in range(count):
        clock.advance(1_000)
        probe.emit(Launch(start_ns=clock(), phases_ns=[10]))
    return recorder.stop()


def in_text(recording: Any) -> str:
    return " ".join(summary(recording, 200).split())


@pytest.mark.parametrize(("options", "said"), [
    ({"detail": "everything"}, "detail 'everything' is not one of launch, phases"),
    ({"mode": "shrink"}, "mode 'shrink' is not one of grow, ring, stop"),
    ({"capacity": 10}, "capacity 10 is for mode 'ring' or 'stop'"),
    ({"mode": "ring", "capacity": 0}, "capacity 0 is no number of launches: it takes an int of 1 or more"),
    ({"mode": "stop", "capacity": True}, "capacity True is no number"),
    ({"mode": "ring", "capacity": 1e6}, "capacity 1000000.0 is no number"),
    ({"journal": 3}, "journal 3 is none of None, True and a folder's path"),
    ({"journal": False}, "journal False is none"),
])
def test_what_there_is_not(options, said):
    with pytest.raises(ValueError, match=said.replace(".", r"\.")):
        kernelscope.record(**options)


@pytest.mark.parametrize(("options", "targets", "message"), [
    ({}, range(10), None),
    ({"mode": "ring", "capacity": 3}, range(7, 10), "kept the newest 3 of 10 launches: mode 'ring' with capacity 3"),
    ({"mode": "stop", "capacity": 3}, range(3), "kept the first 3 of 10 launches: mode 'stop' with capacity 3"),
    ({"mode": "ring", "capacity": 10}, range(10), None),
])
def test_a_recording_says_what_was_kept(options, targets, message):
    recording = recorded(10, **options)
    assert recording.launches.start_ns.tolist() == [(each + 1) * 1_000 for each in targets]
    lost = 10 - len(targets)
    assert recording.metadata["recorder"] == {
        "mode": options.get("mode", "grow"), "capacity": options.get("capacity"),
        "kept": len(targets), "lost": lost}
    rows = [row for row in recording.rows("health") if row["probe"] == "recorder"]
    assert [(row["status"], row["dropped"], row["message"]) for row in rows] == (
        [("degraded", lost, message)] if message else [])
    assert all("mode 'grow', which keeps all" in row["fix"] for row in rows)


@pytest.mark.parametrize(("options", "text"), [
    ({}, "10 launches kept, none lost"),
    ({"mode": "ring", "capacity": 4}, "mode ring, 4 launches kept, 6 lost"),
])
def test_the_card_says_it_too(options, text):
    recording = recorded(10, **options)
    for shown in (in_text(recording), recording._repr_html_(), in_text(redact(recording))):
        assert f"; {text}" in shown


def test_the_card_says_nothing_where_it_is_not_known():
    assert "kept" not in in_text(recorded(0))
    recording = recorded(3)
    for metadata in ({}, {"recorder": None}, {"recorder": {"kept": 4, "lost": 0}},
                     {"recorder": {"kept": "3", "lost": 0}}, {"recorder": {"kept": 3, "lost": -1}}):
        tables = {name: recording.arrow(name) for name in kernelscope.schema.TABLES}
        assert "kept" not in in_text(kernelscope.Recording(tables, metadata))


def test_a_cell_of_a_longer_recording_does_not_say_what_the_whole_kept():
    clock, probe = FakeClock(0), ScriptedProbe()
    recorder = Recorder(probes=[probe], clock=clock).start()
    for _ in range(2):
        recorder.begin_cell()
        clock.advance(1_000)
        probe.emit(Launch(start_ns=clock(), phases_ns=[10]))
        clock.advance(1_000)
        recorder.end_cell()
    recording = recorder.stop()
    assert "2 launches kept" in in_text(recording)
    assert "kept" not in in_text(select_cell(recording, 0))


def test_merged_recordings_kept_what_all_of_them_kept():
    ring, grow = recorded(10, mode="ring", capacity=4), recorded(5)
    assert merge([ring, ring]).metadata["recorder"] == {
        "mode": "ring", "capacity": 4, "kept": 8, "lost": 12}
    both = merge([ring, grow])
    assert both.metadata["recorder"] == {
        "mode": None, "capacity": None, "kept": 9, "lost": 6}
    assert "; 9 launches kept, 6 lost" in in_text(both)
    older = kernelscope.Recording({name: grow.arrow(name) for name in kernelscope.schema.TABLES},
                                  {"dry_run": grow.is_dry_run})
    assert "recorder" not in merge([grow, older]).metadata


def test_a_recorder_inside_another_keeps_what_that_one_keeps():
    clock, probe = FakeClock(0), ScriptedProbe()
    outer = Recorder(probes=[probe], clock=clock, mode="ring", capacity=4).start()

    def launch() -> None:
        clock.advance(1_000)
        probe.emit(Launch(start_ns=clock(), phases_ns=[10]))

    for _ in range(3):
        launch()
    clock.advance(1_000)
    inner = Recorder(clock=clock, mode="stop", capacity=2, journal=True).start()
    for _ in range(6):
        launch()
    part = inner.stop()
    launch()
    whole = outer.stop()
    assert [each.metadata["recorder"]["lost"] for each in (part, whole)] == [2, 6]
    assert [len(each.launches) for each in (part, whole)] == [4, 4]
    said = [row["message"] for row in part.rows("health") if row["probe"] == "recorder"]
    assert said == [
        "kept the newest 4 of 6 launches: mode 'ring' with capacity 4",
        "launches were kept in mode 'ring' with capacity 4, as in the recording around it, not in mode 'stop' with "
        "capacity 2",
        "launches went to no journal of the recording around it, not to a separate one",
    ]


def told(one: str, kind: bool) -> None:
    """Be another value of the option ``notify``."""


#: For each option that is the outer recording's: what the inner one asks for, what the outer one has, and what it says.
INSIDE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "detail": ({"detail": "launch"}, {}, "recorded with detail 'phases', as the recording around it, not 'launch'"),
    "gpu": ({"gpu": "none"}, {"gpu": "cupti"},
            "recorded the GPU's side with 'cupti', as the recording around it, not 'none'"),
    "lines": ({"lines": False}, {}, "recorded lines of your code, as the recording around it"),
    "lines_of": ({"lines_of": ["json"]}, {"lines_of": ("csv",)},
                 "recorded lines of your code, csv, as the recording around it"),
    "stacks": ({"stacks": True}, {}, "recorded no call paths, as the recording around it"),
    "torch_ops": ({"torch_ops": True}, {}, "recorded no operators of PyTorch, as the recording around it"),
    "stalls": ({"stalls": "launches"}, {"stalls": True},
               "recorded stall reasons of kernels as they came, as the recording around it"),
    "lanes": ({"lanes": True}, {}, "recorded no lanes of the GPU's counters, as the recording around it"),
    "metrics": ({"metrics": "full"}, {"metrics": "basic"}, "measured basic, as the recording around it"),
    "metrics_of": ({"metrics": "basic", "metrics_of": "axpy*"}, {"metrics": "basic"},
                   "measured all kernels, as the recording around it"),
    "replay": ({"metrics": "basic", "replay": "user"}, {"metrics": "basic"},
               "measured with replay 'kernel', as the recording around it, not 'user'"),
    "notify": ({"metrics": "basic", "notify": told}, {"metrics": "basic"},
               "notify was not called: the recording around it has none"),
    "mode": ({"mode": "stop"}, {"mode": "ring"}, "launches were kept in mode 'ring' with capacity 1,000,000, as in the "
             "recording around it, not in mode 'stop' with capacity 1,000,000"),
    "capacity": ({"mode": "ring", "capacity": 5}, {"mode": "ring", "capacity": 6}, "launches were kept in mode 'ring' "
                 "with capacity 6, as in the recording around it, not in mode 'ring' with capacity 5"),
    "journal": ({"journal": True}, {}, "launches went to no journal of the recording around it, not to a separate one"),
}
#: Options of which a recording inside another one has its own value.
SEPARATE = {"name", "synchronize", "code", "children"}


@pytest.mark.parametrize("option", sorted({each.name for each in fields(RecordingOptions)} - SEPARATE))
def test_a_recorder_inside_another_says_of_each_option_that_it_is_that_ones(option: str) -> None:
    inner, outer, line = INSIDE[option]
    with Recorder(probes=[], **outer), Recorder(**inner) as part:
        pass
    assert [row["message"] for row in part.recording.rows("health")] == [line]
    with Recorder(probes=[], **outer), Recorder(**outer) as same:
        pass
    assert same.recording.rows("health") == []


def test_what_a_recorder_inside_another_has_of_its_own_is_no_difference() -> None:
    own = {"name": "inner", "synchronize": False, "code": True, "children": False}
    assert own.keys() == SEPARATE
    with Recorder(probes=[], children=True), Recorder(**own) as inner:
        pass
    assert inner.recording.rows("health") == []
    assert (inner.recording.metadata["name"], inner.recording.metadata["code"]) == ("inner", True)


def test_passes_inside_a_recording_that_repeats_kernels_run_once() -> None:
    with Recorder(probes=[], metrics="basic"), Recorder(metrics="basic", replay="user") as inner:
        assert [*inner.passes()] == [0]


def test_what_was_not_asked_for_is_no_difference():
    with Recorder(probes=[], mode="ring", capacity=4), Recorder() as inner, Recorder(mode="ring", capacity=4) as same:
        pass
    assert [row for each in (inner, same) for row in each.recording.rows("health")] == []

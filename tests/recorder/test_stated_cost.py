"""What a recording states of its own cost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from calibrations import HERE, TODAY, calibration, cost

import kernelscope
from kernelscope.probes.scripted import Launch, ScriptedProbe
from kernelscope.recorder import overhead
from kernelscope.recorder.overhead import Calibration, Stored, store
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import redact


def test_a_cost_that_was_measured() -> None:
    found = overhead.calibrated(calibration())
    assert found.message == "calibrated on this machine on 2026-11-22: 95 ns a launch with detail 'phases' (90 to 101)"
    assert found.cost_ns == 95.0
    assert found.how == {"kind": "calibrated", "measured": "2026-11-22T09:00:00+00:00", "low_ns": 90.0,
                           "high_ns": 101.0, "is_seen": True}


def test_a_cost_that_was_not_seen_counts_as_its_upper_end() -> None:
    found = overhead.calibrated(calibration(cost(2.0, -9.0, 13.0), detail="launch"))
    assert found.message == ("calibrated on this machine on 2026-11-22: no difference seen with detail 'launch' "
                             "(-9 to 13 ns a launch), counted as 13 ns")
    assert found.cost_ns == 13.0
    assert found.how["is_seen"] is False


def test_an_estimate_says_so() -> None:
    found = overhead.estimated(411.4, "phases")
    assert (found.message, found.how) == ("estimated: 411 ns a launch with detail 'phases'", {"kind": "estimated"})


@pytest.fixture
def on_the_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine, as the calibrations by hand have it."""
    monkeypatch.setattr(overhead.platform, "node", lambda: HERE.machine)
    monkeypatch.setattr(overhead, "_processor", lambda: HERE.processor)
    monkeypatch.setattr(overhead.platform, "python_version", lambda: HERE.python)
    monkeypatch.setattr(overhead, "_numba_cuda", lambda: HERE.numba_cuda)


def known(held: list[Calibration], *gpus: str | None) -> Calibration | None:
    return overhead.known(gpus, "phases", Stored(Path("x"), tuple(held)), TODAY)


def test_of_several_gpus_the_dearest_counts_and_all_must_be_known(on_the_box: None) -> None:
    one, two = calibration(gpu="A"), calibration(cost(120, 110, 130), gpu="B")
    assert known([one, two], "A") is one
    assert known([one, two], "A", "B") is two
    assert known([one, two], "A", "C") is None
    assert known([one, two], None) is None
    assert known([one, two]) is None
    assert known([calibration()], None) == calibration()


def test_this_process_has_a_setting() -> None:
    made = overhead.setting(None, "launch")
    assert made.kernelscope == kernelscope.__version__
    assert all((made.machine, made.processor, made.python, made.numba_cuda))
    assert (made.gpu, made.detail) == (None, "launch")


def test_a_machine_that_does_not_tell_its_processor(tmp_path: Path) -> None:
    assert overhead.processor(tmp_path)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nmodel name\t: Fast(R) 9000\n")
    assert overhead.processor(tmp_path) == "Fast(R) 9000"


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Record some launches with these calibrations stored, as a process does that has just begun."""
    from numba import cuda

    @cuda.jit
    def noop() -> None:
        pass

    def record(*held: Calibration, **options: Any) -> Recording:
        if held:
            store(held)
        with kernelscope.record("x", gpu="none", **options) as recorder:
            for _ in range(5):
                noop[1, 32]()
        return recorder.recording

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    overhead.of_process.cache_clear()
    yield record
    overhead.of_process.cache_clear()


def cost_row(recording: Recording) -> dict[str, Any]:
    (row,) = (row for row in recording.rows("health") if row["probe"] == "numba-cuda")
    return row


def test_recordings_state_what_was_measured(launched: Any) -> None:
    mine = calibration(measured=overhead.datetime.now(TODAY.tzinfo), here=overhead.setting(None, "phases"))
    row = cost_row(launched(mine))
    assert row["message"].startswith("calibrated on this machine on ")
    assert (row["cost_ns"], row["total_cost_ns"]) == (95.0, 475.0)


def test_another_detail_is_estimated(launched: Any) -> None:
    mine = calibration(measured=overhead.datetime.now(TODAY.tzinfo), here=overhead.setting(None, "phases"))
    recording = launched(mine, detail="launch")
    assert cost_row(recording)["message"].startswith("estimated: ")
    assert cost_row(recording)["cost_ns"] > 0
    assert recording.metadata["own_cost"]["numba-cuda"] == {"kind": "estimated"}


def test_call_paths_cost_more(launched: Any) -> None:
    mine = calibration(measured=overhead.datetime.now(TODAY.tzinfo), here=overhead.setting(None, "phases"))
    recording = launched(mine, stacks=True)
    row = cost_row(recording)
    assert 95 < row["cost_ns"] < 100_000 and row["total_cost_ns"] == 5 * row["cost_ns"]
    assert row["message"].endswith("ns more for its call path, estimated")
    assert recording.metadata["own_cost"]["numba-cuda"] == {"kind": "partly calibrated"}
    assert "partly calibrated" in recording.summary()


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 2, "calibrations": [{}]}'])
def test_a_damaged_file_does_not_disturb_a_recording(launched: Any, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "kernelscope").mkdir()
    (tmp_path / "kernelscope" / "calibration.json").write_bytes(content)
    recording = launched()
    assert cost_row(recording)["message"].startswith("estimated: ")
    assert cost_row(recording)["errors"] is None


def test_the_file_is_read_once_a_process_and_not_before_a_recording_stops(
        launched: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = os.open

    def watch(path: Any, *arguments: Any, **named: Any) -> int:
        if str(path).endswith("calibration.json"):
            opened.append("recording" if recorder.is_recording else "stopping")
        return real(path, *arguments, **named)

    monkeypatch.setattr("kernelscope.recorder.overhead.os.open", watch)
    for _ in range(2):
        recorder = kernelscope.Recorder("x", gpu="none").start()
        recorder.stop()
    assert opened == ["stopping"]


def test_where_nothing_is_hooked_no_cost_is_stated(launched: Any) -> None:
    probe = ScriptedProbe()
    with kernelscope.Recorder("x", probes=[probe]) as recorder:
        probe.emit(Launch())
    assert "numba-cuda" not in recorder.recording.metadata["own_cost"]


def test_merged_and_redacted_recordings_say_how_the_cost_is_known(launched: Any) -> None:
    estimated = launched()
    overhead.of_process.cache_clear()
    now = overhead.datetime.now(TODAY.tzinfo)
    measured = launched(calibration(measured=now, here=overhead.setting(None, "phases")))
    facts = measured.metadata["own_cost"]["numba-cuda"]
    assert merge([measured, measured]).metadata["own_cost"]["numba-cuda"] == facts
    assert merge([measured, estimated]).metadata["own_cost"]["numba-cuda"] == {"kind": "partly calibrated"}
    other = Recording({}, {**measured.metadata, "own_cost": {"numba-cuda": {**facts, "low_ns": 1.0}}})
    assert merge([measured, other]).metadata["own_cost"]["numba-cuda"] == {"kind": "calibrated"}
    assert redact(measured).metadata["own_cost"]["numba-cuda"] == {"kind": "calibrated"}
    hostile = {"numba-cuda": {"kind": "a secret is calibrated"}, "mine": {"kind": "estimated"}}
    assert redact(Recording({}, {"own_cost": hostile})).metadata["own_cost"] == {}

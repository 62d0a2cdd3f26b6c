from __future__ import annotations

from typing import Any

import pytest

from kernelscope.units import MISSING
from kernelscope.views.base import width_of
from kernelscope.views.card.text import launches_table, summary

MS = 1_000_000
HOSTILE = "\x1b[31m<script>alert(1)</script>\u202e\nx\"><img src=x onerror=y>"


@pytest.mark.parametrize("width", [60, 72, 80, 100, 140])
def test_no_line_is_wider_than_asked(story: Any, long: Any, width: int) -> None:
    # A table is never narrower than its numbers: they are not cut.
    for made, least in ((story(), 80), (long(), 104)):
        lines = summary(made.recording(), width).splitlines()
        assert max(width_of(line) for line in lines) <= max(width, least)


def test_the_width_is_the_terminals(story: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = story().recording()
    monkeypatch.setenv("COLUMNS", "118")
    assert summary(recording) == summary(recording, 118)
    monkeypatch.setenv("COLUMNS", "20")
    assert summary(recording) == summary(recording, 80)


def test_hostile_names_reach_the_terminal_as_visible_text(hostile: Any) -> None:
    recording = hostile(HOSTILE).recording()
    for text in (summary(recording, 120), launches_table(recording, 5, 200)):
        assert not set(text) & {"\x1b", "\u202e", "\r", "\x07"}
        assert "\\x1b[31m<script>" in text
        assert all(line.isprintable() for line in text.splitlines())


def test_what_was_not_recorded_is_a_dash(script: Any) -> None:
    made = script()
    made.cell()
    made.kernel()
    made.configuration()
    made.launch(phases=None, specialization=None, end_ns=None, cache=None)
    text = summary(made.recording(), 100)
    assert f"Host time in launches: {MISSING} (of 100 ms wall time)" in text
    assert "Host time in launches by phase" not in text
    assert "Recording's own cost: not known" in text


def test_failures_of_launches_and_of_the_recording(story: Any) -> None:
    made = story()
    made.rows["cells"][0] |= {"status": "error", "error": "TypeError: no"}
    made.rows["launches"][-1]["error"] = "TypeError"
    made.health("recorder", "degraded", message="the buffer was full", dropped=12, errors=1, fix="shorter cells")
    text = " ".join(summary(made.recording(), 100).split())
    for part in ("(error)", "error: TypeError: no", "1 failed", "1 launch failed", "12 records dropped",
                 "1 error inside KernelScope, counted and swallowed", "fix: shorter cells"):
        assert part in text


def test_launches_table(story: Any) -> None:
    recording = story().recording()
    table = launches_table(recording, 2, 120)
    assert "and 3 more launches" in table
    assert table.splitlines()[1].split()[:4] == ["0", "axpy", "4", "128"]
    assert "compiled" in table
    assert "more" not in launches_table(recording, 5)


def test_nested_launches_and_threads_are_in_the_headline(story: Any) -> None:
    made = story()
    made.launch(0, parent_launch_id=0, thread_id=1)
    assert "Launches: 6 (2 configurations, 1 inside others, 2 threads)" in summary(made.recording(), 100)

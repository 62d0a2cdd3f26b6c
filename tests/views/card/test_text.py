from __future__ import annotations

from typing import Any

import pytest

from kernelscope.units import MISSING
from kernelscope.views.base import width_of
from kernelscope.views.card.text import MAKES, launches_table, summary

MS = 1_000_000
HOSTILE = "\x1b[31m<script>alert(1)</script>\u202e\nx\"><img src=x onerror=y>"


def test_the_summary_says_what_ran(story: Any) -> None:
    lines = summary(story().recording(), 100)
    text = f"{lines}\n{' '.join(lines.split())}"
    for line in (
        "KernelScope: In [7] sweep (ok)",
        "Launches: 5 (2 configurations)",
        "Kernels: 2 (3 specializations)",
        "Compiles: 2 (300 ms in all)",
        "Found in memory: 3 (0 from disk)",
        "Host time in launches: 300 ms (75 % of 400 ms wall time)",
        "    200 ms  compiled by a launch: axpy (array(float32, 1d, C),)",
        "argument 0 is array(float64, 1d, C); the nearest known specialization has array(float32, 1d, C): another "
        "dtype (float32 to float64)",
        "Recording's own cost: about 3.00 µs, 600 ns a launch, < 0.1 % of the wall time",
        "numba-cuda: ok, numba-cuda 0.30.4",
    ):
        assert line in text
    assert MAKES.suffix == ".txt"


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


def test_numbers_of_the_kernels_table(story: Any) -> None:
    lines = summary(story().recording(), 120).splitlines()
    kernels = lines[lines.index("Kernels by host time in launches"):]
    row = next(line.split() for line in kernels if line.startswith("  axpy "))
    assert row[:5] == ["axpy", "4", "2", "0", "2"]
    assert row[5:7] == ["300", "ms"]
    phases = next(line.split() for line in lines if line.startswith("  all "))
    assert phases == ["all", "15.0", "µs", "300", "ms", "20.0", "µs", "10.0", "µs", "5.00", "µs"]


@pytest.mark.parametrize(("metadata", "notice"), [
    ({"dry_run": True}, "*** dry run: kernels did not execute ***"),
    ({"simulator": True}, "*** CUDA simulator: times say nothing about a GPU ***"),
])
def test_the_notice_is_on_every_output(story: Any, metadata: dict[str, Any], notice: str) -> None:
    recording = story(**metadata).recording()
    assert notice in summary(recording).splitlines()[1]
    assert launches_table(recording).startswith(notice)


def test_no_notice_on_a_real_run(story: Any) -> None:
    assert "***" not in summary(story().recording())


def test_an_empty_recording_says_what_to_check(script: Any) -> None:
    made = script(dry_run=True)
    made.cell(execution_count=2)
    made.health("numba-cuda", "unavailable", message="numba-cuda is not installed", fix="pip install numba-cuda")
    text = summary(made.recording())
    assert "no kernel launches in this cell; check:" in text
    assert "kernel[griddim, blockdim](...)" in text
    assert "numba-cuda: unavailable, numba-cuda is not installed" in text
    assert "fix: pip install numba-cuda" in text
    assert "dry run: kernels did not execute" in text
    assert launches_table(made.recording()).splitlines() == [
        "*** dry run: kernels did not execute ***", "no kernel launches in this cell"]


def test_hostile_names_reach_the_terminal_as_visible_text(hostile: Any) -> None:
    recording = hostile(HOSTILE).recording()
    for text in (summary(recording, 120), launches_table(recording, 5, 200)):
        assert not set(text) & {"\x1b", "\u202e", "\r", "\x07"}
        assert "\\x1b[31m<script>" in text
        assert all(line.isprintable() for line in text.splitlines())


def test_500_kernels_end_in_and_n_more(many: Any) -> None:
    text = summary(many(5_000, 500), 100)
    assert "and 488 more kernels" in text
    assert len(text.splitlines()) < 250


def test_names_of_200_characters_are_cut_in_their_middle(long: Any) -> None:
    text = summary(long().recording(), 100)
    assert "…" in text
    assert "_the_end" in text


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


def test_cells_table(story: Any) -> None:
    made = story()
    made.cell(wall_ns=7 * MS, status="interrupted", execution_count=8)
    recording = made.recording()
    text = summary(recording, 100)
    _, first, second = text[text.index("\nCells\n"):].split("\n")[2:5]
    assert first.split()[:3] == ["In", "[7]", "sweep"]
    assert second.split() == ["In", "[8]", "0", "0", "0", "0", "0", MISSING, "7.00", "ms", "interrupted"]


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

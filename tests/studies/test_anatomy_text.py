"""An anatomy as text: its tables, where a target differs, and what there is to know."""

from __future__ import annotations

import pytest
from handmade_anatomies import CASE, anatomy

from kernelscope.recording.model import DRY_RUN_NOTICE
from kernelscope.studies.breakdown import AnatomyResult, MeasuredBreakdown, conclusions, sentences, text
from kernelscope.studies.result import Measured


def lines(made: MeasuredBreakdown) -> list[str]:
    return text(AnatomyResult(made)).splitlines()


def test_the_table_has_a_row_a_part_and_a_column_a_target() -> None:
    said = lines(anatomy({"old": {}, "new": {"dispatch": 1000.0}}))
    assert said[0] == "Anatomy of a launch: 2 targets, 1 case"
    at = said.index(f"{CASE}: µs/launch, with intervals of 95 %")
    head, *rows = said[at + 1:at + 12]
    assert head.split() == ["part", "old", "%", "new", "%"]
    assert [row.split("  ")[1] for row in rows] == [
        "configure", "dispatch", "set-up", "argument 0, a: array(float32, 1d, C)",
        "argument 1, b: array(float32, 1d, C)", "configuration object", "submit", "finish", "unattributed", "launch"]
    old, _, half, percent, new, *_ = rows[1].split()[1:]
    assert (float(old), float(new), float(percent)) == pytest.approx((2.5, 3.5, 20.4), rel=0.01)
    assert 0 < float(half) < 0.05
    assert rows[-1].split()[4::4] == ["100.0", "100.0"]
    # Aligned: all shares end where the heading's sign of percent does.
    assert {len(row) for row in (head, *rows)} == {len(head)}


def test_it_says_first_where_a_target_spends_more() -> None:
    said = conclusions(AnatomyResult(anatomy({"old": {}, "new": {"argument 1": 2000.0, "finish": 100.0}},
                                             noise_ns=1.0)))
    assert said == ["new is slower than old by 2.10 µs a launch: argument 1 +2.000 µs, finish +0.100 µs."]
    same = conclusions(AnatomyResult(anatomy({"old": {}, "new": {}})))
    assert same == ["new: the launch as a whole: no difference seen; no part differs."]


def test_what_differs_comes_before_the_times_and_sentences_keep_to_the_width() -> None:
    said = text(AnatomyResult(anatomy({"old": {}, "new": {"argument 1": 2000.0}}, is_dry_run=True)), 80).splitlines()
    assert DRY_RUN_NOTICE in said[0] and "stub" in said[0]
    assert said[2].startswith("new is slower than old by 2.")
    row = next(line for line in said[said.index("new less old, µs/launch:"):] if line.strip().startswith("argument 1"))
    assert row.split()[2].startswith(("+2.0", "+1.9")) and row.endswith("slower")
    assert max(map(len, said[said.index("To know"):])) <= 80
    assert not any(" us " in each for each in said)


def test_what_cannot_be_seen_is_said_with_the_reason() -> None:
    result = AnatomyResult(anatomy({"old": {}, "new": {}}, native=["new"]))
    assert "new, not to be seen: arguments (prepared in native code)." in sentences(result)
    table = str(result).split("new less old")[0]
    row = next(line for line in table.splitlines() if line.strip().startswith("argument 0"))
    assert row.rstrip().endswith("-")


def test_a_target_that_failed_is_told_above_the_times() -> None:
    made = anatomy({"old": {}, "new": {}})
    made.measured.targets[1].error = "crashed with SIGSEGV while taking apart"
    made.measured.targets[1].warnings.append("numba differs")
    made.times = [row for row in made.times if row[0] == "old"]
    said = lines(made)
    assert any(line.startswith("new failed: crashed with SIGSEGV") for line in said[:3])
    assert "  new: numba differs" in said


def test_nothing_measured_is_no_table() -> None:
    assert "Nothing was measured." in text(AnatomyResult(MeasuredBreakdown(Measured([], []))))


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31mred", "‮evil", "x" * 500, "<script>", "%s{}"])
def test_names_of_any_kind_break_no_line(name: str) -> None:
    said = text(AnatomyResult(anatomy({"old": {}, name: {"submit": 900.0}}, case="case " + name)), 300).splitlines()
    assert not [line for line in said if "\x1b" in line or "‮" in line]
    assert max(map(len, said)) < 220
    plain = text(AnatomyResult(anatomy({"old": {}, "new": {"submit": 900.0}})), 300).splitlines()
    assert len(said) == len(plain)

"""What follows from the times of a launch's parts, and how an anatomy shows it: text, card, figures and files."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cards import HOSTILE, Reader
from handmade_anatomies import CASE, NATIVE, PARTS, anatomy

from kernelscope.errors import StudyError, StudyFileError
from kernelscope.intervals import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY
from kernelscope.recording.model import DRY_RUN_NOTICE
from kernelscope.studies import files
from kernelscope.studies.breakdown import (
    LAUNCH,
    UNATTRIBUTED,
    AnatomyResult,
    MeasuredBreakdown,
    PartReport,
    conclusions,
    differences,
    estimates,
    sentences,
    text,
    unseen,
)
from kernelscope.studies.breakdown_card import card
from kernelscope.studies.comparison import compare
from kernelscope.studies.result import Measured, load

NOTHING = MeasuredBreakdown(Measured([], []))


def result(targets: dict[str, dict[str, float]], **options: Any) -> AnatomyResult:
    return AnatomyResult(anatomy(targets, **options))


@pytest.fixture(scope="module")
def slower() -> AnatomyResult:
    """The second argument takes 2 µs more, and hardly anything scatters."""
    return result({"old": {}, "new": {"argument 1": 2000.0}}, noise_ns=1.0, is_dry_run=True)


@pytest.fixture(scope="module")
def native() -> AnatomyResult:
    """The arguments of one of two are prepared where nobody sees it."""
    return result({"old": {}, "new": {}}, native=["new"], is_dry_run=True)


def by_key(made: MeasuredBreakdown) -> dict[str, float]:
    return {each.key: each.us or 0.0 for each in estimates(made) if each.target == "old"}


def verdicts(made: MeasuredBreakdown) -> dict[str, str]:
    return {each.label: each.verdict for each in differences(made)}


# ---- Estimates and differences ----


def test_a_part_is_its_time_without_that_of_the_stamps_and_all_make_the_launch() -> None:
    found = by_key(anatomy({"old": {}}, noise_ns=0.01))
    assert {key: value for key, value in found.items() if key not in (LAUNCH, UNATTRIBUTED)} == pytest.approx(
        {key: value / 1e3 for key, (_, _, value) in PARTS.items()}, abs=1e-4)
    found = by_key(anatomy({"old": {}}, noise_ns=300.0, left_over_ns=-120.0))
    assert sum(value for key, value in found.items() if key != LAUNCH) == pytest.approx(found[LAUNCH])
    assert found[UNATTRIBUTED] == pytest.approx(-0.12)


def test_an_estimate_has_an_interval_and_a_share_of_the_launch() -> None:
    found = {each.key: each for each in estimates(anatomy({"old": {}}))}
    part = found["dispatch"]
    assert part.us is not None and part.low_us is not None and part.high_us is not None and part.share is not None
    assert part.low_us < 2.5 < part.high_us
    assert part.high_us - part.low_us < 0.05
    assert part.share == pytest.approx(2500 / 12250, rel=0.02)
    assert found[LAUNCH].share == pytest.approx(1.0)


def test_what_a_target_spends_more_is_found_in_its_part_and_nowhere_else() -> None:
    found = differences(anatomy({"old": {}, "new": {"argument 1": 2000.0}}))
    assert {each.label: each.verdict for each in found} == {
        **dict.fromkeys(PARTS, NO_DIFFERENCE), "argument 1": SLOWER, LAUNCH: SLOWER}
    assert verdicts(anatomy({"old": {}, "new": {"dispatch": -500.0}}))["dispatch"] == FASTER
    part = next(each for each in found if each.label == "argument 1")
    assert part.low_us < 2.0 < part.high_us
    assert part.difference_us == pytest.approx(2.0, abs=0.05)
    assert (part.target, part.baseline, part.case) == ("new", "old", CASE)


def test_two_of_the_same_do_not_differ_and_noise_is_called_noise() -> None:
    assert set(verdicts(anatomy({"old": {}, "new": {}})).values()) == {NO_DIFFERENCE}
    assert TOO_NOISY in verdicts(anatomy({"old": {}, "new": {}}, processes=4, noise_ns=3000.0)).values()
    one_process = anatomy({"old": {}, "new": {"dispatch": 5000.0}}, processes=1)
    assert set(verdicts(one_process).values()) == {TOO_NOISY}
    assert by_key(one_process)["dispatch"] == pytest.approx(2.5, abs=0.1)


def test_intervals_of_all_parts_hold_together() -> None:
    missed = 0
    for seed in range(40):
        made = anatomy({"old": {}, "new": {}}, noise_ns=30.0 + seed)
        missed += any(each.verdict in (SLOWER, FASTER) for each in differences(made))
    assert missed <= 5


def test_parts_that_only_one_has_are_compared_together_with_what_lies_beside_them(native: AnatomyResult) -> None:
    found = {each.label: each for each in native.differences}
    together = "set-up + arguments + configuration object + submit"
    assert list(found) == ["configure", "dispatch", together, "finish", LAUNCH]
    took = NATIVE["set-up"][2] + NATIVE["submit"][2]
    assert found[together].difference_us == pytest.approx((took - 1000 - 6000 - 700 - 1400) / 1e3, abs=0.05)
    assert "new, not to be seen: arguments (prepared in native code)." in sentences(native)
    row = next(line for line in str(native).splitlines() if line.strip().startswith("argument 0"))
    assert row.rstrip().endswith("-")
    assert "not seen" in card(native) and f"compared as a whole: {together}" in card(native)


def test_parts_that_are_told_apart_in_one_only_are_compared_together() -> None:
    made = anatomy({"old": {}, "new": {}})
    # As of a version without a loop over arguments.
    taken = ("set-up", "argument 0", "argument 1", "configuration object")
    made.parts = [part for part in made.parts if part.target == "old" or part.key not in taken]
    place = next(at for at, part in enumerate(made.parts) if (part.target, part.key) == ("new", "submit"))
    made.parts.insert(place, PartReport("new", CASE, "other", "launched", "submit"))
    made.parts.append(PartReport("new", CASE, "arguments", reason="no loop"))
    made.times = [(*row[:4], "other", *row[5:]) if (row[0], row[4]) == ("new", "set-up") else row
                  for row in made.times]
    assert [each.label for each in differences(made)] == [
        "configure", "dispatch", "set-up + arguments + configuration object + other", "submit", "finish", LAUNCH]


def test_a_part_that_cannot_be_timed_is_null_with_its_reason_and_is_not_compared() -> None:
    made = anatomy({"old": {}, "new": {}}, unseen={"dispatch": "passed 0 times in 50 launches"})
    part = next(each for each in estimates(made) if (each.target, each.key) == ("new", "dispatch"))
    assert (part.us, part.share, part.reason) == (None, None, "passed 0 times in 50 launches")
    assert unseen(made, "new", CASE) == {"passed 0 times in 50 launches": ["dispatch"]}
    labels = [each.label for each in differences(made)]
    # What lies before the gap has another end than in the baseline.
    assert "submit" in labels and LAUNCH in labels
    assert not [label for label in labels if "dispatch" in label]


def test_a_part_that_one_process_lacks_is_in_no_interval() -> None:
    made = anatomy({"old": {}})
    made.times = [row for row in made.times if not (row[2] == 3 and row[4] == "submit")]
    part = next(each for each in estimates(made) if each.key == "submit")
    assert (part.us, part.reason) == (None, "not timed in every process")


def test_a_target_without_a_case_is_left_out() -> None:
    made = anatomy({"old": {}, "new": {}})
    made.times = [row for row in made.times if row[0] == "old"]
    assert {each.target for each in estimates(made)} == {"old"}
    assert differences(made) == ()


def test_a_frame_has_a_row_a_part_with_the_difference_beside_it(slower: AnatomyResult) -> None:
    frame = slower.to_frame()
    assert len(frame) == 2 * (len(PARTS) + 2)
    row = frame[(frame["target"] == "new") & (frame["part"] == "argument 1")].iloc[0]
    assert row["verdict"] == SLOWER
    assert row["difference_us"] == pytest.approx(2.0, abs=0.05)
    assert frame[frame["target"] == "old"]["difference_us"].isna().all()


# ---- Text and card ----


def test_the_table_has_a_row_a_part_and_a_column_a_target() -> None:
    said = text(result({"old": {}, "new": {"dispatch": 1000.0}})).splitlines()
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


def test_it_says_first_where_a_target_spends_more(slower: AnatomyResult) -> None:
    where = "new is slower than old by 2.00 µs a launch: argument 1 +2.000 µs."
    assert conclusions(slower) == [where]
    said = text(slower, 80).splitlines()
    assert DRY_RUN_NOTICE in said[0] and "stub" in said[0]
    assert said[2] == where
    row = next(line for line in said[said.index("new less old, µs/launch:"):] if line.strip().startswith("argument 1"))
    assert row.split()[2].startswith(("+2.0", "+1.9")) and row.endswith("slower")
    assert max(map(len, said[said.index("To know"):])) <= 80
    html = card(slower)
    assert where in html.replace("\xa0", " ")
    assert html.index("ks-notice") < html.index("<table")
    assert conclusions(result({"old": {}, "new": {}})) == [
        "new: the launch as a whole: no difference seen; no part differs."]


def test_every_part_has_a_row_on_the_card_with_its_place_its_time_and_the_difference(slower: AnatomyResult) -> None:
    row = next(each for each in re.findall(r"<tr>(.*?)</tr>", card(slower)) if "argument 1 <small>" in each)
    assert "b: array(float32, 1d, C)" in row
    assert '<span class="ks-slower">▲ +2.00' in row
    # From where the part begins in each launch; the longer one is the whole width.
    bars = re.findall(r"margin-left:([\d.]+)%;width:([\d.]+)%", row)
    assert [float(left) for left, _ in bars] == pytest.approx([6.7 / 14.25 * 100] * 2, abs=0.2)
    assert [float(width) for _, width in bars] == pytest.approx([3 / 14.25 * 100, 5 / 14.25 * 100], abs=0.2)
    html = card(result({"old": {}}, left_over_ns=-900.0))
    assert "-0.90" in html and not re.search(r"width:-|margin-left:-", html)


def test_a_target_that_failed_is_told_above_the_times() -> None:
    made = anatomy({"old": {}, "new": {}})
    made.measured.targets[1].error = "crashed with SIGSEGV while taking apart"
    made.measured.targets[1].warnings.append("numba differs")
    made.times = [row for row in made.times if row[0] == "old"]
    said = text(AnatomyResult(made)).splitlines()
    assert any(line.startswith("new failed: crashed with SIGSEGV") for line in said[:3])
    assert "  new: numba differs" in said


@pytest.mark.parametrize("name", [*HOSTILE, "x" * 500, "%s{}"])
def test_names_of_any_kind_break_nothing(name: str) -> None:
    made = anatomy({"old": {}, name: {"submit": 900.0}}, case="case " + name)
    said = text(AnatomyResult(made), 300).splitlines()
    assert max(map(len, said)) < 220
    assert len(said) == len(text(result({"old": {}, "new": {"submit": 900.0}}), 300).splitlines())
    made.measured.cases[0].statement = name
    made.measured.targets[1].error = name
    read = Reader(card(AnatomyResult(made)))
    assert not {"script", "img"} & read.tags
    assert not set("\n".join(said) + read.text) & set("\x1b\u202e")


def test_a_page_has_the_figures_and_needs_no_network(slower: AnatomyResult, tmp_path: Path) -> None:
    html = slower.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert "Where new differs from old" in html
    assert not re.search(r'(src|href)="https?:', html)


# ---- Figures ----


def test_each_part_begins_where_the_one_before_it_ended() -> None:
    figure = result({"old": {}, "new": {}}, noise_ns=0.01).plot("waterfall")
    bars = [(bar.base[0], bar.x[0]) for bar in figure.data]
    assert len(bars) == len(PARTS) + 2
    for (base, length), (following, _) in itertools.pairwise(bars[:-1]):
        assert following == pytest.approx(base + length)
    assert bars[-1] == (0.0, pytest.approx(12.25))
    assert bars[-2][0] + bars[-2][1] == pytest.approx(12.25)  # with what is left over
    assert list(figure.layout.yaxis.ticktext)[3] == "argument 0, a: array(float32, 1d, C)"
    assert figure.data[1].error_x.array[0] >= 0


def test_from_the_baseline_to_a_target_it_is_what_each_part_adds() -> None:
    figure = result({"old": {}, "new": {"argument 1": 2000.0, "finish": -200.0}}, noise_ns=1.0).plot("difference")
    bars = dict(zip(figure.layout.yaxis.ticktext, figure.data, strict=True))
    assert bars["argument 1"].x[0] == pytest.approx(2.0, abs=0.01)
    assert bars["argument 1"].marker.color != bars["dispatch"].marker.color != bars["finish"].marker.color
    assert bars["launch"].x[0] == pytest.approx(1.8, abs=0.01)
    assert bars["unattributed"].base[0] + bars["unattributed"].x[0] == pytest.approx(bars["launch"].x[0])


def test_the_figure_that_is_meant_is_drawn_and_an_unknown_one_is_told(slower: AnatomyResult) -> None:
    assert "Where new differs from old" in slower.plot().layout.title.text
    assert "Parts of a launch: new" in slower.plot(target="new", case=CASE).layout.title.text
    for wrong, said in (({"target": "none"}, "no target 'none' was measured; measured: old, new"),
                        ({"case": "none"}, f"no case 'none' was measured; measured: {CASE}"),
                        ({"kind": "pie"}, "no figure 'pie' of an anatomy; known: waterfall, difference")):
        with pytest.raises(StudyError, match=said):
            slower.plot(**wrong)
    one = result({"old": {}})
    assert "Parts of a launch: old" in one.plot().layout.title.text
    assert "No part was compared" in one.plot("difference").layout.annotations[0].text


def test_nothing_measured_is_a_sentence_everywhere() -> None:
    nothing = AnatomyResult(NOTHING)
    assert estimates(NOTHING) == ()
    assert "Nothing was measured." in text(nothing)
    assert "Nothing was measured" in nothing.plot().layout.annotations[0].text


def test_labels_of_figures_are_shown_literally() -> None:
    figure = result({"<b>old</b> $x$": {}}, case="<i>case</i>", is_dry_run=True).plot()
    assert "<b>old" not in figure.layout.title.text.removeprefix("<b>")
    assert "&lt;b&gt;" in figure.layout.title.text and "$" not in figure.layout.title.text
    assert "stub" in figure.layout.title.text


# ---- Files ----


def test_what_was_measured_is_read_back(native: AnatomyResult, tmp_path: Path) -> None:
    made = native.breakdown
    path = native.save(tmp_path / "anatomy")
    assert path.name == "anatomy.json"
    again = load(path)
    assert isinstance(again, AnatomyResult)
    assert again.breakdown.parts == made.parts
    assert again.measured == made.measured
    assert [row[:5] for row in again.breakdown.times] == [row[:5] for row in made.times]
    assert [row[5:] for row in again.breakdown.times] == [pytest.approx(row[5:], abs=0.001) for row in made.times]
    assert str(again) == str(native)
    assert again.to_json() == native.to_json()
    with pytest.raises(StudyFileError, match="it is an anatomy and no study"):
        compare(path, path)


def change(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def changed(content: dict[str, Any]) -> None:
        *path, last = name.split(".")
        for each in path:
            content = content[int(each)] if each.isdigit() else content[each]
        if isinstance(content, list):
            content[int(last)] = value
        else:
            content[last] = value

    return changed


@pytest.mark.parametrize(("changed", "said"), [
    (change("format", "other"), "no study of KernelScope"),
    (change("version", 2), "of version 2, and this KernelScope"),
    (change("version", True), "no whole number"),
    (change("study", None), "'study' is None, and not an object"),
    (change("study.version", 99), "version 99"),
    (change("parts", {}), "'parts' is an object, and not a list"),
    (change("parts.0", 1), "parts[0] is 1, and not an object"),
    (change("parts.0.key", 7), "'parts[0].key' is 7, and not text"),
    (change("parts.0.key", ""), "'parts[0]' is of no target and case"),
    (change("parts.0.target", "who"), "'parts[0]' is of no target and case"),
    (change("times", []), "'times' is a list, and not an object"),
    (change("times.target.0", 5), "'times.target' has 5 at place 0, and not a whole number from 0 to 0"),
    (change("times.process.0", -1), "'times.process' has -1 at place 0, and not a whole number from 0 to 1000000"),
    (change("times.part.0", None), "'times.part' has None at place 0, and not a name"),
    (change("times.part_ns.0", "1"), "'times.part_ns' has '1' at place 0, and not a number"),
    (change("times.part_ns.0", 1e300), "'times.part_ns' has 1e+300 at place 0, and not a number"),
    (change("times.stamps_ns", [1.0]), "different lengths"),
])
def test_what_contradicts_itself_is_refused_with_the_place(changed: Callable[[dict[str, Any]], None],
                                                            said: str) -> None:
    content = json.loads(files.anatomy_to_json(anatomy({"old": {}})))
    changed(content)
    with pytest.raises(StudyFileError) as caught:
        files.from_json(json.dumps(content))
    assert said in str(caught.value)


def test_nothing_of_the_home_folder_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    made = anatomy({"old": {}})
    made.measured.notes.append("/home/somebody/numba-cuda was measured")
    assert "somebody" not in files.anatomy_to_json(made)

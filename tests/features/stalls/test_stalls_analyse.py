"""`kernelscope.features.stalls.analyse` on samples made by hand, and what the views say of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from counting import lines_run
from sampled import ENTRY, sampled, sass

import kernelscope
from kernelscope.analysis.code import line_map, sass_offsets
from kernelscope.features.stalls.analyse import Samples, by_kernel, reason_text, samples_by_kernel
from kernelscope.features.stalls.inspector import GROUPS
from kernelscope.features.stalls.tables import REASONS
from kernelscope.recording.model import Recording
from kernelscope.schema import TABLES
from kernelscope.views.inspector.counts import line_counts
from kernelscope.views.inspector.html import static_html
from kernelscope.views.inspector.model import code_of, inspect_kernels
from kernelscope.views.inspector.text import inspection_text
from kernelscope.views.inspector.widget import code_message


def test_lines_are_ranked_with_their_reasons():
    ours, others = by_kernel(sampled())
    assert (ours.kernel, ours.samples, ours.share, ours.unknown) == ("axpy", 100, 0.8, 0)
    found = [(each.file, each.line, each.text, each.samples, each.not_issued, each.main) for each in ours.lines]
    assert found == [
        (None, 11, "y[i] += a * x[i]", 68, 40, "long_scoreboard"),
        # The compiler's subroutine is of the line that calls it.
        (None, 12, "y[i] = helped(y[i]) // n", 22, 0, "short_scoreboard"),
        ("/home/u/helper.py", 2, "return v * v", 8, 0, "math_pipe_throttle"),
        (None, 9, "i = cuda.grid(1)", 2, 0, "wait"),
    ]
    assert ours.lines[0].reasons == (("long_scoreboard", 60, 40), ("selected", 5, 0), ("not_selected", 3, 0))
    assert ours.lines[0].share == pytest.approx(0.68)
    # A kernel that no probe recorded has neither code nor lines.
    assert (others.kernel, others.samples, others.lines, others.unknown) == ("library(float*)", 25, (), 25)


def test_instructions_are_ranked_with_their_text():
    ours, _ = by_kernel(sampled())
    hot = ours.instructions[0]
    assert (hot.pc_offset, hot.text, hot.line, hot.samples) == (0x20, "FFMA R5, R2, UR6, R5", 11, 63)
    assert {each.pc_offset: each.line for each in ours.instructions} == {
        0x00: 9, 0x10: 11, 0x20: 11, 0x30: 2, 0x40: 12, 0x70: 12, 0x80: 12}


def test_the_table_has_a_row_for_each_line_and_reason():
    table = sampled().by_stall()
    assert len(table) == 9
    assert table.samples.sum() == 125
    first = table.iloc[0]
    assert (first.kernel, first.line, first.stall, first.reason, first.samples, first.share) == (
        "axpy", 11, "long_scoreboard", "waiting for memory (long scoreboard)", 60, 0.6)
    assert table.line.isna().tolist() == [False] * 8 + [True]
    assert sampled(has_code=False).by_stall().line.isna().all()
    assert list(Recording({}, {}).by_stall().columns) == list(table.columns)


def test_without_line_information_there_are_instructions():
    recording = sampled(has_lines=False)
    ours, _ = by_kernel(recording)
    assert (ours.lines, ours.unknown) == ((), 100)
    said = recording.summary()
    assert "instruction 0x20, `FFMA R5, R2, UR6, R5`: 63 % of samples, waiting for memory" in " ".join(said.split())
    assert "no source line is known" in said


def test_a_subroutine_that_several_lines_call_has_no_line():
    twice = sass().replace("FMUL R5, R5, R5", "CALL.REL.NOINC `($__internal_0_$__div)")
    found, offsets = line_map("sass", twice), sass_offsets(twice)
    assert found.chain[offsets[0x70]] == -1
    assert found.chains[found.chain[offsets[0x60]]] == (("/home/u/k.py", 11),)


def test_what_waits_at_a_barrier_was_sampled_after_it():
    text = sass().replace("FMUL R5, R5, R5", "@!P0 BAR.SYNC.DEFER_BLOCKING 0x0")
    samples = Samples(["wait", "barrier"], np.array([0x10, 0x40, 0x50]), np.array([[0, 2], [0, 9], [4, 1]]),
                      np.array([[0, 1], [0, 8], [3, 0]]))
    found = samples.at_barriers(text, sass_offsets(text))
    assert found.offsets.tolist() == [0x10, 0x30, 0x50]  # nothing is left at 0x40
    assert found.counts.tolist() == [[0, 2], [0, 10], [4, 0]]
    assert found.not_issued.tolist() == [[0, 1], [0, 8], [3, 0]]
    lines = text.split("\n")
    lines.insert(sass_offsets(text)[0x50], ".L_x_1:")  # another way leads there
    text = "\n".join(lines)
    assert samples.at_barriers(text, sass_offsets(text)).counts.tolist() == [[0, 2], [0, 9], [4, 1]]


def test_offsets_are_those_of_the_function():
    text = sass().replace(ENTRY, "_Zother") + sass()
    assert sass_offsets(text, ENTRY)[0] > sass_offsets(text, "_Zother")[0]
    assert sass_offsets(text, "_Znowhere") == sass_offsets(text, "_Zother")
    assert list(sass_offsets(sass(), "$__internal_0_$__div")) == [0x0, 0x10]
    assert sass_offsets("") == {}


def test_all_views_say_the_same():
    recording = sampled()
    line = "line 11, `y[i] += a * x[i]`: 68 % of samples, waiting for memory (long scoreboard)"
    assert f"axpy (80 % of all samples), {line}" in " ".join(recording.summary().split())
    assert f"where its warps waited, 100 samples {line}" in " ".join(inspection_text(recording, "axpy").split())
    page = static_html(recording, inspect_kernels(recording))
    assert "waiting for memory (long scoreboard)" in page
    assert "68 % of samples, waiting for memory (long scoreboard)" in recording._repr_html_()
    assert "line 2 of helper.py, `return v * v`: 8.0 % of samples" in " ".join(recording.summary().split())


@pytest.mark.parametrize(("form", "found"), [
    ("source", {2: 2, 4: 68, 5: 22, 8: 8}),  # the called function is below the kernel
    ("ptx", {5: 2, 7: 68, 11: 30}),  # its inlined code is where it was called
    ("sass", {6: 2, 8: 5, 9: 63, 12: 8, 14: 2, 20: 15, 21: 5}),
])
def test_each_form_of_code_has_a_column(form, found):
    recording = sampled()
    kernel, = inspect_kernels(recording)
    specialization, = kernel.specializations
    code = code_of(recording, kernel, specialization, form)
    samples = line_counts(recording, kernel, specialization, form, code)
    assert samples is not None and samples.total == 100
    assert dict(zip(samples.lines.tolist(), samples.counts.sum(axis=1).tolist(), strict=True)) == found
    message, _ = code_message(code, form, samples)
    sent = json.loads(json.dumps(message))["counts"]
    assert sent["total"] == 100
    assert [row[:3] for row in sent["categories"] if row[0] in ("long_scoreboard", "some_new_reason")] == [
        ["long_scoreboard", "memory", "waiting for memory"], ["some_new_reason", "other", "some_new_reason"]]


def test_what_was_not_sampled_has_no_column():
    recording = sampled()
    kernel, = inspect_kernels(recording)
    specialization, = kernel.specializations
    bare = Recording({name: recording.arrow(name) for name in recording.tables if name != "pc_samples"},
                     recording.metadata)
    assert line_counts(bare, kernel, specialization, "ptx", code_of(bare, kernel, specialization, "ptx")) is None
    without = sampled(has_lines=False)
    kernel, = inspect_kernels(without)
    found = {form: line_counts(without, kernel, kernel.specializations[0], form, code_of(
        without, kernel, kernel.specializations[0], form)) for form in ("ptx", "sass")}
    assert found["ptx"] is None and found["sass"] is not None


def test_they_are_kept_merged_and_redacted(tmp_path):
    recording = sampled()
    loaded = kernelscope.load(recording.save(tmp_path / "sampled.kscope"))
    assert loaded.pc_samples.equals(recording.pc_samples)
    # What is saved names no folder: lines are found by the names of the files.
    assert [(each.file, each.line) for each in by_kernel(loaded)[0].lines] == [
        (None, 11), (None, 12), ("helper.py", 2), (None, 9)]
    merged = kernelscope.merge([recording, loaded])
    assert sum(each.samples for each in by_kernel(merged)) == 250
    hidden = recording.redacted()
    assert set(hidden.pc_samples.name) == {"kernel_1", "kernel_2"}
    assert "long_scoreboard" in set(hidden.pc_samples.reason) and "some_new_reason" not in set(hidden.pc_samples.reason)
    assert "axpy" not in hidden.summary()


def test_those_of_one_specialization_are_found():
    recording = sampled()
    assert set(samples_by_kernel(recording)) == {(0, ENTRY), (-1, "_Z7library")}
    assert set(samples_by_kernel(recording, 0)) == {(0, ENTRY)}
    assert samples_by_kernel(recording, 1) == {}


def test_many_rows_are_added_up_quickly():
    recording = sampled(times=20_000)
    found = samples_by_kernel(recording)
    assert lines_run(lambda: samples_by_kernel(recording)) < 10_000
    assert sum(int(each.counts.sum()) for each in found.values()) == 125 * 20_000
    assert np.array_equal(found[0, ENTRY].offsets, [0x00, 0x10, 0x20, 0x30, 0x40, 0x70, 0x80])


def test_every_reason_has_a_color_and_stays_where_names_go():
    assert {reason.group for reason in REASONS.values()} == {group.name for group in GROUPS}
    assert set(REASONS) == set(TABLES["pc_samples"].column("reason").values)
    assert reason_text("some_new_reason") == "some new reason"

"""What a comparison shows: a line, text, a page, JSON, both in one timeline, a kernel of both."""

from __future__ import annotations

from pathlib import Path

import pytest
from handmade import Script
from two_runs import run

import kernelscope
from kernelscope import Recording
from kernelscope.errors import RecordingFileError, UnknownKernelError
from kernelscope.features.compare.view import compared_text, summary_line
from kernelscope.views.timeline.build import timeline_of

RECORDINGS = Path(__file__).resolve().parents[3] / "notebooks" / "recordings"


def compiling(compiles: int, each_ns: int = 64_000_000) -> Recording:
    script = Script()
    script.cell()
    script.launchable()
    for _ in range(compiles):
        script.compilation(duration_ns=each_ns, cell_id=0)
        script.now += each_ns
    for _ in range(20):
        script.launch()
    return script.recording()


@pytest.mark.parametrize(("before", "after", "line"), [
    (compiling(2), compiling(0), "2 compiles fewer (−128 ms), launches unchanged"),  # noqa: RUF001
    (compiling(0), compiling(1), "1 compile more (+64.0 ms), launches unchanged"),
    (compiling(2), compiling(1, 500_000_000), "1 compile fewer (128 ms → 500 ms), launches unchanged"),
    (run(1), run(1), "launches unchanged, GPU unchanged"),
    (run(1, 6, gpu=False), run(1, 6, gpu=False), "too few to tell"),
    (run(1, 20), run(1, 30), "40 → 60 launches ("),
    (Recording({}, {}), Recording({}, {}), "nothing changed"),
])
def test_a_line_says_what_changed(before: Recording, after: Recording, line: str) -> None:
    assert line in kernelscope.compare(before, after).summary


def test_a_line_has_times_only_where_a_difference_is_seen() -> None:
    line = kernelscope.compare(run(1), run(2, changed={"execute": 1.8})).summary
    assert line.startswith("launches unchanged, GPU ") and " → " in line
    assert "too noisy to tell" in kernelscope.compare(run(1, 20, noise=3.0), run(2, 20, noise=3.0)).summary


def test_the_text_keeps_to_its_width_and_says_all() -> None:
    view = run(1, name="first").compare(run(2, changed={"prepare": 2.0}, cell=4))
    text = compared_text(view, 80)
    assert all(len(line) <= 100 for line in text.splitlines())
    assert text.startswith("KernelScope: In [4] against In [3]\n")
    for words in ("4 slower, 8 no difference seen", "kernel_0", "prepare", "slower", "wall time", "15 % of the first"):
        assert words in text, words
    assert repr(view) == str(view)


def test_equal_names_are_told_apart() -> None:
    one = run(1)
    assert kernelscope.compare(one, one).names == ("In [3], first", "In [3], second")


def test_a_page_needs_no_network(tmp_path: Path) -> None:
    view = kernelscope.compare(run(1, name="<b>"), run(2, changed={"prepare": 2.0}))
    page = view.to_html(tmp_path / "out").read_text(encoding="utf-8")
    assert "kernel_0" in page and "slower" in page and "http" not in page.replace("http-equiv", "")


def test_the_answer_says_what_is_left_out() -> None:
    before, after = RECORDINGS / "lines_training.kscope", RECORDINGS / "torch_training.kscope"
    found = kernelscope.compare(before, after).answer(2)
    assert (found["before"]["recording"], found["after"]["recording"]) == (
        "lines_training.kscope", "torch_training.kscope")
    for key, section in found["sections"].items():
        changed = sum(number for status, number in section["counts"].items() if status != "same")
        left = found["left_out"].get(f"sections.{key}.changed", 0)
        assert len(section["changed"]) == min(changed, 2) and left == max(changed - 2, 0)
    assert len(found["differences"]) <= 2


def test_the_frame_has_a_row_a_difference() -> None:
    view = kernelscope.compare(run(1), run(2))
    frame = view.to_frame()
    assert len(frame) == len(view.differences) == 12
    assert set(frame.measure) == {"host", "dispatch", "prepare", "submit", "finish", "execute"}


def test_both_are_in_one_timeline() -> None:
    view = kernelscope.compare(run(1, 10), run(2, 10, pid=11, cell=7))
    widget = view.timeline()
    assert [each.label for each in timeline_of(widget.recording).processes] == ["1: In [3]", "2: In [7]"]
    widget.close()


def test_a_kernel_of_both_is_a_diff() -> None:
    def recording(regs: int) -> Recording:
        script = Script()
        script.cell(execution_count=regs)
        script.kernel("axpy")
        script.specialization(regs=regs)
        script.configuration()
        script.launch()
        return script.recording()

    view = kernelscope.compare(recording(32), recording(40))
    inspector = view.inspect("axpy")
    text = repr(inspector)
    assert "specialization 1 is of 1: In [32], 2 of 2: In [40]" in text
    pair = inspector.first_pair()
    assert pair is not None and pair[0] != pair[1] and pair[2] == "resources"
    assert "-registers: 32" in text and "+registers: 40" in text
    inspector.close()
    with pytest.raises(UnknownKernelError, match="axpi"):
        view.inspect("axpi")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingFileError, match="missing"):
        kernelscope.compare(tmp_path / "missing.kscope", run(1))


def test_ranks_that_did_the_same_show_no_difference_and_the_larger_one_does() -> None:
    whole = kernelscope.load(RECORDINGS / "workers_training.kscope")
    ranks = {row["rank"]: whole.select(process=row["process_id"]) for row in whole.rows("processes")}
    assert not kernelscope.compare(ranks[0], ranks[1]).changes.seen
    # Its batches are twice as large.
    larger = kernelscope.compare(ranks[0], ranks[3])
    assert {(each.measure, each.verdict) for each in larger.changes.seen} == {("execute", "slower")}
    assert summary_line(larger.changes).split(", ")[-1].startswith("GPU ")

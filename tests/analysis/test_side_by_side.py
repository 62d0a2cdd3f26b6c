"""Two recordings as one, as if two processes had made them at once."""

from __future__ import annotations

import pytest
from handmade import Script
from two_runs import run

from kernelscope.analysis.code import CodeRows
from kernelscope.analysis.side_by_side import side_by_side
from kernelscope.recording.model import Recording

NAMES = ("1: before", "2: after")


def coded(regs: int, source: str, lineno: int) -> Recording:
    script = Script()
    script.now *= regs
    script.cell()
    script.kernel(lineno=lineno, code_sha256=source)
    script.specialization(regs=regs)
    script.configuration()
    script._add("code", None, {"dispatcher_id": 0, "kind": "source", "text": source})
    script.launch()
    return script.recording()


def test_both_begin_at_the_same_time_and_are_processes_of_their_names() -> None:
    together = side_by_side(run(1, 10), run(2, 20, pid=11), NAMES)
    assert [row["worker"] for row in together.rows("processes")] == [*NAMES]
    cells = together.rows("cells")
    assert cells[0]["start_ns"] == cells[1]["start_ns"] and [row["process_id"] for row in cells] == [0, 1]
    assert together.arrow("launches").num_rows == 60
    assert together.name == "1: before and 2: after"


def test_a_recording_beside_itself_is_there_twice() -> None:
    one = run(1, 10)
    together = side_by_side(one, one, NAMES)
    assert together.arrow("processes").num_rows == 2 and together.arrow("launches").num_rows == 40


def test_files_without_processes_have_one() -> None:
    together = side_by_side(coded(20, "a", 1), coded(30, "b", 9), NAMES)
    assert [row["worker"] for row in together.rows("processes")] == [*NAMES]
    assert sorted(row["process_id"] for row in together.rows("cells")) == [0, 1]


def test_several_processes_are_named_after_their_recording() -> None:
    script = Script()
    for rank in range(2):
        script._add("processes", "process_id", {"rank": rank, "status": "ok"})
    script.cell()
    together = side_by_side(script.recording(), script.recording(), NAMES)
    assert [row["worker"] for row in together.rows("processes")] == [
        f"{name}: rank {rank}" for name in NAMES for rank in range(2)]


def test_a_kernel_has_the_specializations_and_the_source_of_both() -> None:
    together = side_by_side(coded(20, "a", 1), coded(30, "b", 9), NAMES)
    assert together.arrow("dispatchers").num_rows == 1
    code = CodeRows(together)
    found = {(row["regs"], row["attributes"]): code.row(0, row["specialization_id"], "source")
             for row in together.rows("specializations")}
    assert {key: row and row["text"] for key, row in found.items()} == {
        (20, '{"recording": "1: before"}'): "a", (30, '{"recording": "2: after"}'): "b"}


def test_a_dry_run_is_not_beside_a_gpu() -> None:
    with pytest.raises(ValueError, match="different kinds"):
        side_by_side(run(1, 10), run(2, 10, dry_run=True), NAMES)

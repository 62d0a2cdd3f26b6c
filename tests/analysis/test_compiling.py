"""What counts as a compile: one that three threads wait for is one, of one duration, in every table that has it."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import MS, Script

from kernelscope.analysis.compiles import compilations, compile_ns
from kernelscope.analysis.compiling import LOCK_WAIT_NS, compile_times_of
from kernelscope.analysis.gpu import host_states
from kernelscope.analysis.launches import Specializations, by_cell, by_kernel, launch_phases
from kernelscope.analysis.lines import by_line
from kernelscope.analysis.processes import by_process
from kernelscope.analysis.wall_time import wall_times
from kernelscope.features.compare.analyse import Changes
from kernelscope.pytest_plugin.checks import Limits, entry, exceeded
from kernelscope.recording.model import Recording
from kernelscope.views.card.answer import recording_answer
from kernelscope.views.card.model import Overview
from kernelscope.views.card.sections import card_of
from kernelscope.views.card.text import summary
from kernelscope.views.timeline.build import timeline_of

TOOK = 40 * MS
THREADS = ("MainThread", "worker 1", "worker 2", "worker 3")


def at_once(compiling: int = 0) -> Script:
    """Four threads that launch one kernel for the first time: one compiles it, and three wait for that."""
    made = Script()
    made.rows["threads"] = [{"thread_id": at, "ident": at + 1, "name": name, "process_id": 0}
                            for at, name in enumerate(THREADS)]
    made.rows["processes"] = [{"process_id": 0, "status": "ok", "start_ns": made.now}]
    made.rows["lines"] = [{"line_id": 0, "file": "train.py", "line": 3, "function": "step"}]
    made.cell(wall_ns=100 * MS, process_id=0)
    made.launchable()
    begun = made.now
    for thread in range(4):
        made.now = begun
        outcome = "compiled" if thread == compiling else "wait"
        made.launch(0, (1_000, TOOK, 2_000, 1_000, 500), thread_id=thread, line_id=0, cache=outcome,
                    compilation_id=thread)
        made.compilation(0, start_ns=begun + 1_000, end_ns=begun + 1_000 + TOOK, launch_id=thread, thread_id=thread,
                         specialization_id=0, cell_id=0, line_id=0, outcome=outcome, reason_code="first_use",
                         wait_ns=20_000 if thread == compiling else TOOK)
    return made


def figures(recording: Recording) -> dict[str, tuple[Any, Any]]:
    """Return how many compiles there are, where that is counted, and how long they took, by who says so."""
    kernel, = by_kernel(recording)
    cell, line, process = by_cell(recording)[0], by_line(recording)[0], by_process(recording)[0]
    own = [each for each in compilations(recording) if each.outcome == "compiled"]
    specialization, = Specializations(recording).of(0)
    shown, report, told = Overview(recording), entry(recording), recording_answer(recording)
    totals, empty = Changes(Script().recording(), recording).totals, Changes(Script().recording(), recording)
    counted = totals.rows[0].after
    compared = empty.section("compiles")
    assert counted is not None and compared is not None and compared.rows[0].after is not None
    return {
        "launches": (None, launch_phases(recording).total().compile_ns), "kernel": (kernel.compiles, kernel.compile_ns),
        "specialization": (None, specialization.compile_ns), "cell": (cell.compiles, cell.totals.compile_ns),
        "line": (line.compiles, line.compile_ns), "process": (process.compiles, process.compile_ns),
        "compilations": (len(own), sum(each.duration_ns for each in own)), "all": (None, compile_ns(recording)),
        "card": (shown.compiles, shown.compile_ns), "test": (report["compiles"], report["compile_ns"]),
        "answer": (told["counts"]["compiles"], told["counts"]["compile_ns"]),
        "answer by kernel": tuple(told["kernels"][0][name] for name in ("compiles", "compile_ns")),
        "compared": (counted[totals.place("compiles")], counted[totals.place("compile_ns")]),
        "compared by specialization": (compared.rows[0].after[compared.place("compiles")],
                                       compared.rows[0].after[compared.place("compile_ns")]),
    }


def test_a_compile_that_three_threads_wait_for_is_one() -> None:
    recording = at_once().recording()
    said = figures(recording)
    assert {count for count, _ in said.values()} == {1, None}
    assert {took for _, took in said.values()} == {TOOK}, said


def test_who_waits_has_a_time_of_its_own() -> None:
    recording = at_once().recording()
    total = launch_phases(recording).total()
    assert (total.compile_wait_ns, total.dispatch_ns) == (3 * TOOK, 4_000)
    assert total.host_ns == sum(took for _, took in total.segments)
    assert Overview(recording).compile_wait_ns == 3 * TOOK and Overview(recording).waits == 3
    waits = [each for each in compilations(recording) if each.outcome == "wait"]
    assert [each.duration_ns for each in waits] == [TOOK] * 3
    section = next(each for each in card_of(recording).sections if each.key == "compiles")
    assert section.number == "1, 3 waits, 40.0 ms"
    assert "1 compile" in summary(recording) and "4 compiles" not in summary(recording)
    assert exceeded(recording, Limits(max_compiles=1)) == [] and exceeded(recording, Limits(max_compiles=0))


@pytest.mark.parametrize(("compiling", "part", "other"), [
    (0, "compile", "compile_wait"), (1, "compile_wait", "compile")])
def test_the_main_thread_compiles_or_waits(compiling: int, part: str, other: str) -> None:
    recording = at_once(compiling).recording()
    found, = wall_times(recording)
    assert (found.parts[part], found.parts[other]) == (TOOK, 0) and sum(found.parts.values()) == found.wall_ns
    # Of all threads together one compiles all the time, and the others add nothing to it.
    together = host_states(recording)
    assert sum(each.total_ns for each in together.parts.get("compile", [])) == TOOK
    assert sum(each.total_ns for each in together.parts.get("compile_wait", [])) == 0
    segments = {each.name for each in timeline_of(recording).segments()}
    assert {"compile", "compile_wait"} <= segments


def test_a_compile_that_waited_for_the_compiler_lock_is_shorter_than_its_row() -> None:
    made = Script()
    made.launchable()
    made.compilation(0, 50 * MS, wait_ns=30 * MS, outcome="compiled")
    made.compilation(0, 50 * MS, wait_ns=LOCK_WAIT_NS - 1)  # nobody had the lock
    made.compilation(0, 50 * MS, end_ns=None)
    times = compile_times_of(made.recording())
    assert (times.own_ns.tolist(), times.wait_ns.tolist()) == ([20 * MS, 50 * MS, -1], [30 * MS, 0, -1])


def test_a_launch_that_waited_has_no_compile_without_a_row_of_its_own() -> None:
    made = Script()
    made.launchable()
    made.launch(0, (3, 100, 4, 2, 1), cache="wait")
    total = launch_phases(made.recording()).total()
    assert (total.compile_ns, total.compile_wait_ns, total.launching_ns) == (0, 100, 10)
    states = {name: sum(each.total_ns for each in parts) for name, parts in host_states(made.recording()).parts.items()}
    assert (states.get("compile", 0), states["compile_wait"], states["dispatch"]) == (0, 100, 3)

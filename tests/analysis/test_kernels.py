from __future__ import annotations

from typing import Any

import pytest

from kernelscope.analysis.launches import by_kernel


def _recording(script: Any) -> Any:
    made = script()
    made.cell()
    slow, fast = made.kernel("slow", module="m", filename="/x/y.py", lineno=3), made.kernel("fast")
    made.specialization(slow, regs=32, static_shared_bytes=1024)
    made.specialization(slow, "(float64,)", regs=40, static_shared_bytes=0)
    made.specialization(fast)
    made.configuration((2,), (100,), sharedmem_bytes=512)
    made.configuration((7, 2), (32,))
    made.occupancy(0, 0, 0.5)
    made.occupancy(1, 1, 1.0)
    made.compilation(slow, 1_000, specialization_id=0, launch_id=0)
    made.launch(slow, (10, 1_000, 10, 10, 10), 0, 0)
    for spent in (100, 200, 300):
        made.launch(slow, (10, 0, spent, 10, 10), 0, 0)
    made.launch(slow, (10, 0, 10, 10, 10), 1, 1, cache="disk")
    made.launch(fast, (1, 0, 1, 1, 1), 2, 1)
    made.launch(fast, None, None, 1, error="TypeError", cache=None)
    made.rows["launches"][-1]["end_ns"] = made.rows["launches"][-1]["start_ns"] + 5
    made.compilation(fast, 50, trigger="eager", specialization_id=2)
    made.compilation(fast, 50, outcome="failed", error="TypingError: no")
    made.compilation(fast, 50, outcome="wait", specialization_id=2)
    return made.recording()


def test_kernels_come_in_order_of_host_time(script: Any) -> None:
    slow, fast = by_kernel(_recording(script))
    assert (slow.name, slow.module, slow.filename, slow.lineno) == ("slow", "m", "/x/y.py", 3)
    assert slow.host_ns == 1_040 + 130 + 230 + 330 + 40
    assert (slow.launches, slow.configurations, slow.specializations) == (5, 2, 2)
    assert (slow.compiles, slow.disk_hits, slow.memory_hits, slow.errors) == (1, 1, 3, 0)
    assert (slow.median_ns, slow.compile_ns) == (230, 1_000)
    assert slow.p95_ns == pytest.approx(330 + 0.8 * (1_040 - 330))
    assert (slow.usual_launches, slow.usual, slow.long) == (5, slow.totals, None), "its compile does not count"
    assert (fast.launches, fast.compiles, fast.failed_compiles, fast.waits, fast.errors) == (2, 1, 1, 1, 1)
    assert (fast.totals.unsplit_ns, fast.host_ns) == (5, 9)


def test_resources_are_ranges_over_what_was_launched(script: Any) -> None:
    slow, fast = by_kernel(_recording(script))
    assert (slow.regs, slow.shared_bytes, slow.occupancy) == ((32, 40), (0, 1_536), (0.5, 1.0))
    assert (fast.regs, fast.shared_bytes, fast.occupancy) == (None, None, None)


def test_shapes_of_grids_and_blocks(script: Any) -> None:
    slow, fast = by_kernel(_recording(script))
    assert (slow.most_blocks, slow.partial_warps) == (14, (4, 100))
    assert (fast.most_blocks, fast.partial_warps) == (14, (0, 0))


def test_totals_by_kernel_add_up_to_all(script: Any, many: Any) -> None:
    from kernelscope.analysis.launches import phase_totals

    recording = many(5_000, 40)
    kernels = by_kernel(recording)
    total = phase_totals(recording)
    assert len(kernels) == 40
    assert sum(kernel.launches for kernel in kernels) == 5_000
    assert sum(kernel.host_ns or 0 for kernel in kernels) == total.host_ns
    for name in ("dispatch", "compile", "prepare", "submit", "finish"):
        assert sum(kernel.totals.phase(name) or 0 for kernel in kernels) == total.phase(name)


def test_long_launches_are_summed_by_themselves(script: Any, many: Any) -> None:
    made = script()
    made.kernel()
    made.specialization()
    made.configuration()
    for _ in range(9):
        made.launch(phases=(10, 0, 20, 10, 10))
    made.launch(phases=(10, 900_000, 20, 10, 10))
    for submit in (5_000, 9_000):
        made.launch(phases=(10, 0, 20, submit, 10))
    kernel, = by_kernel(made.recording())
    long = kernel.long
    assert long is not None
    assert (long.launches, long.totals.host_ns, long.totals.submit_ns) == (2, 14_080, 14_000)
    assert (long.longest_ns, long.phase, long.phase_ns) == (9_040, "submit", 9_000)
    assert (kernel.usual_launches, kernel.usual.host_ns, kernel.usual.launching_ns) == (10, 900_500, 500)
    for each in by_kernel(many(5_000, 40)):
        assert each.usual_launches == each.launches and each.long is None


def test_a_kernel_that_never_ran_is_listed_without_times(script: Any) -> None:
    made = script()
    made.kernel()
    kernel, = by_kernel(made.recording())
    assert (kernel.launches, kernel.host_ns, kernel.median_ns, kernel.usual_launches) == (0, None, None, 0)
    assert (kernel.usual, kernel.long) == (kernel.totals, None)
    assert by_kernel(script().recording()) == []


def test_launches_alone_tell_of_compiles_where_no_compilation_was_recorded(script: Any) -> None:
    made = script()
    made.kernel()
    made.configuration()
    made.launch(cache="compiled", specialization=None)
    assert by_kernel(made.recording())[0].compiles == 1

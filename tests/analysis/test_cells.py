from __future__ import annotations

from typing import Any

from kernelscope.analysis.launches import by_cell


def test_cells_in_order_and_what_ran_between_them(script: Any) -> None:
    made = script()
    made.cell(wall_ns=1_000, execution_count=3, name="warm-up")
    made.rows["cells"][0]["synchronized_ns"] = made.rows["cells"][0]["end_ns"] + 40
    made.cell(wall_ns=500, status="error", error="ValueError: no")
    for name in ("a", "b"):
        made.kernel(name)
    made.specialization()
    made.configuration()
    made.launch(0, (1, 0, 1, 1, 1), cell_id=0)
    made.launch(1, (1, 6, 1, 1, 1), cell_id=0)
    made.launch(0, (1, 0, 1, 1, 1), cell_id=1, error="ValueError", cache="disk")
    made.launch(0, (1, 0, 1, 1, 1), cell_id=None)
    made.compilation(1, 6, cell_id=0, launch_id=1, specialization_id=0)
    made.compilation(1, 6, cell_id=1, outcome="failed")
    first, second, between = by_cell(made.recording())
    assert (first.cell_id, first.label, first.status, first.error) == (0, "In [3] warm-up", "ok", None)
    assert (first.launches, first.kernels, first.compiles, first.memory_hits) == (2, 2, 1, 1)
    assert (first.totals.host_ns, first.totals.compile_ns, first.wall_ns, first.synchronize_ns) == (14, 6, 1_000, 40)
    assert (second.label, second.status, second.error, second.errors) == ("cell 1", "error", "ValueError: no", 1)
    assert (second.disk_hits, second.failed_compiles, second.synchronize_ns) == (1, 1, None)
    assert (between.cell_id, between.label, between.launches, between.wall_ns) == (None, "between cells", 1, None)


def test_a_cell_without_launches_is_a_row(script: Any) -> None:
    made = script()
    made.cell(wall_ns=9)
    cell, = by_cell(made.recording())
    assert (cell.launches, cell.totals.host_ns, cell.wall_ns) == (0, None, 9)
    assert by_cell(script().recording()) == []

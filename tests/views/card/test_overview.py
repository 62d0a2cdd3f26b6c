from __future__ import annotations

from typing import Any

import pytest
from handmade import Script

from kernelscope.analysis.launches import PhaseTotals
from kernelscope.views.card.model import Overview


def test_an_empty_recording() -> None:
    shown = Overview(Script().recording())
    assert shown.is_empty
    assert (shown.title, shown.status, shown.wall_ns, shown.cost, shown.device) == ("recording", "", None, None, None)
    assert (shown.totals, shown.host_share) == (PhaseTotals(), None)


def test_totals_and_shares() -> None:
    made = Script(name="bench", detail="full")
    made.device(name="GPU")
    made.cell(wall_ns=1_000, execution_count=2, name="a")
    made.cell(wall_ns=1_000, status="interrupted", error="KeyboardInterrupt")
    made.kernel("used")
    made.kernel("idle")
    made.specialization()
    made.configuration()
    made.launch(0, (100, 0, 100, 100, 100))
    made.launch(0, (20, 0, 20, 30, 30), thread_id=1, parent_launch_id=None, cell_id=1)
    made.health(cost_ns=10.0, total_cost_ns=20.0)
    made.health("cupti", "unavailable", message="not installed")
    shown = Overview(made.recording())
    assert (shown.title, shown.status, shown.error) == ("bench: 2 cells", "interrupted", "KeyboardInterrupt")
    assert (shown.launches, shown.kernels, shown.threads, shown.nested) == (2, 1, 2, 0)
    assert (shown.totals.host_ns, shown.wall_ns, shown.host_share) == (500, 2_000, 0.25)
    assert shown.cost is not None
    assert (shown.cost.launch_ns, shown.cost.total_ns, shown.cost.share) == (10.0, 20.0, 0.01)
    assert [row.is_trouble for row in shown.health] == [False, True]
    assert (shown.device, shown.detail) == ("GPU", "full")


@pytest.mark.parametrize(("name", "cell", "title"), [
    ("", {"execution_count": 3}, "In [3]"),
    ("warm-up", {"execution_count": 3, "name": "warm-up"}, "In [3] warm-up"),
    ("bench", {"execution_count": 3}, "bench: In [3]"),
    ("bench", {}, "bench"),
])
def test_titles(name: str, cell: dict[str, Any], title: str) -> None:
    made = Script(name=name)
    made.cell(**cell)
    assert Overview(made.recording()).title == title


def test_a_kernel_that_compiled_and_never_ran_is_shown() -> None:
    made = Script()
    made.kernel()
    made.compilation(trigger="eager", specialization_id=None)
    shown = Overview(made.recording())
    assert not shown.is_empty
    assert (shown.kernels, shown.compiles, shown.launches) == (1, 1, 0)


def cost_of(own_cost: Any, *rows: tuple[str, float | None, float]) -> Any:
    made = Script()
    made.metadata["own_cost"] = own_cost
    for probe, cost, total in rows:
        made.health(probe, message=f"{cost}", cost_ns=cost, total_cost_ns=total)
    return Overview(made.recording()).cost


MEASURED = {"kind": "calibrated", "measured": "2026-11-22T10:00:00+00:00", "low_ns": 90.0, "high_ns": 101.0}
ESTIMATED = {"kind": "estimated"}


def test_probes_that_recorded_nothing_are_no_part_of_the_cost() -> None:
    cost = cost_of({"numba-cuda": MEASURED, "cuda.core": ESTIMATED},
                   ("numba-cuda", 95.0, 950.0), ("cuda.core", 700.0, 0.0))
    assert (cost.launch_ns, cost.total_ns, cost.kind, cost.interval_ns) == (95.0, 950.0, "calibrated", (90.0, 101.0))


def test_where_nothing_was_launched_the_costs_are_still_told() -> None:
    cost = cost_of({"numba-cuda": MEASURED}, ("numba-cuda", 95.0, 0.0))
    assert (cost.launch_ns, cost.total_ns, cost.kind) == (95.0, 0.0, "calibrated")


def test_costs_of_both_kinds_are_partly_calibrated() -> None:
    cost = cost_of({"numba-cuda": MEASURED, "nvtx": ESTIMATED},
                   ("numba-cuda", 95.0, 950.0), ("nvtx", None, 50.0))
    assert (cost.launch_ns, cost.total_ns, cost.kind, cost.interval_ns) == (95.0, 1000.0, "partly calibrated", None)


def test_merged_recordings_state_the_mean_of_their_launches() -> None:
    cost = cost_of({"numba-cuda": {"kind": "calibrated"}},
                   ("numba-cuda", 100.0, 1000.0), ("numba-cuda", 50.0, 1500.0))
    assert (cost.launch_ns, cost.total_ns, cost.measured) == (62.5, 2500.0, None)


@pytest.mark.parametrize("own_cost", [None, [], "calibrated", {"numba-cuda": "calibrated"}, {"other": MEASURED}])
def test_what_is_not_told_of_a_cost_is_left_out(own_cost: Any) -> None:
    cost = cost_of(own_cost, ("numba-cuda", 95.0, 950.0))
    assert (cost.launch_ns, cost.kind, cost.measured, cost.interval_ns) == (95.0, "", None, None)

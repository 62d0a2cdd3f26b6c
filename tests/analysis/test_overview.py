from __future__ import annotations

from typing import Any

import pytest

from kernelscope.analysis.overview import overview
from kernelscope.analysis.phases import PhaseTotals


def test_an_empty_recording(script: Any) -> None:
    shown = overview(script().recording())
    assert shown.is_empty
    assert (shown.title, shown.status, shown.wall_ns, shown.cost, shown.device) == ("recording", "", None, None, None)
    assert (shown.totals, shown.host_share) == (PhaseTotals(), None)


def test_totals_and_shares(script: Any) -> None:
    made = script(name="bench", detail="full")
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
    shown = overview(made.recording())
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
def test_titles(script: Any, name: str, cell: dict[str, Any], title: str) -> None:
    made = script(name=name)
    made.cell(**cell)
    assert overview(made.recording()).title == title


@pytest.mark.parametrize(("metadata", "notice"), [
    ({"dry_run": True}, "dry run: kernels did not execute"),
    ({"simulator": True}, "CUDA simulator: times say nothing about a GPU"),
])
def test_notices(script: Any, metadata: dict[str, Any], notice: str) -> None:
    assert overview(script(**metadata).recording()).notice == notice


def test_a_kernel_that_compiled_and_never_ran_is_shown(script: Any) -> None:
    made = script()
    made.kernel()
    made.compilation(trigger="eager", specialization_id=None)
    shown = overview(made.recording())
    assert not shown.is_empty
    assert (shown.kernels, shown.compiles, shown.launches) == (1, 1, 0)

from __future__ import annotations

from typing import Any

import pytest

from kernelscope.units import MISSING
from kernelscope.views.base import defined_at
from kernelscope.views.card import labels
from kernelscope.views.card.model import HealthRow, overview


@pytest.mark.parametrize(("row", "place"), [
    ({"module": "solver.step", "filename": "/home/u/solver/step.py", "lineno": 41}, "solver.step · step.py:41"),
    ({"module": "m", "filename": r"C:\users\u\k.py", "lineno": 2}, "m · k.py:2"),
    ({"filename": "/tmp/ipykernel_77/123.py", "lineno": 3}, "notebook cell, line 3"),
    ({"filename": "<ipython-input-7-abcdef>", "lineno": 3}, "In [7], line 3"),
    ({"filename": "<string>", "lineno": None}, "<string>"),
    ({"module": None, "filename": None, "lineno": None}, MISSING),
    ({"module": "__main__", "filename": None, "lineno": None}, "__main__"),
])
def test_places_hold_no_path_of_the_machine(row: dict[str, Any], place: str) -> None:
    assert defined_at("numba-cuda", row.get("module"), row["filename"], row["lineno"]) == place


def test_health_in_one_line() -> None:
    assert labels.health(HealthRow("p", "ok", None, None, None, None)) == ""
    assert labels.health(HealthRow("p", "ok", "m", None, 0, 0)) == "m"
    assert labels.health(HealthRow("p", "ok", "m", None, 1, 2)) == (
        "m; 1 record dropped; 2 errors inside KernelScope, counted and swallowed")


def test_waiting_for_the_device(script: Any) -> None:
    made = script()
    made.cell()
    made.rows["cells"][0]["synchronized_ns"] = made.rows["cells"][0]["end_ns"] + 2_500_000
    note = labels.synchronize_note(overview(made.recording()))
    assert note == "waited 2.50 ms for the device after the cell's end"
    assert labels.synchronize_note(overview(script().recording())) == ""


@pytest.mark.parametrize(("wait_ns", "text"), [
    (None, "by a launch"), (900_000, "by a launch"),
    (20_000_000, "by a launch (20.0 ms waiting for the compiler lock)"),
])
def test_waiting_for_the_compiler_lock_is_told_where_it_is_long(script: Any, wait_ns: int | None, text: str) -> None:
    made = script()
    made.kernel()
    made.compilation(wait_ns=wait_ns)
    assert labels.trigger(overview(made.recording()).compilations[0]) == text


CALIBRATED = {"kind": "calibrated", "measured": "2026-11-22T10:00:00+00:00", "low_ns": 90.0, "high_ns": 101.0,
              "is_seen": True}
UNSEEN = {**CALIBRATED, "low_ns": -9.0, "high_ns": 13.0, "is_seen": False}


@pytest.mark.parametrize(("facts", "cost", "said"), [
    (None, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall time"),
    ({}, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall time"),
    ({"kind": "estimated"}, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall time, estimated"),
    (CALIBRATED, 95.0, "about 950 ns, 95 ns a launch (90 ns to 101 ns), 1.0 % of the wall time, "
                       "calibrated on 2026-11-22"),
    (UNSEEN, 13.0, "at most 130 ns, 13 ns a launch (-9 ns to 13 ns: no difference seen), 0.1 % of the wall time, "
                   "calibrated on 2026-11-22"),
    ({"kind": "calibrated"}, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall time, calibrated"),
    ({"kind": "partly calibrated"}, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall time, partly calibrated"),
    ({"kind": ["?"]}, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall time"),
    ({"kind": "calibrated", "measured": 7, "low_ns": "x"}, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall "
                                                                 "time, calibrated"),
])
def test_the_cost_of_recording_says_how_it_is_known(script: Any, facts: Any, cost: float, said: str) -> None:
    made = script()
    made.cell(wall_ns=95_000)
    made.health(cost_ns=cost, total_cost_ns=10 * cost)
    made.metadata |= {} if facts is None else {"own_cost": {"numba-cuda": facts}}
    shown = labels.cost(overview(made.recording()))
    assert shown == f"Recording's own cost: {said}"

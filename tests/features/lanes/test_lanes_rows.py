"""Rows of ``pm_samples`` from what the probe recorded."""

from __future__ import annotations

import numpy as np

from kernelscope.recording.build import RawRecording, build
from kernelscope.recording.model import select_cell


def test_samples_belong_to_the_cell_whose_work_was_waited_for() -> None:
    cells = [{"start_ns": 100, "end_ns": 200, "synchronized_ns": 300, "status": "ok"},
             {"start_ns": 400, "end_ns": 500, "status": "ok"}]
    start = np.array([50, 95, 100, 250, 350, 450, 500])
    made = build(RawRecording(cells=cells, devices=[{"ordinal": 0}, {"ordinal": 1}], rows={"pm_samples": [
        {"device_id": device, "name": name, "start_ns": start, "end_ns": start + 10,
         "value": np.array([0, 1.5, np.nan, -1, 2, 3, 0])} for device in (1, 0) for name in ("b__c.pct", "a__c.pct")]}))
    rows = made.rows("pm_samples")
    assert [(row["device_id"], row["name"]) for row in rows[::5]] == [
        (0, "b__c.pct"), (0, "a__c.pct"), (1, "b__c.pct"), (1, "a__c.pct")]
    assert [row["cell_id"] for row in rows[:5]] == [None, 0, 0, None, 1]
    assert [row["value"] for row in rows[:5]] == [1.5, None, None, 2, 3]
    assert len(select_cell(made, 0).pm_samples) == 8

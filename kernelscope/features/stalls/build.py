"""Makes the rows of ``pc_samples`` out of what the probe recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernelscope.recording.build import RawRecording, Row
from kernelscope.recording.columns import by_entry_name
from kernelscope.schema import MAX_COUNT, UNKNOWN


def rows(raw: RawRecording, launches: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return samples of warps with their specialization, cell and launch; those of one instruction and reason together.

    Parameters
    ----------
    raw : RawRecording
        Its rows of ``pc_samples`` have CUPTI's ``correlation_id`` of the launch, None for none.
    launches : mapping of str to array
        The columns of ``launches``.
    """
    samples = raw.rows.get("pc_samples", [])
    specializations = by_entry_name(raw.specializations)
    launch_of: dict[int, int] = {}
    if "correlation_id" in launches and any(row["correlation_id"] is not None for row in samples):
        correlation = np.asarray(launches["correlation_id"]).tolist()
        launch_of = {number: launch for launch, number in enumerate(correlation) if number != UNKNOWN}
    merged: dict[tuple[Any, ...], Row] = {}
    for sample in samples:
        specialization = specializations.get(sample["entry_name"], UNKNOWN)
        launch = launch_of.get(sample["correlation_id"])
        cell = 0 if len(raw.cells) == 1 else None
        if launch is not None:
            cell = int(launches["cell_id"][launch])
        row = {
            **{name: sample[name] for name in ("entry_name", "device_id", "pc_offset", "reason")},
            "specialization_id": None if specialization == UNKNOWN else specialization, "launch_id": launch,
            "name": sample["name"] if specialization == UNKNOWN
            else raw.dispatchers[raw.specializations[specialization]["dispatcher_id"]]["name"],
            "cell_id": None if cell == UNKNOWN else cell,
        }
        total = merged.setdefault(tuple(row.values()), {**row, "samples": 0, "not_issued": 0})
        for name in ("samples", "not_issued"):
            total[name] = min(total[name] + sample[name], MAX_COUNT)
    return {"pc_samples": list(merged.values())}

"""Makes the columns of ``pm_samples`` out of what the probe recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from kernelscope.recording.build import RawRecording, Row
from kernelscope.recording.columns import cell_finder
from kernelscope.recording.time import FOREVER
from kernelscope.schema import MAX_TIME_NS


def columns(raw: RawRecording, launches: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return samples of devices as columns: those of a device and metric one behind the other.

    Those from before the first cell and after the last one are left out: probes were set up and ended then.

    Parameters
    ----------
    raw : RawRecording
        Its rows of ``pm_samples`` are of a device and metric, with arrays as times and values, NaN for none.
    launches : mapping of str to array
        The columns of ``launches``.
    """
    # What a cell asked for may be done after it.
    cells: list[Row] = [{**row, "end_ns": row.get("end_ns") if row.get("synchronized_ns") is None else
                         row["synchronized_ns"]} for row in raw.cells]
    first = min((row["start_ns"] for row in cells), default=-FOREVER)
    last = max((FOREVER if row["end_ns"] is None else row["end_ns"] for row in cells), default=FOREVER)
    began = -FOREVER if raw.began is None else raw.began
    series: list[Row] = []
    for samples in raw.rows.get("pm_samples", []):
        inside = (samples["end_ns"] > first) & (samples["start_ns"] < last) & (samples["start_ns"] >= began)
        if inside.any():
            series.append(samples | {name: samples[name][inside] for name in ("start_ns", "end_ns", "value")})
    names = list(dict.fromkeys(samples["name"] for samples in series))
    series.sort(key=lambda samples: (samples["device_id"], names.index(samples["name"])))  # stable: in order of time
    if not series:
        return {"pm_samples": {}}
    start, end, value = (np.concatenate([samples[name] for samples in series])
                         for name in ("start_ns", "end_ns", "value"))
    counts = [len(samples["start_ns"]) for samples in series]
    return {"pm_samples": {
        "device_id": np.repeat(np.array([samples["device_id"] for samples in series], np.int32), counts),
        "cell_id": cell_finder(cells)(start), "start_ns": start, "end_ns": end,
        "name": pa.DictionaryArray.from_arrays(
            np.repeat(np.array([names.index(samples["name"]) for samples in series], np.int32), counts), names),
        "value": pa.array(value, mask=~((value >= 0) & (value <= MAX_TIME_NS))),
    }}

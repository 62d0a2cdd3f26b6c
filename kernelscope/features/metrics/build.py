"""Makes the rows of ``measurements`` and ``metrics`` out of what the probe recorded."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kernelscope import cubin
from kernelscope.errors import CubinError
from kernelscope.features.metrics.sets import EXECUTED, OPERATIONS, operation_of, unit_of
from kernelscope.recording.build import RawRecording, Row
from kernelscope.recording.columns import Spans, by_entry_name
from kernelscope.recording.time import FOREVER, otherwise
from kernelscope.schema import UNKNOWN


def rows(raw: RawRecording, launches: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Return measured launches, with the launch that each was in, its specialization and cell; and their metrics.

    Parameters
    ----------
    raw : RawRecording
        Its rows of ``measurements`` have columns of this table, ``thread_id``, ``metrics`` as tuples of name, value and
        unit, and ``executed``, what each instruction did: function, offset, and values by metric without ``.sum``.
    launches : mapping of str to array
        The columns of ``launches``.
    """
    measured = sorted((row for row in raw.rows.get("measurements", ()) if row["start_ns"] >= (raw.began or 0)),
                      key=lambda row: row["start_ns"])
    if not measured:
        return {}
    specializations = by_entry_name(raw.specializations)
    codes = {row["specialization_id"]: base64.b64decode(row["text"]) for row in raw.code if row["kind"] == "cubin"}
    ends = otherwise(launches["end_ns"], FOREVER)
    around = Spans(launches["thread_id"], launches["start_ns"], ends).around(
        np.array([row["thread_id"] for row in measured]),
        np.array([row["start_ns"] for row in measured], np.int64)).tolist()
    measurements, metrics = list[Row](), list[Row]()
    for at, (row, launch) in enumerate(zip(measured, around, strict=True)):
        number = specializations.get(row["entry_name"], UNKNOWN)
        found = {name: None if launch == UNKNOWN or launches[name][launch] == UNKNOWN else int(launches[name][launch])
                 for name in ("configuration_id", "cell_id")}
        if launch == UNKNOWN and len(raw.cells) == 1:
            found["cell_id"] = 0
        measurements.append({
            **{name: value for name, value in row.items() if name not in ("metrics", "thread_id", "executed")}, **found,
            "measurement_id": at, "launch_id": None if launch == UNKNOWN else launch,
            "specialization_id": None if number == UNKNOWN else number,
            "name": row["name"] if number == UNKNOWN
            else raw.dispatchers[raw.specializations[number]["dispatcher_id"]]["name"]})
        done = _operations(row["executed"], None if number == UNKNOWN else codes.get(number))
        metrics += [{"measurement_id": at, "pc_offset": None, "name": name, "unit": unit,
                     "value": done.get(operation) if (operation := operation_of(name)) else value}
                    for name, value, unit in row["metrics"]]
        metrics += [{"measurement_id": at, "pc_offset": offset, "name": f"{name}.sum", "unit": unit_of(f"{name}.sum"),
                     "value": value} for function, offset, values in row["executed"] if function == row["entry_name"]
                    for name, value in values.items() if value]
    return {"measurements": measurements, "metrics": metrics}


def _operations(executed: Iterable[tuple[str, int, Mapping[str, int]]], code: bytes | None) -> dict[str, int]:
    """Return how many operations of each kind the threads of a launch executed; empty where the code is not known."""
    if code is None:
        return {}
    try:
        kinds = cubin.operations(code)
    except CubinError:
        return {}
    found: dict[str, int] = dict.fromkeys(OPERATIONS, 0)
    for function, offset, values in executed:
        own, at = kinds.get(function, ()), offset // cubin.INSTRUCTION_BYTES
        if at >= len(own):
            return {}
        kind = own[at]
        if kind is not None:
            found[kind[0]] += kind[1] * values.get(EXECUTED, 0)
    return found if any(EXECUTED in values for *_, values in executed) else {}

"""What a session's recordings state of their own cost: calibrated on this machine, or estimated by a probe."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope import dryrun
from kernelscope.calibration.stated import Stated, calibrated, estimated, known
from kernelscope.probes.base import Probe
from kernelscope.probes.numba_cuda import NumbaCudaProbe
from kernelscope.probes.nvtx import NvtxProbe, measure_cost
from kernelscope.probes.sink import Sink


def stated_costs(probes: Sequence[Probe], sink: Sink) -> dict[str, Stated]:
    """Return what recording one launch costs, by probe: as it was calibrated on this machine, else an estimate."""
    found: dict[str, Stated] = {}
    for probe in probes:
        if isinstance(probe, NumbaCudaProbe) and probe.is_hooked:
            gpus = {None} if dryrun.is_enabled() else {str(row["name"]) for row in sink.devices.rows}
            calibration = known(gpus, sink.log.backend, sink.detail)
            if calibration is not None:
                found[probe.name] = calibrated(calibration)
                continue
        cost = _estimate(probe, sink)
        if cost is not None:
            found[probe.name] = estimated(cost, sink.detail)
    return found


def cost_rows(probe: Probe, costs: Mapping[str, Stated], launches: Mapping[str, int],
              ranges: int) -> list[dict[str, Any]]:
    """Return what health says of a probe's cost.

    Parameters
    ----------
    probe : Probe
        It is named after the framework whose launches it records.
    costs : mapping of str to Stated
        As `stated_costs` returns them.
    launches : mapping of str to int
        How many there were, by framework.
    ranges : int
        How many NVTX ranges and marks there were.
    """
    rows: list[dict[str, Any]] = []
    stated = costs.get(probe.name)
    if stated is not None:
        rows.append({"probe": probe.name, "status": "ok", "cost_ns": stated.cost_ns, "message": stated.message,
                     "total_cost_ns": stated.cost_ns * launches.get(probe.name, 0)})
    if ranges and isinstance(probe, NvtxProbe):
        cost = _range_cost()
        rows.append({"probe": probe.name, "status": "ok", "total_cost_ns": cost * ranges,
                     "message": f"estimated: {cost:.0f} ns a range"})
    return rows


def facts(costs: Mapping[str, Stated], ranges: int) -> dict[str, Any]:
    """Return what the metadata say of how each probe's cost is known."""
    return {**{probe: stated.facts for probe, stated in costs.items()},
            **({NvtxProbe.name: {"kind": "estimated"}} if ranges else {})}


_estimates: dict[tuple[str, str, str], float] = {}


def _estimate(probe: Probe, sink: Sink) -> float | None:
    """The probe's estimate, made once a process: 10 ms are too much for every cell."""
    key = (probe.name, sink.detail, sink.log.backend)
    if key not in _estimates:
        cost = probe.cost_per_launch_ns(sink.detail)
        if cost is None:
            return None
        _estimates[key] = cost
    return _estimates[key]


@functools.cache
def _range_cost() -> float:
    return measure_cost()

"""Lanes of the timeline: what a device's counters were over time."""

from __future__ import annotations

import numpy as np

from kernelscope.views.timeline.build import Builder, CounterSamples

#: What lanes of a GPU's counters are called, by the part of the metric's name before the first dot; in their order.
LANES = {
    "sm__cycles_active": "SM busy", "dram__throughput": "DRAM", "dram__read_throughput": "DRAM reads",
    "dram__write_throughput": "DRAM writes", "sm__pipe_tensor_cycles_active": "tensor cores",
    "sm__inst_executed_pipe_tensor": "tensor cores",
}


def counter_samples(builder: Builder) -> CounterSamples:
    """Return the samples, each metric with its label and its place below a device's streams."""
    read = builder.read["pm_samples"]
    (code, metrics), (device, process, cell) = read.codes("name")[0], read.ints("device_id", "process_id", "cell_id")
    bases, order = [metric.split(".")[0] for metric in metrics], list(LANES)
    start, _ = builder.clock.times("pm_samples", "start_ns")
    end, _ = builder.clock.times("pm_samples", "end_ns")
    # Other metrics have no scale of 0 to 100.
    is_share = np.array([".pct" in metric for metric in metrics], np.bool_)
    rows = np.flatnonzero(is_share[code]) if len(code) else code
    rows = rows[np.lexsort((start[rows], code[rows], device[rows]))]
    value = np.asarray(builder.recording.arrow("pm_samples").column("value").to_numpy(), np.float64)
    return CounterSamples(
        metrics, [LANES.get(base, metric) for base, metric in zip(bases, metrics, strict=True)],
        [order.index(base) if base in LANES else len(order) + number for number, base in enumerate(bases)],
        code[rows], device[rows], process[rows], cell[rows], start[rows], end[rows], value[rows])

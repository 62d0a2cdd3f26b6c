"""Metrics: what the GPU's counters say of kernels, whose first launches are replayed for it (``--metrics``)."""

from __future__ import annotations

from kernelscope.registry import Feature

_HERE = __name__

FEATURE = Feature(
    "metrics",
    tables=f"{_HERE}.tables:TABLES",
    options=f"{_HERE}.options:MetricsOptions",
    probes=f"{_HERE}.record:probes",
    rows=f"{_HERE}.build:rows",
    advice=f"{_HERE}.advice:RULES",
    recorder_methods={"passes": f"{_HERE}.record:passes"},
    functions={"metrics": f"{_HERE}.command:metrics"},
    commands={"metrics": "show what the GPU's counters said of measured kernels"},
    magics={"metrics": "run a cell AGAIN, measure a kernel's launch with the GPU's counters, and show what they say"},
    verbs=f"{_HERE}.command:VERBS",
    answers=(f"{_HERE}.view:MetricsAnswer",),
    tools={"metrics": f"{_HERE}.tools:metrics"},
    tool_instructions="metrics has the GPU's counters, if they were measured.",
)

"""Counters over time: how busy a device's multiprocessors, memory and tensor cores were (``--lanes``)."""

from __future__ import annotations

from kernelscope.registry import Feature

_HERE = __name__

FEATURE = Feature(
    "lanes",
    tables=f"{_HERE}.tables:TABLES",
    options=f"{_HERE}.options:LanesOptions",
    probes=f"{_HERE}.record:probes",
    rows=f"{_HERE}.build:columns",
    lanes=f"{_HERE}.timeline:counter_samples",
)

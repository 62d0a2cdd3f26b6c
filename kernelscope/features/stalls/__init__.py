"""Warp stalls: at which line of which kernel the GPU's warps were, and why they waited (``--stalls``)."""

from __future__ import annotations

from kernelscope.registry import CardSection, Feature

_HERE = __name__

FEATURE = Feature(
    "stalls",
    tables=f"{_HERE}.tables:TABLES",
    options=f"{_HERE}.options:StallsOptions",
    probes=f"{_HERE}.record:probes",
    rows=f"{_HERE}.build:rows",
    methods={"by_stall": f"{_HERE}.analyse:by_stall"},
    card=CardSection(80, ("pc_samples",), f"{_HERE}.card:section", f"{_HERE}.card:member", f"{_HERE}.card:Member"),
    code_counts=f"{_HERE}.inspector:COUNTS",
    hot_line=f"{_HERE}.analyse:hot_line",
)

"""Dask's tasks: what those of each key prefix did on each worker, of the ranges that the probe of Dask records."""

from __future__ import annotations

from kernelscope.registry import CardSection, Feature

_HERE = __name__

#: The domain of the ranges that are tasks.
DOMAIN = "dask"

FEATURE = Feature(
    "tasks",
    methods={"by_task": f"{_HERE}.analyse:by_task"},
    range_domains={DOMAIN: "Dask tasks"},
    card=CardSection(30, ("ranges",), f"{_HERE}.card:section", f"{_HERE}.card:member", f"{_HERE}.card:Member",
                     meanings=f"{_HERE}.card:MEANINGS"),
)

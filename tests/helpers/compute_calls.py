"""Calls of cuda.compute's stand-in, and what the probe's sink has of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from standin_compute import Array

from kernelscope.probes.cuda_compute import CudaComputeProbe
from kernelscope.probes.sink import Sink

IN, OUT = Array(), Array()


def add(a: Any, b: Any) -> Any:
    return a + b


def plus(a: Any, b: Any) -> Any:
    return a + b


@contextmanager
def recording(sink: Sink | None = None) -> Iterator[Sink]:
    sink, probe = sink or Sink(), CudaComputeProbe()
    probe.install(sink, sink.detail)
    try:
        yield sink
    finally:
        probe.uninstall()


def outcomes(sink: Sink) -> list[str]:
    return [row["outcome"] for row in sink.builds]


def launches(sink: Sink) -> list[SimpleNamespace]:
    """Every launch by start, with its dispatcher's and target's facts."""
    found = []
    columns = sink.log.columns()
    for record in (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)):
        target = sink.targets.rows[record["target"]]
        found.append(SimpleNamespace(
            name=sink.dispatchers.rows[target["dispatcher_id"]]["name"], error=target["error"],
            stream=sink.configurations.rows[record["configuration"]]["stream"], start=record["start_ns"],
            end=record["end_ns"], thread=sink.sites.rows[record["site"]]["thread_id"]))
    return sorted(found, key=lambda launch: launch.start)


def reduce(compute: Any, op: Any = add, **kwargs: Any) -> Any:
    return compute.reduce_into(**{"d_in": IN, "d_out": OUT, "num_items": 4, "op": op} | kwargs)


def no_errors(sink: Sink) -> None:
    assert not sink.errors, sink.first_errors
    assert not sink.health, sink.health

"""Traces in Chrome's JSON: of torch.profiler, of JAX's profiler, and of others."""

from __future__ import annotations

from kernelscope.registry import Importer

_HERE = __name__

IMPORTER = Importer(
    "chrome",
    formats="a trace of torch.profiler, of JAX's profiler or another one in Chrome's JSON",
    producers={"torch.profiler": "torch.profiler (Kineto)", "xla": "XLA's profiler (JAX, TensorFlow)",
               "chrome": "a tracer"},
    is_trace=f"{_HERE}.recognize:is_trace",
    may_be_trace=f"{_HERE}.recognize:may_be_trace",
    read=f"{_HERE}.read:read",
    suffixes=("json", "gz", "pt", "trace"),
)

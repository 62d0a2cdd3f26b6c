"""The formats of other programs in which call paths are written."""

from __future__ import annotations

from kernelscope.features.call_paths.analyse import METRICS
from kernelscope.views.exports import Exporter

EXPORTERS = (
    Exporter(
        "speedscope", "kernelscope.features.call_paths.export:to_speedscope", ".speedscope.json",
        "call paths with their kernels, weighted by host, GPU and compile time and by launches: needs `--stacks`",
        "[speedscope.app](https://www.speedscope.app)", (".speedscope.json",)),
    Exporter(
        "collapsed", "kernelscope.features.call_paths.export:to_collapsed", ".folded",
        "call paths as folded stacks, weighted by host time or another `--metric`: needs `--stacks`",
        "Brendan Gregg's `flamegraph.pl`, inferno", (".folded",), metrics=METRICS,
        about_metrics="time on the host, of the GPU or of compiles, in nanoseconds, or launches (default: host)"),
)

"""Advice from the roofline: which kernels are at their roof, where nothing is to be gained."""

from __future__ import annotations

from collections.abc import Iterable

from kernelscope.analysis.advice import Rule
from kernelscope.analysis.savings import GPU, Finding
from kernelscope.features.metrics.advice import CounterEvidence, counter_rule
from kernelscope.features.roofline.analyse import AT_ROOF, LEVELS, Point, rooflines
from kernelscope.recording.model import Recording
from kernelscope.units import cut, duration, percent, scaled


def points(recording: Recording) -> list[Point]:
    """Return the points of all rooflines of a recording."""
    return [point for roofline in rooflines(recording) for point in roofline.points]


def _at_roof(evidence: CounterEvidence) -> Iterable[Finding]:
    for point in evidence.result(points):
        if point.measured not in evidence.measured:
            continue
        if point.share is None or point.roof is None or point.share < AT_ROOF:
            continue
        rate = (f"{scaled(point.bytes_per_second(point.roof), 'B/s')} of {point.roof}" if point.roof in LEVELS
                else scaled(point.flops_per_second, "FLOP/s") + f" in {point.roof}")
        fewer = "bytes" if point.roof in LEVELS else "operations"
        yield Finding(point.kernel, (
            f"{cut(point.kernel)} is at its roof: {rate}, {percent(point.share)} of what the GPU does, in "
            f"{duration(point.duration_ns)}. There is nothing to gain here but fewer {fewer}."
        ), 0.0, GPU, is_certain=False)


RULES: tuple[Rule, ...] = (
    counter_rule("at_roof", "a kernel that is at its roof", f"{percent(AT_ROOF)} of the roof that limits it",
                 "none: says where nothing is to be gained", "Nsight Compute's rule SOLBottleneck", _at_roof),
)

"""A roofline as an answer for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

from kernelscope.features.roofline.analyse import Point, Roofline
from kernelscope.features.roofline.model import NOTHING, about, name_of, shown_of, verdict_of
from kernelscope.recording.model import Recording
from kernelscope.views.answer import Answer, Facts, HealthMembers, Many, answer
from kernelscope.views.card.answer import health_of


class RooflineKernelMembers(TypedDict):
    """A measured kernel below the roofs."""

    kernel: str
    arguments: str | None
    launches: int
    duration_ns: float | None
    precision: str | None
    flops_per_second: float | None
    dram_bytes_per_second: float | None
    flops_per_dram_byte: float | None
    flops_per_l2_byte: float | None
    roof: str | None
    bound: str | None
    roof_share: float | None
    verdict: str
    missing: Many[str]


class RoofsMembers(TypedDict):
    """The peaks of a device."""

    flops_per_second: Facts
    bytes_per_second: Facts
    copy_bytes_per_second: float | None


class RooflineMembers(TypedDict):
    """A device's roofs, and its kernels."""

    recording: str
    device: str
    roofs: RoofsMembers
    kernels: Many[RooflineKernelMembers]
    notes: Many[str]


class RooflineAnswer(Answer):
    """What kernelscope roofline says."""

    notice: str | None
    healths: Annotated[Many[HealthMembers], "of each recording"]
    rooflines: Many[RooflineMembers]


def roofline_answer(recordings: Sequence[Recording], limit: int | None = None) -> dict[str, Any]:
    """Return roofs and kernels of each recording and device, as `kernelscope.views.answer.answer` does."""
    shown = shown_of(recordings)
    said = [f"{name_of(point, each.points)} is {verdict_of(point)}" for each in shown.rooflines
            for point in each.points[:1]]
    verdict = f"{about(shown)}. {'. '.join(said[:3])}." if shown.rooflines else NOTHING
    return answer(RooflineAnswer, {
        "verdict": verdict, "notice": shown.notice or None, "healths": Many(recordings, health_of),
        "rooflines": Many(shown.rooflines, _roofline)}, limit)


def _roofline(each: Roofline) -> RooflineMembers:
    def point(one: Point) -> RooflineKernelMembers:
        return {
            "kernel": name_of(one, each.points), "arguments": one.arguments or None, "launches": one.measured.count,
            "duration_ns": one.duration_ns, "precision": one.precision, "flops_per_second": one.flops_per_second,
            "dram_bytes_per_second": one.bytes_per_second(), "flops_per_dram_byte": one.intensity(),
            "flops_per_l2_byte": one.intensity("L2"), "roof": one.roof, "bound": one.bound, "roof_share": one.share,
            "verdict": verdict_of(one), "missing": Many(one.missing)}

    return {
        "recording": each.recording, "device": each.device,
        "roofs": {"flops_per_second": Facts(each.roofs.flops), "bytes_per_second": Facts(each.roofs.bytes),
                  "copy_bytes_per_second": each.roofs.copy},
        "kernels": Many(each.points, point, weight=2), "notes": Many(each.notes)}

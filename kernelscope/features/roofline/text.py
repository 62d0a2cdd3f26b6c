"""The roofline as a table of text."""

from __future__ import annotations

from kernelscope.features.roofline.analyse import Point, Roofline
from kernelscope.features.roofline.model import NOTHING, Panel, Shown, about, name_of, number
from kernelscope.units import MISSING, duration, percent, scaled
from kernelscope.views.base import columns, table, with_notice, wrap

_HEADERS = ("kernel", "time", "FLOP/byte", "of L2", "FLOP/s", "DRAM", "bound by", "of roof", "launches")
_LEFT = (0, 6)


def roofline_text(shown: Shown, width: int | None = None) -> str:
    """Return a table a recording and device: a line a specialization, then what else is to be said."""
    width = columns(width)
    if not shown.panels:
        return with_notice(shown.notice, wrap(NOTHING, width, hanging=0))
    parts = [_panel(panel, each, width) for panel, each in zip(shown.panels, shown.rooflines, strict=True)]
    return with_notice(shown.notice, "\n\n".join([about(shown), *parts]))


def _panel(panel: Panel, each: Roofline, width: int) -> str:
    roofs = ", ".join([panel.about, *(f"{name} {scaled(rate, 'FLOP/s')}" for name, rate in each.roofs.flops.items())])
    lines = [panel.title, *([wrap(f"roofs: {roofs}", width, 2, 2)] if roofs else []),
             table(_HEADERS, [_row(point, each) for point in each.points], width, left=_LEFT)]
    lines += [wrap(note, width, 2, 2) for note in panel.notes if "no floating-point operation" not in note]
    return "\n".join(lines)


def _row(point: Point, each: Roofline) -> tuple[str, ...]:
    rate = point.flops_per_second
    return (
        name_of(point, each.points), duration(point.duration_ns),
        number(point.intensity()), number(point.intensity("L2")),
        MISSING if rate is None else "none" if not rate else f"{scaled(rate, '')} {point.precision}",
        scaled(point.bytes_per_second(), "B/s"), MISSING if point.roof is None else f"{point.bound}, {point.roof}",
        percent(point.share), f"{point.measured.count:,}")

"""What a roofline shows, whatever draws it: panels side by side with roofs and dots on axes that they share.

A panel is of one recording and one device. Both axes are logarithmic: operations for each byte of DRAM, and operations
a second. A dot is a specialization, at the operations of the precision whose roof is nearest to it; a ring beside it
is at its operations for each byte of L2. A kernel has one color in all panels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kernelscope.features.roofline.analyse import FAR, Point, Roofline, rooflines
from kernelscope.palette import KERNEL_COLORS
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import counted, duration, listed, percent, scaled
from kernelscope.views.base import clean, drawn_width, shorten

#: What is said where nothing was measured.
NOTHING = ("No kernel's counters were measured: %kernelscope metrics KERNEL --set roofline measures them, and so does "
           "%%kernelscope --metrics roofline.")
#: The size of a panel's axes in a picture, in pixels; a figure is nearly as large.
WIDTH, HEIGHT = 470, 330
#: The size of labels, in pixels.
LABEL = 11
#: Sides of a dot on which its label can be, as row and column; the first that is free is taken.
SIDES = ("beside right", "beside left", "above center", "below center", "above right", "below right", "above left",
         "below left")
_NAME, _ARGUMENTS = 26, 60
_BOUNDS = {"memory": "memory-bound", "compute": "compute-bound"}
# Room around what is drawn, in decades.
_ROOM = 0.35
_FEWEST = 2.0
# So often labels make room for one another.
_ROUNDS = 4
_LEAST, _MOST = 1e-50, 1e50


@dataclass(frozen=True)
class Roof:
    """A roof as a line.

    Attributes
    ----------
    kind : str
        ``copy``, ``dram`` and ``l2`` rise with the intensity; ``compute`` is level.
    label : str
        What it is, with its height.
    start, end : tuple of float
        Operations for each byte, and operations a second.
    """

    kind: str
    label: str
    start: tuple[float, float]
    end: tuple[float, float]


@dataclass
class Dot:
    """A specialization.

    Attributes
    ----------
    name : str
        The kernel, with what tells its specializations apart.
    share : str
        How much of its roof it reaches; empty where that is not known.
    color : str
        Of the kernel.
    intensity, flops_per_second : float
        Where it is.
    l2_intensity : float or None
        Where its ring is; None where that is not known.
    roof : tuple of float or None
        The point of its roof above it, or above its ring; None where its roof is not known.
    lines : list of str
        What is said of it, a line each.
    side : str
        On which side its label is: one of `SIDES`.
    """

    name: str
    share: str
    color: str
    intensity: float
    flops_per_second: float
    l2_intensity: float | None
    roof: tuple[float, float] | None
    lines: list[str]
    side: str = SIDES[0]

    @property
    def label(self) -> str:
        """Return what stands beside it."""
        return f"{self.name} {self.share}".strip()


@dataclass
class Panel:
    """One recording's kernels on one device.

    Attributes
    ----------
    title, about : str
        The recording and the device, and its bandwidths.
    roofs : list of Roof
        The roofs.
    dots : list of Dot
        What has a place on the axes.
    notes : list of str
        What has none, and what else is to be said.
    """

    title: str
    about: str
    roofs: list[Roof]
    dots: list[Dot]
    notes: list[str]


@dataclass
class Shown:
    """A roofline as it is shown.

    Attributes
    ----------
    rooflines : list of Roofline
        What it is made of.
    panels : list of Panel
        One of each; none where nothing was measured.
    x, y : tuple of float
        The ends of the axes, as decimal logarithms.
    notice : str
        What every output of these recordings must say.
    """

    rooflines: list[Roofline]
    panels: list[Panel] = field(default_factory=list)
    x: tuple[float, float] = (-2.0, 2.0)
    y: tuple[float, float] = (9.0, 14.0)
    notice: str = ""

    def place(self, at: tuple[float, float]) -> tuple[float, float]:
        """Return where a point is on the axes, in pixels from the upper left."""
        x, y = (math.log10(value) for value in at)
        return ((x - self.x[0]) / (self.x[1] - self.x[0]) * WIDTH, (self.y[1] - y) / (self.y[1] - self.y[0]) * HEIGHT)


def shown_of(recordings: Sequence[Recording]) -> Shown:
    """Return what a roofline of some recordings shows."""
    found = [each for recording in recordings for each in rooflines(shareable(recording))]
    notices = dict.fromkeys(each.notice for each in recordings if each.notice)
    shown = Shown(found, notice="; ".join(notices))
    if not found:
        return shown
    colors = dict.fromkeys(point.kernel for each in found for point in each.points)
    color_of = {name: KERNEL_COLORS[at % len(KERNEL_COLORS)] for at, name in enumerate(colors)}
    drawn = [[point for point in each.points
              if _has_place(point.intensity()) and _has_place(point.flops_per_second)] for each in found]
    _scale(shown, found, [point for points in drawn for point in points])
    names = _titles(found)
    for title, each, points in zip(names, found, drawn, strict=True):
        dots = [_dot(point, each, color_of[point.kernel]) for point in points]
        roofs = each.roofs
        parts = [*([f"a copy {scaled(roofs.copy, 'B/s')}"] if roofs.copy else []),
                 *(f"{name} {scaled(rate, 'B/s')}" for name, rate in roofs.bytes.items())]
        panel = Panel(title, ", ".join(parts), _roofs(each, points, shown), dots, [*_notes(each, points)])
        _place_labels(shown, panel)
        shown.panels.append(panel)
    return shown


def name_of(point: Point, others: Iterable[Point]) -> str:
    """Return a kernel's name, with its argument types in brief where another specialization of it is there."""
    name = shorten(clean(point.kernel), _NAME)
    same = [each for each in others if each.kernel == point.kernel and each is not point]
    if not same or not point.arguments:
        return name
    # Of arguments that all have the same type nothing is told apart.
    parts = [set(each.arguments.split(", ")) for each in same]
    different = [part for part in point.arguments.split(", ") if not all(part in each for each in parts)]
    return f"{name} ({shorten(clean(', '.join(different or [point.arguments])), _NAME)})"


def verdict_of(point: Point) -> str:
    """Return by what a kernel is bound and how far it is from its roof, in a few words."""
    share, bound = point.share, point.bound
    if share is None or bound is None:
        return "not known"
    far = f", {1 / share:.1f} times below" if 0 < share < 1 else ""
    latency = "; no roof explains its time" if share < FAR else ""
    return f"{_BOUNDS[bound]}: {percent(share)} of the {point.roof} roof{far}{latency}"


def _has_place(*values: float | None) -> bool:
    """Return whether values have a place on logarithmic axes: a file may hold any numbers."""
    return all(value is not None and _LEAST < value < _MOST for value in values)


def _titles(found: Sequence[Roofline]) -> list[str]:
    names = [clean(each.recording) for each in found]
    if len(found) > 1 and len({*names}) == 1:
        names = [f"{name} {at}".strip() for at, name in enumerate(names, start=1)]
    return [" · ".join(filter(None, (name, clean(each.device)))) for name, each in zip(names, found, strict=True)]


def _scale(shown: Shown, found: Sequence[Roofline], points: Sequence[Point]) -> None:
    """Choose the axes, so that all dots are on them and the corners of the roofs above DRAM."""
    x = [point.intensity(level) for point in points for level in ("DRAM", "L2")]
    y = [point.flops_per_second for point in points]
    for each in found:
        top = max(each.roofs.flops.values(), default=0.0)
        x.append(top / each.roofs.dram if each.roofs.dram else None)
        y.append(top)
    x, y = ([value for value in values if value is not None and _has_place(value)] for values in (x, y))
    if x and y:
        shown.x, shown.y = _range(x), _range(y)


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = math.log10(min(values)) - _ROOM, math.log10(max(values)) + _ROOM
    lacking = max(_FEWEST - (high - low), 0.0) / 2
    return low - lacking, high + lacking


def _roofs(each: Roofline, points: Sequence[Point], shown: Shown) -> list[Roof]:
    """Return the roofs of a panel: those of memory up to the highest of the others, and those that kernels have."""
    used = {point.precision for point in points} | {"FP32"}
    flops = {name: value for name, value in each.roofs.flops.items() if name in used and _has_place(value)}
    top = max(flops.values(), default=10 ** shown.y[1])
    roofs = each.roofs
    rising = [("copy", "DRAM, as a copy reached it", roofs.copy), ("dram", "DRAM, peak", roofs.bytes.get("DRAM")),
              ("l2", "L2, peak", roofs.bytes.get("L2"))]
    made: list[Roof] = []
    for kind, label, rate in rising:
        if rate is not None and _has_place(rate):
            left = max(10 ** shown.x[0], 10 ** shown.y[0] / rate)
            if left < top / rate and _has_place(left, left * rate, top / rate):
                made.append(Roof(kind, f"{label}: {scaled(rate, 'B/s')}", (left, left * rate), (top / rate, top)))
    steepest = max((rate for *_, rate in rising if rate is not None and _has_place(rate)), default=None)
    for name, value in flops.items():
        left = min(max(value / steepest, 10 ** shown.x[0]) if steepest else 10 ** shown.x[0], 10 ** shown.x[1])
        made.append(Roof("compute", f"{name} {scaled(value, 'FLOP/s')}", (left, value), (10 ** shown.x[1], value)))
    return made


def _dot(point: Point, each: Roofline, color: str) -> Dot:
    intensity, rate, l2 = point.intensity() or 0.0, point.flops_per_second or 0.0, point.intensity("L2")
    l2 = l2 if _has_place(l2) else None
    name = name_of(point, each.points)
    roof = None
    if point.share and point.roof is not None and _has_place(rate / point.share):
        roof = ((l2 if point.roof == "L2" and l2 else intensity), rate / point.share)
    lines = [name, *([shorten(clean(point.arguments), _ARGUMENTS)] if point.arguments else []),
             f"{duration(point.duration_ns)}, {scaled(rate, 'FLOP/s')} in {point.precision}",
             f"{number(intensity)} FLOP/byte of DRAM" + (f", {number(l2)} of L2" if l2 else ""),
             f"DRAM {scaled(point.bytes_per_second(), 'B/s')}", verdict_of(point)]
    others = [f"{scaled(count / (point.duration_ns or 1) * 1e9, 'FLOP/s')} in {precision}"
              for precision, count in point.flops.items() if count and precision != point.precision]
    lines += [f"besides {listed(others)}"] if others else []
    return Dot(name, "" if point.share is None else percent(point.share), color, intensity, rate, l2, roof, lines)


def _notes(each: Roofline, drawn: Sequence[Point]) -> Iterable[str]:
    """Say what has no place on the axes, then what is not known of kernels and of the device."""
    for point in each.points:
        if point not in drawn and point.flops_per_second == 0:
            where = "" if point.share is None else f" ({verdict_of(point)})"
            yield (f"{name_of(point, each.points)} has no floating-point operation: "
                   f"{scaled(point.bytes_per_second(), 'B/s')} of DRAM{where}")
    said: dict[str, list[str]] = {}
    for point in each.points:
        for text in point.missing:
            said.setdefault(text, []).append(name_of(point, each.points))
    for text, names in said.items():
        yield f"{listed(list(dict.fromkeys(names)))}: {text}"
    yield from each.notes


def _place_labels(shown: Shown, panel: Panel) -> None:
    """Choose the sides of labels so that they cover no other label, dot or edge, as far as that is possible."""
    dots = [_box(shown, dot, None) for dot in panel.dots]
    lines = [box for dot in panel.dots for box in _marks(shown, dot)]
    for roof in panel.roofs:
        (x, y), (right, top) = shown.place(roof.start), shown.place(roof.end)
        steps = max(round(right - x) // 4, 1)
        middles = [(x + (right - x) * at / steps, y + (top - y) * at / steps) for at in range(steps + 1)]
        lines += [(left - 2, middle - 2, left + 2, middle + 2) for left, middle in middles]
    boxes = [{side: _box(shown, dot, side) for side in SIDES} for dot in panel.dots]
    # A line below a label can be seen; another label cannot.
    alone = [{side: _covered(box, lines) + 100 * _covered(box, dots) for side, box in each.items()} for each in boxes]
    chosen: dict[int, tuple[float, float, float, float]] = {}
    for _ in range(_ROUNDS):
        for at, dot in enumerate(panel.dots):
            others = [box for other, box in chosen.items() if other != at]
            costs = {side: alone[at][side] + 100 * _covered(boxes[at][side], others) for side in SIDES}
            dot.side = min(costs, key=lambda side: costs[side])
            chosen[at] = boxes[at][dot.side]


def _marks(shown: Shown, dot: Dot) -> Iterable[tuple[float, float, float, float]]:
    """Return the edges of a dot's ring and of the lines from both."""
    x, y = shown.place((dot.intensity, dot.flops_per_second))
    if dot.l2_intensity:
        ring = shown.place((dot.l2_intensity, dot.flops_per_second))[0]
        yield ring - 4, y - 4, ring + 4, y + 4
        yield min(x, ring), y - 1, max(x, ring), y + 1
    if dot.roof is not None:
        above, top = shown.place(dot.roof)
        yield above - 1, min(top, y), above + 1, y


def _box(shown: Shown, dot: Dot, side: str | None) -> tuple[float, float, float, float]:
    """Return the edges of a dot, or of its label on a side."""
    x, y = shown.place((dot.intensity, dot.flops_per_second))
    if side is None:
        return x - 6, y - 6, x + 6, y + 6
    wide = drawn_width(dot.label, LABEL)
    row, _, column = side.partition(" ")
    left = {"right": x + 9, "left": x - 9 - wide}.get(column, x - wide / 2)
    top = {"above": y - 9 - LABEL, "below": y + 8}.get(row, y - LABEL / 2)
    return left, top, left + wide, top + LABEL


def _covered(box: tuple[float, float, float, float], others: Sequence[tuple[float, float, float, float]]) -> float:
    """Return how much a label would cover, and how much of it would be cut off, in square pixels."""
    left, top, right, bottom = box
    area = sum(max(min(right, each[2]) - max(left, each[0]), 0) * max(min(bottom, each[3]) - max(top, each[1]), 0)
               for each in others)
    outside = max(-left, 0) + max(right - WIDTH, 0) + max(-top, 0) + max(bottom - HEIGHT, 0)
    return area + outside * 100


def number(value: float | None) -> str:
    """Return an intensity with three digits."""
    return "–" if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"  # noqa: RUF001 - a dash


def decades(ends: tuple[float, float]) -> list[int]:
    """Return the powers of ten that an axis names, and that it has room for."""
    whole = range(math.ceil(ends[0]), math.floor(ends[1]) + 1)
    step = max(len(whole) // 8, 1)
    return [each for each in whole if each % step == 0]


def about(shown: Shown) -> str:
    """Return what is shown in one line."""
    kernels = sum(len(each.points) for each in shown.rooflines)
    return f"Roofline of {counted(kernels, 'kernel specialization')}"


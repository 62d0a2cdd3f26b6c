"""Intervals in the rows of a table, around a line at zero: a forest plot that needs no script and knows no theme.

A row's picture is an SVG as wide and high as its cell: places are percent of the width, so that it fits cards of any
width and its letters keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelscope.renderers.base import escape
from kernelscope.studies.judged import FASTER, SLOWER, TOO_NOISY, Difference
from kernelscope.studies.numbers import share

#: The baseline's color, and those of the other targets in their order; the colors of the study's figures.
TARGET_COLORS = ("#8a8f98", "#2b7bba", "#e69f00", "#009e73", "#c66fa0", "#5bbcea", "#d55e00", "#9a6fb8")

#: Where a color does not say it: what a row's sheet needs.
STYLE = """
.kscope table.ks-table :is(td, th).ks-forest { position: relative; min-width: 126px; }
.kscope .ks-forest svg { position: absolute; inset: 0 0 0 12px; width: calc(100% - 12px); height: 100%;
  overflow: hidden; }
.kscope .ks-forest svg svg { position: static; overflow: visible; }
.kscope th.ks-forest svg { top: auto; height: 18px; overflow: visible; }
.kscope .ks-forest line.ks-grid { stroke: var(--ks-line); stroke-width: 1; }
.kscope .ks-forest line.ks-zero { stroke: var(--ks-soft); stroke-width: 1; }
.kscope .ks-forest text { fill: var(--ks-soft); font-size: 11px; }
"""

# What every second number of a crowded axis has.
_OF_TWO = ' class="ks-odd"'

# The axis has at least this, so that noise of a tenth of a percent does not fill it.
_LEAST_PERCENT = 1.0
_MARGIN = 0.05
_MUCH_WIDER = 2.0
_MOST_TICKS = 5
_MOST_NARROW = 4
_EDGE = 9.0


@dataclass(frozen=True)
class Axis:
    """Percent on a line: its ends, and where numbers stand on it."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Return where a value is, in percent of the axis' width; what is beyond an end is at the end."""
        if math.isnan(value):
            return self.place(0.0)
        return 100 * (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)


def axis(differences: Iterable[Difference]) -> Axis:
    """Return an axis with room for all differences and their intervals, and for zero.

    Where others tell more, much wider intervals of what is too noisy are cut off at the ends.
    """
    held = list(differences)
    telling = [each for each in held if each.verdict != TOO_NOISY] or held
    values = [0.0, *(each.percent for each in held)]
    values += [value for each in telling for value in (each.low_percent, each.high_percent)]
    finite = [value for value in values if math.isfinite(value) and abs(value) < 1e9]
    most = _MUCH_WIDER * max(_LEAST_PERCENT, *map(abs, finite))
    finite += [value for each in held for value in (each.low_percent, each.high_percent) if abs(value) <= most]
    low, high = min(finite), max(finite)
    if high - low < 2 * _LEAST_PERCENT:
        low, high = min(low, -_LEAST_PERCENT), max(high, _LEAST_PERCENT)
    room = (high - low) * _MARGIN
    low, high = low - room, high + room
    return Axis(low, high, _ticks(low, high))


def head(scale: Axis) -> str:
    """Return the axis' numbers as a picture for the table's head."""
    zero = scale.ticks.index(0)
    # A narrow table has no room for many numbers.
    crowded = len(scale.ticks) > _MOST_NARROW
    # Where a notebook is not trusted, its pictures are taken away and their texts are left.
    texts = " ".join(f'<text{_OF_TWO * (crowded and (place - zero) % 2)} x="{scale.place(tick):.2f}%" y="12" '
                    f'text-anchor="{_anchor(scale.place(tick))}">{_tick(tick)}</text>'
                    for place, tick in enumerate(scale.ticks))
    return f'<svg aria-hidden="true">{texts}</svg>'


def row(scale: Axis, each: Difference, color: str) -> str:
    """Return a difference with its interval as a picture: hollow where no difference is established."""
    low, high = scale.place(each.low_percent), scale.place(each.high_percent)
    middle = scale.place(each.percent)
    dashes = ' stroke-dasharray="3 3"' if each.verdict == TOO_NOISY else ""
    fill = color if each.verdict in (SLOWER, FASTER) else "var(--ks-ground)"
    label = (f"{share(each.percent, signed=True)} %, interval {share(each.low_percent, signed=True)} to "
             f"{share(each.high_percent, signed=True)} %, {each.verdict}")
    return (
        f'<svg role="img" aria-label="{escape(label)}">{_grid(scale)}'
        f'<line x1="{low:.2f}%" x2="{high:.2f}%" y1="50%" y2="50%" stroke="{color}" stroke-width="2"{dashes}/>'
        f"{_end(low, each.low_percent < scale.low, color, -1)}{_end(high, each.high_percent > scale.high, color, 1)}"
        f'<circle cx="{middle:.2f}%" cy="50%" r="4" fill="{fill}" stroke="{color}" stroke-width="2"/></svg>'
    )


def baseline_row(scale: Axis) -> str:
    """Return the baseline's picture: it is at zero."""
    zero = scale.place(0.0)
    mark = f'<path d="M0 -5 L5 0 L0 5 L-5 0 Z" fill="{TARGET_COLORS[0]}"/>'
    return f'<svg aria-hidden="true">{_grid(scale)}<svg x="{zero:.2f}%" y="50%">{mark}</svg></svg>'


def empty_row(scale: Axis) -> str:
    """Return the picture of a row without a difference."""
    return f'<svg aria-hidden="true">{_grid(scale)}</svg>'


def color_of(place: int) -> str:
    """Return the color of a target by its place in the study."""
    return TARGET_COLORS[0] if not place else TARGET_COLORS[1 + (place - 1) % (len(TARGET_COLORS) - 1)]


def _grid(scale: Axis) -> str:
    return "".join(f'<line class="ks-{"grid" if tick else "zero"}" x1="{scale.place(tick):.2f}%" '
                   f'x2="{scale.place(tick):.2f}%" y1="0" y2="100%"/>' for tick in scale.ticks)


def _end(place: float, is_cut: bool, color: str, side: int) -> str:
    """An interval's end: a bar, or an arrow where it goes on beyond the axis."""
    shape = f"M{-7 * side} -4 L0 0 L{-7 * side} 4" if is_cut else "M0 -4 L0 4"
    return f'<svg x="{place:.2f}%" y="50%"><path d="{shape}" fill="none" stroke="{color}" stroke-width="2"/></svg>'


def _ticks(low: float, high: float) -> tuple[float, ...]:
    """Round numbers from `low` to `high`, zero among them."""
    step = _round_up((high - low) / _MOST_TICKS)
    return tuple(step * place for place in range(math.ceil(low / step), math.floor(high / step) + 1))


def _round_up(value: float) -> float:
    size = 10.0 ** math.floor(math.log10(value))
    return next(size * part for part in (1, 2, 5, 10) if size * part >= value * 0.999)


def _anchor(place: float) -> str:
    """Where a number's letters go: at the ends not over the next column's heading."""
    return "start" if place < _EDGE else "end" if place > 100 - _EDGE else "middle"


def _tick(value: float) -> str:
    return f"{value:+,.10g} %" if value else "0"


def bar_width(value: float, values: Sequence[float]) -> float:
    """Return how wide a bar from zero is, in percent of the widest one's."""
    most = max((each for each in values if math.isfinite(each)), default=0.0)
    return 100 * min(max(value / most, 0.0), 1.0) if most > 0 and math.isfinite(value) else 0.0

"""What a study's figures share: a color and a symbol a target, facets, rows, and values of processes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kernelscope.renderers.base import clean, shorten
from kernelscope.renderers.figures import figure_of, label
from kernelscope.studies.forest import color_of
from kernelscope.studies.judged import Difference, Estimate
from kernelscope.studies.measured import BATCH, Measured
from kernelscope.studies.samples import counting

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Beside colors, for those who cannot tell them apart, and for more targets than colors. Each has an open twin.
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down", "hexagon", "star", "x")
#: What is drawn of grid and frames.
LINE = "rgba(127,127,127,.28)"

_NAME_WIDTH = 26
# What a page's width leaves for a figure, in pixels; only the height of the legend is reckoned from it.
_WIDTH = 760
_LETTER = 7.2
_LETTERS = 104
_LEGEND_LINE = 21
_DRY_RUN = "dry run: the driver call is a stub"


class Study(Protocol):
    """What a figure needs of a study's result."""

    @property
    def measured(self) -> Measured:
        """What was measured."""
        ...

    @property
    def estimates(self) -> Sequence[Estimate]:
        """What a launch of each case costs in each target."""
        ...

    @property
    def differences(self) -> Sequence[Difference]:
        """What differs."""
        ...


@dataclass(frozen=True)
class Look:
    """How a target is drawn.

    Attributes
    ----------
    name : str
        Its label, as Plotly shows it literally.
    color, symbol : str
        As Plotly has them.
    shift : float
        Where it is drawn beside the other targets, in the space of one row or argument count: from -0.5 to 0.5.
    """

    name: str
    color: str
    symbol: str
    shift: float

    def marker(self, *, filled: bool = True, size: float = 8) -> dict[str, Any]:
        """Return Plotly's marker; a hollow one where it is not `filled`."""
        symbol = self.symbol if filled else f"{self.symbol}-open"
        return {"color": self.color, "symbol": symbol, "size": size, "line": {"width": 0 if filled else 1.6}}


def looks_of(result: Study, spread: float = 0.62) -> dict[str, Look]:
    """Return how each target that was measured is drawn, by its label and in the study's order."""
    known = [each.label for each in result.measured.targets]
    kept = {each.target for each in result.estimates}
    shown = [each for each in known if each in kept] + sorted(kept - {*known})
    # A target keeps its color where another one failed.
    places = {name: at for at, name in enumerate([*known, *sorted(kept - {*known})])}
    step = spread / max(len(shown), 1)
    return {
        name: Look(short(name), color_of(places[name]),
                   SYMBOLS[places[name] % len(SYMBOLS)], (at - (len(shown) - 1) / 2) * step)
        for at, name in enumerate(shown)
    }


def cases_of(result: Study, wanted: Sequence[str] | None = None) -> list[str]:
    """Return the cases that were measured, in the order of the tables; of those that are `wanted`."""
    kept = {each.case for each in result.estimates}
    known = [each.name for each in result.measured.cases if each.name in kept]
    known += sorted(kept - {*known})
    return known if wanted is None else [each for each in known if each in wanted]


def study_figure(
    title: str, about: Iterable[str], height: int, looks: Mapping[str, Look], result: Study, *,
    has_legend: bool = True,
) -> go.Figure:
    """Return an empty figure with what is shown said below its title, and with room for the legend.

    `height` is that of the axes, in pixels.
    """
    lines = _joined([*about, *([_DRY_RUN] if result.measured.is_dry_run else [])])
    has_legend = has_legend and len(looks) > 1
    top, bottom = 56 + 15 * len(lines), 50 + (legend_height(looks) if has_legend else 0)
    figure = figure_of(title, height + top + bottom)
    small = "".join(f'<br><span style="font-size:11px">{label(line)}</span>' for line in lines)
    figure.update_layout(title_text=f"<b>{label(title)}</b>{small}", margin={"t": top, "b": bottom},
                         showlegend=has_legend)
    # Plotly aligns the middle of several lines where it would align one.
    figure.update_layout(title_pad_t=20)
    return figure


def _joined(said: Iterable[str]) -> list[str]:
    """As few lines as fit on a narrow page."""
    lines: list[str] = []
    for each in said:
        if lines and len(lines[-1]) + len(each) < _LETTERS:
            lines[-1] += f"; {each}"
        else:
            lines.append(each)
    return lines


def legend_height(looks: Mapping[str, Look]) -> int:
    """Return how many pixels the legend takes at the width of a narrow page."""
    if len(looks) < 2:
        return 0
    widest = max(len(each.name) for each in looks.values()) * _LETTER + 44
    a_line = max(int(_WIDTH // widest), 1)
    return math.ceil(len(looks) / a_line) * _LEGEND_LINE


def short(name: str, width: int = _NAME_WIDTH) -> str:
    """Return a name cut to a label's width, as Plotly shows it literally."""
    return label(shorten(clean(name), width))


def axes(figure: go.Figure, number: int, x: Mapping[str, Any], y: Mapping[str, Any]) -> None:
    """Lay out the axes of one part of a figure, numbered from 1."""
    at = "" if number == 1 else str(number)
    shared = {"gridcolor": LINE, "zerolinecolor": LINE, "linecolor": LINE, "automargin": True}
    figure.update_layout({f"xaxis{at}": {**shared, "anchor": f"y{at}", **x},
                          f"yaxis{at}": {**shared, "anchor": f"x{at}", **y}})


def named(number: int) -> dict[str, str]:
    """Return which axes a trace of part `number` is drawn on."""
    return {"xaxis": f"x{number}" if number > 1 else "x", "yaxis": f"y{number}" if number > 1 else "y"}


def heading(figure: go.Figure, text: str, x: float, y: float) -> None:
    """Write a part's name above its upper left corner, at a place of the paper."""
    figure.add_annotation(text=f"<b>{text}</b>", x=x, y=y, xref="paper", yref="paper", xanchor="left",
                          yanchor="bottom", showarrow=False, font={"size": 11.5}, yshift=2)


@dataclass
class Samples:
    """What was measured of one case in one target: a value a process, and where in the study it lies.

    Attributes
    ----------
    process : list of int
        Its number.
    us : list of float
        The median over its batches, in microseconds a launch.
    at_ns : list of float
        The middle of its batches, since the study's start.
    batches : list of list of (float, float)
        The batches of each process: since the study's start in nanoseconds, and microseconds a launch.
    """

    process: list[int] = field(default_factory=list[int])
    us: list[float] = field(default_factory=list[float])
    at_ns: list[float] = field(default_factory=list[float])
    batches: list[list[tuple[float, float]]] = field(default_factory=list[list[tuple[float, float]]])


def samples_of(measured: Measured) -> dict[tuple[str, str], Samples]:
    """Return the values of processes, and the batches that count in the order of time, by target and case."""
    places = [list(BATCH).index(name) for name in ("target", "case", "process", "start_ns", "loops", "host_ns")]
    found: dict[tuple[str, str], dict[int, list[tuple[float, float]]]] = {}
    for row in counting(measured):
        target, case, process, start, loops, host = (row[at] for at in places)
        if loops:
            by_process = found.setdefault((str(target), str(case)), {})
            by_process.setdefault(int(process), []).append((float(start), float(host) / float(loops) / 1_000))
    made: dict[tuple[str, str], Samples] = {}
    for key, by_process in found.items():
        made[key] = samples = Samples()
        for process, batches in sorted(by_process.items()):
            samples.process.append(process)
            samples.us.append(statistics.median(us for _, us in batches))
            samples.at_ns.append(statistics.fmean(at for at, _ in batches))
            samples.batches.append(sorted(batches))
    return made


def micros(value: float) -> str:
    """Return microseconds with the digits that count: ``4.10 µs``, ``123 µs``."""
    return f"{value:.{2 if abs(value) < 99.5 else 1 if abs(value) < 999.5 else 0}f} µs"

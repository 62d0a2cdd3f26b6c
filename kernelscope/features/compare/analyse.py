"""Two recordings beside each other: what is new, gone or changed, and what became faster or slower.

What happens once (a compile, a graph's build, an error) is counted. What repeats has an interval and a verdict: the
host time of a kernel's launches, by phase, its time on the GPU, and both of a graph's launches. How it is judged:

- Launches of one kernel and signature (on the GPU also of one launch configuration) are taken in the order of time,
  without those that compiled or loaded, and without the first one in each cell. They are cut into blocks that follow
  one another, and a block counts as its median: what disturbs a while is in one block. This is a block bootstrap:
  blocks are resampled as wholes, by `kernelscope.intervals`, which also corrects for the number of differences.
- Blocks that are like their neighbours, as those of a drift are, tell less than their number says. An interval is
  wider by what an autoregressive series of that correlation needs.
- A processor can be 1.7 times slower for seconds, and launches with it. How long a fixed piece of Python took beside
  each cell (``cells.reference_ns``) says so: a host time may grow as much and somewhat more (`REFERENCE_ERROR`), since
  the piece is timed beside the cell and not in it, or not at all, and what that explains is no difference. Of 84 runs
  of a cell on a machine with an H100, launches grew with its power 0.65, correlation 0.96.
- Two runs of the same code differ by more than that: places in memory, what else ran. That is a margin on both sides of
  an interval: 15 % between cells of one process (10 % on the GPU), 20 % between processes. Where the processor's speed
  is not known, it may have been twice or half as slow. ``benchmarks/compare.py`` measures how many of such comparisons
  see a difference where there is none.
- Phases are cut out by readings of the clock between which the recorder works too: those of a microsecond or less
  differ by large shares from run to run. The margin of a phase is at least `RESOLUTION_NS`.
- It is too noisy where half of the interval, without the margin, is wider than the margin.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kernelscope.analysis.activities import GRAPH
from kernelscope.analysis.columns import (
    Bools,
    Floats,
    Ints,
    captured,
    codes,
    count_by,
    ids,
    instants,
    ints,
    matches,
    raised,
    ran,
    row_count,
    sum_by,
)
from kernelscope.analysis.compiles import CompilationSummary, compilations, compile_ns, knows_compiles
from kernelscope.analysis.graphs import by_topology
from kernelscope.analysis.launches import APART, PHASES, LaunchPhases, cell_label, dims, launch_phases
from kernelscope.analysis.lines import by_line
from kernelscope.analysis.processes import by_process
from kernelscope.analysis.ranges import by_range
from kernelscope.analysis.wall_time import PARTS, total, wall_times
from kernelscope.intervals import (
    FASTER,
    FLOOR_US,
    NO_DIFFERENCE,
    SLOWER,
    TOO_NOISY,
    Column,
    Part,
    intervals,
    ruled_out,
    trimmed,
    verdict_of,
)
from kernelscope.recording.model import Recording
from kernelscope.recording.time import duration_ns
from kernelscope.schema import UNKNOWN
from kernelscope.units import counted, percent

#: How far two runs of the same code may be apart, as a share of the first: host times of cells of one process, all
#: times of two processes, and times on the GPU of one.
SAME_PROCESS, OTHER_PROCESS, ON_GPU = 0.15, 0.2, 0.1
#: How many times slower the processor may have been where that is not known.
UNKNOWN_SPEED = 0.5, 2.0
#: With which powers of the processor's slowness host times grow, at least and at most; and what is the best estimate.
POWERS, LIKELY_POWER = (0.0, 1.0), 0.65
#: How much larger the largest power may be where the slowness is what `cells.reference_ns` says: a measurement.
REFERENCE_ERROR = 0.3
#: By how many nanoseconds the time of a phase may differ in two runs of the same code, however short it is.
RESOLUTION_NS = 500.0
#: Launches are cut into so many blocks; where there are fewer launches than that, into the second number of them.
BLOCKS, FEW_BLOCKS = 16, 8
#: So many kernels and graphs are judged at most: those that took longest. More would widen all intervals.
MOST_JUDGED = 40
#: What is judged, in the order of tables: a launch's host time without compiles, its phases, and its time on the GPU.
MEASURES = ("host", *[phase for phase in PHASES if phase not in APART], "execute")
#: What became of a row.
NEW, GONE, CHANGED, SAME = "new", "gone", "changed", "same"

# An autoregressive series of a larger correlation needs more blocks than there are.
_MOST_CORRELATED = 0.8
_SAME_START_NS = 1_000_000_000
# A processor's speed that differs by more is said.
_FAST = 1.15
_STATUSES = (NEW, GONE, CHANGED, SAME)
_VERDICTS = (SLOWER, FASTER, TOO_NOISY, NO_DIFFERENCE)


@dataclass(frozen=True)
class Difference:
    """How the times of one kernel, or of one graph's launches, differ.

    Attributes
    ----------
    name, signature, configuration : str
        The kernel or graph, its argument types, and its launch configuration where it is the time on the GPU.
    measure : str
        One of `MEASURES`.
    before_ns, after_ns : float
        How long a launch took, in nanoseconds: the trimmed mean of the blocks' medians.
    percent, low_percent, high_percent : float
        The difference, positive is slower, and its interval with the margin, each as a share of `before_ns`; of host
        times beside what the processor's speed explains.
    verdict, advice : str
        As in studies: see `kernelscope.intervals`; and what is ruled out, or would help.
    launches : tuple of int
        How many launches were judged of each recording.
    """

    name: str
    signature: str
    configuration: str
    measure: str
    before_ns: float
    after_ns: float
    percent: float
    low_percent: float
    high_percent: float
    verdict: str
    advice: str
    launches: tuple[int, int]

    @property
    def is_seen(self) -> bool:
        """Return whether it is faster or slower."""
        return self.verdict in (FASTER, SLOWER)


class Measure(NamedTuple):
    """One number of a row: its key, label and unit (``count``, ``ns`` or ``bytes``), and whether it can be exact.

    A row is changed where an exact number differs; times always do.
    """

    key: str
    label: str
    unit: str = "count"
    is_exact: bool = True


#: What a recording has of one thing: its numbers, in the order of the section's measures; None is not known.
Values = tuple[float | None, ...]


class Row(NamedTuple):
    """One thing in both recordings, or in one of them.

    Attributes
    ----------
    name, detail : str
        What it is, and what tells it from others of that name.
    status : str
        ``new``, ``gone``, ``changed`` or ``same``.
    before, after : tuple of float or None
        Its numbers; None where it is not there.
    """

    name: str
    detail: str
    status: str
    before: Values | None
    after: Values | None

    def delta(self, place: int) -> float:
        """Return by how much a number grew; what is not there or not known counts as 0."""
        before, after = (0 if each is None else each[place] or 0 for each in (self.before, self.after))
        return after - before


@dataclass(frozen=True)
class Section:
    """Things of one kind, matched by what they are.

    Attributes
    ----------
    key, title : str
        A name for programs, and one for readers.
    measures : tuple of Measure
        What each row's numbers are.
    rows : tuple of Row
        All rows: new ones first, then gone, changed and same ones, each in the order of the recordings.
    """

    key: str
    title: str
    measures: tuple[Measure, ...]
    rows: tuple[Row, ...]

    @property
    def changed(self) -> tuple[Row, ...]:
        """Return the rows that are not the same."""
        return tuple(row for row in self.rows if row.status != SAME)

    def place(self, key: str) -> int:
        """Return where a measure stands in the values of the rows."""
        return [each.key for each in self.measures].index(key)

    def counts(self) -> dict[str, int]:
        """Return how many rows there are of each status."""
        return dict(Counter(row.status for row in self.rows))


class Changes:
    """What differs between two recordings: each part is computed when it is asked for.

    Parameters
    ----------
    before, after : Recording
        The two, neither of which is changed.

    Attributes
    ----------
    before, after : Recording
        The same.
    """

    def __init__(self, before: Recording, after: Recording) -> None:
        self.before, self.after = before, after
        self._sections: dict[str, Section] = {}

    @property
    def times_compare(self) -> bool:
        """Return whether both were recorded on a GPU, or both in a dry run, or both in the simulator."""
        return self.before.notice == self.after.notice

    @cached_property
    def totals(self) -> Section:
        """Sums over each recording: one row."""
        before, after = (_Item("all", "", _totals(each, phases)) for each, phases in self._sides)
        return _matched("totals", "Totals", _TOTALS, {0: before}, {0: after})

    @cached_property
    def time(self) -> Section:
        """Where the wall time of the cells went: a row a part of `kernelscope.analysis.wall_time.PARTS`."""
        found: list[dict[Hashable, _Item]] = []
        for recording, _ in self._sides:
            wall = total(wall_times(recording))
            found.append({} if wall is None else {
                part: _Item(part, "", (wall.parts[part],)) for part in PARTS if wall.parts[part]})
        return _matched("time", "Wall time", (Measure("ns", "time", "ns", False),), *found)

    @property
    def sections(self) -> tuple[Section, ...]:
        """Everything that is matched by what it is, of which either recording has any."""
        return tuple(section for key in _SECTIONS if (section := self.section(key)) is not None)

    def section(self, key: str) -> Section | None:
        """Return the section of that key; None where neither recording has anything of it."""
        if key not in self._sections:
            title, measures, read = _SECTIONS[key]
            found = [read(recording, phases) for recording, phases in self._sides]
            if key == "kernels" and self.before.is_imported is not self.after.is_imported:
                # Another tool's trace does not say whose a kernel is: the name has to do.
                found = [_summed((item.name, item) for item in each.values()) for each in found]
            self._sections[key] = _matched(key, title, measures, *found)
        return self._sections[key] if self._sections[key].rows else None

    @cached_property
    def _judged(self) -> tuple[tuple[Difference, ...], int, int]:
        if not self.times_compare:
            return (), 0, 0
        return _differences(self.before, self.after, [phases for _, phases in self._sides])

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What was judged, in order of verdict (slower, faster, too noisy, no difference seen), the largest first."""
        return self._judged[0]

    @property
    def seen(self) -> tuple[Difference, ...]:
        """Those of `differences` that are faster or slower."""
        return tuple(each for each in self.differences if each.is_seen)

    def over(self, limit_percent: float) -> tuple[Difference, ...]:
        """Return what is slower by more than a limit in percent, the largest first."""
        return tuple(each for each in self.differences if each.verdict == SLOWER and each.percent > limit_percent)

    @cached_property
    def changes(self) -> tuple[str, ...]:
        """What else differs between the two, so that a difference may not be the code's: machine, GPU, versions."""
        return tuple(_environment(self.before, self.after))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What else to know."""
        if not self.times_compare:
            kinds = [each.notice or "recorded on a GPU" for each in (self.before, self.after)]
            return (f"times are not judged, as they do not compare: {kinds[0]}; {kinds[1]}",)
        _, few, more = self._judged
        found: list[str] = []
        slowness = slowness_of(self.before, self.after)
        if slowness is None:
            found.append("how fast the processor was is not known of both: host times that differ by less than a "
                         "factor of two are not told apart")
        elif max(slowness[1], 1 / slowness[0]) > _FAST:
            most = slowness[1] if slowness[1] * slowness[0] > 1 else 1 / slowness[0]
            word = "slower" if slowness[1] * slowness[0] > 1 else "faster"
            found.append(f"the processor was up to {most:.2g} times {word} in the second: what that explains is no "
                         "difference of host times")
        if few:
            found.append(f"{counted(few, 'kernel or graph', 'kernels and graphs')} with fewer than {FEW_BLOCKS} "
                         "repeated launches in one of the two: not judged")
        if more:
            found.append(f"{counted(more, 'more kernel or graph', 'more kernels and graphs')} that took less time: not "
                         f"judged; the {MOST_JUDGED} that took longest are")
        return tuple(found)

    @cached_property
    def _sides(self) -> tuple[tuple[Recording, LaunchPhases], tuple[Recording, LaunchPhases]]:
        return (self.before, launch_phases(self.before)), (self.after, launch_phases(self.after))


def is_same_process(before: Recording, after: Recording) -> bool:
    """Return whether both were recorded in one process, as far as they say."""
    begun: dict[int, list[int]] = {}
    for row in before.rows("processes"):
        if row["pid"] is not None and row["start_ns"] is not None:
            begun.setdefault(row["pid"], []).append(row["start_ns"])
    later = [(row["pid"], row["start_ns"]) for row in after.rows("processes")]
    return bool(later) and all(
        start is not None and any(abs(start - other) < _SAME_START_NS for other in begun.get(pid, ()))
        for pid, start in later)


# What repeats.

@dataclass(frozen=True)
class _Series:
    """The durations of one thing in the order of time, by measure, and how long all of it took."""

    values: dict[str, Floats]
    total_ns: float


#: Name, signature, configuration.
_Key = tuple[str, str, str]


class _Asked(NamedTuple):
    """A difference that is asked for, how much wider its interval is than of independent blocks, and both middles."""

    key: _Key
    measure: str
    column: Column
    wider: float
    middles: tuple[float, float]
    launches: tuple[int, int]


def _differences(before: Recording, after: Recording,
                 phases: Sequence[LaunchPhases]) -> tuple[tuple[Difference, ...], int, int]:
    """Return what was judged, how many have too few launches for it, and how many were left out."""
    sides = [_series(recording, own) for recording, own in zip((before, after), phases, strict=True)]
    shared = [key for key in sides[1] if key in sides[0]]
    told = [key for key in shared if any(
        min(len(side[key].values.get(measure, ())) for side in sides) >= FEW_BLOCKS for measure in MEASURES)]
    chosen: list[_Key] = []
    for is_gpu in (False, True):
        own = [key for key in told if bool(key[2]) == is_gpu]
        chosen += sorted(own, key=lambda key: -sides[0][key].total_ns - sides[1][key].total_ns)[:MOST_JUDGED]
    slowness = slowness_of(before, after)
    is_same = is_same_process(before, after)
    of_host, of_gpu = (SAME_PROCESS, ON_GPU) if is_same else (OTHER_PROCESS, OTHER_PROCESS)
    asked: list[_Asked] = []
    for key in chosen:
        for measure in MEASURES:
            pair = [side[key].values.get(measure) for side in sides]
            if pair[0] is None or pair[1] is None or min(len(pair[0]), len(pair[1])) < FEW_BLOCKS:
                continue
            blocks = [_blocks(each) for each in pair if each is not None]
            middles = [float(trimmed(each)[0]) for each in blocks]
            parts = [Part(each, np.arange(len(each))) for each in blocks]
            column = Column(parts[1], parts[0], max(math.hypot(*middles), 1.0))
            asked.append(_Asked(key, measure, column, max(map(_inflation, blocks)), (middles[0], middles[1]),
                                (len(pair[0]), len(pair[1]))))
    few = len({key[:2] for key in shared} - {key[:2] for key in told})
    if not asked:
        return (), few, len(told) - len(chosen)
    _, halves = intervals([each.column for each in asked])
    speed = _Speed(*UNKNOWN_SPEED, POWERS[1]) if slowness is None else _Speed(*slowness, POWERS[1] + REFERENCE_ERROR)
    found = [_difference(each, half * each.wider, of_gpu, _SAME_SPEED) if each.measure == MEASURES[-1] else
             _difference(each, half * each.wider, of_host, speed)
             for each, half in zip(asked, halves.tolist(), strict=True)]
    found.sort(key=lambda each: (_VERDICTS.index(each.verdict), -abs(each.percent)))
    return tuple(found), few, len(told) - len(chosen)


def slowness_of(before: Recording, after: Recording) -> tuple[float, float] | None:
    """Return how many times slower the processor was in the second recording, at least and at most; None if unknown."""
    sides = [[row["reference_ns"] for row in each.rows("cells")] for each in (before, after)]
    if not all(sides) or any(not each for side in sides for each in side):
        return None
    return min(sides[1]) / max(sides[0]), max(sides[1]) / min(sides[0])


class _Speed(NamedTuple):
    """How many times slower the processor was, at least and at most, and the largest power that times grow with."""

    least: float
    most: float
    power: float


_SAME_SPEED = _Speed(1.0, 1.0, 1.0)


def _difference(asked: _Asked, half: float, share: float, speed: _Speed) -> Difference:
    """Return a difference with its verdict.

    Parameters
    ----------
    asked : _Asked
        What is asked for.
    half : float
        Half of its interval's width, in nanoseconds.
    share : float
        The margin between two runs.
    speed : _Speed
        That of the processor: ones where it does not matter.
    """
    before, after = asked.middles
    margin = max(share * before, RESOLUTION_NS if asked.measure in PHASES else FLOOR_US * 1e3)
    grown = [times ** power for times in (speed.least, speed.most) for power in (POWERS[0], speed.power)]
    least, most = min(grown), max(grown)
    low, high, of_percent = after - before * most - half - margin, after - before * least + half + margin, 100 / max(
        before, 1.0)
    likely = math.sqrt(speed.least * speed.most) ** LIKELY_POWER
    verdict, advice = verdict_of(low, high, half, margin), ""
    if verdict == TOO_NOISY:
        advice = (f"the interval is {percent(half * of_percent / 100)} to each side, without the margin: more launches "
                  "would help, or a quieter machine")
    elif verdict == NO_DIFFERENCE:
        advice = ruled_out(low * of_percent, high * of_percent)
    return Difference(*asked.key, asked.measure, before, after, (after / likely - before) * of_percent,
                      low * of_percent, high * of_percent, verdict, advice, asked.launches)


def _blocks(values: Floats) -> Floats:
    """Return the medians of blocks of values that follow one another."""
    count = BLOCKS if len(values) >= BLOCKS else FEW_BLOCKS
    return np.array([np.median(each) for each in np.array_split(values, count)])


def _inflation(blocks: Floats) -> float:
    """Return how much wider an interval is of blocks that are like their neighbours."""
    deviations = blocks - blocks.mean()
    squares = float((deviations ** 2).sum())
    if not squares:
        return 1.0
    # Of independent blocks the estimate is low by the inverse of their number.
    found = float((deviations[1:] * deviations[:-1]).sum()) / squares + 1 / len(blocks)
    held = min(max(found, 0.0), _MOST_CORRELATED)
    return math.sqrt((1 + held) / (1 - held))


def _series(recording: Recording, phases: LaunchPhases) -> dict[_Key, _Series]:
    """Return what repeats: of kernels by signature on the host, by launch configuration too on the GPU; of graphs."""
    found = _graph_series(recording)
    kernels, kernel, shapes, shape = _launched(recording)
    # The launches that ran, raised nothing, and found their specialization in memory.
    is_usual = (phases.own_ns >= 0) & ~raised(recording) & (ids(recording, "launches", "compile_ns") <= 0)
    code, words = codes(recording, "launches", "cache")
    is_loaded = np.array([*(word in ("compiled", "disk", "wait") for word in words), False])
    usual = is_usual & ~is_loaded[code]
    values = {"host": phases.launching_ns, **{name: phases.own_phases[name] for name in MEASURES[1:-1]}}
    for at, rows in _grouped(kernel, usual, recording):
        held = {name: own for name, each in values.items() if (own := _known(each[rows])).any()}
        if not held:
            continue
        # Of a launch with one known phase, that is all of it.
        found[*kernels[at], ""] = _Series(held if len(held) > 2 else {"host": held["host"]}, float(held["host"].sum()))
    execute = ints(recording, "launches", "execute_ns")
    if bool((execute >= 0).any()):
        for at, rows in _grouped(kernel * len(shapes) + shape, usual & (execute >= 0), recording):
            took = execute[rows].astype(np.float64)
            found[*kernels[at // len(shapes)], shapes[at % len(shapes)]] = _Series({"execute": took}, float(took.sum()))
    return found


def _launched(recording: Recording) -> tuple[list[tuple[str, str]], Ints, list[str], Ints]:
    """Return kernels with signatures and launch configurations, and for each launch which of them it is."""
    names = [str(row["name"]) for row in recording.rows("dispatchers")]
    kernels: dict[tuple[str, str], int] = {}
    of_specialization = np.array([
        kernels.setdefault((names[row["dispatcher_id"]], row["signature"]), len(kernels))
        for row in recording.rows("specializations")] + [UNKNOWN], np.int64)
    of_dispatcher = np.array([kernels.setdefault((name, ""), len(kernels)) for name in names] + [UNKNOWN], np.int64)
    specialization, dispatcher = (ids(recording, "launches", name) for name in ("specialization_id", "dispatcher_id"))
    shapes: dict[str, int] = {}
    of_configuration = np.array([shapes.setdefault(_shape(row), len(shapes))
                                 for row in recording.rows("configurations")] + [UNKNOWN], np.int64)
    kernel = np.where(specialization >= 0, of_specialization[specialization], of_dispatcher[dispatcher])
    return list(kernels), kernel, list(shapes), of_configuration[ids(recording, "launches", "configuration_id")]


def _shape(row: Mapping[str, Any]) -> str:
    """Return a launch configuration without its stream: what a kernel's time on the GPU follows from."""
    parts: list[str] = []
    for what, label in (("griddim", "grid"), ("blockdim", "block"), ("cluster", "cluster")):
        found = dims(row, what)
        if found is not None:
            last = max((at for at, each in enumerate(found) if each != 1), default=0)
            parts.append(f"{label} {' × '.join(map(str, found[:last + 1]))}")  # noqa: RUF001 - the sign is meant
    if row["sharedmem_bytes"]:
        parts.append(f"{row['sharedmem_bytes']:,} B shared")
    return ", ".join(parts) or "unknown"


def _grouped(group: Ints, where: Bools, recording: Recording) -> Iterable[tuple[int, Ints]]:
    """Yield each group with its launches that count, in order, without the first one in each cell."""
    rows = np.flatnonzero(where & (group >= 0))
    if not len(rows):
        return
    own = group[rows]
    # A stable sort of small numbers takes a tenth of the time of one of large ones.
    small = own.astype(np.int16) if int(own.max()) < np.iinfo(np.int16).max else own
    order = np.argsort(small, kind="stable")
    rows, own = rows[order], own[order]
    cell = ids(recording, "launches", "cell_id")[rows]
    is_first = np.ones(len(rows), dtype=np.bool_)
    is_first[1:] = (own[1:] != own[:-1]) | (cell[1:] != cell[:-1])
    rows, own = rows[~is_first], own[~is_first]
    edges = np.flatnonzero(np.diff(own, prepend=UNKNOWN, append=UNKNOWN))
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield int(own[begin]), rows[begin:end]


def _known(values: Ints) -> Floats:
    return values[values >= 0].astype(np.float64)


def _graph_series(recording: Recording) -> dict[_Key, _Series]:
    """Return the launches of graphs, by topology."""
    rows = np.flatnonzero(matches(recording, "graph_events", "kind", "launch"))
    graph = ints(recording, "graph_events", "graph_id")[rows]
    if not (graph >= 0).any():
        return {}
    host = duration_ns(*instants(recording, "graph_events", "start_ns", "end_ns"))[rows]
    execute = ints(recording, "graph_events", "execute_ns")[rows]
    found: dict[_Key, _Series] = {}
    for summary in by_topology(recording):
        if summary.graph_ids:
            own = np.flatnonzero(np.isin(graph, summary.graph_ids))[1:]
            for measure, values, configuration in (("host", host, ""), ("execute", execute, "whole graph")):
                held = _known(values[own])
                if len(held):
                    found[f"graph of {_graph_name(summary.kernels)}", "", configuration] = _Series(
                        {measure: held}, float(held.sum()))
    return found


def _graph_name(kernels: Sequence[str]) -> str:
    return ", ".join(kernels) or "no kernels"


# What is matched by what it is, and counted.

class _Item(NamedTuple):
    """What one recording has of one thing."""

    name: str
    detail: str
    values: Values


_Items = dict[Hashable, _Item]


def _matched(key: str, title: str, measures: tuple[Measure, ...], before: Mapping[Hashable, _Item],
             after: Mapping[Hashable, _Item]) -> Section:
    rows: list[Row] = []
    for each, now in after.items():
        was = before.get(each)
        is_changed = was is not None and any(
            measure.is_exact and old is not None and new is not None and old != new
            for measure, old, new in zip(measures, was.values, now.values, strict=True))
        status = NEW if was is None else CHANGED if is_changed else SAME
        rows.append(Row(now.name, now.detail, status, None if was is None else was.values, now.values))
    rows += [Row(was.name, was.detail, GONE, was.values, None) for each, was in before.items() if each not in after]
    rows.sort(key=lambda row: _STATUSES.index(row.status))
    return Section(key, title, measures, tuple(rows))


_TOTALS = (
    Measure("wall_ns", "wall time", "ns", False), Measure("launches", "launches"),
    Measure("host_ns", "launching", "ns", False), Measure("gpu_ns", "kernels on the GPU", "ns", False),
    Measure("compiles", "compiles"), Measure("disk", "loads from disk"),
    Measure("compile_ns", "compiling and loading", "ns", False), Measure("captured", "captured launches"),
    Measure("graph_launches", "graph launches"), Measure("copied_bytes", "copied", "bytes"),
    Measure("errors", "errors"))


def _totals(recording: Recording, phases: LaunchPhases) -> Values:
    walls = duration_ns(*instants(recording, "cells", "start_ns", "end_ns"))
    walls = walls[walls >= 0]
    own = phases.total()
    spent = _kernel_times(recording)
    outcome, words = codes(recording, "compilations", "outcome")
    made = Counter(words[at] for at in outcome.tolist() if at >= 0)
    compiled = (made["compiled"], made["disk"], compile_ns(recording)) if knows_compiles(recording) else (None,) * 3
    copied = matches(recording, "activities", "kind", "memcpy")
    sizes = ints(recording, "activities", "size_bytes")[copied]
    return (
        int(walls.sum()) if len(walls) else None, int(ran(recording).sum()), own.launching_ns,
        None if spent is None else int(spent.sum()), *compiled,
        int(captured(recording).sum()), int(matches(recording, "graph_events", "kind", "launch").sum()),
        int(sizes[sizes > 0].sum()) if row_count(recording, "activities") else None,
        int(raised(recording).sum()) + made["failed"])


def _kernel_times(recording: Recording) -> Ints | None:
    """Return the durations of all kernels on the GPU that are known; None where none is."""
    if row_count(recording, "activities"):
        lasted = duration_ns(*instants(recording, "activities", "start_ns", "end_ns"))
        known = matches(recording, "activities", "kind", "kernel") & (lasted >= 0)
        return lasted[known] if known.any() else None
    execute = ints(recording, "launches", "execute_ns")
    return execute[execute >= 0] if bool((execute >= 0).any()) else None


def _summed(items: Iterable[tuple[Hashable, _Item]]) -> _Items:
    """Return items by key; of several with one key the numbers are added up."""
    found: _Items = {}
    for key, item in items:
        held = found.get(key)
        found[key] = item if held is None else _Item(held.name, held.detail, tuple(
            new if old is None else old if new is None else old + new
            for old, new in zip(held.values, item.values, strict=True)))
    return found


def _kernels(recording: Recording, phases: LaunchPhases) -> _Items:
    size = row_count(recording, "dispatchers")
    dispatcher = ids(recording, "launches", "dispatcher_id")
    launches = count_by(dispatcher, size, ran(recording)).tolist()
    into = count_by(dispatcher, size, captured(recording)).tolist()
    host = phases.totals_by(dispatcher, size).launching_ns.tolist()
    gpu = _gpu_by_kernel(recording, size)
    rows = recording.rows("dispatchers")
    found = _summed(((row["framework"], row["name"]), _Item(str(row["name"]), row["framework"], (
        launches[at], into[at], _time(host[at]), _time(gpu[at])))) for at, row in enumerate(rows))
    return {key: item for key, item in found.items() if item.values[0] or item.values[1] or item.values[3]}


def _gpu_by_kernel(recording: Recording, size: int) -> list[int]:
    """Return the time on the GPU by dispatcher, nodes of graphs included; -1 where none is known."""
    dispatcher, execute = ids(recording, "launches", "dispatcher_id"), ints(recording, "launches", "execute_ns")
    count, spent = count_by(dispatcher, size, execute >= 0), sum_by(dispatcher, execute, size)
    if row_count(recording, "activities"):
        lasted = duration_ns(*instants(recording, "activities", "start_ns", "end_ns"))
        alone = matches(recording, "activities", "kind", "kernel") & (ints(recording, "activities", "launch_id") < 0)
        alone &= lasted >= 0
        owner = np.append(ints(recording, "specializations", "dispatcher_id"), UNKNOWN)
        whose = np.where(alone, owner[ints(recording, "activities", "specialization_id")], UNKNOWN)
        count = count + count_by(whose, size, alone)
        spent = spent + sum_by(whose, np.where(alone, lasted, 0), size)
    return np.where(count > 0, spent, UNKNOWN).tolist()


_RESOURCES = (
    Measure("regs", "registers"), Measure("spill_store_bytes", "spill stores", "bytes"),
    Measure("spill_load_bytes", "spill loads", "bytes"), Measure("local_bytes", "local memory", "bytes"),
    Measure("static_shared_bytes", "shared memory", "bytes"), Measure("cubin_bytes", "machine code", "bytes"))


def _specializations(recording: Recording, phases: LaunchPhases) -> _Items:
    rows = recording.rows("specializations")
    kernels = recording.rows("dispatchers")
    # A kernel that was defined again has the newest one's numbers.
    return {(kernels[row["dispatcher_id"]]["framework"], kernels[row["dispatcher_id"]]["name"], row["signature"]):
            _Item(str(kernels[row["dispatcher_id"]]["name"]), row["signature"],
                  tuple(row[measure.key] for measure in _RESOURCES)) for row in rows}


def _configurations(recording: Recording, phases: LaunchPhases) -> _Items:
    kernels, kernel, shapes, shape = _launched(recording)
    names = list(dict.fromkeys(name for name, _ in kernels))
    place = {name: at for at, name in enumerate(names)}
    named = np.array([place[name] for name, _ in kernels] + [UNKNOWN], np.int64)[kernel]
    made = (ran(recording) | captured(recording)) & (named >= 0) & (shape >= 0)
    keys, counts = np.unique((named * len(shapes) + shape)[made], return_counts=True)
    found: _Items = {}
    for key, number in zip(keys.tolist(), counts.tolist(), strict=True):
        name, used = names[key // len(shapes)], shapes[key % len(shapes)]
        found[name, used] = _Item(name, used, (number,))
    return found


def _compiles(recording: Recording, phases: LaunchPhases) -> _Items:
    def values(each: CompilationSummary) -> Values:
        return (*(int(each.outcome == word) for word in ("compiled", "disk", "failed")), each.duration_ns)

    # Of several compiles of one specialization the first one's reason is said.
    made = sorted(compilations(recording), key=lambda each: each.compilation_id)
    return _summed(((each.framework, each.name, each.signature), _Item(
        each.name, f"{each.signature}: {each.reason}" if each.reason else each.signature, values(each)))
        for each in made if not each.is_trial and each.outcome != "wait")


def _builds(recording: Recording, phases: LaunchPhases) -> _Items:
    return _summed(((row["framework"], row["algorithm"]), _Item(str(row["algorithm"]), str(row["framework"]), (
        1, int(row["outcome"] in ("hit", "disk")), int(row["outcome"] == "miss")))) for row in recording.rows("builds"))


def _graphs(recording: Recording, phases: LaunchPhases) -> _Items:
    topology = [row["topology"] for row in recording.rows("graphs")]
    return _summed((topology[each.graph_ids[0]] if each.graph_ids else None, _Item(
        _graph_name(each.kernels) if each.graph_ids else "graphs that were not seen being built",
        "" if each.nodes is None else counted(each.nodes, "node"),
        (each.captures, each.builds, each.rebuilt, each.updates, each.refused, each.launches, each.host_ns)))
        for each in by_topology(recording)) if any(
            row_count(recording, name) for name in ("graphs", "graph_events", "activities")) else {}


def _lines(recording: Recording, phases: LaunchPhases) -> _Items:
    # A cell that runs again is another In[n]; it is the cell of that place here.
    cell_of = {row["line_id"]: row["cell_id"] for row in recording.rows("lines")}
    found: list[tuple[Hashable, _Item]] = []
    for each in by_line(recording, phases):
        if each.line_id is None:
            continue
        cell = cell_of[each.line_id]
        where = each.file if cell is None else f"cell {cell}"
        found.append(((where, each.line), _Item(
            f"{each.file}:{each.line}", each.text or each.function or "",
            (each.launches, each.compiles, each.copied_bytes, each.host_ns, each.compile_ns, each.gpu_ns,
             each.wait_ns))))
    return _summed(found)


def _ranges(recording: Recording, phases: LaunchPhases) -> _Items:
    if not row_count(recording, "ranges"):
        return {}
    return {each.paths.keys[each.number]: _Item(each.name, "", (
        each.ranges, each.inclusive_launches, each.inclusive_ns, each.inclusive_gpu_ns))
        for each in by_range(recording, phases)}


def _processes(recording: Recording, phases: LaunchPhases) -> _Items:
    if row_count(recording, "processes") < 2:
        return {}
    found = by_process(recording, phases)
    # A pid is another one in each run.
    return {(at if each.row["rank"] is None and each.row["worker"] is None else each.label): _Item(
        each.label, "", (each.launches, each.compiles, each.host_ns, each.gpu_ns, each.wait_ns))
        for at, each in enumerate(found)}


def _copies(recording: Recording, phases: LaunchPhases) -> _Items:
    kind, kinds = codes(recording, "activities", "kind")
    name, names = codes(recording, "activities", "name")
    sizes = ints(recording, "activities", "size_bytes")
    took = duration_ns(*instants(recording, "activities", "start_ns", "end_ns"))
    found: _Items = {}
    for at, word in enumerate(kinds):
        if word == "kernel":
            continue
        own = kind == at
        # The name of a wait or a copy is null now and then: the last group.
        which = np.where(name[own] >= 0, name[own], len(names))
        counts = count_by(which, len(names) + 1).tolist()
        moved, spent = (sum_by(which, values[own], len(names) + 1).tolist() for values in (sizes, took))
        for place, number in enumerate(counts):
            if number:
                detail = names[place] if place < len(names) else ""
                label = detail if word == GRAPH else f"{word} {detail}".rstrip()
                found[label] = _Item(label, "", (number, moved[place] if word != "sync" else None, spent[place]))
    return found


def _errors(recording: Recording, phases: LaunchPhases) -> _Items:
    kernels = [str(row["name"]) for row in recording.rows("dispatchers")]
    code, words = codes(recording, "launches", "error")
    rows = np.flatnonzero(code >= 0)
    pairs = Counter(zip(ids(recording, "launches", "dispatcher_id")[rows].tolist(), code[rows].tolist(), strict=True))
    found: list[tuple[Hashable, _Item]] = [
        ((kernels[at], words[word]), _Item(kernels[at], words[word], (number,)))
        for (at, word), number in pairs.items()]
    found += [(("cell", row["cell_id"]), _Item(cell_label(row), row["error"] or row["status"], (1,)))
              for row in recording.rows("cells") if row["status"] != "ok"]
    return _summed(found)


def _time(value: int) -> int | None:
    return None if value < 0 else value


_HOST, _GPU = Measure("host_ns", "launching", "ns", False), Measure("gpu_ns", "on the GPU", "ns", False)
_LAUNCHES, _COMPILES = Measure("launches", "launches"), Measure("compiles", "compiles")
_WAITS = Measure("wait_ns", "waiting", "ns", False)
_SECTIONS: dict[str, tuple[str, tuple[Measure, ...], Callable[[Recording, LaunchPhases], _Items]]] = {
    "errors": ("Errors", (Measure("count", "times"),), _errors),
    "kernels": ("Kernels", (_LAUNCHES, Measure("captured", "captured"), _HOST, _GPU), _kernels),
    "compiles": ("Compiles", (_COMPILES, Measure("disk", "loads from disk"), Measure("failed", "failed"),
                              Measure("compile_ns", "time", "ns", False)), _compiles),
    "specializations": ("Specializations", _RESOURCES, _specializations),
    "configurations": ("Launch configurations", (_LAUNCHES,), _configurations),
    "graphs": ("Graphs", (Measure("captures", "captures"), Measure("builds", "builds"), Measure("rebuilds", "rebuilds"),
                          Measure("updates", "updates"), Measure("refused", "refused updates"), _LAUNCHES,
                          Measure("host_ns", "host time", "ns", False)), _graphs),
    "builds": ("Build caches and autotuners", (Measure("requests", "requests"), Measure("hits", "hits"),
                                               Measure("misses", "misses")), _builds),
    "copies": ("Copies and waits", (Measure("count", "times"), Measure("bytes", "bytes", "bytes"),
                                    Measure("ns", "time", "ns", False)), _copies),
    "lines": ("Lines of code", (_LAUNCHES, _COMPILES, Measure("copied_bytes", "copied", "bytes"), _HOST,
                                Measure("compile_ns", "compiling", "ns", False), _GPU, _WAITS), _lines),
    "ranges": ("NVTX ranges", (Measure("ranges", "ranges"), _LAUNCHES, Measure("ns", "time", "ns", False), _GPU),
               _ranges),
    "processes": ("Processes", (_LAUNCHES, _COMPILES, _HOST, _GPU, _WAITS), _processes),
}


# What else differs.

_FACTS = {"detail": "detail", "python": "Python", "platform": "platform", "cpus": "processors",
          "driver_version": "driver"}


def _environment(before: Recording, after: Recording) -> list[str]:
    old, new = before.metadata, after.metadata
    pairs = [(label, old.get(key), new.get(key)) for key, label in _FACTS.items()]
    devices = [", ".join(sorted({str(row["name"]) for row in each.rows("devices") if row["name"]})) or None
               for each in (before, after)]
    pairs.append(("GPU", devices[0], devices[1]))
    packages = [held if isinstance(held := each.get("packages"), dict) else {} for each in (old, new)]
    pairs += [(str(name), packages[0].get(name), packages[1].get(name))
              for name in dict.fromkeys([*packages[0], *packages[1]])]
    return [f"{label}: {_shown(was)} before, {_shown(now)} now" for label, was, now in pairs if was != now]


def _shown(value: object) -> str:
    return "unknown" if value is None else str(value)


# Conditions: what ``--fail-on`` names.

def _grown(section: str, measure: str, *, only: str | None = None) -> Callable[[Changes], list[str]]:
    """Return a condition: rows of a section of which there is more; with `only`, those of one status."""
    def found(changes: Changes) -> list[str]:
        held = changes.section(section)
        if held is None:
            return []
        place = held.place(measure)
        return [f"{row.name}{f' {row.detail}' if row.detail else ''}, {_growth(row, place)}" for row in held.rows
                if row.delta(place) > 0 and only in (None, row.status)]

    return found


def _growth(row: Row, place: int) -> str:
    before, after = (0 if each is None else each[place] or 0 for each in (row.before, row.after))
    return f"{before:,} to {after:,}"


def _total_grown(measure: str) -> Callable[[Changes], list[str]]:
    def found(changes: Changes) -> list[str]:
        place = changes.totals.place(measure)
        return [_growth(row, place) for row in changes.totals.rows if row.delta(place) > 0]

    return found


#: By name what can be asked for, in words, and what finds it: a line for each case.
CONDITIONS: dict[str, tuple[str, Callable[[Changes], list[str]]]] = {
    "new-compiles": ("a compile that the first did not make, or made less often", _grown("compiles", "compiles")),
    "more-launches": ("more launches in all", _total_grown("launches")),
    "new-kernels": ("a kernel that the first did not launch", _grown("kernels", "launches", only=NEW)),
    "more-registers": ("a specialization with more registers", _grown("specializations", "regs", only=CHANGED)),
    "more-spills": ("a specialization with more bytes of spill stores",
                    _grown("specializations", "spill_store_bytes", only=CHANGED)),
    "more-rebuilds": ("a graph that was built again more often", _grown("graphs", "rebuilds")),
    "more-copies": ("more bytes copied", _total_grown("copied_bytes")),
    "new-errors": ("an error that the first did not have, or had less often", _grown("errors", "count")),
}

"""Host phases of each launch, and their totals by group.

A launch's host time runs from ``start_ns`` to ``end_ns`` and has five phases, in order: dispatch (without the
compile inside it), compile, prepare, submit, finish. Where all boundaries are known they add up to it exactly.

A launch can be made inside another one (``parent_launch_id``): from a pre-launch callback, or while a kernel
compiles. Its time is inside its parent's. So that totals count each nanosecond once, what is summed is a
launch's *own* time: its host time less that of the launches directly inside it, taken out of the phase of the
parent in which they began. The own times of a launch and of all launches inside it add up to its host time.

A launch that was captured into a graph did not run: it has phases, but no own time, and so is in no total.

A few launches of many can take most of their time: they waited for something, or did something once. What took more
than `LONG` times the median, compiles apart, is *long*, and so that a sum says something about the others it is
summed by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kernelscope.analysis.columns import Bools, Ints, count_by, ints, percentiles_by, ran, row_count, sum_by
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

#: The phases of a launch's host time, in order.
PHASES = ("dispatch", "compile", "prepare", "submit", "finish")

#: What takes more than so many times the median is long.
LONG = 5


@dataclass(frozen=True)
class PhaseTotals:
    """Own host time of some launches, in nanoseconds; a phase is None where no launch recorded it.

    Attributes
    ----------
    host_ns : int or None
        All of it; None where no launch's end was recorded.
    dispatch_ns, compile_ns, prepare_ns, submit_ns, finish_ns : int or None
        The phases.
    unsplit_ns : int
        What is in `host_ns` and in no phase: launches whose boundaries were not recorded, or that failed.
    """

    host_ns: int | None = None
    dispatch_ns: int | None = None
    compile_ns: int | None = None
    prepare_ns: int | None = None
    submit_ns: int | None = None
    finish_ns: int | None = None
    unsplit_ns: int = 0

    def phase(self, name: str) -> int | None:
        """Return the time of the phase called `name` (one of `PHASES`), or None."""
        value: int | None = getattr(self, f"{name}_ns")
        return value

    @property
    def launching_ns(self) -> int | None:
        """The host time without compiles."""
        return None if self.host_ns is None else self.host_ns - (self.compile_ns or 0)

    def less(self, part: PhaseTotals) -> PhaseTotals:
        """Return the totals of the other launches, given those of some of them."""
        rest: dict[str, Any] = {
            each.name: None if (whole := getattr(self, each.name)) is None else whole - (getattr(part, each.name) or 0)
            for each in fields(self)
        }
        return PhaseTotals(**rest)

    @property
    def segments(self) -> tuple[tuple[str, int], ...]:
        """What a bar shows: phases that took time, then ``unsplit``; they add up to `host_ns`."""
        known = [(name, self.phase(name) or 0) for name in PHASES]
        return tuple((name, value) for name, value in [*known, ("unsplit", self.unsplit_ns)] if value > 0)

    @property
    def is_split(self) -> bool:
        """Whether any phase is known."""
        return any(self.phase(name) is not None for name in PHASES)


@dataclass(frozen=True)
class LaunchPhases:
    """Phases of every launch: arrays of int64, one value a launch, in nanoseconds, -1 where unknown.

    Attributes
    ----------
    host_ns : ndarray
        End less start, launches inside included.
    own_ns : ndarray
        The same without the launches directly inside; -1 for a launch that was captured into a graph.
    phases : mapping of str to ndarray
        Time in each of `PHASES`, launches inside included: they add up to `host_ns` where all are known.
    own_phases : mapping of str to ndarray
        Time in each of `PHASES` without launches inside: they add up to `own_ns` where all are known.
    """

    host_ns: Ints
    own_ns: Ints
    phases: Mapping[str, Ints]
    own_phases: Mapping[str, Ints]

    @property
    def launching_ns(self) -> Ints:
        """Own time of each launch without compiles; -1 where it is unknown."""
        return _less(self.own_ns, np.maximum(self.own_phases["compile"], 0))

    def take(self, rows: Ints) -> LaunchPhases:
        """Return those of the launches at the given places."""
        return LaunchPhases(
            self.host_ns[rows], self.own_ns[rows], {name: values[rows] for name, values in self.phases.items()},
            {name: values[rows] for name, values in self.own_phases.items()},
        )

    def totals_by(self, groups: Ints, size: int) -> list[PhaseTotals]:
        """Sum own times by group (int64, one a launch; below 0 is left out), for `size` groups."""
        hosts = sum_by(groups, self.own_ns, size)
        ended = count_by(groups, size, self.own_ns >= 0)
        summable = {name: self._summable(name) for name in PHASES}
        sums = {name: sum_by(groups, summable[name], size) for name in PHASES}
        seen = {name: count_by(groups, size, summable[name] >= 0) for name in PHASES}
        totals: list[PhaseTotals] = []
        for group in range(size):
            host = int(hosts[group]) if ended[group] else None
            split = {
                f"{name}_ns": int(sums[name][group]) if seen[name][group] else None for name in PHASES
            }
            rest = (host or 0) - sum(value or 0 for value in split.values())
            totals.append(PhaseTotals(host_ns=host, **split, unsplit_ns=max(rest, 0)))
        return totals

    def total(self) -> PhaseTotals:
        """Sum own times over all launches."""
        return self.totals_by(np.zeros(len(self.host_ns), dtype=np.int64), 1)[0]

    def _summable(self, name: str) -> Ints:
        # A phase of a launch whose end is unknown is in no total: the phases would exceed the host time.
        ended = self.own_ns >= 0
        return self.own_phases[name] if ended.all() else np.where(ended, self.own_phases[name], UNKNOWN)


def launch_phases(recording: Recording) -> LaunchPhases:
    """Return the phases of every launch of the recording."""
    start = ints(recording, "launches", "start_ns")
    dispatched = ints(recording, "launches", "dispatch_end_ns")
    submitting = ints(recording, "launches", "submit_start_ns")
    submitted = ints(recording, "launches", "submit_end_ns")
    end = ints(recording, "launches", "end_ns")
    compiling = ints(recording, "launches", "compile_ns")

    dispatch = _between(start, dispatched)
    phases = {
        "dispatch": np.where((dispatch >= 0) & (compiling >= 0), dispatch - compiling, UNKNOWN),
        "compile": compiling,
        "prepare": _between(dispatched, submitting),
        "submit": _between(submitting, submitted),
        "finish": _between(submitted, end),
    }
    host = _between(start, end)
    own, own_phases = host, phases
    parent = ints(recording, "launches", "parent_launch_id")
    if bool(((parent >= 0) & (host >= 0)).any()):
        inside = _inside(recording, parent, host, start, (dispatched, submitting, submitted))
        own_phases = {name: _less(phases[name], inside[name]) for name in PHASES}
        own = _less(host, sum_by(parent, host, len(host)))
    run = ran(recording)
    if not run.all():
        own = np.where(run, own, UNKNOWN)
        own_phases = {name: np.where(run, values, UNKNOWN) for name, values in own_phases.items()}
    return LaunchPhases(host_ns=host, own_ns=own, phases=phases, own_phases=own_phases)


def long_ones(groups: Ints, values: Ints, size: int) -> Ints:
    """Return the places of the durations that are more than `LONG` times the median of their group.

    Rows below 0 in `groups` (int64, `size` of them) or in `values` are left out.
    """
    limits = np.append(LONG * percentiles_by(groups, values, size, (0.5,))[:, 0], np.inf)
    return np.flatnonzero((values >= 0) & (values > limits[groups]))


def phase_totals(recording: Recording) -> PhaseTotals:
    """Return own host time and its phases, over all launches of the recording."""
    return launch_phases(recording).total()


def _between(start: Ints, end: Ints) -> Ints:
    return np.where((start >= 0) & (end >= 0), end - start, UNKNOWN)


def _less(values: Ints, taken: Ints) -> Ints:
    return np.where(values >= 0, np.maximum(values - taken, 0), UNKNOWN)


def _inside(
    recording: Recording, parent: Ints, host: Ints, start: Ints, boundaries: tuple[Ints, Ints, Ints]
) -> dict[str, Ints]:
    """Time of the launches directly inside each launch, by the parent's phase in which they began."""
    children = np.flatnonzero((parent >= 0) & (host >= 0))
    parents = parent[children]
    begun = start[children]
    dispatched, submitting, submitted = (bound[parents] for bound in boundaries)

    def past(bound: Ints) -> Bools:
        return (bound >= 0) & (begun >= bound)

    where = np.select(
        [past(submitted), past(submitting), past(dispatched), _in_compile(recording, children, parents)],
        [PHASES.index(name) for name in ("finish", "submit", "prepare", "compile")],
        PHASES.index("dispatch"),
    )
    taken: dict[str, Ints] = {}
    for place, name in enumerate(PHASES):
        chosen = where == place
        taken[name] = sum_by(parents[chosen], host[children[chosen]], len(host))
    return taken


def _in_compile(recording: Recording, children: Ints, parents: Ints) -> Bools:
    """Whether each child began inside a compile that its parent asked for."""
    result = np.zeros(len(children), dtype=np.bool_)
    if not row_count(recording, "compilations"):
        return result
    begun = ints(recording, "launches", "start_ns")[children]
    asked_by = ints(recording, "compilations", "launch_id")
    starts = ints(recording, "compilations", "start_ns")
    ends = ints(recording, "compilations", "end_ns")
    for row in np.flatnonzero(np.isin(asked_by, parents)).tolist():
        result |= (parents == asked_by[row]) & (begun >= starts[row]) & (begun < ends[row])
    return result

"""What following an advice removes at best: upper bounds, in nanoseconds.

Everything that would go is in a bound: not only a compile, but also the load of its module in the launch that comes
after; not only a graph's instantiation, but also its capture. What takes the removed part's place counts as nothing, so
that no case saves more. Time of several threads is summed where it is cheap to sum: `kernelscope.analysis.advice` cuts
bounds at the wall time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kernelscope.analysis.activities import COPY
from kernelscope.analysis.columns import (
    Bools,
    Ints,
    codes,
    ids,
    instants,
    ints,
    matches,
    one_group,
    ran,
    union_ns,
)
from kernelscope.analysis.graphs import Executable
from kernelscope.recording.model import Recording
from kernelscope.recording.time import UNKNOWN_INSTANT, duration_ns, is_known, otherwise
from kernelscope.schema import UNKNOWN

#: What a bound is of: wall time of the recorded cells, time on the GPU, or wall time of the next session.
WALL, GPU, NEXT_SESSION = "wall time", "GPU time", "next session"


class Finding(NamedTuple):
    """What a rule finds.

    Attributes
    ----------
    kernel : str
        What it is about: a kernel, a graph or an algorithm; empty for several.
    text : str
        What is so, with numbers, and what to do.
    saves_ns : float
        What following it removes at best, in nanoseconds; 0 where that is not known.
    saves_of : str
        What that is of: `WALL`, `GPU` or `NEXT_SESSION`.
    is_certain : bool
        False for a hint that may not help, and for what names no change.
    """

    kernel: str
    text: str
    saves_ns: float = 0.0
    saves_of: str = WALL
    is_certain: bool = True


class Bounds:
    """Upper bounds of what goes with the removed parts of a recording.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def compiles_ns(self, compilations: Iterable[int]) -> list[int]:
        """Return what goes with each compile, a row of ``compilations``, in nanoseconds.

        That is the compile, the launch that asked for it, and the first launch of the specialization, which loads the
        module: both until the driver has accepted them.
        """
        launches = self._first_launches
        costs: list[int] = []
        compiled = self._compilations
        for number in compilations:
            spans = [(int(compiled["start_ns"][number]), int(compiled["end_ns"][number]))]
            caller, result = int(compiled["launch_id"][number]), int(compiled["specialization_id"][number])
            rows = {row for row in (caller, launches.get(result, UNKNOWN) if result >= 0 else UNKNOWN)
                    if 0 <= row < len(self._submitted)}
            spans += [(int(self._started[row]), int(self._submitted[row])) for row in rows]
            costs.append(union([span for span in spans if UNKNOWN_INSTANT < span[0] <= span[1]]))
        return costs

    def launches_ns(self, dispatcher: int) -> int:
        """Return the time in which a kernel was launched and nothing else between, without its compiles.

        From the first of its launches that follow one another on a thread to the end of the last one: fewer launches
        need less of the Python between them too.
        """
        order, run = self._bursts
        rows = np.flatnonzero(ids(self._recording, "launches", "dispatcher_id")[order] == dispatcher)
        if not len(rows):
            return 0
        which, launches = run[rows], order[rows]
        first = np.flatnonzero(np.diff(which, prepend=UNKNOWN))
        compiling = ints(self._recording, "launches", "compile_ns")[launches]
        dispatched = instants(self._recording, "launches", "dispatch_end_ns")[0][launches]
        cut = np.flatnonzero((compiling > 0) & is_known(dispatched))
        # Each compile, at the end of its launch's dispatch, ends a stretch and begins another.
        start = np.concatenate((self._started[launches][first], dispatched[cut]))
        end = np.concatenate((np.maximum.reduceat(self._ended[launches], first), (dispatched - compiling)[cut]))
        owner = np.concatenate((which[first], which[cut]))
        start, end = start[np.lexsort((start, owner))], end[np.lexsort((end, owner))]
        return union_ns(start, np.maximum(start, end), one_group(len(start)))

    def executables_ns(self, executables: Sequence[Executable], *, with_launches: bool = False) -> int:
        """Return what goes with executable graphs, in nanoseconds: capture, instantiate, upload and close.

        To that come all of their launches, or else what the first launch of each took longer than the shortest one; and
        what is between two of these calls that follow one another.
        """
        events = self._recording
        is_launch, is_close = (matches(events, "graph_events", "kind", word) for word in ("launch", "close"))
        is_own = is_launch | is_close
        for word in ("instantiate", "upload"):
            is_own |= matches(events, "graph_events", "kind", word)
        executable, source = (ints(events, "graph_events", name) for name in ("exec_id", "source_event_id"))
        chosen = np.array([each.exec_id for each in executables], dtype=np.int64)
        # What was replaced need not be closed then.
        before = np.array([each.rebuild_of for each in executables if each.rebuild_of is not None], dtype=np.int64)
        gone = is_own & np.isin(executable, chosen) | is_close & np.isin(executable, before)
        launches = np.flatnonzero(gone & is_launch)
        excess = 0
        if not with_launches and len(launches):
            took = np.maximum(duration_ns(*instants(events, "graph_events", "start_ns", "end_ns")), 0)
            _, first = np.unique(executable[launches], return_index=True)
            excess = int((took[launches[first]] - took[is_launch].min()).sum())
            gone[launches] = False
        captures = source[chosen]
        gone[captures[(captures >= 0) & (captures < len(gone))]] = True
        return excess + self.calls_ns(gone)

    def calls_ns(self, gone: Bools) -> int:
        """Return the time of some events of graphs, with what is between two that follow one another on a thread."""
        thread = ints(self._recording, "graph_events", "thread_id")
        start, end = instants(self._recording, "graph_events", "start_ns", "end_ns")
        order = np.lexsort((start, thread))
        order = order[is_known(start)[order] & (end[order] >= start[order])]
        is_gone, whose = gone[order], thread[order]
        begins = np.concatenate(([True], ~is_gone[:-1] | (np.diff(whose) != 0))) if len(order) else is_gone
        run = np.cumsum(begins)[is_gone]
        if not len(run):
            return 0
        first = np.flatnonzero(np.diff(run, prepend=0))
        until = np.maximum.reduceat(end[order][is_gone], first)
        return union_ns(start[order][is_gone][first], until, one_group(len(first)))

    def copies_ns(self, directions: Iterable[str]) -> int:
        """Return the time of copies of pageable memory in some directions: from the call to the end of the copy."""
        memory, memories = codes(self._recording, "activities", "memory")
        is_pageable = np.array([*("pageable" in word for word in memories), False])
        chosen = matches(self._recording, "activities", "kind", COPY) & is_pageable[memory]
        chosen &= np.logical_or.reduce([matches(self._recording, "activities", "name", each) for each in directions])
        start, end, called, returned = (times[chosen] for times in instants(
            self._recording, "activities", "start_ns", "end_ns", "submit_start_ns", "submit_end_ns"))
        begin, last = otherwise(called, start), np.maximum(end, returned)
        known = is_known(begin) & (last >= begin)
        return union_ns(begin[known], last[known], one_group(int(known.sum())))

    @cached_property
    def _compilations(self) -> dict[str, Ints]:
        names = ("start_ns", "end_ns")
        return {**dict(zip(names, instants(self._recording, "compilations", *names), strict=True)),
                **{name: ints(self._recording, "compilations", name) for name in ("launch_id", "specialization_id")}}

    @cached_property
    def _started(self) -> Ints:
        return instants(self._recording, "launches", "start_ns")[0]

    @cached_property
    def _ended(self) -> Ints:
        return otherwise(instants(self._recording, "launches", "end_ns")[0], self._started)

    @cached_property
    def _submitted(self) -> Ints:
        return otherwise(instants(self._recording, "launches", "submit_end_ns")[0], self._ended)

    @cached_property
    def _first_launches(self) -> dict[int, int]:
        """Return the first launch of each specialization, by its row."""
        specialization = ids(self._recording, "launches", "specialization_id")
        order = np.argsort(self._started, kind="stable")
        numbers, first = np.unique(specialization[order], return_index=True)
        return dict(zip(numbers.tolist(), order[first].tolist(), strict=True))

    @cached_property
    def _bursts(self) -> tuple[Ints, Ints]:
        """Return launches that ran by cell, thread and time, and the run of launches of one kernel that each is in."""
        rows = np.flatnonzero(ran(self._recording))
        cell, thread, kernel = (ids(self._recording, "launches", name)[rows]
                                for name in ("cell_id", "thread_id", "dispatcher_id"))
        order = np.lexsort((self._started[rows], thread, cell))
        changes = np.zeros(len(rows), dtype=np.bool_)
        for values in (cell, thread, kernel):
            changes[1:] |= np.diff(values[order]) != 0
        return rows[order], np.cumsum(changes, dtype=np.int64)


def union(spans: Sequence[tuple[int, int]]) -> int:
    """Return the time that intervals, each a start and an end, cover together."""
    if not spans:
        return 0
    start, end = np.array(spans, dtype=np.int64).T
    return union_ns(start, end, one_group(len(spans)))


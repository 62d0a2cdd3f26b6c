"""How long each compile took, and how long threads waited for those of others: every table counts and sums these.

A compile, or a load from a disk cache, is one row of ``compilations`` with its own time: from its start to its end,
less the rows inside of it on its thread, which have times of their own, and less what it waited for the compiler lock
while another thread had it. A thread that waits for the specialization that another one compiles has a row too, with
the outcome ``wait``: it is no compile, and all of its time is waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelscope.analysis.columns import Bools, Ints, ids, instants, ints, matches, row_count, sum_by
from kernelscope.recording.model import Recording
from kernelscope.recording.time import duration_ns
from kernelscope.schema import UNKNOWN

#: What waited less for the compiler lock took one that nobody had: that takes up to 0.2 ms, as recorded.
LOCK_WAIT_NS = 1_000_000


@dataclass(frozen=True)
class CompileTimes:
    """The time of each row of ``compilations``: arrays of int64, in nanoseconds, -1 where its end is unknown.

    Attributes
    ----------
    own_ns : ndarray
        What the compile or load itself took; 0 for a row that is none.
    wait_ns : ndarray
        How long its thread waited for another's compile.
    """

    own_ns: Ints
    wait_ns: Ints

    @property
    def total_ns(self) -> int:
        """Return the own time of all compiles and loads."""
        return int(np.maximum(self.own_ns, 0).sum())


def compile_times_of(recording: Recording) -> CompileTimes:
    """Return the own time and the waiting of each row of ``compilations``."""
    start, end = instants(recording, "compilations", "start_ns", "end_ns")
    thread, lock = (ints(recording, "compilations", name) for name in ("thread_id", "wait_ns"))
    took = duration_ns(start, end)
    is_timed = took != UNKNOWN
    waited = np.where(matches(recording, "compilations", "outcome", "wait"), took,
                      np.where(lock >= LOCK_WAIT_NS, np.minimum(lock, took), 0))
    waited = np.where(is_timed, waited, UNKNOWN)
    inside = _inside(start, np.maximum(took, 0), thread)
    return CompileTimes(np.where(is_timed, np.maximum(took - waited - inside, 0), UNKNOWN), waited)


def compiles_of(recording: Recording) -> Bools:
    """Return which rows of ``compilations`` are compiles: no loads from a disk cache, no waits, none that failed."""
    return matches(recording, "compilations", "outcome", "compiled")


def launch_waits(recording: Recording) -> Ints | None:
    """Return how long each launch waited for a compile of another thread; None where none did.

    It is part of the column ``compile_ns`` of ``launches``, and no more than it.
    """
    is_waiting = matches(recording, "launches", "cache", "wait")
    asked_by = ids(recording, "compilations", "launch_id")
    waited = np.where(matches(recording, "compilations", "trigger", "launch") & (asked_by >= 0),
                      compile_times_of(recording).wait_ns, 0)
    if not is_waiting.any() and not (waited > 0).any():
        return None
    found = sum_by(asked_by, waited, row_count(recording, "launches"))
    compiling = ints(recording, "launches", "compile_ns")
    # A probe without a compile hook writes no row: all of what it measured was waiting.
    alone = is_waiting & (ints(recording, "launches", "compilation_id") < 0)
    return np.clip(np.where(alone, compiling, found), 0, np.maximum(compiling, 0))


def _inside(start: Ints, took: Ints, thread: Ints) -> Ints:
    """Return the time of the rows directly inside each row, on its thread."""
    found = np.zeros(len(start), dtype=np.int64)
    order = np.lexsort((-took, start, thread))
    first, last, on = start[order], start[order] + took[order], thread[order]
    if not ((on[1:] == on[:-1]) & (first[1:] < last[:-1])).any():
        return found
    around: list[int] = []
    for row in order.tolist():
        while around and (thread[around[-1]] != thread[row]
                          or start[around[-1]] + took[around[-1]] < start[row] + took[row]):
            around.pop()
        if around:
            found[around[-1]] += took[row]
        around.append(row)
    return found

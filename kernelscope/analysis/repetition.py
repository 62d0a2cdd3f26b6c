"""A sequence of launches that a thread makes again and again in a cell, as one round of a loop does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelscope.analysis.activities import distinct, known_id
from kernelscope.analysis.columns import Ints, ints, ran
from kernelscope.analysis.phases import LaunchPhases, launch_phases, long_ones
from kernelscope.recording.model import Recording

#: As many launches as a round has at most.
LONGEST_ROUND = 32
#: So many rounds are plainly a loop.
LEAST_ROUNDS = 20
#: The first launches of a thread in a cell show what its loop is.
_MOST_LAUNCHES = 1 << 16


@dataclass(frozen=True)
class Repetition:
    """Rounds of the same launches, one after another on one thread in one cell.

    Rounds that took more than `kernelscope.analysis.phases.LONG` times the median waited for something, and are summed
    by themselves.

    Attributes
    ----------
    dispatchers : tuple of int
        The kernels of one round, in order: rows of ``dispatchers``.
    rounds : int
        How many there were, the last one whole.
    cell_id : int or None
        The cell; None between cells.
    usual_rounds : int
        How many of the rounds were not long.
    usual_ns : int
        Host time in their launches, without compiles.
    long_ns : int
        The same of the long ones.
    """

    dispatchers: tuple[int, ...]
    rounds: int
    cell_id: int | None
    usual_rounds: int
    usual_ns: int
    long_ns: int


def repetition(recording: Recording, phases: LaunchPhases | None = None) -> Repetition | None:
    """Return the longest stretch of rounds of at least two launches each; None where there is no plain loop.

    Launches are the same that have one kernel, one specialization and one launch configuration. Those inside others and
    those that were captured into a graph are not looked at.
    """
    phases = phases or launch_phases(recording)
    outer = ran(recording) & (ints(recording, "launches", "parent_launch_id") < 0)
    thread, cell = (ints(recording, "launches", name) for name in ("thread_id", "cell_id"))
    best: Repetition | None = None
    for within in distinct(cell[outer]):
        mine = outer & (cell == within)
        for on in distinct(thread[mine]):
            rows = np.flatnonzero(mine & (thread == on))[:_MOST_LAUNCHES]
            found = _on_one_thread(recording, phases, rows, known_id(within))
            if found is not None and (best is None or found.usual_ns > best.usual_ns):
                best = found
    return best


def plain_loop(keys: Ints) -> tuple[int, int, int] | None:
    """Return `longest_rounds` where they are plainly a loop of at least two launches a round, else None."""
    begin, size, rounds = longest_rounds(keys)
    return None if size < 2 or rounds < LEAST_ROUNDS else (begin, size, rounds)


def longest_rounds(keys: Ints) -> tuple[int, int, int]:
    """Return where the longest stretch of rounds begins, how long a round is, and how many whole ones there are.

    The shortest round is taken that explains as many launches as any; no rounds are all zeros.
    """
    found, most = (0, 0, 0), 0
    for size in range(1, min(LONGEST_ROUND, len(keys) // 2) + 1):
        breaks = np.flatnonzero(keys[size:] != keys[:-size])
        edges = np.concatenate(([-1], breaks, [len(keys) - size]))
        lengths = np.diff(edges) - 1
        at = int(np.argmax(lengths))
        length = int(lengths[at]) + size if lengths[at] >= size else 0
        # A multiple of the true round explains no more than the round itself but for the rest of a round.
        if length > most + (found[1] if found[1] and size % found[1] == 0 else 0):
            most, found = length, (int(edges[at]) + 1, size, length // size)
    return found


def _on_one_thread(recording: Recording, phases: LaunchPhases, rows: Ints, cell: int | None) -> Repetition | None:
    if len(rows) < 2 * LEAST_ROUNDS:
        return None
    columns = [ints(recording, "launches", name)[rows]
               for name in ("dispatcher_id", "specialization_id", "configuration_id")]
    keys = np.zeros(len(rows), dtype=np.int64)
    for column in columns:
        keys = keys * (int(column.max()) + 2) + column + 1
    loop = plain_loop(keys)
    if loop is None:
        return None
    begin, size, rounds = loop
    chosen = rows[begin:begin + size * rounds].reshape(rounds, size)
    host = phases.host_ns[chosen] - np.maximum(phases.phases["compile"][chosen], 0)
    if bool((phases.host_ns[chosen] < 0).any()):
        return None
    spent = host.sum(axis=1)
    dispatcher = ints(recording, "launches", "dispatcher_id")[chosen[0]]
    long = long_ones(np.zeros(rounds, dtype=np.int64), spent, 1)
    long_ns = int(spent[long].sum())
    return Repetition(tuple(dispatcher.tolist()), rounds, cell, rounds - len(long), int(spent.sum()) - long_ns, long_ns)

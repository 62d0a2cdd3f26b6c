"""Totals by cell: one row a run of one cell, and one for what was launched between cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelscope.analysis.columns import Ints, count_by, distinct_by, ints, matches, raised, ran
from kernelscope.analysis.phases import LaunchPhases, PhaseTotals, launch_phases
from kernelscope.recording.model import Recording


@dataclass(frozen=True)
class CellSummary:
    """One cell of a recording; what was not recorded is None.

    Attributes
    ----------
    cell_id : int or None
        Its row in ``cells``; None for what ran between cells.
    execution_count : int or None
        The notebook's In [n].
    name : str or None
        The name given by the user.
    status : str
        ok, error, interrupted or unfinished; an empty string between cells.
    error : str or None
        Type and message of the exception that ended the cell.
    launches, captured, kernels, errors : int
        Launches that ran, those that went into the capture of a graph, distinct kernels of both, launches that raised.
    compiles, disk_hits, memory_hits, failed_compiles : int
        Compiles, disk-cache loads, launches that found their overload in memory, compiles that raised.
    totals : PhaseTotals
        Own host time of its launches and its phases.
    wall_ns : int or None
        From the cell's start to its end; None between cells.
    synchronize_ns : int or None
        From there to the end of the device's synchronization; None where it was not synchronized.
    """

    cell_id: int | None
    execution_count: int | None
    name: str | None
    status: str
    error: str | None
    launches: int
    captured: int
    kernels: int
    errors: int
    compiles: int
    disk_hits: int
    memory_hits: int
    failed_compiles: int
    totals: PhaseTotals
    wall_ns: int | None
    synchronize_ns: int | None

    @property
    def label(self) -> str:
        """What to call it: ``In [3]``, its name, or both."""
        if self.cell_id is None:
            return "between cells"
        number = "" if self.execution_count is None else f"In [{self.execution_count}]"
        return " ".join(part for part in (number, self.name or "") if part) or f"cell {self.cell_id}"

    @property
    def wanted(self) -> str:
        """How a line of ``%kernelscope`` names it, by number or name; empty where it has neither."""
        return self.name or "" if self.execution_count is None else str(self.execution_count)


def by_cell(recording: Recording, phases: LaunchPhases | None = None) -> list[CellSummary]:
    """Summarize each cell, in the order in which they ran; the row between cells, if any, is last."""
    phases = phases or launch_phases(recording)
    rows = recording.rows("cells")
    size = len(rows) + 1
    between = len(rows)
    launched = _placed(ints(recording, "launches", "cell_id"), between)
    compiled = _placed(ints(recording, "compilations", "cell_id"), between)

    run = ran(recording)
    launches, captured = count_by(launched, size, run), count_by(launched, size, ~run)
    kernels = distinct_by(launched, ints(recording, "launches", "dispatcher_id"), size)
    errors = count_by(launched, size, raised(recording))
    memory = count_by(launched, size, run & matches(recording, "launches", "cache", "memory"))
    outcomes = {
        word: count_by(compiled, size, matches(recording, "compilations", "outcome", word))
        for word in ("compiled", "disk", "failed")
    }
    for word in ("compiled", "disk"):  # See `kernels._outcomes`: either table may know more.
        seen = count_by(launched, size, matches(recording, "launches", "cache", word))
        outcomes[word] = np.maximum(outcomes[word], seen)
    totals = phases.totals_by(launched, size)

    def summary(at: int, row: dict[str, object] | None) -> CellSummary:
        held = row or {}
        start, end, synchronized = (_time(held.get(f"{name}_ns")) for name in ("start", "end", "synchronized"))
        count, name, error = held.get("execution_count"), held.get("name"), held.get("error")
        return CellSummary(
            cell_id=None if row is None else at,
            execution_count=count if isinstance(count, int) else None,
            name=None if name is None else str(name),
            status=str(held.get("status") or ""),
            error=None if error is None else str(error),
            launches=int(launches[at]),
            captured=int(captured[at]),
            kernels=int(kernels[at]),
            errors=int(errors[at]),
            compiles=int(outcomes["compiled"][at]),
            disk_hits=int(outcomes["disk"][at]),
            memory_hits=int(memory[at]),
            failed_compiles=int(outcomes["failed"][at]),
            totals=totals[at],
            wall_ns=None if start is None or end is None else end - start,
            synchronize_ns=None if end is None or synchronized is None else synchronized - end,
        )

    summaries = [summary(at, row) for at, row in enumerate(rows)]
    if launches[between] or captured[between] or bool((compiled == between).any()):
        summaries.append(summary(between, None))
    return summaries


def _placed(cell: Ints, between: int) -> Ints:
    return np.where(cell >= 0, cell, between)


def _time(value: object) -> int | None:
    return value if isinstance(value, int) else None

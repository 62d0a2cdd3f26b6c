"""What each line of the user's code launched, compiled, had the GPU do, and waited for.

Work belongs to the line that gave it to the GPU, be it done later; a wait belongs to the line that waited. What has no
known line is a row of its own, so that the rows add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.activities import COPY, is_gpu_recorded
from kernelscope.analysis.columns import (
    Ints,
    count_by,
    data_frame,
    ints,
    matches,
    ran,
    row_count,
    sum_by,
)
from kernelscope.analysis.launches import PHASES, PhaseTotals, launch_phases
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LineSummary:
    """One line of code, or what has no known line.

    Attributes
    ----------
    line_id : int or None
        Its row in ``lines``; None for what has no known line.
    file : str or None
        The file, or a cell as ``In[3]``.
    line : int or None
        The line's number, from 1.
    function : str or None
        The function that it is in; None outside of functions.
    text : str or None
        The line itself, where it is of a recorded cell.
    launches : int
        Launches that it made and that ran.
    kernels : tuple of str
        Names of the kernels that it launched, in order of their first launch in the recording.
    totals : PhaseTotals
        Own host time of the launches, and its phases.
    compiles : int
        Compiles and loads from the disk cache that it caused.
    compile_ns : int or None
        How long those took; None where the end of none is known.
    gpu_ns : int or None
        How long the kernels, copies and memsets ran that it gave to the GPU; None where the GPU was not recorded, and
        where none of them was timed.
    copied_bytes : int or None
        What those copies copied; None where the GPU was not recorded.
    wait_ns : int or None
        How long it waited for the GPU; None where the GPU was not recorded, and for a line of which no wait is known
        while other waits have no known line.
    """

    line_id: int | None
    file: str | None
    line: int | None
    function: str | None
    text: str | None
    launches: int
    kernels: tuple[str, ...]
    totals: PhaseTotals
    compiles: int
    compile_ns: int | None
    gpu_ns: int | None
    copied_bytes: int | None
    wait_ns: int | None

    @property
    def host_ns(self) -> int | None:
        """Return own host time of the launches, in nanoseconds."""
        return self.totals.host_ns

    @property
    def cost_ns(self) -> int:
        """Return what rows are in order of: own host time of launches, and waits, in nanoseconds."""
        return (self.host_ns or 0) + (self.wait_ns or 0)


def by_line(recording: Recording) -> list[LineSummary]:
    """Summarize each line that did anything, in order of host time and waits, longest first; then by GPU time.

    What has no known line comes last. Where nothing has a line, as in files that know of none, there are no rows.
    """
    size = row_count(recording, "lines") + 1  # the last stands for what has no line
    lines = {table: _lines(recording, table, size) for table in ("launches", "compilations", "activities")}
    if all((each == size - 1).all() for each in lines.values()):
        return []
    launches = count_by(lines["launches"], size, ran(recording))
    totals = launch_phases(recording).totals_by(lines["launches"], size)
    start, end = (ints(recording, "compilations", name) for name in ("start_ns", "end_ns"))
    compiles = count_by(lines["compilations"], size)
    compile_ns = known_sums(lines["compilations"], np.where(end >= start, end - start, UNKNOWN), size)
    gpu = gpu_by(recording, lines["launches"], lines["activities"], size)
    used = launches + compiles + count_by(lines["activities"], size)
    names = _kernels(recording, lines["launches"], size)
    rows: list[dict[str, Any]] = [*recording.rows("lines"), dict.fromkeys(("line_id", "file", "line", "function"))]
    texts = _texts(recording)
    found = [
        LineSummary(
            line_id=rows[at]["line_id"], file=rows[at]["file"], line=rows[at]["line"], function=rows[at]["function"],
            text=texts.get(at), launches=int(launches[at]), kernels=names[at], totals=totals[at],
            compiles=int(compiles[at]), compile_ns=compile_ns[at], gpu_ns=gpu[at][0], copied_bytes=gpu[at][1],
            wait_ns=gpu[at][2])
        for at in np.flatnonzero(used).tolist()
    ]
    return sorted(found, key=lambda each: (each.line_id is None, -each.cost_ns, -(each.gpu_ns or 0)))


def line_table(recording: Recording) -> pd.DataFrame:
    """Return `by_line` as a DataFrame.

    Its columns are ``file``, ``line``, ``function``, ``text``, ``launches``, ``kernels``, ``host_ns`` with the phases
    ``dispatch_ns``, ``prepare_ns``, ``submit_ns``, ``finish_ns`` and ``unsplit_ns``, ``compiles``, ``compile_ns`` (of
    all compiles: those of launches are in ``host_ns`` too), ``gpu_ns``, ``wait_ns`` and ``copied_bytes``. The index is
    the line's id.
    """
    phases = {f"{name}_ns": f"totals.{name}_ns" for name in (*PHASES, "unsplit") if name != "compile"}
    numbers = ("host_ns", *phases, "compiles", "compile_ns", "gpu_ns", "wait_ns", "copied_bytes")
    kinds = {"line_id": "Int64", "file": "object", "line": "Int64", "function": "object", "text": "object",
             "launches": "Int64", "kernels": "object", **dict.fromkeys(numbers, "Int64")}
    return data_frame(by_line(recording), kinds, {
        **phases, "kernels": lambda each: ", ".join(each.kernels)}).set_index("line_id")


def _lines(recording: Recording, table: str, size: int) -> Ints:
    """The line of each row of a table; the last of all for none."""
    found = ints(recording, table, "line_id")
    return np.where(found >= 0, found, size - 1) if bool((found < 0).any()) else found


def _kernels(recording: Recording, lines: Ints, size: int) -> list[tuple[str, ...]]:
    names: list[str] = recording.arrow("dispatchers").column("name").to_pylist()
    found: list[dict[str, None]] = [{} for _ in range(size)]
    made = np.bincount(lines * len(names) + ints(recording, "launches", "dispatcher_id"))
    for pair in np.flatnonzero(made).tolist():
        found[pair // len(names)][names[pair % len(names)]] = None
    return [tuple(each) for each in found]


def gpu_by(recording: Recording, launches: Ints, activities: Ints,
           size: int) -> list[tuple[int | None, int | None, int | None]]:
    """Return the time of kernels, copies and memsets, the bytes copied, and the time of waits by group.

    `launches` and `activities` are the groups of the rows of these tables, the last of `size` for none.
    """
    if not is_gpu_recorded(recording):
        return [(None, None, None)] * size
    start, end = ints(recording, "activities", "start_ns"), ints(recording, "activities", "end_ns")
    lasted = np.where((start >= 0) & (end >= start), end - start, UNKNOWN)
    is_wait = matches(recording, "activities", "kind", "sync")
    at, took = activities, lasted
    if is_wait.any():
        at, took = activities[~is_wait], lasted[~is_wait]
    execute = ints(recording, "launches", "execute_ns")
    timed = np.flatnonzero(execute >= 0)
    if len(timed):  # kernels that were timed otherwise have no activity
        has_activity = np.zeros(len(launches) + 1, bool)
        has_activity[ints(recording, "activities", "launch_id")] = True
        timed = timed[~has_activity[timed]]
        at, took = np.concatenate((at, launches[timed])), np.concatenate((took, execute[timed]))
    copied = np.where(matches(recording, "activities", "kind", COPY), ints(recording, "activities", "size_bytes"), 0)
    waits = sum_by(activities[is_wait], lasted[is_wait], size)
    waited = count_by(activities[is_wait], size)
    others_wait = bool(waited[size - 1])
    waiting = [None if others_wait and not count else total
               for total, count in zip(waits.tolist(), waited.tolist(), strict=True)]
    return list(zip(known_sums(at, took, size), sum_by(activities, copied, size).tolist(), waiting, strict=True))


def known_sums(groups: Ints, values: Ints, size: int) -> list[int | None]:
    """Return sums by group: None where there are values and none is known."""
    lost = (count_by(groups, size) > 0) & (count_by(groups, size, values >= 0) == 0)
    return [None if gone else total
            for gone, total in zip(lost.tolist(), sum_by(groups, values, size).tolist(), strict=True)]


def _texts(recording: Recording) -> dict[int, str]:
    """The texts of the lines of recorded cells."""
    sources = [(row["source"] or "").splitlines() for row in recording.rows("cells")]
    return {at: sources[row["cell_id"]][row["line"] - 1].strip() for at, row in enumerate(recording.rows("lines"))
            if row["cell_id"] is not None and row["line"] <= len(sources[row["cell_id"]])}

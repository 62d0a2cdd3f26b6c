"""Quadrants' graph kernels: which launches were one graph launch, and which fell back to plain launches, and why.

A kernel with ``graph=True`` runs without a graph where its backend makes none, and says nothing. A launch fell back if
no graph launch was made inside of it, and its specialization was seen to: where graphs could not be watched, nothing is
said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelscope.analysis.advice import Advice, cut
from kernelscope.analysis.columns import Bools, Ints, codes, ints, json_object, matches
from kernelscope.analysis.units import counted, duration
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

_FRAMEWORK = "quadrants"


@dataclass(frozen=True)
class GraphKernel:
    """A Quadrants kernel with ``graph=True``.

    Attributes
    ----------
    dispatcher_id : int
        The kernel's row.
    name : str
        Its qualified name.
    launches : int
        Its launches that raised nothing.
    replayed, plain : int
        How many of them were a graph launch, and how many fell back to plain launches.
    plain_ns : int
        Host time of those.
    because : tuple of str
        Why they fell back, each reason once.
    loops : int
        ``qd.graph.do_while`` loops of it, over all nestings.
    """

    dispatcher_id: int
    name: str
    launches: int
    replayed: int
    plain: int
    plain_ns: int
    because: tuple[str, ...]
    loops: int


def graph_kernels(recording: Recording) -> list[GraphKernel]:
    """Return the recording's Quadrants kernels with ``graph=True`` that were launched, in order of their rows."""
    asked = [row for row in recording.rows("dispatchers")
             if row["framework"] == _FRAMEWORK and json_object(row["options"]).get("graph")]
    if not asked:
        return []
    launched, specialization = ints(recording, "launches", "dispatcher_id"), ints(
        recording, "launches", "specialization_id")
    start, end = ints(recording, "launches", "start_ns"), ints(recording, "launches", "end_ns")
    fine = codes(recording, "launches", "error")[0] == UNKNOWN
    replayed = _around_graph_launches(recording, start, end)
    held: dict[int, dict[str, Any]] = {
        row["specialization_id"]: json_object(row["attributes"]) for row in recording.rows("specializations")}
    fell_back = np.array(sorted(number for number, each in held.items() if each.get("plain_because")), dtype=np.int64)
    found: list[GraphKernel] = []
    for row in asked:
        mine = fine & (launched == row["dispatcher_id"])
        if not mine.any():
            continue
        plain = mine & ~replayed & np.isin(specialization, fell_back)
        facts = [held[number] for number in np.unique(specialization[mine]).tolist() if number in held]
        reasons = [held[number]["plain_because"] for number in np.unique(specialization[plain]).tolist()]
        found.append(GraphKernel(
            row["dispatcher_id"], row["name"], int(mine.sum()), int((mine & replayed).sum()), int(plain.sum()),
            int((end - start)[plain].sum()), tuple(dict.fromkeys(map(str, reasons))),
            max((len(each.get("do_while") or ()) for each in facts), default=0)))
    return found


def plain_launch_advice(recording: Recording) -> list[Advice]:
    """Return a line of advice for each graph kernel that fell back to plain launches."""
    return [Advice("graph_fell_back", each.name, _text(each), float(each.plain_ns))
            for each in graph_kernels(recording) if each.plain]


def _text(kernel: GraphKernel) -> str:
    launches = counted(kernel.launches, "launch", "launches")
    text = (f"{kernel.plain:,} of {launches} of {cut(kernel.name)}, a graph kernel, fell back to plain launches, "
            f"{duration(kernel.plain_ns)} in all: {'; '.join(kernel.because)}.")
    if kernel.loops:
        loops = counted(kernel.loops, "qd.graph.do_while loop")
        text += f" Its {loops} went through the host, which waits for the flag after each turn."
    return text


def _around_graph_launches(recording: Recording, start: Ints, end: Ints) -> Bools:
    """Which launches have a graph launch of their thread inside of them."""
    found = np.zeros(len(start), dtype=bool)
    thread = ints(recording, "launches", "thread_id")
    launches = matches(recording, "graph_events", "kind", "launch")
    when, whose = (ints(recording, "graph_events", name)[launches] for name in ("start_ns", "thread_id"))
    for number in np.unique(whose).tolist():
        times = np.sort(when[whose == number])
        mine = np.flatnonzero(thread == number)
        found[mine] = np.searchsorted(times, start[mine]) < np.searchsorted(times, end[mine], side="right")
    return found

"""From NVTX events, as they happened, to the rows of the table ``ranges``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: The kinds of event below 4; from there on an even number starts a start/end range and the next odd one ends it.
_PUSH, _POP, _EXIT, _MARK, _START = range(5)

Row = dict[str, Any]


@dataclass
class RawRanges:
    """NVTX events of a session.

    Attributes
    ----------
    events : ndarray of float64, shape (n, 4)
        Time in seconds, what happened, label, thread id: see `kernelscope.probes.sink.Sink`.
    labels : list of dict
        What a label stands for: ``name``, ``domain``, ``category``, ``color``, ``payload``; ``source`` where it is
        not python.
    first : int
        The event with which this recording begins; those before it tell which ranges were open then.
    """

    events: np.ndarray = field(default_factory=lambda: np.empty((0, 4)))
    labels: list[Row] = field(default_factory=list)
    first: int = 0

    def count(self) -> int:
        """How many ranges and marks were made in this recording."""
        kinds = self.events[self.first:, 1].astype(np.int64)
        return int(np.isin(kinds, (_PUSH, _MARK)).sum() + ((kinds >= _START) & (kinds % 2 == 0)).sum())


class _Range:
    """A range while its end is looked for."""

    __slots__ = ("end", "kind", "label", "start", "thread")

    def __init__(self, kind: str, start: int | None, label: int, thread: int) -> None:
        self.kind, self.start, self.label, self.thread = kind, start, label, thread
        self.end: int | None = None


def range_rows(raw: RawRanges) -> list[Row]:
    """Return the ranges and marks that were open in the recording, in order of start, with parents and depths.

    As in NVTX, a pop closes the newest range that is open on its thread and in its domain. One that finds none is of a
    range that was opened before recording began: where the event says which range it closes there is a row for it,
    without a start; else nothing is known of it.
    """
    found = _matched(raw)
    # Of ranges whose start is unknown the outer one is the one that ended last.
    early = sorted((each for each in found if each.start is None), key=lambda each: -(each.end or 0))
    timed = sorted((each for each in found if each.start is not None), key=lambda each: each.start or 0)
    open_on: dict[int, list[tuple[int, int | None, int]]] = {}
    rows: list[Row] = []
    for number, each in enumerate([*early, *timed]):
        parent, depth = None, 0
        if each.kind != "start_end":
            stack = open_on.setdefault(each.thread, [])
            while stack and each.start is not None and (end := stack[-1][1]) is not None and end <= each.start:
                stack.pop()
            if stack:
                parent, depth = stack[-1][0], stack[-1][2] + 1
            if each.kind == "push_pop":
                stack.append((number, each.end, depth))
        rows.append({
            "source": "python", **raw.labels[each.label], "range_id": number, "thread_id": each.thread,
            "parent_range_id": parent, "kind": each.kind, "start_ns": each.start, "end_ns": each.end, "depth": depth,
        })
    return rows


def _matched(raw: RawRanges) -> list[_Range]:
    """Starts joined with their ends, without what ended before this recording began."""
    if not len(raw.events):
        return []
    # Negative where a clock reads less than nothing; launches have no such times either.
    times = np.rint(raw.events[:, 0] * 1e9).astype(np.int64).tolist()
    kinds, labels, threads = raw.events[:, 1:].astype(np.int64).T.tolist()
    domains = [label["domain"] for label in raw.labels]
    stacks: dict[tuple[int, str | None], list[_Range]] = {}
    started: dict[int, _Range] = {}
    found: list[_Range] = []
    over: set[int] = set()

    def close(each: _Range, at: int, time: int) -> None:
        each.end = time
        if at < raw.first:
            over.add(id(each))

    for at, (time, kind, label, thread) in enumerate(zip(times, kinds, labels, threads, strict=True)):
        if kind in (_POP, _EXIT):
            stack = stacks.get((thread, domains[label]))
            if stack:
                close(stack.pop(), at, time)
            elif kind == _EXIT:
                found.append(_Range("push_pop", None, label, thread))
                close(found[-1], at, time)
        elif kind >= _START and kind % 2:
            each = started.pop(kind - 1, None)
            if each is not None:
                close(each, at, time)
        else:
            each = _Range({_PUSH: "push_pop", _MARK: "mark"}.get(kind, "start_end"), time, label, thread)
            found.append(each)
            if kind == _PUSH:
                stacks.setdefault((thread, domains[label]), []).append(each)
            elif kind == _MARK:
                close(each, at, time)
            else:
                started[kind] = each
    return [each for each in found if id(each) not in over]

"""From the ends of native NVTX ranges, as CUPTI gives them, to the events that ``ranges`` is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelscope.recording.ranges import RawRanges

_MARK, _BEGIN, _END = 1, 2, 4
_THREAD_BITS = 0xFFFFFFFF
#: The events of `RawRanges`: a push/pop range is opened, or closed; a mark; the first number of a start/end range.
_PUSHED, _POPPED, _MARKED, _STARTED = 0, 1, 3, 4

Row = dict[str, Any]
Columns = dict[str, np.ndarray]


def add_native(raw: RawRanges, markers: Columns, data: Columns, names: Sequence[str], threads: list[Row],
               since_ns: int | None = None) -> RawRanges:
    """Return the ranges with native ones among them; threads that are new are added to `threads`.

    CUPTI does not tell push/pop ranges from start/end ranges. Those that end in another order than push/pop ranges of
    their thread and domain can, or on another thread, are start/end ranges; the others pass as push/pop ranges.

    Parameters
    ----------
    raw : RawRanges
        What was made in Python.
    markers, data : dict of str to ndarray
        The columns ``flags``, ``time_ns``, ``id``, ``ident``, ``name``, ``domain``; and ``id``, ``color``,
        ``category`` of those that have these.
    names : list of str
        What ``name`` and ``domain`` stand for.
    threads : list of dict
        The rows of the table ``threads``.
    since_ns : int, optional
        Leave out what was before this time.
    """
    if not len(markers["id"]):
        return raw
    seen_in_python = {label["domain"] for label in raw.labels} - {None}
    order = np.argsort(markers["time_ns"], kind="stable")
    fields = ("flags", "time_ns", "id", "ident", "name", "domain")
    rows = list(zip(*(markers[field][order].tolist() for field in fields), strict=True))
    crossing = _crossing(rows)
    colors = {number: (color, category) for number, color, category in zip(
        *(data[name].tolist() for name in ("id", "color", "category")), strict=True)}
    labels, places = list(raw.labels), {}
    known = {(row.get("ident") or 0) & _THREAD_BITS: number for number, row in reversed(list(enumerate(threads)))}
    events: list[tuple[float, int, int, int]] = []
    opened: dict[int, tuple[int, int]] = {}
    count = int(raw.events[:, 1].max(initial=_STARTED)) // 2 * 2 + 2
    for flags, time, number, ident, name, domain in rows:
        if time < 0 or (since_ns is not None and time < since_ns):
            continue
        if ident not in known:
            known[ident] = len(threads)
            threads.append({"ident": ident, "name": None})
        thread = known[ident]
        if flags & _END:
            what = opened.pop(number, None)
            if what is not None:
                events.append((time / 1e9, what[0] + 1, what[1], thread))
            continue
        text, space = names[name] if name >= 0 else "", names[domain] if domain >= 0 else None
        if space in seen_in_python:
            continue  # made by Python's nvtx, which tells us itself
        color, category = colors.get(number, (0, 0))
        key = (text, space, color, category)
        if key not in places:
            places[key] = len(labels)
            labels.append({
                "name": text, "domain": space, "category": str(category) if category else None, "payload": None,
                "color": f"#{color & 0xFFFFFF:06x}" if color else None, "source": "native",
            })
        label = places[key]
        if flags & _MARK:
            events.append((time / 1e9, _MARKED, label, thread))
        elif flags & _BEGIN:
            code = _PUSHED
            if number in crossing:
                code, count = count, count + 2
            opened[number] = code, label
            events.append((time / 1e9, code, label, thread))
    if not events:
        return raw
    later = np.concatenate([raw.events[raw.first:], np.array(events)])
    later = later[np.argsort(later[:, 0], kind="stable")]
    return RawRanges(np.concatenate([raw.events[:raw.first], later]), labels, raw.first)


def _crossing(rows: Sequence[tuple[int, ...]]) -> set[int]:
    """The ranges that do not end in the reverse order of their beginning, thread by thread and domain by domain."""
    found: set[int] = set()
    stacks: dict[tuple[int, int], list[int]] = {}
    begun: dict[int, tuple[int, int]] = {}
    for flags, _, number, ident, _, domain in rows:
        if flags & _BEGIN:
            begun[number] = ident, domain
            stacks.setdefault((ident, domain), []).append(number)
        elif flags & _END and number in begun:
            key = begun.pop(number)
            stack = stacks[key]
            if stack[-1] != number or ident != key[0]:
                found.add(number)
            stack.remove(number)
    return found

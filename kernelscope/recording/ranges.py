"""From NVTX events, as they happened, to the table ``ranges``: vectorized, for there can be a million."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from kernelscope.recording.columns import THREAD_BITS, Columns, Row, at_sites, words
from kernelscope.schema import UNKNOWN

_NATIVE_MARK, _BEGIN, _END = 1, 2, 4
#: The events of `RawRanges`: a push/pop range is opened, closed, or closed by its own end; a mark; from there on an
#: even number starts a start/end range and the next odd one ends it.
_PUSH, _POP, _EXIT, _MARK, _START = range(5)

#: What ``torch.autograd.profiler.emit_nvtx`` adds to a name, another one for each range (``getNvtxStr`` of PyTorch's
#: ``torch/csrc/profiler/util.cpp``): ``aten::add, seq = 5, op_id = 7, sizes = [[2, 3], []], input_op_ids = [(4,0)]``;
#: old versions have ``stashed seq`` too.
_OF_ONE_RANGE = re.compile(
    r"(?:, (?:(?:stashed )?seq ?= ?-?\d+|op_id = \d+|(?:sizes|input_op_ids) = \[[-\d, ()[\]]*\]))+$")
#: Longer names are left whole.
_MOST_LETTERS = 1 << 14


def common_name(name: str) -> str:
    """Return the name that a range shares with others: without sequence number, operator's id and sizes of PyTorch."""
    is_candidate = name.endswith((*"0123456789]",)) and len(name) <= _MOST_LETTERS
    return _OF_ONE_RANGE.sub("", name) if is_candidate else name


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
    labels, places, sites = list(raw.labels), {}, list(raw.sites)
    site_of: dict[int, int] = {}
    known = {(row.get("ident") or 0) & THREAD_BITS: number for number, row in reversed(list(enumerate(threads)))}
    events: list[tuple[float, int, int, int]] = []
    opened: dict[int, tuple[int, int]] = {}
    count = int(raw.events[:, 1].max(initial=_START)) // 2 * 2 + 2
    for flags, time, number, ident, name, domain in rows:
        if time < 0 or (since_ns is not None and time < since_ns):
            continue
        if ident not in known:
            known[ident] = len(threads)
            threads.append({"ident": ident, "name": None})
        if ident not in site_of:
            site_of[ident] = len(sites)
            sites.append({"thread_id": known[ident], "line_id": UNKNOWN, "stack_id": UNKNOWN})
        site = site_of[ident]
        if flags & _END:
            what = opened.pop(number, None)
            if what is not None:
                events.append((time / 1e9, what[0] + 1, what[1], site))
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
        if flags & _NATIVE_MARK:
            events.append((time / 1e9, _MARK, label, site))
        elif flags & _BEGIN:
            code = _PUSH
            if number in crossing:
                code, count = count, count + 2
            opened[number] = code, label
            events.append((time / 1e9, code, label, site))
    if not events:
        return raw
    later = np.concatenate([raw.events[raw.first:], np.array(events)])
    later = later[np.argsort(later[:, 0], kind="stable")]
    return RawRanges(np.concatenate([raw.events[:raw.first], later]), labels, raw.first, sites)


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


@dataclass
class RawRanges:
    """NVTX events of a session.

    Attributes
    ----------
    events : ndarray of float64, shape (n, 4)
        Time in seconds, what happened, label, site: see `kernelscope.probes.sink.Sink`.
    labels : list of dict
        What a label stands for: ``name``, ``domain``, ``category``, ``color``, ``payload``, and ``source`` where that
        is not ``python``.
    first : int
        The event with which this recording begins; those before it tell which ranges were open then.
    sites : list of dict
        What a site stands for: `kernelscope.recording.columns.SITE`, -1 for none.
    """

    events: np.ndarray = field(default_factory=lambda: np.empty((0, 4)))
    labels: list[Row] = field(default_factory=list)
    first: int = 0
    sites: list[Row] = field(default_factory=list)

    def count(self) -> int:
        """How many ranges and marks were made in this recording."""
        kinds = self.events[self.first:, 1].astype(np.int64)
        return int(np.isin(kinds, (_PUSH, _MARK)).sum() + ((kinds >= _START) & (kinds % 2 == 0)).sum())


def nested_events(is_pushed: np.ndarray, is_mark: np.ndarray, start: np.ndarray, end: np.ndarray, lane: np.ndarray,
                  label: np.ndarray, site: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the events of `RawRanges` of ranges and marks of which start and end are known, and how many cross others.

    Push/pop ranges of one lane lie inside of each other. Those that overlap without that, and those without an end, are
    start/end ranges.

    Parameters
    ----------
    is_pushed, is_mark : ndarray of bool, shape (n,)
        Which are push/pop ranges, and which marks.
    start, end : ndarray of int64, shape (n,)
        Nanoseconds; an end of -1 is unknown.
    lane : ndarray of int64, shape (n,)
        A number for each thread and domain.
    label, site : ndarray of int64, shape (n,)
        As in the events.
    """
    pushed = is_pushed & (end != UNKNOWN)
    wrong = _crossing_rows(start, end, lane, np.flatnonzero(pushed))
    crossing = len(wrong)
    for left in reversed(range(_MOST_ROUNDS)):
        if not len(wrong):
            break
        pushed[wrong if left else np.isin(lane, lane[wrong])] = False
        wrong = _crossing_rows(start, end, lane, np.flatnonzero(pushed))
        crossing += len(wrong)
    others = np.flatnonzero(~pushed & ~is_mark)
    code = np.full(len(start), _PUSH, np.int64)
    code[is_mark] = _MARK
    code[others] = _START + 2 * np.arange(len(others))
    closed = np.flatnonzero(~is_mark & (end != UNKNOWN))
    closing = np.where(pushed, _EXIT, code + 1)
    rows, opens = _event_order(start, end, np.arange(len(start)), closed)
    time = np.where(opens, start[rows], end[rows])
    kind = np.where(opens, code[rows], closing[rows])
    return np.stack([time / 1e9, kind, label[rows], site[rows]], axis=1).astype(np.float64), crossing


#: How often ranges that cross others are taken away before all of their lane are.
_MOST_ROUNDS = 8


def _event_order(start: np.ndarray, end: np.ndarray, opened: np.ndarray,
                 closed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of beginnings and ends in an order in which what can be nested is, and which are beginnings.

    At one instant what lasted ends first, the inner before the outer; then the outer begins before the inner; then what
    takes no time ends.
    """
    row = np.concatenate((opened, closed))
    opens = np.arange(len(row)) < len(opened)
    empty = end[row] == start[row]
    time = np.where(opens, start[row], end[row])
    phase = np.where(opens, 1, np.where(empty, 2, 0))
    until = np.where(end[row] == UNKNOWN, np.iinfo(np.int64).max, end[row])
    order = np.lexsort((np.where(opens, row, -row), np.where(opens, -until, -start[row]), phase, time))
    return row[order], opens[order]


def _crossing_rows(start: np.ndarray, end: np.ndarray, lane: np.ndarray, pushed: np.ndarray) -> np.ndarray:
    """The rows of ranges that do not close what they opened, as parentheses do."""
    row, opens = _event_order(start, end, pushed, pushed)
    order = np.argsort(lane[row], kind="stable")
    row, opens = row[order], opens[order]
    height = np.cumsum(np.where(opens, 1, -1))
    level = np.where(opens, height, height + 1)
    order = np.lexsort((np.arange(len(row)), level, lane[row]))
    first, second = row[order[::2]], row[order[1::2]]
    return np.unique(np.concatenate((first[first != second], second[first != second])))


@dataclass
class _Found:
    """Ranges and marks with their ends: arrays, one value each; times are -1 where unknown, places in the events too.

    Attributes
    ----------
    kind : ndarray of int64
        `_PUSH`, `_MARK` or `_START`.
    opened, closed : ndarray of int64
        The events that opened and closed it.
    label, thread, line, start, end : ndarray of int64
        As in the events; a start of -1 is unknown, as is an end where `closed` is -1.
    """

    kind: np.ndarray
    opened: np.ndarray
    closed: np.ndarray
    label: np.ndarray
    thread: np.ndarray
    line: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def take(self, rows: np.ndarray) -> _Found:
        """Those of the given places."""
        return _Found(*(each[rows] for each in vars(self).values()))


def range_columns(raw: RawRanges) -> dict[str, Any]:
    """Return the ranges and marks that were open in the recording, in order of start, with parents and depths.

    As in NVTX, a pop closes the newest range that is open on its thread and in its domain. One that finds none is of a
    range that was opened before recording began: where the event says which range it closes there is a row for it,
    without a start; else nothing is known of it.

    Returns
    -------
    dict of str to ndarray or pyarrow.Array
        Columns of the table ``ranges``, without ``cell_id``.
    """
    found = _matched(raw)
    early, timed = np.flatnonzero(found.opened < 0), np.flatnonzero(found.opened >= 0)
    # Of ranges whose start is unknown the outer one is the one that ended last.
    early = early[np.argsort(-found.end[early], kind="stable")]
    timed = timed[np.argsort(found.start[timed], kind="stable")]
    found = found.take(np.concatenate((early, timed)))
    parent, depth = _nested(found, len(early))
    used, label = np.unique(found.label, return_inverse=True)
    labels = [raw.labels[each] for each in used.tolist()]
    size = len(found.kind)
    return {
        "range_id": np.arange(size, dtype=np.int32),
        "thread_id": found.thread.astype(np.int32),
        "line_id": found.line.astype(np.int32),
        "parent_range_id": parent.astype(np.int32),
        "name": pa.array([each["name"] for each in labels], pa.string()).take(pa.array(label)),
        **{name: words(label, [each[name] for each in labels]) for name in ("domain", "category", "color")},
        "payload": pa.array([each["payload"] for each in labels], pa.string()).take(pa.array(label)),
        "kind": words(np.searchsorted((_PUSH, _MARK, _START), found.kind), ["push_pop", "mark", "start_end"]),
        "source": words(label, [each.get("source", "python") for each in labels]),
        # Times below 0 are times too: a clock may read less than nothing.
        "start_ns": pa.array(found.start, pa.int64(), mask=found.opened < 0),
        "end_ns": pa.array(found.end, pa.int64(), mask=found.closed < 0),
        "depth": depth.astype(np.int32),
    }


def _matched(raw: RawRanges) -> _Found:
    """Starts joined with their ends, in order of their first event, without what ended before this recording began."""
    # Negative where a clock reads less than nothing; launches have no such times either.
    time = np.rint(raw.events[:, 0] * 1e9).astype(np.int64)
    kind, label, site = raw.events[:, 1:].astype(np.int64).T
    made_at = at_sites(site, raw.sites)
    thread, line = (made_at[name].astype(np.int64) for name in ("thread_id", "line_id"))
    numbers: dict[str | None, int] = {}
    domain = np.array([numbers.setdefault(each["domain"], len(numbers)) for each in raw.labels], dtype=np.int64)
    stacked = np.flatnonzero((kind == _PUSH) | (kind == _POP) | (kind == _EXIT))
    partner = np.full(len(kind), UNKNOWN, dtype=np.int64)
    lane = thread[stacked] * max(len(numbers), 1) + (domain[label[stacked]] if len(domain) else 0)
    of = _partners(lane, kind[stacked] == _PUSH)
    partner[stacked] = np.where(of >= 0, stacked[of], UNKNOWN)

    begun = np.flatnonzero((kind >= _START) & (kind % 2 == 0))
    closing = np.flatnonzero((kind >= _START) & (kind % 2 == 1))
    if len(closing):
        keys = np.sort((kind[closing] - 1) * len(kind) + closing)
        # The first end of the same number that comes after the start.
        at = np.minimum(np.searchsorted(keys, kind[begun] * len(kind) + begun), len(keys) - 1)
        is_end = (keys[at] // len(kind) == kind[begun]) & (keys[at] % len(kind) > begun)
        partner[begun] = np.where(is_end, keys[at] % len(kind), UNKNOWN)
    marks = np.flatnonzero(kind == _MARK)
    partner[marks] = marks

    is_opening = (kind == _PUSH) | (kind == _MARK) | ((kind >= _START) & (kind % 2 == 0))
    event = np.flatnonzero(is_opening | ((kind == _EXIT) & (partner < 0)))
    is_early = kind[event] == _EXIT
    closed = np.where(is_early, event, partner[event])
    found = _Found(
        kind=np.where(is_early, _PUSH, np.minimum(kind[event], _START)),
        opened=np.where(is_early, UNKNOWN, event), closed=closed, label=label[event], thread=thread[event],
        line=np.where(is_early, UNKNOWN, line[event]),
        start=np.where(is_early, UNKNOWN, time[event]), end=np.where(closed >= 0, time[closed], UNKNOWN),
    )
    return found.take(np.flatnonzero((closed < 0) | (closed >= raw.first)))


def _partners(lane: np.ndarray, opens: np.ndarray) -> np.ndarray:
    """The place of what closes or opens each, as parentheses do in each lane; -1 for what has no partner."""
    partner = np.full(len(lane), UNKNOWN, dtype=np.int64)
    order = np.argsort(lane, kind="stable")
    lane, opens = lane[order], opens[order]
    height = np.cumsum(np.where(opens, 1, -1))
    first = np.flatnonzero(np.concatenate(([True], lane[1:] != lane[:-1]))) if len(lane) else np.empty(0, np.int64)
    sizes = np.diff(np.append(first, len(lane)))
    height -= np.repeat(height[first] - np.where(opens[first], 1, -1), sizes)
    # What closes nothing leaves the height a new low: measured from the lowest so far, heights are those of the stack.
    # Lanes are kept apart by steps that are larger than any height.
    step = np.repeat(np.arange(len(first)), sizes) * (2 * len(lane) + 3)
    lowest = np.minimum(np.minimum.accumulate(height - step) + step, 0)
    before = np.concatenate(([0], lowest[:-1]))[:len(lane)]
    before[first] = 0
    alone = ~opens & (height < before)
    level = height - lowest + np.where(opens, 0, 1)
    kept = np.flatnonzero(~alone)
    key = (level + step)[kept]
    by_level = np.argsort(key, kind="stable")
    kept, key = kept[by_level], key[by_level]
    pairs = np.flatnonzero(opens[kept[:-1]] & ~opens[kept[1:]] & (key[:-1] == key[1:]))
    left, right = order[kept[pairs]], order[kept[pairs + 1]]
    partner[left], partner[right] = right, left
    return partner


def _nested(found: _Found, early: int) -> tuple[np.ndarray, np.ndarray]:
    """The innermost push/pop range that is open on its thread when each begins, and how many are."""
    size = len(found.kind)
    parent, depth = np.full(size, UNKNOWN, dtype=np.int64), np.zeros(size, dtype=np.int64)
    rows = np.flatnonzero(found.kind != _START)
    pushed = rows[found.kind[rows] == _PUSH]
    popped = pushed[found.closed[pushed] >= 0]
    # What was open when recording began was opened before all others, the outermost first.
    begun = np.where(rows < early, rows - early, found.opened[rows])
    row = np.concatenate((rows, popped))
    order = np.lexsort((np.concatenate((begun, found.closed[popped])), found.thread[row]))
    row = row[order]
    step = np.concatenate(((found.kind[rows] == _PUSH).astype(np.int64), np.full(len(popped), -1)))[order]
    thread = found.thread[row]
    # Every end has its start: all threads together have the heights of each, less what others left open.
    height = np.cumsum(step) - step
    first = np.flatnonzero(np.concatenate(([True], thread[1:] != thread[:-1]))) if len(row) else np.empty(0, np.int64)
    height -= np.repeat(height[first], np.diff(np.append(first, len(row))))
    begins = np.flatnonzero(order < len(rows))
    depth[row[begins]] = height[begins]
    opens = begins[found.kind[row[begins]] == _PUSH]
    parent[row[begins]] = _last_below(thread, height, row, opens, begins)
    time = np.where(order < len(rows), found.start[row], found.end[row])
    time[row < early] = np.where(order[row < early] < len(rows), np.iinfo(np.int64).min, time[row < early])
    in_order = bool(((time[1:] >= time[:-1]) | (thread[1:] != thread[:-1])).all())
    if in_order and _is_nested(found, parent, thread, step, row):
        return parent, depth
    return _nested_one_by_one(found)


def _last_below(thread: np.ndarray, height: np.ndarray, row: np.ndarray, opens: np.ndarray,
                begins: np.ndarray) -> np.ndarray:
    """For each of `begins`, the row that was opened last on its thread one level below it."""
    place = np.concatenate((opens, begins))
    level = np.concatenate((height[opens], height[begins] - 1))
    asks = np.arange(len(place)) >= len(opens)
    order = np.lexsort((asks, place, level, thread[place]))
    latest = np.maximum.accumulate(np.where(asks[order], UNKNOWN, np.arange(len(order))))
    answers = np.full(len(place), UNKNOWN, dtype=np.int64)
    answers[order] = np.where(latest >= 0, row[place[order]][latest], UNKNOWN)
    return np.where(height[begins] > 0, answers[len(opens):], UNKNOWN)


def _is_nested(found: _Found, parent: np.ndarray, thread: np.ndarray, step: np.ndarray, row: np.ndarray) -> bool:
    """Whether a thread's ranges are inside each other, whatever their domains, and each begins inside its parent."""
    partner = _partners(thread[step != 0], step[step != 0] > 0)
    moving = row[step != 0]
    if not bool((moving[partner[partner >= 0]] == moving[partner >= 0]).all()):
        return False
    inside = np.flatnonzero((parent >= 0) & (found.opened >= 0))
    around = parent[inside]
    return bool(((found.closed[around] < 0) | (found.start[inside] < found.end[around])).all())


def _nested_one_by_one(found: _Found) -> tuple[np.ndarray, np.ndarray]:
    """The same where ranges of two domains overlap, or a clock has ties: one stays until what is on it has ended."""
    open_on: dict[int, list[tuple[int, int | None, int]]] = {}
    parents: list[int] = []
    depths: list[int] = []
    columns = (found.kind, found.opened, found.closed, found.thread, found.start, found.end)
    rows = zip(*(each.tolist() for each in columns), strict=True)
    for number, (kind, opened, closed, thread, start, end) in enumerate(rows):
        parent, depth = UNKNOWN, 0
        if kind != _START:
            stack = open_on.setdefault(thread, [])
            while stack and opened >= 0 and (until := stack[-1][1]) is not None and until <= start:
                stack.pop()
            if stack:
                parent, depth = stack[-1][0], stack[-1][2] + 1
            if kind == _PUSH:
                stack.append((number, end if closed >= 0 else None, depth))
        parents.append(parent)
        depths.append(depth)
    return np.array(parents, dtype=np.int64), np.array(depths, dtype=np.int64)

"""The table of ranges against the same made event by event."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from counting import lines_run

from kernelscope.recording.parquet import make_table, table_of_rows
from kernelscope.recording.ranges import RawRanges, common_name, range_columns

Row = dict[str, Any]
_PUSH, _POP, _EXIT, _MARK, _START = range(5)
#: Two threads, and three lines on each, the first of them unknown.
SITES = [{"thread_id": thread, "line_id": line, "stack_id": -1} for line in (-1, 0, 1) for thread in range(2)]


class Range:
    """A range while its end is looked for."""

    __slots__ = ("end", "kind", "label", "line", "start", "thread")

    def __init__(self, kind: str, start: int | None, label: int, site: int) -> None:
        self.kind, self.start, self.label, self.thread = kind, start, label, SITES[site]["thread_id"]
        self.line = None if start is None or SITES[site]["line_id"] < 0 else SITES[site]["line_id"]
        self.end: int | None = None


def one_by_one(raw: RawRanges) -> list[Row]:
    """The rows, event by event."""
    found = matched(raw)
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
            **raw.labels[each.label], "range_id": number, "thread_id": each.thread, "line_id": each.line,
            "parent_range_id": parent, "kind": each.kind, "source": "python", "start_ns": each.start,
            "end_ns": each.end, "depth": depth,
        })
    return rows


def matched(raw: RawRanges) -> list[Range]:
    """Starts joined with their ends, without what ended before this recording began."""
    if not len(raw.events):
        return []
    # Negative where a clock reads less than nothing; launches have no such times either.
    times = np.rint(raw.events[:, 0] * 1e9).astype(np.int64).tolist()
    kinds, labels, sites = raw.events[:, 1:].astype(np.int64).T.tolist()
    domains = [label["domain"] for label in raw.labels]
    stacks: dict[tuple[int, str | None], list[Range]] = {}
    started: dict[int, Range] = {}
    found: list[Range] = []
    over: set[int] = set()

    def close(each: Range, at: int, time: int) -> None:
        each.end = time
        if at < raw.first:
            over.add(id(each))

    for at, (time, kind, label, site) in enumerate(zip(times, kinds, labels, sites, strict=True)):
        thread = SITES[site]["thread_id"]
        if kind in (_POP, _EXIT):
            stack = stacks.get((thread, domains[label]))
            if stack:
                close(stack.pop(), at, time)
            elif kind == _EXIT:
                found.append(Range("push_pop", None, label, site))
                close(found[-1], at, time)
        elif kind >= _START and kind % 2:
            each = started.pop(kind - 1, None)
            if each is not None:
                close(each, at, time)
        else:
            each = Range({_PUSH: "push_pop", _MARK: "mark"}.get(kind, "start_end"), time, label, site)
            found.append(each)
            if kind == _PUSH:
                stacks.setdefault((thread, domains[label]), []).append(each)
            elif kind == _MARK:
                close(each, at, time)
            else:
                started[kind] = each
    return [each for each in found if id(each) not in over]


def labels(*domains: str | None) -> list[Row]:
    return [
        {"name": f"n{at}", "domain": domains[at % len(domains)], "category": "c" if at % 3 else None, "color": None,
         "payload": str(at) if at % 2 else None}
        for at in range(5)
    ]


def story(seed: int, size: int, domains: tuple[str | None, ...], tick: int) -> RawRanges:
    """Events of two threads: nested or not, before recording began or not, with ties of the clock or not."""
    random = np.random.default_rng(seed)
    events: list[tuple[float, int, int, int]] = []
    now = started = 0
    for _ in range(size):
        now += int(random.integers(0, tick))
        what = int(random.choice(6, p=[0.35, 0.25, 0.1, 0.1, 0.1, 0.1]))
        if what == 4:
            what, started = _START + 2 * started, started + 1
        elif what == 5:
            what = _START + 2 * int(random.integers(0, started + 1)) + 1
        events.append((now * 1e-9, what, int(random.integers(0, 5)), int(random.integers(0, 6))))
    first = int(random.integers(0, size // 3 + 1))
    return RawRanges(np.array(events, dtype=float).reshape(-1, 4), labels(*domains), first, SITES)


def test_as_event_by_event() -> None:
    for seed in range(150):
        domains: tuple[str | None, ...] = ((None,), (None, "a"), ("a", "b", None))[seed % 3]
        raw = story(seed, 1 + seed, domains, 2 + seed % 5 * 10)
        found = make_table("ranges", range_columns(raw))
        assert found.to_pylist() == table_of_rows("ranges", one_by_one(raw)).to_pylist()


def test_nothing_happened() -> None:
    assert len(make_table("ranges", range_columns(RawRanges()))) == 0
    assert len(make_table("ranges", range_columns(RawRanges(labels=labels(None))))) == 0


def test_labels_of_other_cells_are_in_no_column() -> None:
    raw = RawRanges(np.array([[1.0, _PUSH, 3, 0], [2.0, _POP, 3, 0]]), labels("one", "two"), sites=SITES)
    raw.labels[3]["source"] = "native"
    columns = range_columns(raw)
    assert columns["domain"].dictionary.to_pylist() == ["two"]
    assert columns["source"].to_pylist() == ["native"]


def test_a_hundred_thousand_ranges_are_no_more_work_than_fewer() -> None:
    def raw(ranges: int) -> RawRanges:
        kinds = np.tile([_PUSH, *[_PUSH, _POP] * 9, _POP], ranges // 10)
        events = np.stack([np.arange(len(kinds)) * 1e-6, kinds, np.arange(len(kinds)) % 5, kinds * 0], axis=1)
        return RawRanges(events, labels(None), sites=SITES)

    few, many = raw(10_000), raw(100_000)
    columns = range_columns(many)
    assert len(columns["range_id"]) == 100_000
    assert (columns["depth"].max(), columns["parent_range_id"][:3].tolist()) == (1, [-1, 0, 0])
    assert lines_run(lambda: range_columns(many)) < 1.2 * lines_run(lambda: range_columns(few))


@pytest.mark.parametrize(("name", "common"), [
    ("aten::add, op_id = 314359", "aten::add"), ("aten::add, seq = 12", "aten::add"),
    ("aten::add, seq = 12, op_id = 7, sizes = [[2, 3], []]", "aten::add"),
    ("aten::cat, seq = 3, sizes = [[[2], [3]], []], input_op_ids = [(4,0), (-1,1)]", "aten::cat"),
    ("AddBackward0, stashed seq=4", "AddBackward0"), ("AddBackward0, seq=0", "AddBackward0"),
    ("step, seq = many", "step, seq = many"), ("load, sizes = [a]", "load, sizes = [a]"), ("a, b", "a, b"),
    ("step 5", "step 5"), ("", ""), (", op_id = 3", "")])
def test_the_name_that_a_range_of_pytorch_shares_with_others(name: str, common: str) -> None:
    assert common_name(name) == common

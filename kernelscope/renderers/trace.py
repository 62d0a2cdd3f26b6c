"""What a trace file of a recording shows: its lanes from top to bottom, with every fact that is known of each slice.

Cells; NVTX ranges by domain; for each host thread its launches with their phases, nested launches, compiles, passes,
what it did for graphs and in build caches, driver calls and waits; graph launches; and for each GPU its streams. Arrows
lead from a launch to its kernel, and from a driver call to the graph, the kernel or the copy that it asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kernelscope.analysis.columns import Ints, codes, ints, matches, row_count
from kernelscope.analysis.graph_names import build_names, event_names
from kernelscope.recording.model import Recording
from kernelscope.renderers.base import clean
from kernelscope.renderers.lanes import (
    OPEN,
    Arguments,
    Lane,
    Slices,
    Track,
    Words,
    always,
    combinations,
    rows,
)
from kernelscope.renderers.trace_calls import (
    CALL_FLOW,
    call_flows,
    calls_with_activities,
    graph_launches,
    is_called,
)
from kernelscope.renderers.trace_facts import Facts
from kernelscope.schema import UNKNOWN

# Top to bottom, as the timeline has them.
_CELLS, _NVTX, _HOST, _GPU = range(4)
_LAUNCHES, _NESTED, _COMPILES, _PASSES, _EVENTS, _BUILDS, _CALLS, _WAITS = range(8)


def lanes(recording: Recording) -> Iterator[Lane]:
    """Yield every lane that has something in it, group by group, each group's as a whole."""
    facts = Facts(recording)
    yield from _cells(facts)
    yield from _ranges(facts)
    yield from _launches(facts)
    yield from _compiles(facts)
    yield from _passes(facts)
    yield from _graph_events(facts)
    yield from _builds(facts)
    yield from _calls(facts)
    yield from _waits(facts)
    yield from _gpu(facts)
    yield from _graphs(facts)


def groups(recording: Recording) -> list[Track]:
    """Return the groups that lanes can be in: those that are shown are the ones that have a lane."""
    facts = Facts(recording)
    found = [
        Track(("nvtx",), "NVTX ranges", _NVTX),
        *(Track(("nvtx", _key(domain)), f"domain {domain}" if domain else "default domain", place)
          for place, domain in enumerate(["", *facts.domains])),
        Track(("host",), "Host", _HOST),
        *(Track(("host", str(thread)), name, thread) for thread, name in enumerate(facts.threads)),
    ]
    found += [
        Track((f"gpu {device}",), facts.device(device), _GPU + 1 + device)
        for device in range(UNKNOWN, row_count(recording, "devices"))
    ]
    return found


def event_count(recording: Recording) -> int:
    """Return how many rows of the recording a trace shows, for telling how far an export is."""
    return sum(row_count(recording, name) for name in _SHOWN)


_SHOWN = ("cells", "ranges", "launches", "compilations", "passes", "graph_events", "builds", "api_calls", "activities")


def _cells(facts: Facts) -> list[Lane]:
    cells = facts.recording.rows("cells")
    if not cells:
        return []
    waits = [row for row in cells if row["synchronized_ns"] is not None and row["synchronized_ns"] > row["end_ns"]]
    described: list[Arguments] = [facts.cell_arguments(row) for row in cells]
    described += [{"cell": facts.cells[row["cell_id"]]} for row in waits]
    count = len(cells) + len(waits)
    slices = Slices(
        np.array([row["start_ns"] for row in cells] + [row["end_ns"] for row in waits], dtype=np.int64),
        np.array([row["end_ns"] for row in cells] + [row["synchronized_ns"] for row in waits], dtype=np.int64),
        Words(np.minimum(np.arange(count), len(cells)), [*facts.cells, "wait for the device"]),
        always("cell", count), Words(np.arange(count), []), lambda code: described[code])
    return rows(Track(("cells",), "Cells", _CELLS), slices, nested=True)


def _ranges(facts: Facts) -> Iterator[Lane]:
    """A track for each domain and thread, and one for the start/end ranges of each domain: they have no thread."""
    recording = facts.recording
    count = row_count(recording, "ranges")
    if not count:
        return
    domain, domains = codes(recording, "ranges", "domain")
    category, categories = codes(recording, "ranges", "category")
    start, end = facts.range_times()
    mark = matches(recording, "ranges", "kind", "mark")
    free = matches(recording, "ranges", "kind", "start_end")
    heldof = facts.range_arguments
    slices = Slices(
        start, np.where(mark, UNKNOWN, end), facts.range_names,
        Words(np.where(category < 0, len(categories), category), [*map(clean, categories), "nvtx"]),
        Words(np.arange(count), []), heldof, {"range": np.arange(count)})
    thread = ints(recording, "ranges", "thread_id")
    place, distinct = combinations(domain, np.where(free, UNKNOWN, thread))
    for number, (where, on) in enumerate(distinct.tolist()):
        title = "start/end ranges" if on == UNKNOWN else facts.threads[on]
        track = Track(("nvtx", _key(clean(domains[where]) if where >= 0 else ""), str(on)), title, on + 1)
        # Start/end ranges overlap as they like: they get a row each instead of a place inside another.
        yield from rows(track, slices.take(np.flatnonzero(place == number)), nested=on != UNKNOWN)


def _launches(facts: Facts) -> Iterator[Lane]:
    recording = facts.recording
    count = row_count(recording, "launches")
    if not count:
        return
    slices = facts.launch_slices()
    depth = _depths(ints(recording, "launches", "parent_launch_id"))
    place, distinct = combinations(ints(recording, "launches", "thread_id"), depth)
    for number, (thread, level) in enumerate(distinct.tolist()):
        title = "launches" if level == 0 else "nested launches" if level == 1 else f"nested launches, level {level}"
        track = Track(("host", str(thread), f"launches {level}"), title, _LAUNCHES if level == 0 else _NESTED)
        yield from rows(track, slices.take(np.flatnonzero(place == number)))


def _compiles(facts: Facts) -> Iterator[Lane]:
    """Compiles, with those phases inside (NVVM, link, load) whose times were taken."""
    recording = facts.recording
    compiles, passes = recording.rows("compilations"), recording.rows("passes")
    timed = [row for row in passes if row["start_ns"] is not None and row["compilation_id"] is not None]
    if compiles:
        names = [f"{facts.outcomes.get(row['outcome'], row['outcome'])} {facts.kernels[row['dispatcher_id']]}"
                 for row in compiles] + [clean(row["name"]) for row in timed]
        described = [facts.compile_arguments(row) for row in compiles] + [{"kind": row["kind"]} for row in timed]
        slices = _named(
            [row["start_ns"] for row in compiles] + [row["start_ns"] for row in timed],
            [UNKNOWN if row["end_ns"] is None else row["end_ns"] for row in compiles]
            + [row["start_ns"] + row["duration_ns"] for row in timed],
            names, ["compile"] * len(compiles) + ["compile phase"] * len(timed), described)
        thread = np.array([row["thread_id"] for row in compiles]
                          + [compiles[row["compilation_id"]]["thread_id"] for row in timed], dtype=np.int64)
        for on in np.unique(thread).tolist():
            track = Track(("host", str(on), "compiles"), "compiles", _COMPILES)
            yield from rows(track, slices.take(np.flatnonzero(thread == on)), nested=True)
    loads = [row for row in passes if row["start_ns"] is not None and row["compilation_id"] is None]
    if loads:
        slices = _named([row["start_ns"] for row in loads], [row["start_ns"] + row["duration_ns"] for row in loads],
                        [clean(row["name"]) for row in loads], ["compile phase"] * len(loads),
                        [facts.specialization_arguments(row["specialization_id"]) for row in loads])
        track = Track(("host", "loads"), "module loads outside compiles", len(facts.threads))
        yield from rows(track, slices, nested=True)


def _passes(facts: Facts) -> Iterator[Lane]:
    """numba's passes: it keeps their durations only, so that they are drawn one behind the other from the start."""
    compiles = facts.recording.rows("compilations")
    at = [row["start_ns"] for row in compiles]
    found: dict[int, list[tuple[int, int, str, int]]] = {}
    for row in facts.recording.rows("passes"):
        if row["start_ns"] is None and row["compilation_id"] is not None:
            asked = row["compilation_id"]
            held = found.setdefault(compiles[asked]["thread_id"], [])
            held.append((at[asked], at[asked] + row["duration_ns"], clean(row["name"]), asked))
            at[asked] += row["duration_ns"]
    about = "The framework keeps the passes' durations only: they are drawn in order from the compile's start."
    for thread, each in found.items():
        start, end, names, asked = (list(column) for column in zip(*each, strict=True))
        slices = _named(start, end, names, ["pass"] * len(each), [{"compilation": number} for number in asked])
        yield from rows(Track(("host", str(thread), "passes"), "compiler passes", _PASSES, about), slices)


def _graph_events(facts: Facts) -> Iterator[Lane]:
    """Captures, instantiates, updates and so on, on the thread that made them; a capture holds what went into it."""
    recording = facts.recording
    shown = np.flatnonzero(ints(recording, "graph_events", "start_ns") >= 0)
    if not len(shown):
        return
    start, end = ints(recording, "graph_events", "start_ns"), ints(recording, "graph_events", "end_ns")
    name, names = event_names(recording)
    kind, kinds = codes(recording, "graph_events", "kind")
    count = len(start)
    numbers = {
        argument: ints(recording, "graph_events", column) for argument, column in (
            ("graph", "graph_id"), ("executable graph", "exec_id"), ("rebuild of event", "rebuild_of"),
            ("queue_ns", "queue_ns"), ("execute_ns", "execute_ns"), ("correlation_id", "correlation_id"))
    }
    slices = Slices(
        start, np.where(end >= 0, end, OPEN), Words(name, [clean(each) for each in names]),
        Words(kind, [f"graph {each}" for each in kinds]), Words(np.arange(count), []), facts.graph_event_arguments,
        {"graph event": np.arange(count)} | numbers)
    thread = ints(recording, "graph_events", "thread_id")[shown]
    yield from _by_thread(slices.take(shown), thread, "graphs", "graphs", _EVENTS, nested=True)


def _builds(facts: Facts) -> Iterator[Lane]:
    """Requests to build caches of libraries."""
    held = facts.recording.rows("builds")
    if held:
        slices = _named(
            [row["start_ns"] for row in held], [UNKNOWN if row["end_ns"] is None else row["end_ns"] for row in held],
            [clean(each) for each in build_names(facts.recording)], ["build cache"] * len(held),
            [facts.build_arguments(row) for row in held])
        thread = ints(facts.recording, "builds", "thread_id")
        yield from _by_thread(slices, thread, "builds", "build caches", _BUILDS, nested=True)


def _calls(facts: Facts) -> Iterator[Lane]:
    """Driver calls: those that made no activity, and those behind activities that no recorded launch made."""
    recording = facts.recording
    made = calls_with_activities(recording)
    name, names = codes(recording, "api_calls", "name")
    apis = codes(recording, "activities", "api")[1]

    def column(field: str, other: Ints) -> Ints:
        return np.concatenate((ints(recording, "api_calls", field), other))

    count = len(name) + len(made.row)
    if not count:
        return
    correlation = column("correlation_id", made.correlation)
    detail, distinct = combinations(column("cell_id", made.cell), column("result", np.full_like(made.row, UNKNOWN)))

    def described(code: int) -> Arguments:
        where, status = distinct[code].tolist()
        return facts.in_cell(where) | ({"result": status} if status != UNKNOWN else {})

    numbers = {"api_call": np.where(np.arange(count) < len(name), np.arange(count), UNKNOWN),
               "correlation_id": correlation}
    slices = Slices(
        column("start_ns", made.start), column("end_ns", made.end),
        Words(np.concatenate((name, np.where(made.api >= 0, made.api + len(names), len(names) + len(apis)))),
              [*map(clean, names), *map(clean, apis), "driver call"]),
        always("driver call", count), Words(detail, []), described, numbers,
        flow_out=call_flows(recording, correlation))
    yield from _by_thread(slices, column("thread_id", made.thread), "calls", "driver calls", _CALLS)


def _waits(facts: Facts) -> Iterator[Lane]:
    waits = np.flatnonzero(matches(facts.recording, "activities", "kind", "sync") & facts.timed)
    if len(waits):
        thread = ints(facts.recording, "activities", "thread_id")[waits]
        yield from _by_thread(facts.activity_slices().take(waits), thread, "waits", "waits for the GPU", _WAITS)


def _by_thread(
    slices: Slices, thread: Ints, key: str, title: str, rank: int, *, nested: bool = False
) -> Iterator[Lane]:
    for on in np.unique(thread).tolist():
        path = ("host", str(on), key) if on >= 0 else ("host", key)
        named = title if on >= 0 else f"{title}, thread unknown"
        yield from rows(Track(path, named, rank), slices.take(np.flatnonzero(thread == on)), nested=nested)


def _gpu(facts: Facts) -> Iterator[Lane]:
    recording = facts.recording
    shown = np.flatnonzero(~matches(recording, "activities", "kind", "sync") & facts.timed)
    if not len(shown):
        return
    slices = facts.activity_slices()
    device, stream = ints(recording, "activities", "device_id"), ints(recording, "activities", "stream")
    place, distinct = combinations(device[shown], stream[shown])
    order = distinct.tolist()
    for number, (on, which) in enumerate(order):
        title = "stream unknown" if which == UNKNOWN else f"stream {which}"
        yield from rows(Track((f"gpu {on}", f"stream {which}"), title, number + 1),
                        slices.take(shown[place == number]))


def _graphs(facts: Facts) -> Iterator[Lane]:
    """One slice for each launch of a graph: from the start of its first activity to the end of its last."""
    found = graph_launches(facts.recording)
    if not len(found.correlation):
        return
    slices = Slices(
        found.start, found.end, found.names, always("graph launch", len(found.start)),
        numbers={"graph": found.graph, "graph event": found.event, "cupti_graph_id": found.cupti_graph,
                 "activities": found.activities, "correlation_id": found.correlation},
        flow_in=np.where(is_called(facts.recording, found.correlation), found.correlation + CALL_FLOW, 0))
    for on in np.unique(found.device).tolist():
        yield from rows(Track((f"gpu {on}", "graphs"), "graph launches", 0),
                        slices.take(np.flatnonzero(found.device == on)))


def _named(
    start: list[int], end: list[int], names: list[str], categories: list[str], described: list[Any]
) -> Slices:
    """Slices of a small table."""
    known = {name: at for at, name in enumerate(dict.fromkeys(names))}
    kinds = {name: at for at, name in enumerate(dict.fromkeys(categories))}
    return Slices(
        np.array(start, dtype=np.int64), np.array(end, dtype=np.int64),
        Words(np.array([known[name] for name in names], dtype=np.int64), list(known)),
        Words(np.array([kinds[name] for name in categories], dtype=np.int64), list(kinds)),
        Words(np.arange(len(names)), []), lambda code: described[code])


def _depths(parent: Ints) -> Ints:
    """How many launches are around each; a file that names a launch its own ancestor does not loop for ever."""
    depth = np.zeros(len(parent), dtype=np.int64)
    above = parent
    for _ in range(64):
        inside = above >= 0
        if not bool(inside.any()):
            break
        depth += inside
        above = np.where(inside, parent[np.maximum(above, 0)], UNKNOWN)
    return depth


def _key(domain: str) -> str:
    return f"domain {domain}"

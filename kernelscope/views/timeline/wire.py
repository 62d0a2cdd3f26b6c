"""The timeline as its front end takes it: a small header, and one stream of deflated columns.

The header is JSON: where the columns are and how they are coded, the lanes and their tracks, and what the page says.
The payload is one raw deflate stream: columns of integers, and at its end a JSON object with the texts and the small
tables. Times are nanoseconds since ``t0_ns``, the recording's first instant: exact in JavaScript's numbers to 52 days.

Integer columns take as few bytes as they need: predicted, cut into byte planes, deflated. What travels of a column is
the difference between each value and a prediction of it, less the least difference, in as many bytes as the greatest
needs. A column whose differences are all the same takes no bytes at all. The first bytes of all differences come first,
then all second bytes, and so on: high bytes are mostly equal, and deflate takes them to nearly nothing, while the noise
of the low bytes only passes its entropy coder. Values come back exactly.

Predictions, chosen for each column by what a sample of it deflates to:

``raw``
    0.
``delta``
    the value of the row before; for the first row what leaves the difference that the second has.
``gap``
    the end of the row before: its value plus that of the column of durations.
``via``
    a column of another table, at the row that a key names; where the key is negative, as ``delta``.
``map``
    what is usual (the median of a sample) with the value of another column (of words or ids) of the same table.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelscope.analysis.columns import Bools, Ints
from kernelscope.schema import UNKNOWN
from kernelscope.views.timeline.model import EXACT, NO_END, NO_START, Slices, Timeline

Bytes = NDArray[np.uint8]
#: Raised whenever the front end must read something differently.
FORMAT = 1
#: One deflate stream is made of parts; each is compressed the way that suits it.
_WAYS = ((zlib.Z_HUFFMAN_ONLY, 1), (zlib.Z_RLE, 1), (zlib.Z_DEFAULT_STRATEGY, 4))
_SAMPLE = 4096
#: What deflates to more than this share is stored, which a browser inflates several times faster.
_STORED = 0.985
_MOST_MAPPED = 1024
#: Columns from so many rows on are worth a thread.
LONG = 32768

_SOURCE_LINES = 3
# By table, the columns that travel besides times and tracks, in order.
_SENT = {
    "cells": ("id",),
    "ranges": ("domain", "category", "color", "kind", "source", "name", "payload", "thread_id", "cell_id", "line_id",
               "parent_range_id"),
    "launches": ("compile_ns", "compile_wait_ns", "measuring_ns", "device_id", "thread_id", "cell_id", "line_id",
                 "parent_launch_id", "compilation_id", "correlation_id", "specialization_id", "configuration_id",
                 "range", "operator", "cache", "error", "capture"),
    "compiles": ("thread_id", "cell_id", "line_id", "dispatcher_id", "specialization_id", "configuration_id",
                 "launch_id"),
    "passes": ("compilation_id", "name", "kind"),
    "events": ("id", "thread_id", "cell_id", "line_id", "name", "kind", "outcome", "change", "api", "changes", "error",
               "graph_id", "exec_id", "correlation_id", "queue_ns", "execute_ns", "stream", "rebuild_of"),
    "builds": ("id", "thread_id", "cell_id", "name", "outcome", "framework", "reason", "fix", "differing_parts",
               "error", "launch_id", "build_ns"),
    "collections": ("id", "thread_id", "cell_id", "name", "collected", "uncollectable"),
    "calls": ("source", "name", "id", "result", "thread_id", "cell_id", "line_id", "correlation_id", "stream"),
    "graphs": ("name", "event", "graph_id", "cupti_graph_id", "correlation_id", "cell_id", "line_id", "thread_id",
               "nodes", "first", "call", "busy"),
    "gpu": ("launch", "kernel", "name", "dur", "start", "flags", "track", "id", "specialization_id",
            "configuration_id", "cell_id", "line_id", "thread_id", "correlation_id", "device_id", "stream", "regs",
            "size_bytes", "graph_node_id", "cupti_graph_id", "cupti_node_id", "range", "operator", "call", "graph",
            "call_start", "call_end", "kind", "entry_name", "api", "memory"),
    "samples": ("name", "metric", "value", "device_id", "cell_id"),
}
#: Tables that the front end knows.
SENT = tuple(_SENT)


_Ways = dict[str, tuple[Callable[[slice], Ints], dict[str, Any]]]


@dataclass(frozen=True)
class Packed:
    """A recording on the wire.

    Attributes
    ----------
    header : dict
        JSON values only.
    payload : bytes
        Raw deflate.
    """

    header: dict[str, Any]
    payload: bytes

    @property
    def size(self) -> int:
        """Return the size of header and payload in bytes."""
        return len(self.payload) + len(json.dumps(self.header, separators=(",", ":")))

    @property
    def events(self) -> int:
        """Return the number of events that are drawn."""
        return sum(int(table["rows"]) for table in self.header["tables"].values())


def pack(timeline: Timeline) -> Packed:
    """Return a timeline as its front end takes it; what it leaves out of a large one is in ``header["left_out"]``."""
    columns = Columns(like_track=_AS_TRACK if timeline.processes else ())
    words: dict[str, Any] = {}
    for name, sent in _SENT.items():
        slices = timeline.tables[name]
        adds = {"launches": _add_launches, "gpu": _add_gpu}.get(name, _add_table)
        adds(columns, slices, sent)
        words |= {f"{name}.{each}": held.words for each, held in slices.columns().items()
                  if held.words is not None and each in sent}
    _add_measured(columns, timeline)
    texts = json.dumps({"words": words} | _texts(timeline), ensure_ascii=False, separators=(",", ":"))
    columns.add_text(texts)
    header: dict[str, Any] = {
        "format": FORMAT,
        "title": timeline.title,
        "notice": timeline.notice,
        "t0_ns": str(timeline.first_ns),
        "span_ns": timeline.span_ns,
        "bytes": columns.size,
        "inflated": columns.whole_size,
        "tables": {
            name: {"rows": len(timeline.tables[name]), "columns": specs} for name, specs in columns.specs.items()
        },
        "lanes": _lanes(timeline),
        **_processes(timeline),
        "undrawn": timeline.undrawn,
        "left_out": timeline.left_out,
    }
    return Packed(header, columns.deflate())


def _processes(timeline: Timeline) -> dict[str, Any]:
    """Return the processes of which lanes are grouped, and whether the groups begin folded; nothing of an only one."""
    if not timeline.processes:
        return {}
    return {"processes": [
        {"label": each.label, "host": each.host, "bound": each.bound_ns, "about": each.about}
        for each in timeline.processes], "folded": timeline.is_folded}


def _lanes(timeline: Timeline) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    place = {process.number: at for at, process in enumerate(timeline.processes)}
    for lane in timeline.lanes:
        tracks = [{"track": track.number, "table": track.table, "depth": track.depth}
                  | ({"kind": track.kind} if track.kind in ("marks", "area") else {})
                  for track in lane.tracks if track.table in _SENT]
        if tracks:
            found.append({"group": lane.group, "label": lane.label, "note": lane.note, "tracks": tracks}
                         | ({"process": place[lane.process]} if place else {}))
    return found


def _texts(timeline: Timeline) -> dict[str, Any]:
    """Return the small tables, with the first lines of each cell's source."""
    cells = [cell | ({"source": _first_lines(cell["source"])} if cell.get("source") else {})
             for cell in timeline.facts["cells"]]
    occupancies = [[row.get(name) for name in ("specialization", "configuration", "device", "occupancy")]
                   for row in timeline.facts["occupancies"]]
    return {**timeline.facts, "cells": cells, "occupancies": occupancies}


def _first_lines(source: str) -> str:
    lines = source.strip().splitlines()
    return "\n".join(lines[:_SOURCE_LINES]) + ("\n…" if len(lines) > _SOURCE_LINES else "")


def _add_table(columns: Columns, slices: Slices, sent: Sequence[str]) -> None:
    columns.add(slices.table, "dur", slices.end - slices.start)
    columns.add(slices.table, "start", slices.start, duration="dur")
    columns.add(slices.table, "flags", slices.flags)
    columns.add(slices.table, "track", slices.track)
    for name in sent:
        columns.add(slices.table, name, slices.columns()[name].values)


def _add_launches(columns: Columns, slices: Slices, sent: Sequence[str]) -> None:
    """Add launches as the durations of their phases; the flags say which bounds are known."""
    held = slices.columns()
    columns.add("launches", "dispatcher_id", held["dispatcher_id"].values)
    before, flags, parts = slices.start, np.zeros(len(slices), dtype=np.int64), list[str]()
    for bit, (bound, known) in enumerate(slices.bounds):
        parts.append(f"part{bit}")
        columns.add("launches", parts[-1], bound - before, like="dispatcher_id")
        flags += known.astype(np.int64) << bit
        before = bound
    columns.add_sum("launches", "dur", parts)
    columns.add("launches", "start", slices.start, duration="dur")
    columns.add("launches", "flags", flags)
    columns.add("launches", "track", slices.track)
    columns.add_sum("launches", "submit_start", ["start", "part0", "part1"])
    columns.add_sum("launches", "submit_end", ["submit_start", "part2"])
    for name in sent:
        columns.add("launches", name, held[name].values,
                    like="dispatcher_id" if name in ("specialization_id", "configuration_id", "line_id") else "")


# What an activity has in common with its launch, by column of the launch.
_AS_LAUNCHED = {"kernel": "dispatcher_id", "start": "submit_end", "call_start": "submit_start",
                "call_end": "submit_end"} | {name: name for name in (
                    "specialization_id", "configuration_id", "cell_id", "line_id", "thread_id", "correlation_id",
                    "range", "operator")}
# What is the same for all of a track where lanes are apart by process.
_AS_TRACK = ("thread_id", "cell_id", "device_id", "stream")
_AS_NAMED = ("dur", "device_id", "stream", "regs", "size_bytes", "graph_node_id", "cupti_graph_id", "cupti_node_id",
             "kind", "entry_name", "api", "memory")


def _add_gpu(columns: Columns, slices: Slices, sent: Sequence[str]) -> None:
    """Add activities; values that follow from the launch, the name or the row before take no bytes."""
    own = {"dur": slices.end - slices.start, "start": slices.start, "flags": slices.flags, "track": slices.track}
    own |= {name: column.values for name, column in slices.columns().items()}
    for name in sent:
        if name in own:  # the calls inside of launches may be left out
            link = Link("launch", "launches", _AS_LAUNCHED[name]) if name in _AS_LAUNCHED else None
            like = "name" if name in _AS_NAMED else "kernel" if name == "name" else ""
            columns.add("gpu", name, own[name], duration="dur" if name == "start" else "", link=link, like=like)


def _add_measured(columns: Columns, timeline: Timeline) -> None:
    """Add queue and execute times of launches where activities do not imply them."""
    launches, gpu = timeline.tables["launches"], timeline.tables["gpu"]
    kind = gpu.columns()["kind"]
    number = list(kind.words or ()).index("kernel") if "kernel" in (kind.words or ()) else EXACT
    mine: Bools = (gpu.columns()["launch"].values >= 0) & (kind.values == number)
    kernels = np.flatnonzero(mine)
    launch = gpu.columns()["launch"].values[kernels]
    if bool((np.diff(launch) <= 0).any()):
        # The first kernel of a launch is written last.
        kernels, launch = kernels[::-1], launch[::-1]
    submitted, known = launches.bounds[2]
    start, flags = gpu.start[kernels], gpu.flags[kernels]
    waited, took = np.maximum(start - submitted[launch], 0), gpu.end[kernels] - start
    if flags.any() or not known.all():
        waited[(flags & NO_START > 0) | ~known[launch]] = UNKNOWN
        took[flags & (NO_START | NO_END) > 0] = UNKNOWN
    for name, values in (("queue_ns", waited), ("execute_ns", took)):
        derived = np.full(len(launches), UNKNOWN, dtype=np.int64)
        derived[launch] = values
        if not np.array_equal(launches.columns()[name].values, derived):
            columns.add("launches", name, launches.columns()[name].values)


# How columns are coded.

@dataclass(frozen=True)
class Link:
    """A column of another table that a column is near to.

    Attributes
    ----------
    key : str
        The column of the own table that holds rows of the other one, negative for none; it must be added first.
    table, column : str
        Where the prediction is.
    """

    key: str
    table: str
    column: str


@dataclass(frozen=True)
class _Near:
    """The columns that one column may be predicted from."""

    duration: str = ""
    lasting: Ints | None = None
    link: Link | None = None
    key: Ints | None = None
    linked: Ints | None = None
    like: str = ""
    group: Ints | None = None


@dataclass(frozen=True)
class _Coded:
    """A column's spec, and its planes of bytes: deflated already where they are long."""

    spec: dict[str, Any]
    planes: tuple[Bytes | bytes, ...] = ()
    length: int = 0


class Columns:
    """Collects columns of tables, and makes one stream of bytes of them.

    Long columns are coded by several threads while the next ones are made.

    Parameters
    ----------
    like_track : sequence of str
        Columns that go with the column ``track`` of their table, unless they go with another one.

    Attributes
    ----------
    values : dict of str to dict of str to ndarray
        What was added.
    """

    def __init__(self, like_track: Sequence[str] = ()) -> None:
        self.values: dict[str, dict[str, Ints]] = {}
        self._like_track = like_track
        self._added: list[tuple[str, _Coded | Future[_Coded]]] = []
        self._texts: list[Bytes] = []
        self._pool: ThreadPoolExecutor | None = None

    def add(
        self, table: str, name: str, values: Any, *, duration: str = "", link: Link | None = None, like: str = ""
    ) -> None:
        """Add a column.

        Parameters
        ----------
        table, name : str
            What it is.
        values : array-like of int
            One value a row, within plus or minus `EXACT`; not to be changed afterwards.
        duration : str
            The column of the same table that holds durations, where this one holds starts.
        link : Link, optional
            What the column is near to.
        like : str
            A column of the same table that this one goes with: small numbers, -1 at least.
        """
        column = np.asarray(values, dtype=np.int64)
        # One value for all rows, as `broadcast_to` makes it, needs no look at each.
        seen = column[:1] if column.strides == (0,) else column
        least, most = (int(seen.min()), int(seen.max())) if len(seen) else (0, 0)
        if least < -EXACT or most > EXACT:
            column = np.clip(column, -EXACT, EXACT)
            least, most = max(least, -EXACT), min(most, EXACT)
        held = self.values.setdefault(table, {})
        if not like and name in self._like_track:
            like = "track"
        if least == most:
            self._added.append((table, _Coded({"n": name, "b": least})))
        else:
            near = _Near(
                duration, held.get(duration), link, None if link is None else held[link.key],
                None if link is None else self.values.get(link.table, {}).get(link.column), like, held.get(like))
            self._added.append((table, self._start(name, column, near)))
        held[name] = column

    def add_sum(self, table: str, name: str, parts: Sequence[str]) -> None:
        """Add a column that is the sum of two or more others of its table: it takes no bytes."""
        held = self.values[table]
        total = held[parts[0]].copy()
        for part in parts[1:]:
            total += held[part]
        held[name] = total
        self._added.append((table, _Coded({"n": name, "p": "sum", "of": list(parts)})))

    def add_text(self, text: str) -> None:
        """Append a text to the stream; it lies behind all columns."""
        self._texts.append(np.frombuffer(text.encode("utf-8"), dtype=np.uint8))

    @property
    def specs(self) -> dict[str, list[dict[str, Any]]]:
        """Return, by table, how to decode each column, in order of adding."""
        specs: dict[str, list[dict[str, Any]]] = {}
        at = 0
        for table, coded in self._coded():
            place = {"at": at} if coded.length else {}
            specs.setdefault(table, []).append(coded.spec | place)
            at += coded.length
        return specs

    @property
    def size(self) -> int:
        """Return bytes of all columns, inflated."""
        return sum(coded.length for _, coded in self._coded())

    @property
    def whole_size(self) -> int:
        """Return bytes of the stream, inflated: columns and texts."""
        return self.size + sum(len(text) for text in self._texts)

    def deflate(self) -> bytes:
        """Return the stream: raw deflate, as ``DecompressionStream("deflate-raw")`` reads it."""
        planes: list[Bytes | bytes] = [plane for _, coded in self._coded() for plane in coded.planes]
        planes += [_part(text) if len(text) >= LONG else text for text in self._texts]
        parts: list[bytes] = []
        for isolated, several in groupby(planes, lambda each: isinstance(each, bytes)):
            joined = b"".join(bytes(each) for each in several)
            parts.append(joined if isolated else _blocks(joined, zlib.Z_DEFAULT_STRATEGY, 9))
        # An empty last block ends the stream.
        return b"".join((*parts, b"\x03\x00"))

    def _start(self, name: str, column: Ints, near: _Near) -> _Coded | Future[_Coded]:
        if len(column) < LONG:
            return _code(name, column, near)
        self._pool = self._pool or ThreadPoolExecutor(min(4, os.cpu_count() or 1))
        return self._pool.submit(_code, name, column, near)

    def _coded(self) -> list[tuple[str, _Coded]]:
        """Return all columns, once they are coded."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        done = [(table, each.result() if isinstance(each, Future) else each) for table, each in self._added]
        self._added = [*done]
        return done


def _code(name: str, column: Ints, near: _Near) -> _Coded:
    """Code a column of which not all values are the same, by the prediction that suits it."""
    ways = _ways(column, near)
    way = _cheapest(len(column), ways)
    residual, more = ways[way][0](slice(0, len(column))), ways[way][1]
    least, most = int(residual.min()), int(residual.max())
    spec: dict[str, Any] = {"n": name, "b": least, "p": way, **more}
    width = ((most - least).bit_length() + 7) // 8
    if not width:
        return _Coded(spec)
    residual = residual - least
    parts = residual.view(np.uint8).reshape(-1, 8)
    planes = [np.ascontiguousarray(parts[:, place]) for place in range(width)]
    kept = tuple(_part(plane) if len(plane) >= LONG else plane for plane in planes)
    return _Coded(spec | {"k": width}, kept, width * len(column))


def _ways(column: Ints, near: _Near) -> _Ways:
    """Return, for each prediction, the differences in a part of the column, and its parameters."""

    def before(part: slice, values: Ints) -> Ints:
        first = part.start or 0
        out = np.empty(part.stop - first, dtype=np.int64)
        out[1:] = values[first:part.stop - 1]
        out[:1] = values[first - 1] if first else _zeroth(column, values)
        return out

    zeroth = {"v": _zeroth(column, column)}
    ways: _Ways = {
        "raw": (lambda part: column[part], {}),
        "delta": (lambda part: column[part] - before(part, column), zeroth),
    }
    if near.lasting is not None:
        end = column + near.lasting
        ways["gap"] = (lambda part: column[part] - before(part, end),
                       {"dur": near.duration, "v": _zeroth(column, end)})
    key, linked, link = near.key, near.linked, near.link
    if link is not None and key is not None and linked is not None and len(linked):
        more = {"key": link.key, "of": [link.table, link.column], **zeroth}
        ways["via"] = (lambda part: column[part] - np.where(
            key[part] >= 0, linked[key[part]], before(part, column)), more)
    group = near.group
    if group is not None and int(group.max()) + 2 <= _MOST_MAPPED:
        usual = _usual(group, column)
        ways["map"] = (lambda part: column[part] - usual[group[part] + 1], {"key": near.like, "map": usual.tolist()})
    return ways


def _cheapest(count: int, ways: _Ways) -> str:
    """Return the prediction whose differences deflate to the least, in two samples of a long column."""
    parts = [slice(0, min(count, _SAMPLE))]
    if count > 2 * _SAMPLE:
        parts.append(slice(count // 2, count // 2 + _SAMPLE))
    costs: dict[str, int] = {}
    for name, (way, _) in ways.items():
        costs[name] = sum(_cost(way(part)) for part in parts)
        if not costs[name]:
            break
    return min(costs, key=lambda each: costs[each])


def _usual(key: Ints, column: Ints) -> Ints:
    """Return the median value of each key from -1 on, in a sample; unseen keys get the overall median."""
    step = max(1, len(key) // (4 * _SAMPLE))
    groups, values = key[::step] + 1, column[::step]
    usual = np.full(int(key.max()) + 2, int(np.median(values)), dtype=np.int64)
    order = np.lexsort((values, groups))
    groups, values = groups[order], values[order]
    found, first, count = np.unique(groups, return_index=True, return_counts=True)
    usual[found] = values[first + count // 2]
    return usual


def _zeroth(values: Ints, predictions: Ints) -> int:
    """Return a prediction of the first value whose error equals that of the second row."""
    return int(values[0] - values[1] + predictions[0]) if len(values) > 1 else 0


def _cost(residual: Ints) -> int:
    """Estimate the size in bytes of a deflated sample of differences."""
    shifted = residual - residual.min()
    width = (int(shifted.max()).bit_length() + 7) // 8
    if not width:
        return 0
    planes = np.ascontiguousarray(shifted.view(np.uint8).reshape(-1, 8)[:, :width].T)
    return len(zlib.compress(planes.data, 1))


def _part(plane: Bytes) -> bytes:
    """Return a plane as deflate blocks that end on a byte and are independent of earlier ones."""
    middle = max(0, len(plane) // 2 - _SAMPLE)
    sample = plane[middle:middle + 2 * _SAMPLE].tobytes()
    strategy, level = min(_WAYS, key=lambda way: len(_blocks(sample, *way)))
    if len(_blocks(sample, strategy, level)) > _STORED * len(sample):
        level = 0
    return _blocks(plane.data, strategy, level)


def _blocks(data: Any, strategy: int, level: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
    return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)

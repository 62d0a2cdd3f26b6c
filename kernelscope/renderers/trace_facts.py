"""Everything known about a slice of a trace: names, arguments, times and arrows, looked up once for all lanes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from kernelscope.analysis.cells import by_cell
from kernelscope.analysis.columns import Bools, Ints, codes, ints, matches, ran, row_count
from kernelscope.analysis.ranges import SEPARATOR, UNNAMED, attribute, attribute_activities
from kernelscope.recording.model import Recording
from kernelscope.renderers.base import clean, dims, stream
from kernelscope.renderers.lanes import OPEN, Arguments, Part, Slices, Words, combinations
from kernelscope.renderers.trace_calls import CALL_FLOW, LAUNCH_FLOW, called_activities, is_timed
from kernelscope.schema import UNKNOWN

_SPECIALIZATION_FACTS = {
    "signature": "signature", "compute_capability": "compute capability", "regs": "registers",
    "static_shared_bytes": "static shared memory (bytes)", "local_bytes": "local memory (bytes)",
    "launch_config_sensitive": "launch-config sensitive", "origin": "origin",
}
_COMPILE_FACTS = {
    "trigger": "trigger", "outcome": "outcome", "signature": "signature", "reason_code": "reason code",
    "reason": "reason", "fix": "fix", "cache_file": "cache file", "error": "error", "wait_ns": "wait_ns",
    "launch_id": "launch", "compilation_id": "compilation",
}
_EVENT_FACTS = {"outcome": "outcome", "error": "error", "change": "changed", "changes": "changes", "api": "api"}
_BUILD_FACTS = {
    "framework": "framework", "outcome": "outcome", "reason_code": "reason code", "reason": "reason", "fix": "fix",
    "differing_parts": "differs in", "key_parts": "key", "build_ns": "build_ns", "error": "error",
    "launch_id": "launch", "build_id": "build",
}


class Facts:
    """Looks up what a recording says about each slice; text in it is clean of control characters.

    Parameters
    ----------
    recording : Recording
        What to look in.
    """

    outcomes: Mapping[str, str] = {"compiled": "compile", "disk": "load from disk", "wait": "wait for the compile of",
                                   "failed": "failed compile"}

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    @cached_property
    def cells(self) -> list[str]:
        """Each cell's label, such as ``In [7] sweep``."""
        return [clean(cell.label) for cell in by_cell(self.recording)]

    @cached_property
    def kernels(self) -> list[str]:
        """Each dispatcher's name."""
        return [clean(row["name"]) for row in self.recording.rows("dispatchers")]

    @cached_property
    def threads(self) -> list[str]:
        """Each host thread's name."""
        known = {row["thread_id"]: clean(row["name"] or "") for row in self.recording.rows("threads")}
        highest = max([*known, *(int(ints(self.recording, table, "thread_id").max(initial=UNKNOWN))
                                 for table in ("launches", "compilations", "ranges", "graph_events", "builds",
                                               "api_calls", "activities"))],
                      default=UNKNOWN)
        return [known.get(at) or f"thread {at}" for at in range(highest + 1)]

    @cached_property
    def domains(self) -> list[str]:
        """The NVTX domains, without the default one."""
        return [clean(word) for word in codes(self.recording, "ranges", "domain")[1]]

    def device(self, number: int) -> str:
        """Return what to call a device; -1 is one that is not known."""
        if number == UNKNOWN:
            return "GPU (device unknown)"
        row = self._devices[number]
        ordinal = number if row["ordinal"] is None else row["ordinal"]
        return clean(f"GPU {ordinal}" + (f" · {row['name']}" if row["name"] else ""))

    @cached_property
    def _devices(self) -> list[dict[str, Any]]:
        return self.recording.rows("devices")

    # ---- Arguments ----

    def cell_arguments(self, row: Mapping[str, Any]) -> Arguments:
        """Return a cell's arguments."""
        held = {"status": row["status"], "error": row["error"], "source": row["source"]}
        return {name: clean(value) for name, value in held.items() if value}

    def in_cell(self, cell: int) -> dict[str, str | int | float]:
        """Return the argument that names a cell."""
        return {"cell": self.cells[cell]} if 0 <= cell < len(self.cells) else {}

    def compile_arguments(self, row: Mapping[str, Any]) -> Arguments:
        """Return a compile's arguments: why it was needed, and what would avoid it."""
        cell = self.in_cell(UNKNOWN if row["cell_id"] is None else row["cell_id"])
        where = {} if row["configuration_id"] is None else self.configuration_arguments(row["configuration_id"])
        return _facts(row, _COMPILE_FACTS) | where | cell

    def graph_event_arguments(self, number: int) -> Arguments:
        """Return the arguments of an event in the life of a graph."""
        source: Any = self.recording.arrow("graph_events")
        row = source.slice(number, 1).to_pylist()[0]
        return _facts(row, _EVENT_FACTS) | self.in_cell(UNKNOWN if row["cell_id"] is None else row["cell_id"])

    def build_arguments(self, row: Mapping[str, Any]) -> Arguments:
        """Return the arguments of a request to a build cache."""
        return _facts(row, _BUILD_FACTS) | self.in_cell(UNKNOWN if row["cell_id"] is None else row["cell_id"])

    def specialization_arguments(self, number: int | None) -> dict[str, str | int | float]:
        """Return the arguments of a specialization; nothing for None and for -1."""
        if number is None or number < 0:
            return {}
        return _facts(self._specializations[number], _SPECIALIZATION_FACTS)

    def configuration_arguments(self, number: int) -> dict[str, str | int | float]:
        """Return the arguments of a launch configuration; nothing for -1."""
        if number < 0:
            return {}
        row = self._configurations[number]
        held: dict[str, str | int | float] = {
            word: dims([row[f"{word}dim_{axis}"] for axis in "xyz"])
            for word in ("grid", "block") if row[f"{word}dim_x"] is not None
        }
        if row["cluster_x"] is not None:
            held["cluster"] = dims([row[f"cluster_{axis}"] or 1 for axis in "xyz"])
        if row["sharedmem_bytes"] is not None:
            held["shared memory (bytes)"] = row["sharedmem_bytes"]
        if row["stream"] is not None:
            held["stream"] = stream(row["stream"])
        return held

    @cached_property
    def _specializations(self) -> list[dict[str, Any]]:
        return self.recording.rows("specializations")

    @cached_property
    def _configurations(self) -> list[dict[str, Any]]:
        return self.recording.rows("configurations")

    # ---- Launches ----

    def launch_slices(self) -> Slices:
        """Return all launches, in order, with their phases as parts."""
        recording = self.recording
        start, end = ints(recording, "launches", "start_ns"), ints(recording, "launches", "end_ns")
        bounds = [ints(recording, "launches", name) for name in ("dispatch_end_ns", "submit_start_ns", "submit_end_ns")]
        # Without its end a launch is drawn as far as it is known; where nothing is, as an instant.
        reached = np.maximum.reduce(bounds)
        end = np.where(end >= 0, end, np.where(reached > start, reached, UNKNOWN))
        dispatcher = ints(recording, "launches", "dispatcher_id")
        cache, caches = codes(recording, "launches", "cache")
        error, errors = codes(recording, "launches", "error")
        ended = ints(recording, "launches", "end_ns") >= 0
        columns = (ints(recording, "launches", "specialization_id"), ints(recording, "launches", "configuration_id"),
                   ints(recording, "launches", "device_id"), ints(recording, "launches", "cell_id"), cache, error,
                   self.launch_paths.codes, ended.astype(np.int64))
        detail, distinct = combinations(*columns)

        def described(code: int) -> Arguments:
            spec, configuration, device, cell, source, failed, path, whole = distinct[code].tolist()
            held = self.configuration_arguments(configuration) | self.specialization_arguments(spec)
            held |= {} if device == UNKNOWN else {"device": self.device(device)}
            held |= {} if source == UNKNOWN else {"cache": caches[source]}
            held |= {} if failed == UNKNOWN else {"error": clean(errors[failed])}
            held |= {} if path == UNKNOWN else {"ranges": self.launch_paths.values[path]}
            held |= {} if whole else {"end": "not recorded"}
            return held | self.in_cell(cell)

        count = len(start)
        numbers = {"launch": np.arange(count)}
        for argument, column in (("parent launch", "parent_launch_id"), ("correlation_id", "correlation_id"),
                                 ("queue_ns", "queue_ns"), ("execute_ns", "execute_ns"),
                                 ("compilation", "compilation_id"), ("captured by event", "capture_event_id"),
                                 ("graph node", "graph_node_id")):
            numbers[argument] = ints(recording, "launches", column)
        # An arrow leads to the first activity of a launch: a flow ends where it arrives.
        has_kernel = np.zeros(count, dtype=np.bool_)
        made = ints(recording, "activities", "launch_id")[self.arrivals]
        has_kernel[made] = True
        return Slices(
            start, end, Words(dispatcher, self.kernels),
            Words(np.where(ran(recording), 0, 1), ["launch", "captured launch"]),
            Words(detail, []), described, numbers,
            flow_out=np.where(has_kernel, np.arange(count) + LAUNCH_FLOW, 0), parts=self._phases(start, end, bounds))

    def _phases(self, start: Ints, end: Ints, bounds: list[Ints]) -> tuple[Part, ...]:
        """The phases as parts; a compile lies inside its dispatch, at its own times where they are known."""
        dispatched, submitting, submitted = bounds
        dispatch = _part("dispatch", start, dispatched, start, end)
        took = ints(self.recording, "launches", "compile_ns")
        inside = np.flatnonzero((took > 0) & (dispatch.end >= 0))
        begun, done = np.full(len(start), UNKNOWN, dtype=np.int64), np.full(len(start), UNKNOWN, dtype=np.int64)
        if len(inside):
            which = ints(self.recording, "launches", "compilation_id")[inside]
            asked = np.append(ints(self.recording, "compilations", "start_ns"), UNKNOWN)[which]
            first, last = dispatch.start[inside], dispatch.end[inside]
            known = (asked >= first) & (asked + took[inside] <= last)
            begun[inside] = np.where(known, asked, np.maximum(last - took[inside], first))
            done[inside] = np.minimum(begun[inside] + took[inside], last)
        return (
            Part("dispatch", dispatch.start, dispatch.end, Part("compile", begun, done)),
            _part("prepare", dispatched, submitting, start, end),
            _part("submit", submitting, submitted, start, end),
            _part("finish", submitted, ints(self.recording, "launches", "end_ns"), start, end),
        )

    @cached_property
    def launch_paths(self) -> Words:
        """Each launch's path of NVTX ranges."""
        paths = self.range_paths
        inside = attribute(self.recording)
        return Words(np.append(paths.codes, UNKNOWN)[inside], paths.values)

    # ---- NVTX ----

    @cached_property
    def range_paths(self) -> Words:
        """Each range's path: its name behind those of the ranges around it."""
        parents = ints(self.recording, "ranges", "parent_range_id").tolist()
        known: dict[tuple[int, int], int] = {}
        paths: list[str] = []
        path_of: list[int] = []
        for row, (name, parent) in enumerate(zip(self.range_names.codes.tolist(), parents, strict=True)):
            around = path_of[parent] if 0 <= parent < row else UNKNOWN
            number = known.setdefault((around, name), len(paths))
            if number == len(paths):
                text = self.range_names.values[name]
                paths.append(text if around == UNKNOWN else f"{paths[around]}{SEPARATOR}{text}")
            path_of.append(number)
        return Words(np.array(path_of, dtype=np.int64), paths)

    @cached_property
    def range_names(self) -> Words:
        """Each range's message."""
        source: Any = self.recording.arrow("ranges").column("name").combine_chunks().dictionary_encode()
        values = [clean(name) if name else UNNAMED for name in source.dictionary.to_pylist()]
        return Words(np.asarray(source.indices.to_numpy(zero_copy_only=False), dtype=np.int64), values)

    def range_times(self) -> tuple[Ints, Ints]:
        """Return the ranges' times: the recording's first instant for an unseen start, `OPEN` for an unseen end."""
        start, end = ints(self.recording, "ranges", "start_ns"), ints(self.recording, "ranges", "end_ns")
        return np.where(start < 0, self.first_ns, start), np.where(end < 0, OPEN, end)

    @cached_property
    def first_ns(self) -> int:
        """The earliest time of the recording."""
        found: list[int] = []
        for table in ("cells", "launches", "compilations", "ranges", "activities", "api_calls", "graph_events",
                      "builds"):
            times = ints(self.recording, table, "start_ns")
            found += times[times >= 0][:1].tolist() if table != "cells" else times.tolist()
            ends = ints(self.recording, table, "end_ns") if table == "ranges" else times[:0]
            found += [int(each) for each in ends[ends >= 0][:1]]
        return min(found, default=0)

    def range_arguments(self, row: int) -> Arguments:
        """Return a range's arguments; its color stands here because viewers choose their own."""
        held = {name: values[row] for name, values in self._range_texts.items() if values[row] is not None}
        if self._range_unseen[row]:
            held["start"] = "before recording began"
        cell = int(self._range_cells[row])
        return {name: clean(value) for name, value in held.items()} | self.in_cell(cell)

    @cached_property
    def _range_texts(self) -> dict[str, list[str | None]]:
        source: Any = self.recording
        return {name: source.arrow("ranges").column(name).to_pylist()
                for name in ("domain", "color", "payload", "kind", "source")}

    @cached_property
    def _range_unseen(self) -> list[bool]:
        return (ints(self.recording, "ranges", "start_ns") < 0).tolist()

    @cached_property
    def _range_cells(self) -> Ints:
        return ints(self.recording, "ranges", "cell_id")

    # ---- The GPU ----

    @cached_property
    def timed(self) -> Bools:
        """Which activities can be drawn."""
        return is_timed(self.recording)

    @cached_property
    def arrivals(self) -> Ints:
        """The activities at which arrows end: the first of each launch, kernels before copies."""
        launch = ints(self.recording, "activities", "launch_id")
        kernel = matches(self.recording, "activities", "kind", "kernel")
        waits = matches(self.recording, "activities", "kind", "sync")
        drawn = np.flatnonzero((launch >= 0) & (launch < row_count(self.recording, "launches")) & self.timed & ~waits)
        drawn = drawn[np.argsort(~kernel[drawn], kind="stable")]
        return drawn[np.unique(launch[drawn], return_index=True)[1]]

    def activity_slices(self) -> Slices:
        """Return all activities, in order."""
        recording = self.recording
        start, end = ints(recording, "activities", "start_ns"), ints(recording, "activities", "end_ns")
        kind, kinds = codes(recording, "activities", "kind")
        name, names = codes(recording, "activities", "name")
        api, apis = codes(recording, "activities", "api")
        memory, memories = codes(recording, "activities", "memory")
        launch = ints(recording, "activities", "launch_id")
        graph = ints(recording, "activities", "cupti_graph_id")
        path = np.append(self.range_paths.codes, UNKNOWN)[attribute_activities(recording)]
        kernel = matches(recording, "activities", "kind", "kernel")
        # The driver's name of a kernel of ours is a mangled one; what its author calls it is the dispatcher's.
        spec_of = ints(recording, "activities", "specialization_id")
        ours = spec_of >= 0
        dispatcher = np.append(ints(recording, "specializations", "dispatcher_id"), UNKNOWN)[spec_of]
        shown = np.where(ours, dispatcher + len(names), name)
        detail, distinct = combinations(
            spec_of, np.where(ours, name, UNKNOWN), ints(recording, "activities", "configuration_id"),
            ints(recording, "activities", "cell_id"), ints(recording, "activities", "thread_id"),
            ints(recording, "activities", "regs"), api, memory, path,
            (kernel & (launch < 0) & (graph < 0)).astype(np.int64))

        def described(code: int) -> Arguments:
            spec, function, configuration, cell, thread, regs, call, between, ranges, other = distinct[code].tolist()
            held = self.configuration_arguments(configuration) | self.specialization_arguments(spec)
            held |= {} if function == UNKNOWN else {"function": clean(names[function])}
            held |= {} if regs == UNKNOWN else {"registers": regs}
            held |= {} if between == UNKNOWN else {"memory": clean(memories[between])}
            held |= {} if call == UNKNOWN else {"api": clean(apis[call])}
            held |= {} if ranges == UNKNOWN else {"ranges": self.range_paths.values[ranges]}
            held |= {} if thread == UNKNOWN else {"thread": self.threads[thread]}
            held |= {"launched by": "other"} if other else {}
            return held | self.in_cell(cell)

        flow_in = np.zeros(len(start), dtype=np.int64)
        flow_in[self.arrivals] = launch[self.arrivals] + LAUNCH_FLOW
        called = called_activities(recording)
        flow_in[called] = ints(recording, "activities", "correlation_id")[called] + CALL_FLOW
        numbers = {"activity": np.arange(len(start)), "launch": launch}
        for argument, column in (("correlation_id", "correlation_id"), ("bytes", "size_bytes"),
                                 ("graph event", "graph_event_id"), ("graph node", "graph_node_id"),
                                 ("cupti_graph_id", "cupti_graph_id"), ("cupti_node_id", "cupti_node_id")):
            numbers[argument] = ints(recording, "activities", column)
        return Slices(start, end, Words(shown, [*map(clean, names), *self.kernels]), Words(kind, list(kinds)),
                      Words(detail, []), described, numbers, flow_in=flow_in)


def _part(name: str, start: Ints, end: Ints, first: Ints, last: Ints) -> Part:
    """A part inside its slice: where either end of it is unknown there is none."""
    known = (start >= 0) & (end >= 0) & (start >= first) & (end <= last) & (start <= end)
    return Part(name, np.where(known, start, UNKNOWN), np.where(known, end, UNKNOWN))


def _facts(row: Mapping[str, Any], wanted: Mapping[str, str]) -> dict[str, str | int | float]:
    held: dict[str, str | int | float] = {}
    for column, name in wanted.items():
        value = row[column]
        if isinstance(value, bool):
            held[name] = "yes" if value else "no"
        elif value is not None and value != "":
            held[name] = clean(value) if isinstance(value, str) else value
    return held

"""A recording as a trace for the Perfetto UI (https://ui.perfetto.dev), in protobuf or in Chrome's JSON."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.schema import UNKNOWN
from kernelscope.views.base import Progress, checked, clean, whole_file
from kernelscope.views.timeline.build import timeline_of
from kernelscope.views.timeline.trace import (
    OPEN,
    Part,
    StackFrames,
    TraceLane,
    TraceSlices,
    TraceTrack,
    clock_of,
    lanes,
)

# Lanes as a trace in Chrome's JSON, which the Perfetto UI opens too: for where the ``perfetto`` package is missing.
#
# It is four times as large, and its times are microseconds with three decimals. The format knows processes and
# threads only: a group is a process here, and a lane a thread of it.

_CHUNK = 1 << 13


class JsonWriter:
    """Writes lanes into an open file, one after the other; has the methods of `ProtoWriter`, and `end`.

    Parameters
    ----------
    file : binary file
        Where to.
    seed : str
        Not used: this format's tracks have numbers.
    """

    def __init__(self, file: IO[bytes], seed: str) -> None:
        self._file = file
        self._first = True
        self._processes: dict[tuple[str, ...], int] = {}
        self._names: dict[tuple[str, ...], str] = {}
        self._threads = 0
        self._frames: StackFrames | None = None

    def begin(self, clock: Mapping[str, Any], name: str, about: str) -> None:
        """Write the head, with the host clock's relation to wall time."""
        head = json.dumps({"displayTimeUnit": "ns", "otherData": {"name": name, "about": about, "clock": dict(clock)}})
        self._file.write(head[:-1].encode() + b', "traceEvents": [\n')

    def group(self, track: TraceTrack) -> None:
        """Keep the name of a group: the innermost one around a lane is a process of this format."""
        self._names[track.path] = " · ".join(
            [*(self._names[track.path[:depth]] for depth in range(1, len(track.path))[-1:]), track.name])

    def lane(self, lane: TraceLane, told: Callable[[int], None]) -> None:
        """Write a lane, and tell `told` after each chunk how many slices it had."""
        group = lane.track.path[:-1]
        if group not in self._processes:
            self._processes[group] = len(self._processes) + 1
            self._name("process", self._processes[group], 0, self._names.get(group, "KernelScope"))
        pid = self._processes[group]
        if lane.slices.values is not None:
            name = json.dumps(lane.track.name)
            times, values = lane.slices.steps()
            self._write([f'{{"name":{name},"ph":"C","ts":{_us(time)},"pid":{pid},"args":{{"%":{value:g}}}}}'
                         for time, value in zip(times.tolist(), values.tolist(), strict=True)])
            told(len(lane.slices))
            return
        self._threads += 1
        tid = self._threads
        self._name("thread", pid, tid, lane.track.name)
        self._frames = lane.slices.frames or self._frames
        for start in range(0, len(lane.slices), _CHUNK):
            chunk = lane.slices.take(slice(start, start + _CHUNK))
            self._write(_events(chunk, f'"pid":{pid},"tid":{tid}'))
            told(len(chunk))

    def end(self) -> None:
        """Write the end, with the frames that slices name by number."""
        self._file.write(b"\n]")
        if self._frames is not None:
            frames = {str(at): {"category": "Python", "name": self._frames.labels[label],
                                **({"parent": str(above)} if above >= 0 else {})}
                      for at, (above, label) in enumerate(zip(self._frames.parent.tolist(),
                                                              self._frames.label.tolist(), strict=True))}
            self._file.write(b',\n"stackFrames": ' + json.dumps(frames).encode())
        self._file.write(b"}\n")

    def _name(self, kind: str, pid: int, tid: int, name: str) -> None:
        rank = pid if kind == "process" else tid
        self._write([
            json.dumps({"ph": "M", "name": f"{kind}_name", "pid": pid, "tid": tid, "args": {"name": name}}),
            json.dumps({"ph": "M", "name": f"{kind}_sort_index", "pid": pid, "tid": tid,
                        "args": {"sort_index": rank}}),
        ])

    def _write(self, events: list[str]) -> None:
        self._file.write((("" if self._first else ",\n") + ",\n".join(events)).encode())
        self._first = False


def _events(slices: TraceSlices, place: str) -> list[str]:
    """Return the events of some slices as text."""
    names = [json.dumps(name) for name in slices.names.values]
    categories = [json.dumps(name) for name in slices.categories.values]
    details = slices.details.codes.tolist() if slices.details is not None else [UNKNOWN] * len(slices)
    described: dict[int, str] = {UNKNOWN: ""}
    for code in set(details) - {UNKNOWN}:
        described[code] = json.dumps(slices.described(code))[1:-1]
    numbers = [(json.dumps(name), values.tolist()) for name, values in slices.numbers.items()]
    flow_out = slices.flow_out.tolist() if slices.flow_out is not None else None
    flow_in = slices.flow_in.tolist() if slices.flow_in is not None else None
    stacks = slices.stacks.tolist() if slices.stacks is not None else None
    rows = zip(slices.start.tolist(), slices.end.tolist(), slices.names.codes.tolist(),
               slices.categories.codes.tolist(), details, strict=True)
    parts = _parts(slices.parts)
    events: list[str] = []
    for at, (start, end, name, category, detail) in enumerate(rows):
        held = [f"{key}:{values[at]}" for key, values in numbers if values[at] >= 0]
        held += [described[detail]] if described[detail] else []
        time = _us(start)
        kind = '"ph":"i","s":"t"' if end < start else '"ph":"B"'
        if start <= end < OPEN:
            kind = f'"ph":"X","dur":{_us(end - start)}'
        path = f'"sf":{stacks[at]},' if stacks and stacks[at] >= 0 else ""
        events.append(f'{{"name":{names[name]},"cat":{categories[category]},{kind},"ts":{time},{place},{path}'
                      f'"args":{{{",".join(held)}}}}}')
        for title, begins, ends in parts:
            if begins[at] >= 0:
                events.append(f'{{"name":"{title}","cat":"phase","ph":"X","ts":{_us(begins[at])},'
                              f'"dur":{_us(ends[at] - begins[at])},{place}}}')
        if flow_out and flow_out[at]:
            events.append(f'{{"name":"launch","cat":"flow","ph":"s","id":{flow_out[at]},"ts":{time},{place}}}')
        if flow_in and flow_in[at]:
            events.append(
                f'{{"name":"launch","cat":"flow","ph":"f","bp":"e","id":{flow_in[at]},"ts":{time},{place}}}')
    return events


def _parts(parts: tuple[Part, ...]) -> list[tuple[str, list[int], list[int]]]:
    found: list[tuple[str, list[int], list[int]]] = []
    for part in parts:
        found.append((part.name, part.start.tolist(), part.end.tolist()))
        found += _parts(part.inner)
    return found


def _us(time: int) -> str:
    return f"{time // 1000}.{time % 1000:03}"


def has_package() -> bool:
    """Return whether a ``perfetto`` package with a trace builder (since 2025) is installed."""
    try:
        return importlib.util.find_spec("perfetto.trace_builder.proto_builder") is not None
    except ModuleNotFoundError:
        return False


def to_perfetto(
    recording: Recording, path: str | Path, *, paths: bool = False, progress: Progress | None = None
) -> Path:
    """Write a Perfetto trace and return its path.

    The trace has the lanes of the timeline: cells, NVTX ranges by domain, host threads with launches, phases and
    compiles, and the streams of each GPU with what its counters said; arrows lead from launches to kernels. Launches,
    compiles and activities have their call paths where these were recorded. Times are the recording's own nanoseconds,
    all moved by as much as it takes where some of these are below zero; a clock snapshot says where they stand in wall
    time. An activity without a start is left out.

    Parameters
    ----------
    recording : Recording
        What to write.
    path : str or Path
        Where to. A name that ends in ``.json`` gets Chrome's JSON. Any other gets protobuf, with ``.pftrace`` added
        to a name without a suffix; where the ``perfetto`` package is missing, it gets JSON and the suffix ``.json``.
    paths : bool
        Keep full file paths of this machine.
    progress : callable, optional
        Called with a fraction from 0 to 1 and a text, some times a second.

    Returns
    -------
    Path
        The file that was written. It appears whole or not at all.

    Raises
    ------
    RecordingFileError
        It cannot be written.
    """
    target = checked(path)
    binary = target.suffix != ".json" and has_package()
    if not binary:
        target = target.with_suffix(".json")
    elif not target.suffix:
        target = target.with_name(target.name + ".pftrace")
    shown = shareable(recording, paths=paths)
    with whole_file(target) as file:
        _write(shown, file, binary, target.name, progress)
    if progress:
        progress(1.0, f"wrote {target.name}")
    return target


def _write(recording: Recording, file: IO[bytes], binary: bool, name: str, progress: Progress | None) -> None:
    made: Any = JsonWriter
    if binary:
        from kernelscope.views.timeline.protobuf import ProtoWriter as made
    title = clean(recording.name or "KernelScope")
    seed = f"{recording.metadata.get('created')} {title}"
    writer: Any = made(file, seed)
    timeline = timeline_of(recording)
    # The description of a trace: the recording's notice, and what made the trace.
    parts = [recording.notice, "Made by KernelScope; times are nanoseconds of the host's monotonic clock."]
    writer.begin(clock_of(timeline)[0], title, " ".join(part for part in parts if part))
    written: set[tuple[str, ...]] = set()
    total = max(sum(map(len, timeline.tables.values())), 1)
    done = 0

    def told(count: int) -> None:
        nonlocal done
        done += count
        if progress:
            progress(min(done / total, 1.0), f"writing {name}")

    for lane in lanes(timeline):
        for group in lane.groups:
            if group.path not in written:
                writer.group(group)
                written.add(group.path)
        writer.lane(lane, told)
    if not binary:
        writer.end()

"""The GPU's side through Kineto, the library of torch.profiler, in a process where that has CUPTI."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from kernelscope.clock import Alignment, Clock, align, now
from kernelscope.probes.base import ImportHook, Patches
from kernelscope.probes.cupti.records import on_host
from kernelscope.probes.cupti.tracing import is_recorded
from kernelscope.probes.sink import KERNEL, MEMCPY, MEMSET, SYNC, GpuColumns, Places
from kernelscope.schema import UNKNOWN

# CUPTI has one client a process before CUDA 13.3, and once torch.profiler has run that is Kineto until the process
# ends, also where it profiled the CPU only. Where torch's profiler starts for the first time and finds us there it gets
# no GPU events (both seen with torch 2.11): so we let go before it starts, and from then on ask Kineto for its records.
#
# Kineto has one session at a time: another one ends the first without a result. So ours ends before the user's begins,
# the next begins after it, and what the user's has recorded meanwhile is read from its result, which stays whole. Its
# records have no lines, no ids of graphs and nodes, no results of calls, and fewer of the driver's calls than CUPTI's.

_PROFILER = "torch.autograd.profiler"


class Record(NamedTuple):
    """One record of Kineto: what is not known is None.

    Attributes
    ----------
    kind : int or None
        `KERNEL`, `MEMCPY` or `MEMSET`; None for a call of the driver or the runtime.
    name : str
        The kernel's readable name, ``Memcpy HtoD (Pageable -> Device)``, or the function's.
    start_ns, end_ns : int
        On the wall clock.
    correlation_id : int
        CUPTI's.
    thread : int or None
        Of a call, the lower 32 bits of the thread's ident.
    device, stream, size_bytes, regs : int or None
        Of an activity.
    shape : tuple of int or None
        Grid and block of a kernel.
    """

    kind: int | None
    name: str
    start_ns: int
    end_ns: int
    correlation_id: int
    thread: int | None = None
    device: int | None = None
    stream: int | None = None
    size_bytes: int | None = None
    regs: int | None = None
    shape: tuple[int | None, ...] | None = None


class Kineto:
    """Sessions of Kineto, one after another; what they recorded, in columns.

    Parameters
    ----------
    columns : GpuColumns
        What is added to.
    clock : callable
        The host clock, in nanoseconds.

    Attributes
    ----------
    clock_error_ns : float
        How far the host clock and the wall clock, which Kineto's times are on, can be off.
    is_on : bool
        Whether a session of ours is under way.
    """

    def __init__(self, columns: GpuColumns, clock: Clock = now) -> None:
        self.columns = columns
        self.clock_error_ns = 0.0
        self.is_on = False
        self._clock = clock
        self._readings: list[Alignment] = []
        self._graphs: dict[tuple[tuple[int, int], ...], int] = {}
        self._ended: Future[Any] | None = None
        # A session belongs to the thread that began it; who begins and ends recordings may be different ones.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kernelscope-kineto")
        self._read_clocks()
        #: What ended before is of an earlier recording.
        self._since = self._readings[0].wall_ns

    def begin(self) -> None:
        """Begin a session, unless one is under way."""
        if self.is_on:
            return
        autograd, config, activities = _settings()

        def enable() -> None:
            autograd._prepare_profiler(config, activities)
            autograd._enable_profiler(config, activities)

        self.is_on = True  # before: what a Ctrl-C interrupts here is ended by `end`
        self._thread.submit(enable).result()

    def end(self) -> None:
        """End the session that is under way, and read it; what a Ctrl-C interrupts, the next call takes up."""
        if not self.is_on:
            return
        if self._ended is None:
            self._ended = self._thread.submit(sys.modules["torch.autograd"]._disable_profiler)
        try:
            result = self._ended.result()
        except Exception:
            self.is_on, self._ended = False, None
            raise
        self.is_on, self._ended = False, None
        self._add(_of_file(result))

    def close(self) -> None:
        """Let the thread go."""
        self._thread.shutdown(wait=False)

    def leave(self) -> None:
        """Let the session be: the interpreter ends, and the process with it."""
        self.is_on = False

    def add_result(self, result: Any) -> None:
        """Read the result of a session of the user's, which stays as it is."""
        self._add(_of_events(result.events()))

    def _read_clocks(self) -> None:
        reading = align(self._clock)
        self.clock_error_ns = max(self.clock_error_ns, float(reading.error_ns))
        self._readings.append(reading)

    def _add(self, records: Iterable[Record]) -> None:
        self._read_clocks()
        rows = [each for each in records if each.end_ns >= self._since]
        activities = [each for each in rows if each.kind is not None]
        calls = [each for each in rows if each.kind is None and is_recorded(each.name)]
        known = {each.correlation_id: each for each in reversed(calls)}
        graphs = self._graph_ids([each for each in activities if "GraphLaunch" in _name(known, each)])
        waits = [each for each in calls if each.name.endswith("Synchronize")]
        names, shapes = Places(self.columns.names), _Shapes(self.columns.shapes)
        self.columns.extend([{
            **self._common([*activities, *waits]),
            "kind": _column([SYNC if each.kind is None else each.kind for each in (*activities, *waits)]),
            "name": _column([*(names.place(_readable(each)) for each in activities),
                             *(names.place(_wait(each.name)) for each in waits)]),
            "memory": _column([_placed(names, _memory(each)) for each in (*activities, *waits)]),
            **{name: _column([getattr(each, name) for each in (*activities, *waits)])
               for name in ("device", "stream", "size_bytes", "regs")},
            "shape": _column([shapes.place(each.shape) for each in (*activities, *waits)]),
            "cupti_graph_id": _column([graphs.get(each.correlation_id) for each in (*activities, *waits)]),
        }], [{
            **self._common(calls), "name": _column([names.place(each.name) for each in calls]),
            "ident": _column([each.thread for each in calls]), "result": _column([None] * len(calls)),
        }])

    def _common(self, rows: list[Record]) -> dict[str, np.ndarray]:
        return {
            "start_ns": on_host(np.array([each.start_ns for each in rows], np.int64), self._readings),
            "end_ns": on_host(np.array([each.end_ns for each in rows], np.int64), self._readings),
            "correlation_id": _column([each.correlation_id for each in rows])}

    def _graph_ids(self, activities: list[Record]) -> dict[int, int]:
        """Number the executable graphs of launches by what they ran, which is all that is known of them."""
        ran: dict[int, list[tuple[int, int]]] = {}
        for each in activities:
            ran.setdefault(each.correlation_id, []).append((hash(each.name), hash(each.shape)))
        return {correlation: self._graphs.setdefault(tuple(sorted(parts)), len(self._graphs) + 1)
                for correlation, parts in ran.items()}


def _settings() -> tuple[Any, Any, Any]:
    """Return ``torch.autograd``, and the settings of a session that records the GPU's side only.

    Raises
    ------
    CuptiError
        This torch has another profiler.
    """
    autograd: Any = sys.modules["torch.autograd"]
    config = autograd.ProfilerConfig(
        autograd.ProfilerState.KINETO, False, False, False, False, False,
        sys.modules["torch"]._C._profiler._ExperimentalConfig())  # type: ignore[attr-defined]
    return autograd, config, {autograd.ProfilerActivity.CUDA}


def is_available() -> bool:
    """Return whether torch's profiler is imported and can be asked for the GPU's side."""
    autograd = sys.modules.get("torch.autograd")
    return _PROFILER in sys.modules and all(
        hasattr(autograd, name) for name in ("_prepare_profiler", "_enable_profiler", "_disable_profiler"))


def is_running() -> bool:
    """Return whether a profiler of the user's runs on this thread."""
    kind = getattr(sys.modules["torch"]._C._autograd, "_profiler_type", None)  # type: ignore[attr-defined]
    return kind is not None and "NONE" not in str(kind())


def is_capturing() -> bool:
    """Return whether the current stream of torch captures a graph."""
    cuda: Any = sys.modules.get("torch.cuda")
    return cuda is not None and bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


# What Kineto recorded, as `Record`s: of our own sessions by the trace that it writes, which has grids and registers; of
# the user's by the result's events, because a result can be written as a trace once, and that is the user's.

_CATEGORIES = {"kernel": KERNEL, "gpu_memcpy": MEMCPY, "gpu_memset": MEMSET, "cuda_runtime": None, "cuda_driver": None}


def _of_file(result: Any) -> list[Record]:
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as folder:
        path = Path(folder) / "trace.json"
        result.save(os.fspath(path))
        return [*of_trace(json.loads(path.read_bytes()))]


def of_trace(trace: Mapping[str, Any]) -> Iterator[Record]:
    """Yield the records of a trace that Kineto wrote: the object of its JSON."""
    base = int(trace.get("baseTimeNanoseconds", 0))
    idents = _idents()
    for event in trace["traceEvents"]:
        if event.get("ph") != "X" or event.get("cat") not in _CATEGORIES:
            continue
        said = event.get("args", {})
        start = base + round(event["ts"] * 1000)
        kind = _CATEGORIES[event["cat"]]
        common = kind, event["name"], start, start + round(event["dur"] * 1000), int(said["correlation"])
        if kind is None:
            yield Record(*common, thread=_thread(int(event["tid"]), idents))
        else:
            grid, block = said.get("grid"), said.get("block")
            yield Record(*common, device=said.get("device"), stream=said.get("stream"), size_bytes=said.get("bytes"),
                         regs=said.get("registers per thread"), shape=(*grid, *block) if grid and block else None)


def _idents() -> dict[int, int]:
    """The lower 32 bits of the idents of this process's threads, by what Kineto calls them."""
    threads = [(thread.ident & 0xFFFFFFFF, thread.native_id) for thread in threading.enumerate() if thread.ident]
    # A thread on which the CPU was profiled has the system's number. A trace has the absolute value of a signed number.
    return {name: ident for ident, native in threads for name in (native, -ident & 0xFFFFFFFF, ident) if name}


def _thread(number: int, idents: Mapping[int, int]) -> int:
    return idents.get(number, number & 0xFFFFFFFF)


def _of_events(events: Iterable[Any]) -> Iterator[Record]:
    """Yield the records of a result's events; of these no grid is known."""
    idents = _idents()
    for event in events:
        name, correlation = event.name(), event.correlation_id()
        if not correlation or getattr(event, "is_user_annotation", bool)():
            continue
        on_gpu = str(event.device_type()).endswith("CUDA")
        if not on_gpu and not re.match("cu(da)?[A-Z]", name):
            continue
        start = event.start_ns()
        common = name, start, start + event.duration_ns(), correlation
        if not on_gpu:
            yield Record(None, *common, thread=_thread(event.device_resource_id(), idents))
        else:
            kind = MEMCPY if name.startswith("Memcpy ") else MEMSET if name.startswith("Memset ") else KERNEL
            yield Record(kind, *common, device=event.device_index(), stream=event.device_resource_id())


class _Shapes:
    """Gives launch configurations their places in `GpuColumns.shapes`."""

    def __init__(self, shapes: list[tuple[int | None, ...]]) -> None:
        self._shapes = shapes
        self._places = {shape: place for place, shape in enumerate(shapes)}

    def place(self, shape: tuple[int | None, ...] | None) -> int | None:
        if shape is None:
            return None
        whole = (*shape, None, None, None, None)  # clusters and shared memory are not told apart
        if whole not in self._places:
            self._places[whole] = len(self._shapes)
            self._shapes.append(whole)
        return self._places[whole]


def _column(values: list[Any]) -> np.ndarray:
    return np.array([UNKNOWN if value is None else value for value in values], np.int64)


def _name(calls: Mapping[int, Record], activity: Record) -> str:
    call = calls.get(activity.correlation_id)
    return "" if call is None else call.name


def _readable(each: Record) -> str:
    if each.kind == MEMSET:
        return "memset"
    found = re.match(r"Memcpy (\w+)", each.name) if each.kind == MEMCPY else None
    return found[1] if found else each.name


def _memory(each: Record) -> str | None:
    found = re.search(r"\((.+)\)$", each.name) if each.kind in (MEMCPY, MEMSET) else None
    return found[1].replace(" -> ", " to ").lower().replace(" static", "") if found else None


def _placed(names: Places, text: str | None) -> int | None:
    return None if text is None else names.place(text)


def _wait(function: str) -> str:
    return {"Stream": "stream", "Event": "event"}.get(
        re.sub("^cu(da)?|Synchronize$", "", function), "context") + " synchronize"


class TorchProfilerWatch:
    """Calls back when torch's profiler is about to start, and when it has stopped.

    What it prepares, a step or more before it starts where it has a schedule, it prepares only then: until it starts
    the session is ours.

    Parameters
    ----------
    starts : callable
        Called without arguments, in the thread of the profiler; its exceptions do not reach the user.
    stopped : callable
        Called with the result, or None where there is none.
    """

    def __init__(self, starts: Callable[[], None], stopped: Callable[[Any], None]) -> None:
        self._starts, self._stopped = starts, stopped
        self._patches = Patches()
        self._hook = ImportHook(_PROFILER, self._imported)
        self._preparations: dict[int, Callable[[], Any]] = {}

    def begin(self) -> None:
        """Watch torch's profiler, from its import on where it is not imported yet."""
        self._hook.arm()

    def end(self) -> None:
        """Watch no more."""
        self._hook.disarm()
        self._patches.undo()

    def catch_up(self) -> None:
        """Make the preparations that still wait; after our session has ended."""
        while self._preparations:
            self._preparations.popitem()[1]()

    def _imported(self, module: ModuleType) -> None:
        profile: Any = getattr(module, "profile", None)
        hooked = {"_prepare_trace", "_start_trace", "__exit__"}
        if not isinstance(profile, type) or not hooked <= vars(profile).keys():
            return  # another torch: its profiler and our recording are then in each other's way, as without this

        def make_prepare(original: Any) -> Any:
            preparations = self._preparations

            def prepare(profiler: Any, *args: Any, **kwargs: Any) -> None:
                preparations[id(profiler)] = partial(original, profiler, *args, **kwargs)

            return prepare

        def make_start(original: Any) -> Any:
            starts, preparations = self._starts, self._preparations

            def start(profiler: Any, *args: Any, **kwargs: Any) -> Any:
                starts()
                preparations.pop(id(profiler), bool)()
                return original(profiler, *args, **kwargs)

            return start

        def make_exit(original: Any) -> Any:
            stopped = self._stopped

            def leave(profiler: Any, *args: Any, **kwargs: Any) -> Any:
                try:
                    return original(profiler, *args, **kwargs)
                finally:
                    stopped(getattr(profiler, "kineto_results", None))

            return leave

        self._patches.hook(profile, "_prepare_trace", make_prepare)
        self._patches.hook(profile, "_start_trace", make_start)
        self._patches.hook(profile, "__exit__", make_exit)

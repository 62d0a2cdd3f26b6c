"""Memory and file a launch, and the way from the ring to finished tables, for benchmarks/native.py."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from native_ways import (
    WARM_UP,
    Part,
    Way,
    in_folder,
    journal_way,
    kernel_of,
    launch,
    log_of,
    spread,
    ways,
)

from kernelscope.recorder.recorder import Recorder


def memory(count: int = 1_000_000) -> Part:
    """Bytes that a launch takes: of the process's memory, of the journal's files, and in the finished table."""
    return in_folder(lambda folder: _memory(folder, count))


def _memory(folder: str, count: int) -> Part:
    part = Part()
    compared = ways(("phases",))
    journal = journal_way(folder, "the journal's size", part.missing)
    compared += [] if journal is None else [journal]
    kernel, given = kernel_of(0)
    small = compared[0].start()
    assert small is not None
    launch(kernel, given, WARM_UP)
    small.stop()  # the first one of a process imports what makes the tables
    for way in compared:
        gc.collect()
        recorder = way.start()
        assert recorder is not None
        launch(kernel, given, WARM_UP)
        give_back()
        before = resident()
        gc.disable()
        launch(kernel, given, count)
        gc.enable()
        held = (resident() - before) / count
        files = sizes(folder) if way.journal else {}
        start = time.perf_counter()
        recording = recorder.stop()
        stopped = time.perf_counter() - start
        table = recording.arrow("launches").nbytes / count
        part.add(f"memory a launch, {way.name}: {count:,} launches", f"{held:.1f} B, finished table {table:.0f} B",
                 "64 B", way=way.name, launches=count, resident_bytes=held, table_bytes=table)
        if files:
            words = ", ".join(f"{name} {size / count:.1f} B ({blocks / count:.1f} B of the disk)"
                              for name, (size, blocks) in files.items())
            part.add(f"file a launch, {way.name}", words, "64 B", way=way.name, launches=count, files=files)
        assert recording.arrow("launches").num_rows == count + WARM_UP
        part.add(f"stop() to the recording of {count:,} launches that were made, {way.name}",
                 f"{stopped:.3f} s, {stopped / count * 1e9:.0f} ns a launch", way=way.name, seconds=stopped)
    return part


def give_back() -> None:
    """Give freed memory back to the system, so that what is allocated next is seen in `resident`."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def resident() -> int:
    """Bytes of this process that are in memory, those of mapped files among them."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sizes(folder: str) -> dict[str, tuple[int, int]]:
    """Bytes of each file of the newest journal, and what it takes of the disk."""
    newest = max(Path(folder).iterdir(), key=lambda path: path.stat().st_mtime_ns)
    return {path.name: (path.stat().st_size, path.stat().st_blocks * 512) for path in sorted(newest.iterdir())}


def finished(counts: tuple[int, ...] = (1_000_000, 10_000_000), repeats: int = 5,
             seconds: float = 120.0) -> Part:
    """From the ring to finished tables: nanoseconds an event, of events that were written without launching.

    Some of a stop is no matter of events: hooks are undone, and small tables made. It is said with and without that,
    which is measured with a recording of one launch. The columns alone are asked for first: where memory is new, they
    pay for pages that the stop then finds.

    Parameters
    ----------
    counts : tuple of int
        How many events.
    repeats : int
        How often at most; a third as often of more than a million.
    seconds : float
        How long it repeats.
    """
    part = Part()
    kernel, given = kernel_of(0)
    for count in counts:
        times = repeats if count <= 1_000_000 else max(2, repeats // 3)
        _finish(part, Way("phases", "phases"), kernel, given, count, times, seconds / len(counts))
    return part


def _finish(part: Part, way: Way, kernel: Any, given: tuple[Any, ...], count: int, repeats: int,
            seconds: float) -> None:
    stops: list[float] = []
    of_one: list[float] = []
    columns: list[float] = []
    system: list[float] = []
    until = time.monotonic() + seconds
    for number in range(repeats + 1):
        if number > 1 and time.monotonic() > until:
            break
        once = way.start()
        assert once is not None
        launch(kernel, given, 1)
        alone = timed(once.stop)
        del once
        recorder = way.start()
        assert recorder is not None
        launch(kernel, given, 1)
        write(recorder, count if number else 1000)  # the first recording of a process imports what makes the tables
        taken = timed(log_of(recorder).columns)
        before = in_system()
        stopped = timed(recorder.stop)
        spent = in_system() - before
        made = recorder.recording.arrow("launches").num_rows
        if number:
            assert made == count + 1, f"{way.name}: {made} of {count + 1} events are in the recording"
            stops.append(stopped)
            of_one.append(alone)
            columns.append(taken)
            system.append(spent)
        del recorder
        gc.collect()

    def row(words: str, times: list[float], limit: str = "", *, total: bool = False, **data: Any) -> None:
        said = spread((np.array(times) / count * 1e9).tolist(), "ns an event", 1)
        said += f", {float(np.median(times)):.3f} s" if total else ""
        part.add(f"{words}, {way.name}: {count:,} events", said, limit, way=way.name, events=count, **data)

    limit = "50 ns"
    each = [whole - alone for whole, alone in zip(stops, of_one, strict=True)]
    row("ring to finished tables", stops, limit, total=True, stop_seconds=stops)
    row("the same without what a stop of one launch takes", each, limit, total=True, one_launch_seconds=of_one)
    row("the ring's columns alone, asked for before that", columns, columns_seconds=columns)
    row("of the stop the system's time, for new memory", system, system_seconds=system)


def in_system() -> float:
    """Seconds that this process has spent in the system: to give it memory, above all."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime


def write(recorder: Recorder, count: int) -> None:
    """Write launches as hooks do, one each half microsecond, to what the calling thread last launched."""
    session: Any = recorder._session
    sink = session.sink
    target, configuration = len(sink.targets) - 1, len(sink.configurations) - 1
    put, clock = sink.state().write, sink.seconds
    start = clock()
    for number in range(count):
        begun = start + number * 5e-7
        put(begun, begun + 1e-7, begun + 2e-7, begun + 3e-7, begun + 4e-7, target, configuration)
    while clock() < start + count * 5e-7:  # the cell ends when recording stops, which is after its launches
        time.sleep(0.01)


def timed(call: Callable[[], Any]) -> float:
    """Seconds of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start

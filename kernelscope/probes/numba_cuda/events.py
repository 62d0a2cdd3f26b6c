"""Kernels timed with CUDA events, where CUPTI cannot be had.

Two events stand around each kernel on its stream. They perturb: a launch takes about 20 µs longer (measured, for six
driver calls through Python), the kernel's time has the events' own in it (about 1 to 2 µs), and the first launch on
each device waits for it once.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

import numpy as np

from kernelscope.probes.base import hide_frame, hook_codes
from kernelscope.probes.cupti.records import readable
from kernelscope.probes.driver import stream_handle
from kernelscope.probes.sink import KERNEL, GpuColumns, Places, Sink

#: Each pair of events takes driver memory until recording ends.
MOST_LAUNCHES = 100_000
#: The name under which the calls that the events stand around are shown.
CALL = "cuda.core.launch"

_TRIES = 5
#: Resolution of `cuEventElapsedTime`, in nanoseconds.
_RESOLUTION_NS = 500


class EventTimer:
    """Stands around numba-cuda's driver call and times what it launches."""

    name = "events"

    def __init__(self) -> None:
        self._driver: Any = None
        self._sink: Sink | None = None
        self._devices: dict[int, _DeviceClock] = {}
        self._taken: list[tuple[int, int, int, Any, Any, Any, int]] = []
        self._left_out = 0
        self._columns = GpuColumns(has_correlation=False)
        self._names = Places(self._columns.names)
        self._entries = Places(self._columns.entries)
        self._error_ns = 0.0

    def start(self, sink: Sink, driver: Any) -> None:
        """Begin; `driver` is the module ``cuda.bindings.driver``."""
        self._sink, self._driver = sink, driver

    def around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the driver call `original` with events around the kernel; what it raises and returns is its own."""
        hook_codes.add(self._launch.__func__.__code__)

        # No closure holds the function: `Bindings` would replace it there.
        def launch(stream: Any, config: Any, kernel: Any, *args: Any, original: Any = original) -> Any:
            try:
                return self._launch(original, stream, config, kernel, args)
            except BaseException as error:
                hide_frame(error)
                raise

        hook_codes.add(launch.__code__)
        return launch

    def describe(self, sink: Sink) -> None:
        """Read the times of all kernels that have ended."""
        taken, self._taken = self._taken, []
        if self._driver is None:
            return
        if taken:
            try:
                for clock in self._devices.values():
                    clock.read(self._driver, sink.clock)
                self._read(taken)
            except Exception as problem:  # the context is gone, or a kernel has broken it
                self._swallow(problem)
                self._left_out += len(taken)
        sink.gpu = self._columns
        sink.metadata["gpu"] = {"source": self.name, "clock_error_ns": self._error_ns}
        message = ("kernels were timed with CUDA events, which perturbs: a launch takes about 20 µs longer, and "
                   "kernels seem 1 to 2 µs longer than they are; copies and other libraries' kernels are not seen")
        sink.stated[self.name] = {"probe": self.name, "status": "degraded", "message": message,
                                  "dropped": self._left_out, "clock_error_ns": self._error_ns,
                                  "fix": "with CUPTI it needs neither: pip install 'kernelscope[cupti]'"}

    def _launch(self, original: Callable[..., Any], stream: Any, config: Any, kernel: Any, args: Any) -> Any:
        pair = self._before(stream)
        assert self._sink is not None
        start = self._sink.clock()
        launched = False
        try:
            result = original(stream, config, kernel, *args)
            launched = True
            return result
        except BaseException as error:
            hide_frame(error)
            raise
        finally:
            if pair is not None:
                self._after(pair, start, kernel, launched)

    def _before(self, stream: Any) -> tuple[Any, Any, int, int] | None:
        """Record the first event; None where this kernel is not timed."""
        try:
            if len(self._taken) >= MOST_LAUNCHES:
                self._left_out += 1
                return None
            driver, handle = self._driver, stream_handle(stream)
            if handle and int(_done(driver.cuStreamIsCapturing(driver.CUstream(handle)))):
                return None  # it becomes a node of a graph
            ordinal = int(_done(driver.cuCtxGetDevice()))
            if ordinal not in self._devices:
                assert self._sink is not None
                self._devices[ordinal] = _DeviceClock(int(_done(driver.cuCtxGetCurrent())))
                self._devices[ordinal].read(driver, self._sink.clock)
            first, last = _done(driver.cuEventCreate(0)), _done(driver.cuEventCreate(0))
            pair = first, last, handle, ordinal
            _done(driver.cuEventRecord(first, driver.CUstream(handle)))
            return pair
        except Exception as problem:
            self._swallow(problem)
            return None

    def _after(self, pair: tuple[Any, Any, int, int], start: int, kernel: Any, launched: bool) -> None:
        first, last, handle, ordinal = pair
        try:
            assert self._sink is not None
            end = self._sink.clock()
            if launched:
                _done(self._driver.cuEventRecord(last, self._driver.CUstream(handle)))
                self._taken.append((get_ident(), start, end, first, last, kernel, ordinal))
            else:
                for event in (first, last):
                    self._driver.cuEventDestroy(event)
        except Exception as problem:
            self._swallow(problem)

    def _read(self, taken: list[tuple[int, int, int, Any, Any, Any, int]]) -> None:
        """Turn pairs of events into activities and calls."""
        driver = self._driver
        rows: list[tuple[int, ...]] = []
        calls: list[tuple[int, ...]] = []
        shown: dict[int, tuple[int, int]] = {}
        number = len(self._columns.calls["name"])
        for ident, start, end, first, last, kernel, ordinal in taken:
            begun = ended = -1
            try:
                begun = self._devices[ordinal].host_ns(driver, first)
                ended = begun + round(_done(driver.cuEventElapsedTime(first, last)) * 1e6)
            except Exception as problem:  # not finished, or the kernel failed
                self._swallow(problem)
            for event in (first, last):
                driver.cuEventDestroy(event)
            if id(kernel) not in shown:
                symbol = _name(driver, kernel)
                entry = self._entries.place(symbol) if symbol != "kernel" else -1
                shown[id(kernel)] = self._names.place(readable(symbol)), entry
            name, entry = shown[id(kernel)]
            number += 1
            rows.append((KERNEL, name, entry, ordinal, begun, ended, number))
            calls.append((self._names.place(CALL), ident & 0xFFFFFFFF, start, end, number, 0))
        self._error_ns = max(clock.error_ns for clock in self._devices.values())
        seen = np.array(rows, np.int64).T
        made = np.array(calls, np.int64).T
        self._columns.extend(
            [dict(zip(("kind", "name", "entry", "device", "start_ns", "end_ns", "correlation_id"), seen, strict=True))],
            [dict(zip(("name", "ident", "start_ns", "end_ns", "correlation_id", "result"), made, strict=True))])

    def _swallow(self, problem: Exception) -> None:
        if self._sink is not None:
            self._sink.swallow(self.name, problem)


class _DeviceClock:
    """One device's events on the host clock: by an event at the beginning, and one whenever recording ends."""

    def __init__(self, context: int) -> None:
        self._context = context
        self._marks: list[tuple[int, Any]] = []
        self.error_ns = 0.0

    def read(self, driver: Any, clock: Callable[[], int]) -> None:
        """Take an event's time on the host clock; waits for the device."""
        current = int(_done(driver.cuCtxGetCurrent()))
        if current != self._context:
            _done(driver.cuCtxPushCurrent(driver.CUcontext(self._context)))
        # A stream of its own, and the relaxed mode: the default stream would break a capture that is under way.
        mode = driver.CUstreamCaptureMode
        before_mode = _done(driver.cuThreadExchangeStreamCaptureMode(mode.CU_STREAM_CAPTURE_MODE_RELAXED))
        try:
            stream = _done(driver.cuStreamCreate(int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)))
            try:
                self._marks.append(self._tightest(driver, clock, stream))
            finally:
                driver.cuStreamDestroy(stream)
        finally:
            driver.cuThreadExchangeStreamCaptureMode(before_mode)
            if current != self._context:
                _done(driver.cuCtxPopCurrent())

    def _tightest(self, driver: Any, clock: Callable[[], int], stream: Any) -> tuple[int, Any]:
        """The middle of the tightest of some brackets in which an event was recorded, and that event."""
        best: tuple[int, int, Any] | None = None
        for _ in range(_TRIES):
            event = _done(driver.cuEventCreate(0))
            before = clock()
            _done(driver.cuEventRecord(event, stream))
            _done(driver.cuEventSynchronize(event))
            width = clock() - before
            if best is None or width < best[0]:
                event, best = best[2] if best else None, (width, before + width // 2, event)
            if event is not None:
                driver.cuEventDestroy(event)
        assert best is not None
        self.error_ns = max(self.error_ns, best[0] / 2 + _RESOLUTION_NS)
        return best[1:]

    def host_ns(self, driver: Any, event: Any) -> int:
        """The event's time on the host clock, between the first mark and the last one: the two clocks drift."""
        (first_ns, first), (last_ns, last) = self._marks[0], self._marks[-1]
        since = _done(driver.cuEventElapsedTime(first, event)) * 1e6
        whole = _done(driver.cuEventElapsedTime(first, last)) * 1e6 if last is not first else 0.0
        return first_ns + round(since * ((last_ns - first_ns) / whole) if whole > 0 else since)


def _done(answer: Any) -> Any:
    """What a driver call returned; raises `RuntimeError` where it failed."""
    error, *values = answer
    if int(error):
        raise RuntimeError(f"{error!r}")
    return values[0] if values else None


def _name(driver: Any, kernel: Any) -> str:
    try:
        return _done(driver.cuKernelGetName(driver.CUkernel(int(kernel.handle)))).decode()
    except Exception:
        return "kernel"

"""CUPTI recording: from the subscription to the last record."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelscope.clock import Clock, now
from kernelscope.native import core
from kernelscope.probes.cupti import records
from kernelscope.probes.cupti.library import (
    DRIVER_API,
    RUNTIME_API,
    Captures,
    Cupti,
    CuptiCalls,
    CuptiError,
    Interruptions,
)
from kernelscope.probes.cupti.lines import CallLog, Resolver
from kernelscope.probes.cupti.records import Converter
from kernelscope.probes.sink import DriverCalls, GpuColumns

_KINDS = (records.KERNEL, records.MEMCPY, records.MEMCPY_PEER, records.MEMSET, records.SYNCHRONIZATION,
          records.MARKER, records.MARKER_DATA)
#: Calls that are recorded: those that give the GPU work, wait for it, or are slow.
_CALLS = {
    DRIVER_API: ("cuLaunch", "cuMemcpy", "cuMemset", "cuGraphLaunch", "cuGraphInstantiate", "cuGraphExecUpdate",
                 "cuGraphUpload", "cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuModuleLoad", "cuLibraryLoad",
                 "cuLink", "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize"),
    RUNTIME_API: ("cudaLaunch", "cudaMemcpy", "cudaMemset", "cudaGraphLaunch", "cudaGraphInstantiate",
                  "cudaGraphExecUpdate", "cudaGraphUpload", "cudaMalloc", "cudaFree", "cudaHostAlloc",
                  "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize"),
}
#: Calls that have lines: what they make is an activity.
_WITH_LINES = {
    DRIVER_API: ("cuLaunch", "cuMemcpy", "cuMemset", "cuGraphLaunch", "cuCtxSynchronize", "cuStreamSynchronize",
                 "cuEventSynchronize", "cuEventQuery", "cuStreamWaitEvent"),
    RUNTIME_API: ("cudaLaunch", "cudaMemcpy", "cudaMemset", "cudaGraphLaunch", "cudaDeviceSynchronize",
                  "cudaStreamSynchronize", "cudaEventSynchronize", "cudaEventQuery", "cudaStreamWaitEvent"),
}
_PREFIXES = tuple(prefix for prefixes in _CALLS.values() for prefix in prefixes)
_LOGGED = {domain: tuple({*_CALLS[domain], *_WITH_LINES[domain]}) for domain in _CALLS}


def is_recorded(function: str) -> bool:
    """Return whether calls of a function of the driver or the runtime are recorded, by its name."""
    return function.startswith(_PREFIXES)


_TRIES = 20
#: Brackets wider than this are tried again: something else had the processor.
_TIGHT_NS = 2000
_MOST_TRIES = 500
#: What two readings of the clocks may differ by for each second between them; more, and one of them was set.
_DRIFT = 1e-3
#: Records that ended longer ago than this when recording began were kept by CUPTI, and are of an earlier one.
_MARGIN_NS = 1_000_000
_WAIT_S = 1.0
#: Times that are taken to the host clock at once.
_PART = 16_384


class Tracing:
    """CUPTI's records from now until `end`.

    Parameters
    ----------
    cupti : Cupti
        The library.
    clock : callable
        The host clock, in nanoseconds.
    calls : DriverCalls, optional
        Who wants to be told of the driver's calls.
    ring : kernelscope.native.Ring
        Where hooks write launches.
    resolver : Resolver, optional
        Gives the lines of calls their ids; without it calls have no lines.

    Attributes
    ----------
    columns : GpuColumns
        What was read so far, on the host clock.
    dropped : int
        Records that CUPTI lost.
    clock_error_ns : float
        How far the columns' times can be off: half the width of the brackets in which both clocks were read.
    clock_jump_ns : int
        By how much the clocks moved against each other between two readings, where that is no drift; else 0.
    captures : Captures
        The captures under way.
    log : CallLog
        The driver's calls.
    problem : str or None
        What was wrong with records that had to be left out.

    Raises
    ------
    CuptiError
        CUPTI refuses; whatever was switched on is off again.
    """

    def __init__(self, cupti: Cupti, ring: core.Ring, clock: Clock = now, calls: DriverCalls | None = None,
                 resolver: Resolver | None = None) -> None:
        self._cupti = cupti
        self.log = CallLog(cupti.call_sites, ring, resolver)
        self._calls = calls or DriverCalls()
        self._clock = clock
        self.columns = GpuColumns()
        self.dropped = 0
        self.clock_error_ns = 0.0
        self.clock_jump_ns = 0
        self.captures = Captures()
        self.problem: str | None = None
        self._samples: list[tuple[int, int]] = []
        self._interruptions = Interruptions()
        self._undo: list[Callable[[], None]] = []
        self._converter: Converter | None = None
        self.resume()

    def resume(self) -> None:
        """Have CUPTI record on after an `end`; raises `CuptiError` where it refuses.

        Whoever had it meanwhile may have finalized it: its correlation ids begin anew then, and are counted on.
        """
        if self._converter is not None:
            known = [columns["correlation_id"] for columns in (self.columns.activities, self.columns.calls)]
            last = max((int(ids.max()) for ids in known if len(ids)), default=0)
            self._converter.first_id = self.log.first_id = last
        try:
            self._switch_on()
        except BaseException:
            self._switch_off()
            raise

    def collect(self) -> None:
        """Read what CUPTI has recorded and finished so far into `columns`."""
        self._cupti.flush(unfinished=False)
        self._sample()
        self._read()

    def end(self) -> None:
        """Have CUPTI stop and read the rest; what a Ctrl-C interrupts, the next call takes up.

        Raises
        ------
        CuptiError
            CUPTI would not; the subscription is given up and what it had recorded is read in any case.
        """
        first: CuptiError | None = None
        if self._undo:
            try:
                self._cupti.flush(unfinished=True)
                self._sample()
                self.dropped += self._cupti.dropped() + self.log.lost
            except CuptiError as problem:
                first = problem
        try:
            self._switch_off()
        except CuptiError as problem:
            first = first or problem
        self._await_buffers()
        buffers = self._cupti.buffers
        buffers.give_up()
        self._read()
        buffers.release()
        if first is not None:
            raise first

    def leave(self) -> None:
        """Have CUPTI stop, and read nothing any more: the interpreter ends."""
        try:
            self._cupti.flush(unfinished=True)
        finally:
            self._switch_off()
            self._await_buffers()

    def forget(self) -> None:
        """In a child of fork(): undo what is Python's, and leave CUPTI, which is the parent's, alone."""
        self._interruptions.end()
        self.log.end()
        self._undo.clear()

    def _switch_on(self) -> None:
        cupti = self._cupti
        functions = {domain: _functions(cupti, domain) for domain in _CALLS}
        self._converter = self._converter or Converter(self.columns, functions)
        cupti.subscribe(self._called)
        self._undo.append(cupti.unsubscribe)
        for domain in _CALLS:
            for function in Captures.watched(functions[domain]):
                cupti.watch(domain, function)
        self._undo.append(self.log.end)
        self.log.begin()
        logged = _LOGGED if self.log.has_lines else _CALLS
        for domain, prefixes in logged.items():
            for function, name in functions[domain].items():
                if name.startswith(prefixes):
                    cupti.log(domain, function)
        self._undo.append(self._interruptions.end)
        self._interruptions.begin()
        source = CuptiCalls(cupti, functions[DRIVER_API])
        self._undo.append(lambda: self._calls.withdraw(source))
        if cupti.is_guarded:  # libraries destroy graphs while an exception of theirs is on its way
            self._calls.offer(source)
        cupti.register()
        self._sample()
        cupti.dropped()
        for kind in _KINDS:
            cupti.enable(kind)
            self._undo.append(lambda kind=kind: cupti.disable(kind))

    def _called(self, data: int) -> None:
        """CUPTI tells of a call; `data` is the address of its ``CUpti_CallbackData``."""
        self.captures.called(data)
        heard = self._calls.heard
        if heard is not None:
            heard(data)

    def _switch_off(self) -> None:
        first: CuptiError | None = None
        while self._undo:
            try:
                self._undo[-1]()
            except CuptiError as problem:
                first = first or problem
            self._undo.pop()  # after it was done: what a Ctrl-C interrupts, the next call takes up
        if first is not None:
            raise first

    def _await_buffers(self) -> None:
        """Wait, not for ever, until CUPTI's own thread has given all buffers back."""
        deadline = time.monotonic() + _WAIT_S
        while self._cupti.buffers.collect() and time.monotonic() < deadline:
            time.sleep(0.001)

    def _sample(self) -> None:
        """Read CUPTI's clock between two readings of the host's; the tightest of some brackets counts."""
        best: tuple[int, int, int] | None = None
        for attempt in range(_MOST_TRIES):
            if best is not None and attempt >= _TRIES and best[0] <= _TIGHT_NS:
                break
            before = self._clock()
            reading = self._cupti.timestamp()
            after = self._clock()
            if best is None or after - before < best[0]:
                best = after - before, reading, (before + after) // 2
        assert best is not None
        width, reading, host = best
        self.clock_error_ns = max(self.clock_error_ns, width / 2)
        if self._samples:
            gpu_before, host_before = self._samples[-1]
            moved = (reading - host) - (gpu_before - host_before)
            if abs(moved) > width + _DRIFT * max(0, host - host_before):
                self.clock_jump_ns = moved
        self._samples.append((reading, host))

    def _read(self) -> None:
        since = self._samples[0][0] - _MARGIN_NS if self._samples else 0
        buffers, converter = self._cupti.buffers, self._converter
        if converter is not None:
            buffers.read(self._cupti.size_of, lambda arena, found: converter.add(arena, found, self._to_host, since))
            converter.add_calls(self.log.take(), is_recorded)
        self.problem = self.problem or buffers.problem

    def _to_host(self, times: np.ndarray) -> np.ndarray:
        """CUPTI's times on the host clock: by the two readings around each, and so without their drift."""
        gpu = np.array([sample[0] for sample in self._samples], np.int64)
        host = np.array([sample[1] for sample in self._samples], np.int64)
        # Relative to the first reading, where a float has nanoseconds to spare.
        since, offsets = (gpu - gpu[0]).astype(np.float64), ((host - host[0]) - (gpu - gpu[0])).astype(np.float64)
        result = times - (gpu[0] - host[0])
        if len(gpu) == 1 or (np.diff(gpu) <= 0).any() or not len(times):
            return result  # a clock that was set back has no drift that could be taken out
        for start in range(0, len(times), _PART):  # what lies between stays in the processor's cache
            part = slice(start, start + _PART)
            moved = np.interp((times[part] - gpu[0]).astype(np.float64), since, offsets)
            result[part] += np.rint(moved, out=moved).astype(np.int64)
        return result


def _functions(cupti: Any, domain: int) -> dict[int, str]:
    """The names of all functions, asked for once a process."""
    key = (cupti.path, domain)
    if key not in _known_functions:
        _known_functions[key] = cupti.functions(domain)
    return _known_functions[key]


_known_functions: dict[tuple[str, int], dict[int, str]] = {}

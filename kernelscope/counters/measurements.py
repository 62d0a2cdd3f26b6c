"""The probe of the GPU's counters: measures launches of each kernel while a recording lasts."""

from __future__ import annotations

import math
import os
import threading
from collections import Counter
from typing import Any

from kernelscope.clock import now
from kernelscope.counters.range_profiler import MOST, RangeProfiler
from kernelscope.counters.sets import is_counted_by_code, metrics_of, unit_of
from kernelscope.counters.stalls import Contexts
from kernelscope.probes.base import Probe
from kernelscope.probes.cupti.library import Cupti, CuptiError, find, raise_again
from kernelscope.probes.cupti.records import readable
from kernelscope.probes.driver import device
from kernelscope.probes.sink import AFTER, BEFORE, CallData, Sink
from kernelscope.units import counted

_DRIVER = 1
_LAUNCHES = ("cuLaunchKernel", "cuLaunchCooperativeKernel")


class MeasurementsProbe(Probe):
    """Measures the first launch of each kernel in one context, under replay, while a recording session lasts.

    Parameters
    ----------
    wanted : str
        A set of `kernelscope.counters.sets.SETS`, or names of metrics with commas between.
    """

    name = "metrics"

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self._wanted = wanted
        self._cupti: Cupti | None = None
        self._contexts: Contexts | None = None
        self._profiler: RangeProfiler | None = None
        self._context = self._device = 0
        self._launches: Counter[str] = Counter()
        self._elsewhere = 0
        self._failed = 0
        self._open: tuple[int, str, int] | None = None
        self._turn = threading.RLock()
        self._process = os.getpid()
        self._rows: list[dict[str, Any]] = []

    def install(self, sink: Sink, detail: str) -> None:
        """Begin to measure. See `ProbeProtocol.install`."""
        self.sink = sink
        try:
            path = find()
            self._contexts = Contexts.of_process()
            self._context, self._device = self._contexts.held[0]
            self._cupti = Cupti(path)
            self._cupti.subscribe(self._called)
            self._profiler = RangeProfiler(path, self._context, self._device, metrics_of(self._wanted))
            for number, name in self._cupti.functions(_DRIVER).items():
                if name.startswith(_LAUNCHES):
                    self._cupti.watch(_DRIVER, number)
        except CuptiError as problem:
            self._end()
            self.report(sink, f"the GPU's counters were not read: {problem}", status="unavailable", fix=problem.fix)

    def uninstall(self) -> None:
        """Measure no more. See `ProbeProtocol.uninstall`."""
        if self._profiler is None or os.getpid() != self._process:
            return
        assert self.sink is not None
        with self._turn:
            try:
                self._take(self._profiler)
            finally:
                passes = self._profiler.passes
                self._end()
        message = (f"{_launches(len(self._rows))} measured, each in {counted(passes, 'pass', 'passes')}: the first of "
                   "each kernel; these took as long as their replay did")
        patched = sum(is_counted_by_code(name) for name in metrics_of(self._wanted))
        missing = [
            *([f"{counted(patched, 'metric')} that only code patched into kernels counts (sass)"] if patched else []),
            *([f"{counted(len(self._launches) - MOST, 'kernel')} more than the {MOST} that there is room for"]
              if len(self._launches) > MOST else []),
            *([f"{_launches(self._elsewhere)} in other contexts"] if self._elsewhere else []),
            *([f"{_launches(self._failed)} that could not be measured"] if self._failed else []),
        ]
        self.sink.stated[self.name] = {
            "probe": self.name, "status": "degraded" if missing else "ok",
            "message": message + (f"; not measured were {', '.join(missing)}" if missing else "")}

    def _called(self, address: int) -> None:
        # Launches of other threads wait: what they write is restored too, while one is replayed.
        call = CallData.from_address(address)
        try:
            if call.site == BEFORE:
                self._turn.acquire()
                self._before(call)
            elif call.site == AFTER:
                try:
                    self._after()
                finally:
                    self._turn.release()
        except BaseException as error:  # into C nothing may be raised
            self._failed += 1
            if not raise_again(error) and self.sink is not None:
                self.sink.swallow(self.name, error)

    def _before(self, call: CallData) -> None:
        entry = (call.symbol or b"").decode("utf-8", "replace")
        if self._profiler is None or call.context != self._context:
            self._elsewhere += 1
            return
        number = self._launches[entry]
        self._launches[entry] += 1
        if number or len(self._launches) > MOST:
            return
        began = now()
        self._profiler.start()
        self._open = began, entry, number

    def _after(self) -> None:
        held, self._open = self._open, None
        if held is None or self._profiler is None:
            return
        self._profiler.stop()
        began, entry, number = held
        assert self.sink is not None
        self._rows.append({"entry_name": entry, "number": number, "start_ns": began, "end_ns": now(),
                           "thread_id": self.sink.state().thread_id})

    def _take(self, profiler: RangeProfiler) -> None:
        assert self.sink is not None
        found = profiler.values()
        if len(found) != len(self._rows):
            raise CuptiError(f"CUPTI returned {_launches(len(found))} of {len(self._rows)} that were measured")
        number = device(self.sink, self._device)
        for row, values in zip(self._rows, found, strict=True):
            self.sink.measurements.append({
                **row, "name": readable(row["entry_name"]), "device_id": number, "replay": "kernel",
                "metric_set": self._wanted, "passes": profiler.passes,
                "metrics": [(name, None if math.isnan(value) or is_counted_by_code(name) else value, unit_of(name))
                            for name, value in values.items()]})

    def _end(self) -> None:
        cupti, self._cupti = self._cupti, None
        profiler, self._profiler = self._profiler, None
        contexts, self._contexts = self._contexts, None
        try:
            if cupti is not None:
                cupti.unsubscribe()
        finally:
            try:
                if profiler is not None:
                    profiler.end()
            finally:
                if contexts is not None:
                    contexts.release()


def _launches(count: int) -> str:
    return counted(count, "launch", "launches")

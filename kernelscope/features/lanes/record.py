"""The probe of lanes over time: samples how busy each device is while a recording lasts."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelscope.clock import Alignment, align
from kernelscope.features.lanes.options import LanesOptions
from kernelscope.features.lanes.pm_sampling import PmSampling, Samples
from kernelscope.probes.base import Probe, ProbeProtocol
from kernelscope.probes.cupti import has_driver
from kernelscope.probes.cupti.contexts import Contexts
from kernelscope.probes.cupti.library import CuptiError, find
from kernelscope.probes.cupti.records import on_host
from kernelscope.probes.driver import device
from kernelscope.probes.sink import Sink
from kernelscope.units import counted, duration

_SHARE = ".avg.pct_of_peak_sustained_elapsed"
#: What is sampled: of each entry the first that a chip can sample in one pass with those before it.
WANTED = (
    ("sm__cycles_active" + _SHARE,),
    ("dram__throughput" + _SHARE, f"dram__read_throughput{_SHARE}+dram__write_throughput{_SHARE}"),
    ("sm__pipe_tensor_cycles_active" + _SHARE, "sm__inst_executed_pipe_tensor" + _SHARE),
)
#: How long a sample is.
INTERVAL_NS = 100_000
#: How often the GPU's buffer is emptied.
_EVERY_S = 0.02


def probes(options: LanesOptions) -> tuple[list[ProbeProtocol], list[dict[str, Any]]]:
    """Return the probe; where there is no GPU none, and a row of ``health`` that says so."""
    if has_driver():
        return [LanesProbe()], []
    return [], [{"probe": LanesProbe.name, "status": "unavailable",
                 "message": "how busy the GPU was was not sampled: there is no GPU here"}]


@dataclass
class _Sampled:
    """A device that is sampled, with a thread that takes its samples, and those that were not handed over yet."""

    sampling: PmSampling
    ordinal: int
    taken: list[Samples] = field(default_factory=list[Samples])
    samples: int = 0
    missing_ns: int = 0
    #: When the last sample ended, on the wall clock; before the first one, when sampling began.
    last_ns: int = 0
    is_over: bool = False
    _stop: ctypes.c_uint8 = field(default_factory=ctypes.c_uint8)
    _thread: threading.Thread | None = None

    def take(self) -> None:
        """Take samples from now on, in a thread."""
        self._stop.value = 0
        self._thread = threading.Thread(target=self._drain, name="kernelscope-lanes", daemon=True)
        self._thread.start()

    def pause(self) -> bool:
        """Take what there is, and no more; return whether samples were taken until now."""
        if self._thread is None:
            return False
        self._stop.value = 1
        self._thread.join()
        self._thread = None  # only now: what a Ctrl-C interrupts is taken up again
        return True

    def end(self) -> None:
        """Sample no more, and take the rest."""
        self.pause()
        try:
            self.sampling.stop()
            self._stop.value = 1
            self._drain()
        finally:
            self.sampling.end()
            self.is_over = True

    def _drain(self) -> None:
        samples = self.sampling.drain(self._stop, _EVERY_S)
        if len(samples.start_ns):
            self.taken.append(samples)


class LanesProbe(Probe):
    """Has devices sample their counters while a recording session lasts; a thread takes the samples meanwhile.

    The devices that are in use when recording begins are sampled; where none is, the first one.

    Parameters
    ----------
    path : str, optional
        CUPTI's library, instead of the one that is found.
    devices : list of int, optional
        Ordinals of devices, instead of those in use; both are for tests.
    """

    name = "lanes"

    def __init__(self, *, path: str | None = None, devices: list[int] | None = None) -> None:
        super().__init__()
        self._path = path
        self._devices = devices
        self._contexts: Contexts | None = None
        self._sampled: list[_Sampled] = []
        self._readings: list[Alignment] = []
        self._problem: CuptiError | None = None
        self._process = os.getpid()

    def install(self, sink: Sink, detail: str) -> None:
        """Begin to sample. See `ProbeProtocol.install`."""
        self.sink = sink
        atexit.register(self.uninstall)  # no thread may call CUPTI when the interpreter has ended
        self._readings.append(align(sink.clock))
        try:
            path = self._path or find()
            for ordinal in dict.fromkeys(self._ordinals()):
                self._sampled.append(_Sampled(PmSampling(path, ordinal, WANTED, INTERVAL_NS), ordinal))
            for each in self._sampled:
                each.last_ns = time.time_ns()
                each.sampling.start()
                each.take()
        except CuptiError as problem:
            self._end()
            self._sampled = []
            self.report(sink, f"how busy the GPU was was not sampled: {problem}", status="unavailable", fix=problem.fix)

    def uninstall(self) -> None:
        """Sample no more, and take the rest. See `ProbeProtocol.uninstall`."""
        atexit.unregister(self.uninstall)
        if os.getpid() == self._process:  # a child of fork() has nothing of it, and must not touch it
            with self.lock:
                self._end()

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Hand over what was sampled so far, and state how well it went. See `ProbeProtocol.describe`."""
        if not self._sampled or os.getpid() != self._process:
            return
        with self.lock:
            for each in self._sampled:
                if each.pause():
                    each.take()
            self._readings.append(align(sink.clock))
            for each in self._sampled:
                self._hand_over(sink, each)
        sink.stated[self.name] = self._stated()

    def _ordinals(self) -> list[int]:
        if self._devices is not None:
            return self._devices
        self._contexts = Contexts.of_process()
        return [ordinal for _, ordinal in self._contexts.handles]

    def _hand_over(self, sink: Sink, each: _Sampled) -> None:
        """Give the sink what was taken, on the host clock, with rows of no value where samples are missing."""
        parts, each.taken = each.taken, []
        if not parts:
            return
        start, end, values = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        # The first one begins when the device was sampled last; after a buffer that was full some have any times.
        length = np.median(end - start)
        kept = (start >= each.last_ns - length / 2) & (end <= self._readings[-1].wall_ns + length) & (
            end - start < (2 if each.sampling.is_by_time else 10) * length)  # the clock varies
        start, end, values = start[kept], end[kept], values[kept]
        reach = np.maximum.accumulate(np.concatenate(([each.last_ns], end[:-1])))
        kept = start >= reach - length / 2
        start, end, values = start[kept], end[kept], values[kept]
        if not len(start):
            return
        each.samples += len(start)
        before = np.concatenate(([each.last_ns if each.samples > len(start) else start[0]], end[:-1]))
        each.last_ns = int(end[-1])
        gaps = np.flatnonzero(start - before > length / 2)
        each.missing_ns += int((start - before)[gaps].sum())
        start, end = np.insert(start, gaps, before[gaps]), np.insert(end, gaps, start[gaps])
        values, number = np.insert(values, gaps, np.nan, axis=0), self._device(sink, each.ordinal)
        start, end = on_host(start, self._readings), on_host(end, self._readings)
        sink.rows["pm_samples"] += [
            {"device_id": number, "name": name, "start_ns": start, "end_ns": end, "value": column}
            for name, column in zip(each.sampling.metrics, values.T, strict=True)]

    def _device(self, sink: Sink, ordinal: int) -> int:
        if self._devices is not None:
            return sink.devices.intern(("device", ordinal), lambda: {"ordinal": ordinal})
        return device(sink, ordinal)

    def _stated(self) -> dict[str, object]:
        """The row of health that says how well it went."""
        sampled = [each.sampling for each in self._sampled]
        samples = sum(each.samples for each in self._sampled)
        error_ns = max(each.error_ns for each in self._readings)
        row: dict[str, object] = {
            "probe": self.name, "status": "ok", "clock_error_ns": error_ns,
            "message": f"samples of {_listed(sampled[0].metrics)}, {_how_often(sampled)}"}
        lost, full = sum(each.missing_ns for each in self._sampled), sum(each.overflows for each in sampled)
        missing = [
            *([f"{_listed(each.missing)} cannot be sampled beside the others on this GPU" for each in sampled[:1]
               if each.missing]),
            *([f"a buffer was full {counted(full, 'time')}"] if full else []),
            *([f"{duration(lost)} without samples"] if lost else []),
            *([] if samples else ["the recording was too short for one"]),
            *(f"then sampling failed: {problem}" for problem in dict.fromkeys(
                [*(each.problem for each in sampled), self._problem]) if problem is not None),
        ]
        if missing:
            row |= {"status": "degraded", "message": "; ".join([str(row["message"]), *missing])}
        if full or lost:
            row["fix"] = "record a shorter cell, or leave the processor more room"
        return row

    def _end(self) -> None:
        try:
            for each in self._sampled:
                if not each.is_over:
                    try:
                        each.end()
                    except CuptiError as problem:  # the others end too
                        self._problem = self._problem or problem
        finally:
            if self._contexts is not None:
                self._contexts.release()


def _listed(metrics: Sequence[str]) -> str:
    return ", ".join(name.split(".")[0] for name in metrics)


def _how_often(sampled: Sequence[PmSampling]) -> str:
    return (f"one every {duration(INTERVAL_NS)}" if all(each.is_by_time for each in sampled)
            else f"one every {INTERVAL_NS:,} cycles of the GPU's system clock")

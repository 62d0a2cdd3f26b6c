"""CUPTI's PM sampling: the GPU's counters at short intervals, of all that a device does."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelscope.counters.profiler import PM_SAMPLING, Profiler, Repeated, names
from kernelscope.native import core
from kernelscope.probes.cupti.library import Cupti, CuptiError, problem_of

#: Samples that are decoded at once, each of 30 kB: of more at once CUPTI loses some.
ROOM = 2048
#: Bytes of the GPU's own buffer of samples.
_BUFFER = 128 << 20
_BY_CLOCK, _BY_TIME = 0, 1
_KEEP_OLDEST = 0


class Samples(NamedTuple):
    """Intervals of a device, in order.

    Attributes
    ----------
    start_ns, end_ns : ndarray of int64, shape (n,)
        When each began and ended, on CUPTI's clock.
    values : ndarray of float64, shape (n, metrics)
        The metrics, in the order of `PmSampling.metrics`.
    """

    start_ns: np.ndarray
    end_ns: np.ndarray
    values: np.ndarray


class PmSampling(Profiler):
    """Samples metrics of one device, between `start` and `stop`, until `end`.

    Parameters
    ----------
    path : str
        CUPTI's library; libnvperf_host lies beside it, or is found by the loader.
    device : int
        The ordinal of the device.
    wanted : sequence of sequences of str
        Of each entry the first choice is taken that the chip can sample in one pass with those before it. A choice is a
        metric by Nsight Compute's name, or several with a plus between.
    interval_ns : int
        How long a sample is.

    Attributes
    ----------
    metrics : tuple of str
        What is sampled.
    missing : list of str
        The first of each entry of `wanted` of which nothing can be.
    overflows : int
        How often the GPU's buffer was full, or CUPTI's.
    is_by_time : bool
        Whether samples are as long as wanted; else they are so many cycles of a clock that varies.

    Raises
    ------
    CuptiError
        CUPTI has no PM sampling, the chip can sample none of the metrics, or the driver lets only administrators read
        counters.
    """

    TYPE, NAME, CALLS, SINCE = 1, "PM sampling", tuple(PM_SAMPLING), "12.6"
    def __init__(self, path: str, device: int, wanted: Sequence[Sequence[str]], interval_ns: int) -> None:
        super().__init__(path, device)
        self._sampler = None
        self._repeated: tuple[Repeated, ...] = ()
        self._data: Any = None
        self.overflows = 0
        self._problem: CuptiError | None = None
        self.missing: list[str] = []
        try:
            self._call("cuptiProfilerInitialize")
            self._choose_of(wanted)
            self._sampler = self._call("cuptiPmSamplingEnable", device=device).sampler
            Cupti.may_begin_anew = False
            self.is_by_time = self._set(_BY_TIME, interval_ns) or not self._set(_BY_CLOCK, interval_ns)
            size = self._call("cuptiPmSamplingGetCounterDataSize", sampler=self._sampler, names=names(self.metrics),
                              count=len(self.metrics), samples=ROOM).bytes
            self._data = (ctypes.c_uint8 * size)()
            self._prepare()
        except BaseException:
            self.end()
            raise

    def start(self) -> None:
        """Sample from now on."""
        self._call("cuptiPmSamplingStart", sampler=self._sampler)

    def stop(self) -> None:
        """Sample no more; `drain` has the rest."""
        self._call("cuptiPmSamplingStop", sampler=self._sampler)

    def drain(self, stop: ctypes.c_uint8, pause_s: float) -> Samples:
        """Take samples as they come, until `stop` is set, and the rest then; return them.

        A problem ends it before; what was taken is returned, and `problem` says what it was. Other threads of Python's
        run meanwhile.
        """
        if self._problem is not None:
            return _samples(b"", len(self.metrics))
        rows, result, overflows, fills = core.drain(
            *self._calls, self._fields, len(self.metrics), ctypes.addressof(stop), pause_s)
        self.overflows += overflows + fills
        if result:
            self._problem = problem_of(self._library, "cuptiPmSamplingDecodeData", result)
        return _samples(rows, len(self.metrics))

    @property
    def problem(self) -> CuptiError | None:
        """What ended a `drain` before its time."""
        return self._problem

    def end(self) -> None:
        """Let others sample; nothing is left in the process that costs anything."""
        try:
            if self._sampler is not None:
                sampler, self._sampler = self._sampler, None
                self._call("cuptiPmSamplingDisable", sampler=sampler)
        finally:
            self._repeated, self._data = (), (ctypes.c_uint8 * 0)()
            self._forget()

    def _choose_of(self, wanted: Sequence[Sequence[str]]) -> None:
        size = self._call("cuptiPmSamplingGetCounterAvailability", device=self._device).bytes
        available = (ctypes.c_uint8 * size)()
        self._call("cuptiPmSamplingGetCounterAvailability", device=self._device, bytes=size,
                   image=ctypes.addressof(available))
        chosen: list[str] = []
        problem: CuptiError | None = None
        for entry in wanted:
            for each in entry:
                try:
                    self._choose([*chosen, *each.split("+")], available)
                except CuptiError as error:
                    problem = problem or error
                    continue
                if self.passes == 1:
                    chosen += each.split("+")
                    break
            else:
                self.missing.append(entry[0])
        if not chosen:
            raise problem or CuptiError(f"none of {', '.join(self.missing)} can be sampled on this GPU", "")
        if self.metrics != tuple(chosen):
            self._choose(chosen, available)

    def _set(self, trigger: int, interval: int) -> bool:
        try:
            self._call("cuptiPmSamplingSetConfig", sampler=self._sampler, config_bytes=len(self._config),
                       config=ctypes.addressof(self._config), buffer_bytes=_BUFFER, interval=interval, trigger=trigger,
                       append=_KEEP_OLDEST)
        except CuptiError:
            if trigger == _BY_CLOCK:
                raise
            return False
        return True

    def _prepare(self) -> None:
        """Make the calls that `drain` repeats, and the counter data that they work on."""
        image = {"bytes": len(self._data), "image": ctypes.addressof(self._data)}
        self._call("cuptiPmSamplingCounterDataImageInitialize", sampler=self._sampler, **image)
        self._metrics = (ctypes.c_double * len(self.metrics))()
        self._names = names(self.metrics)
        sampler, host = {"sampler": self._sampler, **image}, {"host": self._host, **image}
        decode, count, times, values, clear = self._repeated = (
            Repeated(self._library, "cuptiPmSamplingDecodeData", **sampler),
            Repeated(self._library, "cuptiPmSamplingGetCounterDataInfo", **image),
            Repeated(self._library, "cuptiPmSamplingCounterDataGetSampleInfo", **sampler),
            Repeated(self._library, "cuptiProfilerHostEvaluateToGpuValues", **host, names=self._names,
                     count=len(self.metrics), values=self._metrics),
            Repeated(self._library, "cuptiPmSamplingCounterDataImageInitialize", **sampler))
        self._calls = decode.call, count.call, times.call, values.call, clear.call
        self._fields = (decode.field("stopped"), decode.field("overflow"), count.field("completed"),
                        times.field("sample"), values.field("range"), times.field("start"),
                        ctypes.addressof(self._metrics))


def _samples(rows: bytes, metrics: int) -> Samples:
    found = np.frombuffer(rows, np.dtype([("start", "<i8"), ("end", "<i8"), ("values", "<f8", (metrics,))]))
    return Samples(found["start"], found["end"], found["values"])

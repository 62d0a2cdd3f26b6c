"""CUPTI's PM sampling: the GPU's counters at short intervals, of all that a device does."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelscope.counters.profiler import PM_SAMPLING, Profiler, names
from kernelscope.probes.cupti.library import CuptiError

#: Samples that are decoded at once: each takes 30 kB.
ROOM = 256
#: Bytes of the GPU's own buffer of samples.
_BUFFER = 128 << 20
_BY_CLOCK, _BY_TIME = 0, 1
_KEEP_OLDEST = 0
_IMAGE_IS_FULL = 1


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
        How often the GPU's buffer was full.
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
        self.overflows = 0
        self._is_first = True
        self.missing: list[str] = []
        try:
            self._call("cuptiProfilerInitialize")
            self._choose_of(wanted)
            self._sampler = self._call("cuptiPmSamplingEnable", device=device).sampler
            self.is_by_time = self._set(_BY_TIME, interval_ns) or not self._set(_BY_CLOCK, interval_ns)
            size = self._call("cuptiPmSamplingGetCounterDataSize", sampler=self._sampler, names=names(self.metrics),
                              count=len(self.metrics), samples=ROOM).bytes
            self._data = (ctypes.c_uint8 * size)()
            self._clear()
        except BaseException:
            self.end()
            raise

    def start(self) -> None:
        """Sample from now on."""
        self._is_first = True
        self._call("cuptiPmSamplingStart", sampler=self._sampler)

    def stop(self) -> None:
        """Sample no more; `taken` has the rest."""
        self._call("cuptiPmSamplingStop", sampler=self._sampler)

    def taken(self) -> Samples:
        """Return the samples that were taken since this was called last."""
        times, values = list[tuple[int, int]](), list[list[float]]()
        while True:
            image = {"image": ctypes.addressof(self._data), "bytes": len(self._data)}
            decoded = self._call("cuptiPmSamplingDecodeData", sampler=self._sampler, **image)
            self.overflows += bool(decoded.overflow)
            count = self._call("cuptiPmSamplingGetCounterDataInfo", **image).completed
            # The first one begins when the device was sampled last.
            for place in range(self._is_first and count > 0, count):
                of = self._call("cuptiPmSamplingCounterDataGetSampleInfo", sampler=self._sampler, sample=place, **image)
                times.append((of.start, of.end))
                values.append(self._values(self._data, place))
            if count:
                self._is_first = False
                self._clear()
            if decoded.stopped != _IMAGE_IS_FULL or not count:
                start, end = np.array(times, np.int64).reshape(-1, 2).T
                return Samples(start, end, np.array(values, np.float64).reshape(len(times), len(self.metrics)))

    def end(self) -> None:
        """Let others sample; nothing is left in the process that costs anything."""
        try:
            if self._sampler is not None:
                sampler, self._sampler = self._sampler, None
                self._call("cuptiPmSamplingDisable", sampler=sampler)
        finally:
            self._forget()

    def _choose_of(self, wanted: Sequence[Sequence[str]]) -> None:
        available = self._available()
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

    def _available(self) -> Any:
        size = self._call("cuptiPmSamplingGetCounterAvailability", device=self._device).bytes
        image = (ctypes.c_uint8 * size)()
        self._call("cuptiPmSamplingGetCounterAvailability", device=self._device, bytes=size,
                   image=ctypes.addressof(image))
        return image

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

    def _clear(self) -> None:
        self._call("cuptiPmSamplingCounterDataImageInitialize", sampler=self._sampler, bytes=len(self._data),
                   image=ctypes.addressof(self._data))

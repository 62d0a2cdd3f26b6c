"""CUPTI's range profiler: the GPU's counters of launches, repeated by CUPTI or by the caller as often as is needed."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

from kernelscope.counters.profiler import RANGE_PROFILER, Profiler, names
from kernelscope.probes.cupti.library import CuptiError

#: By who repeats launches, CUPTI's range and replay modes. ``kernel``: each kernel is a range of its own, and CUPTI
#: restores the memory that it wrote. ``user``: all that is launched between `RangeProfiler.start` and `stop` is one
#: range, and runs as it would without a measurement; it has to be launched once for each pass.
_MODES = {"kernel": (1, 2), "user": (2, 3)}
#: Launches that one session has room for.
MOST = 64
#: Two sessions that measure at once end the process.
_active = threading.Lock()


class RangeProfiler(Profiler):
    """Measures launches in one CUDA context, between `start` and `stop`, until `end`.

    Parameters
    ----------
    path : str
        CUPTI's library; libnvperf_host lies beside it, or is found by the loader.
    context : int
        The context's handle.
    device : int
        The ordinal of its device.
    metrics : sequence of str
        Metrics by Nsight Compute's names.
    replay : str
        ``kernel`` or ``user``: see `_MODES`.

    Attributes
    ----------
    passes : int
        How often each launch runs.

    Raises
    ------
    CuptiError
        CUPTI has no range profiler, or none for this chip, or does not know a metric; the counters may not be read; or
        another measurement is under way in this process.
    """

    TYPE, NAME, CALLS, SINCE = 0, "range profiler", tuple(RANGE_PROFILER), "12.6"

    def __init__(self, path: str, context: int, device: int, metrics: Sequence[str], replay: str = "kernel") -> None:
        super().__init__(path, device)
        self._profiler = None
        self._is_by_user = replay == "user"
        self._is_started = False
        if not _active.acquire(blocking=False):
            raise CuptiError("another measurement is under way in this process", "measure one after the other")
        self._is_held = True
        try:
            self._choose(metrics)
            self._profiler = self._call("cuptiRangeProfilerEnable", context=context).profiler
            size = self._call("cuptiRangeProfilerGetCounterDataSize", profiler=self._profiler,
                              names=names(self.metrics), count=len(self.metrics), ranges=MOST, nodes=MOST).bytes
            self._data = (ctypes.c_uint8 * size)()
            data = ctypes.addressof(self._data)
            self._call("cuptiRangeProfilerCounterDataImageInitialize", profiler=self._profiler, bytes=size, image=data)
            of_ranges, of_replay = _MODES[replay]
            self._call("cuptiRangeProfilerSetConfig", profiler=self._profiler, config_bytes=len(self._config),
                       config=ctypes.addressof(self._config), data_bytes=size, data=data, range=of_ranges,
                       replay=of_replay, ranges=MOST, levels=1, least_level=1, pass_index=0,
                       target=int(self._is_by_user))
        except BaseException:
            self.end()
            raise

    def start(self) -> None:
        """Measure what is launched in the context from now on."""
        self._call("cuptiRangeProfilerStart", profiler=self._profiler)
        self._is_started = True
        if self._is_by_user:
            self._call("cuptiRangeProfilerPushRange", profiler=self._profiler, name=b"kernelscope")

    def stop(self) -> bool:
        """Measure no more; return whether that was the last pass: then `values` has what was measured."""
        if self._is_by_user:
            self._call("cuptiRangeProfilerPopRange", profiler=self._profiler)
        self._is_started = False
        return bool(self._call("cuptiRangeProfilerStop", profiler=self._profiler).is_all)

    def values(self) -> list[dict[str, float]]:
        """Return what was measured of each launch, in the order of the launches, or of the user's range; by metric."""
        self._call("cuptiRangeProfilerDecodeData", profiler=self._profiler)
        found = self._call("cuptiRangeProfilerGetCounterDataInfo", image=ctypes.addressof(self._data),
                           bytes=len(self._data)).ranges
        return [self._values_of(place) for place in range(found)]

    def _values_of(self, place: int) -> dict[str, float]:
        values = (ctypes.c_double * len(self.metrics))()
        self._call("cuptiProfilerHostEvaluateToGpuValues", host=self._host, range=place,
                   image=ctypes.addressof(self._data), bytes=len(self._data), names=names(self.metrics),
                   count=len(self.metrics), values=values)
        return dict(zip(self.metrics, values, strict=True))

    def end(self) -> None:
        """Let others measure; nothing is left in the process that costs anything."""
        try:
            if self._profiler is not None:
                try:
                    if self._is_started and self._is_by_user:
                        self.stop()
                finally:
                    profiler, self._profiler = self._profiler, None
                    self._call("cuptiRangeProfilerDisable", profiler=profiler)
        finally:
            try:
                self._forget()
            finally:
                if self._is_held:
                    self._is_held = False
                    _active.release()

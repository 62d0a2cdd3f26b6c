"""CUPTI's range profiler through ctypes: the GPU's counters of single launches, each replayed as often as is needed."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelscope.counters.permission import SUPPORT, refusal, unsupported
from kernelscope.probes.cupti.library import CuptiError

_Field = tuple[str, Any]
_pointer, _size, _int, _byte = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint8
_names = ctypes.POINTER(ctypes.c_char_p)

# What CUPTI's calls take and return after the size of it all and a pointer of CUPTI's own, in the order of the headers.
_PARAMETERS: dict[str, tuple[_Field, ...]] = {
    "cuptiProfilerInitialize": (),
    "cuptiProfilerDeviceSupported": (("device", _int), ("is_supported", _int), *((each, _int) for each in SUPPORT),
                                     ("api", _int)),
    "cuptiDeviceGetChipName": (("device", _size), ("chip", ctypes.c_char_p)),
    "cuptiProfilerHostInitialize": (("type", _int), ("chip", ctypes.c_char_p), ("available", _pointer),
                                    ("host", _pointer)),
    "cuptiProfilerHostDeinitialize": (("host", _pointer),),
    "cuptiProfilerHostConfigAddMetrics": (("host", _pointer), ("names", _names), ("count", _size)),
    "cuptiProfilerHostGetConfigImageSize": (("host", _pointer), ("bytes", _size)),
    "cuptiProfilerHostGetConfigImage": (("host", _pointer), ("bytes", _size), ("image", _pointer)),
    "cuptiProfilerHostGetNumOfPasses": (("bytes", _size), ("image", _pointer), ("passes", _size)),
    "cuptiProfilerHostEvaluateToGpuValues": (
        ("host", _pointer), ("image", _pointer), ("bytes", _size), ("range", _size), ("names", _names),
        ("count", _size), ("values", ctypes.POINTER(ctypes.c_double))),
    "cuptiRangeProfilerEnable": (("context", _pointer), ("profiler", _pointer)),
    "cuptiRangeProfilerDisable": (("profiler", _pointer),),
    "cuptiRangeProfilerStart": (("profiler", _pointer),),
    "cuptiRangeProfilerStop": (("profiler", _pointer), ("pass_index", _size), ("level", _size), ("is_all", _byte)),
    "cuptiRangeProfilerDecodeData": (("profiler", _pointer), ("dropped", _size)),
    "cuptiRangeProfilerGetCounterDataSize": (
        ("profiler", _pointer), ("names", _names), ("count", _size), ("ranges", _size), ("nodes", ctypes.c_uint32),
        ("bytes", _size)),
    "cuptiRangeProfilerCounterDataImageInitialize": (("profiler", _pointer), ("bytes", _size), ("image", _pointer)),
    "cuptiRangeProfilerGetCounterDataInfo": (("image", _pointer), ("bytes", _size), ("ranges", _size)),
    "cuptiRangeProfilerSetConfig": (
        ("profiler", _pointer), ("config_bytes", _size), ("config", _pointer), ("data_bytes", _size),
        ("data", _pointer), ("range", _int), ("replay", _int), ("ranges", _size), ("levels", ctypes.c_uint16),
        ("least_level", ctypes.c_uint16), ("pass_index", _size), ("target", ctypes.c_uint16)),
}
_RANGE_PROFILER = 0
#: Each kernel is a range of its own, and is replayed by CUPTI, which restores the memory that it wrote.
_AUTO_RANGE, _KERNEL_REPLAY = 1, 2
#: Launches that one session has room for.
MOST = 64
#: Two sessions that measure at once end the process.
_active = threading.Lock()


def _structure(fields: Sequence[_Field]) -> type[ctypes.Structure]:
    class Parameters(ctypes.Structure):
        _fields_ = (("size", _size), ("private", _pointer), *fields)

    return Parameters


_STRUCTURES = {name: _structure(fields) for name, fields in _PARAMETERS.items()}


class RangeProfiler:
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

    Attributes
    ----------
    passes : int
        How often each launch runs.
    chip : str
        CUPTI's name of the device's chip.
    nvperf : str
        The file of libnvperf_host.

    Raises
    ------
    CuptiError
        CUPTI has no range profiler, or none for this chip, or does not know a metric; the counters may not be read; or
        another measurement is under way in this process.
    """

    def __init__(self, path: str, context: int, device: int, metrics: Sequence[str]) -> None:
        self._load(path)
        self.metrics = tuple(metrics)
        self._host = self._profiler = None
        if not _active.acquire(blocking=False):
            raise CuptiError("another measurement is under way in this process", "measure one after the other")
        self._is_held = True
        try:
            self._call("cuptiProfilerInitialize")
            chip = self._call("cuptiDeviceGetChipName", device=device).chip
            self.chip = chip.decode()
            support = self._call("cuptiProfilerDeviceSupported", device=device)
            wrong = unsupported(self.chip, {each: getattr(support, each) for each in SUPPORT})
            if wrong is not None:
                raise CuptiError(wrong.why, wrong.fix)
            self._host = self._host_with(self.metrics, chip)
            size = self._call("cuptiProfilerHostGetConfigImageSize", host=self._host).bytes
            self._config = (_byte * size)()
            config = ctypes.addressof(self._config)
            self._call("cuptiProfilerHostGetConfigImage", host=self._host, bytes=size, image=config)
            self.passes: int = self._call("cuptiProfilerHostGetNumOfPasses", bytes=size, image=config).passes
            self._profiler = self._call("cuptiRangeProfilerEnable", context=context).profiler
            size = self._call("cuptiRangeProfilerGetCounterDataSize", profiler=self._profiler,
                              names=self._array(self.metrics), count=len(self.metrics), ranges=MOST, nodes=MOST).bytes
            self._data = (_byte * size)()
            data = ctypes.addressof(self._data)
            self._call("cuptiRangeProfilerCounterDataImageInitialize", profiler=self._profiler, bytes=size, image=data)
            self._call("cuptiRangeProfilerSetConfig", profiler=self._profiler, config_bytes=len(self._config),
                       config=config, data_bytes=size, data=data, range=_AUTO_RANGE, replay=_KERNEL_REPLAY, ranges=MOST,
                       levels=1, least_level=1, pass_index=0, target=0)
        except BaseException:
            self.end()
            raise

    def start(self) -> None:
        """Measure what is launched in the context from now on."""
        self._call("cuptiRangeProfilerStart", profiler=self._profiler)

    def stop(self) -> None:
        """Measure no more; `values` has what was measured."""
        self._call("cuptiRangeProfilerStop", profiler=self._profiler)

    def values(self) -> list[dict[str, float]]:
        """Return what was measured of each launch, in the order of the launches, by metric."""
        self._call("cuptiRangeProfilerDecodeData", profiler=self._profiler)
        image = {"image": ctypes.addressof(self._data), "bytes": len(self._data)}
        found: list[dict[str, float]] = []
        for place in range(self._call("cuptiRangeProfilerGetCounterDataInfo", **image).ranges):
            values = (ctypes.c_double * len(self.metrics))()
            self._call("cuptiProfilerHostEvaluateToGpuValues", host=self._host, range=place, **image,
                       names=self._array(self.metrics), count=len(self.metrics), values=values)
            found.append(dict(zip(self.metrics, values, strict=True)))
        return found

    def end(self) -> None:
        """Let others measure; nothing is left in the process that costs anything."""
        try:
            if self._profiler is not None:
                profiler, self._profiler = self._profiler, None
                self._call("cuptiRangeProfilerDisable", profiler=profiler)
        finally:
            if self._host is not None:
                host, self._host = self._host, None
                self._call("cuptiProfilerHostDeinitialize", host=host)
            if self._is_held:
                self._is_held = False
                _active.release()

    def _load(self, path: str) -> None:
        # libcupti opens it by its name, which the loader does not find in a wheel.
        for beside in (*sorted(Path(os.path.realpath(path)).parent.glob("libnvperf_host.so*")), "libnvperf_host.so"):
            try:
                ctypes.CDLL(str(beside), ctypes.RTLD_GLOBAL)
                self.nvperf = str(beside)
                break
            except OSError:
                continue
        else:
            raise CuptiError("libnvperf_host, which reads the GPU's counters, is not installed beside " + path,
                             "pip install 'kernelscope[cupti]'")
        try:
            self._library: Any = ctypes.CDLL(path)
            for name in _PARAMETERS:
                getattr(self._library, name)
        except (OSError, AttributeError) as error:
            raise CuptiError(f"{path} has no range profiler, which CUPTI of CUDA 12.6 and newer has: {error}",
                             "pip install 'kernelscope[cupti]'") from None

    def _host_with(self, metrics: Sequence[str], chip: bytes) -> Any:
        host = self._call("cuptiProfilerHostInitialize", type=_RANGE_PROFILER, chip=chip).host
        try:
            # Together: those that are added one by one share no passes.
            self._call("cuptiProfilerHostConfigAddMetrics", host=host, names=self._array(metrics), count=len(metrics))
        except CuptiError as error:
            self._call("cuptiProfilerHostDeinitialize", host=host)
            if len(metrics) == 1:
                raise CuptiError(f"the metric {metrics[0]} cannot be measured on {chip.decode()}: {error}",
                                 "ncu --query-metrics lists those that there are") from None
            for name in metrics:  # CUPTI does not say which it does not know
                self._call("cuptiProfilerHostDeinitialize", host=self._host_with([name], chip))
            raise
        return host

    @staticmethod
    def _array(names: Sequence[str]) -> Any:
        return ctypes.cast((ctypes.c_char_p * len(names))(*(name.encode() for name in names)), _names)

    def _call(self, name: str, **values: Any) -> Any:
        params: Any = _STRUCTURES[name](**values)
        last = type(params)._fields_[-1][0]
        descriptor = getattr(type(params), last)
        params.size = descriptor.offset + descriptor.size
        result = getattr(self._library, name)(ctypes.byref(params))
        if result:
            raise refusal(self._library, name, result)
        return params

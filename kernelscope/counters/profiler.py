"""CUPTI's profiling interfaces through ctypes: their parameters, and what all of them need of metrics."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelscope.counters.permission import SUPPORT, refusal, unsupported
from kernelscope.probes.cupti.library import CuptiError

_Field = tuple[str, Any]
_pointer, _size, _int, _byte = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint8
_long = ctypes.c_uint64
_names = ctypes.POINTER(ctypes.c_char_p)

# What CUPTI's calls take and return after the size of it all and a pointer of CUPTI's own, in the order of the headers.
_OF_METRICS: dict[str, tuple[_Field, ...]] = {
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
}
RANGE_PROFILER: dict[str, tuple[_Field, ...]] = {
    "cuptiRangeProfilerEnable": (("context", _pointer), ("profiler", _pointer)),
    "cuptiRangeProfilerDisable": (("profiler", _pointer),),
    "cuptiRangeProfilerStart": (("profiler", _pointer),),
    "cuptiRangeProfilerStop": (("profiler", _pointer), ("pass_index", _size), ("level", _size), ("is_all", _byte)),
    "cuptiRangeProfilerPushRange": (("profiler", _pointer), ("name", ctypes.c_char_p)),
    "cuptiRangeProfilerPopRange": (("profiler", _pointer),),
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
PM_SAMPLING: dict[str, tuple[_Field, ...]] = {
    "cuptiPmSamplingGetCounterAvailability": (("device", _size), ("bytes", _size), ("image", _pointer)),
    "cuptiPmSamplingEnable": (("device", _size), ("sampler", _pointer)),
    "cuptiPmSamplingDisable": (("sampler", _pointer),),
    "cuptiPmSamplingSetConfig": (
        ("sampler", _pointer), ("config_bytes", _size), ("config", _pointer), ("buffer_bytes", _size),
        ("interval", _long), ("trigger", _int), ("append", _int)),
    "cuptiPmSamplingStart": (("sampler", _pointer),),
    "cuptiPmSamplingStop": (("sampler", _pointer),),
    "cuptiPmSamplingGetCounterDataSize": (
        ("sampler", _pointer), ("names", _names), ("count", _size), ("samples", ctypes.c_uint32), ("bytes", _size)),
    "cuptiPmSamplingCounterDataImageInitialize": (("sampler", _pointer), ("bytes", _size), ("image", _pointer)),
    "cuptiPmSamplingDecodeData": (
        ("sampler", _pointer), ("image", _pointer), ("bytes", _size), ("stopped", _int), ("overflow", _byte)),
    "cuptiPmSamplingGetCounterDataInfo": (
        ("image", _pointer), ("bytes", _size), ("samples", _size), ("populated", _size), ("completed", _size)),
    "cuptiPmSamplingCounterDataGetSampleInfo": (
        ("sampler", _pointer), ("image", _pointer), ("bytes", _size), ("sample", _size), ("start", _long),
        ("end", _long)),
}

SASS_METRICS: dict[str, tuple[_Field, ...]] = {
    # The number, name and text of the metric are a structure of their own there: as long as it is, at the same place.
    "cuptiSassMetricsGetProperties": (("chip", ctypes.c_char_p), ("name", ctypes.c_char_p), ("number", _long),
                                      ("found", ctypes.c_char_p), ("text", ctypes.c_char_p)),
    "cuptiSassMetricsSetConfig": (("count", _size), ("configs", _pointer), ("device", ctypes.c_uint32)),
    "cuptiSassMetricsUnsetConfig": (("device", ctypes.c_uint32),),
    "cuptiSassMetricsEnable": (("context", _pointer), ("lazy", _byte)),
    "cuptiSassMetricsDisable": (("context", _pointer), ("dropped", _size)),
    "cuptiSassMetricsGetDataProperties": (("context", _pointer), ("records", _size), ("instances", _size)),
    "cuptiSassMetricsFlushData": (("context", _pointer), ("records", _size), ("instances", _size), ("data", _pointer)),
}


def _structure(fields: Sequence[_Field]) -> type[ctypes.Structure]:
    class Parameters(ctypes.Structure):
        _fields_ = (("size", _size), ("private", _pointer), *fields)

    return Parameters


_STRUCTURES = {name: _structure(fields)
               for name, fields in (_OF_METRICS | RANGE_PROFILER | PM_SAMPLING | SASS_METRICS).items()}
#: Calls whose size, by the header, ends before their last field.
_SIZE_UNTIL = {"cuptiSassMetricsFlushData": "instances"}


class Profiler:
    """What CUPTI's range profiler and its PM sampling have in common: the library, and metrics of a chip.

    Parameters
    ----------
    path : str
        CUPTI's library; libnvperf_host lies beside it, or is found by the loader.
    device : int
        The ordinal of the device.

    Attributes
    ----------
    chip : str
        CUPTI's name of the device's chip, once metrics are chosen.
    nvperf : str
        The file of libnvperf_host.

    Raises
    ------
    CuptiError
        There is no such interface in that library.
    """

    #: Its ``CUPTI_PROFILER_TYPE_``, its name, its calls, and since which CUDA there are these.
    TYPE = 0
    NAME, CALLS, SINCE = "", tuple[str, ...](), ""

    def __init__(self, path: str, device: int) -> None:
        self._load(path)
        self._device = device
        self.chip = ""
        self._host: Any = None
        self.metrics: tuple[str, ...] = ()
        self._config: Any = None
        self.passes = 0

    def _choose(self, metrics: Sequence[str], available: Any = None) -> None:
        """Have these metrics configured; raises `CuptiError` where the chip has no such metric, or no counters."""
        chip = self._named_chip()
        self._forget()
        self._host = self._host_with(metrics, chip, available)
        self.metrics = tuple(metrics)
        size = self._call("cuptiProfilerHostGetConfigImageSize", host=self._host).bytes
        self._config = (_byte * size)()
        config = ctypes.addressof(self._config)
        self._call("cuptiProfilerHostGetConfigImage", host=self._host, bytes=size, image=config)
        self.passes = self._call("cuptiProfilerHostGetNumOfPasses", bytes=size, image=config).passes

    def _named_chip(self) -> bytes:
        self._call("cuptiProfilerInitialize")
        chip: bytes = self._call("cuptiDeviceGetChipName", device=self._device).chip
        self.chip = chip.decode()
        support = self._call("cuptiProfilerDeviceSupported", device=self._device)
        wrong = unsupported(self.chip, {each: getattr(support, each) for each in SUPPORT})
        if wrong is not None:
            raise CuptiError(wrong.why, wrong.fix)
        return chip

    def _forget(self) -> None:
        if self._host is not None:
            host, self._host = self._host, None
            self._call("cuptiProfilerHostDeinitialize", host=host)

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
            for name in (*_OF_METRICS, *self.CALLS):
                getattr(self._library, name)
        except (OSError, AttributeError) as error:
            raise CuptiError(f"{path} has no {self.NAME}, which CUPTI of CUDA {self.SINCE} and newer has: {error}",
                             "pip install 'kernelscope[cupti]'") from None

    def _host_with(self, metrics: Sequence[str], chip: bytes, available: Any) -> Any:
        host = self._call("cuptiProfilerHostInitialize", type=self.TYPE, chip=chip,
                          available=None if available is None else ctypes.addressof(available)).host
        try:
            # Together: those that are added one by one share no passes.
            self._call("cuptiProfilerHostConfigAddMetrics", host=host, names=names(metrics), count=len(metrics))
        except CuptiError as error:
            self._call("cuptiProfilerHostDeinitialize", host=host)
            if len(metrics) == 1:
                raise CuptiError(f"the metric {metrics[0]} cannot be measured on {chip.decode()}: {error}",
                                 "ncu --query-metrics lists those that there are") from None
            for name in metrics:  # CUPTI does not say which it does not know
                self._call("cuptiProfilerHostDeinitialize", host=self._host_with([name], chip, available))
            raise
        return host

    def _call(self, function: str, /, **values: Any) -> Any:
        params = _parameters(function, values)
        result = getattr(self._library, function)(ctypes.byref(params))
        if result:
            raise refusal(self._library, function, result)
        return params


def _parameters(name: str, values: Mapping[str, Any]) -> Any:
    params: Any = _STRUCTURES[name](**values)
    descriptor = getattr(type(params), _SIZE_UNTIL.get(name) or str(type(params)._fields_[-1][0]))
    params.size = descriptor.offset + descriptor.size
    return params


class Repeated:
    """A call that C makes again and again, with the same parameters but for the fields that C changes.

    Attributes
    ----------
    call : tuple of (int, int)
        The addresses of the function and of its parameters.
    """

    def __init__(self, library: Any, name: str, **values: Any) -> None:
        self._params = _parameters(name, values)
        self._start = ctypes.addressof(self._params)
        self.call = ctypes.cast(getattr(library, name), _pointer).value or 0, self._start

    def field(self, name: str) -> int:
        """Return the address of a field."""
        return self._start + getattr(type(self._params), name).offset


def names(metrics: Sequence[str]) -> Any:
    """Return names as CUPTI takes them."""
    return ctypes.cast((ctypes.c_char_p * len(metrics))(*(name.encode() for name in metrics)), _names)

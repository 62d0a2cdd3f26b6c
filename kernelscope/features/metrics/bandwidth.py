"""What a copy on a device reaches: a roof of memory that is measured, and not of the data sheet."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

#: Bytes that are copied at most: some times as many as an L2 cache holds. Fewer where the device has little room.
_BYTES = 1 << 28
#: The part of the free memory that two buffers may take, and below which size nothing is measured.
_OF_FREE, _LEAST = 1 / 8, 1 << 26
#: Copies: the clocks rise during the first ones.
_COPIES, _COUNTED = 40, 20

_measured: dict[int, float] = {}


def copy_bandwidth(driver: Any, context: int, ordinal: int) -> float | None:
    """Return the bytes a second that a copy on a device reaches, read plus written; measured once in a process.

    Parameters
    ----------
    driver : ctypes.CDLL
        CUDA's driver.
    context : int
        A context of the device.
    ordinal : int
        The device's ordinal.

    Returns
    -------
    float or None
        None where there is no room for two buffers, or the driver refuses.
    """
    if ordinal not in _measured:
        with current(driver, context):
            found = _measure(driver)
        if found is None:
            return None
        _measured[ordinal] = found
    return _measured[ordinal]


@contextmanager
def current(driver: Any, context: int) -> Generator[None]:
    """Make a context the calling thread's own meanwhile."""
    is_pushed = not driver.cuCtxPushCurrent_v2(ctypes.c_void_p(context))
    try:
        yield
    finally:
        if is_pushed:
            driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def _measure(driver: Any) -> float | None:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    if driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)):
        return None
    size = min(_BYTES, int(free.value * _OF_FREE) // 2)
    buffers: list[ctypes.c_uint64] = []
    events: list[ctypes.c_void_p] = []
    stream = ctypes.c_void_p()
    try:
        # A stream of its own, which waits for no other and is captured by none.
        if size < _LEAST or driver.cuStreamCreate(ctypes.byref(stream), 1):
            return None
        for _ in range(2):
            pointer = ctypes.c_uint64()
            if driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)):
                return None
            buffers.append(pointer)
        for _ in range(_COPIES + 1):
            event = ctypes.c_void_p()
            if driver.cuEventCreate(ctypes.byref(event), 0):
                return None
            events.append(event)
        driver.cuEventRecord(events[0], stream)
        for event in events[1:]:
            driver.cuMemcpyDtoDAsync_v2(buffers[0], buffers[1], ctypes.c_size_t(size), stream)
            driver.cuEventRecord(event, stream)
        if driver.cuStreamSynchronize(stream):
            return None
        took = ctypes.c_float()
        times: list[float] = []
        for before, after in zip(events[-_COUNTED - 1:-1], events[-_COUNTED:], strict=True):
            if driver.cuEventElapsedTime(ctypes.byref(took), before, after) or took.value <= 0:
                return None
            times.append(took.value)
        return 2 * size / statistics.median(times) * 1e3
    finally:
        for event in events:
            driver.cuEventDestroy_v2(event)
        for pointer in buffers:
            driver.cuMemFree_v2(pointer)
        if stream:
            driver.cuStreamDestroy_v2(stream)

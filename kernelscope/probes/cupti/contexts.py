"""The CUDA contexts of this process that are sampled or measured."""

from __future__ import annotations

import ctypes
from typing import Any

from kernelscope.probes.cupti.library import CuptiError

#: The driver's error of a call before cuInit().
_NOT_STARTED = 3


class Contexts:
    """CUDA contexts of this process.

    Parameters
    ----------
    handles : list of (int, int)
        Their handles, with the ordinals of their devices.
    """

    def __init__(self, handles: list[tuple[int, int]]) -> None:
        self.handles = handles
        self._retained: list[int] = []

    @classmethod
    def of_process(cls) -> Contexts:
        """Return the primary contexts that are in use and the current one; where there is none, the first device's.

        Raises
        ------
        CuptiError
            There is no device.
        """
        driver = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int()
        if driver.cuDeviceGetCount(ctypes.byref(count)) == _NOT_STARTED:
            driver.cuInit(0)
            driver.cuDeviceGetCount(ctypes.byref(count))
        if not count.value:
            raise CuptiError("no CUDA device is there", "")
        contexts = cls([])
        for ordinal in range(count.value):
            flags, active = ctypes.c_uint(), ctypes.c_int()
            failed = driver.cuDevicePrimaryCtxGetState(ordinal, ctypes.byref(flags), ctypes.byref(active))
            if not failed and active.value:
                contexts._retain(driver, ordinal)
        current, of_current = ctypes.c_void_p(), ctypes.c_int()
        if (not driver.cuCtxGetCurrent(ctypes.byref(current)) and current.value is not None
                and current.value not in dict(contexts.handles)
                and not driver.cuCtxGetDevice(ctypes.byref(of_current))):
            contexts.handles.append((current.value, of_current.value))
        if not contexts.handles:
            contexts._retain(driver, 0)
        return contexts

    def release(self) -> None:
        """Give up what was kept alive for this."""
        driver = ctypes.CDLL("libcuda.so.1") if self._retained else None
        while self._retained:
            getattr(driver, "cuDevicePrimaryCtxRelease_v2")(self._retained.pop())  # noqa: B009 - no name of Python's

    def _retain(self, driver: Any, ordinal: int) -> None:
        context = ctypes.c_void_p()
        if driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal) or context.value is None:
            raise CuptiError(f"CUDA device {ordinal} gives no context", "run nvidia-smi to see how it is")
        self._retained.append(ordinal)
        self.handles.append((context.value, ordinal))

"""Triton on the null driver, which asks torch for the current device and its stream before 3.9, or where torch is."""

from __future__ import annotations

import ctypes
import importlib.abc
import sys
from types import ModuleType
from typing import Any

from kernelscope.imports import call_after_import, imported

_MODULE = "triton.backends.nvidia.driver"
# CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
_MAJOR, _MINOR = 75, 76


def adapt(library: ctypes.CDLL) -> None:
    """Have Triton's driver ask `library` what it would ask torch, now or as soon as Triton is imported."""
    module = imported(_MODULE)
    if module is not None:
        _replace(module, library)
    elif not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder(library))


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the import of Triton's driver, also where that is loaded anew."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname == _MODULE:
            call_after_import(fullname, self._imported)

    def _imported(self, name: str, module: ModuleType) -> None:
        _replace(module, self._library)


def _replace(module: Any, library: ctypes.CDLL) -> None:
    """Replace the two functions of Triton's driver that ask torch; what Triton can ask CUDA itself stays its own."""
    functions = _functions(library)

    def initialize(self: Any) -> None:
        self.utils = module.CudaUtils()
        self.launcher_cls = module.CudaLauncher
        for name, function in functions.items():
            setattr(self, name, getattr(self, f"_{name}", function))

    module.CudaDriver.__init__ = initialize
    module.CudaDriver.is_active = staticmethod(lambda: True)


def _functions(library: ctypes.CDLL) -> dict[str, Any]:
    def checked(name: str, *arguments: Any) -> None:
        error = getattr(library, name)(*arguments)
        if error:
            raise RuntimeError(f"{name} of the dry run's driver returned the error {error}")

    def get_current_device() -> int:
        context, device = ctypes.c_void_p(), ctypes.c_int()
        checked("cuCtxGetCurrent", ctypes.byref(context))
        if not context:
            set_current_device(0)
        checked("cuCtxGetDevice", ctypes.byref(device))
        return device.value

    def set_current_device(device: int) -> None:
        context = ctypes.c_void_p()
        checked("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        checked("cuCtxSetCurrent", context)

    def get_device_capability(device: int) -> tuple[int, int]:
        value = ctypes.c_int()
        found: list[int] = []
        for attribute in (_MAJOR, _MINOR):
            checked("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
            found.append(value.value)
        return found[0], found[1]

    def get_current_stream(device: int) -> int:
        return 0  # the default stream: only torch has a current one

    return {each.__name__: each for each in (
        get_current_device, set_current_device, get_device_capability, get_current_stream)}

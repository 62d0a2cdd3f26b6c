"""The libraries that graphs need, and the memory of an array: its address, size, host or device, and who can use it."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from kernelscope.errors import GraphError


# Neither has types for a checker, and their names move between versions: both are Any here.
@functools.cache
def core() -> Any:
    """Return the module ``cuda.core``."""
    return importlib.import_module("cuda.core")


@functools.cache
def driver() -> Any:
    """Return the module ``cuda.bindings.driver``."""
    return importlib.import_module("cuda.bindings.driver")


def require_cuda() -> None:
    """Refuse the CUDA simulator, which has no graphs.

    Raises
    ------
    GraphError
        numba runs kernels in its simulator.
    """
    if importlib.import_module("numba.core.config").ENABLE_CUDASIM:
        raise GraphError("the CUDA simulator has no graphs: unset NUMBA_ENABLE_CUDASIM")


def require_names(owner: Any, names: Sequence[str]) -> None:
    """Refuse a version of numba-cuda that lacks what is needed of it.

    Raises
    ------
    GraphError
        `owner` has not all of the attributes `names`.
    """
    missing = [name for name in names if not hasattr(owner, name)]
    if missing:
        version = importlib.metadata.version("numba-cuda")
        raise GraphError(f"numba-cuda {version} has no {missing[0]}, which graphs need; numba-cuda 0.30.4 was tried")


@functools.cache
def numba_module(name: str) -> Any:
    """Return a module of numba-cuda: ``numba_module("dispatcher")`` is ``numba.cuda.dispatcher``."""
    return importlib.import_module(f"numba.cuda.{name}")


@dataclass(frozen=True)
class Region:
    """The memory of one array.

    Attributes
    ----------
    address : int
        Its first byte.
    nbytes : int
        From its first byte to behind its last one, gaps of a strided array included.
    on_device : bool
        False for plain host memory, pinned or not.
    dtype : numpy.dtype or None
        The elements' dtype; None where it is not known.
    contiguous : bool
        Whether there are no gaps.
    writable : bool
        Whether the host may write it; True on the device.
    shape : tuple of int
        The array's shape.
    """

    address: int
    nbytes: int
    on_device: bool
    dtype: np.dtype[Any] | None
    contiguous: bool
    writable: bool = True
    shape: tuple[int, ...] = ()


def region_of(value: Any) -> Region | None:
    """Return where an array is, or None for what is no array.

    Device memory is what numba calls so, and what has ``__cuda_array_interface__``.
    """
    if getattr(value, "__cuda_memory__", False):
        return _of_numba(value)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return _of_interface(interface)
    if isinstance(value, (np.ndarray, np.void)):
        array = np.asanyarray(value)
        flags = array.flags
        # Of a strided array this is no extent; but host arrays are copied, and only contiguous ones can be.
        return Region(array.ctypes.data, array.nbytes, False, array.dtype, flags.c_contiguous or flags.f_contiguous,
                      bool(flags.writeable), array.shape)
    return None


def leaves(value: Any) -> Iterator[Any]:
    """Yield an argument, or what is in it where it is a tuple; of ``cuda.In`` and the like the array."""
    value = getattr(value, "value", value) if type(value).__module__ == "numba.cuda.args" else value
    if isinstance(value, tuple):
        for each in cast("tuple[Any, ...]", value):
            yield from leaves(each)
    else:
        yield value


def check_context(region: Region, what: Callable[[], str]) -> None:
    """Refuse device memory that the current context does not own.

    Raises
    ------
    GraphError
        It belongs to another device or another context; the message begins with what `what` returns.
    """
    if not region.on_device or not region.address:
        return
    cu = driver()
    pointer, names = cu.CUdeviceptr(region.address), cu.CUpointer_attribute
    error, managed = cu.cuPointerGetAttribute(names.CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer)
    if error or managed:  # What the driver does not know it cannot say; managed memory is everybody's.
        return
    _, here = cu.cuCtxGetDevice()
    error, there = cu.cuPointerGetAttribute(names.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer)
    if not error and int(there) >= 0 and int(there) != int(here):
        raise GraphError(f"{what()} is memory of device {int(there)}, and the graph is built on device {int(here)}: "
                         "copy the array there")
    _, current = cu.cuCtxGetCurrent()
    error, context = cu.cuPointerGetAttribute(names.CU_POINTER_ATTRIBUTE_CONTEXT, pointer)
    if not error and int(context) and int(context) != int(current):
        raise GraphError(f"{what()} is memory of another CUDA context of device {int(here)}: copy the array into this "
                         "one")


def _of_numba(value: Any) -> Region:
    pointer = value.device_ctypes_pointer.value or 0
    dtype = getattr(value, "dtype", None)
    flags = getattr(value, "flags", None)
    shape = tuple(getattr(value, "shape", ()))
    strides = getattr(value, "strides", None)
    contiguous = flags is None or bool(flags["C_CONTIGUOUS"] or flags["F_CONTIGUOUS"])
    if strides is None or dtype is None:
        size = getattr(value, "alloc_size", None)
        return Region(pointer, int(getattr(value, "_cuda_memsize_", 0) if size is None else size), True, dtype, True)
    return _strided(pointer, shape, tuple(strides), np.dtype(dtype), contiguous)


def _of_interface(interface: Any) -> Region:
    dtype = np.dtype(interface["typestr"])
    shape = tuple(int(each) for each in interface["shape"])
    strides = interface.get("strides")
    packed = _packed(shape, dtype.itemsize)
    strides = packed if strides is None else tuple(int(each) for each in strides)
    backwards = tuple(reversed(_packed(tuple(reversed(shape)), dtype.itemsize)))
    return _strided(int(interface["data"][0] or 0), shape, strides, dtype, strides in (packed, backwards))


def _strided(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any],
             contiguous: bool) -> Region:
    if 0 in shape:
        return Region(pointer, 0, True, dtype, True, True, shape)
    spans = [(length - 1) * stride for length, stride in zip(shape, strides, strict=True)]
    low, high = sum(span for span in spans if span < 0), sum(span for span in spans if span > 0)
    return Region(pointer + low, high - low + dtype.itemsize, True, dtype, contiguous, True, shape)


def _packed(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides: list[int] = []
    for length in reversed(shape):
        strides.append(itemsize)
        itemsize *= length
    return tuple(reversed(strides))

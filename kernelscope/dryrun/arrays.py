"""Device memory of the dry run as Triton takes it: an object with ``data_ptr()`` and ``dtype``."""

from __future__ import annotations

import math
import weakref
from typing import Any

from kernelscope.dryrun import switch
from kernelscope.errors import DryRunError


class Array:
    """A contiguous array on the device; nothing is in it. See `array`.

    Attributes
    ----------
    shape : tuple of int
        Its length along each dimension.
    dtype : numpy.dtype
        Of its elements.
    """

    def __init__(self, owner: Any, pointer: int, shape: tuple[int, ...], dtype: Any) -> None:
        self._owner = owner
        self._pointer = pointer
        self.shape = shape
        self.dtype = dtype

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._pointer

    @property
    def nbytes(self) -> int:
        """Return its size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        """Return a part along the first dimension, in the same memory: ``x[4:]``."""
        start, stop, step = rows.indices(self.shape[0])
        if step != 1:
            raise ValueError(f"a part of an array of the dry run has the step 1, not {step}")
        row = math.prod(self.shape[1:]) * self.dtype.itemsize
        return Array(self, self._pointer + start * row, (max(stop - start, 0), *self.shape[1:]), self.dtype)

    def __repr__(self) -> str:
        return f"kernelscope.dryrun.array({self.shape}, {str(self.dtype)!r})"


def array(shape: Any, dtype: Any = "float32") -> Array:
    """Return memory of the null driver for Triton's kernels, which need no torch then.

    Parameters
    ----------
    shape : int, tuple of int, or object
        How many elements it has; or an array of numba-cuda or another library, which has
        ``__cuda_array_interface__`` and is kept alive.
    dtype : dtype
        Of the elements, as NumPy takes it; that of an array is its own.

    Raises
    ------
    DryRunError
        The dry run is not enabled, or the null driver has no memory left.
    """
    import ctypes

    import numpy as np

    held = getattr(shape, "__cuda_array_interface__", None)
    if held is not None:
        return Array(shape, int(held["data"][0]), tuple(held["shape"]), np.dtype(held["typestr"]))
    if not switch.is_enabled():
        raise DryRunError("the dry run is not enabled: call kernelscope.dryrun.enable() first")
    lengths = (int(shape),) if isinstance(shape, int) else tuple(map(int, shape))
    made = Array(None, 0, lengths, np.dtype(dtype))
    driver, pointer, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(), ctypes.c_void_p()
    driver.cuCtxGetCurrent(ctypes.byref(context))
    if not context and not driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0):
        driver.cuCtxSetCurrent(context)
    error = driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(max(made.nbytes, 1)))
    if error:
        raise DryRunError(f"the null driver gives no {made.nbytes:,} bytes: error {error}")
    made._pointer = pointer.value
    weakref.finalize(made, driver.cuMemFree_v2, ctypes.c_uint64(pointer.value))
    return made

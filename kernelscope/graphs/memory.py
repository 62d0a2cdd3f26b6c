"""Memory of arrays, streams, objects that a graph keeps alive, and the libraries that graphs need."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.metadata
import threading
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


# Streams of numba, cuda.core and others as cuda.core's.

def core_stream(stream: Any) -> Any:
    """Return the `cuda.core.Stream` for a stream.

    Parameters
    ----------
    stream : None, int or object
        None and 0 are the default stream; another int is a ``CUstream``. Otherwise a stream of numba or cuda.core, a
        `cuda.core.graph.GraphBuilder`, or any object with ``__cuda_stream__``.

    Raises
    ------
    GraphError
        It is none of these.
    """
    kind = core().Stream
    if isinstance(stream, kind):
        return stream
    if stream is None:
        return kind.from_handle(0)
    if isinstance(stream, int):
        return kind.from_handle(stream)
    inner = getattr(stream, "stream", None)
    if isinstance(inner, kind):  # a graph builder
        return inner
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        raise GraphError(f"{stream!r} is no stream: give one of numba or cuda.core, or a handle as an int")
    return kind.from_handle(int(protocol()[1]))


# Objects that a graph uses are kept until CUDA has freed the graph, after the last launch has ended.

_SEMAPHORE_BYTES = 64  # more than a sem_t has on any Linux

#: Of graphs that were closed and are perhaps not freed yet.
_ending: list[KeepAlive] = []


class KeepAlive:
    """Keeps the objects alive that an executable graph uses. Make it before the graph is instantiated.

    CUDA says when they are needed no more: the definition and the executable graph own a user object, which is released
    when the last launch has ended. CUDA does so in its own thread, which may neither call CUDA nor wait for Python,
    so that what it calls is C's ``sem_post``; the objects are let go later, in a thread of Python's.

    Parameters
    ----------
    definition : cuda.core.graph.GraphDefinition
        The graph's.
    objects
        What to keep.
    """

    def __init__(self, definition: Any, objects: Any) -> None:
        let_go()
        self._definition = definition
        self._objects = objects
        self._asking = threading.Lock()
        # Not Python's memory: CUDA may write to it when the interpreter has ended.
        self._semaphore = _libc().calloc(1, _SEMAPHORE_BYTES)
        _libc().sem_init(self._semaphore, 0, 0)
        cu = driver()
        post = ctypes.cast(_libc().sem_post, ctypes.c_void_p).value
        error, self._user_object = cu.cuUserObjectCreate(
            self._semaphore, cu.CUhostFn(post), 1, cu.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        check(error, "cuUserObjectCreate")
        moved = cu.CUuserObjectRetain_flags.CU_GRAPH_USER_OBJECT_MOVE
        check(cu.cuGraphRetainUserObject(definition.handle, self._user_object, 1, moved)[0], "cuGraphRetainUserObject")

    def close(self, graph: Any = None) -> None:
        """Destroy the executable graph, if there is one, and let go of the objects when its launches have ended."""
        _ending.append(self)
        driver().cuGraphReleaseUserObject(self._definition.handle, self._user_object, 1)
        if graph is not None:
            graph.close()
        let_go()

    def take_end(self) -> bool:
        """Return whether CUDA has freed the graph; true once, and false while another thread asks."""
        if not self._asking.acquire(blocking=False):  # it may also be garbage of this thread's that is closed meanwhile
            return False
        try:
            if self._semaphore is None or _libc().sem_trywait(self._semaphore) != 0:
                return False
            _libc().free(self._semaphore)
            self._semaphore = None
            return True
        finally:
            self._asking.release()


def let_go() -> None:
    """Let go of the objects of closed graphs whose launches have ended."""
    if _ending:
        # What is dropped may close further graphs: they find the list as it is then.
        ended = [each for each in list(_ending) if each.take_end()]
        for each in ended:
            _ending.remove(each)


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.calloc.restype = ctypes.c_void_p
    libc.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    libc.free.argtypes = libc.sem_trywait.argtypes = [ctypes.c_void_p]
    libc.sem_init.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint]
    return libc


def check(error: Any, call: str) -> None:
    """Raise what the driver's answer to a call says, if it is an error."""
    if error:
        raise GraphError(f"{call}: {getattr(error, 'name', error)}")


# Memory of an array: its address, its size, host or device, and whether this context can use it.

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

"""CUPTI's C interface through ctypes: the few functions that the probe calls.

Python objects for records, as cupti-python makes them, cost 1.3 µs each (measured): of a million activities that is
more than a second under the interpreter's lock, half of it while the user's cell runs. So the buffers stay as CUPTI
fills them, and NumPy reads them when recording has ended.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import os
from collections.abc import Callable
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.callbacks import guarded
from kernelscope.probes.cupti.buffers import BUFFER_BYTES, Buffers
from kernelscope.probes.cupti.interruptions import asking, guard

#: The oldest version whose records have the fields that are read: CUDA 12.0's.
OLDEST_VERSION = 18
DRIVER_API, RUNTIME_API = 1, 2

_MISSING = "CUPTI's library was not found: what the GPU did is not recorded"
_INSTALL = "pip install 'kernelscope[cupti]'"
_HELD = 39
_REASONS = {
    _HELD: ("another CUPTI client holds the GPU's records: {holder}",
            "run without nsys, ncu or torch.profiler; torch.profiler keeps CUPTI until the kernel restarts"),
    35: ("the driver lets only administrators see GPU activity (CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)",
         "ask for NVreg_RestrictProfilingToAdminUsers=0, or record with --no-gpu"),
    40: ("this virtual GPU lets nobody see GPU activity (CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES)",
         "ask whoever runs the machine, or record with --no-gpu"),
}
_INVALID, _NO_MORE = 1, 12
_NAME = b"KernelScope"
_BufferRequested = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t))
_BufferCompleted = ctypes.CFUNCTYPE(
    None, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)


class CuptiError(ProbeUnavailableError):
    """A call of CUPTI failed.

    Attributes
    ----------
    fix : str
        What the user can do about it.
    """

    def __init__(self, message: str, fix: str = "record with --no-gpu, and please report this message") -> None:
        super().__init__(message)
        self.fix = fix


class _SubscriberParams(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("holder", ctypes.c_void_p),
        ("holder_size", ctypes.c_size_t), ("allow_multiple", ctypes.c_uint8), ("padding", ctypes.c_uint8 * 7),
    )


class Cupti:
    """CUPTI as loaded into this process.

    Parameters
    ----------
    path : str
        The library's file.

    Attributes
    ----------
    buffers : Buffers
        Where it writes its records.
    version : int
        CUPTI's API version.
    is_guarded : bool
        Whether its callbacks leave an exception alone that is on its way to the user.

    Raises
    ------
    CuptiError
        It cannot be loaded, or is too old.
    """

    def __init__(self, path: str) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise CuptiError(f"{_MISSING}: {error}", _INSTALL) from None
        self.path = path
        self._subscriber = ctypes.c_void_p()
        self._process: int | None = None
        callback = _Callback(self._call_back)
        guard = guarded(callback)
        self._callback = guard or callback
        self.is_guarded = guard is not None
        self._called: Callable[[int], None] | None = None
        self._library.cuptiEnableCallback.argtypes = (
            ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32)
        self._library.cuptiActivityGetNextRecord.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p))
        self._library.cuptiGetCallbackName.argtypes = (
            ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(ctypes.c_char_p))
        self._library.cuptiUnsubscribe.argtypes = (ctypes.c_void_p,)
        self._library.cuptiActivityGetNumDroppedRecords.argtypes = (
            ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_size_t))
        self.version = self._version()
        self.buffers = _buffers()
        ask = asking(self.buffers.lend, self.buffers.lent, BUFFER_BYTES)
        callbacks = _BufferRequested(ask), _BufferCompleted(self.buffers.give)
        self._callbacks = tuple(guarded(each) or each for each in callbacks)
        if self.version < OLDEST_VERSION:
            raise CuptiError(f"CUPTI {self.version} is too old: CUDA 12.0's or a newer one is needed", _INSTALL)

    def subscribe(self, called: Callable[[int], None] | None = None) -> None:
        """Become the CUPTI client of this process; raises `CuptiError`, with the holder's name, where another is.

        `called` is called with the address of CUPTI's ``CUpti_CallbackData`` before and after each `watch`-ed function.
        """
        holder = ctypes.create_string_buffer(128)
        if hasattr(self._library, "cuptiSubscribe_v2"):
            # Each version accepts its own size of the parameters only, and none but the newest have all of them.
            for size in (40, 33, 32):
                params = _SubscriberParams(size, _NAME, ctypes.cast(holder, ctypes.c_void_p), 128, 0)
                result = self._library.cuptiSubscribe_v2(
                    ctypes.byref(self._subscriber), self._callback, None, ctypes.byref(params))
                if result != _INVALID:
                    break
        else:
            result = self._library.cuptiSubscribe(ctypes.byref(self._subscriber), self._callback, None)
        self._check("cuptiSubscribe", result, holder.value.decode("utf-8", "replace"))
        self._called = called

    def unsubscribe(self) -> None:
        """Leave CUPTI to others."""
        self._called = None
        subscriber, self._subscriber = self._subscriber, ctypes.c_void_p()
        if subscriber:
            self._check("cuptiUnsubscribe", self._library.cuptiUnsubscribe(subscriber))

    def watch(self, domain: int, function: int, on: bool = True) -> bool:
        """Call back before and after one function of the driver's or the runtime's interface; False if it has none."""
        result = self._library.cuptiEnableCallback(int(on), self._subscriber, domain, function)
        if result == _INVALID:  # CUPTI may be newer than the driver, and know functions that this one does not have
            return False
        self._check("cuptiEnableCallback", result)
        return True

    def graph_exec_id(self, handle: int) -> int | None:
        """Return CUPTI's id of an executable graph, which its activities have; None where it does not tell."""
        return self._graph_id("cuptiGetGraphExecId", ctypes.c_uint32(), handle)

    def graph_node_id(self, handle: int) -> int | None:
        """Return CUPTI's id of a graph's node: its lower half is the same in executable graphs of the graph."""
        return self._graph_id("cuptiGetGraphNodeId", ctypes.c_uint64(), handle)

    def register(self) -> None:
        """Have CUPTI write to `buffers`.

        The callbacks are the same each time and live as long as the process: CUPTI may have a buffer of an earlier
        recording still. They are registered each time, as another client may have put in its own meanwhile.
        """
        if self._process is None:
            self._process = os.getpid()
            atexit.register(self._silence)
        self._check("cuptiActivityRegisterCallbacks", self._library.cuptiActivityRegisterCallbacks(*self._callbacks))

    def enable(self, kind: int) -> None:
        """Record activities of one kind."""
        self._check(f"cuptiActivityEnable({kind})", self._library.cuptiActivityEnable(kind))

    def disable(self, kind: int) -> None:
        """Record no activities of one kind any more."""
        self._check(f"cuptiActivityDisable({kind})", self._library.cuptiActivityDisable(kind))

    def select(self, domain: int, functions: dict[int, bool]) -> int:
        """Say of functions of the driver's or the runtime's interface whether calls are recorded; return the refusals.

        The kind of activity must have been enabled before: in CUDA 13.0 functions that are enabled alone give nothing.
        """
        name = "cuptiActivityEnableDriverApi" if domain == DRIVER_API else "cuptiActivityEnableRuntimeApi"
        function = getattr(self._library, name, None)
        if function is None:  # before CUDA 12.5 all are recorded
            return 0
        return sum(function(number, int(on)) != 0 for number, on in functions.items())

    def functions(self, domain: int) -> dict[int, str]:
        """Return the names of the driver's or the runtime's functions that calls are recorded of, by number."""
        found: dict[int, str] = {}
        text, misses, number = ctypes.c_char_p(), 0, 0
        while misses < 50:
            number += 1
            if self._library.cuptiGetCallbackName(domain, number, ctypes.byref(text)) or not text.value:
                misses += 1
            else:
                misses, found[number] = 0, text.value.decode()
        return found

    def flush(self, *, unfinished: bool) -> None:
        """Have all buffers given back; with `unfinished` also those that hold records of running work."""
        self._check("cuptiActivityFlushAll", self._library.cuptiActivityFlushAll(int(unfinished)))

    def dropped(self) -> int:
        """Return how many records were lost since the last call."""
        count = ctypes.c_size_t()
        self._library.cuptiActivityGetNumDroppedRecords(None, 0, ctypes.byref(count))
        return count.value

    def timestamp(self) -> int:
        """Return CUPTI's clock, in nanoseconds."""
        reading = ctypes.c_uint64()
        self._check("cuptiGetTimestamp", self._library.cuptiGetTimestamp(ctypes.byref(reading)))
        return reading.value

    def size_of(self, record: int, end: int) -> int:
        """Return the size in bytes of the record at an address, whose buffer's records end at another.

        CUPTI tells where the next record is, or that there is none. Raises `ValueError` where it knows no such record.
        """
        following = ctypes.c_void_p(record)
        result = self._library.cuptiActivityGetNextRecord(record, end - record, ctypes.byref(following))
        if result == _NO_MORE:
            return end - record
        if result or not following.value:
            raise ValueError(f"CUPTI itself does not know one of its activity records (error {result})")
        return following.value - record

    def _graph_id(self, name: str, found: Any, handle: int) -> int | None:
        function = getattr(self._library, name, None)
        if function is None or function(ctypes.c_void_p(handle), ctypes.byref(found)):
            return None
        return found.value

    def _silence(self) -> None:
        """Have CUPTI call nothing of Python's any more: the interpreter ends, and CUPTI may hold buffers for longer.

        What it calls instead is a function of C that looks at nothing.
        """
        if self._process == os.getpid():
            nothing = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p)
            self._library.cuptiActivityRegisterCallbacks(nothing, nothing)

    def _call_back(self, _data: Any, _domain: int, _function: int, data: int | None) -> None:
        called = self._called
        if called is not None and data:
            called(data)

    def _version(self) -> int:
        found = ctypes.c_uint32()
        self._check("cuptiGetVersion", self._library.cuptiGetVersion(ctypes.byref(found)))
        return found.value

    def _check(self, call: str, result: int, holder: str = "") -> None:
        if not result:
            return
        if result in _REASONS:
            message, fix = _REASONS[result]
            raise CuptiError(message.format(holder=holder or "it does not give its name"), fix)
        name = ctypes.c_char_p()
        self._library.cuptiGetResultString(result, ctypes.byref(name))
        raise CuptiError(f"{call} failed: {(name.value or b'').decode() or result}")


guard(Cupti._call_back, lambda given: given["self"]._call_back(None, 0, 0, given["data"]))


def _buffers() -> Buffers:
    try:
        return Buffers()
    except MemoryError as error:
        raise CuptiError(str(error), "free some memory, or record with --no-gpu") from None


def find() -> str:
    """Return the file of the CUPTI library to use: the one that this process has loaded, or the one installed.

    Two copies in one process do not see each other's records, so that the one of a framework (torch brings its own)
    is taken where it is loaded.

    Raises
    ------
    CuptiError
        There is none.
    """
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if "/libcupti.so" in f"/{path}":
                return f"/{path}"
    try:
        pathfinder: Any = importlib.import_module("cuda.pathfinder")
        return pathfinder.load_nvidia_dynamic_lib("cupti").abs_path
    except Exception as error:
        raise CuptiError(f"{_MISSING} ({type(error).__name__})", _INSTALL) from None

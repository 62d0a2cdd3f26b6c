"""CUPTI's C interface through ctypes: its functions, its callbacks, and who else holds it."""

from __future__ import annotations

import _thread
import atexit
import ctypes
import functools
import importlib
import itertools
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from kernelscope.errors import ProbeUnavailableError
from kernelscope.native import core
from kernelscope.native.log import from_signal_handler
from kernelscope.probes.cupti.records import BUFFER_BYTES, Buffers
from kernelscope.probes.driver import guarded
from kernelscope.probes.sink import AFTER, CallData

# CUPTI's request for a buffer, its other callbacks, and the Ctrl-C that comes in the middle of them.
#
# CUPTI asks for buffers in the middle of the user's launches. A signal that came while the launch was in C is
# handled by Python at the first chance, which is that callback; ctypes cannot raise through CUPTI, and would
# print the exception and forget it. So while CUPTI records, what comes out of the callback is raised again in the
# main thread.

def asking(lend: Callable[[], int], lent: dict[int, bool], size_bytes: int) -> Callable[..., None]:
    """Return the function that answers CUPTI's request for a buffer.

    Parameters
    ----------
    lend : callable
        Returns the address of a buffer, 0 for none.
    lent : dict of int to bool
        The addresses that CUPTI has.
    size_bytes : int
        How large the buffers are.
    """
    def ask(buffer: Any, size: Any, most: Any) -> None:
        address = lend()
        # From here on nothing is called, so that what CUPTI has and `lent` are the same in any case.
        if address:
            lent[address] = True
            buffer[0] = address
            size[0] = size_bytes
        else:
            buffer[0] = None
            size[0] = 0
        most[0] = 0

    guard(ask)
    return ask


class Interruptions:
    """While it is on, a Ctrl-C that hits the callback reaches the user's code a moment later."""

    def __init__(self) -> None:
        self._before: Any = None

    def begin(self) -> None:
        """Look at the exceptions that Python cannot raise."""
        self._before = sys.unraisablehook
        sys.unraisablehook = self._seen
        _under_way.clear()

    def end(self) -> None:
        """Look no more; where somebody has put another hook over this one, it hands everything on."""
        if sys.unraisablehook == self._seen:
            sys.unraisablehook = self._before

    def _seen(self, unraisable: Any) -> None:
        entry = unraisable.exc_traceback
        if entry is None or entry.tb_frame.f_code not in _callback_codes:
            self._before(unraisable)
            return
        again = _callback_codes[entry.tb_frame.f_code]
        try:
            if again is not None and not isinstance(unraisable.exc_value, Exception):
                again(entry.tb_frame.f_locals)  # C waits for it still
        finally:
            if not raise_again(unraisable.exc_value):
                self._before(unraisable)


def guard(callback: Callable[..., Any], again: Callable[[Mapping[str, Any]], None] | None = None) -> None:
    """Have an interruption raised again that comes out of a callback, which C calls.

    Parameters
    ----------
    callback : function
        What C calls, in the end.
    again : callable, optional
        Does what the callback was to do, given its arguments by name: a signal that came while C ran interrupts the
        callback's first instruction, where no ``try`` of its own can help.
    """
    _callback_codes[getattr(callback, "__code__")] = again  # noqa: B009 - pyright knows of no code of a Callable


def raise_again(error: BaseException) -> bool:
    """Raise an interruption once more in the main thread, when it is out of the callback; return whether it is one."""
    if threading.current_thread() is not threading.main_thread():
        return False
    ident = threading.get_ident()
    if isinstance(error, KeyboardInterrupt):
        raised = _thread.interrupt_main
    elif from_signal_handler(error) or type(error) in _under_way:  # of an alarm, say
        # C may call back once more before the exception comes: out of that callback it comes without its handler.
        _under_way.add(type(error))
        raised = functools.partial(ctypes.pythonapi.PyThreadState_SetAsyncExc, ctypes.c_ulong(ident),
                                   ctypes.py_object(type(error)))
    else:
        return False
    _thread.start_new_thread(_raise_outside, (ident, raised))
    return True


def _raise_outside(ident: int, raised: Callable[[], object]) -> None:
    """Raise in a thread that is in no callback: there it would be lost once more."""
    while True:
        frame = sys._current_frames().get(ident)
        while frame is not None and frame.f_code not in _callback_codes and frame.f_code is not _SEEN:
            frame = frame.f_back
        if frame is None:
            break
        time.sleep(0.0001)
    raised()


_SEEN = Interruptions._seen.__code__
_callback_codes: dict[Any, Callable[[Mapping[str, Any]], None] | None] = {}
#: What kinds of exceptions were raised again in this recording.
_under_way: set[type[BaseException]] = set()


# CUPTI's C interface through ctypes: the few functions that the probe calls.
#
# Python objects for records, as cupti-python makes them, cost 1.3 µs each (measured): of a million activities that is
# more than a second under the interpreter's lock, half of it while the user's cell runs. So the buffers stay as CUPTI
# fills them, and NumPy reads them when recording has ended.

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
    is_held : bool
        Whether another client has CUPTI.
    """

    def __init__(self, message: str, fix: str = "record with --no-gpu, and please report this message",
                 is_held: bool = False) -> None:
        super().__init__(message)
        self.fix = fix
        self.is_held = is_held


class _SubscriberParams(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("holder", ctypes.c_void_p),
        ("holder_size", ctypes.c_size_t), ("allow_multiple", ctypes.c_uint8), ("padding", ctypes.c_uint8 * 7),
    )


#: Libraries that may hold buffers of ours, and the processes that registered with them.
_registered: dict[ctypes.CDLL, int] = {}


@atexit.register  # at once: a process that records itself registers its end later, which comes first
def _silence() -> None:
    """Have CUPTI call nothing of Python's any more: the interpreter ends, and CUPTI may hold buffers for longer.

    What it calls instead is a function of C that looks at nothing.
    """
    nothing = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p)
    for library, process in _registered.items():
        if process == os.getpid():
            library.cuptiActivityRegisterCallbacks(nothing, nothing)


class Cupti:
    """CUPTI as loaded into this process.

    Parameters
    ----------
    path : str
        The library's file.
    stamp : int
        See `kernelscope.native.CallSites`; for tests.

    Attributes
    ----------
    buffers : Buffers
        Where it writes its records.
    version : int
        CUPTI's API version.
    is_guarded : bool
        Whether its callbacks leave an exception alone that is on its way to the user.
    call_sites : CallSites
        Logs when and where the driver is called.

    Raises
    ------
    CuptiError
        It cannot be loaded, or is too old.
    """

    #: False once a device's counters were sampled in this process: CUPTI would lose whose kernels ran.
    may_begin_anew: ClassVar[bool] = True

    def __init__(self, path: str, stamp: int = 0) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise CuptiError(f"{_MISSING}: {error}", _INSTALL) from None
        self.path = path
        self._subscriber = ctypes.c_void_p()
        callback = _Callback(self._call_back)
        guard = guarded(callback)
        self._callback = guard or callback
        self.is_guarded = guard is not None
        self._called: Callable[[int], None] | None = None
        self.call_sites = core.CallSites(ctypes.cast(self._callback, ctypes.c_void_p).value or 0, stamp)
        self._watched: set[tuple[int, int]] = set()
        self._logged: set[tuple[int, int]] = set()
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
        callback, context = ctypes.c_void_p(self.call_sites.callback), ctypes.c_void_p(self.call_sites.context)
        self._watched, self._logged = set(), set()
        if hasattr(self._library, "cuptiSubscribe_v2"):
            # Each version accepts its own size of the parameters only, and none but the newest have all of them.
            for size in (40, 33, 32):
                params = _SubscriberParams(size, _NAME, ctypes.cast(holder, ctypes.c_void_p), 128, 0)
                result = self._library.cuptiSubscribe_v2(
                    ctypes.byref(self._subscriber), callback, context, ctypes.byref(params))
                if result != _INVALID:
                    break
        else:
            result = self._library.cuptiSubscribe(ctypes.byref(self._subscriber), callback, context)
        self._check("cuptiSubscribe", result, holder.value.decode("utf-8", "replace"))
        self._called = called

    def begin_anew(self) -> None:
        """Have CUPTI begin anew, with all code that is loaded now: it hears of later code only while it samples.

        Raises
        ------
        CuptiError
            Another client has CUPTI.
        """
        self.subscribe()
        self.unsubscribe()
        finalize = getattr(self._library, "cuptiFinalize", None)
        if finalize is not None:
            self._check("cuptiFinalize", finalize())

    def unsubscribe(self) -> None:
        """Leave CUPTI to others."""
        self._called = None
        subscriber, self._subscriber = self._subscriber, ctypes.c_void_p()
        if subscriber:
            self._check("cuptiUnsubscribe", self._library.cuptiUnsubscribe(subscriber))

    def watch(self, domain: int, function: int, on: bool = True) -> bool:
        """Call back before and after one function of the driver's or the runtime's interface; False if it has none."""
        return self._switch(self._watched, domain, function, on)

    def log(self, domain: int, function: int) -> bool:
        """Have `call_sites` log the calls of a function until `unsubscribe`; False if there is no such function."""
        return self._switch(self._logged, domain, function, True)

    def _switch(self, which: set[tuple[int, int]], domain: int, function: int, on: bool) -> bool:
        key = domain, function
        which.add(key) if on else which.discard(key)
        self.call_sites.log(domain, function, key in self._logged, key in self._watched)
        wanted = key in self._watched or key in self._logged
        result = self._library.cuptiEnableCallback(int(wanted), self._subscriber, domain, function)
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
        _registered[self._library] = os.getpid()
        self._check("cuptiActivityRegisterCallbacks", self._library.cuptiActivityRegisterCallbacks(*self._callbacks))

    def enable(self, kind: int) -> None:
        """Record activities of one kind."""
        self._check(f"cuptiActivityEnable({kind})", self._library.cuptiActivityEnable(kind))

    def disable(self, kind: int) -> None:
        """Record no activities of one kind any more."""
        self._check(f"cuptiActivityDisable({kind})", self._library.cuptiActivityDisable(kind))

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

    def _call_back(self, _data: Any, _domain: int, _function: int, data: int | None) -> None:
        called = self._called
        if called is not None and data:
            called(data)

    def _version(self) -> int:
        found = ctypes.c_uint32()
        self._check("cuptiGetVersion", self._library.cuptiGetVersion(ctypes.byref(found)))
        return found.value

    def _check(self, call: str, result: int, holder: str = "") -> None:
        if result:
            raise problem_of(self._library, call, result, holder)


def problem_of(library: Any, call: str, result: int, holder: str = "") -> CuptiError:
    """Return what a call of CUPTI's that returned an error is to raise; `holder` is who else has CUPTI, where known."""
    if result in _REASONS:
        message, fix = _REASONS[result]
        return CuptiError(message.format(holder=nsight() or holder or "it does not give its name"), fix,
                          result == _HELD)
    name = ctypes.c_char_p()
    library.cuptiGetResultString(result, ctypes.byref(name))
    return CuptiError(f"{call} failed: {(name.value or b'').decode() or result}")


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


_NSIGHT = {"Nsight Compute": re.compile(r"/nsight[-_]compute\b"), "Nsight Systems": re.compile(r"/nsight[-_]systems\b")}


def nsight(maps: Iterable[str] | None = None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return which of NVIDIA's Nsight tools has started this process, None for none of them.

    Parameters
    ----------
    maps : iterable of str, optional
        The lines of ``/proc/self/maps``: the tools put libraries of theirs into the process.
    environment : mapping, optional
        The process's.
    """
    if "NSYS_PROFILING_SESSION_ID" in environment:
        return "Nsight Systems"
    if maps is None:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            maps = file.readlines()
    return next((name for line in maps for name, found in _NSIGHT.items() if found.search(line.lower())), None)


# The driver's calls as CUPTI tells of them.

#: `Captures` goes on counting, whoever listens beside it.
_KEPT = ("cuStreamBeginCapture", "cuStreamEndCapture")


class CuptiCalls:
    """A `kernelscope.probes.sink.Source` that is CUPTI.

    Parameters
    ----------
    cupti : Cupti
        The library, subscribed to.
    numbers : dict of int to str
        The driver's functions by CUPTI's numbers of them.
    """

    def __init__(self, cupti: Cupti, numbers: dict[int, str]) -> None:
        self._cupti = cupti
        self._numbers = {name: number for number, name in numbers.items()}
        self._lock = threading.RLock()  # CUPTI's switches are not for several threads at once
        self.functions = frozenset(self._numbers)

    def switch(self, functions: Iterable[str], on: bool) -> None:
        """Have CUPTI call back for these functions, or no more. See `Source.switch`."""
        with self._lock:
            for name in functions:
                if on or not name.startswith(_KEPT):
                    self._cupti.watch(DRIVER_API, self._numbers[name], on)

    def exec_id(self, handle: int) -> int | None:
        """CUPTI's id of an executable graph. See `Source.exec_id`."""
        return self._cupti.graph_exec_id(handle)

    def node_number(self, handle: int) -> int | None:
        """The lower half of CUPTI's id of a node. See `Source.node_number`."""
        found = self._cupti.graph_node_id(handle)
        return None if found is None else found & 0xFFFFFFFF


# Whether a stream is capturing a graph: waiting for the device would break the capture, and nothing else tells.
#
# The driver knows it of a stream only, and streams of other libraries are not known here; so CUPTI calls back when a
# capture begins and ends. These calls are rare, and no other call is slowed down.

_WRONG_THREAD = 908
_BEGIN = ("cuStreamBeginCapture", "cudaStreamBeginCapture")
_END = ("cuStreamEndCapture", "cudaStreamEndCapture")


class Captures:
    """Counts captures under way."""

    def __init__(self) -> None:
        self._begun: set[tuple[str, int]] = set()
        self._ended: set[tuple[str, int]] = set()
        self._unnumbered = itertools.count(-1, -1)

    @property
    def under_way(self) -> int:
        """Captures that began and did not end since recording began."""
        return len(self._begun) - len(self._ended)

    @staticmethod
    def watched(functions: dict[int, str]) -> list[int]:
        """Return the numbers of the functions that `called` must be called for."""
        return [number for number, name in functions.items() if Captures.is_watched(name)]

    @staticmethod
    def is_watched(name: str) -> bool:
        """Whether `called` must be called for the function of this name."""
        return name.startswith((*_BEGIN, *_END))

    def called(self, data: int) -> None:
        """Count one call; `data` is the address of CUPTI's ``CUpti_CallbackData``."""
        call = CallData.from_address(data)
        if call.site != AFTER:
            return
        name, result = (call.name or b"").decode(), call.result[0] if call.result else 0
        # By its number: what an interruption came into is heard of twice.
        number = name, call.correlation_id or next(self._unnumbered)
        if name.startswith(_BEGIN) and not result:
            self._begun.add(number)
        # One that had become invalid ends with an error.
        elif name.startswith(_END) and result != _WRONG_THREAD and self.under_way > 0:
            self._ended.add(number)


# Having NVTX's C interface, which torch, cupy and others call, report its ranges to CUPTI.
#
# NVTX looks for a tool once in each library that has it built in, at its first call there. What calls it for the
# first time while a recording lasts is seen then, and in later recordings; what did before is not. Ranges that
# Python's
# ``nvtx`` makes are recorded in Python, where nothing depends on who was first.

_VARIABLE = "NVTX_INJECTION64_PATH"


class NvtxInjection:
    """Names CUPTI as NVTX's tool in this process's environment; whatever is named there already stays."""

    def __init__(self) -> None:
        self._ours: str | None = None

    def offer(self, path: str) -> None:
        """Name the CUPTI library at `path`, which must be the one that records."""
        if _VARIABLE not in os.environ:
            os.environ[_VARIABLE] = self._ours = path

    def withdraw(self) -> None:
        """Take the name away again, if it is still ours; libraries that found it keep it."""
        if self._ours is not None and os.environ.get(_VARIABLE) == self._ours:
            del os.environ[_VARIABLE]
        self._ours = None

"""The driver's calls that make or change graphs, as CUPTI or the dry run's driver reports them."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from kernelscope.probes.cuda_core.read import SUCCESS
from kernelscope.probes.cupti.library import Captures, Interruptions, guard
from kernelscope.probes.driver import guarded
from kernelscope.probes.sink import CallData, DriverCalls

#: A recording without one of each of these does not know graphs' lives.
_NEEDED = {
    "the captures of graphs": ("cuStreamBeginCapture_v2", "cuStreamBeginCapture_v2_ptsz"),
    "the ends of captures": ("cuStreamEndCapture", "cuStreamEndCapture_ptsz"),
    "graphs that are instantiated": ("cuGraphInstantiateWithParams", "cuGraphInstantiateWithFlags",
                                     "cuGraphInstantiate_v2"),
    "updates of graphs": ("cuGraphExecUpdate_v2",),
    "graphs that are closed": ("cuGraphExecDestroy",),
}
#: Beginnings of names whose functions would have to be known.
_FAMILIES = ("cuStreamBeginCapture", "cuStreamEndCapture", "cuStreamBeginRecapture", "cuGraphInstantiate",
             "cuGraphExecUpdate", "cuGraphExecDestroy", "cuGraphUpload", "cuGraphExecNodeSetParams",
             "cuGraphExecKernelNodeSetParams")


class Call:
    """One call of the driver."""

    __slots__ = ("api", "correlation_id", "end_ns", "ident", "name", "params", "result", "start_ns")

    def __init__(self, data: CallData, name: str, end_ns: int) -> None:
        self.name = name
        self.api = name.removesuffix("_ptsz")
        self.params = data.params
        self.result = data.result[0] if data.result else SUCCESS
        self.start_ns = (data.kept[0] if data.kept else 0) or end_ns
        self.end_ns = end_ns
        self.ident = threading.get_ident()
        self.correlation_id = data.correlation_id

    def word(self, index: int) -> int:
        """The parameter as a number."""
        return ctypes.c_uint64.from_address(self.params + 8 * index).value

    def pointed(self, index: int) -> int:
        """What the parameter points to; 0 where it points nowhere."""
        address = self.word(index)
        return ctypes.c_uint64.from_address(address).value if address else 0


def unseen(functions: frozenset[str]) -> list[str]:
    """Return what a recording does not see because a source cannot tell of a function."""
    return [f"{what} are not seen: the driver has no {names[0]}" for what, names in _NEEDED.items()
            if not functions.intersection(names)]


def strangers(functions: frozenset[str], known: Iterable[str]) -> list[str]:
    """Return the functions that do what one of the known ones does, in a way that nobody knows here."""
    return sorted(name for name in functions.difference(known) if name.startswith(_FAMILIES))


# The dry run's driver as a source of its own calls, so that graphs are seen there as CUPTI shows them on a GPU.

#: One launch as the null driver logs it.
_LAUNCH = np.dtype([("exec", "<i8"), ("stream", "<i8"), ("ident", "<i8"), ("start_ns", "<i8"), ("end_ns", "<i8"),
                    ("result", "<i8")])
_Listener = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class NullCalls:
    """A `kernelscope.probes.sink.Source` that is the null driver.

    Parameters
    ----------
    library : CDLL
        The null driver.
    calls : DriverCalls
        Who wants to be told.

    Attributes
    ----------
    captures : Captures
        The captures under way.
    """

    def __init__(self, library: Any, calls: DriverCalls) -> None:
        self._library = library
        self._calls = calls
        self._interruptions = Interruptions()
        self.captures = Captures()
        library.kernelscope_dryrun_watchable.restype = ctypes.c_char_p
        library.kernelscope_dryrun_exec_id.restype = ctypes.c_uint64
        library.kernelscope_dryrun_node_number.restype = ctypes.c_uint64
        library.kernelscope_dryrun_take_launches.restype = ctypes.c_size_t
        self.functions = frozenset(self._watchable())

    def begin(self) -> None:
        """Tell from now on; there is one that tells in a process."""
        callback = _callback()
        if callback is None:
            return
        self._interruptions.begin()
        _telling[:] = [self]
        self.switch((name for name in self.functions if Captures.is_watched(name)), True)
        self._library.kernelscope_dryrun_listen(callback)
        self._calls.offer(self)

    def end(self) -> None:
        """Tell no more."""
        self._calls.withdraw(self)
        self._library.kernelscope_dryrun_listen(None)
        self.switch(self.functions, False)
        _telling.clear()
        self._interruptions.end()

    def switch(self, functions: Iterable[str], on: bool) -> None:
        """Have the driver call back for these functions, or no more. See `Source.switch`."""
        for name in functions:
            self._library.kernelscope_dryrun_watch(name.encode(), int(on))

    def exec_id(self, handle: int) -> int | None:
        """A number of the executable graph's own. See `Source.exec_id`."""
        return self._library.kernelscope_dryrun_exec_id(ctypes.c_void_p(handle)) or None

    def node_number(self, handle: int) -> int | None:
        """The node's number in its graph. See `Source.node_number`."""
        found = self._library.kernelscope_dryrun_node_number(ctypes.c_void_p(handle))
        return found - 1 if found else None

    def is_capturing(self) -> bool:
        """Whether a capture is under way."""
        return self.captures.under_way > 0 or self._calls.is_capturing()

    def take_launches(self) -> np.ndarray:
        """Return the launches of graphs since the last time: records of `_LAUNCH`, ``exec`` as `exec_id` says it."""
        parts: list[np.ndarray] = []
        while True:
            count = self._library.kernelscope_dryrun_take_launches(None, ctypes.c_size_t(0))
            if not count:
                return np.concatenate(parts) if parts else np.empty(0, _LAUNCH)
            part = np.empty(count, _LAUNCH)
            self._library.kernelscope_dryrun_take_launches(part.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(count))
            parts.append(part)

    def heard(self, data: int) -> None:
        """The driver tells of a call."""
        self.captures.called(data)
        heard = self._calls.heard
        if heard is not None:
            heard(data)

    def _watchable(self) -> Iterable[str]:
        index = 0
        while (name := self._library.kernelscope_dryrun_watchable(index)) is not None:
            yield name.decode()
            index += 1


def _hear(data: int | None) -> None:
    telling = _telling
    if telling and data:
        telling[0].heard(data)


_telling: list[NullCalls] = []
guard(_hear, lambda given: _hear(given["data"]))


@functools.cache
def _callback() -> Any:
    """It lives as long as the process: another thread may be about to call it when nobody listens any more."""
    return guarded(_Listener(_hear))

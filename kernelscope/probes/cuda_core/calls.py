"""One call of the driver as it is told of, and which calls must be told of."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable

from kernelscope.probes.cuda_core.driver import SUCCESS
from kernelscope.probes.driver_calls import CallData

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

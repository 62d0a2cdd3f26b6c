"""The driver's calls as CUPTI tells of them, and its numbers of graphs and nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from kernelscope.probes.cupti.library import DRIVER_API, Cupti

#: `Captures` goes on counting, whoever listens beside it.
_KEPT = ("cuStreamBeginCapture", "cuStreamEndCapture")


class CuptiCalls:
    """A `kernelscope.probes.driver_calls.Source` that is CUPTI.

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

"""Graphs as they were at one moment: copies that the driver makes at once, and that are read later.

The driver copies a graph of 1,000 nodes in 0.6 ms; reading them from Python takes ten times as long. So the copy is
made in the user's call and read when recording stops. A copy keeps alive what the graph keeps alive, such as arrays,
and may be read only as long as its kernels are loaded: it is read earlier when the last of what it was copied from is
destroyed, and when a module is unloaded.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable

from kernelscope.probes.cuda_core.driver import SUCCESS, Driver
from kernelscope.probes.cuda_core.walk import Walked, Walker, numbers_of

#: More copies, or more nodes in them, are not kept.
MOST_COPIES, MOST_NODES = 256, 50_000

Number = Callable[[int], int | None]


class Held:
    """One graph at one moment.

    Attributes
    ----------
    walked : Walked or None
        What was read; None before, and where the driver would not tell.
    handles : list of int
        The definition's own nodes, in order.
    """

    __slots__ = ("handles", "numbers", "owners", "slot", "walked")

    def __init__(self, handles: list[int], owners: Iterable[int]) -> None:
        self.walked: Walked | None = None
        self.handles = handles
        self.owners = set(owners)
        self.slot: ctypes.c_uint64 | None = None
        self.numbers: tuple[int | None, ...] = ()


class Holder:
    """Keeps copies of graphs, and reads them.

    Parameters
    ----------
    driver : Driver
        Who copies.
    walker : Walker
        Who reads.
    """

    def __init__(self, driver: Driver, walker: Walker) -> None:
        self._driver = driver
        self._walker = walker
        self._waiting: dict[int, Held] = {}
        self._slots: dict[int, ctypes.c_uint64] = {}
        self._copies: set[int] = set()
        self._nodes = 0
        self._handles: list[int] = []

    def is_own_slot(self, address: int) -> bool:
        """Whether a copy is being written there that is made here, and not by the user."""
        return address in self._slots

    def is_own_copy(self, graph: int) -> bool:
        """Whether a definition is a copy that was made here."""
        return graph in self._copies

    def hold(self, graph: int, owners: Iterable[int], number: Number) -> Held | None:
        """Copy a definition, or read it at once where that cannot be; None where it is none.

        Parameters
        ----------
        graph : int
            The definition.
        owners : iterable of int
            Handles of what keeps alive all that the copy does; without any it is read at once.
        number : callable
            The number of each of its own nodes.
        """
        handles = self._driver.nodes(graph)
        if handles is None:
            return None
        if handles == self._handles:  # a definition that is instantiated again and again
            handles = self._handles
        self._handles = handles
        held = Held(handles, owners)
        held.numbers = _numbers(handles, number)
        if not held.owners or self._leads_back(graph, handles) or not self._copy(graph, held):
            held.walked = self._walked(graph, held)
            return held
        while self._waiting and (len(self._waiting) >= MOST_COPIES or self._nodes + len(handles) > MOST_NODES):
            self.read(next(iter(self._waiting.values())))
        self._waiting[id(held)] = held
        self._nodes += len(handles)
        return held

    def read(self, held: Held) -> None:
        """Read a copy and destroy it; nothing where that was done."""
        slot = held.slot
        if slot is None:
            return
        held.walked = self._walked(slot.value, held)
        if self._waiting.pop(id(held), None) is not None:
            self._nodes -= len(held.handles)
        held.slot = None
        self._destroy(slot)

    def read_all(self) -> None:
        """Read all copies; those that an interruption has left over are destroyed."""
        for held in list(self._waiting.values()):
            self.read(held)
        for slot in list(self._slots.values()):
            self._destroy(slot)

    def going(self, owner: int) -> None:
        """Read those copies that would be the last to keep something alive when `owner` is destroyed."""
        for held in list(self._waiting.values()):
            held.owners.discard(owner)
            if not held.owners:
                self.read(held)

    def _walked(self, graph: int, held: Held) -> Walked | None:
        walked = self._walker.walk(graph)
        if walked is None:
            return None
        return walked._replace(numbers=numbers_of(walked.snapshot, held.numbers))

    def _leads_back(self, graph: int, handles: list[int]) -> bool:
        """Whether a node depends on one that was added after it: a copy may have its nodes in another order then."""
        place = {handle: at for at, handle in enumerate(handles)}
        return any(place.get(first, 0) > place.get(then, 0) for first, then in self._driver.edges(graph))

    def _destroy(self, slot: ctypes.c_uint64) -> None:
        if slot.value:
            self._driver.destroy(slot.value)
        self._copies.discard(slot.value)
        self._slots.pop(ctypes.addressof(slot), None)

    def _copy(self, graph: int, held: Held) -> bool:
        slot = ctypes.c_uint64()
        self._slots[ctypes.addressof(slot)] = slot  # before: what an interruption leaves over can be found
        if self._driver.clone(graph, slot) == SUCCESS:
            self._copies.add(slot.value)
            held.slot = slot
            return True
        self._slots.pop(ctypes.addressof(slot), None)
        return False


def _numbers(handles: list[int], number: Number) -> tuple[int | None, ...]:
    """The numbers of a definition's nodes; they are mostly consecutive, and then two of them say it."""
    if not handles:
        return ()
    first, last = number(handles[0]), number(handles[-1])
    if first is not None and last is not None and last - first == len(handles) - 1:
        return _consecutive(first, last)
    return tuple(number(handle) for handle in handles)


@functools.lru_cache(256)
def _consecutive(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))

"""What executable graphs of this process are, from one recording to the next: plain data, and not without bound."""

from __future__ import annotations

import threading
from collections import OrderedDict

from kernelscope.probes.cuda_core.fingerprint import Snapshot

MOST_GRAPHS, MOST_NODES = 512, 200_000

Known = tuple[Snapshot, tuple[int | None, ...]]


class Memory:
    """Snapshots by the id of an executable graph, which no other one of the process ever has.

    Attributes
    ----------
    captures : set of int
        The ids of the captures that the last recording has left under way.
    """

    def __init__(self) -> None:
        self.captures: set[int] = set()
        self._known: OrderedDict[int, Known] = OrderedDict()
        self._nodes = 0
        self._lock = threading.RLock()

    def remember(self, number: int | None, snapshot: Snapshot, numbers: tuple[int | None, ...]) -> None:
        """Keep what an executable graph is, and forget those that were longest not seen."""
        if number is None:
            return
        with self._lock:
            self.forget(number)
            self._known[number] = snapshot, numbers
            self._nodes += len(snapshot.nodes)
            while len(self._known) > MOST_GRAPHS or (self._nodes > MOST_NODES and len(self._known) > 1):
                self.forget(next(iter(self._known)))

    def recall(self, number: int | None) -> Known | None:
        """Return what an executable graph is, or None."""
        with self._lock:
            return self._known.get(number) if number is not None else None

    def forget(self, number: int) -> None:
        """Keep it no longer."""
        with self._lock:
            found = self._known.pop(number, None)
            if found is not None:
                self._nodes -= len(found[0].nodes)

    def __len__(self) -> int:
        return len(self._known)

"""The memory that CUPTI writes its records to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelscope.probes.cupti.records import Sizes, positions

#: One buffer holds about 2,000 launches with their calls; all buffers of an arena are read at once.
BUFFER_BYTES = 512 * 1024
ARENA_BUFFERS = 256
#: At most this much is held; CUPTI drops and counts what comes then. It is 16 million launches.
MOST_ARENAS = 32


class Buffers:
    """Lends CUPTI parts of a few arenas and takes them back filled.

    `lend` and `take_back` are called in the middle of the user's launches, in any thread: they do little, and every
    step of theirs is one bytecode's work on a list, so that neither needs a lock.
    """

    def __init__(self) -> None:
        self._arenas: list[np.ndarray] = []
        self._free: list[int] = []
        self._filled: list[tuple[int, int]] = []
        self._sizes = Sizes()
        self.lent = 0

    def lend(self) -> tuple[int, int]:
        """Return a buffer's address and size in bytes; two zeros where there is no memory left to lend."""
        while True:
            try:
                address = self._free.pop()
            except IndexError:
                if len(self._arenas) >= MOST_ARENAS:
                    return 0, 0
                arena = np.empty(BUFFER_BYTES * ARENA_BUFFERS // 8, np.int64)  # its pages come when they are written
                self._arenas.append(arena)
                start = arena.ctypes.data
                self._free.extend(range(start, start + arena.nbytes, BUFFER_BYTES))
                continue
            self.lent += 1
            return address, BUFFER_BYTES

    def take_back(self, address: int, valid: int) -> None:
        """Remember a buffer of which `valid` bytes are filled."""
        self.lent -= 1
        self._filled.append((address, valid))

    def read(self, size_of: Callable[[int, int], int], consume: Callable[[np.ndarray, np.ndarray], None]) -> None:
        """Hand all filled buffers' records to `consume`, an arena at a time, and lend the buffers again.

        Parameters
        ----------
        size_of : callable
            CUPTI's answer for the size of the record at an address, given where its buffer's records end.
        consume : callable
            Takes an arena as bytes and the offsets of records in it.

        Raises
        ------
        ValueError
            The records make no sense; their buffers are given up.
        """
        filled, self._filled = self._filled, []
        for arena in list(self._arenas):
            base, end = arena.ctypes.data, arena.ctypes.data + arena.nbytes
            mine = [(address - base, valid) for address, valid in filled if base <= address < end]
            if not mine:
                continue
            starts = np.array([start for start, _ in mine], np.int64)
            ends = starts + np.array([valid for _, valid in mine], np.int64)
            whole = arena.view(np.uint8)
            at = positions(whole, starts, ends, self._sizes,
                           lambda record, last, base=base: size_of(base + record, base + last))
            consume(whole, at)
            self._free.extend(base + start for start, _ in mine)

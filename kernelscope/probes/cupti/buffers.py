"""The memory that CUPTI writes its records to."""

from __future__ import annotations

import functools
import io
import mmap
from collections.abc import Callable

import numpy as np

from kernelscope.probes.cupti.records import Sizes, positions

#: One buffer holds about 900 launches with their calls.
BUFFER_BYTES = 256 * 1024
#: What is reserved, not taken: 15 million launches. CUPTI drops and counts what comes then.
MOST_BYTES = 4 << 30
LEAST_BYTES = 64 << 20
#: Linux's MAP_NORESERVE, which Python has a name for from 3.13 on.
_NORESERVE = 0x4000


class Buffers:
    """Lends CUPTI parts of one stretch of memory, and reads them when CUPTI has given them back; one a process.

    CUPTI asks for buffers and gives them back in the middle of the user's launches and waits, in any thread, and may
    keep one over the end of a recording. So `lend` gives what the pages of are taken only when CUPTI writes them, and
    `give` is no Python function: none of the interpreter's steps is in it, between which a signal handler or another
    thread could run and break it off.

    Attributes
    ----------
    lent : dict of int to bool
        The addresses of buffers that CUPTI has; `collect` brings it up to date.
    give : callable
        Takes what CUPTI says of a buffer that it gives back: context, stream, address, size, bytes that are filled.
    problem : str or None
        What was wrong with the first record that made no sense; what followed it in its buffer was left out.

    Raises
    ------
    MemoryError
        Not even the least that is worth while can be reserved.
    """

    def __init__(self) -> None:
        self._memory = _reserved()
        self.arena = np.frombuffer(self._memory, np.uint8)
        self._base = self.arena.ctypes.data
        self._unused = iter(range(self._base, self._base + len(self.arena), BUFFER_BYTES))
        self._free: list[int] = []
        self._filled: list[tuple[int, int]] = []
        self._sizes = Sizes()
        self._returned = io.StringIO()
        self._read_until = 0
        self._kept: set[int] = set()
        self.lent: dict[int, bool] = {}
        self.give: Callable[..., None] = functools.partial(print, file=self._returned)
        self.problem: str | None = None

    def lend(self) -> int:
        """Return the address of a buffer; 0 where there is none left."""
        try:
            return self._free.pop()
        except IndexError:
            return next(self._unused, 0)

    def collect(self) -> int:
        """Take notice of what CUPTI has given back; return how many buffers are due that it has still."""
        text = self._returned.getvalue()
        end = text.rfind("\n") + 1
        for line in text[self._read_until:end].splitlines():
            _context, _stream, address, _size, valid = line.split()
            if address != "None" and self.lent.pop(int(address), False):
                self._filled.append((int(address), int(valid)))
                self._kept.discard(int(address))
        self._read_until = end
        return sum(address not in self._kept for address in list(self.lent))

    def give_up(self) -> None:
        """Wait no more for what CUPTI has now: it keeps it for what it records next."""
        self._kept = set(self.lent)

    def read(self, size_of: Callable[[int, int], int], consume: Callable[[np.ndarray, np.ndarray, np.ndarray], None]) -> None:
        """Hand the records of all buffers that were given back to `consume`, and lend the buffers again.

        Parameters
        ----------
        size_of : callable
            CUPTI's answer for the size of the record at an address, given where its buffer's records end.
        consume : callable
            Takes the memory as bytes, and the offsets and kinds of records in it.
        """
        self.collect()
        filled, self._filled = self._filled, []
        if not filled:
            return
        starts = np.array([address for address, _ in filled], np.int64) - self._base
        ends = starts + np.clip(np.array([valid for _, valid in filled], np.int64), 0, BUFFER_BYTES)
        at, kinds, problem = positions(self.arena, starts, ends, self._sizes,
                                       lambda record, last: size_of(self._base + record, self._base + last))
        self.problem = self.problem or problem
        if len(at):
            consume(self.arena, at, kinds)
        self._free.extend(address for address, _ in filled)

    def release(self) -> None:
        """Give the memory of all buffers that are not lent back to the system; they can be lent again."""
        self.problem = None
        used = [*self._free]
        if self.lent:
            for address in used:
                self._memory.madvise(mmap.MADV_DONTNEED, address - self._base, BUFFER_BYTES)
        elif used:
            start, end = min(used) - self._base, max(used) - self._base + BUFFER_BYTES
            self._memory.madvise(mmap.MADV_DONTNEED, start, end - start)


def _reserved() -> mmap.mmap:
    size = MOST_BYTES
    while True:
        try:
            return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
        except OSError:
            if size <= LEAST_BYTES:
                raise MemoryError(f"no {size >> 20} MiB of memory for the GPU's records") from None
            size //= 2

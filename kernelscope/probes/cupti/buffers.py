"""The memory that CUPTI writes its records to."""

from __future__ import annotations

import ctypes
import functools
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
#: Lines of 90,000 buffers at the least; it begins anew when CUPTI has none.
_LOG_BYTES = 8 << 20


class Buffers:
    """Lends CUPTI parts of one stretch of memory, and reads them when CUPTI has given them back; one a process.

    CUPTI asks for buffers and gives them back in the middle of the user's launches and waits, in any thread, and may
    keep one over the end of a recording. The pages of what `lend` gives are taken only when CUPTI writes to them, and
    `give` runs no step of the interpreter, between two of which a signal handler could break it off: it is C's own
    fprintf, to a stream in memory.

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
        self._returned = _Log()
        self.give = self._returned.write
        self._kept: set[int] = set()
        self.lent: dict[int, bool] = {}
        self.problem: str | None = None

    def lend(self) -> int:
        """Return the address of a buffer; 0 where there is none left."""
        try:
            return self._free.pop()
        except IndexError:
            return next(self._unused, 0)

    def collect(self) -> int:
        """Take notice of what CUPTI has given back; return how many buffers are due that it has still."""
        for _context, _stream, address, _size, valid in self._returned.lines():
            if self.lent.pop(address, False):
                self._filled.append((address, valid))
                self._kept.discard(address)
        return sum(address not in self._kept for address in list(self.lent))

    def give_up(self) -> None:
        """Wait no more for what CUPTI has now: it keeps it for what it records next."""
        self._kept = set(self.lent)

    def read(self, size_of: Callable[[int, int], int],
             consume: Callable[[np.ndarray, dict[int, np.ndarray]], None]) -> None:
        """Hand the records of all buffers that were given back to `consume`, and lend the buffers again.

        Parameters
        ----------
        size_of : callable
            CUPTI's answer for the size of the record at an address, given where its buffer's records end.
        consume : callable
            Takes the memory as bytes, and the offsets of the records in it, by kind.
        """
        self.collect()
        filled, self._filled = self._filled, []
        if not filled:
            return
        starts = np.array([address for address, _ in filled], np.int64) - self._base
        ends = starts + np.clip(np.array([valid for _, valid in filled], np.int64), 0, BUFFER_BYTES)
        found, problem = positions(self.arena, starts, ends, self._sizes,
                                   lambda record, last: size_of(self._base + record, self._base + last))
        self.problem = self.problem or problem
        if found:
            consume(self.arena, found)
        self._free.extend(address for address, _ in filled)

    def release(self) -> None:
        """Give the memory of all buffers that are not lent back to the system; they can be lent again."""
        self.problem = None
        used = [*self._free]
        if self.lent:
            for address in used:
                self._memory.madvise(mmap.MADV_DONTNEED, address - self._base, BUFFER_BYTES)
            return
        self._returned.begin_again()
        if used:
            start, end = min(used) - self._base, max(used) - self._base + BUFFER_BYTES
            self._memory.madvise(mmap.MADV_DONTNEED, start, end - start)


class _Log:
    """Lines of five numbers, which `write` writes in C alone.

    The memory is of a fixed size and never moves, so that it can be read while another thread writes to it.
    """

    def __init__(self) -> None:
        self._library = library = ctypes.CDLL(None)
        library.fmemopen.restype = ctypes.c_void_p
        library.ftell.restype = ctypes.c_long
        for function in (library.ftell, library.fflush, library.rewind):
            function.argtypes = (ctypes.c_void_p,)
        library.fprintf.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32,
                                    ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)
        self._text = ctypes.create_string_buffer(_LOG_BYTES)
        self._stream = library.fmemopen(self._text, ctypes.c_size_t(_LOG_BYTES), b"w")
        if not self._stream:
            raise MemoryError("no memory for a stream")
        self._read_until = 0
        self.write: Callable[..., None] = functools.partial(library.fprintf, self._stream, b"%zu %u %zu %zu %zu\n")

    def lines(self) -> list[list[int]]:
        """Return what was written since the last call."""
        end = self._library.ftell(self._stream)
        self._library.fflush(self._stream)  # after: up to there all is in the memory
        text = ctypes.string_at(ctypes.addressof(self._text) + self._read_until, max(0, end - self._read_until))
        whole = text[:text.rfind(b"\n") + 1]
        self._read_until += len(whole)
        return [[int(number) for number in line.split()] for line in whole.splitlines()]

    def begin_again(self) -> None:
        """Forget all lines; nobody may write one meanwhile."""
        if self._read_until > _LOG_BYTES // 2:
            self._library.rewind(self._stream)
            self._read_until = 0


def _reserved() -> mmap.mmap:
    size = MOST_BYTES
    while True:
        try:
            return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
        except OSError:
            if size <= LEAST_BYTES:
                raise MemoryError(f"no {size >> 20} MiB of memory for the GPU's records") from None
            size //= 2

"""Copies of device memory, kept on the device: taken before something runs, compared and put back afterwards."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from kernelscope.analysis.units import size
from kernelscope.errors import GraphError
from kernelscope.graphs.libraries import driver

_CAPTURING = "; a stream is in the middle of capturing a graph, which must end before"

@dataclass(frozen=True)
class _Piece:
    start: int
    nbytes: int
    copy: int

    @property
    def end(self) -> int:
        return self.start + self.nbytes


class Snapshot:
    """The contents of some device memory at one time. As a context manager it frees its copies.

    Arrays may overlap: every byte is copied once, when it is first covered.
    """

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []

    @property
    def nbytes(self) -> int:
        """How much it holds."""
        return sum(each.nbytes for each in self._pieces)

    def cover(self, start: int, nbytes: int) -> None:
        """Copy what is in this memory now, except what was covered before. It waits for the device.

        Raises
        ------
        GraphError
            There is no room on the device, or the memory cannot be read.
        """
        missing: list[tuple[int, int]] = []
        place, end = start, start + nbytes
        for piece in self._pieces:
            if piece.end <= place or piece.start >= end:
                continue
            if piece.start > place:
                missing.append((place, piece.start))
            place = max(place, piece.end)
        if place < end:
            missing.append((place, end))
        for first, last in missing:
            self._pieces.append(_copied(first, last - first))
        self._pieces.sort(key=lambda piece: piece.start)

    def again(self) -> Snapshot:
        """Return a snapshot of the same memory as it is now."""
        snapshot = Snapshot()
        try:
            for piece in self._pieces:
                snapshot._pieces.append(_copied(piece.start, piece.nbytes))
        except BaseException:
            snapshot.free()
            raise
        return snapshot

    def restore(self) -> None:
        """Put the contents back. It waits for the device before and after."""
        synchronize()
        for piece in self._pieces:
            _do("cuMemcpyDtoD", piece.start, piece.copy, piece.nbytes)
        synchronize()

    def read(self, start: int, nbytes: int) -> np.ndarray:
        """Return bytes of the snapshot, as an array of uint8; all of them must have been covered."""
        found = np.empty(nbytes, np.uint8)
        place = start
        first = bisect_right([piece.start for piece in self._pieces], start) - 1
        for piece in self._pieces[max(first, 0):]:
            if place >= start + nbytes:
                break
            last = min(piece.end, start + nbytes)
            _read(found[place - start:last - start], piece.copy + place - piece.start)
            place = last
        return found

    def free(self) -> None:
        """Free the copies."""
        while self._pieces:
            _do("cuMemFree", self._pieces.pop().copy)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.free()


def present(start: int, nbytes: int) -> np.ndarray:
    """Return what is in device memory now, as an array of uint8."""
    found = np.empty(nbytes, np.uint8)
    _read(found, start)
    return found


def synchronize() -> None:
    """Wait for the device."""
    _do("cuCtxSynchronize")


def _copied(start: int, nbytes: int) -> _Piece:
    synchronize()
    error, copy = driver().cuMemAlloc(nbytes)
    if error:
        raise GraphError(f"no room on the device for a copy of {size(nbytes)} of its arrays ({error.name}), which "
                         "comparing results needs: try it with smaller arrays")
    piece = _Piece(start, nbytes, int(copy))
    try:
        _do("cuMemcpyDtoD", piece.copy, piece.start, nbytes)
    except BaseException:
        _do("cuMemFree", piece.copy)
        raise
    synchronize()
    return piece


def _read(into: np.ndarray, start: int) -> None:
    if into.size:
        _do("cuMemcpyDtoH", into.ctypes.data, start, into.size)


def _do(name: str, *args: Any) -> None:
    """Call the driver, past numba's layer and its hooks."""
    error = getattr(driver(), name)(*args)[0]
    if error:
        capturing = _CAPTURING if error.name.startswith("CUDA_ERROR_STREAM_CAPTURE") else ""
        raise GraphError(f"{name}: {error.name}{capturing}")

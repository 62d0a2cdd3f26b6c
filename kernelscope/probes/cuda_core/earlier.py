"""Captures that were under way when recording began: nothing told of their beginning, so the driver is asked."""

from __future__ import annotations

from collections.abc import Container, Iterable

from kernelscope.probes.cuda_core.driver import Driver

#: Handles that stand for another stream in each thread and context.
_SPECIAL = (0, 1, 2)


class EarlierCaptures:
    """Looks for captures on the streams that something was launched into, and that are alive.

    Parameters
    ----------
    driver : Driver
        Who knows which capture a stream is part of.
    left : iterable of int
        The ids of captures that were under way when the last recording ended; no other capture of the process ever has
        them. Their streams may be gone, so that nobody may ask about those: they count as under way until one of them
        is seen to end, or another recording has ended.

    Attributes
    ----------
    left : set of int
        Those of which nothing was seen yet.
    """

    def __init__(self, driver: Driver, left: Iterable[int] = ()) -> None:
        self._driver = driver
        self.left = set(left)

    def find(self, alive: Iterable[int], known: Container[int] = ()) -> dict[int, list[int]]:
        """Return the streams of each capture that is under way by its id, but of those in `known`.

        `alive` are the handles of streams that were not destroyed.
        """
        found: dict[int, list[int]] = {}
        for stream in dict.fromkeys(alive):
            number = None if stream in _SPECIAL else self._driver.capture_of(stream)
            if number is not None:
                found.setdefault(number, []).append(stream)
        self.left.difference_update(found)
        return {number: streams for number, streams in found.items() if number not in known}

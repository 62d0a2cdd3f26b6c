"""Captures that were under way when recording began: nothing told of their beginning, so the driver is asked."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from kernelscope.probes.cuda_core.driver import Driver

#: Handles that stand for another stream in each thread and context.
_SPECIAL = (0, 1, 2)


class EarlierCaptures:
    """Looks for captures on the streams that are known of: of the last recording's, and those of this one's launches.

    Parameters
    ----------
    driver : Driver
        Who knows which capture a stream is part of.
    left : mapping of int to list of int
        The streams of each capture that was under way when the last recording ended, by the capture's id, which no
        other capture of the process ever has.
    """

    def __init__(self, driver: Driver, left: Mapping[int, Iterable[int]]) -> None:
        self._driver = driver
        self._left = {number: list(streams) for number, streams in left.items()}

    def find(self, launched: Iterable[int], known: Container[int] = ()) -> dict[int, list[int]]:
        """Return the streams of each capture that is under way by its id, but of those in `known`.

        `launched` are the handles of streams that something was launched into.
        """
        found: dict[int, list[int]] = {}
        for stream in dict.fromkeys([*(each for streams in self._left.values() for each in streams), *launched]):
            number = None if stream in _SPECIAL else self._driver.capture_of(stream)
            if number is not None:
                found.setdefault(number, []).append(stream)
        self._left = {number: streams for number, streams in found.items() if number in self._left}
        return {number: streams for number, streams in found.items() if number not in known}

"""Quiet moments: when nobody else slows this thread's processor core down.

A core can be slow without being taken away: its physical core's other thread is at work for somebody else, which on a
virtual machine nothing tells. On the host of an H100 with 16 virtual cores a launch took 12.2 µs at some moments and
17.7 at others, for tens of milliseconds to seconds at a time, on whichever core. A short loop beside it took 1.0 to 1.2
and 1.6 to 2 times as long as at best (correlation of the two 0.95): it tells which moment it is.

So there is such a *reference* before and after each batch, and a study's processes go on to another core, together,
where one finds it slow. They stay as long as they can: while targets were on different cores, or came to another one
for each batch, their differences varied twice as much as on one core that was left alone.

Standard library only; Python 3.9 and later.
"""

from __future__ import annotations

import os
import time

# Bound before a target's code runs, which may put another one in its place.
_now = time.perf_counter_ns
_NUMBERS = range(1200)
#: How long a quiet core is looked for, and how many references in turn must say that it is one.
_LONGEST_NS, _IN_TURN = 10_000_000, 4
# How many references, over all cores, tell what one takes at best; and which of them does, from the fastest.
_SAMPLES, _BEST = 192, 0.1


def reference_ns() -> int:
    """Return how long a short loop took just now: some 50 microseconds."""
    start = _now()
    total = 0
    for number in _NUMBERS:
        total += number * number
    return _now() - start


class Quiet:
    """The processor cores that this thread may be on, one at a time.

    Parameters
    ----------
    cores : list of int or None
        None where it is not put on any.
    """

    def __init__(self, cores: list[int] | None) -> None:
        self._cores = list(cores or [])
        self.core: int | None = None

    def go(self, core: int | None) -> None:
        """Be on a core from now on; None: where it was, or on the first one."""
        if not self._cores:
            return
        wanted = core if core in self._cores else self._cores[0] if self.core is None else self.core
        if wanted != self.core:
            os.sched_setaffinity(0, {wanted})
            self.core = wanted

    def seek(self, core: int | None, limit_ns: int | None) -> bool:
        """Go to a core, and from there on to others until the reference takes at most so long, or time is up.

        Parameters
        ----------
        core : int or None
            Where to begin, as `go` takes it.
        limit_ns : int or None
            None: the first core is as good as any.

        Returns
        -------
        bool
            Whether it is another core than before, whose caches know nothing of this thread.
        """
        before = self.core
        self.go(core)
        if limit_ns:
            until = _now() + _LONGEST_NS
            while any(reference_ns() > limit_ns for _ in range(_IN_TURN)) and _now() < until:
                self._go_on()
        return self.core != before

    def best_ns(self) -> int:
        """Return what the reference takes at quiet moments, as far as some milliseconds on each core tell."""
        before = self.core
        times: list[int] = []
        for _ in range(max(1, len(self._cores))):
            self._go_on()
            times += [reference_ns() for _ in range(max(12, _SAMPLES // max(1, len(self._cores))))]
        self.go(before)
        return sorted(times)[int(_BEST * len(times))]

    def _go_on(self) -> None:
        if self._cores:
            place = self._cores.index(self.core) + 1 if self.core is not None else 0
            self.go(self._cores[place % len(self._cores)])
